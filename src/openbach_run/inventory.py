# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed's hosts, as inventory.yml gives them: entities, roles, interfaces, routes.

`load_inventory` reads the Ansible inventory on the host; the guest gets the same Inventory through
`to_dict`/`from_dict`, because it has no PyYAML.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .errors import InputError

if TYPE_CHECKING:
    from pathlib import Path  # not needed in the guest, where start-up time counts

INTERFACE_NAME_MAX = 15  # IFNAMSIZ - 1
HOST_KEYS = ("satvpn_role", "satvpn_forwarding", "satvpn_interfaces", "satvpn_routes", "satvpn_tunnel_address")
GLOBAL_KEYS = ("satvpn_networks",)


@dataclass(frozen=True)
class Interface:
    """One end of a link. `address` is bare (10.10.1.1); the mask is its network's."""

    name: str
    network: str
    address: str


@dataclass(frozen=True)
class Route:
    """`to` is `default` or an address with mask (10.10.4.0/24); `via` is a neighbour's address."""

    to: str
    via: str


@dataclass(frozen=True)
class Host:
    """An OpenBACH entity: a machine of the real platform, a network namespace (called by its role) of the local one."""

    entity: str
    role: str
    forwarding: bool
    interfaces: tuple[Interface, ...]
    routes: tuple[Route, ...] = ()
    tunnel_address: str | None = None


@dataclass(frozen=True)
class Inventory:
    """All hosts, in the inventory's order, and the networks' addresses by name ("access": "10.10.1.0/24")."""

    hosts: tuple[Host, ...]
    networks: dict[str, str]

    def host(self, entity: str) -> Host | None:
        return next((host for host in self.hosts if host.entity == entity), None)

    def by_role(self, role: str) -> Host | None:
        return next((host for host in self.hosts if host.role == role), None)

    def prefix_length(self, interface: Interface) -> int:
        return int(self.networks[interface.network].rpartition("/")[2])

    def links(self) -> Iterator[tuple[tuple[Host, Interface], tuple[Host, Interface]]]:
        """Both ends of each link, in the order of the networks."""
        for network in self.networks:
            ends = [(host, port) for host in self.hosts for port in host.interfaces if port.network == network]
            if ends:
                first, second = ends
                yield first, second

    def neighbours(self, host: Host) -> Iterator[tuple[Interface, Interface]]:
        """(own interface, the neighbour's) for each interface of the host."""
        for port in host.interfaces:
            for other in self.hosts:
                for theirs in other.interfaces:
                    if theirs.network == port.network and other is not host:
                        yield port, theirs

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Inventory:
        """The inverse of to_dict, for data that it made: nothing is checked."""
        return Inventory(
            hosts=tuple(
                Host(
                    **{
                        **host,
                        "interfaces": tuple(Interface(**port) for port in host["interfaces"]),
                        "routes": tuple(Route(**route) for route in host["routes"]),
                    }
                )
                for host in data["hosts"]
            ),
            networks=dict(data["networks"]),
        )


def load_inventory(path: Path) -> Inventory:
    """Read and check an Ansible YAML inventory. Raises InputError: file, key, what would be right."""
    import yaml  # here, because the guest imports this module too and has no PyYAML

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}: an inventory is expected here") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid YAML: {error}") from error
    return _Reader(path).inventory(content)


def agent_addresses(path: Path) -> dict[str, str]:
    """Where Ansible, and so the controller, reaches each entity's agent (`ansible_host`). Nothing of it goes into a run."""
    import yaml

    reader, content = _Reader(path), yaml.safe_load(path.read_text(encoding="utf-8"))
    variables = {entity: values for entity, _, values in reader.hosts(content["all"], "all", {})}
    return {entity: str(values["ansible_host"]) for entity, values in variables.items() if "ansible_host" in values}


class _Reader:
    """Turns the parsed YAML into an Inventory; every complaint names the file and the key."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def error(self, key: str, message: str) -> InputError:
        return InputError(f"{self.path}: {key}: {message}")

    def mapping(self, value: object, key: str) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise self.error(key, f"a mapping with names as keys is expected here, not {_short(value)}")
        return value

    def entries(self, value: object, key: str, names: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
        """The entries of a list of mappings that all have exactly the keys `names`, with texts as values."""
        if value is None:
            return
        if not isinstance(value, list):
            raise self.error(key, f"a list is expected here, not {_short(value)}")
        for index, item in enumerate(value):
            where = f"{key}[{index}]"
            entry = self.mapping(item, where)
            if set(entry) != set(names):
                raise self.error(where, f"has the keys {_listed(entry)}; it needs exactly {_listed(names)}")
            for name in names:
                if not isinstance(entry[name], str) or not entry[name]:
                    raise self.error(f"{where}.{name}", f"a text is expected here, not {_short(entry[name])}")
            yield where, entry

    def inventory(self, content: object) -> Inventory:
        top = self.mapping(content, "top level")
        if "all" not in top:
            raise self.error("top level", "the key `all` is missing: an Ansible inventory begins with it")
        group = self.mapping(top["all"], "all")
        networks = self.networks(self.mapping(group.get("vars"), "all.vars").get("satvpn_networks"))
        variables: dict[str, tuple[str, dict[str, Any]]] = {}
        for entity, key, values in self.hosts(group, "all", {}):
            _, known = variables.get(entity, ("", {}))
            variables[entity] = (key, {**known, **values})
        hosts = [
            self.host(entity, key, values, networks)
            for entity, (key, values) in variables.items()
            if any(name in HOST_KEYS for name in values if name != "satvpn_forwarding")
        ]
        if not hosts:
            raise self.error("all", "no host has a satvpn_role: there is nothing to run a scenario on")
        self.check_roles(hosts)
        self.check_links(hosts, networks)
        self.check_gateways(hosts, networks)
        return Inventory(tuple(hosts), {name: str(network) for name, network in networks.items()})

    def hosts(
        self, group: dict[str, Any], key: str, inherited: dict[str, Any]
    ) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(entity, key, variables) of each host below a group; a closer variable wins, as in Ansible."""
        own = self.mapping(group.get("vars"), f"{key}.vars")
        known = {**inherited, **own}
        for name in own:
            if name.startswith("satvpn_") and name not in HOST_KEYS + GLOBAL_KEYS:
                raise self.error(f"{key}.vars.{name}", f"unknown variable; there are {_listed(HOST_KEYS)}")
        for entity, values in self.mapping(group.get("hosts"), f"{key}.hosts").items():
            where = f"{key}.hosts.{entity}"
            yield entity, where, {**known, **self.mapping(values, where)}
        for name, child in self.mapping(group.get("children"), f"{key}.children").items():
            where = f"{key}.children.{name}"
            yield from self.hosts(self.mapping(child, where), where, known)

    def networks(self, value: object) -> dict[str, ipaddress.IPv4Network]:
        key = "all.vars.satvpn_networks"
        networks: dict[str, ipaddress.IPv4Network] = {}
        for name, text in self.mapping(value, key).items():
            try:
                network = ipaddress.IPv4Network(text)
            except (ValueError, TypeError) as error:
                raise self.error(f"{key}.{name}", f"{error}: an IPv4 network is expected, like 10.10.1.0/24") from error
            for other, known in networks.items():
                if network.overlaps(known):
                    raise self.error(
                        f"{key}.{name}", f"{network} overlaps {other} ({known}): give it addresses of its own"
                    )
            networks[name] = network
        if not networks:
            raise self.error(key, "missing: the networks' names and addresses, like `access: 10.10.1.0/24`")
        return networks

    def host(self, entity: str, key: str, values: dict[str, Any], networks: dict[str, ipaddress.IPv4Network]) -> Host:
        for name in values:
            if name.startswith("satvpn_") and name not in HOST_KEYS + GLOBAL_KEYS:
                raise self.error(f"{key}.{name}", f"unknown variable; there are {_listed(HOST_KEYS)}")
        role = values.get("satvpn_role")
        if not isinstance(role, str) or not role.isidentifier():
            raise self.error(f"{key}.satvpn_role", f"a role is expected here, like box, not {_short(role)}")
        forwarding = values.get("satvpn_forwarding", False)
        if not isinstance(forwarding, bool):
            raise self.error(f"{key}.satvpn_forwarding", f"true or false is expected here, not {_short(forwarding)}")
        interfaces = tuple(
            self.interface(where, entry, networks)
            for where, entry in self.entries(
                values.get("satvpn_interfaces"), f"{key}.satvpn_interfaces", ("name", "network", "address")
            )
        )
        for index, port in enumerate(interfaces):
            if port.name in (other.name for other in interfaces[:index]):
                raise self.error(f"{key}.satvpn_interfaces[{index}].name", f"{port.name} is the name of two interfaces")
        routes = tuple(
            self.route(where, entry, networks)
            for where, entry in self.entries(values.get("satvpn_routes"), f"{key}.satvpn_routes", ("to", "via"))
        )
        tunnel = values.get("satvpn_tunnel_address")
        if tunnel is not None:
            tunnel = str(self.address(tunnel, f"{key}.satvpn_tunnel_address"))
        return Host(entity, role, forwarding, interfaces, routes, tunnel)

    def interface(self, key: str, entry: dict[str, str], networks: dict[str, ipaddress.IPv4Network]) -> Interface:
        name, network = entry["name"], entry["network"]
        if len(name) > INTERFACE_NAME_MAX or "/" in name or any(map(str.isspace, name)) or name in ("lo", ".", ".."):
            raise self.error(
                f"{key}.name",
                f"{name!r} is no interface name: up to {INTERFACE_NAME_MAX} characters, no blank, no slash",
            )
        if network not in networks:
            raise self.error(f"{key}.network", f"unknown network {network}; there are {_listed(networks)}")
        address = self.address(entry["address"], f"{key}.address")
        if address not in networks[network]:
            raise self.error(f"{key}.address", f"{address} is not in {network} ({networks[network]})")
        if address in (networks[network].network_address, networks[network].broadcast_address):
            raise self.error(
                f"{key}.address", f"{address} stands for the whole network {networks[network]}: not for a host"
            )
        return Interface(name, network, str(address))

    def route(self, key: str, entry: dict[str, str], networks: dict[str, ipaddress.IPv4Network]) -> Route:
        to = entry["to"]
        if to in networks:
            to = str(networks[to])
        elif to != "default":
            try:
                to = str(ipaddress.IPv4Network(to))
            except ValueError as error:
                raise self.error(
                    f"{key}.to",
                    f"{error}: default, an address with mask or a network is expected; there are {_listed(networks)}",
                ) from error
        return Route(to, str(self.address(entry["via"], f"{key}.via")))

    def address(self, value: object, key: str) -> ipaddress.IPv4Address:
        try:
            return ipaddress.IPv4Address(value if isinstance(value, str) else "")
        except ValueError as error:
            raise self.error(key, f"an IPv4 address is expected here, like 10.10.1.1, not {_short(value)}") from error

    def check_roles(self, hosts: list[Host]) -> None:
        for index, host in enumerate(hosts):
            for other in hosts[:index]:
                if other.role == host.role:
                    raise self.error(
                        f"{host.entity}.satvpn_role",
                        f"{host.role} is already the role of {other.entity}: a role has one host",
                    )

    def check_links(self, hosts: list[Host], networks: dict[str, ipaddress.IPv4Network]) -> None:
        owners: dict[str, str] = {}
        for host in hosts:
            for address in (*(port.address for port in host.interfaces), host.tunnel_address):
                if address in owners:
                    raise self.error(host.entity, f"{address} is already an address of {owners[address]}")
                if address is not None:
                    owners[address] = host.entity
        for name in networks:
            ends = [host.entity for host in hosts for port in host.interfaces if port.network == name]
            if len(ends) not in (0, 2):
                raise self.error(
                    f"all.vars.satvpn_networks.{name}",
                    f"has {len(ends)} interface{'s' * (len(ends) != 1)} ({_listed(ends)}): a link has two",
                )

    def check_gateways(self, hosts: list[Host], networks: dict[str, ipaddress.IPv4Network]) -> None:
        for host in hosts:
            neighbours = [
                port.address
                for mine in host.interfaces
                for other in hosts
                for port in other.interfaces
                if port.network == mine.network and other is not host
            ]
            for index, route in enumerate(host.routes):
                key = f"{host.entity}.satvpn_routes[{index}]"
                if route.via not in neighbours:
                    raise self.error(
                        f"{key}.via", f"{route.via} is no neighbour of {host.entity}; there are {_listed(neighbours)}"
                    )
                if route.to in (earlier.to for earlier in host.routes[:index]):
                    raise self.error(f"{key}.to", f"{route.to} has a route already")


def _listed(names: object) -> str:
    assert hasattr(names, "__iter__")
    return ", ".join(str(name) for name in names) or "none"


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
