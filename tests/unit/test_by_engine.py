# SPDX-License-Identifier: GPL-3.0-or-later
"""No sentence of a report or table is false for the engine that made its results.

The results are planted: one campaign, said to be of each engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from math import comb
from pathlib import Path

import pytest
from helpers.made_up import write_results

from openbach_run.clock import VIRTUAL
from openbach_run.commands import main
from openbach_run.paths import REPOSITORY
from openbach_run.report.cells import measured_against, read_campaigns
from openbach_run.report.content import limitations, page_of
from openbach_run.results import by_engine
from openbach_run.results.by_engine import CONTROLLER, NATIVE, OWN_CLOCK
from openbach_run.results.intervals import _rank_sum, change_notes, unpaired

KINDS = {
    VIRTUAL: ({"engine": "virtual", "clock": "virtual"}, {}),
    OWN_CLOCK: ({"engine": "virtual", "clock": "real/10"}, {"clock": "real/10"}),
    NATIVE: ({"engine": "native", "clock": "real"}, {"engine": "native"}),
    CONTROLLER: ({"engine": "controller", "openbach": "2.7"}, {"engine": "controller"}),
}
"""Kind → the identity of its records, and what its campaign.json keeps apart."""
OF_VIRTUAL_TIME = (
    "virtual time",
    "the same loss process",
    "seed by seed",
    "paired with the same seed",
    "median of paired",
    "programs and encryption take no time",
    "The CPU costs nothing.",
    "No host is ever disturbed",
    "A program that computes for ever stops time.",
    "The packets depend on a kernel",
    "The same results, to the bit",
    "The size of known effects",
)
"""Sentences, or parts of them, that are true of virtual time only."""
OF_A_GUEST = ("One run, one CPU.", "A program in the guest can overwrite", "User Mode Linux")
SOME = {"vpn": ("none", "wireguard"), "pep": ("none",), "cc": ("cubic", "bbr2")}


def planted(folder: Path, kind: str, seeds: int = 5) -> Path:
    """Return results that are said to be of an engine."""
    identity, apart = KINDS[kind]
    results = write_results(folder / kind.replace(" ", "_"), seeds, **SOME)
    for file in (results / "shared").glob("*.json"):
        shared = json.loads(file.read_text())
        shared["identity"] = {**identity, "job": "1"}
        shared["packages"] = [] if kind == CONTROLLER else shared["packages"]
        file.write_text(json.dumps(shared))
    file = results / "campaign.json"
    asked = json.loads(file.read_text())
    for run in asked["runs"]:
        run["arguments"]["cpu"] = "free"
    file.write_text(json.dumps({**asked, "apart": apart}))
    for file in results.glob("runs/*/record.json"):
        record = json.loads(file.read_text())
        record["arguments"]["cpu"] = "free"
        file.write_text(json.dumps(record))
    return results


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a report by the kind of its results."""
    folder = tmp_path_factory.mktemp("by_engine")
    found = {}
    for kind in KINDS:
        found[kind] = folder / "reports" / kind
        words = [str(planted(folder, kind)), "-o", str(found[kind]), "--quiet"]
        assert main.main(["report", *words]) == 0
    return found


@pytest.fixture(scope="module")
def texts(reports: Mapping[str, Path]) -> dict[str, str]:
    """Return the text of a report and of all its tables, by the kind of its results."""
    found = {}
    for kind, report in reports.items():
        files = [report / "report.md", *sorted(report.glob("tables/*.md"))]
        found[kind] = " ".join("\n".join(one.read_text() for one in files).split())
    return found


def test_a_report_in_virtual_time_says_so(texts: Mapping[str, str]) -> None:
    said = [one for one in OF_VIRTUAL_TIME if one in texts[VIRTUAL]]
    not_listed = {"No host is ever disturbed", "The packets depend on a kernel"}
    assert {*OF_VIRTUAL_TIME} - {*said} == not_listed  # these two are in the appendix only
    assert f" of {by_engine.time_of(VIRTUAL)}" in texts[VIRTUAL]


@pytest.mark.parametrize("kind", [OWN_CLOCK, NATIVE, CONTROLLER])
def test_no_sentence_of_a_report_is_false_for_its_engine(
    kind: str, texts: Mapping[str, str]
) -> None:
    """They said virtual time, one loss process for all cells, and a CPU that costs nothing."""
    assert [one for one in OF_VIRTUAL_TIME if one in texts[kind]] == []
    of_guest = [one for one in OF_A_GUEST if one in texts[kind]]
    assert bool(of_guest) == (kind == OWN_CLOCK)
    assert by_engine.SEEDS[kind] in texts[kind]
    assert by_engine.where([kind])[0] in texts[kind]
    others = [one for one in KINDS if one != kind]
    assert not [one for one in others if by_engine.SEEDS[one] in texts[kind]]
    assert not [one for one in others if by_engine.where([one])[0] in texts[kind]]
    assert by_engine.COMPARED[False] in texts[kind]
    assert change_notes([5], {False}) in texts[kind]
    name, value = by_engine.options(KINDS[kind][1])[0]
    assert f"campaigns/matrix.yml --seeds 5 {name} {value}" in texts[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_the_appendix_has_the_limits_and_the_method_of_its_engine(kind: str) -> None:
    docs = REPOSITORY / "docs"
    listed, whole = limitations(docs, [kind]), page_of(docs, "limitations", [kind])
    for start, kinds in by_engine.LIMITS.items():
        assert (start in whole) == (kind in kinds)
        assert kind in kinds or start not in listed
    assert by_engine.pages([kind]) == [by_engine.PAGES[kind]]


def test_every_limit_of_one_engine_is_a_limitation_of_the_page() -> None:
    text = (REPOSITORY / "docs/limitations.md").read_text()
    assert [one for one in by_engine.LIMITS if f"- **{one}" not in text] == []


def test_beside_results_of_another_engine_a_limit_says_whose_it_is() -> None:
    of_both = limitations(REPOSITORY / "docs", [VIRTUAL, CONTROLLER])
    assert "- (virtual) The CPU costs nothing." in of_both


@pytest.mark.parametrize("kind", KINDS)
def test_only_seeds_in_virtual_time_pair(kind: str, tmp_path: Path) -> None:
    """A platform's losses have no seed: intervals of pairs said too much."""
    cells = read_campaigns([planted(tmp_path, kind)]).cells
    bare = next(one for one in cells if one.values["vpn"] == "none" and one.values["loss"] == "1")
    own = {**bare.values, "vpn": "wireguard"}
    cell = next(one for one in cells if one.values == own)
    found = measured_against(cell, bare, "transfer_time_s")
    assert found is not None and found.low is not None and found.high is not None
    # The formula adds the same to every seed: what is left between pairs is next to nothing.
    assert (found.high - found.low < 0.01) == (kind == VIRTUAL)


@pytest.mark.parametrize(("first", "second"), [(3, 4), (5, 5), (6, 5)])
def test_an_interval_without_pairs_has_its_confidence(first: int, second: int) -> None:
    """Counted over all orders of the values, as books tabulate it (5 and 5: the third)."""
    rank = _rank_sum(first, second)
    below = [0, 0]
    for places in combinations(range(first + second), first):
        u = sum(places) - first * (first - 1) // 2
        below[0] += u < rank
        below[1] += u < rank + 1
    assert below[0] <= 0.025 * comb(first + second, first) < below[1]
    assert (first, second) != (5, 5) or rank == 3


def test_cells_without_pairs() -> None:
    found = unpaired([2.0, 4.0, 6.0, 8.0, 10.0], [1.0, 1.0, 1.0, 1.0, 1.0])
    assert found is not None
    assert (found.median, found.low, found.high, found.seeds) == (6.0, 2.0, 10.0, 5)
    assert unpaired([], [1.0]) is None
    alone = unpaired([2.0], [1.0, 2.0])
    assert alone is not None and alone.low is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_runs_keeps_engines_apart(kind: str, reports: Mapping[str, Path]) -> None:
    """A report of two engines, made again from its table, mixed both into the same cells."""
    for cell in read_campaigns([reports[kind] / "results.parquet"]).cells:
        assert not cell.runs[0].record or KINDS[kind][1].items() <= cell.values.items()
