# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of a forward link in frames: read, checked, and told to the kernel."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from helpers.job_code import load

from openbach_jobs import command, dvbs2, presets
from openbach_jobs.dvbs2 import ALL, MODCODS, RECEIVES, SENDS, SILENT, SLUGS, Change
from openbach_run.errors import InputError
from openbach_run.guest import agent
from openbach_run.link_checks import check_terminals, kernel_modules, read_es_n0_file
from openbach_run.topology.inventory import load_inventory
from openbach_run.web import links

qdisc = load("satcom_link", "dvbs2_qdisc")
satcom_link = load("satcom_link")
ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "kernel/modules/dvbs2"
FRAMED = ("geo_dvbs2", "geo_dvbs2_rcs2")
D_MS = 250
QUEUE = {"queue_bytes": 10_000, "queue_packets": 100}


def forward(orbit: str = "geo_dvbs2", **given: str) -> Any:
    preset = presets.find(orbit)
    text = ";".join(f"{name}={value}" for name, value in given.items()) or "none"
    texts = presets.in_force({"forward_values": text}, preset)
    return presets.forward_of(texts, preset)


@pytest.mark.parametrize("orbit", FRAMED)
def test_the_kernel_knows_every_value_that_it_is_told(orbit: str) -> None:
    line = forward(orbit).line(3, QUEUE, 7)
    told = [word.partition("=")[0] for word in line.split()]
    known = re.findall(r"\sVALUE\((\w+)\),", (KERNEL / "core.c").read_text())
    assert sorted(told) == sorted(known)
    assert all(word.partition("=")[2].isdecimal() for word in line.split())


def test_numbers_are_those_of_the_kernel() -> None:
    text = (KERNEL / "core.h").read_text()
    assert re.findall(r"#define DVBS2_MODCODS (\d+)", text) == [str(len(MODCODS))] == [str(SILENT)]
    assert (RECEIVES, SENDS) == (0, 1)
    (body,) = re.findall(r"enum dvbs2_kind {(.*?)};", text, re.DOTALL)
    assert re.findall(r"DVBS2_(RECEIVES|SENDS),", body) == ["RECEIVES", "SENDS"]
    for name, bytes_ in (("WHOLE", dvbs2.WHOLE_BYTES), ("START", dvbs2.START_BYTES)):
        assert f"#define {name}_BYTES {bytes_}\t" in (KERNEL / "core.c").read_text()


def test_a_satellites_modules_are_those_of_both_its_links() -> None:
    modules = {
        orbit: kernel_modules(ROOT / f"library/satellites/{orbit}.yml")
        for orbit in ("geo", "geo_rcs2", *FRAMED)
    }
    assert modules == {
        "geo": [],
        "geo_rcs2": ["dama"],
        "geo_dvbs2": ["dvbs2"],
        "geo_dvbs2_rcs2": ["dama", "dvbs2"],
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"symbols": "1"}, "forward.symbols: '1' is not a symbol rate from 1000 to 1e+09"),
        ({"es_n0_db": "loud"}, "forward.es_n0_db: 'loud' is not an Es/N0 in dB from -20 to 40"),
        ({"es_n0_db": "14/"}, "forward.es_n0_db: '' is not an Es/N0 in dB"),
        ({"es_n0_db": "14/-2"}, "with a margin of 0.5 dB nothing reaches terminal 1, as QPSK 1/4"),
        ({"modcod": "qpsk"}, "forward.modcod: 'qpsk' is neither acm nor one of qpsk_1_4"),
        ({"modcod": "32apsk_9_10"}, "32apsk_9_10 needs 16.05 dB, and terminal 0 has 14.5 dB"),
        ({"loop_ms": "400"}, "forward.loop_ms=400 is less than a report and a frame take: twice"),
        (
            {"modcod": "qpsk_1_2", "loop_ms": "600"},
            "forward.loop_ms has no effect with forward.mod",
        ),
        ({"modcod": "qpsk_1_2", "margin_db": "1"}, "forward.margin_db has no effect with forward"),
        ({"hysteresis_db": "11"}, "forward.hysteresis_db: '11' is not a ratio in dB from 0 to 10"),
        ({"label_bytes": "4"}, "forward.label_bytes: '4' is none of 0, 3, 6"),
        ({"fair": "all"}, "forward.fair: 'all' is none of bytes, time"),
        ({"speed": "5"}, "forward.speed: there is no such value; there are symbols, es_n0_db"),
    ],
)
def test_what_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        forward(**given)


def test_a_rate_takes_the_place_of_frames() -> None:
    texts = presets.in_force({"forward": "rate"}, presets.find("geo_dvbs2"))
    assert (texts["rate"], texts["forward_values"]) == ("39M", "none")
    assert presets.in_force({}, presets.find("geo_dvbs2"))["rate"] == "none"
    given = satcom_link.parse(["geo_dvbs2", "to_st", "to_gw", "run"])
    assert given.rate == pytest.approx(10e6 * SLUGS["32apsk_4_5"].efficiency)


def test_every_value_is_explained() -> None:
    page = (ROOT / "docs/method/forward-link.md").read_text()
    for name, one in dvbs2.VALUES.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert row.endswith(f"| {one.meaning} | {one.default} |")


# Es/N0 over time


def written(place: Path, text: str) -> Path:
    file = place / "es_n0.csv"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no row; the first line is time_s,terminal,es_n0_db"),
        ("time_s,terminal,es_n0_db\n", "there is no row"),
        ("time_s,rate_bps\n0,1\n", "line 1: the first line is time_s,terminal,es_n0_db"),
        ("time_s,es_n0_db\n0,1,2\n", "line 2: 3 cells under 2 columns"),
        ("time_s,es_n0_db\n0,loud\n", "line 2: could not convert string to float: 'loud'"),
        ("time_s,es_n0_db\n0,nan\n", "line 2: es_n0_db is from -100 to 100, not nan"),
        ("time_s,es_n0_db\n-1,5\n", "line 2: time_s is from 0 to 1e9, not -1"),
        ("# rain\ntime_s,terminal,es_n0_db\n0,2000,5\n", "line 3: terminal '2000' is no number"),
        ("time_s,terminal,es_n0_db\n0,st,5\n", "line 2: terminal 'st' is no number from 0 to"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        read_es_n0_file(written(tmp_path, text))


def test_the_page_takes_a_file_of_es_n0_and_says_its_mistakes(tmp_path: Path) -> None:
    kept = links.keep(tmp_path, "fade.csv", b"time_s,es_n0_db\n0,14\n")
    assert Path(kept).read_text() == "time_s,es_n0_db\n0,14\n"
    with pytest.raises(InputError, match=r"^rain\.csv, line 2: could not convert"):
        links.keep(tmp_path, "rain.csv", b"time_s,es_n0_db\n0,loud\n")
    assert links.all_links(tmp_path) == [kept]


def test_a_files_rows_become_changes_at_the_gateway(tmp_path: Path) -> None:
    """Frames that arrive at 10 s were sent 250 ms before; those of the new MODCOD arrive at 11 s."""
    rows = dvbs2.read_series(written(tmp_path, "time_s,terminal,es_n0_db\n10,1,4\n20,all,14.5\n"))
    changes = forward().changes(2, D_MS, rows)
    clear, robust, hysteresis = dvbs2.best(14), dvbs2.best(3.5), dvbs2.best(13.5)
    assert clear and robust and hysteresis
    sends = [(one.time_us, one.terminal, one.value) for one in changes if one.kind == SENDS]
    # The first one is in its MODCOD already as the sky clears up.
    assert sends == [
        (0, 0, MODCODS.index(clear)),
        (0, 1, MODCODS.index(clear)),
        (10_750_000, 1, MODCODS.index(robust)),
        (20_750_000, 1, MODCODS.index(hysteresis)),
    ]
    receives = [(one.time_us, one.terminal) for one in changes if one.kind == RECEIVES]
    assert receives == [(0, 0), (0, 1), (9_750_000, 1), (19_750_000, 1)]
    for one in changes:
        if one.kind == RECEIVES:
            es_n0_db = 4 if one.time_us == 9_750_000 else 14.5
            heard = [bool(one.value >> n & 1) for n in range(len(MODCODS))]
            assert heard == [modcod.es_n0_db <= es_n0_db for modcod in MODCODS]


def test_a_row_before_the_first_frame_arrives_counts_from_the_beginning() -> None:
    changes = forward().changes(1, D_MS, [(0.0, ALL, 14.5), (0.1, ALL, 4.0)])
    assert [one.time_us for one in changes if one.kind == RECEIVES] == [0]
    assert [one.time_us for one in changes if one.kind == SENDS] == [0, 850_000]


def test_nothing_is_sent_where_nothing_gets_through() -> None:
    changes = forward().changes(1, D_MS, [(5.0, "0", -3.0)])
    assert changes[-1] == Change(5_750_000, 0, SENDS, SILENT)
    assert Change(4_750_000, 0, RECEIVES, 0) in changes


def test_a_modcod_that_stays_is_sent_through_a_fade() -> None:
    changes = forward(modcod="8psk_3_4").changes(1, D_MS, [(5.0, "0", -3.0)])
    assert [one for one in changes if one.kind == SENDS] == [
        Change(0, 0, SENDS, MODCODS.index(SLUGS["8psk_3_4"]))
    ]


# The qdisc


def test_terminals_are_the_gateways_of_the_routes_by_their_addresses() -> None:
    routes = (
        "Iface Destination Gateway\nto_st 0001A8C0 03020A0A 0003\nto_st 0002A8C0 0A020A0A 0003\n"
        "to_st 0003A8C0 03020A0A 0003\nto_st 00020A0A 00000000 0001\nto_gw 00000000 02030A0A 0003\n"
    )
    assert qdisc.terminals_beyond("to_st", routes) == ["10.10.2.3", "10.10.2.10"]
    assert not qdisc.terminals_beyond("other", routes)


def test_values_of_a_terminal_that_is_not_there_end_the_job() -> None:
    with pytest.raises(SystemExit, match=r"forward\.es_n0_db is of 2 terminals, and there is 1"):
        qdisc.Link(forward(es_n0_db="14/5"), "q", D_MS, ["10.0.0.1"], QUEUE, [])
    with pytest.raises(SystemExit, match="es_n0_file is of 4 terminals, and there is 1"):
        qdisc.Link(forward(), "q", D_MS, ["10.0.0.1"], QUEUE, [(0.0, "3", 5.0)])


@pytest.mark.parametrize(
    ("own", "rows"), [("es_n0_db=2", "0,all,5"), ("es_n0_db=2", "9,0,6\n0,0,5"),
     ("es_n0_db=2", "1,all,5"), ("es_n0_db=2;modcod=qpsk_1_2", "0,all,5"), ("fair=time", "0,0,5")],
)  # fmt: skip
def test_an_es_n0_that_a_file_replaces_at_once_is_refused(own: str, rows: str) -> None:
    cell = {"orbit": FRAMED[0], "forward": "dvbs2", "forward_values": own, "es_n0_file": "e.csv"}
    text, satellites = f"time_s,terminal,es_n0_db\n{rows}\n", {FRAMED[0]: presets.find(FRAMED[0])}
    said = pytest.raises(InputError, match=r"forward\.es_n0_db has no effect beside es_n0_file")
    with said if own == "es_n0_db=2" and rows != "1,all,5" else nullcontext():
        check_terminals(cell, satellites, text, load_inventory(ROOT / "inventory.yml"))


def test_lines_are_written_in_pieces_that_the_kernel_takes() -> None:
    lines = [f"change {n} 0 0 268435455" for n in range(1000)]
    pieces = list(qdisc.pieces(lines))
    assert "".join(pieces) == "".join(f"{line}\n" for line in lines)
    assert max(map(len, pieces)) <= qdisc.WRITE_BYTES < 4096


def test_counters_that_do_not_add_up_fail_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    right = qdisc.ClassCounters(4, 400, 1, 100, 1, 100, 1, 100, 1, 100, 5, 9)
    right.check("forward link", "forward_terminal_0_BE")
    with pytest.raises(SystemExit) as ended:
        right._replace(bytes_lost=99).check("forward link", "forward_terminal_0_BE")
    assert ended.value.code == command.WRONG_FIGURES == agent.WRONG_FIGURES
    assert "forward_terminal_0_BE: the counters of the forward" in capsys.readouterr().err


def test_what_the_kernel_shows_is_read() -> None:
    text = (
        "strangers 2\nmodcod 24 10 1 5000 100 9\nterminal 0 24 10 1 5000 100 7\n"
        "class 0 BE 4 200 2 100 1 50 1 50 0 0 900 1900\n"
    )
    shown = qdisc.shown(text)
    assert shown.strangers == 2
    assert shown.modcods["32apsk_4_5"].lost_frames == 1
    assert shown.terminals["0"].queued_bytes == 7
    assert shown.classes["0", "BE"].packets_lost == 1
    assert shown.classes["0", "BE"].p95_us == 1900


def test_where_the_kernel_has_no_such_qdisc_the_job_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(qdisc, "STATE", tmp_path / "dvbs2")
    with pytest.raises(SystemExit, match="netem cannot do it; on a real platform use OpenSAND"):
        qdisc.check_kernel()
