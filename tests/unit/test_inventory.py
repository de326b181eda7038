# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import ipaddress
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.errors import InputError
from openbach_run.guest.network import mac
from openbach_run.topology.hosts import Inventory, Network, Route, Rule
from openbach_run.topology.inventory import load_inventory

REPOSITORY = Path(__file__).parents[2]
PATH = ["pc", "box", "st", "sat", "gw", "pop", "server"]

SMALL: dict[str, Any] = {
    "all": {
        "vars": {"satvpn_networks": {"lan": "10.0.0.0/24"}},
        "hosts": {
            "a": {
                "satvpn_role": "left",
                "satvpn_interfaces": [
                    {"name": "to_right", "network": "lan", "address": "10.0.0.1"}
                ],
                "satvpn_routes": [{"to": "default", "via": "10.0.0.2"}],
            },
            "b": {
                "satvpn_role": "right",
                "satvpn_interfaces": [{"name": "to_left", "network": "lan", "address": "10.0.0.2"}],
            },
        },
    }
}


def load(tmp_path: Path, content: object) -> Inventory:
    path = tmp_path / "inventory.yml"
    path.write_text(yaml.safe_dump(content))
    return load_inventory(path)


@pytest.fixture
def ours() -> Inventory:
    return load_inventory(REPOSITORY / "inventory.yml")


def test_our_inventory_is_the_linear_path(ours: Inventory) -> None:
    for left, right in pairwise(PATH):
        host = ours.host(f"satvpn_{left}")
        assert host is not None and (host.name, host.role) == (left, left)
        assert f"to_{right}" in [port.name for port in host.interfaces]
    assert {host.role for host in ours.hosts} == set(PATH)
    assert [host.role for host in ours.hosts if not host.forwarding] == ["pc", "server"]
    assert [len(ends) for _, ends in ours.attached()] == 6 * [2]


@pytest.mark.parametrize(
    "file", ["inventory", *(f"library/topologies/{name}" for name in ("lan", "star", "long_thin"))]
)
def test_every_address_reaches_every_other_on_its_routes(file: str) -> None:
    """Follow the routes as a packet would, from each host to each address."""
    inventory = load_inventory(REPOSITORY / f"{file}.yml")
    owners = {
        address: host
        for host in inventory.hosts
        for port in host.interfaces
        for address in (port.address, port.ipv6)
        if address
    }
    for start in inventory.hosts:
        for address, destination in owners.items():
            here = start
            for _ in inventory.hosts:
                if here is destination:
                    break
                here = owners[_next_hop(inventory, here, address)]
            assert here is destination, f"{start.role} does not reach {address}"


def _next_hop(inventory: Inventory, host: Any, address: str) -> str:
    target = ipaddress.ip_address(address)
    for port in host.interfaces:
        network = inventory.networks[port.network]
        if any(
            target in ipaddress.ip_network(own) for own in (network.address, network.ipv6) if own
        ):
            return address
    routes = sorted(host.routes, key=lambda route: route.to == "default")
    for route in routes:
        same_family = (":" in route.via) == (":" in address)
        if same_family and (route.to == "default" or target in ipaddress.ip_network(route.to)):
            return str(route.via)
    raise AssertionError(f"{host.role} has no route to {address}")


def test_dict_and_back(ours: Inventory) -> None:
    assert Inventory.from_dict(json.loads(json.dumps(ours.to_dict()))) == ours


def test_group_variables_reach_hosts_and_closer_ones_win(tmp_path: Path) -> None:
    content = copy.deepcopy(SMALL)
    content["all"]["vars"]["satvpn_forwarding"] = True
    content["all"]["hosts"]["a"]["satvpn_forwarding"] = False
    inventory = load(tmp_path, content)
    assert [host.forwarding for host in inventory.hosts] == [False, True]


def test_memory_is_of_a_host_and_in_its_dict_only_if_it_was_given(tmp_path: Path) -> None:
    content = copy.deepcopy(SMALL)
    content["all"]["hosts"]["a"]["satvpn_memory_mb"] = 300
    inventory = load(tmp_path, content)
    assert [host.memory_mb for host in inventory.hosts] == [300, 0]
    first, second = inventory.to_dict()["hosts"]
    assert first["memory_mb"] == 300
    assert "memory_mb" not in second
    assert Inventory.from_dict(inventory.to_dict()) == inventory


def test_other_hosts_and_variables_are_left_to_ansible(tmp_path: Path) -> None:
    content = copy.deepcopy(SMALL)
    content["all"]["children"] = {
        "controllers": {"hosts": {"controller": {"ansible_host": "192.0.2.1"}, "other": None}}
    }
    assert [host.entity for host in load(tmp_path, content).hosts] == ["a", "b"]


def _later(change: Callable[..., object]) -> Callable[..., Callable[[Any], object]]:
    """The change with these values, of an inventory that is given later."""
    return lambda *names, **values: lambda content: change(content, *names, **values)


@_later
def _interface(content: Any, **values: object) -> None:
    content["all"]["hosts"]["a"]["satvpn_interfaces"][0].update(values)


@_later
def _network(content: Any, **values: object) -> None:
    content["all"]["vars"]["satvpn_networks"].update(values)


@_later
def _host(content: Any, name: str, **values: object) -> None:
    content["all"]["hosts"][name].update(values)


@_later
def _third(content: Any, entity: str) -> None:
    port = {"name": "e", "network": "lan", "address": "10.0.0.3"}
    content["all"]["hosts"][entity] = {"satvpn_role": "x", "satvpn_interfaces": [port]}


def _with_ipv6(change: Callable[[Any], object]) -> Callable[[Any], object]:
    """The change of an inventory whose network has IPv6 addresses."""

    def both(content: Any) -> object:
        _network(lan={"address": "10.0.0.0/24", "ipv6": "fd00::/64"})(content)
        return change(content)

    return both


@_later
def _route(content: Any, **route: object) -> None:
    content["all"]["hosts"]["a"]["satvpn_routes"].append(route)


def _route_to_an_ipv4_network(content: Any) -> None:
    _network(wan="10.9.0.0/24")(content)
    _route(to="wan", via="fd00::2")(content)


@_later
def _rule(content: Any, **rule: object) -> None:
    _host("a", satvpn_rules=[rule])(content)


def _much_memory(content: Any) -> None:
    _third("c")(content)
    content["all"]["vars"]["satvpn_memory_mb"] = 1024


MISTAKES: dict[str, tuple[Callable[[Any], object], list[str]]] = {
    "no all": (lambda c: c.pop("all"), ["top level", "`all` is missing"]),
    "no hosts": (lambda c: c["all"].pop("hosts"), ["satvpn_role"]),
    "little memory": (
        _host("a", satvpn_memory_mb=8),
        ["all.hosts.a.satvpn_memory_mb", "from 16 to 1024", "not 8"],
    ),
    "memory in words": (_host("a", satvpn_memory_mb="1G"), ["satvpn_memory_mb"]),
    "more memory than there is": (
        _much_memory,
        ["satvpn_memory_mb of all hosts is 3072", "at most 2048"],
    ),
    "no networks": (lambda c: c["all"]["vars"].clear(), ["all.vars.satvpn_networks", "missing"]),
    "hosts as a list": (lambda c: c["all"].update(hosts=["a"]), ["all.hosts", "mapping"]),
    "overlapping networks": (
        _network(wan="10.0.0.128/25"),
        ["satvpn_networks.wan", "overlaps lan"],
    ),
    "host bits": (_network(wan="10.1.0.1/24"), ["satvpn_networks.wan", "host bits"]),
    "no network at all": (_network(wan=None), ["satvpn_networks.wan", "10.10.1.0/24"]),
    "unknown network": (
        _interface(network="wan"),
        ["all.hosts.a.satvpn_interfaces[0].network", "lan"],
    ),
    "outside the network": (_interface(address="10.9.0.1"), ["[0].address", "10.0.0.0/24"]),
    "broadcast address": (_interface(address="10.0.0.255"), ["[0].address", "whole network"]),
    "no address": (_interface(address="ten"), ["[0].address", "IPv4 address", "ten"]),
    "address with mask": (_interface(address="10.0.0.1/24"), ["[0].address", "IPv4 address"]),
    "address is a number": (_interface(address=10), ["[0].address", "text"]),
    "address twice": (_interface(address="10.0.0.2"), ["b", "10.0.0.2", "already", "a"]),
    "interface name too long": (_interface(name="to_the_satellite"), ["[0].name", "15"]),
    "interface key misspelt": (
        _interface(adress="10.0.0.1"),
        ["[0].adress", "no such key", "address"],
    ),
    "interfaces as a mapping": (_host("a", satvpn_interfaces={}), ["satvpn_interfaces", "list"]),
    "interface without an address": (
        lambda c: c["all"]["hosts"]["a"]["satvpn_interfaces"][0].pop("address"),
        ["[0]", "it needs name, network, address"],
    ),
    "one end": (
        lambda c: c["all"]["hosts"]["b"].pop("satvpn_interfaces"),
        ["satvpn_networks.lan", "only an interface of a", "a link has two hosts"],
    ),
    "two interfaces of a host in a network": (
        lambda c: c["all"]["hosts"]["a"]["satvpn_interfaces"].append(
            {"name": "e", "network": "lan", "address": "10.0.0.9"}
        ),
        ["satvpn_networks.lan", "two interfaces of a"],
    ),
    "host and LAN of one name": (_third("lan"), ["satvpn_networks.lan", "is a host's name, too"]),
    "port of a LAN": (_third("computer_of_alice"), ["computer_of_alice", "15 characters"]),
    "network's name": (_network(**{"l.an": "10.1.0.0/24"}), ["satvpn_networks.l.an", "letters"]),
    "network called default": (_network(default="10.1.0.0/24"), ["satvpn_networks.default"]),
    "network's key": (
        _network(wan={"adress": "10.1.0.0/24"}),
        ["satvpn_networks.wan.adress", "mtu"],
    ),
    "network without an address": (
        _network(wan={"mtu": 1400}),
        ["satvpn_networks.wan", "10.10.1.0/24"],
    ),
    "MTU is a text": (
        _network(lan={"address": "10.0.0.0/24", "mtu": "1400"}),
        ["satvpn_networks.lan.mtu", "a whole number", "1400"],
    ),
    "MTU is true": (
        _network(lan={"address": "10.0.0.0/24", "mtu": True}),
        ["lan.mtu", "a whole number"],
    ),
    "MTU too small": (
        _network(lan={"address": "10.0.0.0/24", "mtu": 60}),
        ["lan.mtu", "68 to 65535"],
    ),
    "MTU too small for IPv6": (
        _network(lan={"address": "10.0.0.0/24", "ipv6": "fd00::/64", "mtu": 1000}),
        ["lan.mtu", "1280 to 65535"],
    ),
    "IPv6 network": (
        _network(lan={"address": "10.0.0.0/24", "ipv6": "10.0.0.0/24"}),
        ["lan.ipv6", "IPv6 network", "fd00:1::/64"],
    ),
    "overlapping IPv6": (
        _network(
            x={"address": "10.1.0.0/24", "ipv6": "fd00::/48"},
            y={"address": "10.2.0.0/24", "ipv6": "fd00::/64"},
        ),
        ["satvpn_networks.y", "fd00::/64 overlaps x"],
    ),
    "IPv6 address without a network": (_interface(ipv6="fd00::1"), ["[0].ipv6", "lan has no IPv6"]),
    "IPv6 address outside": (_with_ipv6(_interface(ipv6="fd01::1")), ["[0].ipv6", "fd00::/64"]),
    "IPv6 address of another kind": (
        _with_ipv6(_interface(ipv6="10.0.0.1")),
        ["[0].ipv6", "fd00:1::1"],
    ),
    "IPv6 address twice": (
        _with_ipv6(_interface(ipv6="fd00::2")),
        ["b", "fd00::2", "already", "a"],
    ),
    "route of two families": (
        _with_ipv6(_route(to="10.9.0.0/24", via="fd00::2")),
        ["satvpn_routes[1].to", "10.9.0.0/24 is IPv4, but `via` is IPv6"],
    ),
    "IPv6 route to an IPv4 network": (
        _with_ipv6(_route_to_an_ipv4_network),
        ["satvpn_routes[1].to", "wan has no IPv6"],
    ),
    "metric": (
        _route(to="default", via="10.0.0.2", metric=-1),
        ["satvpn_routes[1].metric", "0 to"],
    ),
    "the main table's number": (
        _route(to="default", via="10.0.0.2", table=254),
        ["[1].table", "1 to 252"],
    ),
    "rule without a table": (_rule(), ["satvpn_rules[0]", "it needs table"]),
    "rule of an empty table": (
        _rule(table=7),
        ["a.satvpn_rules[0].table", "table 7", "there are main"],
    ),
    "rule of a named table": (_rule(table="geo"), ["satvpn_rules[0].table", "number or main"]),
    "rule from nowhere": (_rule(table="main", **{"from": "moon"}), ["satvpn_rules[0].from", "lan"]),
    "rule of two families": (
        _rule(table="main", to="fd00::/64", **{"from": "lan"}),
        ["satvpn_rules[0]", "one is IPv4, the other IPv6"],
    ),
    "gateway not on a link": (
        lambda c: c["all"]["hosts"]["a"]["satvpn_routes"][0].update(via="10.0.0.9"),
        ["a.satvpn_routes[0].via", "10.0.0.9", "10.0.0.2"],
    ),
    "route twice": (
        lambda c: c["all"]["hosts"]["a"]["satvpn_routes"].append(
            {"to": "default", "via": "10.0.0.2"}
        ),
        ["a.satvpn_routes[1].to", "default"],
    ),
    "route to nowhere": (
        lambda c: c["all"]["hosts"]["a"]["satvpn_routes"][0].update(to="moon"),
        ["a.satvpn_routes[0].to", "lan"],
    ),
    "two hosts of one name": (
        lambda c: c["all"]["hosts"].update(satvpn_a={"satvpn_role": "left"}),
        ["satvpn_a: is called a here, and so is a"],
    ),
    "entity is no name": (
        lambda c: c["all"]["hosts"].update({"a/b": {"satvpn_role": "x"}}),
        ["all.hosts.a/b", "letters"],
    ),
    "no role": (
        lambda c: c["all"]["hosts"]["a"].pop("satvpn_role"),
        ["all.hosts.a.satvpn_role", "role"],
    ),
    "role is no name": (_host("a", satvpn_role="../etc"), ["all.hosts.a.satvpn_role"]),
    "forwarding is no bool": (
        _host("a", satvpn_forwarding="no way"),
        ["satvpn_forwarding", "true or false"],
    ),
    "unknown variable": (
        _host("a", satvpn_forwardin=True),
        ["satvpn_forwardin", "satvpn_forwarding"],
    ),
    "unknown group variable": (
        lambda c: c["all"]["vars"].update(satvpn_x=1),
        ["all.vars.satvpn_x", "no such variable"],
    ),
}


def test_several_hosts_have_a_role_and_a_network(tmp_path: Path) -> None:
    content = copy.deepcopy(SMALL)
    _third("satvpn_c")(content)
    _host("b", satvpn_role="left")(content)
    inventory = load(tmp_path, content)
    assert [(host.entity, host.name) for host in inventory.hosts] == [
        ("a", "a"),
        ("b", "b"),
        ("satvpn_c", "c"),
    ]
    ((network, ends),) = inventory.attached()
    assert (network, [host.name for host, _ in ends]) == ("lan", ["a", "b", "c"])
    ((_, neighbours),) = inventory.neighbours(inventory.hosts[1])
    assert [port.address for port in neighbours] == ["10.0.0.1", "10.0.0.3"]


def test_networks_have_an_mtu_and_ipv6_addresses(tmp_path: Path) -> None:
    content = copy.deepcopy(SMALL)
    _network(lan={"address": "10.0.0.0/24", "ipv6": "fd00::/64", "mtu": 1400})(content)
    _interface(ipv6="fd00::a")(content)
    _route(to="default", via="fd00::2", metric=5)(content)
    inventory = load(tmp_path, content)
    assert inventory.networks["lan"] == Network("10.0.0.0/24", "fd00::/64", 1400)
    assert [host.interfaces[0].ipv6 for host in inventory.hosts] == ["fd00::a", "fd00::2"]
    assert inventory.hosts[0].routes[1] == Route("default", "fd00::2", 5)


def test_routes_of_several_tables_and_their_rules(tmp_path: Path) -> None:
    content = copy.deepcopy(SMALL)
    _route(to="default", via="10.0.0.2", metric=100)(content)
    _route(to="default", via="10.0.0.2", table=7)(content)
    rules = [
        {"table": "main", "except_default": True},
        {"from": "lan", "to": "10.9.0.1", "table": 7},
    ]
    _host("a", satvpn_rules=rules)(content)
    host = load(tmp_path, content).hosts[0]
    assert [(route.metric, route.table) for route in host.routes] == [
        (None, None),
        (100, None),
        (None, 7),
    ]
    assert host.rules == (Rule(None, None, "main", True), Rule("10.0.0.0/24", "10.9.0.1/32", "7"))


@pytest.mark.parametrize(
    "file", sorted((REPOSITORY / "library/topologies").glob("*.yml")), ids=lambda it: str(it.stem)
)
def test_dict_and_back_of_each_topology(file: Path) -> None:
    inventory = load_inventory(file)
    assert Inventory.from_dict(json.loads(json.dumps(inventory.to_dict()))) == inventory


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_with_file_and_key(mistake: str, tmp_path: Path) -> None:
    break_it, words = MISTAKES[mistake]
    content = copy.deepcopy(SMALL)
    break_it(content)
    with pytest.raises(InputError) as caught:
        load(tmp_path, content)
    for word in ["inventory.yml", *words]:
        assert word in str(caught.value)


def test_missing_file_and_broken_yaml(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_inventory(tmp_path / "none.yml")
    broken = tmp_path / "broken.yml"
    broken.write_text("all: [")
    with pytest.raises(InputError, match="line 1"):
        load_inventory(broken)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["10.0.0.1", "lan", "default"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.sampled_from(["satvpn_role", "satvpn_interfaces", "satvpn_routes", "satvpn_rules"]),
    json_values,
)
def test_any_value_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: object
) -> None:
    content = copy.deepcopy(SMALL)
    content["all"]["hosts"]["a"][key] = value
    try:
        load(tmp_path_factory.mktemp("any"), content)
    except InputError as error:
        assert "inventory.yml" in str(error)


@given(json_values)
def test_any_network_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, value: object
) -> None:
    content = copy.deepcopy(SMALL)
    content["all"]["vars"]["satvpn_networks"]["lan"] = value
    try:
        load(tmp_path_factory.mktemp("any"), content)
    except InputError as error:
        assert "inventory.yml" in str(error)


def test_mac_is_local_unicast_and_follows_the_address() -> None:
    assert mac("10.10.1.2") == "02:00:0a:0a:01:02"
