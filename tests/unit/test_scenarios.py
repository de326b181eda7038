# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenario files are what their sources give."""

from __future__ import annotations

from pathlib import Path

import pytest

from openbach_run.commands.expand import as_text
from openbach_run.openbach.expand import expand
from openbach_run.openbach.job_folders import load_packages

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
SOURCES = sorted(SCENARIOS.glob("*.yml"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_file_is_in_step_with_its_source(source: Path) -> None:
    assert source.with_suffix(".json").read_text() == as_text(expand(source)), "run `make scenarios`"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_platform_asks_for_six_arguments_at_most(source: Path) -> None:
    assert len(expand(source)["arguments"]) <= 6


def test_every_file_has_a_source() -> None:
    assert {file.stem for file in SCENARIOS.glob("*.json")} == {source.stem for source in SOURCES}


def test_positions_are_the_same_in_job_and_scenario() -> None:
    pep = load_packages([SCENARIOS.parent / "jobs/pep"])["pep"].job
    (position,) = pep.arguments.required
    started = [one.get("start_job_instance", {}) for one in expand(SCENARIOS / "geo.yml")["openbach_functions"]]
    proxies = {one["entity_name"]: one["pep"]["at"].split(",") for one in started if "pep" in one}
    at = {position: [host for host, positions in proxies.items() if position in positions]
          for position in position.choices}  # fmt: skip
    assert at == {
        "none": [],
        "A": ["satvpn_gw"],
        "A_double": ["satvpn_gw", "satvpn_st"],
        "B": ["satvpn_pop"],
        "B_double": ["satvpn_pop", "satvpn_box"],
    }
