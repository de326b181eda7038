# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario's addresses, from the inventory it runs on.

A scenario has its addresses as constants, with the values of its own inventory: a controller takes
it as it is. The top-level key `x-inventory`, which a controller ignores, says what they are, so
that it runs on other inventories, too:

    "constants": {"server_ip": "192.168.20.2"},
    "x-inventory": {
        "file": "star.yml",
        "constants": {"server_ip": "satvpn_server.enterprise_lan.address"}
    }

`file` is its own inventory, a path from the scenario's file; without it that is inventory.yml of
the repository. What a constant is follows topology/references.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from openbach_run.errors import InputError
from openbach_run.openbach.lint import Finding
from openbach_run.openbach.scenario import Scenario
from openbach_run.openbach.values import kind_of
from openbach_run.paths import INVENTORY
from openbach_run.topology.hosts import Inventory
from openbach_run.topology.references import listed, value_of

KEYS = ("file", "constants")


def inventory_file(scenario: Scenario, path: Path, chosen: Path | None) -> Path:
    """Return the inventory of a scenario: what was given, or what it names, or else ours.

    `path` is the file of the scenario. Raises InputError.
    """
    file = _settings(scenario).get("file")
    if file is not None and (not isinstance(file, str) or not file):
        raise InputError(
            f"{path}: x-inventory.file: should be the path of an inventory, from this file"
        )
    # The command line wins; a scenario's own inventory is beside it, wherever it was copied to.
    return chosen or (INVENTORY if file is None else path.parent / file)


def with_addresses(scenario: Scenario, inventory: Inventory) -> Scenario:
    """Return the scenario with the addresses of an inventory.

    Raises InputError for what the inventory does not have.
    """
    addresses = {}
    for name, reference in _references(scenario).items():
        try:
            if name not in scenario.constants:
                raise InputError(
                    f"the scenario has no such constant; it has {listed(scenario.constants)}"
                )
            addresses[name] = value_of(reference, inventory)
        except InputError as error:
            raise InputError(f"{scenario.name}: x-inventory.constants.{name}: {error}") from None
    _check_shares(scenario.name, inventory, list(addresses.values()))
    return replace(scenario, constants={**scenario.constants, **addresses})


def shares_in(scenario: Scenario) -> list[str]:
    """Return the constants of a scenario that say what terminals have of their own."""
    return [
        str(scenario.constants[name])
        for name, reference in _references(scenario).items()
        if reference.endswith(".shares") and scenario.constants.get(name, "none") != "none"
    ]


def _check_shares(name: str, inventory: Inventory, values: list[str]) -> None:
    """Raise InputError for a terminal's share that no job of the scenario gets."""
    for host in inventory.hosts:
        shares = [f"{port.address}:{host.share}" for port in host.interfaces]
        if host.share and not any(share in text.split("/") for share in shares for text in values):
            raise InputError(
                f"{name}: {host.entity} has a satvpn_share in the inventory, which would have no"
                " effect: no constant of the scenario is ENTITY.NETWORK.shares with it"
                " (library/topologies/star.json has one). Of a path with one terminal give"
                " dama.cra, dama.rbdc and dama.vbdc_bytes"
            )


def unknown_entities(scenario: Scenario, inventory: Inventory) -> Iterator[Finding]:
    """Yield a finding for each function on a host that the inventory does not have."""
    # By index, not by id: the place is a JSON path, which a person finds in the file.
    for index, function in enumerate(scenario.functions):
        kind = kind_of(function)
        entity = function[kind].get("entity_name")
        if entity is not None and inventory.host(entity) is None:
            known = listed(host.entity for host in inventory.hosts)
            place = f"openbach_functions.{index}.{kind}.entity_name"
            yield Finding(place, f"the inventory has no entity {entity}; it has {known}")


def _settings(scenario: Scenario) -> Mapping[str, Any]:
    """Return what a scenario has under `x-inventory`; empty for nothing. Raises InputError."""
    settings = scenario.source.get("x-inventory", {})
    if not isinstance(settings, dict) or settings.keys() - set(KEYS):
        raise InputError(
            f"{scenario.name}: x-inventory should be an object with the keys {' and '.join(KEYS)}"
        )
    return settings


def _references(scenario: Scenario) -> Mapping[str, str]:
    """Return constant → its reference to the inventory. Raises InputError."""
    references = _settings(scenario).get("constants", {})
    if not isinstance(references, dict) or not all(
        isinstance(reference, str) for reference in references.values()
    ):
        raise InputError(
            f"{scenario.name}: x-inventory.constants should be an object of texts by constant, like"
            " satvpn_server.enterprise_lan.address"
        )
    return scenario.addresses
