# SPDX-License-Identifier: GPL-3.0-or-later
"""Functions that a scenario has only with some values (`x-only-if`).

The NAT's job starts where there is one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openbach_run.campaign.plan import plan
from openbach_run.errors import InputError
from openbach_run.openbach.expand import expand
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.reading import read_scenario

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])
JOBS = {name: package.job for name, package in PACKAGES.items()}
GEO = ROOT / "scenarios/geo.yml"


def test_the_function_is_there_with_the_value_only_and_nothing_waits_for_it() -> None:
    scenario = read_scenario(GEO, JOBS)
    (number,) = map(int, scenario.only_if)
    assert "nat" in scenario.by_id[number]["start_job_instance"]
    assert scenario.with_functions_of({"nat": "terminal"}) is scenario
    without = scenario.with_functions_of({"nat": "none"})
    assert [one["id"] for one in without.functions] == [
        one for one in scenario.by_id if one != number
    ]
    named = [
        ids
        for one in without.functions
        for ids in one.get("wait", {}).values()
        if isinstance(ids, list)
    ]
    named += [one["stop_job_instances"]["openbach_function_ids"] for one in without.functions[-1:]]
    assert not any(number in ids for ids in named)


@pytest.mark.parametrize(
    ("only_if", "said"),
    [
        ({"99": "nat != 'none'"}, "x-only-if.99: there is no such function"),
        ({"1": "nat !="}, "x-only-if.1: 'nat !=' is no condition"),
    ],
)
def test_what_is_no_such_declaration_is_refused(
    tmp_path: Path, only_if: dict[str, str], said: str
) -> None:
    path = tmp_path / "geo.json"
    path.write_text(json.dumps(expand(GEO) | {"x-only-if": only_if}))
    with pytest.raises(InputError, match=said):
        plan(path, ("vpn=none",), None, PACKAGES)


def test_what_follows_another_value_is_set_where_it_is_also_without_the_function() -> None:
    """Numbers of functions stay.

    Taken as positions, three of four proxies had another congestion control.
    """
    without = (
        read_scenario(GEO, JOBS)
        .with_functions_of({"nat": "none"})
        .with_constants({"cc_pep": "bbr"})
    )
    started = [one.get("start_job_instance", {}) for one in without.functions]
    set_here = [one["satpep"]["run"]["cc"] for one in started if "run" in one.get("satpep", {})]
    assert set_here == 4 * [[["$cc_pep"]]]
