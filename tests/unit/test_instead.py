# SPDX-License-Identifier: GPL-3.0-or-later
"""A value that takes the place of others (`x-instead`): a transfer's duration, of the default size.

And functions that a scenario has only with some values (`x-only-if`): the NAT's job.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openbach_run.campaign.model import Campaign
from openbach_run.campaign.reading import plan
from openbach_run.errors import InputError
from openbach_run.openbach.expand import expand
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.reading import read_scenario

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])
JOBS = {name: package.job for name, package in PACKAGES.items()}
GEO = ROOT / "scenarios/geo.yml"
NARROW = ("vpn=none", "cc=cubic")


def campaign(*settings: str, path: Path = GEO) -> Campaign:
    return plan(path, settings, None, PACKAGES)


def test_a_duration_replaces_the_default_size_and_the_table_shows_goodput() -> None:
    found = campaign(*NARROW, "duration_s=0,60")
    assert [(cell["duration_s"], cell["size"]) for cell in found.cells] == [
        ("0", "30M"),
        ("60", "unlimited"),
    ]
    assert found.measure == "goodput_mbps"
    assert found.measure_instead == ("duration_s", "goodput_mbps")
    assert campaign().measure == campaign("duration_s=0").measure == "transfer_time_s"


def test_what_a_record_says_of_it_is_the_same_cell() -> None:
    (cell,) = campaign(*NARROW, "duration_s=60").cells
    assert campaign(*(f"{name}={value}" for name, value in cell.items())).cells == [cell]


@pytest.mark.parametrize(
    ("settings", "said"),
    {
        "duration_s=60 size=10M": "duration_s=60: a transfer has a size or a duration",
        "duration_s=0,60 size=10M,unlimited": "duration_s=60: a transfer has a size or a duration",
        "duration_s=60 http=2": "duration_s=60: http transfers a size; a duration takes iperf3",
        "size=unlimited": "size=unlimited: the transfer would never end",
        "duration_s=0.5": "duration_s",
        "duration_s=86401": "duration_s is from 0 to 86400 s",
    }.items(),
)
def test_a_size_beside_a_duration_is_refused(settings: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        campaign(*settings.split())


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (
            {"x-instead": {"duration": {"values": {}}}},
            "x-instead.duration: the scenario has no constant or value duration",
        ),
        (
            {"x-instead": {"duration_s": {"values": {"siz": "1"}}}},
            "x-instead.duration_s: the scenario has no constant or value siz",
        ),
        ({"x-instead": {"duration_s": {}}}, "values is missing"),
        ({"x-only-if": {"99": "nat != 'none'"}}, "x-only-if.99: there is no such function"),
        ({"x-only-if": {"1": "nat !="}}, "x-only-if.1: 'nat !=' is no condition"),
    ],
)
def test_what_is_no_such_declaration_is_refused(
    tmp_path: Path, declared: dict[str, object], said: str
) -> None:
    path = tmp_path / "geo.json"
    path.write_text(json.dumps(expand(GEO) | declared))
    with pytest.raises(InputError, match=said):
        campaign("vpn=none", path=path)


def test_the_function_is_there_with_the_value_only_and_nothing_waits_for_it() -> None:
    scenario = read_scenario(GEO, JOBS)
    (number,) = map(int, scenario.only_if)
    assert "nat" in scenario.by_id[number]["start_job_instance"]
    assert scenario.with_functions_of({"nat": "terminal"}) is scenario
    without = scenario.with_functions_of({"nat": "none"})
    assert [one["id"] for one in without.functions] == [
        one for one in scenario.by_id if one != number
    ]
    waits = [ids for one in without.functions for ids in one.get("wait", {}).values()]
    named = [ids for ids in waits if isinstance(ids, list)]
    named.append(without.functions[-1]["stop_job_instances"]["openbach_function_ids"])
    assert not any(number in ids for ids in named)


def test_what_follows_another_value_is_set_where_it_is_also_without_the_function() -> None:
    """Numbers of functions stay.

    Taken as positions, three of four proxies had another congestion control.
    """
    without = read_scenario(GEO, JOBS).with_functions_of({"nat": "none"})
    without = without.with_constants({"cc_pep": "bbr"})
    started = [one.get("start_job_instance", {}) for one in without.functions]
    set_here = [one["satpep"]["run"]["cc"] for one in started if "run" in one.get("satpep", {})]
    assert set_here == 4 * [[["$cc_pep"]]]
