# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a made-up campaign.

What it says of claims, failures and baselines, and that it is the same twice.
"""

from __future__ import annotations

import csv
import html
import json
import re
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Self

import pyarrow.parquet
import pytest
from helpers.made_up import ERROR, FAILED, NOT_RUN, write_results
from helpers.records import RECORD
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from matplotlib.figure import Figure
from pypdfium2 import PdfDocument
from pypdfium2 import raw as pdfium_c

from openbach_run.commands import main
from openbach_run.errors import InputError
from openbach_run.openbach.measures import Measure, from_name
from openbach_run.paths import REPOSITORY
from openbach_run.report import cells, charts, document, figures, front, write
from openbach_run.report.cells import Campaigns, Cell, Partners, matches, read_campaigns
from openbach_run.report.charts import NARROW
from openbach_run.report.claims import (
    BUT_FOR,
    CANNOT_TELL,
    DOES_NOT,
    HOLDS,
    SATCOM,
    Claim,
    Finding,
    Part,
    compare,
    judge,
    read_claims,
    why,
)
from openbach_run.report.content import (
    changes_table,
    drawings,
    failures,
    measures_tables,
    platform_table,
    tables,
    times_table,
)
from openbach_run.report.figures import _drawn_over_time, _to_scale
from openbach_run.report.hosts import drawing
from openbach_run.report.page_model import page_one
from openbach_run.report.page_one import link_table
from openbach_run.report.settings import Setting, conditions, settings
from openbach_run.report.verdicts import sentences, undecided, verdict_in_words, verdict_of
from openbach_run.report.words import decimals, figure, in_good_units, named, phrase, value_of
from openbach_run.report.write import CLAIMS, TEMPLATES, about
from openbach_run.results.files import ABOUT, places, write_parquet
from openbach_run.results.intervals import Estimate
from openbach_run.results.record import NOT_LOCKED
from openbach_run.results.seeds import WARNING
from openbach_run.results.store import Store
from openbach_run.results.tables import Table, as_markdown, plain
from openbach_run.topology.inventory import load_inventory

MEASURE = "transfer_time_s"
GEO_1 = {"scenario": ["geo_loss"], "loss": ["1"]}
TRANSPORTS_OF_SOME = ("cubic", "bbr2")
BASELINE = {"vpn": "none", "pep": "none"}
NO_VPN = {"against": {"vpn": ["none"]}}
ONE_OF_EACH = {"vpn": ("none",), "pep": ("none",), "cc": ("cubic",), "loss": ("0",)}


def make(results: Path, output: Path, *words: str) -> Path:
    """Write a report by the command, and return its folder."""
    assert main.main(["report", str(results), "-o", str(output), "--quiet", *words]) == 0
    return output


def rows_of(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


def page_of(report: Path) -> str:
    """Return report.html without the marks of HTML's own signs."""
    return html.unescape((report / "report.html").read_text())


def change_records(results: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    for file in results.glob("runs/*/record.json"):
        file.write_text(json.dumps(change(json.loads(file.read_text()))))


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("made_up") / "matrix")


@pytest.fixture(scope="session")
def campaigns(results: Path) -> Campaigns:
    return read_campaigns([results])


@pytest.fixture(scope="session")
def some_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write results with all that a test looks for in their report.

    Drawing is what takes long.
    """
    place = tmp_path_factory.mktemp("some") / "matrix"
    return write_results(place, cc=TRANSPORTS_OF_SOME)


@pytest.fixture(scope="session")
def some_campaigns(some_results: Path) -> Campaigns:
    return read_campaigns([some_results])


@pytest.fixture(scope="session")
def report(some_results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the whole report once, by the command, with the runs."""
    return make(some_results, tmp_path_factory.mktemp("report") / "matrix", "--runs")


@pytest.fixture(scope="session")
def from_table(report: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report from the table of runs of another one, with tables behind one figure."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(write, "MOST_DRAWINGS", 1)
        return make(report / "results.parquet", tmp_path_factory.mktemp("from_table") / "matrix")


@pytest.fixture(scope="session")
def not_locked_in_full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report with its appendix of a cell, whose packages are not the locked ones."""
    folder = tmp_path_factory.mktemp("not_locked")
    results = write_results(folder / "results", 1, **ONE_OF_EACH)
    for file in results.glob("shared/*.json"):
        shared = json.loads(file.read_text())
        shared["identity"][NOT_LOCKED] = "libc6 2 (locked: 1)"
        file.write_text(json.dumps(shared))
    return make(results, folder / "report", "--appendix")


def test_a_report_made_again_from_the_runs_that_it_has_is_the_same_apart_from_its_date(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later text, or another baseline, needed hours of runs again where the results were gone."""

    class Then(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            (day,) = re.findall(r"(?m)^(\d{4}-\d\d-\d\d)\.", (report / "report.md").read_text())
            return cls.fromisoformat(day)

    monkeypatch.setattr(write, "datetime", Then)  # the first one may be of the day before
    with tarfile.open(report / "runs.tar.xz") as tar:
        tar.extractall(tmp_path / "results")
    again = make(tmp_path / "results/matrix", tmp_path / "again")
    names, names_again = (
        {file.relative_to(place) for file in place.rglob("*") if file.is_file()}
        for place in (report, again)
    )
    assert names - names_again == {Path("runs.tar.xz")}, "only if it is asked for"
    assert names_again < names
    for name in names_again:
        assert (report / name).read_bytes() == (again / name).read_bytes(), name


def cell(campaigns: Campaigns, scenario: str, vpn: str, pep: str, cc: str, loss: str) -> Cell:
    wanted = {"scenario": scenario, "vpn": vpn, "pep": pep, "cc": cc, "loss": loss}
    (found,) = [one for one in campaigns.cells if wanted.items() <= one.values.items()]
    return found


def test_cells_know_their_orbit_and_their_runs(campaigns: Campaigns) -> None:
    assert len(campaigns.cells) == 2 * 4 * 3 * 3 * 3
    assert {one.values["orbit"] for one in campaigns.cells} == {"geo", "leo"}
    assert all(len(one.runs) == 5 for one in campaigns.cells)


def test_failed_and_missing_runs_are_shown(campaigns: Campaigns, report: Path) -> None:
    assert [len(cell(campaigns, *FAILED).failed), cell(campaigns, *NOT_RUN).not_run] == [1, 5]
    geo, leo = (
        {tuple(row[:3]): row[-1] for row in times_table(one).rows} for one in settings(campaigns)
    )
    assert "1 failed" in geo["OpenVPN TCP", "A", "CUBIC"]
    assert leo["OpenVPN TCP", "A", "CUBIC"] == "5 not run"
    told = failures(campaigns)
    assert len(told) == 2
    assert "red" in told[0] and "\x1b" not in told[0]
    assert all(line in (report / "report.md").read_text() for line in told)


def test_what_a_program_printed_is_no_markup(report: Path) -> None:
    assert ERROR.replace("\x1b", "") in page_of(report)


FOREIGN = """![x](/etc/hostname) <b> [y](http://example.org) `c` *d* _e_ | # & &lt; $\\frac$ #read("/etc/hostname") \\ "f\""""


def test_packages_that_are_not_the_locked_ones_are_named(not_locked_in_full: Path) -> None:
    words = re.sub("<[^>]*>", "", page_of(not_locked_in_full))
    assert "Note: not the locked packages: libc6 2 (locked: 1)" in words


def test_values_are_shown_as_they_are_and_bring_nothing_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Markdown, HTML, Typst and matplotlib's formulas in arguments' values.

    Names of files that are too long.
    """
    monkeypatch.setattr(front, "BRIEF", 0)  # with figures and charts
    results = write_results(tmp_path / "results", 1, **{**ONE_OF_EACH, "vpn": ("none", FOREIGN)})
    sizes = ["../../b", "a\n# b\n\n```\n", "x" * 400]

    def with_size(run: dict[str, Any]) -> dict[str, Any]:
        size = sizes[int(run["run_id"], 16) % 3]
        return {**run, "arguments": {**run["arguments"], "size": size}}

    change_records(results, with_size)
    asked = json.loads((results / "campaign.json").read_text())
    asked["runs"] = [with_size(run) for run in asked["runs"]]
    asked["command"] = "a\n```\n![x](/etc/hostname)"
    (results / "campaign.json").write_text(json.dumps(asked))
    make(results, tmp_path / "report")
    page = (tmp_path / "report/report.html").read_text()
    assert FOREIGN in html.unescape(page)
    images = re.findall(r"<img src=['\"]([^'\"]*)", page)
    assert all(source.startswith("data:image/svg") for source in images)
    assert page.count("</script") == 1 + page.count('<script type="application/json">'), (
        "what a value has ends no script"
    )
    assert not re.search(r"<(b|script)>|<a href=\"(?!#|https://)|<a href=\"http://example", page)
    names = [file.name for file in (tmp_path / "report/figures").iterdir()]
    assert all(re.fullmatch(r"[\w.+-]{1,130}", name, re.ASCII) for name in names)
    assert len(names) == len(set(names)) > 0


@settings_of_hypothesis(max_examples=25, deadline=None)
@given(text=st.text())
def test_any_text_can_be_set(text: str) -> None:
    table = as_markdown(Table(f"of {text}", [text], [[text]], text, 1))
    markdown = f"# Title\n\n## {plain(text)}\n\n- {plain(text)}\n\n{table}"
    assert document.as_pdf(markdown, REPOSITORY, TEMPLATES / "page.typ.j2").startswith(b"%PDF")
    assert "</html>" in document.as_html(markdown, REPOSITORY, TEMPLATES / "page.html.j2")


def test_a_report_has_no_images_but_its_own(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="images of its own"):
        document.as_html("# T\n\n![x](/etc/hostname)", tmp_path, TEMPLATES / "page.html.j2")


def test_selections() -> None:
    one = Cell({"vpn": "none", "loss": "0.10"})
    assert matches(one, {"vpn": ["none", "wireguard"], "loss": [0.1]})
    assert matches(one, {"loss": {"above": 0}})
    assert not matches(one, {"loss": {"above": 0.1}})
    assert not matches(one, {"pep": ["none"]})


def test_settings_of_one_scenario_are_told_apart_by_what_differs() -> None:
    same = {"scenario": "geo", "orbit": "geo", "vpn": "none", "size": "30M"}
    pairs = [("bbr", "same"), ("cubic", "bbr")]
    cells = [Cell({**same, "cc": cc, "cc_pep": cc_pep}) for cc, cc_pep in pairs]
    found = settings(Campaigns([], cells))
    assert [(one.name, one.title) for one in found] == [
        ("geo", "GEO (geo)"),
        ("geo-cc_pep_bbr", "GEO (geo, congestion control of the PEP BBR)"),
    ]
    assert [one.shared["cc_pep"] for one in found] == ["same", "bbr"]


def test_what_follows_from_the_orbit_is_in_no_title() -> None:
    """The delay of LEO is none, because it changes with time."""
    orbits = [("geo", "250"), ("leo", "none"), ("geo", "300")]
    cells = [
        Cell({"scenario": "multi_flow", "vpn": "none", "orbit": orbit, "delay_ms": delay_ms})
        for orbit, delay_ms in orbits
    ]

    def titles(cells: list[Cell]) -> list[str]:
        return [one.title for one in settings(Campaigns([], cells))]

    assert titles(cells[:2]) == ["GEO (multi flow)", "LEO (multi flow)"]
    assert titles(cells) == [
        "GEO (multi flow, one-way delay 250 ms)",
        "LEO (multi flow)",
        "GEO (multi flow, one-way delay 300 ms)",
    ]
    assert phrase("delay_ms", "none") == "one-way delay that changes with time"


def test_a_small_table_is_on_one_page_with_its_note(tmp_path: Path) -> None:
    """And with its title: however the text before it fills the page."""
    rows = "\n".join(f"| row{number} | 1 |" for number in range(document.UNBROKEN))
    table = f"**Title of it**\n\n| head | figure |\n| --- | ---: |\n{rows}\n\n*its note*\n"
    for lines in range(20, 60, 5):
        pages = printed("# A report\n\n" + "word\n\n" * lines + table, tmp_path)
        (where,) = [page for page in pages if "head" in page]
        for one in ("Title of it", f"row{document.UNBROKEN - 1}", "its note"):
            assert one in where


def printed(text: str, folder: Path) -> list[str]:
    """Return what each page has of a report in Markdown."""
    (folder / "a.pdf").write_bytes(document.as_pdf(text, folder, TEMPLATES / "page.typ.j2"))
    return [page.get_textpage().get_text_range() for page in PdfDocument(folder / "a.pdf")]


def test_no_row_is_on_two_pages(tmp_path: Path) -> None:
    """However many lines its cells have."""
    rows = range(2 * document.UNBROKEN)
    lines = "\n".join(f"| begin{row} {'word ' * 150} end{row} | {'other ' * 100} |" for row in rows)
    text = f"# A report\n\n**Title of it**\n\n| head | other |\n| --- | --- |\n{lines}\n"
    pages = [page.split() for page in printed(text, tmp_path)]
    assert len(pages) > 3
    assert all(any({f"begin{row}", f"end{row}"} <= set(page) for page in pages) for row in rows)


def test_partners_differ_in_nothing_but_the_free_arguments(campaigns: Campaigns) -> None:
    one = cell(campaigns, "geo_loss", "wireguard", "B", "cubic", "1")
    partners = Partners(campaigns.cells, ["vpn"]).of(one)
    assert {other.values["vpn"] for other in partners} == {"none", "openvpn_udp", "openvpn_tcp"}
    assert all(other.values["pep"] == "B" for other in partners)


def judged(campaigns: Campaigns, *parts: dict[str, object]) -> Claim:
    every = [{"says": "", **part} for part in parts]
    return judge("C0", {"statement": "made up", "parts": every}, campaigns)


def finding(campaigns: Campaigns, part: dict[str, object], orbit: str = "geo") -> Finding:
    (found,) = [one for one in judged(campaigns, part).findings if one.orbit == orbit]
    return found


TCP_IN_TCP = {
    "cell": {"vpn": ["openvpn_tcp"], "pep": ["A"], "loss": [0]},
    "against": {"vpn": ["none"], "pep": ["none"]},
}


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"least": 1.1}, HOLDS),
        ({"most": 1.1}, DOES_NOT),
        ({"least": 1.2, "most": 9}, DOES_NOT),
        ({"most": 1.125}, HOLDS),  # missed by less than 1 %
        ({"most": 1.125, "margin": 0}, DOES_NOT),
    ],
)
def test_verdicts(campaigns: Campaigns, bounds: dict[str, float], expected: str) -> None:
    """The made-up time of TCP in TCP is 1.13 times the baseline's."""
    verdicts = judged(campaigns, {**TCP_IN_TCP, **bounds}).verdicts
    assert verdicts == {"geo": expected, "leo": expected}


OF_VPNS = {"cell": {"vpn": ["wireguard", "openvpn_udp", "openvpn_tcp"], "loss": [0]}, **NO_VPN}


def test_what_a_part_holds_but_for_is_named(campaigns: Campaigns) -> None:
    """The made-up times of all VPNs are 1.01 times those without, but for TCP in TCP."""
    found = finding(campaigns, {**OF_VPNS, "most": 1.05})
    assert found.verdict == BUT_FOR
    assert verdict_in_words(found) == "partly reproduced, not for OpenVPN TCP, PEP A (1.130)"
    of_transports = [one.holds for group in found.exceptions for one in group.comparisons]
    assert of_transports == [False, False, False]


def test_what_holds_of_a_part_that_does_not_is_named(campaigns: Campaigns) -> None:
    found = finding(campaigns, {**OF_VPNS, "least": 1.1})
    assert verdict_in_words(found) == "not reproduced, only for OpenVPN TCP, PEP A (1.130)"


def test_several_exceptions_are_each_named_once(campaigns: Campaigns) -> None:
    """BBRv2 gains nothing without loss, and TCP in TCP is slow everywhere."""
    cell = {"vpn": ["openvpn_tcp"], "loss": [0, 0.1]}
    part = {"cell": cell, **NO_VPN, "most": 1.05}
    groups = finding(campaigns, {**part, "cell": {**cell, "cc": ["bbr2"]}}).exceptions
    assert [one.name for one in groups] == ["PEP A"]
    named = [id(one) for group in finding(campaigns, part).exceptions for one in group.comparisons]
    assert len(named) == len(set(named))


def test_the_verdict_of_a_claim_is_that_of_its_worst_part(campaigns: Campaigns) -> None:
    again = {**TCP_IN_TCP, "says": "again", "most": 1.1}
    claim = judged(campaigns, {**TCP_IN_TCP, "least": 1.1}, again)
    assert claim.verdicts == {"geo": DOES_NOT, "leo": DOES_NOT}
    assert verdict_of(claim) == "GEO and LEO: : reproduced; again: not reproduced"


def why_of(tmp_path: Path, cc: tuple[str, ...] = ("cubic",), /, **more: tuple[float, float]) -> str:
    """Return what is said of TCP in TCP, which takes 1.13 times as long.

    Its runs and those without a VPN have these measures.
    """
    swept = {"vpn": ("none", "openvpn_tcp"), "pep": ("A",), "cc": cc, "loss": ("0",)}
    found = read_campaigns([write_results(tmp_path / "traced", 5, **swept)])
    for one in found.records:
        for name, pair in more.items():
            one.measures[name] = pair[one.arguments["vpn"] == "none"] + one.seed
    part = {"cell": {"vpn": ["openvpn_tcp"]}, **NO_VPN, "most": 1}
    return sentences(finding(found, part), found.declared)


def test_the_runs_of_an_exception_show_what_else_differs(tmp_path: Path) -> None:
    """Causes before consequences; not the goodput, which is the time said again."""
    packets = {"forward_dropped_packets": (400, 10), "forward_lost_packets": (5, 5)}
    told = why_of(tmp_path, retransmits=(900, 60), **packets)
    assert told.endswith(
        "There: the full buffer drops more (403 packets against 13); more is retransmitted (903"
        " against 63); at least 492 of its 903 retransmitted segments were not lost on the link."
    )


def test_headers_that_explain_a_ratio_are_the_mechanism(tmp_path: Path) -> None:
    told = why_of(tmp_path, forward_sent_bytes=(33_900_000, 30_000_000))
    assert told.endswith(
        ": the forward link carries 13.0 % more bytes (headers, retransmits), which"
        " accounts for it within 2 %."
    )


def test_where_nothing_else_differs_no_mechanism_is_told(tmp_path: Path) -> None:
    told = "Not reproduced. It is 1.130 (OpenVPN TCP, PEP A, CUBIC, 0 % loss against no VPN)."
    assert why_of(tmp_path) == told


def test_a_figure_that_several_comparisons_have_is_said_once(tmp_path: Path) -> None:
    told = why_of(tmp_path, ("cubic", "bbr2"), retransmits=(900, 60))
    assert (
        "It is 1.130. For OpenVPN TCP, PEP A, CUBIC, 0 % loss against no VPN: more is"
        " retransmitted" in told
    )
    assert told.count("1.130") == 1


def test_an_interval_on_both_sides_of_a_bound_decides_nothing(campaigns: Campaigns) -> None:
    at_1 = {**GEO_1, "vpn": ["none"], "pep": ["none"], "cc": ["cubic"]}
    found = finding(campaigns, {"cell": at_1, "most": 40})
    assert found.verdict == CANNOT_TELL
    assert "interval on both sides of the bound" in verdict_in_words(found)


def test_failed_runs_decide_nothing(campaigns: Campaigns) -> None:
    names = ("scenario", "vpn", "pep", "cc", "loss")
    of_failed = {name: [value] for name, value in zip(names, FAILED, strict=True)}
    found = finding(campaigns, {"cell": of_failed, **NO_VPN, "most": 100})
    assert found.verdict == CANNOT_TELL
    assert "runs failed or are missing" in why(found)


def test_a_part_without_cells_decides_nothing(campaigns: Campaigns) -> None:
    nowhere = {"cell": {"cc": ["hybla"]}, "most": 1}
    reason = "the campaigns have no such cells (not run: Hybla)"
    assert why(finding(campaigns, nowhere, "")) == reason
    assert not judged(campaigns, nowhere).is_spoken_of
    both = judged(campaigns, {**TCP_IN_TCP, "least": 1.1}, nowhere)
    assert both.verdicts == {"geo": HOLDS, "leo": HOLDS, "": CANNOT_TELL}


def test_few_seeds_decide_nothing(tmp_path: Path) -> None:
    few = read_campaigns([write_results(tmp_path / "few", seeds=4, cc=("cubic",), loss=("0",))])
    found = finding(few, {**TCP_IN_TCP, "least": 1.1})
    assert found.verdict == CANNOT_TELL
    assert "4 of at least 5 seeds" in why(found)


def test_only_the_best_counts_where_a_claim_says_so(campaigns: Campaigns) -> None:
    cell = {**GEO_1, "cc": ["cubic"], "vpn": ["wireguard"]}
    part = Part("", cell, {"vpn": ["none"], "pep": ["none"]}, best_over=["pep"])
    (only,) = compare(part, campaigns.cells)
    assert only.cell.values["pep"] == "B"
    assert only.against is not None and only.against.values["pep"] == "none"


def test_the_best_of_half_the_cells_decides_nothing(campaigns: Campaigns) -> None:
    cell = {"cc": ["cubic"], "vpn": ["openvpn_tcp"], "pep": ["none", "A", "B", "A_double"]}
    found = finding(campaigns, {"cell": cell, "best_over": ["pep"], **NO_VPN, "most": 0.1})
    assert found.verdict == CANNOT_TELL
    assert "the best of what was run: no PEP A double" in why(found)


def test_what_was_run_in_part_does_not_hold_as_a_whole_but_may_fail(campaigns: Campaigns) -> None:
    cell = {"loss": [0], "vpn": ["wireguard"], "pep": ["B"]}
    part = {"cell": cell, "against": {"vpn": ["none", "ipsec"]}}
    found = finding(campaigns, {**part, "most": 2})
    assert verdict_in_words(found) == "partly reproduced, not for what was not run: ipsec"
    assert why(found).endswith("comparisons hold, not run: ipsec")
    assert finding(campaigns, {**part, "most": 0.5}).verdict == DOES_NOT


def test_a_difference_and_a_value_have_units() -> None:
    assert Part("", {}, {"vpn": ["none"]}, as_="difference", most=1.5).bounds == "at most 1.5 s"
    assert Part("", {}, least=32, most=46).bounds == "32 to 46 s"
    assert Part("", {}, {"vpn": ["none"]}, least=0.9).bounds == "at least 0.9"


def test_the_published_claims_are_understood(campaigns: Campaigns) -> None:
    described = read_claims(CLAIMS)
    numbered = {
        "satcom": ("C", 11),
        "ten_vpns": ("T", 16),
        "vpncloud": ("V", 5),
        "post_quantum": ("P", 4),
        "multipath": ("M", 6),
    }
    names: dict[str, list[str]] = {document: [] for document in numbered}
    for name, one in described.items():
        names.get(one.get("document", SATCOM), []).append(name)
    for title, (letter, most) in numbered.items():
        assert names[title] == [f"{letter}{number + 1}" for number in range(most)]
    others = {
        "D1": "real_geo", "D2": "real_geo", "D3": "real_geo", "D4": "real_geo",
        "E1": "encrypted_pep", "E2": "qpep", "E3": "quic_pep", "E4": "pep_start",
        "G1": "vsat", "G2": "vsat", "G3": "vsat", "M7": "mqvpn_netns", "M8": "mqvpn_netns",
        "S1": "starlink_2022", "S2": "starlink_2022", "S3": "starlink_2022",
    }  # fmt: skip
    documents = {name: one.get("document", SATCOM) for name, one in described.items()}
    assert {name: documents[name] for name in others} == others
    assert sum(map(len, names.values())) + len(others) == len(described)
    claims = {name: judge(name, one, campaigns) for name, one in described.items()}
    assert claims["C2"].verdicts == {"geo": HOLDS, "leo": HOLDS}
    assert not claims["C9"].is_spoken_of  # two flows


@pytest.mark.parametrize(
    "name, value", [("size", "100M"), ("rate", "250M"), ("direction", "upload")]
)
def test_the_published_claims_are_not_judged_by_other_transfers(
    campaigns: Campaigns, name: str, value: str
) -> None:
    # The report has downloads of 30 MB over 10 Mbit/s; etosat's 100 MB over 250 got its verdicts.
    cells = [replace(cell, values={**cell.values, name: value}) for cell in campaigns.cells]
    described = {name: one for name, one in read_claims(CLAIMS).items() if "document" not in one}
    others = replace(campaigns, cells=cells)
    assert not any(judge(name, one, others).is_spoken_of for name, one in described.items())


def test_a_claim_about_a_cpu_cannot_be_told_in_virtual_time(campaigns: Campaigns) -> None:
    part = {"cell": {"scenario": ["geo_loss"], "vpn": ["none"]}, "least": 0, "cpu": True}
    found = finding(campaigns, part)
    assert found.verdict == CANNOT_TELL and "a CPU, which costs nothing" in why(found)
    assert finding(campaigns, {**part, "cpu": False}).verdict == HOLDS


def test_changes_are_against_the_baseline(campaigns: Campaigns) -> None:
    geo, _ = settings(campaigns)
    shown = changes_table(geo, "0", BASELINE)
    assert shown is not None
    assert ["OpenVPN TCP", "A", *3 * ["+13.0 %"]] in shown.rows
    assert not any(row[:2] == ["none", "none"] for row in shown.rows)
    other = changes_table(geo, "0", {"vpn": "wireguard"})
    assert other is not None
    assert other.rows and not any(row[0] == "WireGuard" for row in other.rows)


def test_many_values_of_a_part_of_the_platform_are_counted(campaigns: Campaigns) -> None:
    runs = [run for run in campaigns.runs if run.record][:5]
    several = []
    for number, run in enumerate(runs):
        assert run.record is not None
        identity = {"code": f"code {number}", "kernel": f"kernel {number % 2}"}
        several.append(replace(run, record=replace(run.record, identity=identity)))
    cell = replace(campaigns.cells[0], runs=several)
    rows = {row[0]: row[1] for row in platform_table(replace(campaigns, cells=[cell]), []).rows}
    assert rows["code"] == "5, by what a run uses" and rows["kernel"] == "kernel 0, kernel 1"


def test_every_table_of_one_seed_under_random_loss_warns(tmp_path: Path) -> None:
    """Also where only some of its cells have one seed; without loss it says that there is one."""
    found = read_campaigns([write_results(tmp_path / "one", seeds=1, vpn=("none", "wireguard"))])
    geo, _ = settings(found)
    for loss, words in (("1", WARNING), ("0.1", WARNING), ("0", "one seed: no interval")):
        changes = changes_table(geo, loss, BASELINE)
        assert changes is not None and changes.note == words
    for table in (times_table(geo), *measures_tables(geo).values()):
        assert WARNING in table.note


def test_tables_have_captions_and_scopes_and_the_contents_name_each_claim(report: Path) -> None:
    page = (report / "report.html").read_text()
    assert page.count("<table>") > 10 and page.count("<caption>") == page.count("<table>")
    assert "<th>" not in page and page.count('<th scope="col"') == len(re.findall("<th[ >]", page))
    contents = page.partition("</nav>")[0]
    for name in re.findall(r"<h3 id=\"[^\"]*\">(C\d+)</h3>", page):
        assert f'<a href="#{name.lower()}">{name}</a>' in contents


def test_all_files_are_there(report: Path) -> None:
    drawn = {file.stem for file in (report / "figures").glob("*.svg")}
    figures = {name for name in drawn if not name.endswith(NARROW)}
    assert drawn - figures == {f"page-1{NARROW}", f"page-2{NARROW}"}
    for kind in ("pdf", "csv"):
        assert figures == {file.stem for file in (report / "figures").glob(f"*.{kind}")}
    expected = (
        "times",
        "loss",
        "compared-0",
        "compared-0.1",
        "compared-1",
        "tcp_info-goodput_mbps",
    )
    for scenario in ("geo_loss", "leo_loss"):
        assert {f"{scenario}-{one}" for one in expected} <= figures
    markdown = (report / "report.md").read_text()
    assert figures == set(re.findall(r"\]\(figures/([^)]+)\.svg\)", markdown))
    forms = {file.suffix for file in (report / "tables").glob("claims.*")}
    assert forms == {".txt", ".md", ".tex", ".html"}
    assert (report / "report.pdf").read_bytes().startswith(b"%PDF")


def test_the_report_names_what_a_reader_needs(report: Path) -> None:
    text = (report / "report.md").read_text()
    for words in (
        "this is our reading: B is outside the tunnel",
        "./openbach-run campaigns/matrix.yml --seeds 5",
        "linux-source-7.2 7.2.13-1",
        "iperf3 3.12-1",
        "the least possible time is 25.09 s",
        "### C7",
        "93.8 % for 5 seeds",
        "the proxy runs in A on gw.",
        "in virtual time: the TCP stack",
        "The same results, to the bit, come from:",
        "statuses, virtual times and measures are what the guests say",
        "What “WireGuard and OpenVPN for SATCOM (technical report)” states",
        "published: 30 % shorter",
        "All of it with size 30 MB; forward rate 10 Mbit/s; download; initial window 10 segments",
        "- The CPU costs nothing.",
    ):
        assert words in text, words
    sections = ("Summary", "What a VPN costs", "Claims", "Method", "Limitations")
    appendices = ("Appendix: claims in full", "Appendix: results")
    order = [text.index(f"## {one}\n") for one in (*sections, *appendices)]
    assert order == sorted(order)


def test_figures_and_tables_are_numbered_and_no_column_is_named_as_in_results_csv(
    report: Path,
) -> None:
    text = (report / "report.md").read_text()
    for kind in ("Figure", "Table"):
        numbers = re.findall(rf"^(?:!\[|\*\*){kind} (\d+)\.", text, re.M)
        assert numbers == [str(number + 1) for number in range(len(numbers))] and numbers
    # The failures are in a program's own words.
    without_failures = re.sub(r"## Failures.*?\n## ", "", text, flags=re.S)
    for_people = re.sub(r"^    .*|\]\([^)]*\)|`[^`]*`", "", without_failures, flags=re.M)
    assert re.findall(r"\b[a-z]\w*_\w+", for_people) == []
    for file in (report / "figures").glob("*.pdf"):
        assert re.findall(r"\S*[a-z]_[a-z]\S*", words_of(file)) == [], file


def words_of(figure: Path) -> str:
    """Return what is written in a figure, from its form as PDF."""
    return str(PdfDocument(figure)[0].get_textpage().get_text_range())


BODY_PT, FOOT_PT = 10, 56
"""Of the text, which is smaller than any heading; of the margin with the page's number."""


def test_no_heading_is_alone_at_a_pages_foot(report: Path) -> None:
    pdf = PdfDocument(report / "report.pdf")
    for number in range(len(pdf)):
        page = pdf[number].get_textpage()
        letters = [at for at in range(page.count_chars()) if page.get_charbox(at)[1] > FOOT_PT]
        lowest = min(letters, key=lambda at: page.get_charbox(at)[1])
        size_pt = pdfium_c.FPDFText_GetFontSize(page, lowest)
        assert size_pt <= BODY_PT, f"page {number + 1} ends with a heading of {size_pt} pt"


def test_sections_behind_many_figures_have_tables_only(from_table: Path) -> None:
    """A report of 10 000 cells ended in `'drawn' is undefined`."""
    drawn = len(list((from_table / "figures").glob("*.pdf")))
    text = (from_table / "report.md").read_text()
    assert text.count("![Figure") == drawn > 0
    told = text.count(f"Without figures: the sections before it have {drawn}.")
    assert told == text.count("Without figures") > 0


def test_the_appendix_has_the_method_and_the_limitations_in_full(not_locked_in_full: Path) -> None:
    text = (not_locked_in_full / "report.md").read_text()
    method = text.partition("## The method in full")[2].partition("\n## Appendix")[0]
    titles = [line for line in method.splitlines() if line.startswith("### ")]
    place = REPOSITORY / "docs/method"
    pages = re.findall(r"^- \[.+?\]\((.+?)\)", (place / "README.md").read_text(), re.M)
    heads = [(place / page).read_text().partition("\n")[0] for page in ("README.md", *pages)]
    assert titles == [f"### {head[2:]}" for head in heads]


def test_cells_csv_has_every_cell_with_difference_and_ratio(report: Path) -> None:
    rows = [row for row in rows_of(report / "cells.csv") if row["measure"] in (MEASURE, "")]
    assert len(rows) == 2 * 4 * 3 * len(TRANSPORTS_OF_SOME) * 3
    names = ("scenario", "vpn", "pep", "cc", "loss")
    by_cell = {tuple(row[name] for name in names): row for row in rows}
    compared = by_cell["geo_loss", "openvpn_tcp", "A", "bbr2", "0"]
    figures = [compared[name] for name in ("difference", "ratio", "ratio_low", "ratio_high")]
    assert list(map(float, figures)) == [3.64, 1.13, 1.13, 1.13]
    assert by_cell["geo_loss", "none", "none", "bbr2", "0"]["ratio"] == ""
    failed = by_cell[FAILED]
    assert (failed["seeds"], failed["failed"], by_cell[NOT_RUN]["not_run"]) == ("4", "1", "5")


def test_claims_csv_has_every_comparison_with_its_interval(report: Path) -> None:
    rows = rows_of(report / "claims.csv")
    assert {row["claim"] for row in rows} == {"C1", "C2", "C3", "C4", "C5", "C6", "C7"}
    assert all(row["low"] and row["high"] for row in rows if row["decision"] != "not decided")


def test_a_report_takes_the_place_of_a_report_only(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes").write_text("kept")
    assert main.main(["report", str(results), "-o", str(tmp_path / "mine")]) == 2
    assert "exists and is no report" in capsys.readouterr().err
    assert (tmp_path / "mine/notes").read_text() == "kept"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no results of a campaign"),
        ("{", "campaign.json"),
        ('{"command": "", "runs": []}', "nothing has been run yet"),
    ],
)
def test_what_is_no_campaign_is_refused(
    tmp_path: Path, content: str | None, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "campaign.json").write_text(content)
    assert main.main(["report", str(tmp_path), "-o", str(tmp_path / "report")]) == 2
    assert words in capsys.readouterr().err


def test_a_baseline_that_no_cell_has_is_refused(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(results), "-o", str(tmp_path / "report"), "--baseline", "vpn=ipsec"]
    assert main.main(["report", *arguments]) == 2
    assert "no cell has these values; arguments are cc" in capsys.readouterr().err


def test_a_scenario_of_another_shape_has_a_table_of_its_measures(tmp_path: Path) -> None:
    swept = {**ONE_OF_EACH, "vpn": ("none", "wireguard")}
    results = write_results(tmp_path / "other", 2, **swept)
    change_records(results, lambda one: {**one, "measures": {"mos": 4.2, "loss_pct": 0.5}})
    setting, _ = settings(read_campaigns([results]))
    (table,) = tables(setting, BASELINE).values()
    assert "| WireGuard | 4.20 | 0.500 |" in as_markdown(table)


def test_a_users_scenario_has_the_words_of_its_job(tmp_path: Path) -> None:
    """Neither VPN nor PEP nor loss in it; the words are in the records, the job is nowhere."""
    answer = {"column": "answer_us", "statistic": "answer_ms", "factor": 1000.0, "unit": "µs"}
    store = Store(tmp_path / "dns")
    store.runs.mkdir(parents=True)
    runs: list[dict[str, Any]] = []
    for n in (1, 2):
        run: dict[str, Any] = {
            "run_id": f"{n:016x}",
            "scenario": "dns",
            "arguments": {"names": str(n)},
        }
        runs.append({**run, "seed": 1})
        place = store.begin(f"{n:016x}")
        (place / "run.json").write_text('{"scenario": {}}')
        metadata = {"job_name": "dns", "agent_name": "pc"}
        sent = [
            {"answer_ms": 0.5 * n, "_metadata": {**metadata, "time": 1000 * n}} for n in range(25)
        ]
        (place / "statistics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in sent))
        made = replace(
            RECORD,
            **run,
            measures={"answer_us": 6000.0},
            command="./openbach-run dns.json",
            identity={"engine": "virtual"},
            declared={"dns": [{**answer, "title": "answer time"}]},
        )
        store.keep(place, made)
    store.write("campaign.json", json.dumps({"command": "./openbach-run dns.json", "runs": runs}))
    make(store.directory, tmp_path / "report")
    text = (tmp_path / "report/report.md").read_text()
    assert "| names | answer time (µs) |" in text
    assert "answer time over time (job dns)" in text
    assert "The baseline is none" in text and "## Claims" not in text
    drawn = words_of(tmp_path / "report/figures/dns-dns-answer_ms.pdf")
    assert "answer time (µs)" in drawn and "12000" in drawn, (
        "the statistic times the factor of its measure"
    )
    rows = rows_of(tmp_path / "report/cells.csv")
    assert [(row["measure"], row["unit"]) for row in rows] == 2 * [("answer_us", "µs")]
    assert "vpn" not in (tmp_path / "report/results.csv").read_text()


@pytest.mark.parametrize(("longest_s", "alike"), [(120.0, True), (4000.0, False)])
def test_a_run_that_lasts_very_long_does_not_squeeze_the_others(
    longest_s: float, alike: bool
) -> None:
    """OpenVPN TCP took 4000 s in one row, and nothing could be seen in the others."""
    ends = {(vpn, pep): 100.0 for vpn in ("none", "openvpn_tcp") for pep in ("none", "B", "A")}
    ends["openvpn_tcp", "B"] = longest_s
    panels = {pair: {"pc": [(0.0, 1e6), (end, 2e6)]} for pair, end in ends.items()}
    measure = Measure("goodput_bps", "goodput", "bps", "goodput")
    above, below = (
        _drawn_over_time("", "", measure, panels).figure.axes[number].get_xlim()[1]
        for number in (0, 3)
    )
    assert bool(above == below) is alike and above < 150 and below > longest_s


def test_flows_have_tables_of_their_own_and_none_is_wider_than_a_page(campaigns: Campaigns) -> None:
    measures = {f"measure_{number}": 1.0 for number in range(7)}
    for flow, size in ((1, 2), (2, 25e6)):
        measures |= {f"flow_{flow}_bytes": size, f"flow_{flow}_ttfb_s": 2.0}
    run = next(run for run in campaigns.runs if run.record and run.record.finished)
    assert run.record is not None
    run = replace(run, record=replace(run.record, measures=measures))
    cell = Cell({"scenario": "multi_flow"}, [run])
    tables = measures_tables(Setting("flows", "GEO", {}, [cell], campaigns.declared))
    assert {name: table.header[1:] for name, table in tables.items()} == {
        "flows-measures": [f"measure {number}" for number in range(5)],
        "flows-measures-2": ["measure 5", "measure 6"],
        "flows-measures-flow_1": ["received (bytes)", "time to first byte (s)"],
        "flows-measures-flow_2": ["received (MB)", "time to first byte (s)"],
    }
    assert tables["flows-measures-flow_2"].title == "GEO: measures, flow 2"
    assert tables["flows-measures-flow_2"].rows == [["multi flow", "25.00", "2.00"]]


def test_export(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["export", str(results)]) == 0
    lines = capsys.readouterr().out.splitlines()
    tags_and_times = {
        line.rpartition(" ")[0].split()[0] + line.rpartition(" ")[2] for line in lines
    }
    assert len(lines) == len(tags_and_times)
    assert lines[0].startswith("tcp_info,@agent_name=satvpn_pc,@job_instance_id=1,")


def test_an_orbit_that_is_an_argument_tells_files_apart() -> None:
    cells = [Cell({"scenario": "voip", "orbit": orbit, "vpn": "none"}) for orbit in ("geo", "leo")]
    found = settings(Campaigns([], cells))
    assert [(one.name, one.title) for one in found] == [
        ("voip-orbit_geo", "GEO (voip)"),
        ("voip-orbit_leo", "LEO (voip)"),
    ]


def test_the_least_time_belongs_to_cells_that_transferred() -> None:
    assert Cell({"scenario": "voip", "size": "1G"}).least_transfer_time_s is None


def drawn(results: Path, folder: Path, **plot: str) -> tuple[set[str], Campaigns]:
    """Return the names of the GEO campaign's figures and tables, and the campaign.

    Its scenario asks for this figure and measure.
    """
    asked = json.loads((results / "campaign.json").read_text())
    folder.mkdir()
    (folder / "runs").symlink_to(results / "runs")
    (folder / "shared").symlink_to(results / "shared")
    runs = [run for run in asked["runs"] if run["scenario"] == "geo_loss"]
    (folder / "campaign.json").write_text(
        json.dumps({**asked, "runs": runs, "plots": {"geo_loss": plot}})
    )
    campaigns = read_campaigns([folder])
    (setting,) = settings(campaigns)
    named = [*(one.name for one in drawings(setting, BASELINE)), *tables(setting, BASELINE)]
    return {name.removeprefix("geo_loss-") for name in named}, campaigns


def test_a_chart_has_what_its_figure_shows(results: Path) -> None:
    """Values of the cells, with their intervals.

    The ratios by name; the curve of a run as it was sent.
    """
    setting = settings(read_campaigns([results]))[0]
    made = {one.name: charts.chart_of(one.figure) for one in drawings(setting, BASELINE)}
    assert made.pop("geo_loss-times") is None, "a heat map has its numbers written in it"
    for loss_pct in ("0", "0.1", "1"):
        compared = made.pop(f"geo_loss-compared-{loss_pct}")
        assert compared is None, "its names are read in the drawing"
    assert all(made.values())
    loss = made["geo_loss-loss"]
    assert loss is not None and (loss["x"], loss["y"]) == ("random loss (%)", "transfer time (s)")
    assert loss["axes"]["ticks"] == [[0.0, "0"], [0.1, "0.1"], [1.0, "1"]]
    assert (loss["axes"]["log"], loss["axes"]["linear"]) == (True, None)
    assert [panel["title"] for panel in loss["panels"]][:4] == [
        "CUBIC, no PEP",
        "CUBIC, PEP B",
        "CUBIC, PEP A",
        "CUBIC without HyStart, no PEP",
    ]
    assert all(len(panel["lines"]) <= 5 for panel in loss["panels"]), "each can be followed"
    assert [one["marker"] for one in loss["panels"][0]["lines"][:4]] == ["o", "s", "^", "D"]
    line = next(one for one in loss["panels"][1]["lines"] if one["line"] == "WireGuard")
    wanted = [
        figures.find(setting.cells, vpn="wireguard", pep="B", cc="cubic", loss=at).estimate(MEASURE)  # type: ignore[union-attr]
        for at in ("0", "0.1", "1")
    ]
    assert line["t"] == [0.0, 0.1, 1.0]
    for name, values in {"v": "median", "low": "low", "high": "high"}.items():
        assert line[name] == [pytest.approx(getattr(one, values), rel=1e-5) for one in wanted]
    sent = made["geo_loss-tcp_info-goodput_mbps"]
    assert sent is not None and len(sent["panels"]) == 12
    assert sent["panels"][0]["lines"][0]["t"][:3] == [0.0, 1.0, 2.0]


def test_the_csv_of_a_figure_has_its_points(report: Path, campaigns: Campaigns) -> None:
    def rows(name: str, **wanted: str) -> list[dict[str, str]]:
        every = rows_of(report / f"figures/{name}.csv")
        return [row for row in every if wanted.items() <= row.items()]

    wireguard = cell(campaigns, "geo_loss", "wireguard", "none", "bbr2", "1").estimate(MEASURE)
    assert wireguard is not None
    at_1 = {"panel": "GEO, at 1 % loss", "line": "TCP BBRv2", "y": "WireGuard"}
    (first,) = rows("page-1", **at_1)
    assert float(first["x"]) == pytest.approx(wireguard.median, rel=1e-5)
    assert float(first["low"]) < float(first["x"]) < float(first["high"])
    (ratio,) = rows("geo_loss-compared-1", line="BBRv2", y="OpenVPN TCP, PEP B")
    cells = [one for one in campaigns.cells if one.values["scenario"] == "geo_loss"]
    proxied = cell(campaigns, "geo_loss", "openvpn_tcp", "B", "bbr2", "1")
    found = figures.against(proxied, cells, BASELINE, MEASURE)
    assert found is not None and float(ratio["x"]) == pytest.approx(found.median, rel=1e-5)
    fields = 4 * 3 * len(TRANSPORTS_OF_SOME) * 3
    assert len(rows("geo_loss-times")) == fields, "a heat map has a point in each field"


def test_times_of_both_orbits_have_one_scale(some_campaigns: Campaigns) -> None:
    every = settings(some_campaigns)
    scales = []
    for setting in every:
        heat = drawings(setting, BASELINE, every)[0]
        (image,) = heat.figure.axes[0].images
        scales.append((image.norm.vmin, image.norm.vmax))
    assert len(scales) == 2 and scales[0] == scales[1]


def test_a_report_is_made_from_its_table_of_runs(report: Path, from_table: Path) -> None:
    """Page 1 and verdicts are the same; what the file has not is not told."""
    for file in ("tables/use.md", "tables/costs.md"):
        assert (from_table / file).read_bytes() == (report / file).read_bytes(), file
    verdicts = [(report / "claims.csv").read_text(), (from_table / "claims.csv").read_text()]
    rows = [[line.split(",")[:4] for line in text.splitlines()] for text in verdicts]
    assert rows[0] == rows[1]
    text = (from_table / "report.md").read_text()
    assert "made from `results.parquet`, without the files of its runs" in text
    assert "./openbach-run campaigns/matrix.yml --seeds 5" in text, "the file has the command"


def told_apart(campaigns: Campaigns) -> list[tuple[dict[str, str], list[tuple[int, str]]]]:
    """Return the values of each cell, with the seed and the clock of each of its runs."""
    found = []
    for one in campaigns.cells:
        runs = [(run.seed, run.record.clock if run.record else "") for run in one.runs]
        found.append((one.values, sorted(runs)))
    return sorted(found, key=str)


def test_a_table_of_runs_has_their_orbits_and_their_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path of two links had no orbit, and a run in virtual time counted as one in real time.

    So page 1 had another title, and claims about a CPU, which costs nothing in virtual time, had
    verdicts.
    """
    place = write_results(tmp_path / "results", 1, vpn=("none", "wireguard"), pep=("none",))
    monkeypatch.setattr(cells, "_orbit_arguments", lambda _: ["geo", "$vpn"])
    campaigns = read_campaigns([place])
    assert {one.values["orbit"] for one in campaigns.cells} == {"geo+none", "geo+wireguard"}
    assert {one.clock for one in campaigns.records} == {"virtual"}
    file = tmp_path / "results.parquet"
    records = [replace(one, texts={"said_by": one.arguments["vpn"]}) for one in campaigns.records]
    write_parquet(records, file, about(campaigns))
    assert told_apart(read_campaigns([file])) == told_apart(campaigns)
    assert [one.texts for one in read_campaigns([file]).records] == [one.texts for one in records]


@pytest.mark.parametrize(
    ("commands", "clock", "engine"),
    [
        (["./openbach-run geo"], "virtual", "virtual"),
        (["./openbach-run geo --engine native"], "real", None),
        (["./openbach-run geo --clock=real"], "real", None),
        (["./openbach-run geo --clock real/10"], "real", None),
        ([], "virtual", None),
    ],
)
def test_a_table_of_runs_of_before_has_the_clock_of_its_command(
    commands: list[str], clock: str, engine: str | None, campaigns: Campaigns, tmp_path: Path
) -> None:
    file = tmp_path / "results.parquet"
    write_parquet(campaigns.records, file)
    write_about(file, {"commands": commands})
    records = read_campaigns([file]).records
    assert {(one.clock, one.identity.get("engine")) for one in records} == {(clock, engine)}


def write_about(file: Path, about: Mapping[str, object]) -> None:
    """Write other metadata into results.parquet."""
    table = pyarrow.parquet.read_table(file)
    told = {ABOUT: json.dumps(about).encode()}
    pyarrow.parquet.write_table(table.replace_schema_metadata(told), file)


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_a_campaigns_own_table_has_the_clock_of_its_runs(
    clock: str, campaigns: Campaigns, tmp_path: Path
) -> None:
    """Runs in real time counted as virtual: claims about a CPU then had no verdict."""
    identity = {"engine": "native", "clock": clock}
    file = tmp_path / "results.parquet"
    write_parquet([replace(one, identity=identity) for one in campaigns.records], file)
    assert [one.identity for one in read_campaigns([file]).records] == [identity] * len(
        campaigns.records
    )


@pytest.mark.parametrize("name", ["identity", "orbit"])
@pytest.mark.parametrize(
    "wrong", [{}, [1], {"a": {}}, {"values": [0], "of_row": [0]}, {"values": [0], "in_a_row": [1]}]
)
def test_a_table_whose_metadata_do_not_fit_is_refused(
    wrong: object, name: str, campaigns: Campaigns, tmp_path: Path
) -> None:
    file = tmp_path / "results.parquet"
    write_parquet(campaigns.records, file)
    identities = places([one.identity for one in campaigns.records])
    write_about(file, {"rows": {"identity": identities}})
    assert {one.clock for one in read_campaigns([file]).records} == {"virtual"}
    write_about(file, {"rows": {"identity": identities, name: wrong}})
    with pytest.raises(InputError, match=f"its rows have no {name}"):
        read_campaigns([file])


def test_what_is_no_table_of_runs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.parquet"
    file.write_text("no table")
    assert main.main(["report", str(file), "-o", str(tmp_path / "out")]) == 2
    assert "results.parquet: no results.parquet:" in capsys.readouterr().err
    assert main.main(["report", str(file), "--runs"]) == 2
    assert "a results.parquet has no runs" in capsys.readouterr().err


def test_the_first_page_alone(some_results: Path, tmp_path: Path, report: Path) -> None:
    make(some_results, tmp_path / "first", "--first-page")
    text = (tmp_path / "first/report.md").read_text()
    whole = (report / "report.md").read_text()
    for line in re.findall(r"(?m)^(?:\d\. .+|\| .+ \|)$", text):
        assert line in whole
    part = (tmp_path / "first/page-1.html").read_text()
    assert "<figure" in part and "What to use" in part
    assert "style=" not in re.sub(r"'data:[^']*'", "", part)
    assert main.main(["report", str(some_results), "--first-page", "--appendix"]) == 2


def test_a_scenario_says_what_is_drawn(some_results: Path, tmp_path: Path) -> None:
    """Until then the report went by whether there was a transfer time."""
    of_goodput = {"measure": "goodput_mbps", "figure": "matrix"}
    names, campaigns = drawn(some_results, tmp_path / "goodput", **of_goodput)
    assert {"times", "loss", "compared-0.1"} <= names
    assert any(
        one.startswith("Also measured: goodput") for one in front.front_of(campaigns).sentences
    )
    (setting,) = settings(campaigns)
    assert times_table(setting).title.startswith("GEO (geo loss): goodput (Mbit/s)")
    names, _ = drawn(some_results, tmp_path / "measures", measure=MEASURE, figure="measures")
    assert "measures" in names and not names & {"times", "loss"}


def test_a_second_tunnel_comes_after_the_matrix_and_one_tunnel() -> None:
    orders = [("multi_flow", "openvpn_tcp"), ("multi_flow", "none"), ("geo", "none")]
    cells = [
        Cell({"scenario": name, "orbit": "geo", "vpn": "none", "vpn_2": vpn_2})
        for name, vpn_2 in orders
    ]
    order = [one.shared["vpn_2"] for one in settings(Campaigns([], cells))]
    assert order == ["none", "none", "openvpn_tcp"]


def test_every_condition_is_stated_and_a_link_file_has_its_own_rate(
    tmp_path: Path, campaigns: Campaigns
) -> None:
    rows = (
        "time_s,direction,rate_bps,delay_ms",
        "0,forward,20000000,250",
        "0,return,2000000,250",
        "60,forward,10000000,250",
    )
    content = "".join(f"{row}\n" for row in rows)
    described = {"scenario": {}, "link_files": {"link_file": content}}
    (tmp_path / "run.json").write_text(json.dumps(described))
    (tmp_path / "statistics.jsonl").write_text("")
    link = {"link_file": "mine.csv", "rate": "10M", "buffer": "none", "buffer_bdp": "2"}
    link["queue"] = "fq_codel"
    run = replace(campaigns.runs[0], run_dir=tmp_path)
    cell = Cell({"scenario": "geo", "orbit": "geo", "vpn": "none", "size": "30M", **link}, [run])
    told = conditions(settings(Campaigns([], [cell]))[0])
    assert told[0].startswith(
        "link file mine.csv, which lasts 60 s: 20 Mbit/s on the forward link on average (from 10"
        " Mbit/s"
    )
    assert "2 Mbit/s on the return link" in told[0]
    rest = {"buffer 2 bandwidth-delay products", "queue FQ-CoDel", "size 30 MB", "no VPN"}
    assert set(told[1:]) == rest
    (tmp_path / "run.json").write_text(json.dumps({"scenario": {}, "satellite_file": content}))
    none = dict.fromkeys(("link_file", "rate", "return_rate", "delay_ms", "burst_ms"), "none")
    own = none | {"orbit": "mine", "loss": "1", "burst_packets": "1"}
    of_satellite = settings(Campaigns([], [Cell({**cell.values, **own}, [run])]))[0]
    assert of_satellite.title == "Mine (scenario geo)"
    on_top = {"1 % loss on top of the file's"}
    assert [told[0], rest | on_top] == [(again := conditions(of_satellite))[0], {*again[1:]}]
    no_cpu = {"cpu": "free", "cpu_scale": "1", "cpu_pop": "same"}
    slow = {"CPU slow", "factor on the CPU's times 1", "CPU of the POP as that of the box"}
    for cpu, said_of_it in (
        (no_cpu, {"programs and encryption take no time"}),
        ({**no_cpu, "cpu": "slow"}, slow),
    ):
        several = Campaigns([], [Cell({**cell.values, **cpu}, [run])])
        assert set(conditions(settings(several)[0])[1:]) == rest | said_of_it


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("vpn", "openvpn_udp", "OpenVPN UDP"),
        ("vpn", "mine_too", "mine too"),
        ("size", "30M", "size 30 MB"),
        ("rate", "2500k", "forward rate 2.5 Mbit/s"),
        ("buffer", "100p", "buffer 100 packets"),
        ("buffer_bdp", "1", "buffer 1 bandwidth-delay product"),
        ("delay_ms", "250", "one-way delay 250 ms"),
        ("burst_packets", "3", "burst loss of 3 packets on average"),
        ("link_file", "none", "no link file"),
        ("cc_pep", "same", "congestion control of the PEP as at the end hosts"),
        ("cc_2", "same", "congestion control of the second flow as that of the first"),
        ("return_loss", "same", "random loss of the return link as that of the forward link"),
        ("mine", "same", "mine: the same"),
        ("wait_ms", "5", "wait 5 ms"),
    ],
)
def test_arguments_in_words(name: str, value: str, words: str) -> None:
    assert phrase(name, value) == words


@pytest.mark.parametrize(
    ("value", "places"), [(0, 0), (0.0123, 3), (0.5, 3), (4.2, 2), (28.4, 2), (452.5, 1), (7696, 0)]
)
def test_figures_have_the_digits_that_say_something(value: float, places: int) -> None:
    assert decimals(value) == places


def test_figures_have_units_that_people_use() -> None:
    received = in_good_units(from_name("bytes_bytes"), [67_103_024.0])
    estimate = Estimate(67_103_024.0, 66_176_304.0, 78_704_800.0, 5)
    assert received.unit == "MB"
    assert figure(estimate, None, received.factor) == "67.10 [66.18–78.70]"
    assert figure(Estimate(28.0, 28.0, 28.0, 5)) == "28.00"
    assert value_of("size", "1500") == "1.5 kB"


def test_an_axis_is_to_scale() -> None:
    axes = Figure().subplots()
    assert _to_scale(axes, ["0", "0.1", "1"]) == "" and axes.get_xscale() == "linear"
    assert list(axes.get_xticks()) == [0, 0.1, 1]
    assert _to_scale(axes, ["0", "0.01", "5"]) == " (logarithmic above 0.01)"
    assert axes.get_xscale() == "symlog"


def test_advice_is_by_condition_and_by_what_one_controls(campaigns: Campaigns) -> None:
    page = page_one(campaigns)
    assert page is not None
    table = link_table(page)
    assert table is not None
    of_geo = [row[2:4] for row in table.rows if row[1] == "over GEO, at 1 % loss"]
    assert of_geo == [
        ["hosts, PEP and VPN", "OpenVPN TCP, TCP BBRv2 (not above 1 % loss), no PEP"],
        ["PEP and VPN", "OpenVPN TCP, PEP B"],
        ["VPN only", "OpenVPN TCP"],
    ]


def test_one_configuration_is_no_choice(tmp_path: Path) -> None:
    swept = {**ONE_OF_EACH, "vpn": ("none", "wireguard"), "loss": ("1",)}
    results = write_results(tmp_path / "one", 5, **swept)
    page = page_one(read_campaigns([results]))
    assert page is not None and link_table(page) is None


def test_eight_runs_of_ones_own_make_two_pages_and_no_claim_that_says_nothing(
    tmp_path: Path,
) -> None:
    swept = {"vpn": ("none", "wireguard"), "cc": ("cubic", "bbr2"), "loss": ("0", "1")}
    results = write_results(tmp_path / "own", 1, **{**ONE_OF_EACH, **swept})
    asked = json.loads((results / "campaign.json").read_text())
    own = [run for run in asked["runs"] if run["scenario"] == "geo_loss"]
    (results / "campaign.json").write_text(json.dumps({**asked, "runs": own}))
    text = (make(results, tmp_path / "report") / "report.md").read_text()
    assert len(own) == 8 and len(PdfDocument(tmp_path / "report/report.pdf")) <= 2
    assert "## Claims" not in text
    assert "Of C1, C4 nothing can be said: 1 of at least 5 seeds" in text
    assert "one seed, and the link is random" in text
    found = read_campaigns([results])
    claims = [judge(name, one, found) for name, one in read_claims(CLAIMS).items()]
    assert undecided(claims) == {"1 of at least 5 seeds": ["C1", "C4"]}


def test_cells_of_two_links_have_both(tmp_path: Path) -> None:
    links = [("sat_1", "$first"), ("sat_2", "$second"), ("sat_3", "leo")]
    started = [
        {"start_job_instance": {"entity_name": name, "satcom_link": {"orbit": value}}}
        for name, value in links
    ]
    arguments = {"first": "geo", "second": "leo"}
    store = Store(tmp_path)
    store.runs.mkdir(parents=True)
    place = store.begin("a")
    (place / "run.json").write_text(json.dumps({"scenario": {"openbach_functions": started}}))
    (place / "statistics.jsonl").write_text("")
    made = replace(RECORD, run_id="a", scenario="two", arguments=arguments, seed=1)
    store.keep(place, made)
    planned = {"run_id": "a", "scenario": "two", "arguments": arguments, "seed": 1}
    store.write("campaign.json", json.dumps({"command": "./openbach-run two", "runs": [planned]}))
    (cell,) = read_campaigns([tmp_path]).cells
    assert cell.values["orbit"] == "geo+leo"


def test_comparisons_are_told_apart_by_what_their_claim_does_not_name() -> None:
    shared = {"scenario": "multipath", "orbit": "geo", "vpn": "openvpn_mptcp", "streams": "1"}
    cells = [Cell({**shared, "direction": direction}) for direction in ("download", "upload")]
    part = {"cell": {"vpn": ["openvpn_mptcp"]}, "measure": "longest_gap_s", "most": 1}
    (found,) = judged(Campaigns([], cells), part).findings
    names = [one.name for one in found.comparisons]
    assert names == ["OpenVPN MPTCP, download", "OpenVPN MPTCP, upload"]


@pytest.mark.parametrize(
    ("greatest", "unit"), [(1420, "bytes"), (86_016, "kB"), (3.5e6, "MB"), (2e9, "GB")]
)
def test_a_size_has_a_prefix_where_it_is_long(greatest: float, unit: str) -> None:
    assert in_good_units(from_name("path_mtu_bytes"), [greatest / 2, greatest]).unit == unit


def test_vpns_and_controls_are_written_as_their_folders_say() -> None:
    assert named("openvpn_udp") == "OpenVPN UDP"
    assert named("cubic_nohystart") == "CUBIC without HyStart"
    assert named("vpncloud_aes128") == "VpnCloud AES-128", "not its base's"
    assert named("hyprspace") == "hyprspace" and named("of_nobody") == "of nobody"


def hosts(**networks: list[str]) -> dict[str, Any]:
    names = sorted({name for some in networks.values() for name in some})
    every = []
    for name in names:
        of = [{"network": key} for key, some in networks.items() if name in some]
        every.append({"name": name, "interfaces": of})
    return {"hosts": every}


@pytest.mark.parametrize(
    ("inventory", "lines"),
    [
        (hosts(lan=["pc", "box"], wan=["box", "pop"]), ["pc ── box ── pop"]),
        (hosts(lan=["pc_1", "pc_2", "pc_3"]), ["lan: pc_1, pc_2, pc_3"]),
        (hosts(a=["x", "y"], b=["y", "z"], c=["x", "z"]), ["a: x, y", "c: x, z", "b: y, z"]),
        (hosts(a=["x", "y"], b=["p", "q"]), ["b: p, q", "a: x, y"]),
        (hosts(), []),
    ],
)
def test_hosts_in_a_line_are_drawn_as_one(inventory: dict[str, Any], lines: list[str]) -> None:
    assert drawing(inventory) == lines


def test_our_path_is_a_line() -> None:
    inventory = load_inventory(REPOSITORY / "inventory.yml")
    every = [
        {"name": one.name, "interfaces": [{"network": i.network} for i in one.interfaces]}
        for one in inventory.hosts
    ]
    assert drawing({"hosts": every}) == ["pc ── box ── st ── sat ── gw ── pop ── server"]
