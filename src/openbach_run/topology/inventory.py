# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of hosts, networks and routes from an Ansible inventory.

Inventories are inventory.yml, whose head describes its keys, and those of topologies/.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from openbach_jobs import dama
from openbach_jobs.link_file import near
from openbach_run.json_files import short
from openbach_run.topology.hosts import (
    MAIN_TABLE,
    MTU,
    Host,
    Interface,
    Inventory,
    Network,
    Route,
    Rule,
)
from openbach_run.topology.mappings import Keys, MappingReader, listed
from openbach_run.yaml_files import read_yaml

INTERFACE_NAME_MAX = 15  # IFNAMSIZ - 1
# The name becomes that of a network namespace and of a file, so a leading dot or dash is out.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
NETWORK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
ENTITY_PREFIX = "satvpn_"
"""Prefix of every entity of this testbed, because OpenBACH starts none whose name another project
has as well; the rest is the host's own name (`host_of`)."""
# Ansible's other variables stand beside ours in the same mappings, so ours have a prefix.
HOST_KEYS = (
    "satvpn_role", "satvpn_forwarding", "satvpn_interfaces", "satvpn_routes", "satvpn_rules",
    "satvpn_share", "satvpn_memory_mb",
)  # fmt: skip
GROUP_KEYS = ("vars", "hosts", "children")
GLOBAL_KEYS = ("satvpn_networks",)
MTU_MIN, MTU_MIN_IPV6, MTU_MAX = 68, 1280, 65535  # RFC 791, RFC 8200, a veth's
TABLE_MAX = 252  # Linux has 253 to 255 itself: default, main, local
METRIC_MAX = 2**32 - 1
MEMORY_MAX_MB = 1024  # of one host, and twice that of all: the kernel has 32-bit addresses

NETWORK_KEYS: Keys = {"address": str, "ipv6": str, "mtu": int}
INTERFACE_KEYS: Keys = {"name": str, "network": str, "address": str, "ipv6": str}
ROUTE_KEYS: Keys = {"to": str, "via": str, "metric": int, "table": int}
RULE_KEYS: Keys = {"from": str, "to": str, "table": object, "except_default": bool}

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def host_of(entity: str) -> str:
    """Return the name of an entity's host; an entity of another testbed is its own."""
    return entity.removeprefix(ENTITY_PREFIX)


def load_inventory(path: Path) -> Inventory:
    """Read and check an Ansible YAML inventory.

    Raises InputError with the file, the key, and what would be right.
    """
    return _Reader(path).inventory(read_yaml(path))


def agent_addresses(path: Path) -> dict[str, str]:
    """Return the address of each entity's agent (`ansible_host`).

    It is for Ansible and so for the controller: no run depends on it.
    """
    reader, content = _Reader(path), read_yaml(path)
    variables = {entity: values for entity, _, values in reader.hosts(content["all"], "all", {})}
    return {
        entity: str(values["ansible_host"])
        for entity, values in variables.items()
        if "ansible_host" in values
    }


class _Reader(MappingReader):
    """A reader that turns parsed YAML into an Inventory. Each error names the file and the key."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        # Filled by read_networks before any host is read: what refers to a network is checked at
        # once.
        self.networks: dict[str, Network] = {}

    def inventory(self, content: object) -> Inventory:
        """Return the checked inventory of a file's content. Raises InputError."""
        top = self.mapping(content, "top level")
        if "all" not in top:
            raise self.error(
                "top level", "the key `all` is missing: an Ansible inventory begins with it"
            )
        group = self.mapping(top["all"], "all")
        # Networks first: interfaces and routes refer to them by name.
        self.read_networks(self.mapping(group.get("vars"), "all.vars").get("satvpn_networks"))
        variables: dict[str, tuple[str, dict[str, Any]]] = {}
        for entity, key, values in self.hosts(group, "all", {}):
            # A host may be in several groups: their variables are merged, as Ansible does.
            _, known = variables.get(entity, ("", {}))
            variables[entity] = (key, {**known, **values})
        # Other hosts of the file are Ansible's alone; these two may be variables of all.
        own_keys = {*HOST_KEYS} - {"satvpn_forwarding", "satvpn_memory_mb"}
        hosts = []
        for entity, (key, values) in variables.items():
            if own_keys & values.keys():
                hosts.append(self.host(entity, key, values))
        if not hosts:
            raise self.error(
                "all", "no host has a satvpn_role: there is nothing to run a scenario on"
            )
        if (wanted_mb := sum(host.memory_mb for host in hosts)) > 2 * MEMORY_MAX_MB:
            raise self.error(
                "all", f"satvpn_memory_mb of all hosts is {wanted_mb}: at most {2 * MEMORY_MAX_MB}"
            )
        inventory = Inventory(tuple(hosts), self.networks)
        self.check_names(hosts)
        self.check_addresses(hosts)
        self.check_networks(inventory)
        self.check_routes(inventory)
        return inventory

    def hosts(
        self, group: dict[str, Any], key: str, inherited: dict[str, Any]
    ) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield the entity, key and variables of each host below a group.

        A closer variable wins, as in Ansible.
        """
        for name in group:
            if name not in GROUP_KEYS:
                raise self.error(
                    f"{key}.{name}",
                    f"no such key; {near(name, GROUP_KEYS)}there are {listed(GROUP_KEYS)}",
                )
        own = self.mapping(group.get("vars"), f"{key}.vars")
        known = {**inherited, **own}
        self.check_variables(own, f"{key}.vars")
        for entity, values in self.mapping(group.get("hosts"), f"{key}.hosts").items():
            where = f"{key}.hosts.{entity}"
            yield entity, where, {**known, **self.mapping(values, where)}
        for name, child in self.mapping(group.get("children"), f"{key}.children").items():
            where = f"{key}.children.{name}"
            yield from self.hosts(self.mapping(child, where), where, known)

    def check_variables(self, values: Iterable[str], key: str) -> None:
        """Check the names of variables. Raises InputError for one that is likely misspelled."""
        for name in values:
            if name.startswith("satvpn_") and name not in HOST_KEYS + GLOBAL_KEYS:
                known = f"{near(name, HOST_KEYS)}there are {listed(HOST_KEYS)}"
                raise self.error(f"{key}.{name}", f"no such variable; {known}")
            # Other variables are Ansible's; one that is much like ours is likely misspelled.
            if name not in HOST_KEYS + GLOBAL_KEYS and (
                meant := near(name, HOST_KEYS + GLOBAL_KEYS, 0.8)
            ):
                raise self.error(f"{key}.{name}", f"is not read; {meant}".rstrip())

    # Networks

    def read_networks(self, value: object) -> None:
        """Read and check the networks. Raises InputError, also for two whose addresses overlap."""
        key = "all.vars.satvpn_networks"
        known: dict[str, list[IPNetwork]] = {}
        for name, content in self.mapping(value, key).items():
            where = f"{key}.{name}"
            if not NETWORK_NAME.fullmatch(name) or name == "default":
                raise self.error(
                    where, "is no network's name: letters, digits, _ and -, and not `default`"
                )
            network = self.network(content, where)
            ranges = [
                ipaddress.ip_network(text) for text in (network.address, network.ipv6) if text
            ]
            for other, others in known.items():
                for mine in ranges:
                    for theirs in others:
                        if mine.version == theirs.version and mine.overlaps(theirs):
                            raise self.error(
                                where,
                                f"{mine} overlaps {other} ({theirs}): give it addresses of its own",
                            )
            known[name] = ranges
            self.networks[name] = network
        if not self.networks:
            raise self.error(
                key, "missing: the networks' names and addresses, like `access: 10.10.1.0/24`"
            )

    def network(self, content: object, key: str) -> Network:
        """Return the network of an address with mask, or of a mapping that has more keys.

        Raises InputError.
        """
        # The short form, `access: 10.10.1.0/24`, is what most networks need.
        entry: dict[str, Any] = (
            {"address": content}
            if isinstance(content, str)
            else self.entry(content, key, NETWORK_KEYS, ())
        )
        try:
            address = ipaddress.IPv4Network(entry.get("address", ""))
        except (ValueError, TypeError) as error:
            raise self.error(
                key, f"{error}: an IPv4 network is expected, like 10.10.1.0/24"
            ) from error
        ipv6, mtu = entry.get("ipv6"), entry.get("mtu", MTU)
        if ipv6 is not None:
            try:
                ipv6 = str(ipaddress.IPv6Network(ipv6))
            except ValueError as error:
                raise self.error(
                    f"{key}.ipv6", f"{error}: an IPv6 network is expected, like fd00:1::/64"
                ) from error
        # Linux switches IPv6 off on an interface whose MTU is less than the RFC's 1280 bytes.
        self.within(mtu, f"{key}.mtu", MTU_MIN if ipv6 is None else MTU_MIN_IPV6, MTU_MAX)
        return Network(str(address), ipv6, mtu)

    def check_networks(self, inventory: Inventory) -> None:
        """Check the hosts of each network. Raises InputError."""
        for name, ends in inventory.attached():
            key = f"all.vars.satvpn_networks.{name}"
            hosts = [host for host, _ in ends]
            # Such a network would come up and carry nothing: it is a name that is misspelled
            # elsewhere.
            if len(ends) == 1:
                raise self.error(
                    key,
                    f"has only an interface of {hosts[0].entity}: a link has two hosts, a LAN more",
                )
            # A switch is a namespace, too, and namespaces are found by their names.
            if len(ends) > 2 and name in (host.name for host in inventory.hosts):
                raise self.error(
                    key, f"is a host's name, too, and the LAN's switch is called {name}: rename one"
                )
            for host in hosts:
                if hosts.count(host) > 1:
                    raise self.error(
                        key, f"has two interfaces of {host.entity}: a host has one in a network"
                    )
                # Linux cuts no interface name short, it refuses it: at the start of every run.
                if len(ends) > 2 and len(host.name) > INTERFACE_NAME_MAX:
                    raise self.error(
                        host.entity,
                        "the port of a LAN's switch is called by the host, up to"
                        f" {INTERFACE_NAME_MAX} characters after {ENTITY_PREFIX}",
                    )

    # Hosts

    def host(self, entity: str, key: str, values: dict[str, Any]) -> Host:
        """Return the host of an entity's variables. Raises InputError."""
        self.check_variables(values, key)
        name = host_of(entity)
        if not NAME.fullmatch(name):
            raise self.error(key, f"{short(entity)} is no host's name: letters, digits, _, . and -")
        role = values.get("satvpn_role")
        if not isinstance(role, str) or not role.isidentifier():
            raise self.error(
                f"{key}.satvpn_role", f"a role is expected here, like box, not {short(role)}"
            )
        forwarding = values.get("satvpn_forwarding", False)
        if not isinstance(forwarding, bool):
            raise self.error(
                f"{key}.satvpn_forwarding",
                f"true or false is expected here, not {short(forwarding)}",
            )
        memory_mb = values.get("satvpn_memory_mb", 0)
        # bool is a kind of int
        if type(memory_mb) is not int or (memory_mb and not 16 <= memory_mb <= MEMORY_MAX_MB):
            raise self.error(
                f"{key}.satvpn_memory_mb",
                f"MB from 16 to {MEMORY_MAX_MB} are expected here, not {short(memory_mb)}",
            )
        ports, routes, rules = (f"satvpn_{what}" for what in ("interfaces", "routes", "rules"))
        return Host(
            entity,
            name,
            role,
            forwarding,
            tuple(
                self.interface(where, entry)
                for where, entry in self.entries(
                    values.get(ports),
                    f"{key}.{ports}",
                    INTERFACE_KEYS,
                    ("name", "network", "address"),
                )
            ),
            tuple(
                self.route(where, entry)
                for where, entry in self.entries(
                    values.get(routes), f"{key}.{routes}", ROUTE_KEYS, ("to", "via")
                )
            ),
            tuple(
                self.rule(where, entry)
                for where, entry in self.entries(
                    values.get(rules), f"{key}.{rules}", RULE_KEYS, ("table",)
                )
            ),
            self.share(f"{key}.satvpn_share", values.get("satvpn_share")),
            memory_mb,
        )

    def share(self, key: str, content: object) -> str:
        """Return the text of a terminal's share; "" for none. Raises InputError."""
        if content is None:
            return ""
        try:
            return dama.share_text(self.mapping(content, key))
        except ValueError as error:
            raise self.error(key, str(error)) from None

    def interface(self, key: str, entry: dict[str, Any]) -> Interface:
        """Return the interface of an entry of satvpn_interfaces. Raises InputError."""
        name, network = entry["name"], entry["network"]
        if (
            len(name) > INTERFACE_NAME_MAX
            or "/" in name
            # Linux's dev_valid_name refuses such names; lo is there already.
            or any(map(str.isspace, name))
            or name in ("lo", ".", "..")
        ):
            raise self.error(
                f"{key}.name",
                f"{name!r} is no interface name: up to {INTERFACE_NAME_MAX} characters, no blank,"
                " no slash",
            )
        if network not in self.networks:
            raise self.error(
                f"{key}.network", f"unknown network {network}; there are {listed(self.networks)}"
            )
        within = ipaddress.IPv4Network(self.networks[network].address)
        address = self.address(entry["address"], f"{key}.address", 4)
        if address not in within:
            raise self.error(f"{key}.address", f"{address} is not in {network} ({within})")
        if address in (within.network_address, within.broadcast_address):
            raise self.error(
                f"{key}.address", f"{address} addresses the whole network {within}, not a host"
            )
        # The host's number in the network, which its IPv6 address has, too.
        number = int(address) - int(within.network_address)
        return Interface(
            name, network, str(address), self.ipv6(key, entry.get("ipv6"), network, number)
        )

    def ipv6(self, key: str, chosen: str | None, network: str, number: int) -> str | None:
        """Return the interface's IPv6 address; None if its network has no IPv6 addresses.

        Without a given address, its number in the network is that of its IPv4 address. Raises
        InputError.
        """
        text = self.networks[network].ipv6
        if text is None:
            if chosen is not None:
                raise self.error(
                    f"{key}.ipv6",
                    f"{network} has no IPv6 addresses: give satvpn_networks.{network} ipv6",
                )
            return None
        within = ipaddress.IPv6Network(text)
        address = (
            within.network_address + number
            if chosen is None
            else self.address(chosen, f"{key}.ipv6", 6)
        )
        if address not in within:
            raise self.error(f"{key}.ipv6", f"{address} is not in {network} ({within})")
        # The Subnet-Router anycast address (RFC 4291, 2.6.1).
        if address == within.network_address:
            raise self.error(
                f"{key}.ipv6", f"{address} addresses the routers of {within}, not a host"
            )
        return str(address)

    def route(self, key: str, entry: dict[str, Any]) -> Route:
        """Return the route of an entry of satvpn_routes. Raises InputError."""
        via = self.address(entry["via"], f"{key}.via")
        to = (
            "default"
            if entry["to"] == "default"
            else self.destination(f"{key}.to", entry["to"], via.version)
        )
        self.within(entry.get("metric"), f"{key}.metric", 0, METRIC_MAX)
        self.within(entry.get("table"), f"{key}.table", 1, TABLE_MAX)
        return Route(to, str(via), entry.get("metric"), entry.get("table"))

    def rule(self, key: str, entry: dict[str, Any]) -> Rule:
        """Return the rule of an entry of satvpn_rules. Raises InputError."""
        source, destination = (
            self.destination(f"{key}.{name}", entry[name]) if name in entry else None
            for name in ("from", "to")
        )
        if (
            source
            and destination
            and ipaddress.ip_network(source).version != ipaddress.ip_network(destination).version
        ):
            raise self.error(key, f"{source} and {destination}: one is IPv4, the other IPv6")
        # True is an int in Python, and `table: yes` in YAML is True.
        table = entry["table"]
        if table != MAIN_TABLE and (isinstance(table, bool) or not isinstance(table, int)):
            raise self.error(
                f"{key}.table",
                f"a table's number or {MAIN_TABLE} is expected here, not {short(table)}",
            )
        if isinstance(table, int):
            self.within(table, f"{key}.table", 1, TABLE_MAX)
        return Rule(source, destination, str(table), entry.get("except_default", False))

    def destination(self, key: str, text: str, version: int | None = None) -> str:
        """Return the addresses, with mask, of a network's name or of an address. Raises InputError.

        With `version` they are of this version of IP.
        """
        if text in self.networks:
            network = self.networks[text]
            if version == 6 and network.ipv6 is None:
                raise self.error(key, f"{text} has no IPv6 addresses, and `via` is one")
            return network.ipv6 if version == 6 and network.ipv6 else network.address
        try:
            prefix = ipaddress.ip_network(text)
        except ValueError as error:
            raise self.error(
                key,
                f"{error}: default, an address with mask or a network is expected; there are"
                f" {listed(self.networks)}",
            ) from error
        if version not in (None, prefix.version):
            raise self.error(key, f"{prefix} is IPv{prefix.version}, but `via` is IPv{version}")
        return str(prefix)

    def address(self, text: str, key: str, version: int | None = None) -> IPAddress:
        """Return an address of a text.

        Raises InputError for any other text, or another version of IP.
        """
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            address = None
        if address is None or version not in (None, address.version):
            example = "fd00:1::1" if version == 6 else "10.10.1.1"
            kind = "IP" if version is None else f"IPv{version}"
            raise self.error(
                key, f"an {kind} address is expected here, like {example}, not {short(text)}"
            )
        return address

    # All hosts together

    def check_names(self, hosts: list[Host]) -> None:
        """Check that names are unique.

        Raises InputError for two hosts, or two interfaces of a host, with one name.
        """
        for index, host in enumerate(hosts):
            for other in hosts[:index]:
                if other.name == host.name:
                    raise self.error(
                        host.entity,
                        f"is called {host.name} here, and so is {other.entity}: rename one",
                    )
            for number, port in enumerate(host.interfaces):
                if port.name in (other.name for other in host.interfaces[:number]):
                    raise self.error(
                        f"{host.entity}.satvpn_interfaces[{number}].name",
                        f"{port.name} is the name of two interfaces",
                    )

    def check_addresses(self, hosts: list[Host]) -> None:
        """Check that addresses are unique. Raises InputError for one that two interfaces have."""
        owners: dict[str, str] = {}
        for host in hosts:
            for address in chain.from_iterable(
                (port.address, port.ipv6) for port in host.interfaces
            ):
                if address in owners:
                    raise self.error(
                        host.entity, f"{address} is already an address of {owners[address]}"
                    )
                if address is not None:
                    owners[address] = host.entity

    def check_routes(self, inventory: Inventory) -> None:
        """Check routes and rules.

        Raises InputError for a route through no neighbour, a second route to a place, and a rule
        with an empty table.
        """
        for host in inventory.hosts:
            neighbours: list[str] = []
            for _, others in inventory.neighbours(host):
                for other in others:
                    neighbours += [
                        address for address in (other.address, other.ipv6) if address is not None
                    ]
            for index, route in enumerate(host.routes):
                key = f"{host.entity}.satvpn_routes[{index}]"
                if route.via not in neighbours:
                    raise self.error(
                        f"{key}.via",
                        f"{route.via} is no neighbour of {host.entity}; there are"
                        f" {listed(neighbours)}",
                    )
                # The kernel would refuse the second one (EEXIST), at the start of every run.
                if any(_place(route) == _place(earlier) for earlier in host.routes[:index]):
                    raise self.error(
                        f"{key}.to",
                        f"{route.to} has a route already: give one of them a metric or a table",
                    )
            tables = [
                MAIN_TABLE,
                *(str(route.table) for route in host.routes if route.table is not None),
            ]
            for index, rule in enumerate(host.rules):
                # The kernel takes such a rule and skips it: the packets would take another way,
                # without an error.
                if rule.table not in tables:
                    raise self.error(
                        f"{host.entity}.satvpn_rules[{index}].table",
                        f"no route of {host.entity} is in table {rule.table}; there are"
                        f" {listed(dict.fromkeys(tables))}",
                    )


def _place(route: Route) -> tuple[object, ...]:
    """Return the key of a route; two routes of a host must not have the same."""
    return route.to, ":" in route.via, route.metric or 0, route.table
