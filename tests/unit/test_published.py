# SPDX-License-Identifier: GPL-3.0-or-later
"""Published figures beside ours.

Ratios, order, and what is said of those that cannot be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from helpers.records import RECORD
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.measures import flat
from openbach_run.report.cells import Campaigns, Cell, Run
from openbach_run.report.published import rank_correlation, tables
from openbach_run.report.write import PUBLISHED

ROOT = Path(__file__).resolve().parents[2]


def cell(
    values: dict[str, str],
    figures: Sequence[float],
    engine: str = "virtual",
    measure: str = "tcp_mbps",
) -> Cell:
    runs = [
        Run(
            seed,
            Path(),
            replace(
                RECORD,
                scenario=values["scenario"],
                arguments=values,
                seed=seed,
                measures={measure: figure},
                identity={"engine": engine},
            ),
        )
        for seed, figure in enumerate(figures, 1)
    ]
    return Cell({"orbit": "", **values}, runs)


def described(place: Path, **more: object) -> Path:
    one = {"title": "TCP", "cell": {"scenario": ["lan_tcp"]}, "measure": "tcp_mbps",
           "figures": {"none": 100, "a": 90, "b": 50, "c": 80}, **more}  # fmt: skip
    file = place / "published.yml"
    file.write_text(
        yaml.safe_dump({"paper": {"document": "A paper", "tables": [one]}}, sort_keys=False)
    )
    return file


def campaigns(engine: str = "virtual") -> Campaigns:
    figures = {"none": [50.0, 52.0], "a": [40.0, 41.6], "b": [30.0, 31.0], "d": [1.0, 1.0]}
    return Campaigns(
        [],
        [
            cell({"scenario": "lan_tcp", "vpn": vpn}, found, engine)
            for vpn, found in figures.items()
        ],
    )


def test_each_figure_has_ours_beside_it(tmp_path: Path) -> None:
    (table,) = tables(campaigns(), described(tmp_path)).values()
    assert table.title == "A paper: TCP"
    none, a, _, c = table.rows
    assert none[:3] == ["no VPN", "100", "1.000"]
    assert a == ["a", "90", "0.900", "40.80 [40.00–41.60]", "0.800"]
    assert c == ["c", "80", "0.800", "not run", "–"]
    assert "rank correlation of 3 rows (Spearman): 1.00" in table.note


def test_one_seed_over_a_random_link_warns(tmp_path: Path) -> None:
    cells = [
        cell({"scenario": "lan_tcp", "vpn": vpn, "loss": "1"}, [50.0]) for vpn in ("none", "a")
    ]
    (table,) = tables(Campaigns([], cells), described(tmp_path)).values()
    assert table.note.startswith("one seed, and the link is random")


def test_what_cannot_be_compared_is_marked_in_virtual_time_only(tmp_path: Path) -> None:
    file = described(tmp_path, marked="it is a CPU's")
    (virtual,), (real,) = (
        tables(campaigns(engine), file).values() for engine in ("virtual", "controller")
    )
    assert virtual.note.endswith("NOT COMPARABLE as they are: it is a CPU's")
    assert "NOT COMPARABLE" not in real.note


def test_cells_that_differ_in_more_than_the_vpn_have_a_table_each(tmp_path: Path) -> None:
    cells = [
        cell({"scenario": "lan_tcp", "vpn": "none", "cc": cc}, [1.0]) for cc in ("cubic", "bbr")
    ]
    made = tables(Campaigns([], cells), described(tmp_path))
    assert [table.title for table in made.values()] == [
        "A paper: TCP (CUBIC)",
        "A paper: TCP (BBR)",
    ]
    assert list(made) == ["published-paper-1", "published-paper-2"]


def test_without_such_cells_there_is_no_table(tmp_path: Path) -> None:
    assert not tables(
        Campaigns([], [cell({"scenario": "geo", "vpn": "none"}, [1.0])]), described(tmp_path)
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=12))
def test_the_rank_correlation_is_spearmans(pairs: list[tuple[int, int]]) -> None:
    one, other = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    found = rank_correlation(one, other)
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(spearmanr(one, other).statistic)


def test_ours_are_of_measures_and_scenarios_that_there_are() -> None:
    measures = {
        one.column
        for one in flat(
            {name: package.measures for name, package in load_packages([ROOT / "jobs"]).items()}
        )
    }
    for document in yaml.safe_load(PUBLISHED.read_text()).values():
        for one in document["tables"]:
            assert one["measure"] in measures
            assert all(
                (ROOT / f"scenarios/{name}.yml").exists() for name in one["cell"]["scenario"]
            )
            assert len(one["figures"]) >= 2
