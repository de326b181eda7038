# SPDX-License-Identifier: GPL-3.0-or-later
"""IPv6 addresses for an inventory that has none: a.b.c.d has fd00::a.b.c.d beside it.

Networks, interfaces, routes and rules of IPv4 get the same in IPv6, so that packets take the same
way.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from openbach_run.errors import InputError
from openbach_run.topology.inventory import MTU_MIN_IPV6

PREFIX = int(ipaddress.IPv6Address("fd00::"))
PREFIX_BITS = 96
EVERYTHING = "default"


def ipv6_of(address: str) -> str:
    """Return the IPv6 address of an IPv4 one, with its mask if that has one; `default` is both."""
    if address == EVERYTHING:
        return address
    bare, slash, bits = address.partition("/")
    ipv6 = ipaddress.IPv6Address(PREFIX + int(ipaddress.IPv4Address(bare)))
    return f"{ipv6}{slash}{PREFIX_BITS + int(bits) if bits else ''}"


def with_ipv6(inventory: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an inventory, in the form of Inventory.to_dict, whose networks have IPv6 as well.

    One that has some IPv6 stays as it is. Raises InputError for a network whose MTU IPv6 cannot
    have.
    """
    networks: Mapping[str, Mapping[str, Any]] = inventory["networks"]
    if any(link["ipv6"] for link in networks.values()):
        return inventory
    for name, link in networks.items():
        if link["mtu"] < MTU_MIN_IPV6:
            raise InputError(
                f"{name} has an MTU of {link['mtu']} bytes; IPv6 needs {MTU_MIN_IPV6} at least"
                " (RFC 8200)"
            )
    return {
        **inventory,
        "networks": {
            name: {**link, "ipv6": ipv6_of(link["address"])} for name, link in networks.items()
        },
        "hosts": [_with_ipv6(host) for host in inventory["hosts"]],
    }


def _with_ipv6(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return a host with IPv6 addresses, and with its routes and rules in both versions."""
    rules = []
    for rule in host["rules"]:
        ends = {key: rule[key] and ipv6_of(rule[key]) for key in ("source", "destination")}
        # A rule for all addresses is one of both versions.
        rules += [rule, {**rule, **ends}] if any(ends.values()) else [rule]
    both = [
        {**route, "to": ipv6_of(route["to"]), "via": ipv6_of(route["via"])}
        for route in host["routes"]
    ]
    ports = [{**port, "ipv6": ipv6_of(port["address"])} for port in host["interfaces"]]
    return {**host, "interfaces": ports, "routes": [*host["routes"], *both], "rules": rules}
