# SPDX-License-Identifier: GPL-3.0-or-later
"""A value that takes the place of others (`x-instead`).

A transfer's duration replaces the default size.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openbach_run.campaign.model import Campaign
from openbach_run.campaign.plan import plan
from openbach_run.errors import InputError
from openbach_run.openbach.expand import expand
from openbach_run.openbach.job_folders import load_packages

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])
NARROW = ("vpn=none", "cc=cubic")


def campaign(*settings: str, path: Path = ROOT / "scenarios/geo.yml") -> Campaign:
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
    ("instead", "said"),
    [
        (
            {"duration": {"values": {}}},
            "x-instead.duration: the scenario has no constant or value duration",
        ),
        (
            {"duration_s": {"values": {"siz": "1"}}},
            "x-instead.duration_s: the scenario has no constant or value siz",
        ),
        ({"duration_s": {}}, "values is missing"),
    ],
)
def test_what_is_no_such_declaration_is_refused(
    tmp_path: Path, instead: dict[str, object], said: str
) -> None:
    scenario = expand(ROOT / "scenarios/geo.yml") | {"x-instead": instead}
    path = tmp_path / "geo.json"
    path.write_text(json.dumps(scenario))
    with pytest.raises(InputError, match=said):
        campaign(path=path)
