# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and the networks that join them: the inventory that a run's hosts are built from.

`inventory` reads it from a file. It uses only the standard library: the guest gets an Inventory in
the form of its `to_dict`, in run.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

MAIN_TABLE = "main"
MTU = 1500


class Network(NamedTuple):
    """A link between two hosts, or a LAN of more, which share a switch.

    `address` and `ipv6` are with mask (10.10.1.0/24, fd00:10::/64). `mtu` is in bytes, as Linux
    counts it: without the Ethernet header.
    """

    address: str
    ipv6: str | None = None
    mtu: int = MTU


class Interface(NamedTuple):
    """A host's end of a network.

    `address` and `ipv6` are bare (10.10.1.1); the masks are the network's.
    """

    name: str
    network: str
    address: str
    ipv6: str | None = None


class Route(NamedTuple):
    """A route of a host.

    `to` is `default` or an address with mask (10.10.4.0/24). `via` is a neighbour's address; its
    family is the route's. Of two routes to the same place the one with the lower metric is taken;
    None is 0.
    """

    to: str
    via: str
    metric: int | None = None
    table: int | None = None
    """The number of the routing table; None is the main table."""


class Rule(NamedTuple):
    """A rule that selects a routing table.

    Packets from `source` to `destination` (addresses with mask, None for all) are routed by
    `table`: a number, or `main`. With `except_default` a default route of that table does not
    count, and the next rule is looked at.
    """

    source: str | None
    destination: str | None
    table: str
    except_default: bool = False


class Host(NamedTuple):
    """An OpenBACH entity: a machine of the real platform, a network namespace of the local one.

    `name` is the name of the namespace, and of the host in captures. `role` says what the host is
    for; several hosts may have the same role.
    """

    entity: str
    name: str
    role: str
    forwarding: bool
    interfaces: tuple[Interface, ...]
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    share: str = ""
    """Share of a terminal in a return link that has to be asked for (cra=50k;rbdc=1M); jobs get it
    as an argument, and the guest does not."""
    memory_mb: int = 0
    """Memory that the guest has for its programs, in place of the usual; 0: the usual."""


class Inventory(NamedTuple):
    """The hosts, in the inventory's order, and the networks by name."""

    hosts: tuple[Host, ...]
    networks: dict[str, Network]

    def host(self, entity: str) -> Host | None:
        """Return the host of an entity; None if there is none."""
        return next((host for host in self.hosts if host.entity == entity), None)

    def attached(self) -> Iterator[tuple[str, list[tuple[Host, Interface]]]]:
        """Yield each network that has interfaces, with these and their hosts.

        Networks and hosts come in the order of the inventory.
        """
        for network in self.networks:
            ends = [
                (host, port)
                for host in self.hosts
                for port in host.interfaces
                if port.network == network
            ]
            if ends:
                yield network, ends

    def neighbours(self, host: Host) -> Iterator[tuple[Interface, list[Interface]]]:
        """Yield each interface of the host, with the others' interfaces in its network."""
        for port in host.interfaces:
            others: list[Interface] = []
            for other in self.hosts:
                # By entity and not by object: from_dict makes hosts anew.
                if other.entity != host.entity:
                    others += [peer for peer in other.interfaces if peer.network == port.network]
            yield port, others

    def share_at(self, address: str) -> str:
        """Return the share of the host that has this address; "" if it has none of its own."""
        for host in self.hosts:
            if any(port.address == address for port in host.interfaces):
                return host.share
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return the inventory as values that JSON has."""
        return {
            "hosts": [_host_to_dict(host) for host in self.hosts],
            "networks": {name: network._asdict() for name, network in self.networks.items()},
        }

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Inventory:
        """Return the inventory that to_dict made this data from. Nothing is checked."""
        return Inventory(
            hosts=tuple(_host_from_dict(host) for host in data["hosts"]),
            networks={name: Network(**network) for name, network in data["networks"].items()},
        )


# Written by hand and not by a library: the guest has nothing but Python.
def _host_to_dict(host: Host) -> dict[str, Any]:
    """Return a host as values that JSON has: _asdict alone leaves tuples of tuples within it."""
    values = host._asdict()
    del values["share"]
    if not host.memory_mb:
        del values["memory_mb"]  # what hosts had before there was this: the same run_id
    return {
        **values,
        "interfaces": [port._asdict() for port in host.interfaces],
        "routes": [route._asdict() for route in host.routes],
        "rules": [rule._asdict() for rule in host.rules],
    }


def _host_from_dict(data: dict[str, Any]) -> Host:
    """Return the host that _host_to_dict made this data from."""
    parts = {
        "interfaces": tuple(Interface(**port) for port in data["interfaces"]),
        "routes": tuple(Route(**route) for route in data["routes"]),
        "rules": tuple(Rule(**rule) for rule in data["rules"]),
    }
    return Host(**{**data, **parts})
