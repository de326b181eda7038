# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU model in the guest, against what follows from its numbers."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from helpers import pcapng
from helpers.guest_runs import Run, RunCells

SEGMENT = {"wireguard": (1420, 1368), "openvpn_udp": (1448, 1396)}
"""A full packet in the tunnel, and what of it is a program's with timestamps of TCP."""
SLOW, FAST = (
    {"ns_per_packet": 60_000, "ns_per_byte": 100},
    {"ns_per_packet": 1000, "ns_per_byte": 0},
)
PROFILES = {
    "encrypts": {"encrypt": SLOW, "decrypt": FAST},
    "decrypts": {"encrypt": FAST, "decrypt": SLOW},
    "symmetric": {"encrypt": SLOW, "decrypt": SLOW},
}
LAN = ("rate=unlimited", "duration_s=4")
WINDOW = "buffer_bytes=131072"
"""A window that keeps the CPU busy and fits its queue, so that nothing is lost."""
QUEUE_PACKETS = 100


@pytest.fixture(scope="session")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the profiles above."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "cpus").mkdir()
    for name, times in PROFILES.items():
        profile = {"queue_packets": QUEUE_PACKETS, "vpns": dict.fromkeys(SEGMENT, times)}
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
        line[name]
        for line in one.statistics("vpn")
        if line["_metadata"].get("suffix") == end and name in line
    ]
    return float(value)


@pytest.mark.parametrize(
    ("vpn", "profile", "end", "other"),
    [
        ("wireguard", "encrypts", "client", "server"),
        ("wireguard", "decrypts", "server", "client"),
        ("openvpn_udp", "encrypts", "client", "server"),
    ],
)
def test_a_tunnel_carries_what_its_cpu_has_time_for(
    run_cells: RunCells, mine: Path, vpn: str, profile: str, end: str, other: str
) -> None:
    """An upload: the client encrypts, the server decrypts.

    Acknowledgements, one for two packets, go the other way.
    """
    one = run(run_cells, mine, "lan_tcp", f"vpn={vpn}", f"cpu={profile}", WINDOW, *LAN)
    assert float(one.row["tcp_mbps"]) == pytest.approx(
        SEGMENT[vpn][1] * 8e3 / slow_ns(vpn), rel=0.01
    )
    assert cpu(one, end, "cpu_busiest_pct") > 99 > 50 > cpu(one, other, "cpu_busiest_pct")
    assert cpu(one, end, "cpu_dropped") == cpu(one, other, "cpu_dropped") == 0


def test_a_full_queue_drops_and_the_drops_are_counted(run_cells: RunCells, mine: Path) -> None:
    """UDP at twice what the CPU of the client has time for.

    A packet waits for as many as the queue holds.
    """
    payload_bytes, headers_bytes, scale = 1000, 28, 5
    packet_ns = scale * (
        SLOW["ns_per_packet"] + SLOW["ns_per_byte"] * (payload_bytes + headers_bytes)
    )
    rate = f"udp_rate={2 * payload_bytes * 8e9 / packet_ns:.0f}"
    one = run(
        run_cells,
        mine,
        "lan_udp",
        "vpn=wireguard",
        "cpu=encrypts",
        f"cpu_scale={scale}",
        rate,
        f"payload_bytes={payload_bytes}",
        *LAN,
        pcap=True,
    )
    assert float(one.row["udp_loss_pct"]) == pytest.approx(50, abs=2)
    sent = one.statistic("udp_stress", "sent_packets")
    assert cpu(one, "client", "cpu_dropped") == pytest.approx(sent / 2, rel=0.05)
    assert cpu(one, "client", "cpu_longest_ms") == pytest.approx(
        (QUEUE_PACKETS + 1) * packet_ns / 1e6, rel=0.01
    )
    left_ns = [
        packet.time_ns
        for packet in pcapng.read(one.capture)
        if packet.interface == "box_1/to_lan" and len(packet.ip) > payload_bytes
    ]
    spaces_ns = [later - earlier for earlier, later in pairwise(left_ns)]
    assert median(spaces_ns) == pytest.approx(packet_ns, rel=0.001), (
        "one after the other leaves the CPU"
    )


def test_both_directions_share_the_cpu(run_cells: RunCells, mine: Path) -> None:
    """Both ways at once, each end encrypts one flow's data and decrypts the other's.

    Together they get what one got.
    """
    one = run(
        run_cells, mine, "lan_tcp", "vpn=wireguard", "cpu=symmetric", WINDOW, "direction=both", *LAN
    )
    with_acks_ns = slow_ns("wireguard") + (SLOW["ns_per_packet"] + 52 * SLOW["ns_per_byte"]) / 2
    both_mbps = SEGMENT["wireguard"][1] * 8e3 / with_acks_ns
    assert float(one.row["tcp_mbps"]) == pytest.approx(both_mbps, rel=0.03)
    assert cpu(one, "client", "cpu_busiest_pct") > 99 and cpu(one, "server", "cpu_busiest_pct") > 99


def test_two_tunnels_of_a_host_share_its_cpu(run_cells: RunCells, mine: Path) -> None:
    """A download through each, at the same time for 80 s.

    Together they get what the POP has time for, in equal parts.
    """
    scale = 20
    two = (
        "vpn=wireguard",
        "vpn_2=wireguard",
        "cpu=free",
        "cpu_pop=encrypts",
        f"cpu_scale_pop={scale}",
    )
    one = run(run_cells, mine, "multi_flow", "orbit=leo", "pep=none", *two)
    alone_mbps = SEGMENT["wireguard"][1] * 8e3 / slow_ns("wireguard") / scale
    assert float(one.row["total_goodput_mbps"]) == pytest.approx(alone_mbps, rel=0.02)
    assert float(one.row["share_pct"]) == pytest.approx(50, abs=5)


def test_users_of_a_pop_until_its_cpu_is_the_bottleneck(run_cells: RunCells, mine: Path) -> None:
    """56 users fill the CPU of the POP.

    A user costs 1000 kbit/s of packets of 1400 bytes, and an acknowledgement for two of them.
    """
    packets_per_s = 1e6 / (1400 * 8)
    cost_ns = SLOW["ns_per_packet"] + 1400 * SLOW["ns_per_byte"] + FAST["ns_per_packet"] / 2
    fill = 1e9 / (packets_per_s * cost_ns)
    cell = ("pop_users", "vpn=wireguard", "cpu_pop=encrypts", "orbit=leo", "size=1M")
    runs = {users: run(run_cells, mine, *cell, f"users={users}") for users in (1, 40, 100)}
    assert 40 < fill < 100
    times_s = {users: float(one.row["transfer_time_s"]) for users, one in runs.items()}
    assert times_s[40] == pytest.approx(times_s[1], rel=0.1) and times_s[100] > 1.5 * times_s[1]
    assert (
        cpu(runs[100], "server", "cpu_busiest_pct")
        == 100
        > cpu(runs[40], "server", "cpu_busiest_pct")
        > 100 * 40 / fill
    )
    served = cpu(runs[40], "server", "cpu_others_packets") / 1.5  # acknowledgements, too
    busy_s, alone_s = (cpu(runs[users], "server", "cpu_busy_s") for users in (40, 1))
    assert (busy_s - alone_s) * 1e9 == pytest.approx(served * cost_ns, rel=0.02)
    assert (
        cpu(runs[40], "server", "cpu_others_dropped")
        == 0
        < cpu(runs[100], "server", "cpu_others_dropped")
    )


def test_same_seed_same_capture(run_cells: RunCells, mine: Path) -> None:
    cell = ("lan_tcp", "vpn=openvpn_udp", "cpu=symmetric", "rate=unlimited", "duration_s=1")
    first, second = (run(run_cells, mine, *cell, again=again) for again in (0, 1))
    assert first.row["capture_hash"] == second.row["capture_hash"]
    assert cpu(first, "client", "cpu_busy_s") == cpu(second, "client", "cpu_busy_s") > 0
