# SPDX-License-Identifier: GPL-3.0-or-later
"""The schemas of what users write are JSON Schema, and name what our readers read.

Satellites are read on agents, which have no library, and inventories by a reader of their own: an
editor gets a schema of both, and nothing in them may differ from the readers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from openbach_jobs import dama, dvbs2, presets
from openbach_jobs.reconfigurations import Reconfigurations
from openbach_run.catalog import Catalog
from openbach_run.errors import InputError
from openbach_run.openbach.shapes import SCHEMAS, check, schema_of
from openbach_run.openbach.source import FIGURES
from openbach_run.paths import INVENTORY
from openbach_run.topology import inventory
from openbach_run.yaml_files import read_yaml

CATALOG = Catalog()


@pytest.mark.parametrize("file", sorted(SCHEMAS.glob("*.json")), ids=lambda file: str(file.stem))
def test_a_schema_is_one(file: Path) -> None:
    Draft202012Validator.check_schema(json.loads(file.read_text()))


@pytest.mark.parametrize(
    "file", [file for file in CATALOG.all("satellites").values() if file.suffix == ".yml"]
)
def test_satellites_are_as_their_schema(file: Path) -> None:
    check(f"{file}", read_yaml(file), "satellite")


def test_a_satellites_keys_are_those_that_are_read() -> None:
    links = presets.DEFAULTS.keys() - {"dama_values", "forward_values"}
    frames = {f"{dvbs2.IN_FILE}{name}" for name in dvbs2.VALUES}
    grid = Reconfigurations.parameters()
    known = {*links, *presets.CONSTELLATION, *grid, *dama.VALUES, *frames, *presets.FOR_PEOPLE}
    properties = schema_of("satellite")["properties"]
    assert properties.keys() == known
    for name, choices in presets.CHOICES.items():
        assert [one for one in properties[name]["enum"] if isinstance(one, str)] == [*choices]


@pytest.mark.parametrize("file", [INVENTORY, *CATALOG.all("topologies").values()])
def test_inventories_are_as_their_schema(file: Path) -> None:
    check(f"{file}", read_yaml(file), "inventory")


def test_an_inventorys_keys_are_those_that_are_read() -> None:
    shapes = schema_of("inventory")["$defs"]
    for name in ("network", "interface", "route", "rule"):
        assert (
            shapes[name]["properties"].keys() == getattr(inventory, f"{name.upper()}_KEYS").keys()
        )
    own = {*inventory.HOST_KEYS, *inventory.GLOBAL_KEYS}
    assert shapes["variables"]["properties"].keys() == own
    assert {*shapes["group"]["properties"]} == {*inventory.GROUP_KEYS}


@pytest.mark.parametrize("kind", ["campaigns", "platforms", "topologies", "scenarios"])
def test_a_yaml_file_names_its_schema(kind: str) -> None:
    for file in [*CATALOG.all(kind).values(), INVENTORY]:
        if file.suffix == ".yml":
            named = re.search(r"^# yaml-language-server: \$schema=(.+)$", file.read_text(), re.M)
            assert named and (file.parent / named[1]).resolve().parent == SCHEMAS, file


def test_a_scenarios_figures_are_those_that_are_drawn() -> None:
    plot = schema_of("scenario")["properties"]["plot"]
    assert plot["properties"]["figure"]["enum"] == [*FIGURES]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"delay_ms": float("inf")}, "delay_ms: Infinity should be a number from 0 to 10000 ms"),
        ({"delay_ms": True}, "delay_ms: true should be a number"),
        ({"loss_pct": 10**400}, "loss_pct: 1000"),
        ({"description": 3}, "description: 3 should be a text"),
    ],
)
def test_a_mistake_is_named_with_its_place(value: object, words: str) -> None:
    with pytest.raises(InputError, match=f"mine.json: {words}"):
        check("mine.json", value, "impairment")


def test_a_pattern_is_of_the_whole_text() -> None:
    with pytest.raises(InputError, match="like 64 hexadecimal digits"):
        check("mine.json", {"programs": {"a": {"sha256": "0" * 64 + "\n"}}, "command": []}, "pep")
