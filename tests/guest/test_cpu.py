# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU model in the guest, against what follows from its numbers."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from statistics import median

import pcapng
import pytest
from conftest import Run, RunCells, command, records

SEGMENT = {"wireguard": (1420, 1368), "openvpn_udp": (1448, 1396)}
"""A full packet in the tunnel, and what of it is a program's with timestamps of TCP."""
SLOW, FAST = {"ns_per_packet": 60_000, "ns_per_byte": 100}, {"ns_per_packet": 1000, "ns_per_byte": 0}
PROFILES = {
    "encrypts": {"encrypt": SLOW, "decrypt": FAST},
    "decrypts": {"encrypt": FAST, "decrypt": SLOW},
    "symmetric": {"encrypt": SLOW, "decrypt": SLOW},
}
LAN = ("rate=unlimited", "duration_s=4")


@pytest.fixture(scope="session")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the profiles above."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "cpus").mkdir()
    for name, times in PROFILES.items():
        profile = {"queue_packets": 100, "vpns": dict.fromkeys(SEGMENT, times)}
        (folder / f"cpus/{name}.json").write_text(json.dumps(profile))
    return folder


def run(run_cells: RunCells, mine: Path, *cell: str, again: int = 0, pcap: bool = False) -> Run:
    scenario, *values = cell
    (one,) = run_cells(scenario, *values, "--with", str(mine), again=again, pcap=pcap)
    return one


def slow_ns(vpn: str) -> float:
    return SLOW["ns_per_packet"] + SLOW["ns_per_byte"] * SEGMENT[vpn][0]


def cpu(one: Run, end: str, name: str) -> float:
    (value,) = [
        line[name] for line in one.statistics("vpn") if line["_metadata"].get("suffix") == end and name in line
    ]
    return float(value)


@pytest.mark.parametrize(("vpn", "profile", "end"), [
    ("wireguard", "encrypts", "client"), ("wireguard", "decrypts", "server"), ("openvpn_udp", "encrypts", "client"),
])  # fmt: skip
def test_a_tunnel_carries_what_its_cpu_has_time_for(
    run_cells: RunCells, mine: Path, vpn: str, profile: str, end: str
) -> None:
    """An upload: the client encrypts, the server decrypts. Acknowledgements cost the other direction, which is fast."""
    one = run(run_cells, mine, "lan_tcp", f"vpn={vpn}", f"cpu={profile}", *LAN)
    expected_mbps = SEGMENT[vpn][1] * 8e3 / slow_ns(vpn)
    assert float(one.row["tcp_mbps"]) == pytest.approx(expected_mbps, rel=0.01)
    assert cpu(one, end, "cpu_busiest_pct") > 99
    assert cpu(one, end, "cpu_dropped") > 0, "CUBIC fills any queue"
    other = {"client": "server", "server": "client"}[end]
    assert cpu(one, other, "cpu_busiest_pct") < 5 and cpu(one, other, "cpu_dropped") == 0
    assert cpu(one, end, "cpu_longest_ms") == pytest.approx(100 * slow_ns(vpn) / 1e6, rel=0.05), "a queue of 100"
