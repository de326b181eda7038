# SPDX-License-Identifier: GPL-3.0-or-later
"""run.json of somebody else's results: what is wrong with it is said, with its file and place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.altered import changed
from helpers.job_code import ROOT

from openbach_run.results import run_json
from openbach_run.results.run_files import DamagedRecord
from openbach_run.topology.inventory import load_inventory

INVENTORY = load_inventory(ROOT / "inventory.yml")
FUNCTION = {
    "id": 0,
    "start_job_instance": {"entity_name": "satvpn_sat", "satcom_link": {"orbit": [["geo"]]}},
}
CONTENT = {
    "scenario": {"name": "geo", "openbach_functions": [FUNCTION, {"id": 1}]},
    "arguments": {},
    "inventory": INVENTORY.to_dict(),
}


def written(place: Path, content: Any) -> Path:
    (place / run_json.FILE).write_text(json.dumps(content))
    return place


def test_what_the_engine_writes_is_read(tmp_path: Path) -> None:
    assert run_json.read(written(tmp_path, CONTENT)) == json.loads(json.dumps(CONTENT))
    assert run_json.inventory(tmp_path) == INVENTORY


def test_an_older_one_is_read(tmp_path: Path) -> None:
    """It has no inventory and no arguments."""
    assert run_json.read(written(tmp_path, {"scenario": {}})) == {"scenario": {}}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("scenario", ..., 'has no "scenario"'),
        ("scenario", [], '"scenario" is []; dict was expected'),
        ("arguments", None, '"arguments" is None'),
        ("inventory", 5, '"inventory" is 5'),
        (
            "scenario.openbach_functions",
            {},
            "scenario.openbach_functions.0: start_job_instance: None",
        ),
        (
            "scenario.openbach_functions.1",
            "x",
            "scenario.openbach_functions.1: start_job_instance: None",
        ),
        (
            "scenario.openbach_functions.0.start_job_instance.entity_name",
            ...,
            'has no "entity_name"',
        ),
        ("inventory.hosts", {}, "inventory.hosts.0: None is no JSON object"),
        ("inventory.hosts.1.name", 5, 'inventory.hosts.1: "name" is 5'),
        ("inventory.hosts.0.interfaces", ..., 'inventory.hosts.0: has no "interfaces"'),
        (
            "inventory.hosts.0.interfaces.0.network",
            [],
            'inventory.hosts.0.interfaces.0: "network" is []',
        ),
        ("inventory.hosts.0.routes.0.via", None, 'inventory.hosts.0.routes.0: "via" is None'),
    ],
)
def test_what_is_damaged_is_named(tmp_path: Path, path: str, value: Any, said: str) -> None:
    with pytest.raises(DamagedRecord) as damage:
        run_json.read(written(tmp_path, changed(CONTENT, path, value)))
    assert said in str(damage.value)
    assert str(damage.value).startswith(f"{tmp_path / 'run.json'}: ")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("inventory", ...),
        ("inventory.networks", ...),
        ("inventory.networks", []),
        ("inventory.hosts.0.unknown", 1),
        ("inventory.hosts.0.rules", [5]),
        ("inventory.hosts.0.interfaces.0.address", "10.0.0.x"),
    ],
)
def test_an_inventory_of_another_version_is_named(tmp_path: Path, path: str, value: Any) -> None:
    with pytest.raises(DamagedRecord, match=r"run\.json: inventory: is none of this version"):
        run_json.inventory(written(tmp_path, changed(CONTENT, path, value)))


def test_a_run_without_it_is_no_whole_record(tmp_path: Path) -> None:
    with pytest.raises(
        DamagedRecord, match=r"run\.json: no such file; the run's record is not whole"
    ):
        run_json.read(tmp_path)
