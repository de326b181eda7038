# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventories of topologies/ in the guest.

LANs, several links, routing by table, MTU, IPv6, many terminals.
"""

from __future__ import annotations

import importlib.util
import ipaddress
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from helpers import pcapng
from helpers.guest_runs import REPOSITORY, Run
from helpers.scenario_with import Job, all_ran, ran, scenario_of

TOPOLOGIES = REPOSITORY / "library/topologies"
_spec = importlib.util.spec_from_file_location("build_topologies", TOPOLOGIES / "build.py")
assert _spec and _spec.loader
build = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(build)

PING = "ping -n -c 1 -W 2 {} > /dev/null && echo -n {}' '; "


def run_commands(
    inventory: Path, place: Path, commands: dict[str, str], *options: str
) -> tuple[Run, dict[str, str]]:
    """What a shell command on each host prints, all at the same time."""
    jobs = [
        Job(host, "snapshot", {"command": shell.replace("$", "$$")})
        for host, shell in commands.items()
    ]
    place.mkdir(exist_ok=True)
    run = ran(scenario_of(place, *jobs), place / "results", "--inventory", str(inventory), *options)
    printed = {
        line["_metadata"]["agent_name"]: line["printed"] for line in run.statistics("snapshot")
    }
    return run, {host: printed[f"satvpn_{host}"] for host in commands}


def addresses(run: Run) -> dict[str, list[tuple[str, str]]]:
    """(source, destination) of all IPv4 packets, by the interface that they left on."""
    found = defaultdict(list)
    for packet in pcapng.read(run.capture):
        if packet.ip:
            source, destination = (
                str(ipaddress.ip_address(packet.ip[at : at + 4])) for at in (12, 16)
            )
            found[packet.interface].append((source, destination))
    return found


@pytest.fixture(scope="module")
def lan(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return ran(TOPOLOGIES / "lan.json", tmp_path_factory.mktemp("lan"), "size=300k", "--pcap")


def transfer_times(run: Run) -> Iterator[float]:
    for name, value in run.row.items():
        if name.endswith("_transfer_time_s"):
            yield float(value)


def test_all_hosts_of_a_lan_reach_one_another(tmp_path: Path) -> None:
    hosts = {
        "pc_1": "192.168.10.11",
        "pc_2": "192.168.10.12",
        "pc_3": "192.168.10.13",
        "box": "192.168.10.1",
    }
    shell = "".join(PING.format(address, address) for address in hosts.values())
    run, printed = run_commands(
        TOPOLOGIES / "lan.yml", tmp_path, dict.fromkeys(hosts, shell), "--pcap"
    )
    assert all(text.split() == list(hosts.values()) for text in printed.values())
    ports = addresses(run)
    assert set(ports) - {"lo"} >= {f"office_lan/{host}" for host in hosts} | {
        f"{host}/to_lan" for host in hosts
    }
    for host, address in hosts.items():
        others = set(hosts.values()) - {address}
        assert {source for source, _ in ports[f"office_lan/{host}"]} == others
        assert {destination for _, destination in ports[f"office_lan/{host}"]} == {address}, (
            "only its own packets"
        )
        assert {source for source, _ in ports[f"{host}/to_lan"]} == {address}


def test_all_pcs_of_a_lan_transfer(lan: Run) -> None:
    times_s = list(transfer_times(lan))
    assert len(times_s) == 3
    assert min(times_s) > 0.5 and max(times_s) > 3 * 300_000 * 8 / 10e6


@pytest.mark.parametrize("name", ["coordinated", "long_thin", "star", "two_links"])
def test_each_topology_is_the_same_again_to_the_bit(name: str, tmp_path: Path) -> None:
    first, again = (
        {
            run.row["run_id"]: run.row["capture_hash"]
            for run in all_ran(TOPOLOGIES / f"{name}.json", tmp_path / place, "size=100k")
        }
        for place in ("first", "again")
    )
    assert first == again


def test_another_seed_gives_other_packets(lan: Run, tmp_path: Path) -> None:
    again = ran(TOPOLOGIES / "lan.json", tmp_path / "again", "size=300k")
    assert again.row["capture_hash"] == lan.row["capture_hash"]
    other = ran(TOPOLOGIES / "lan.json", tmp_path / "other", "size=300k", "--seeds", "2,")
    assert other.row["capture_hash"] != lan.row["capture_hash"]


def test_each_access_link_is_used_by_whom_its_table_says(tmp_path: Path) -> None:
    run = ran(TOPOLOGIES / "two_links.json", tmp_path, "size=300k", "--pcap")
    assert float(run.row["pc_1_transfer_time_s"]) > 1 > float(run.row["pc_2_transfer_time_s"])
    ports = addresses(run)
    for orbit, own, others in (
        ("geo", "192.168.10.11", "192.168.10.12"),
        ("leo", "192.168.10.12", "192.168.10.11"),
    ):
        for name in (f"st_{orbit}/to_sat", f"gw_{orbit}/to_sat"):
            users = {
                address
                for ends in ports[name]
                for address in ends
                if address.startswith("192.168.10.")
            }
            assert (own in users, others in users) == (True, False)


def test_routes_are_chosen_by_table_and_metric(tmp_path: Path) -> None:
    asked = {
        "box": (
            "for from in '' 'from 10.10.1.1' 'from 10.20.1.1'; do ip route get 192.168.20.2 $from |"
            " head -1 | sed 's/.*via \\([^ ]*\\).*/\\1/'; done; ip link set to_leo down; ip route"
            " get 192.168.20.2 | head -1"
        ),
    }
    _, printed = run_commands(TOPOLOGIES / "two_links.yml", tmp_path, asked)
    *vias, fallback = printed["box"].splitlines()
    assert vias == ["10.20.1.2", "10.10.1.2", "10.20.1.2"]
    assert "via 10.10.1.2" in fallback


def test_every_terminal_of_a_star_transfers(tmp_path: Path) -> None:
    run = ran(TOPOLOGIES / "star.json", tmp_path, "size=300k", "--pcap")
    times_s = list(transfer_times(run))
    assert len(times_s) == 3
    assert max(times_s) > 3 * 300_000 * 8 / 10e6, "they share the satellite's rate"
    ports = addresses(run)
    for number in (1, 2, 3):
        users = {to for _, to in ports[f"uplink/st_{number}"] if to.startswith("172.16.")}
        assert users == {f"172.16.{number}.2"}, "the switch sends a terminal its own packets only"


def test_no_packet_is_larger_than_its_networks_mtu(tmp_path: Path) -> None:
    run = ran(TOPOLOGIES / "long_thin.json", tmp_path, "size=300k", "--pcap")
    largest: dict[str, int] = defaultdict(int)
    for packet in pcapng.read(run.capture):
        if packet.ip[9:10] == b"\x06":  # the link's proof, in UDP, is put in behind the interface
            largest[packet.interface] = max(largest[packet.interface], len(packet.ip))
    assert (largest["gw/to_sat"], largest["sat/to_st"]) == (1280, 1280)
    assert largest["server/to_isp"] == 1280, "the satellite link sets TCP's segment size"
    assert float(run.row["pc_transfer_time_s"]) > 0.5


def test_ipv6_reaches_the_other_end(tmp_path: Path) -> None:
    addresses_ipv6 = ["fd00:168:20::2", "fd00:10:5::2"]
    asked = {
        "pc": (
            "".join(PING.format(address, address) for address in addresses_ipv6)
            + "ping -n -c 1 -W 2 -M do -s 1300 fd00:168:20::2 | grep -o 'Packet too big:"
            " mtu=[0-9]*'"
        ),
        "server": "cat /sys/class/net/to_isp/mtu",
        "sat": "cat /sys/class/net/to_st/mtu /sys/class/net/to_gw/mtu",
    }
    _, printed = run_commands(TOPOLOGIES / "long_thin.yml", tmp_path, asked)
    assert printed["pc"].split(maxsplit=2) == [*addresses_ipv6, "Packet too big: mtu=1280\n"]
    assert (printed["server"].split(), printed["sat"].split()) == (["1500"], ["1280", "1280"])


def test_the_default_inventory_has_no_ipv6(tmp_path: Path) -> None:
    _, printed = run_commands(
        REPOSITORY / "inventory.yml", tmp_path, {"pc": "ip -6 address; ip rule | wc -l"}
    )
    assert printed["pc"].split() == ["3"]


@pytest.mark.nightly
def test_two_hundred_terminals_transfer(tmp_path: Path) -> None:
    build.write_star(tmp_path, 200)
    run = ran(tmp_path / "star.json", tmp_path, "size=10k")
    times = [name for name in run.row if name.endswith("transfer_time_s") and run.row[name]]
    assert len(times) == 200


def test_two_hundred_terminals(tmp_path: Path) -> None:
    inventory = tmp_path / "star.yml"
    inventory.write_text(yaml.safe_dump(build.star_inventory(200)))
    pings = dict.fromkeys(("pc_1", "pc_200"), PING.format("192.168.20.2", "answered"))
    _, printed = run_commands(
        inventory, tmp_path, {**pings, "sat": "grep MemAvailable /proc/meminfo"}
    )
    assert [printed[host].strip() for host in pings] == ["answered", "answered"]
    hosts = 2 * 200 + 3
    assert int(printed["sat"].split()[1]) / 1024 > 14 * hosts, (
        "of 16 MB a host the jobs have the most"
    )
