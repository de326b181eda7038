# SPDX-License-Identifier: GPL-3.0-or-later
"""Link files: what is read, what is refused, and in which words.

What is written is read again.
"""

from __future__ import annotations

import io
import math
import os
import tracemalloc
from itertools import islice, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_jobs import dvbs2, link_file, netem
from openbach_jobs.link_file import Change, LinkFileError, State

HEADER = "time_s,direction,rate_bps,delay_ms,loss_pct\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "link.csv"


def changes(path: Path, text: str | bytes, most: int = 1000) -> list[Change]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(islice(link_file.read(path), most))


def test_a_row_is_the_state_of_one_direction_or_of_both(path: Path) -> None:
    text = f"# from a test\n{HEADER}0,forward,10e6,250,0\n0,return,2e6,250,1\n\n12.5,both,,251.5,\n"
    assert changes(path, text) == [
        Change(0, "forward", State(10e6, 250, 0)),
        Change(0, "return", State(2e6, 250, 1)),
        Change(12.5, "forward", State(10e6, 251.5, 0)),
        Change(12.5, "return", State(2e6, 251.5, 1)),
    ]


def test_columns_come_in_any_order_and_two_may_be_absent(path: Path) -> None:
    state = State(10e6, 25, 0)
    assert changes(path, "delay_ms, rate_bps ,time_s\r\n25,10e6,0\r\n") == [
        Change(0, "forward", state),
        Change(0, "return", state),
    ]


def test_a_spreadsheets_byte_order_mark_is_no_part_of_the_header(path: Path) -> None:
    assert len(changes(path, b"\xef\xbb\xbf" + HEADER.encode() + b"0,both,1e6,25,0\n")) == 2


def test_what_changes_nothing_is_left_out(path: Path) -> None:
    played = changes(
        path, HEADER + "0,both,1e6,25,0\n1,forward,1e6,25,0\n2,both,1e6,25,\n3,return,0,25,0\n"
    )
    assert [(one.time_s, one.direction) for one in played] == [
        (0, "forward"),
        (0, "return"),
        (3, "return"),
    ]


def test_a_file_that_repeats_begins_again(path: Path) -> None:
    played = changes(
        path, "# repeat_s: 60\n" + HEADER + "0,both,1e6,25,0\n30,forward,2e6,25,0\n", most=6
    )
    assert [(one.time_s, one.direction, one.state.rate_bps) for one in played] == [
        (0, "forward", 1e6),
        (0, "return", 1e6),
        (30, "forward", 2e6),
        (60, "forward", 1e6),
        (90, "forward", 2e6),
        (120, "forward", 1e6),
    ]


@pytest.mark.parametrize("end", ["60,both,,,\n", ""])
def test_a_link_begins_later_and_goes_on_from_the_begin_of_its_file(path: Path, end: str) -> None:
    repeats = "" if end else "# repeat_s: 60\n"
    path.write_text(
        f"{repeats}{HEADER}0,return,1e6,25,0\n0,forward,1e6,25,0\n30,forward,2e6,25,0\n{end}"
    )
    played = [
        (one.time_s, one.direction, one.state.rate_bps)
        for one in islice(link_file.read(path, 40.0), 5)
    ]
    assert played == [
        (0, "forward", 2e6),
        (0, "return", 1e6),
        (20, "forward", 1e6),
        (50, "forward", 2e6),
        (80, "forward", 1e6),
    ]
    assert [one.time_s for one in islice(link_file.read(path, 30.0), 3)] == [0, 0, 30]


def test_a_constant_link_that_begins_later_ends(path: Path) -> None:
    path.write_text(HEADER + "0,both,1e6,25,0\n9,both,,,\n")
    assert len(list(link_file.read(path, 5.0))) == 2


def test_a_file_of_rates_leaves_the_delay_to_the_scenario(path: Path) -> None:
    path.write_text("# of a test\ntime_s,rate_bps\n0,1e6\n70,2e6\n")
    summary = link_file.check(path)
    assert not summary.has_delay and not link_file.has_delay(path)
    assert [summary.begins_by_seed(start) for start in ("auto", "seed", "0")] == [True, True, False]
    assert link_file.has_delay(path.with_name("none.csv")), "whoever reads it says so"


def test_a_constant_link_that_repeats_ends(path: Path) -> None:
    assert len(changes(path, "# repeat_s: 1\n" + HEADER + "0,both,1e6,25,0\n")) == 2


@pytest.mark.parametrize(
    ("text", "wrong"),
    {
        "": (
            "link.csv: empty: a link file begins with the header"
            " time_s,direction,rate_bps,delay_ms,loss_pct"
        ),
        "# only a comment\n": "link.csv: empty",
        HEADER: "link.csv: no row of direction forward: its first row must be at time_s 0",
        f"{HEADER}0,forward,1e6,25,0\n": "link.csv: no row of direction return",
        f"{HEADER}0,forward,1e6,25,0\n1,return,1e6,25,0\n": "line 3: the first row of direction return is at 1 s",
        f"{HEADER}0,both,1e6,25,0\n4,both,2e6,25,0\n3.2,both,1e6,25,0\n": "line 4: time_s is 3.2 after 4: times must not go back",
        f"{HEADER}0,both,1e6,25,0\n4,both,2e6,25,0\n4,return,1e6,25,0\n": "line 4: a second row of direction return at 4 s",
        f"{HEADER}0,both,,25,0\n": "line 2, column rate_bps: empty, but there is no row of direction forward before it",
        f"{HEADER}0,both,1e6,nan,0\n": "line 2, column delay_ms: nan is not a finite number from 0 on",
        f"{HEADER}0,both,inf,25,0\n": "line 2, column rate_bps: inf is not a finite number",
        f"{HEADER}0,both,1e6,-1,0\n": "line 2, column delay_ms: -1 is not a finite number",
        f"{HEADER}0,both,1e6,2:5,0\n": "line 2, column delay_ms: '2:5' is not a number",
        f"{HEADER},both,1e6,25,0\n": "line 2, column time_s: '' is not a number",
        f"{HEADER}0,up,1e6,25,0\n": "line 2, column direction: 'up' is none of forward, return, both",
        f"{HEADER}0,both,10,25,0\n": "line 2, column rate_bps: 10: is this Mbit/s?",
        f"{HEADER}0,both,1e6,250000,0\n": "line 2, column delay_ms: 250000: are these microseconds?",
        f"{HEADER}0,both,1e6,25,101\n": "line 2, column loss_pct: 101: loss_pct is a percentage",
        f"{HEADER}0,both,1e6,25\n": "line 2: 4 cells; the header has 5",
        "time_ms,rate_bps,delay_ms\n": "line 1: unknown column 'time_ms': give time_s: divide by 1000",
        "time_s,rate_mbps,delay_ms\n": "line 1: unknown column 'rate_mbps': give rate_bps: multiply by 1000000",
        "time_s,rate_bps,delay_s\n": "line 1: unknown column 'delay_s': give delay_ms: multiply by 1000",
        "time_s,rate_bps,delay_ms,loss\n": "line 1: unknown column 'loss': give loss_pct",
        "time_s,rate_bps,delay_ms,colour\n": "line 1: unknown column 'colour': known are time_s,",
        "time_s,delay_ms\n": "line 1: no column rate_bps; the header is time_s,",
        "time_s,rate_bps,delay_ms,delay_ms\n": "line 1: a column is there twice",
        f"# repeat_s: 3\n{HEADER}0,both,1e6,25,0\n3,both,2e6,25,0\n": "link.csv: repeat_s is 3, but the last row is at 3: it must be later",
        "# repeat_s: soon\n" + HEADER: "line 1, column repeat_s: 'soon' is not a number",
        "# repeat_s: 3\n# repeat_s: 4\n" + HEADER: "line 2: a second repeat_s",
        b"\x7fELF\x02\x01\x01\x00": "line 1: unknown column '\\x7fELF",
        b"\xff\xfe0\x00": "line 1: not UTF-8",
        b"\x00" * 5000: "line 1: a line of more than 4096 bytes: this is no link file",
    }.items(),
)
def test_what_is_wrong_is_named_with_its_place(path: Path, text: str | bytes, wrong: str) -> None:
    with pytest.raises(LinkFileError) as refused:
        changes(path, text)
    assert wrong in str(refused.value)
    with pytest.raises(LinkFileError) as checked:
        link_file.check(path)
    assert str(checked.value) == str(refused.value)


def test_what_is_no_file_is_refused(path: Path) -> None:
    with pytest.raises(LinkFileError, match=r"link\.csv: No such file"):
        link_file.check(path)
    os.mkfifo(path)
    with pytest.raises(LinkFileError, match="not a regular file"):
        link_file.check(path)
    with pytest.raises(LinkFileError, match="not a regular file"):
        link_file.check(path.parent)


def test_a_file_of_1_gb_is_refused_unread(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**9)
    with pytest.raises(LinkFileError, match="953 MiB: 64 MiB are the most"):
        link_file.check(path)


def test_memory_does_not_grow_with_the_file(path: Path) -> None:
    path.write_text(
        HEADER + "".join(f"{second},both,1e6,{second % 7},0\n" for second in range(20_000))
    )
    link_file.check(path)  # Python keeps the memory of some tuples that are no longer used
    tracemalloc.start()
    link_file.check(path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < path.stat().st_size / 4


def test_the_summary_is_over_time(path: Path) -> None:
    path.write_text(
        "# repeat_s: 40\n"
        + HEADER
        + "0,forward,10e6,20,0\n0,return,2e6,30,0\n10,forward,0,20,0\n20,forward,4e6,40,\n"
    )
    summary = link_file.check(path)
    assert (summary.duration_s, summary.repeats, summary.rows) == (40, True, 4)
    assert summary.forward.rate_bps == link_file.Range(0, (100e6 + 0 + 80e6) / 40, 10e6)
    assert summary.forward.delay_ms == link_file.Range(20, 30, 40)
    assert (summary.forward.outages, summary.forward.outage_s) == (1, 10)
    assert summary.mean_rtt_ms == 60
    assert summary.first_rate_bps == 10e6
    assert summary.back.first_rate_bps == 2e6


def test_a_link_that_begins_with_an_outage_has_a_first_rate(path: Path) -> None:
    path.write_text(HEADER + "0,both,0,20,0\n1,both,5e6,20,0\n")
    assert link_file.check(path).first_rate_bps == 5e6
    path.write_text(HEADER + "0,forward,1e6,20,0\n0,return,0,20,0\n")
    with pytest.raises(LinkFileError, match="column rate_bps: 0 in every row of direction return"):
        link_file.check(path)


@given(st.binary())
def test_any_bytes_are_changes_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes
) -> None:
    read_or_refused(tmp_path_factory.getbasetemp() / "junk.csv", junk)


@given(st.lists(st.text("0123456789.,-+enaif #_:repat\n\r\x00\u00b9\ufeff"), max_size=20))
def test_any_rows_are_changes_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, rows: list[str]
) -> None:
    rows = [HEADER + "0,both,1e6,25,0", *rows]
    read_or_refused(tmp_path_factory.getbasetemp() / "rows.csv", "\n".join(rows).encode())


def read_or_refused(path: Path, junk: bytes) -> None:
    try:
        played = changes(path, junk, most=100)
        assert all(before.time_s <= after.time_s for before, after in pairwise(played))
    except LinkFileError as error:
        assert str(path) in str(error)


STATES = st.builds(
    State,
    st.just(0.0) | st.floats(1000, 1e9),
    st.floats(0, 10e3),
    st.floats(0, 100, allow_subnormal=False),
)


@st.composite
def links(draw: st.DrawFn) -> list[Change]:
    """A link as read() gives it: both directions at 0, then only what changes something."""
    played: list[Change] = []
    states: dict[str, State] = {}
    for time_s in [0.0, *sorted(draw(st.sets(st.floats(1e-9, 9e8), max_size=8)))]:
        for direction in ("forward", "return"):
            state = draw(STATES)
            if (time_s == 0 or draw(st.booleans())) and states.get(direction) != state:
                states[direction] = state
                played.append(Change(time_s, direction, state))
    return played


@given(links(), st.sampled_from([1e9, math.inf]))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, played: list[Change], until_s: float
) -> None:
    out = io.StringIO()
    link_file.write(played, until_s, ["made by a test\nin two lines"], out)
    assert changes(tmp_path_factory.getbasetemp() / "written.csv", out.getvalue()) == played


def test_what_both_directions_have_in_common_is_one_row_and_the_last_tells_the_length() -> None:
    one, other = State(10e6, 250, 0), State(5e6, 250, 0)
    out = io.StringIO()
    played = [
        Change(0, "forward", one),
        Change(0, "return", one),
        Change(2, "return", one),
        Change(5, "return", other),
    ]
    link_file.write(played, 5, ["x"], out)
    assert out.getvalue() == f"# x\n{HEADER}0,both,10000000,250,0\n5,both,,,\n"
    out = io.StringIO()
    link_file.write(played, math.inf, ["repeat_s: 7"], out)
    assert (
        out.getvalue() == f"# repeat_s: 7\n{HEADER}0,both,10000000,250,0\n5,return,5000000,250,0\n"
    )


@pytest.mark.parametrize("cell", ["10_000_000", "１０００００００"])
def test_a_number_is_in_plain_digits(tmp_path: Path, cell: str) -> None:
    for at, row in enumerate([f"{cell},both,10000000,250,0", f"0,both,{cell},250,0"]):
        with pytest.raises(link_file.LinkFileError, match="is not a finite number from 0 on"):
            changes(tmp_path / f"{at}.csv", f"{HEADER}{row}\n")
    for row in (f"{cell},20", f"0,{cell}"):
        (tmp_path / "es_n0.csv").write_text(f"time_s,es_n0_db\n{row}\n")
        with pytest.raises(ValueError, match="is from"):
            dvbs2.read_series(tmp_path / "es_n0.csv")
    with pytest.raises(ValueError, match="is not a rate"):
        netem.number(cell, 0, 1e12, "a rate")
