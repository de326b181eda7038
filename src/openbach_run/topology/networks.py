# SPDX-License-Identifier: GPL-3.0-or-later
"""MTUs from a scenario's values: NETWORK_mtu is for the inventory's network NETWORK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openbach_run.errors import InputError
from openbach_run.topology.inventory import MTU_MAX
from openbach_run.topology.mappings import listed

OF_INVENTORY = "inventory"
SUFFIX = "_mtu"
MTU_LEAST, MTU_LEAST_IPV6 = 576, 1280
"""The least MTU in bytes that every host takes (RFC 791, 3.1), and that IPv6 needs (RFC 8200)."""


def given_mtus(values: Mapping[str, str]) -> dict[str, str]:
    """Return the MTUs that replace those of the inventory, by network."""
    return {
        name.removesuffix(SUFFIX): value
        for name, value in values.items()
        if name.endswith(SUFFIX) and value != OF_INVENTORY
    }


def check_mtus(networks: Mapping[str, Mapping[str, Any]], values: Mapping[str, str]) -> None:
    """Check the MTUs in a cell's values. `networks` is in the form of Inventory.to_dict.

    Raises InputError for a network that the inventory does not have, and for an MTU that the
    network cannot have.
    """
    for name, value in given_mtus(values).items():
        if name not in networks:
            raise InputError(
                f"{name}{SUFFIX}={value}: the inventory has no network {name}; it has"
                f" {listed(networks)}"
            )
        # Below 1280 bytes Linux switches IPv6 off on an interface.
        least = MTU_LEAST if networks[name].get("ipv6") is None else MTU_LEAST_IPV6
        if not (value.isascii() and value.isdecimal()) or not least <= float(value) <= MTU_MAX:
            raise InputError(
                f"{name}{SUFFIX}={value}: {OF_INVENTORY}, or a number of bytes from {least} to"
                f" {MTU_MAX}"
            )


def with_mtus(inventory: Mapping[str, Any], values: Mapping[str, str]) -> Mapping[str, Any]:
    """Return an inventory (in the form of Inventory.to_dict) with the MTUs that values give."""
    mtus = {name: {"mtu": int(value)} for name, value in given_mtus(values).items()}
    networks = {
        name: {**network, **mtus.get(name, {})}
        for name, network in inventory.get("networks", {}).items()
    }
    # The same object where nothing changes: run.json, and with it the run's name, stay as they are.
    return {**inventory, "networks": networks} if mtus else inventory


def check_platform_mtus(values: Mapping[str, tuple[str, ...]]) -> None:
    """Check values for a real platform, whose networks no scenario changes.

    Raises InputError for values that it cannot follow.
    """
    for name, several in values.items():
        if name.endswith(SUFFIX) and set(several) != {OF_INVENTORY}:
            raise InputError(
                f"{name}={','.join(several)}: a platform's networks have the MTUs of its"
                " interfaces; set these, give them in its inventory, and leave"
                f" {name}={OF_INVENTORY}"
            )
