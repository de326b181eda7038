# SPDX-License-Identifier: GPL-3.0-or-later
"""What the link and the tunnels do to packets, against what follows from their parameters."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby

import pytest
from helpers import pcapng
from helpers.guest_runs import REPOSITORY, Run, RunCells
from scipy.stats import binom

SIZE_BYTES = 30_000_000
RATE_BPS = 10e6
ONE_WAY_DELAY_MS = 250.0
SEGMENT_BYTES = 1448  # of data, in a 1500-byte packet with TCP timestamps
FRAME_BYTES = 1514
TUNNELS = ("wireguard", "openvpn_udp")


@pytest.fixture(scope="module")
def loss_free(run_cells: RunCells) -> Run:
    (run,) = run_cells("geo", "vpn=none", "cc=cubic", "loss=0")
    return run


def test_rtt_of_the_idle_path_is_twice_the_one_way_delay(loss_free: Run) -> None:
    assert loss_free.statistic("path_ready", "rtt_ms") == pytest.approx(2 * ONE_WAY_DELAY_MS, abs=1)


def test_loss_free_transfer_time_lies_between_theory_and_32_s(loss_free: Run) -> None:
    least_s = SIZE_BYTES * 8 / RATE_BPS * FRAME_BYTES / SEGMENT_BYTES
    assert least_s <= float(loss_free.row["transfer_time_s"]) <= 32
    assert int(loss_free.row["bytes"]) >= SIZE_BYTES


@pytest.mark.parametrize("loss_pct", [0.1, 1.0])
def test_netem_loses_what_it_was_asked_to(run_cells: RunCells, loss_pct: float) -> None:
    """Losses of the forward direction within the central 99.99 % of the binomial distribution."""
    (run,) = run_cells("geo_loss", "vpn=none", "cc=bbr", f"loss={loss_pct:g}")
    forward, _ = [line for line in run.statistics("satcom_link") if "sent_packets" in line]
    offered = forward["sent_packets"] + forward["lost_packets"]
    low, high = binom.interval(0.9999, offered, loss_pct / 100)
    assert offered > 20_000
    assert low <= forward["lost_packets"] <= high


def _sizes(run: Run, interface: str) -> Counter[int]:
    return Counter(
        len(packet.ip)
        for packet in pcapng.read(run.capture)
        if packet.interface == interface and packet.ip
    )


@pytest.mark.parametrize("vpn", TUNNELS)
def test_extra_bytes_on_the_wire_equal_the_vpns_overhead(run_cells: RunCells, vpn: str) -> None:
    """Full-sized packets as the POP sends them into the tunnel, and then to the gateway."""
    (run,) = run_cells("geo", f"vpn={vpn}", "cc=cubic", "loss=0", "size=2M", pcap=True)
    described = json.loads((REPOSITORY / "vpn-configs" / vpn / "vpn.json").read_text())
    inner = max(_sizes(run, "server/to_pop"))
    outer = max(_sizes(run, "pop/to_gw"))
    padded = -(-inner // 16) * 16 if vpn == "wireguard" else inner
    assert outer == min(padded, described["inner_mtu"]) + described["overhead_bytes"]
    assert outer <= 1500


def test_nothing_goes_in_clear_when_there_is_a_tunnel(run_cells: RunCells) -> None:
    (run,) = run_cells("geo", "vpn=wireguard", "cc=cubic", "loss=0", "size=2M", pcap=True)
    lan = bytes([192, 168])
    satellite = [
        packet.ip
        for packet in pcapng.read(run.capture)
        if packet.interface.startswith("sat/") and packet.ip
    ]
    assert satellite
    assert not [ip for ip in satellite if ip[12:14] == lan or ip[16:18] == lan]


def test_the_bottleneck_never_sends_faster_than_its_rate(run_cells: RunCells) -> None:
    """Bytes in each second of the forward satellite hop, against 10 Mbit/s.

    The Ethernet header counts.
    """
    (run,) = run_cells("geo", "vpn=wireguard", "cc=cubic", "loss=0", "size=2M", pcap=True)
    sent = [
        packet
        for packet in pcapng.read(run.capture)
        if packet.interface == "sat/to_st" and packet.ip
    ]
    for _, second in groupby(sent, key=lambda packet: packet.time_ns // 10**9):
        assert sum(len(packet.ip) + 14 for packet in second) * 8 <= RATE_BPS + 8 * 2 * FRAME_BYTES
