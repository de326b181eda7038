# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables: what stands in a cell, and the four forms."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from helpers.records import RECORD, campaign, record
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from openbach_jobs import presets
from openbach_run import progress
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.reading import plan
from openbach_run.campaign.table import MEDIANS, MOST_COLUMNS, campaign_table, not_sent
from openbach_run.clock import REAL
from openbach_run.guest.main import HOST_KERNEL
from openbach_run.link_checks import has_random_link
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.measures import EVERY_STATISTIC
from openbach_run.openbach.reading import parse_scenario
from openbach_run.paths import REPOSITORY
from openbach_run.report.cells import Campaigns, Cell, Run
from openbach_run.report.csv_files import cells_csv
from openbach_run.report.matrix import read_rows
from openbach_run.results.files import as_csv, as_json, write_parquet
from openbach_run.results.intervals import estimate, figure, without_brackets
from openbach_run.results.least_transfer_time import notes, too_short_by_s
from openbach_run.results.record import NOT_LOCKED, Record
from openbach_run.results.tables import Table, as_html, as_latex, as_markdown, as_text, plain
from openbach_run.web.curves import Curve
from openbach_run.web.curves import as_csv as curves_csv


def test_a_figure_has_the_tail_where_there_are_seeds_enough() -> None:
    times = [33.0] * 17 + [81.0, 82.0, 128.5]
    assert figure(estimate(times), tail=True) == "33.00 [33.00–33.00], p90 81.00 (to 128.50)"
    assert figure(estimate(times)) == "33.00 [33.00–33.00]"
    assert figure(estimate(times[-5:]), tail=True) == "81.00 [33.00–128.50]"


def test_no_interval_is_printed_where_there_was_no_chance() -> None:
    """One number, and a line that says why; another where chance was, and touched nothing."""
    assert figure(estimate(5 * [27.34]), tail=True) == "27.34"
    assert figure(estimate(20 * [27.34]), tail=True) == "27.34"
    swept = campaign((1, 2, 3, 4, 5), vpn=("none",), loss=("0", "0.1", "1"))
    done = []
    for loss, seed in itertools.product(swept.values["loss"], swept.seeds):
        time_s = 27.34 + float(loss) * seed if loss == "1" else 27.34
        one = record(vpn="none", loss=loss)
        done.append(replace(one, seed=seed, measures={"transfer_time_s": time_s}))
    shown = campaign_table(swept, done)
    assert shown.rows == [["27.34", "27.34", "30.34 [28.34–32.34]"]]
    assert shown.note.split("; ")[:3] == [
        "median [least to greatest] of 5 seeds",
        "no brackets: all seeds gave these digits",
        "no brackets in 1 of the cells with chance: nothing random touched their seeds",
    ]
    assert without_brackets([("30.34 [28.34–32.34]", True), ("–", False), ("failed", True)]) == []


def test_the_last_swept_argument_makes_the_columns() -> None:
    swept = campaign(vpn=("none", "wireguard"), cc=("bbr",), loss=("0", "1"))
    shown = campaign_table(swept, [record(vpn="none", cc="bbr", loss="1")])
    assert shown.header == ["vpn", "loss=0", "loss=1"]
    assert shown.rows == [["none", "–", "28.50"], ["wireguard", "–", "–"]]
    assert "with cc=bbr" in shown.title


def test_several_seeds_show_median_and_range_and_failures() -> None:
    one = record(vpn="none")
    done = [
        replace(one, seed=seed, measures={"transfer_time_s": 20.0 + seed}) for seed in (1, 2, 5)
    ]
    failed = replace(one, seed=4, status="Finished Ko")
    shown = campaign_table(campaign((1, 2, 4, 5), vpn=("none",)), [*done, failed])
    assert shown.rows == [["22.00 [21.00–25.00] (1 failed)"]]
    assert shown.note == (
        "median [least to greatest] of 4 seeds; WARNING: a cell with (N failed) is the median of"
        " the runs that finished only: those that failed have no value, and may be the worst ones"
    )


def test_warnings_of_a_vpn_are_below_the_table_once() -> None:
    one = replace(record(vpn="openvpn_udp"), texts={"vpn_warnings": "--cipher ignored"})
    shown = campaign_table(campaign((1, 2), vpn=("openvpn_udp",)), [one, replace(one, seed=2)])
    assert shown.note.count("openvpn_udp warns: --cipher ignored") == 1


def of_others(**values: tuple[str, ...]) -> Campaign:
    """Of jobs without measures.yml: nobody says what is the main measure."""
    return replace(campaign((1,), **values), measures={"iperf3": (EVERY_STATISTIC,)})


def test_where_nobody_names_the_main_measure_all_are_shown() -> None:
    one = replace(record(vpn="none"), measures={"throughput": 5146317000.0, "rtt": 0.0123456789})
    shown = campaign_table(of_others(vpn=("none",)), [one])
    assert (shown.header, shown.labels) == (["measure", "run"], 1)
    assert shown.rows == [["throughput", "5.14632e+09"], ["rtt", "0.0123457"]]
    assert MEDIANS in shown.note


def test_of_several_cells_the_first_measures_are_shown_and_the_others_named() -> None:
    of_one = {f"m{number}": number / 2 for number in range(MOST_COLUMNS + 2)}
    done = [replace(record(vpn=vpn), measures=of_one) for vpn in ("none", "wireguard")]
    failed = replace(record(vpn="tinc"), measures={}, status="Finished Ko")
    shown = campaign_table(of_others(vpn=("none", "wireguard", "tinc")), [*done, failed])
    assert shown.header == ["vpn", *list(of_one)[:MOST_COLUMNS]]
    assert shown.rows[1] == ["wireguard", "0", "0.5", "1", "1.5", "2", "2.5"]
    assert set(shown.rows[2][1:]) == {"failed"}
    assert shown.note.endswith("results.csv has 2 more columns: m6, m7")


def test_sub_scenarios_that_have_failed_have_a_row() -> None:
    parent = of_others()
    parent = replace(parent, sub_scenarios={"delay": parent.scenario, "rate": parent.scenario})
    done = replace(record(), scenario="delay", measures={"rtt": 0.5})
    failed = replace(record(), scenario="rate", measures={}, status="Stopped")
    assert campaign_table(parent, [done, failed]).rows == [
        ["delay", "rtt", "0.5"],
        ["rate", "–", "failed"],
    ]
    assert campaign_table(of_others(), [replace(record(), measures={})]).rows == [["done"]]


def test_our_reading_of_the_peps_positions_stands_below_its_results() -> None:
    assert "PEP A: inside the tunnel's path" in campaign_table(campaign(pep=("none", "B")), []).note
    assert "PEP" not in campaign_table(campaign(pep=("none",)), []).note


def sized(vpn: str, loss: str, mss_bytes: int, vpn_mtu: int = 0, asked: int = 0) -> Record:
    sizes = {"mss_bytes": mss_bytes, "vpn_mtu": vpn_mtu or None, "vpn_asked_mtu": asked or None}
    return replace(record(vpn=vpn, loss=loss), measures={"transfer_time_s": 3.0, **sizes})


def test_cells_that_differ_in_the_segment_size_or_the_mtu_are_told() -> None:
    """At commit 33a89e92 nothing told that one row was clamped and another not (F2, F3)."""
    losses = ("0", "1")
    swept = campaign((1,), vpn=("none", "wireguard"), loss=losses)
    done = [sized("none", loss, 1452) for loss in losses]
    equal = campaign_table(swept, done).note
    done += [sized("wireguard", loss, 1372, 1412, 1420) for loss in losses]
    note = campaign_table(swept, done).note
    assert "cells differ" not in equal and "smaller" not in equal
    assert "cells differ in mss_bytes: 1372 (vpn=wireguard), 1452 (vpn=none); " in note
    assert "differ in vpn_mtu" not in note, "there is one tunnel"
    assert (
        "the MTU of wireguard, 1420, was made smaller to fit the path: 1412 (vpn.mtu=1420" in note
    )


def test_notes_are_about_the_tables_own_cells() -> None:
    """Two campaigns of one command may have the same scenario with other values."""
    own = campaign((1,), vpn=("none",), loss=("0", "1"))
    done = [sized("none", loss, 1460) for loss in ("0", "1")]
    other = sized("wireguard", "0", 1372, 1412, 1420)
    sent = {**other.measures, "transfer_time_s": 0.01, "share_pct": 9, "forward_fragments": 2}
    others = [replace(other, measures=sent, texts={"vpn_warnings": "no"}, identity={"clock": REAL})]
    assert campaign_table(own, done + others) == campaign_table(own, done)


def test_many_sizes_are_told_as_a_range() -> None:
    losses = tuple(map(str, range(13)))
    done = [sized("none", loss, 1400 + int(loss)) for loss in losses]
    note = campaign_table(campaign((1,), vpn=("none",), loss=losses), done).note
    assert "cells differ in mss_bytes: 1400 to 1412, by loss" in note


@pytest.mark.parametrize(("queue", "noted"), [("cake", True), ("fq_codel", True), ("fifo", False)])
def test_natively_a_queue_that_sees_into_tunnels_is_named(queue: str, noted: bool) -> None:
    one = record(vpn="wireguard", queue=queue)
    native = replace(one, identity={"engine": HOST_KERNEL, "clock": REAL})
    swept = campaign(vpn=("wireguard",))
    assert ("see into tunnels" in campaign_table(swept, [native]).note) == noted
    assert "see into tunnels" not in campaign_table(swept, [one]).note


def test_packages_that_are_not_the_locked_ones_stand_below_the_table() -> None:
    one = record(vpn="none")
    texts = "tinc 2 (locked: 1); libc6 2 (locked: 1)"
    other = replace(one, identity={NOT_LOCKED: texts})
    note = campaign_table(campaign(vpn=("none",)), [one, other]).note
    said = "libc6 2 (locked: 1), tinc 2 (locked: 1): packets may differ from those of the lock"
    assert note.endswith(f"; not the locked packages: {said}")
    assert "locked" not in campaign_table(campaign(vpn=("none",)), [one]).note


def test_of_many_such_packages_eight_are_named() -> None:
    texts = "; ".join(f"package{number:02} (not in debian.lock)" for number in range(20))
    one = replace(record(vpn="none"), identity={NOT_LOCKED: texts})
    note = campaign_table(campaign(vpn=("none",)), [one]).note
    assert "package07 (not in debian.lock) and 12 more" in note
    assert "package08" not in note


def test_times_that_the_rate_does_not_allow_stand_below_the_table() -> None:
    swept = campaign(size=("1M",), rate=("10M",), vpn=("none", "quic_split"))
    measured = {"none": 0.84, "quic_split": 0.83}
    done = []
    for vpn, time_s in measured.items():
        one = record(size="1M", rate="10M", vpn=vpn)
        done.append(replace(one, measures={"transfer_time_s": time_s}))
    note = campaign_table(swept, done).note
    assert (
        "WARNING: 1 times are shorter than the rate allows, by up to 6.46 ms (vpn=quic_split)"
        in (note)
    )
    assert "WARNING" not in campaign_table(swept, done[:1]).note


def test_a_time_below_the_link_is_marked_in_every_output(tmp_path: Path) -> None:
    """The bound is of the bytes that came: of a size of 1 a segment comes."""
    tiny = record(size="1", rate="10M", vpn="none")
    tiny = replace(tiny, measures={"transfer_time_s": 0.000141, "bytes": 1448})
    right = replace(tiny, seed=2, measures={"transfer_time_s": 0.6, "bytes": 1448})
    flow = replace(tiny, measures={"a_transfer_time_s": 0.1, "a_bytes": 1_000_000})
    assert too_short_by_s(tiny) == pytest.approx(0.00107, abs=1e-6)
    assert (too_short_by_s(right), too_short_by_s(flow) > 0.7) == (0, True)
    first, second = csv.DictReader(io.StringIO(as_csv([right, tiny])))
    assert (first["too_short_by_s"], second["too_short_by_s"]) == ("", "0.00107")
    assert "too_short_by_s" not in as_csv([right])
    assert json.loads(as_json([tiny]))[0]["too_short_by_s"] == 0.00107
    write_parquet([right, tiny], tmp_path / "results.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "results.parquet")
    assert table["too_short_by_s"].to_pylist() == [None, 0.00107]
    note = campaign_table(campaign((1,), size=("1",)), [tiny]).note
    assert "WARNING: 1 times are shorter than the rate allows" in note
    assert "1448 bytes came for a size of 1" in note


def test_two_clocks_and_more_bytes_than_the_size_are_noted() -> None:
    kinds = [("none", 1_049_000), ("1.1", 1_000_000), ("3", 1_000_000)]
    done = [
        replace(record(http=http, size="1M"), measures={"transfer_time_s": 5.0, "bytes": count})
        for http, count in kinds
    ]
    clocks = "curl's starts three round trips earlier than iperf3's"
    assert [clocks in " ".join(notes(some)) for some in (done, done[:2], done[1:])] == [
        True, True, False,
    ]  # fmt: skip
    apart = [done[1], replace(done[0], scenario="other")]
    assert clocks not in " ".join(notes(apart))
    more = "up to 1049000 bytes came for a size of 1000000"
    assert (more in " ".join(notes(done)), notes(done[1:])) == (True, [])


def test_one_seed_of_a_random_link_is_warned_of() -> None:
    """1 MB, CUBIC, 1 % of loss: 7.03 s with seed 1, a median of 15.55 s with three."""
    assert (
        "one seed, and the link is random"
        in campaign_table(campaign((1,), loss=("0", "1")), []).note
    )
    assert "random" not in campaign_table(campaign((1, 2), loss=("0", "1")), []).note
    assert "random" not in campaign_table(campaign((1,), loss=("0",)), []).note
    assert has_random_link({"loss": "0", "return_loss": "same", "link_file": "leo.csv"})
    measured = {"leo": presets.find("leo"), "starlink_isl": presets.find("starlink_isl")}
    assert has_random_link({"loss": "0", "orbit": "starlink_isl"}, measured)
    assert not has_random_link({"loss": "0", "orbit": "leo"}, measured)
    rcs2 = {"geo_rcs2": presets.find("geo_rcs2")}
    assert has_random_link({"loss": "0", "orbit": "geo_rcs2", "access": "preset"}, rcs2), (
        "its phase"
    )
    assert not has_random_link({"loss": "0", "orbit": "geo_rcs2", "access": "assigned"}, rcs2)
    assert has_random_link({"loss": "0", "orbit": "geo_rcs2", "access": "dama"})
    assert has_random_link({"loss": "0", "orbit": "measured", "rate": "none"}), (
        "a satellite that is a link file"
    )
    assert not has_random_link(
        {"loss": "0", "return_loss": "same", "jitter_ms": "0", "link_file": "none"}
    )


@pytest.mark.parametrize(
    ("known", "cell"),
    [
        ([], "–"),
        ([record(vpn="none", status="Guest Lost")], "failed"),
        ([record(None, vpn="none")], "done"),
    ],
)
def test_cells_without_a_time(known: list[Record], cell: str) -> None:
    assert campaign_table(campaign(vpn=("none",)), known).rows == [[cell]]


def test_a_scenario_says_which_measure_its_table_shows() -> None:
    source = {"name": "geo", "openbach_functions": [], "x-sweep": {"measure": "page_load_time_s"}}
    swept = replace(campaign(size=("30M",)), scenario=parse_scenario(source, {}))
    shown = campaign_table(
        swept, [replace(record(size="30M"), measures={"page_load_time_s": 5.664})]
    )
    assert (shown.title, shown.rows) == ("geo: page load time (s)", [["5.66"]])
    assert "least" not in shown.note


def of_scenario(name: str, *settings: str) -> Campaign:
    packages = load_packages([REPOSITORY / "jobs"])
    return plan(REPOSITORY / f"scenarios/{name}.yml", settings, None, packages)


def measured(planned: Campaign, number: int, **measures: float) -> Record:
    name = planned.scenario.name
    return replace(RECORD, scenario=name, arguments=planned.cells[number], measures=measures)


@pytest.mark.parametrize(
    ("scenario", "setting", "measures", "shown"),
    [
        (
            "voip",
            "background=upload",
            {"worse_mos": 1.51, "to_client_mos": 3.67, "to_server_mos": 1.51},
            "to server 1.51, to client 3.67",
        ),
        (
            "voip",
            "background=download",
            {"worse_mos": 2.1, "to_client_mos": 2.1, "to_server_mos": 3.66},
            "to client 2.10, to server 3.66",
        ),
        (
            "multi_flow",
            "cc_2=bbr pep=none orbit=geo",
            {"worse_goodput_mbps": 1.2, "flow_1_goodput_mbps": 1.2, "flow_2_goodput_mbps": 7.5},
            "flow 1 1.20, flow 2 7.50",
        ),
        (
            "lan_tcp",
            "direction=both",
            {"worse_tcp_mbps": 4, "tcp_mbps": 9, "to_client_tcp_mbps": 5, "to_server_tcp_mbps": 4},
            "to server 4.00, to client 5.00",
        ),
        ("lan_tcp", "direction=download", {"worse_tcp_mbps": 9, "tcp_mbps": 9}, "9.00"),
        ("lan_tcp", "direction=upload", {"worse_tcp_mbps": 9, "tcp_mbps": 9}, "9.00"),
    ],
)
def test_the_direction_and_the_flow_that_are_worse_stand_first(
    scenario: str, setting: str, measures: dict[str, float], shown: str
) -> None:
    """F6: a call beside an upload had the MOS to the client in the table, which is always good."""
    planned = of_scenario(scenario, "vpn=none", *setting.split())
    done = measured(planned, 0, **measures)
    assert campaign_table(planned, [done]).rows[0][-1].startswith(shown)
    failed = replace(done, seed=2, status="Guest Lost")
    assert campaign_table(planned, [done, failed]).rows[0][-1] == f"{shown} (1 failed)"
    assert planned.plot["measure"] in measures


def test_the_share_of_the_first_flow_stands_below_the_table() -> None:
    planned = of_scenario("multi_flow_loss", "vpn=none", "pep=none", "orbit=geo")
    done = [measured(planned, 0, share_pct=13.0), measured(planned, 0, share_pct=90.0)]
    assert "the first one had 13 to 90 % of the goodput" in campaign_table(planned, done).note


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "at least 5.12 s for a size of 100M: TCP's window binds, not the rate of 250M"),
        ("tcp_buffer=6M", "3.75 MB (tcp_buffer=6M) for each round trip of 600 ms, 50 Mbit/s"),
        ("window_scaling=off", "0.0655 MB"),
        ("tcp_buffer=64M", "at least 3.35 s for a size of 100M at a rate of 250M (Ethernet"),
        ("streams=4", "at least 3.35 s for a size of 100M at a rate of 250M (Ethernet"),
        ("pep=B", "at least 3.35 s for a size of 100M at a rate of 250M (Ethernet"),
        ("http=3", "at least 3.35 s for a size of 100M at a rate of 250M (Ethernet"),
        ("vpn=quic_split", "at least 3.35 s for a size of 100M at a rate of 250M (Ethernet"),
    ],
)
def test_the_least_time_knows_windows_and_says_what_binds(settings: str, said: str) -> None:
    """F10: 100 MB at 250 Mbit/s and 600 ms takes 10.85 s, with buffers of 64 MB 8.95 s."""
    own = settings.split() if "vpn" in settings else ["vpn=none", *settings.split()]
    planned = of_scenario("geo", "cc=cubic", "rate=250M", "delay_ms=300", "size=100M", *own)
    assert said in campaign_table(planned, []).note


def test_a_run_that_has_not_sent_the_scenarios_measure_is_told_apart() -> None:
    source = {"name": "geo", "openbach_functions": [], "x-sweep": {"measure": "page_load_time_s"}}
    swept = replace(campaign(size=("30M",)), scenario=parse_scenario(source, {}))
    assert campaign_table(swept, [record(size="30M")]).rows == [["not sent"]]
    assert campaign_table(swept, [record(size="30M", status="Guest Lost")]).rows == [["failed"]]


def test_the_error_names_what_was_sent(tmp_path: Path) -> None:
    source = {"name": "geo", "openbach_functions": [], "x-sweep": {"measure": "ping_rtt_ms"}}
    swept = replace(campaign(size=("30M",)), scenario=parse_scenario(source, {}))
    one = record(size="30M")
    (tmp_path / one.run_id).mkdir()
    sent = {"_metadata": {"job_name": "ping_series", "suffix": "far"}, "rtt_mss": 3}
    (tmp_path / one.run_id / "statistics.jsonl").write_text(json.dumps(sent) + "\n")
    text = not_sent(swept, [one], tmp_path)
    assert text is not None
    assert "geo: 1 of 1 finished runs have no ping_rtt_ms (of the statistic rtt_ms)" in text
    assert "has the columns transfer_time_s;" in text
    assert text.endswith("ping_series (far): rtt_mss")
    assert not_sent(swept, [replace(one, measures={"ping_rtt_ms": 3.0})], tmp_path) is None
    assert not_sent(campaign(size=("30M",)), [record(None, size="30M")], tmp_path) is None, (
        "no x-sweep.measure"
    )


def test_a_scenario_without_arguments_has_one_cell() -> None:
    shown = campaign_table(campaign(), [record()])
    assert (shown.header, shown.rows) == (["run"], [["28.50"]])
    assert "28.50" in as_text(shown)
    assert "| run |\n| ---: |\n| 28.50 |" in as_markdown(shown)


SPECIAL = Table("100 % & more", ["vpn", "loss=0"], [["open_vpn|x", "1 < 2"]], "note #1", 1)


def test_markdown_and_latex_escape_what_they_would_read() -> None:
    assert "| open_vpn\\|x | 1 < 2 |" in as_markdown(SPECIAL)
    latex = as_latex(SPECIAL)
    assert r"\caption{100 \% \& more}" in latex
    assert r"\begin{tabular}{lr}" in latex
    fitted = latex.index(r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%")
    assert fitted < latex.index(r"\begin{tabular}") and "\\end{tabular}}\n" in latex
    assert r"open\_vpn|x & 1 < 2 \\" in latex
    assert latex.index(r"\toprule") < latex.index(r"\midrule") < latex.index(r"\bottomrule")


def test_long_texts_break_their_lines_in_latex() -> None:
    assert r"\begin{tabular}{lp{0.3\linewidth}r}" in as_latex(
        Table("t", ["a", "b", "c"], [["x", 50 * "y", "1"]], "n", 2)
    )


def test_latex_has_no_sign_that_pdflatex_does_not_know() -> None:
    """It has a report's table of what its runs have shown: 1/√n."""
    assert as_latex(Table("– −", ["× √"], [["≥ ≤"], ["→ ←"]], "≈", 1)).isascii()


def test_html_escapes_and_closes_its_elements() -> None:
    opened: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attributes: object) -> None:
            opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    made = as_html(SPECIAL)
    Parser().feed(made)
    assert not opened
    assert "1 &lt; 2" in made


def test_labels_are_set_left_and_figures_right() -> None:
    lines = as_text(Table("t", ["vpn", "loss=0"], [["a", "1"]], "n", 1)).splitlines()
    assert (lines[2], lines[4]) == ("vpn  loss=0", "a         1")


FOREIGN = [
    *("![x](/etc/passwd)", "[x](http://example.org)", "[x][y]", "[x]: /etc/passwd"),
    *("<script>alert(1)</script>", "&lt;", "&#60;", '#link("x")', '#read("/etc/passwd")'),
    *("# title", "a #", "- item", "+ item", "1. item", "1) item", "-1", "> quoted", "---", "***"),
    *("___", "~~~", "```", "===", "a|b", "a\\|b", "a\\", "*a*", "_a_", "a_b", "__a__", "`a`"),
    *("$a$", "[[a]", "a]b[", "    code", "a  ", "28.50 [28.41–28.77]", "https://example.org"),
    *("<https://example.org>", "\\[x](y)", "-", "+"),
]


PLACES = [
    ("{}", "{}", {"p"}),
    ("- {}", "{}", {"ul", "li"}),
    ("### {}", "{}", {"h3"}),
    ("**x {} y**: z", "x {} y: z", {"p", "strong"}),
    ("x {} [y](#z)", "x {} y", {"p", "a"}),
]
"""Markdown around a text, what it shows, its elements."""


def shown_as(markdown: str) -> tuple[str, set[str]]:
    """The text that a browser shows, and the elements it is in."""
    texts: list[str] = []
    elements: set[str] = set()

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attributes: object) -> None:
            elements.add(tag)

        def handle_data(self, data: str) -> None:
            texts.append(data)

    Parser().feed(MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown))
    return "".join(texts), elements


def words(text: str) -> str:
    return " ".join("".join(one for one in re.sub(r"\s", " ", text) if one.isprintable()).split())


@settings(deadline=None)
@given(
    st.one_of(
        st.sampled_from(FOREIGN),
        st.text(),
        st.lists(st.sampled_from(FOREIGN), max_size=3).map("".join),
    )
)
def test_text_from_elsewhere_is_no_markup(text: str) -> None:
    """Wherever the report's template puts it.

    A paragraph, a list, a heading, strong and slanted text, an image's words, a table.
    """
    for form, shown, around in PLACES:
        found, elements = shown_as(form.format(plain(text)))
        assert words(found) == words(shown.format(text))
        assert elements <= around
    html = MarkdownIt("commonmark", {"html": False}).render(f"![{plain(text)}](figures/a.svg)")
    assert re.fullmatch(r'<p><img src="figures/a.svg" alt="[^"]*" /></p>\n', html)
    table = as_markdown(Table(f"of {text}", ["a", text], [[text, text]], text, 1))
    found, elements = shown_as(table)
    assert elements <= {"p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert words(found).count(words(progress.shown(text))) >= 5


def test_a_long_row_stands_upright() -> None:
    vpns = tuple(f"vpn_{number}" for number in range(MOST_COLUMNS + 1))
    shown = campaign_table(campaign((1,), vpn=vpns), [record(vpn=vpns[0])])
    assert shown.header == ["vpn", "transfer time (s)"]
    assert [row[0] for row in shown.rows] == list(vpns)
    assert shown.labels == 1
    assert len(campaign_table(campaign((1,), vpn=vpns[1:]), []).rows) == 1


ORDER = "\x1b[31m\x9b\u202e"
"""Orders to a terminal."""


def test_no_form_of_a_table_has_orders_to_a_terminal() -> None:
    table = Table(ORDER, [f"link{ORDER}"], [[f"{ORDER}.csv"]], ORDER, 1)
    for form in (as_text, as_markdown, as_latex, as_html):
        assert not {*form(table)} & {*"\x1b\x9b\u202e"}
    assert "x1b[31m" in as_html(table)


@pytest.mark.parametrize("name", ["=1+1", "+cmd", "-cmd", "@SUM(A1)", " =1", "\t=1"])
def test_no_cell_of_a_csv_file_is_a_formula(name: str) -> None:
    made = record(vpn=name, loss="-5", pep=f"{ORDER}none")
    (row,) = csv.DictReader(io.StringIO(as_csv([made])))
    assert row["vpn"].startswith("'") and row["loss"] == "-5"
    assert row["transfer_time_s"] == "28.5"
    assert not set(row["pep"]) & {*"\x1b\x9b\u202e"}
    cell = Cell({"scenario": "geo", "vpn": name, "loss": "-5"}, [Run(1, Path("/"), made)])
    (row,) = csv.DictReader(io.StringIO(cells_csv(Campaigns([], [cell]), {})))
    assert row["vpn"].startswith("'") and row["loss"] == "-5"
    (_, of_curve) = curves_csv([Curve("a", name, [0.0], [-1.0])])
    assert of_curve.count("'") == 1


def test_a_table_over_a_link_that_changes_has_its_notes() -> None:
    """One of two clocks, one of what came, and a time that no link allows, of any rate."""
    for orbit, link_file in (("starlink", "none"), ("geo_dvbs2", "none"), ("geo", "trace.csv")):
        swept = campaign((1,), vpn=("none",), size=("1k",), http=("none", "1.1"))
        rate = "284M" if orbit == "starlink" else "none"
        values: Any = {
            "vpn": "none",
            "size": "1k",
            "orbit": orbit,
            "link_file": link_file,
            "rate": rate,
        }
        first = replace(
            record(**values, http="none"), measures={"transfer_time_s": 3e-06, "bytes": 7240}
        )
        second = replace(
            record(**values, http="1.1"), measures={"transfer_time_s": 0.27, "bytes": 1000}
        )
        note = campaign_table(swept, [first, second]).note
        assert "WARNING: 1 times are shorter" in note
        assert "WARNING: two clocks" in note
        assert "up to 7240 bytes came for a size of 1000" in note
        assert "too_short_by_s" in as_csv([first])
        assert "too_short_by_s" not in as_csv([second])
    no_rate = record(vpn="none", size="1k", orbit="geo", link_file="none", rate="none")
    fast = replace(no_rate, measures={"transfer_time_s": 3e-06, "bytes": 7240})
    assert too_short_by_s(fast) == 0


def test_a_table_is_written_where_the_directory_is_no_utf_8(tmp_path: Path) -> None:
    place = tmp_path / "r\udce9sults"
    place.mkdir()
    write_parquet([record(vpn="none")], place / "results.parquet")
    assert read_rows(place)[1][0]["vpn"] == "none"
