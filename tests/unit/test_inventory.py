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
from openbach_run.inventory import Inventory, load_inventory

REPOSITORY = Path(__file__).parents[2]
PATH = ["pc", "box", "st", "sat", "gw", "pop", "server"]

SMALL: dict[str, Any] = {
    "all": {
        "vars": {"satvpn_networks": {"lan": "10.0.0.0/24"}},
        "hosts": {
            "a": {
                "satvpn_role": "left",
                "satvpn_interfaces": [{"name": "to_right", "network": "lan", "address": "10.0.0.1"}],
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
        host = ours.by_role(left)
        assert host is not None and host.entity == f"satvpn_{left}"
        assert f"to_{right}" in [port.name for port in host.interfaces]
    assert {host.role for host in ours.hosts} == set(PATH)
    assert [host.role for host in ours.hosts if not host.forwarding] == ["pc", "server"]
    assert len(list(ours.links())) == 6


def test_every_address_reaches_every_other_on_its_routes(ours: Inventory) -> None:
    """Follow the routes as a packet would, from each host to each address."""
    owners = {port.address: host for host in ours.hosts for port in host.interfaces}
    for start in ours.hosts:
        for address, destination in owners.items():
            here = start
            for _ in ours.hosts:
                if here is destination:
                    break
                here = owners[_next_hop(ours, here, address)]
            assert here is destination, f"{start.role} does not reach {address}"


def _next_hop(inventory: Inventory, host: Any, address: str) -> str:
    target = ipaddress.ip_address(address)
    for port in host.interfaces:
        if target in ipaddress.ip_network(inventory.networks[port.network]):
            return address
    routes = sorted(host.routes, key=lambda route: route.to == "default")
    for route in routes:
        if route.to == "default" or target in ipaddress.ip_network(route.to):
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


def test_other_hosts_and_variables_are_left_to_ansible(tmp_path: Path) -> None:
    content = copy.deepcopy(SMALL)
    content["all"]["children"] = {
        "controllers": {"hosts": {"controller": {"ansible_host": "192.0.2.1"}, "other": None}}
    }
    assert [host.entity for host in load(tmp_path, content).hosts] == ["a", "b"]


def _interface(content: Any, **values: object) -> None:
    content["all"]["hosts"]["a"]["satvpn_interfaces"][0].update(values)


def _network(content: Any, **values: object) -> None:
    content["all"]["vars"]["satvpn_networks"].update(values)


def _host(content: Any, name: str, **values: object) -> None:
    content["all"]["hosts"][name].update(values)


MISTAKES: dict[str, tuple[Callable[[Any], object], list[str]]] = {
    "no all": (lambda c: c.pop("all"), ["top level", "`all` is missing"]),
    "no hosts": (lambda c: c["all"].pop("hosts"), ["satvpn_role"]),
    "no networks": (lambda c: c["all"]["vars"].clear(), ["all.vars.satvpn_networks", "missing"]),
    "hosts as a list": (lambda c: c["all"].update(hosts=["a"]), ["all.hosts", "mapping"]),
    "overlapping networks": (lambda c: _network(c, wan="10.0.0.128/25"), ["satvpn_networks.wan", "overlaps lan"]),
    "host bits": (lambda c: _network(c, wan="10.1.0.1/24"), ["satvpn_networks.wan", "host bits"]),
    "no network at all": (lambda c: _network(c, wan=None), ["satvpn_networks.wan", "10.10.1.0/24"]),
    "unknown network": (lambda c: _interface(c, network="wan"), ["all.hosts.a.satvpn_interfaces[0].network", "lan"]),
    "outside the network": (lambda c: _interface(c, address="10.9.0.1"), ["[0].address", "10.0.0.0/24"]),
    "broadcast address": (lambda c: _interface(c, address="10.0.0.255"), ["[0].address", "whole network"]),
    "no address": (lambda c: _interface(c, address="ten"), ["[0].address", "IPv4 address", "ten"]),
    "address with mask": (lambda c: _interface(c, address="10.0.0.1/24"), ["[0].address", "IPv4 address"]),
    "address is a number": (lambda c: _interface(c, address=10), ["[0].address", "text"]),
    "address twice": (lambda c: _interface(c, address="10.0.0.2"), ["b", "10.0.0.2", "already", "a"]),
    "interface name too long": (lambda c: _interface(c, name="to_the_satellite"), ["[0].name", "15"]),
    "interface key misspelt": (lambda c: _interface(c, adress="10.0.0.1"), ["adress", "needs exactly"]),
    "interfaces as a mapping": (lambda c: _host(c, "a", satvpn_interfaces={}), ["satvpn_interfaces", "list"]),
    "third end": (
        lambda c: c["all"]["hosts"].update(
            x={"satvpn_role": "x", "satvpn_interfaces": [{"name": "e", "network": "lan", "address": "10.0.0.3"}]}
        ),
        ["satvpn_networks.lan", "3 interfaces", "a link has two"],
    ),
    "one end": (lambda c: c["all"]["hosts"]["b"].pop("satvpn_interfaces"), ["1 interface ", "a link has two"]),
    "gateway not on a link": (
        lambda c: c["all"]["hosts"]["a"]["satvpn_routes"][0].update(via="10.0.0.9"),
        ["a.satvpn_routes[0].via", "10.0.0.9", "10.0.0.2"],
    ),
    "route twice": (
        lambda c: c["all"]["hosts"]["a"]["satvpn_routes"].append({"to": "default", "via": "10.0.0.2"}),
        ["a.satvpn_routes[1].to", "default"],
    ),
    "route to nowhere": (
        lambda c: c["all"]["hosts"]["a"]["satvpn_routes"][0].update(to="moon"),
        ["a.satvpn_routes[0].to", "lan"],
    ),
    "duplicate role": (lambda c: _host(c, "b", satvpn_role="left"), ["b.satvpn_role", "already the role of a"]),
    "no role": (lambda c: c["all"]["hosts"]["a"].pop("satvpn_role"), ["all.hosts.a.satvpn_role", "role"]),
    "role is no name": (lambda c: _host(c, "a", satvpn_role="../etc"), ["all.hosts.a.satvpn_role"]),
    "forwarding is no bool": (
        lambda c: _host(c, "a", satvpn_forwarding="no way"),
        ["satvpn_forwarding", "true or false"],
    ),
    "unknown variable": (lambda c: _host(c, "a", satvpn_forwardin=True), ["satvpn_forwardin", "satvpn_forwarding"]),
    "unknown group variable": (lambda c: c["all"]["vars"].update(satvpn_x=1), ["all.vars.satvpn_x", "unknown"]),
    "tunnel address": (lambda c: _host(c, "a", satvpn_tunnel_address="tun"), ["satvpn_tunnel_address", "IPv4"]),
}


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
    with pytest.raises(InputError, match="No such file"):
        load_inventory(tmp_path / "none.yml")
    broken = tmp_path / "broken.yml"
    broken.write_text("all: [")
    with pytest.raises(InputError, match="line 1"):
        load_inventory(broken)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["10.0.0.1", "lan", "default"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(["satvpn_role", "satvpn_interfaces", "satvpn_routes", "satvpn_tunnel_address"]), json_values)
def test_any_value_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, key: str, value: object) -> None:
    content = copy.deepcopy(SMALL)
    content["all"]["hosts"]["a"][key] = value
    try:
        load(tmp_path_factory.mktemp("any"), content)
    except InputError as error:
        assert "inventory.yml" in str(error)


def test_mac_is_local_unicast_and_follows_the_address() -> None:
    assert mac("10.10.1.2") == "02:00:0a:0a:01:02"
