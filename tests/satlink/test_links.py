# SPDX-License-Identifier: GPL-3.0-or-later
"""Link files from elsewhere, and the link that makes them."""

from __future__ import annotations

import gzip
import json
import re
from itertools import islice, pairwise, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_jobs import dvbs2, link_file
from openbach_run.errors import InputError
from openbach_run.link_checks import read_link_file
from satlink import acm, imported, mahimahi, opensand
from satlink import command as link
from satlink.formats import table
from satlink.measured import Options, Probe

TRACE = "1\n1\n3\n10\n"


def file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def probes_in(path: Path, interval_s: float | None) -> list[Probe]:
    probes = table.read(path, Options(interval_s)).probes
    assert probes is not None
    return probes.rows()


def changes_of(path: Path, bin_s: float | None) -> list[link_file.Change]:
    part = imported.Part(path.name, "both", table.read(path, Options(1.0)))
    return list(imported.changes(imported.link_of([part], imported.Options(bin_s, 10e6))))


def test_a_trace_is_its_packets_per_bin(tmp_path: Path) -> None:
    """4 packets of 12 000 bits in 10 ms; the shorter trace repeats: 2 in its 5 ms."""
    up, down = (
        mahimahi.read_trace(file(tmp_path, "up", "2\n5\n")),
        mahimahi.read_trace(file(tmp_path, "down", TRACE)),
    )
    changes = list(mahimahi.changes(up, down, 5, 20.0))
    rates = {
        name: [one.state.rate_bps for one in changes if one.direction == name]
        for name in ("forward", "return")
    }
    assert rates == {
        "forward": [3 * 12_000 / 0.005, 12_000 / 0.005],
        "return": [2 * 12_000 / 0.005] * 2,
    }


@given(st.lists(st.integers(1, 500), min_size=1, max_size=50).map(sorted), st.integers(1, 100))
def test_no_packet_of_a_trace_is_lost_in_the_bins(times_ms: list[int], bin_ms: int) -> None:
    rates = mahimahi.rates_bps(times_ms, bin_ms, times_ms[-1])
    widths = [min(bin_ms, times_ms[-1] - number * bin_ms) for number in range(len(rates))]
    carried = sum(rate * width / 1000 for rate, width in zip(rates, widths, strict=True))
    assert carried == pytest.approx(12_000 * len(times_ms))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no packet after 0 ms"),
        ("0\n", "no packet"),
        ("1\nx\n", "line 2: 'x' is not a whole number"),
        ("5\n3\n", "line 2: 3 after 5: times must not go back"),
        ("-1\n", "line 1"),
    ],
)
def test_a_trace_that_is_none_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        mahimahi.read_trace(file(tmp_path, "trace", text))


def test_delays_are_interpolated_as_opensand_does(tmp_path: Path) -> None:
    delays = opensand.read_delays(file(tmp_path, "delays", "# time delay\n2 10\n5 20\n"))
    assert [opensand.delay_ms(delays, time) for time in range(8)] == [
        10,
        10,
        10,
        13,
        16,
        20,
        20,
        20,
    ]
    last = list(opensand.changes(delays, delays, 500, 10e6))[-1]
    assert (last.time_s, last.state.delay_ms) == (2.5, 40)


@pytest.mark.parametrize(
    ("text", "said"), [("", "no delay"), ("1 2 3\n", "line 1"), ("1 -2\n", "line 1")]
)
def test_delays_that_are_none_are_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        opensand.read_delays(file(tmp_path, "delays", text))


def test_a_modcod_is_the_most_efficient_that_gets_through() -> None:
    assert dvbs2.best(-2.36) is None
    best = [dvbs2.best(es_n0_db) for es_n0_db in (-2.35, 6.3, 10.5, 30)]
    assert [one and one.name for one in best] == [
        "QPSK 1/4",
        "8PSK 3/5",
        "16APSK 3/4",
        "32APSK 9/10",
    ]


@given(st.integers(0, 1000), st.floats(0, 20), st.floats(0, 2))
def test_what_is_sent_with_gets_through_with_the_margin(
    seed: int, median_db: float, sigma: float
) -> None:
    weather = acm.Acm(seed=seed, median_db=median_db, sigma=sigma, correlation_s=100)
    clear_sky = dvbs2.best(weather.clear_sky_es_n0_db - weather.margin_db)
    assert clear_sky
    for fade_db, used in islice(
        zip(acm.fades_db(weather), acm.modcods(weather), strict=False), 300
    ):
        if used:
            assert used.es_n0_db <= weather.clear_sky_es_n0_db - fade_db - weather.margin_db
            assert used.efficiency <= clear_sky.efficiency


def test_the_rain_is_the_same_again_and_its_median_is_the_one_asked_for() -> None:
    weather = acm.Acm(correlation_s=5, median_db=3)
    fades = list(islice(acm.fades_db(weather), 20_000))
    assert fades == list(islice(acm.fades_db(weather), 20_000))
    assert sorted(fades)[10_000] == pytest.approx(3, rel=0.1)
    changes = list(takewhile(lambda change: change.time_s < 1000, acm.changes(weather)))
    forward = [change.state.rate_bps for change in changes if change.direction == "forward"]
    assert all(before != after for before, after in pairwise(forward))
    assert (
        9e6 < max(forward) <= 10e6
    )  # the hysteresis keeps the best MODCOD for a sky that is clearer still


PING = """\
PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.
[1000.600000] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=600 ms
no answer yet for icmp_seq=2
[1001.020000] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=64 time=620 ms
[1001.030000] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=64 time=630 ms (DUP!)

--- 192.0.2.1 ping statistics ---
4 packets transmitted, 2 received, 50% packet loss, time 606ms
"""


def trip(number: int, rtt_ms: float, lost: str = "false") -> dict[str, object]:
    """A round trip as irtt 0.9 writes it, as far as it is read; one probe every 100 ms."""
    delay = {} if lost != "false" else {"rtt": int(rtt_ms * 1e6)}
    return {
        "lost": lost,
        "delay": delay,
        "timestamps": {"client": {"send": {"monotonic": number * 10**8}}},
    }


def test_pings_are_probes_and_missing_numbers_are_lost(tmp_path: Path) -> None:
    """Probe 2 has no answer, probe 4 is known from the summary.

    The times say that one is sent every 0.2 s.
    """
    probes = probes_in(file(tmp_path, "ping", PING), 1.0)
    assert [
        (round(one.time_s, 6), round(one.rtt_ms), one.lost) for one in probes if not one.lost
    ] == [
        (0.0, 600, 0),
        (0.4, 620, 0),
    ]
    assert [(round(one.time_s, 6), one.lost) for one in probes if one.lost] == [(0.2, 1), (0.6, 1)]
    first, *_ = changes_of(tmp_path / "ping", 1.0)
    assert first.state.delay_ms == 305.0
    assert 1 - (1 - first.state.loss_pct / 100) ** 2 == pytest.approx(0.5, abs=1e-4)


def test_a_ping_without_times_has_the_interval_that_is_given(tmp_path: Path) -> None:
    text = "".join(
        f"64 bytes from h: icmp_seq={number} ttl=1 time=2.5 ms\n" for number in (65534, 65535, 0, 1)
    )
    assert [one.time_s for one in probes_in(file(tmp_path, "ping", text), 0.5)] == [
        0.0,
        0.5,
        1.0,
        1.5,
    ]


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_irtt_knows_the_direction_of_a_loss(tmp_path: Path, suffix: str) -> None:
    trips = [trip(0, 40), trip(1, 0, "true_down"), trip(2, 44), trip(3, 0, "true_up")]
    text = json.dumps({"round_trips": trips}).encode()
    path = tmp_path / f"irtt.{suffix}"
    path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    changes = {one.direction: one.state for one in changes_of(path, 1.0)}
    assert {one.delay_ms for one in changes.values()} == {21.0}
    assert {name: one.loss_pct for name, one in changes.items()} == {
        "return": 25.0,
        "forward": 33.3333,
    }


MICROSECONDS = st.integers(0, 100_000_000).map(lambda microseconds: microseconds / 1e6)
"""What a clock of a measurement tells apart."""


@given(
    st.lists(st.tuples(MICROSECONDS, st.none() | st.floats(0, 5000)), min_size=1, max_size=60),
    st.none() | st.floats(0.01, 10),
)
def test_any_probes_of_a_csv_file_make_a_link_file(
    rows: list[tuple[float, float | None]], bin_s: float | None
) -> None:
    with TemporaryDirectory() as name:
        text = "time_s,rtt_ms\n" + "".join(
            f"{at_s},{'' if rtt_ms is None else rtt_ms}\n" for at_s, rtt_ms in rows
        )
        path = file(Path(name), "rtts.csv", text)
        words = [
            "rtt",
            str(path),
            *([] if bin_s is None else ["--bin-s", str(bin_s)]),
            "-o",
            f"{name}/link.csv",
        ]
        if all(rtt_ms is None for _, rtt_ms in rows):
            with pytest.raises(InputError, match="no round-trip time in it"):
                link.main(words)
        else:
            link.main(words)
            delays_ms = [change.state.delay_ms for change in changes_of(path, bin_s)]
            known = [rtt_ms / 2 for _, rtt_ms in rows if rtt_ms is not None]
            assert min(known) - 1e-6 <= min(delays_ms) <= max(delays_ms) <= max(known) + 1e-6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no round-trip time"),
        ("nothing like it\n", "no round-trip time"),
        ("{", "it is cut off, or not JSON"),
        ('{"round_trips": [{"lost": "perhaps"}]}', "not the JSON"),
        ("time_s,rtt_ms\n1\n", "line 2: 1 cells"),
        ("time_s,rtt_ms\nx,1\n", "line 2, column time_s: 'x'"),
        ("rtt_ms,loss\n", "line 1: the columns are rtt_ms, loss"),
        ("time_s,rtt_ms\n0,-1\n", "column rtt_ms: '-1'"),
        (
            "64 bytes from h: icmp_seq=1 time=1 ms\n90000000 packets transmitted\n",
            "at most 10000000 are read",
        ),
    ],
)
def test_what_has_no_round_trip_times_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        probes_in(file(tmp_path, "measured", text), 1.0)


def pings(rtts_ms: list[float | None], first: int = 1) -> str:
    """What `ping -i 1` writes of these answers; None is none. As root it ends with a summary."""
    answers = "".join(
        f"64 bytes from h: icmp_seq={number} ttl=64 time={rtt_ms:g} ms\n"
        for number, rtt_ms in enumerate(rtts_ms, first)
        if rtt_ms is not None
    )
    return f"PING h (192.0.2.1) 56(84) bytes of data.\n{answers}"


def link_of(tmp_path: Path, text: str, *words: str) -> list[link_file.Change]:
    path = file(tmp_path, "measured", text)
    assert (
        link.main(
            ["rtt", str(path), "-o", str(tmp_path / "link.csv"), "--rate-bps", "10e6", *words]
        )
        == 0
    )
    return list(link_file.read(tmp_path / "link.csv"))


SUMMARY = (
    "\n--- h ping statistics ---\n{} packets transmitted, {} received, 0% packet loss, time {}ms\n"
)


@pytest.mark.parametrize(
    "text",
    [
        pings([40, 41]) + pings([90, 91]),
        pings([40, 41]) + SUMMARY.format(2, 2, 1001) + pings([90, 91]) + SUMMARY.format(2, 2, 1001),
        (pings([40, 41]) + pings([90, 91])).replace(
            "PING h (192.0.2.1) 56(84) bytes of data.\n", ""
        ),
        "time_s,rtt_ms\n0,40\n1,41\n0,90\n1,91\n",
        "time_s,rtt_ms\n0,40\n1,41\ntime_s,rtt_ms\n7,90\n8,91\n",
    ],
)
def test_several_runs_in_a_file_follow_each_other_and_that_is_said(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = link_of(tmp_path, text)
    delays = [
        (round(one.time_s, 2), one.state.delay_ms) for one in changes if one.direction == "forward"
    ]
    assert [one for _, one in delays] == [20, 20.5, 45, 45.5]
    assert [at_s for at_s, _ in delays] == pytest.approx([0, 1, 2, 3], abs=0.02)
    assert re.search(
        "2 (runs of ping|measurements) are in the file: one follows the other",
        capsys.readouterr().out,
    )


def test_a_late_answer_is_no_other_run(tmp_path: Path) -> None:
    lines = pings([40, 41, 42, 43]).splitlines(keepends=True)
    swapped = "".join([lines[0], lines[1], lines[3], lines[2], lines[4]])
    assert [one.rtt_ms for one in probes_in(file(tmp_path, "ping", swapped), None)] == [
        40,
        41,
        42,
        43,
    ]


def test_runs_at_the_same_time_are_refused(tmp_path: Path) -> None:
    runs = "".join(
        f"[{at_s}] 64 bytes from h: icmp_seq={number} ttl=64 time=40 ms\n"
        for at_s in (1000.0, 1000.5)
        for number, at_s in enumerate((at_s, at_s + 1), 1)
    )
    with pytest.raises(ValueError, match="two runs of ping were at the same time"):
        probes_in(file(tmp_path, "ping", runs), None)


def test_an_answer_that_is_not_understood_is_not_lost(tmp_path: Path) -> None:
    text = pings([40]) + "64 bytes from h: icmp_seq=2 ttl=64\n"
    with pytest.raises(ValueError, match=r"line 3: .* is no answer that is understood"):
        probes_in(file(tmp_path, "ping", text), None)
    comma = pings([40]).replace("time=40 ms", "time=40,5 ms")
    assert probes_in(file(tmp_path, "ping", comma), None)[0].rtt_ms == 40.5


def test_ping_says_how_often_it_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = pings([40, 41, 42]) + SUMMARY.format(3, 3, 400)
    assert [one.time_s for one in probes_in(file(tmp_path, "ping", text), None)] == [
        0,
        0.2,
        0.4,
    ]
    link_of(tmp_path, pings([40, 41, 42]))
    assert (
        "assumed: ping has not written when it sent: a probe each 1 s (--interval-s)"
        in capsys.readouterr().out
    )


def losses_pct(changes: list[link_file.Change]) -> list[float]:
    return [one.state.loss_pct for one in changes if one.direction == "forward"]


def test_one_lost_ping_is_no_outage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """600 pings, one a second, 12 of them lost one by one: 1 % in each direction, at any time."""
    text = pings([None if number % 50 == 7 else 40.0 for number in range(600)])
    assert set(losses_pct(link_of(tmp_path, text))) == {1.0051}
    assert "12 lost: 0 in 0 outages" in capsys.readouterr().out
    assert 100.0 in losses_pct(link_of(tmp_path, text, "--bin-s", "1"))
    assert "in bins of 1 s, which hold 1 probes: too few for a rate" in capsys.readouterr().out


def test_lost_pings_in_a_row_are_an_outage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = {7, 57, 107, 157, *range(300, 310)}
    changes = link_of(tmp_path, pings([None if number in lost else 40.0 for number in range(600)]))
    dark = [(one.time_s, one.state.loss_pct) for one in changes if one.direction == "forward"]
    assert [at_s for at_s, loss_pct in dark if loss_pct == 100] == [300.0]
    assert (
        dark[0][1] == dark[-1][1] == pytest.approx(100 * (1 - (586 / 590) ** 0.5), abs=1e-3)
        and len(dark) == 3
    )
    assert dark[-1][0] == 310.0
    assert "14 lost: 10 in 1 outages" in capsys.readouterr().out


def test_loss_that_changes_does_so_in_the_link_file(tmp_path: Path) -> None:
    found = losses_pct(
        link_of(
            tmp_path,
            pings(
                [
                    None if number % (100 if number < 3000 else 10) == 7 else 40.0
                    for number in range(4000)
                ]
            ),
        )
    )
    assert found[0] < 0.8 and found[-1] > 4 and 100.0 not in found


def test_irtt_with_a_loss_in_one_direction_loses_in_that_one(tmp_path: Path) -> None:
    trips = [
        trip(number, 40, "true_down" if number % 20 == 3 else "false") for number in range(600)
    ]
    path = file(tmp_path, "irtt.json", json.dumps({"round_trips": trips}))
    found = {(one.direction, one.state.loss_pct) for one in changes_of(path, None)}
    assert found == {("forward", 5.0), ("return", 0.0)}


MADE = {
    "leo": ["--duration-s", "60"],
    "acm": ["--duration-s", "600", "--correlation-s", "50", "--median-db", "6"],
    "mahimahi": ["up", "down"],
    "opensand": ["delays", "--loop"],
    "rtt": ["ping", "--loop"],
}


@pytest.mark.parametrize("generator", MADE)
def test_a_made_file_is_a_link_file_and_is_drawn(
    generator: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    file(tmp_path, "up", TRACE)
    file(tmp_path, "down", TRACE)
    file(tmp_path, "delays", "0 10\n5 20\n")
    file(tmp_path, "ping", PING)
    assert link.main([generator, *MADE[generator], "-o", "link.csv"]) == 0
    first = (tmp_path / "link.csv").read_bytes()
    assert link.main([generator, *MADE[generator], "-o", "link.csv"]) == 0
    assert (tmp_path / "link.csv").read_bytes() == first
    assert read_link_file(tmp_path / "link.csv").startswith(f"# openbach-run link {generator}\n")
    capsys.readouterr()
    assert link.main(["check", "link.csv"]) == 0
    assert "mean RTT" in capsys.readouterr().out
    assert link.main(["plot", "link.csv", "-o", "link.svg"]) == 0
    assert (
        b"one-way delay" in (tmp_path / "link.svg").read_bytes()
        or (tmp_path / "link.svg").stat().st_size > 5000
    )


def test_the_rain_as_es_n0_is_that_of_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A terminal whose Es/N0 is the file's is sent the MODCODs of `link acm`, after the loop."""
    monkeypatch.chdir(tmp_path)
    words = ["acm", "--es-n0", "--terminal", "1", "--seed", "7", "--correlation-s", "60"]
    assert link.main([*words, "-o", "fade.csv"]) == 0
    assert link.main(["check", "fade.csv"]) == 0
    assert capsys.readouterr().out.count("600 rows of terminal 1, Es/N0") == 2
    assert link.main(["plot", "fade.csv", "-o", "fade.svg"]) == 0
    assert b"Es/N0" in (tmp_path / "fade.svg").read_bytes()
    rows = dvbs2.read_series("fade.csv")
    texts = dvbs2.in_force({"es_n0_db": f"{rows[0][2]}"}, {})
    changes = dvbs2.read(texts, 250).changes(2, 250, rows)
    sent = [one for one in changes if one.terminal == 1 and one.kind == dvbs2.SENDS]
    weather = acm.Acm(seed=7, correlation_s=60)
    used = list(islice(acm.modcods(weather), 600))
    # The first choice has no hysteresis here, so both are the same from the first fall on.
    before: dvbs2.Modcod | None = None
    wanted: list[tuple[int, dvbs2.Modcod | None]] = []
    for step, one in enumerate(used):
        if one != before and step:
            wanted.append((round(step * 1e6) + 750_000, one))
        before = one
    found = [(one.time_us, dvbs2.MODCODS[one.value]) for one in sent if one.time_us]
    assert len(found) > 10
    assert found[-10:] == wanted[-10:]


def test_an_outage_without_end_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, count in (("", 2), ("# repeat_s: 6\n", 0)):
        (tmp_path / "link.csv").write_text(f"{text}time_s,rate_bps,delay_ms\n0,1e7,250\n5,0,\n")
        assert link.main(["check", str(tmp_path / "link.csv")]) == 0
        said = capsys.readouterr().out
        assert said.count("with link_start=0 its last outage has no end") == count


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["leo", "--elevation-mask-deg", "95"], "elevation_mask_deg is 95"),
        (["leo", "--planes", "1", "--phasing", "0"], "no satellite stands 25 degrees high"),
        (["leo", "--duration-s", "0"], "--duration-s 0"),
        (["acm", "--clear-sky-es-n0-db", "-10"], "QPSK 1/4"),
        (["acm", "--rate-bps", "5M", "--return-rate-bps", "1"], "return_rate_bps is 1"),
        (["acm", "--terminal", "1"], "--terminal has no effect without --es-n0"),
        (["acm", "--es-n0", "--terminal", "-1"], "--terminal -1: it is a number from 0 to 1023"),
        (["acm", "--es-n0", "--delay-ms", "9"], "--delay-ms has no effect with --es-n0"),
        (["acm", "--es-n0", "--step-s", "0.01", "--duration-s", "1e5"], "more than 400000 rows"),
        (["mahimahi", "absent", "absent"], "absent"),
        (["compare", "leo", "geo_rcs2"], "geo_rcs2: only links of rates are compared"),
        (["compare", "geo_dvbs2", "leo"], "geo_dvbs2: only links of rates are compared"),
        (["opensand", "absent"], "absent"),
    ],
)
def test_what_cannot_be_made_leaves_no_file(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        link.main([*words, "-o", "link.csv"])
    assert not list(tmp_path.iterdir())
