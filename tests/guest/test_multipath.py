# SPDX-License-Identifier: GPL-3.0-or-later
"""Two access links and a multipath VPN in the guest.

Both links together, and one of them cut off for a while.
"""

from __future__ import annotations

from collections import Counter

import pytest
from helpers import pcapng
from helpers.guest_runs import Run, RunCells

RATE_BPS = 1e6
LINKS = ("first=leo", "second=terrestrial", "first_rate=1M", "second_rate=1M")
CUT = (*LINKS, "duration_s=20", "event_after_s=6", "event_s=8", "event=drop")
WHOLE = (*LINKS, "duration_s=20", "event=none")


def one(run_cells: RunCells, scenario: str, *cell: str, pcap: bool = False, again: int = 0) -> Run:
    (run,) = run_cells(scenario, *cell, pcap=pcap, again=again)
    return run


def carried(run: Run, orbit: str) -> int:
    """Bytes that a satellite has sent to its terminal."""
    sizes: Counter[str] = Counter()
    for packet in pcapng.read(run.capture):
        sizes[packet.interface] += len(packet.ip)
    return sizes[f"sat_{orbit}/to_st"]


def test_both_links_carry_together_more_than_one_can(run_cells: RunCells) -> None:
    run = one(run_cells, "multipath", "vpn=openvpn_mptcp", *WHOLE, pcap=True)
    assert 1.2 * RATE_BPS < float(run.row["tcp_mbps"]) * 1e6 < 2 * RATE_BPS
    links = [carried(run, orbit) for orbit in ("geo", "leo")]
    assert min(links) > 0.5 * max(links) > 0.5 * int(run.row["tcp_bytes"]) / 2


def test_one_path_is_the_second_link(run_cells: RunCells) -> None:
    run = one(run_cells, "multipath", "vpn=openvpn_tcp", *WHOLE, pcap=True)
    assert 0.7 * RATE_BPS < float(run.row["tcp_mbps"]) * 1e6 < RATE_BPS
    assert carried(run, "geo") < 0.02 * carried(run, "leo")


@pytest.mark.parametrize("cut", ["to_geo", "to_leo"])
def test_a_link_that_is_cut_off_stops_who_has_no_other(run_cells: RunCells, cut: str) -> None:
    """The second link is the one path.

    Multipath TCP sends again over the other what it has lost on one.
    """
    two, one_path = (
        one(run_cells, "multipath", f"vpn={vpn}", f"cut={cut}", *CUT).row
        for vpn in ("openvpn_mptcp", "openvpn_tcp")
    )
    assert float(two["longest_gap_s"]) < 4
    assert (float(one_path["longest_gap_s"]) >= 7.5) is (cut == "to_leo")


def test_packets_keep_their_order_in_a_stream(run_cells: RunCells) -> None:
    row = one(run_cells, "multipath_udp", "vpn=openvpn_mptcp", "udp_rate=300k", *CUT).row
    assert int(row["udp_out_of_order"]) == 0 and float(row["udp_loss_pct"]) < 20


@pytest.mark.parametrize("scenario", ["multipath", "multipath_udp"])
def test_same_seed_same_capture(run_cells: RunCells, scenario: str) -> None:
    cell = (
        "vpn=openvpn_mptcp",
        "cut=to_leo",
        *CUT,
        *(["udp_rate=300k"] if scenario == "multipath_udp" else []),
    )
    first, second = (one(run_cells, scenario, *cell, "loss=0.5", again=again) for again in (0, 1))
    assert first.row["capture_hash"] == second.row["capture_hash"]
