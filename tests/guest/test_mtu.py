# SPDX-License-Identifier: GPL-3.0-or-later
"""MTUs as values of a scenario.

Tunnels fit the smallest network on the way, fragments are counted and said, and a path may drop the
messages that a packet is too big.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from helpers.guest_runs import REPOSITORY, Run, RunCells, command, records
from helpers.vpns_tested import VPNS, on

GEO = ("cc=cubic", "size=60k")
SIDES = ("forward_fragments", "return_fragments")
WRONG = {
    "base": "openvpn_udp",
    "description": "too big for its cipher",
    "overhead_bytes": 20,
    "inner_mtu": 1480,
}
CBC = {"base": "openvpn_udp", "description": "CBC with HMAC", "values": {"cipher": "AES-256-CBC"}}


def fragments(run: Run) -> int:
    return sum(int(run.row[side]) for side in SIDES)


def largest(run: Run, interface: str) -> int:
    return max(map(len, on(run, interface)))


@pytest.mark.parametrize("mtu", [1280, 1492, 9000])
def test_no_vpn_sends_fragments_over_the_satellite(run_cells: RunCells, mtu: int) -> None:
    """At commit 94585d7 UDP VPNs were refused, with no way out."""
    runs = run_cells("geo", f"vpn={','.join(['none', *VPNS])}", *GEO, f"access_mtu={mtu}")
    assert {run.row["vpn"]: fragments(run) for run in runs} == dict.fromkeys(["none", *VPNS], 0)


@pytest.mark.parametrize("network", ["access", "uplink", "feeder", "backhaul"])
def test_any_network_may_be_the_smallest(run_cells: RunCells, network: str) -> None:
    runs = run_cells("geo", "vpn=openvpn_udp,strongswan", *GEO, f"{network}_mtu=1403", pcap=True)
    for run in runs:
        assert fragments(run) == 0
        assert 1395 < largest(run, "pop/to_gw") <= 1403


def test_larger_networks_count_when_all_are(run_cells: RunCells) -> None:
    mtus = [f"{network}_mtu=9000" for network in ("access", "uplink", "feeder", "backhaul")]
    (run,) = run_cells("geo", "vpn=none", *GEO, *mtus)
    assert fragments(run) == 0


def folder_of(place: Path, **vpns: Mapping[str, object]) -> Path:
    for name, content in vpns.items():
        (place / "vpn-configs" / name).mkdir(parents=True)
        (place / "vpn-configs" / name / "vpn.json").write_text(json.dumps(content))
    return place


def test_the_cipher_in_force_counts_and_fragments_are_said(tmp_path: Path) -> None:
    """At commit 94585d7 the variant with CBC sent each full packet as two, and nothing told."""
    folder = folder_of(tmp_path / "mine", cbc=CBC, wrong=WRONG)
    results = ["--with", str(folder), "--results", str(tmp_path / "r"), "--pcap"]
    ended = command("geo", "vpn=cbc,wrong", *GEO, *results)
    assert ended.returncode == 0, ended.stderr
    cbc, wrong = records(tmp_path / "r")
    assert fragments(cbc) == 0
    assert largest(cbc, "pop/to_gw") == 1492
    assert fragments(wrong) > 60
    assert "1 of 2 runs had fragments of IP packets on the satellite, up to" in ended.stdout
    assert "vpn=wrong" in ended.stdout


def test_where_both_sides_are_clamped_or_both_are_not_a_vpn_costs_its_headers(
    run_cells: RunCells,
) -> None:
    """At commit 33a89e92 no VPN was slower than WireGuard over 1402 bytes (F2)."""
    cell = ("cc=cubic", "size=30M", "access_mtu=1402", "noise=off")
    direct = run_cells("geo", "vpn=none", "mss_clamp=terminal,none", *cell)
    tunnel = run_cells("geo", "vpn=wireguard", "vpn.clamp=on,off", *cell)
    times = [float(run.row["transfer_time_s"]) for run in (*direct, *tunnel)]
    assert times[0] < times[2] < 1.05 * times[0]
    assert times[1] < times[3] < 1.1 * times[1]
    assert times[1] > 1.05 * times[0]
    assert [run.row["mss_bytes"] for run in (*direct, *tunnel)] == ["1362", "1460", "1302", "1460"]
    assert [run.row["vpn_mtu"] for run in tunnel] == ["1342", "1342"]


def test_a_tunnel_that_is_too_big_over_a_path_that_drops_fragments(run_cells: RunCells) -> None:
    """At commit 33a89e92 the MTU was made smaller without a word (F3)."""
    cell = ("vpn=wireguard", "cc=cubic", "access_mtu=1440", "noise=off")
    drops = (*cell, "fragments=drop", "duration_s=15")
    runs = [run_cells("geo", *drops, f"vpn.mtu={mtu}")[0] for mtu in (1420, 1380)]
    too_big, right = (float(run.row["goodput_mbps"]) for run in runs)
    assert too_big < 0.1
    assert right > 7
    assert [run.row["vpn_mtu"] for run in runs] == ["1420", "1380"]


def test_a_black_hole_of_path_mtu_discovery(tmp_path: Path) -> None:
    path = ("access_mtu=1400", "mss_clamp=none", "icmp_too_big=pass,drop")
    cells = ("vpn=none,wireguard", *GEO, *path)
    ended = command("geo", *cells, "--results", str(tmp_path / "r"))
    assert ended.returncode == 1
    runs = {(run.row["vpn"], run.row["icmp_too_big"]): run for run in records(tmp_path / "r")}
    assert runs.pop(("none", "drop")).row["status"] == "Finished Ko", "full packets never arrive"
    assert all(float(run.row["transfer_time_s"]) < 5 for run in runs.values()), (
        "a tunnel sets the size of segments"
    )


@pytest.mark.parametrize(
    ("setting", "right"),
    [
        ("access_mtu=500", "access_mtu=500: inventory, or a number of bytes from 576 to 65535"),
        (f"access_mtu={5000 * '9'}", "9: inventory, or a number of bytes from 576 to 65535"),
        ("access_mtu=big", "access_mtu=big: inventory, or a number of bytes from 576 to 65535"),
        ("icmp_too_big=lose", "icmp_too_big is one of pass, drop"),
    ],
)
def test_what_is_no_mtu_is_refused(setting: str, right: str) -> None:
    ended = command("geo", "vpn=none", "cc=cubic", setting, "--dry-run", cwd=REPOSITORY)
    assert ended.returncode == 2
    assert right in ended.stderr
