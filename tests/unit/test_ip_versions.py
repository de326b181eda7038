# SPDX-License-Identifier: GPL-3.0-or-later
"""IPv6 as a value, `ip=6`: which addresses a run has, and what is refused before it."""

from __future__ import annotations

import importlib
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from vpn_folders import describe
from vpn_keys import family_of
from vpn_proof import inner_mtu

from openbach_run.campaign.model import Campaign
from openbach_run.campaign.reading import plan
from openbach_run.campaign.spec import runs_of
from openbach_run.errors import InputError
from openbach_run.guest.agent import HAS_IPV6
from openbach_run.openbach.job_folders import load_packages
from openbach_run.paths import LIBRARY, REPOSITORY
from openbach_run.topology.inventory import load_inventory
from openbach_run.topology.ip_versions import ipv6_of, with_ipv6

PACKAGES = load_packages([REPOSITORY / "jobs"])
INVENTORY = load_inventory(REPOSITORY / "inventory.yml")
ports = importlib.import_module("openbach_jobs.ports")
vpn = importlib.import_module("vpn")


def campaign(*settings: str, scenario: str = "geo") -> Campaign:
    path = REPOSITORY / f"scenarios/{scenario}.yml"
    return plan(path, ["vpn=wireguard", "cc=cubic", *settings], (1,), PACKAGES)


def guest(*settings: str) -> dict[str, Any]:
    (run,) = runs_of(campaign(*settings), INVENTORY, lambda _: {})
    return run.for_guest()


def test_an_address_of_ipv4_is_the_end_of_one_of_ipv6() -> None:
    assert ipv6_of("192.168.20.2") == "fd00::c0a8:1402"
    assert ipv6_of("10.10.1.0/24") == "fd00::a0a:100/120"
    assert ipv6_of("default") == "default"


@pytest.mark.parametrize(
    ("value", "server", "box"),
    [
        ("4", "192.168.20.2", "10.10.1.1"),
        ("6", "fd00::c0a8:1402", "fd00::a0a:101"),
        ("6in4", "fd00::c0a8:1402", "10.10.1.1"),
        ("4in6", "192.168.20.2", "fd00::a0a:101"),
    ],
)
def test_a_value_is_of_the_traffic_and_of_the_tunnel(value: str, server: str, box: str) -> None:
    run = guest(f"ip={value}")
    constants = run["scenario"]["constants"]
    assert (constants["server_ip"], constants["box_ip"]) == (server, box)
    assert constants["client_network"] == (
        "fd00::c0a8:a00/120" if ":" in server else "192.168.10.0/24"
    )
    (pc,) = [one for one in run["inventory"]["hosts"] if one["name"] == "pc"]
    has_ipv6 = value != "4"
    assert pc["interfaces"][0]["ipv6"] == ("fd00::c0a8:a02" if has_ipv6 else None)
    assert [route["via"] for route in pc["routes"]] == [
        "192.168.10.1",
        *(["fd00::c0a8:a01"] if has_ipv6 else []),
    ]


def test_a_run_without_it_is_the_run_of_before() -> None:
    """Also its name: results of before are not stale."""
    (plain,) = runs_of(campaign(), INVENTORY, lambda _: {})
    assert "ip" not in plain.values
    assert plain.for_guest()["inventory"] == INVENTORY.to_dict()


def test_rules_and_routes_are_in_both_versions() -> None:
    both = with_ipv6(load_inventory(LIBRARY / "topologies/two_links.yml").to_dict())
    for host in both["hosts"]:
        of_ipv6 = [one for one in host["routes"] if ":" in one["via"]]
        assert 2 * len(of_ipv6) == len(host["routes"])
    sources = [rule["source"] for host in both["hosts"] for rule in host["rules"]]
    assert len([one for one in sources if one and ":" in one]) * 2 == len(
        list(filter(None, sources))
    )


def test_an_inventory_with_ipv6_keeps_its_addresses() -> None:
    given = load_inventory(LIBRARY / "topologies/long_thin.yml").to_dict()
    assert with_ipv6(given) is given


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (["ip=5"], "ip=5: it is one of 4, 6, 6in4, 4in6"),
        (["ip=6", "vpn=nebula"], "vpn=nebula has no IPv6 inside and outside its tunnel here; it"),
        (["ip=6in4", "vpn=none"], r"ip=6in4: there is no tunnel \(vpn=none\)"),
        (["ip=6", "nat=terminal"], "ip=6: nat=terminal: the NAT translates IPv4 addresses only"),
        (["ip=6", "orbit=geo_rcs2"], "ip=6: access=dama: it knows terminals by their IPv4 addr"),
        (["ip=6", "http=3", "quic=quinn"], "ip=6: quic=quinn has IPv4 only"),
        (["ip=6", "http=1.1", "pep=B", "pep_program=pepsal"], "pep_program=pepsal has IPv4 only"),
    ],
)
def test_what_has_no_ipv6_is_refused_before_the_run(settings: list[str], why: str) -> None:
    names = {one.partition("=")[0] for one in settings}
    others = [one for one in ("vpn=wireguard", "cc=cubic") if one[: one.index("=")] not in names]
    with pytest.raises(InputError, match=why):
        plan(REPOSITORY / "scenarios/geo.yml", [*others, *settings], (1,), PACKAGES)


def test_a_nat_inside_of_which_no_ipv6_is_seen_may_be_there() -> None:
    assert campaign("ip=6in4", "nat=terminal").cells


def test_a_job_that_has_ipv4_only_is_refused() -> None:
    with pytest.raises(InputError, match="ip=6: server_ip of the job rist_video is an IPv4"):
        plan(REPOSITORY / "scenarios/lan_video.yml", ["ip=6"], (1,), PACKAGES)


def test_an_mtu_below_that_of_ipv6_is_refused() -> None:
    small = campaign("ip=6", "access_mtu=1200")
    with pytest.raises(InputError, match=r"access_mtu=1200: inventory, or a number .* from 1280"):
        runs_of(small, INVENTORY, lambda _: {})
    assert runs_of(campaign("ip=4", "access_mtu=1200"), INVENTORY, lambda _: {})


def test_a_scenario_may_have_a_value_of_that_name(tmp_path: Path) -> None:
    """Then it is the scenario's own, whatever it means."""
    scenario = json.loads((REPOSITORY / "scenarios/geo_loss.json").read_text())
    text = json.dumps(scenario).replace('"$loss"', '"$ip"')
    changed = json.loads(text)
    changed["arguments"]["ip"] = changed["arguments"].pop("loss")
    del changed["x-sweep"]["values"]["loss"]
    file = tmp_path / "own.json"
    file.write_text(json.dumps(changed))
    own = plan(file, ["vpn=nebula", "cc=cubic", "ip=6"], (1,), PACKAGES)
    assert not own.has_ipv6


def test_the_engine_tells_jobs_of_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ports.OUR_IPV6 == HAS_IPV6
    monkeypatch.setenv(ports.OUR_ENGINE, "pc")
    assert not ports.has_ipv6()
    monkeypatch.setenv(HAS_IPV6, "yes")
    assert ports.has_ipv6()


def test_an_address_with_a_port_is_that_of_a_url() -> None:
    assert ports.with_port("fd00::1", 443) == "[fd00::1]:443"
    assert ports.with_port("10.0.0.1", 443) == "10.0.0.1:443"


def test_the_tunnel_has_addresses_of_its_traffics_version() -> None:
    words = ["wireguard", "10.10.1.1", "10.10.4.2", "fd00::c0a8:1400/120", "client"]
    inside = vpn.parse(words)
    assert (inside.tunnel_ip, inside.remote_tunnel_ip) == ("fd00::ac8:2", "fd00::ac8:1")
    assert (inside.in_ipv6, inside.over_ipv6, inside.ip) == (True, False, ("ip", "-6"))
    assert family_of(inside.local_ip) == socket.AF_INET


def test_a_tunnel_over_ipv6_has_20_bytes_less() -> None:
    outside = vpn.parse(["openvpn_udp", "fd00::1", "fd00::2", "192.168.20.0/24", "client"])
    described = describe("openvpn_udp")
    assert inner_mtu(outside, described, 1500) == 1428
    outside.over_ipv6 = False
    assert inner_mtu(outside, described, 1500) == 1448
