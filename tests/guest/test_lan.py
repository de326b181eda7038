# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenarios of the published comparisons in the guest.

Three computers on a LAN, against what follows from the path.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from helpers import pcapng
from helpers.guest_runs import Run, RunCells

RATE_BPS = 20e6
LAN = ("rate=20M",)
TCP, UDP = (*LAN, "duration_s=2"), (*LAN, "duration_s=2", "udp_rate=10M")
VIDEO = (*LAN, "duration_s=5")
STABLE = ("duration_s=20", "looks_s=5")
EVENT = ("pings=200", "event_after_s=3", "event_s=5")
CACHE = (*LAN, "files=6", "parallel=3")
LONG = ("rate=100M", "delay_ms=98", "duration_s=3", "buffer_bytes=1048576")
TCP_PROTOCOL, UDP_PROTOCOL = 6, 17
IPERF3_PORT, SYN = 5201, 0x02
ETHERNET, SEGMENT = 1514, 1448
"""Bytes of a full frame, and what of it is a program's with timestamps of TCP."""


def one(run_cells: RunCells, scenario: str, *cell: str, again: int = 0) -> Run:
    (run,) = run_cells(scenario, *cell, again=again)
    return run


def test_tcp_carries_what_its_headers_leave_of_the_rate(run_cells: RunCells) -> None:
    """The window is open soon, so little is missing; no more than fits can arrive."""
    row = one(run_cells, "lan_tcp", "vpn=none", *TCP).row
    assert 0.8 < float(row["tcp_mbps"]) * 1e6 / (RATE_BPS * SEGMENT / ETHERNET) <= 1
    assert float(row["tcp_mbps"]) * 2 * 1e6 / 8 == pytest.approx(int(row["tcp_bytes"]), rel=0.15)


def test_several_connections_and_both_directions(run_cells: RunCells) -> None:
    row = one(run_cells, "lan_tcp", "vpn=none", "streams=3", "direction=both", *TCP).row
    directions = [float(row[f"{name}_tcp_mbps"]) for name in ("to_server", "to_client")]
    assert sum(directions) == pytest.approx(float(row["tcp_mbps"]))
    assert all(0.4 < one * 1e6 / RATE_BPS <= 1 for one in directions), (
        "each direction has its own rate"
    )


def test_udp_below_the_rate_arrives_whole_and_above_it_does_not(run_cells: RunCells) -> None:
    below = one(run_cells, "lan_udp", "vpn=none", *UDP)
    assert below.statistic("udp_stress", "loss_pct") == 0
    assert float(below.row["udp_mbps"]) == pytest.approx(10, rel=0.02)
    above = one(
        run_cells, "lan_udp", "vpn=none", *LAN, "duration_s=2", "udp_rate=40M", "queue_packets=10"
    ).row
    assert float(above["udp_loss_pct"]) == pytest.approx(50, abs=3)
    assert float(above["udp_mbps"]) == pytest.approx(19.5, abs=1)


@pytest.mark.parametrize(
    ("vpn", "mtu", "segment"), [("none", 1500, 1448), ("wireguard", 1420, 1368)]
)
def test_the_path_mtu_is_the_tunnels(run_cells: RunCells, vpn: str, mtu: int, segment: int) -> None:
    """1368 is the payload that iperf3 takes with WireGuard in the published comparison, too."""
    row = one(run_cells, "lan_udp", f"vpn={vpn}", *UDP).row
    assert (int(row["path_mtu_bytes"]), int(row["udp_payload_bytes"])) == (mtu, segment)


def test_a_tunnel_of_the_kernel_leaves_the_receivers_window_as_wide(run_cells: RunCells) -> None:
    """A packet takes as much of the receiver's buffer as its network card's driver gives it.

    It does so whichever way it came.
    """
    widest = {}
    for vpn in ("none", "wireguard"):
        (run,) = run_cells("lan_tcp", f"vpn={vpn}", *LONG, pcap=True)
        segments = [
            packet.ip for packet in pcapng.read(run.capture) if packet.ip[9] == TCP_PROTOCOL
        ]
        answers = [
            ip for ip in segments if int.from_bytes(ip[20:22]) == IPERF3_PORT and not ip[33] & SYN
        ]
        widest[vpn] = max(int.from_bytes(ip[34:36]) for ip in answers)
    assert widest["wireguard"] >= 0.9 * widest["none"]


def test_a_count_of_pings_is_that_count(run_cells: RunCells) -> None:
    run = one(run_cells, "lan_ping", "vpn=none", "pings=10", "ping_payload_bytes=1000")
    assert len([line for line in run.statistics("ping_series") if "rtt_ms" in line]) == 10
    assert float(run.row["ping_lost_pct"]) == 0
    assert float(run.row["ping_rtt_ms"]) == pytest.approx(0.6, abs=0.05)


def test_an_impairment_is_worse_than_a_better_one(run_cells: RunCells) -> None:
    rows = [
        one(run_cells, "lan_tcp", "vpn=none", f"impairment={name}", *TCP).row
        for name in ("baseline", "low", "high")
    ]
    carried = [float(row["tcp_mbps"]) for row in rows]
    assert carried == sorted(carried, reverse=True) and carried[0] > 2 * carried[-1]


def test_packets_are_lost_doubled_and_out_of_order(run_cells: RunCells) -> None:
    """What the profile says, of some 1700 packets.

    Within six standard deviations. iperf3 numbers its packets.
    """
    (run,) = run_cells("lan_udp", "vpn=none", "impairment=high", *UDP, pcap=True)
    seen = [
        int.from_bytes(packet.ip[36:40])
        for packet in pcapng.read(run.capture)
        if packet.interface == "box_2/to_pc"
        and packet.ip[9] == UDP_PROTOCOL
        and len(packet.ip) > SEGMENT
    ]
    sent = run.statistic("udp_stress", "sent_packets")
    assert 100 * (sent - len(set(seen))) / sent == pytest.approx(2.5, abs=2.3)
    assert 0 < len(seen) - len(set(seen)) < 0.025 * sent
    assert sum(later < earlier for earlier, later in pairwise(seen)) > 20


def test_the_tuned_hosts_pace(run_cells: RunCells) -> None:
    """The queue fq is there, and BBR carries more than CUBIC over a path that loses packets."""
    tuned = ("cc=bbr", "host_queue=fq", "buffer_bytes=67108864")
    run = one(run_cells, "lan_tcp", "vpn=none", "impairment=high", *tuned, *TCP)
    usual = one(run_cells, "lan_tcp", "vpn=none", "impairment=high", *TCP)
    assert "root fq" in (run.record / "commands.sh").read_text()
    assert float(run.row["tcp_mbps"]) > 2 * float(usual.row["tcp_mbps"])


def test_video_is_whole_and_recovered_where_packets_are_lost(run_cells: RunCells) -> None:
    whole, lossy = (
        one(run_cells, "lan_video", "vpn=none", f"impairment={name}", *VIDEO)
        for name in ("none", "high")
    )
    assert float(whole.row["video_quality_pct"]) == 100 and int(whole.row["video_recovered"]) == 0
    assert float(lossy.row["video_quality_pct"]) > 99 and int(lossy.row["video_recovered"]) > 20
    late = one(run_cells, "lan_video", "vpn=none", "impairment=high", "video_buffer_ms=20", *VIDEO)
    assert float(late.row["video_quality_pct"]) < 99, "what is lost cannot come again in 20 ms"


@pytest.mark.parametrize(("http", "connections"), [("1.1", 3), ("2", 1)])
def test_a_caches_files_take_what_the_rate_leaves(
    run_cells: RunCells, http: str, connections: int
) -> None:
    row = one(run_cells, "lan_cache", "vpn=none", f"http={http}", *CACHE).row
    assert int(row["cache_connections"]) == connections
    assert 0.85 < float(row["cache_mbps"]) * 1e6 / (RATE_BPS * SEGMENT / ETHERNET) <= 1


def test_an_outage_is_as_long_as_it_is(run_cells: RunCells) -> None:
    """A tunnel without a connection goes on at once.

    A ping more or less, every tenth of a second.
    """
    for vpn in ("none", "wireguard"):
        row = one(run_cells, "lan_reconnect", f"vpn={vpn}", "event=drop", *EVENT).row
        assert float(row["ping_gap_s"]) == pytest.approx(5.1, abs=0.15)
    row = one(run_cells, "lan_reconnect", "vpn=none", "event=none", "pings=50").row
    assert float(row["ping_gap_s"]) < 0.25 and float(row["ping_lost_pct"]) == 0


def test_a_tunnel_follows_its_clients_new_address(run_cells: RunCells) -> None:
    run = one(
        run_cells, "lan_reconnect", "vpn=wireguard", "event=address", "pings=150", "event_after_s=3"
    )
    assert float(run.row["ping_gap_s"]) < 1
    assert "10.30.0.101/24" in (run.record / "commands.sh").read_text()


@pytest.mark.parametrize(("event", "lasts_s"), [("restart", 0.0), ("reboot", 5.0)])
def test_a_vpn_comes_back_with_the_keys_that_it_had(
    run_cells: RunCells, event: str, lasts_s: float
) -> None:
    """WireGuard's next packet makes its handshake.

    Without a VPN nothing restarts, and only the interface is away.
    """
    for vpn in ("wireguard", "none"):
        run = one(run_cells, "lan_reconnect", f"vpn={vpn}", f"event={event}", *EVENT)
        assert float(run.row["ping_gap_s"]) == pytest.approx(lasts_s + 0.1, abs=0.3)
        restarts = [
            line["restart_time_s"] for line in run.statistics("vpn") if "restart_time_s" in line
        ]
        assert len(restarts) == (vpn == "wireguard") and all(time_s < 1 for time_s in restarts)


def test_daemons_tell_their_memory_and_no_cpu_time_that_is_virtual(run_cells: RunCells) -> None:
    user, kernel = (
        one(run_cells, "lan_stability", f"vpn={vpn}", *STABLE)
        for vpn in ("openvpn_udp", "wireguard")
    )
    for end in ("client", "server"):
        assert (
            int(user.row[f"{end}_rss_end_bytes"]) >= int(user.row[f"{end}_rss_start_bytes"]) > 2e6
        )
        assert 3 < int(user.row[f"{end}_descriptors_end"]) < 30
    assert {line["cpu"] for line in user.statistics("daemons") if "cpu" in line} == {
        "not measured: virtual time"
    }
    assert not any("user_s" in line for line in user.statistics("daemons"))
    assert {line["processes"] for line in kernel.statistics("daemons") if "processes" in line} == {
        0
    }


@pytest.mark.parametrize(
    ("scenario", "job", "cell"),
    [
        ("lan_tcp", "tcp_throughput", ("vpn=wireguard", "impairment=high", "direction=both", *TCP)),
        ("lan_udp", "udp_stress", ("vpn=openvpn_udp", "impairment=medium", *UDP)),
        ("lan_reconnect", "outage", ("vpn=openvpn_udp", "event=down", *EVENT)),
        ("lan_reconnect", "outage", ("vpn=wireguard", "event=reboot", *EVENT)),
        ("lan_video", "rist_video", ("vpn=wireguard", "impairment=high", *VIDEO)),
        ("lan_cache", "cache_download", ("vpn=wireguard", "impairment=high", *CACHE)),
        ("lan_stability", "daemons", ("vpn=openvpn_udp", *STABLE)),
        ("lan_ping", "ping_series", ("vpn=wireguard", "impairment=high", "pings=20")),
    ],
)
def test_same_seed_same_capture(
    run_cells: RunCells, scenario: str, job: str, cell: tuple[str, ...]
) -> None:
    first, second = (one(run_cells, scenario, *cell, again=again) for again in (0, 1))
    assert first.row["capture_hash"] == second.row["capture_hash"]
    assert statistics(first, job) == statistics(second, job)


def statistics(run: Run, job: str) -> list[dict[str, Any]]:
    found = run.statistics(job)
    assert found
    return found
