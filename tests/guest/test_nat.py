# SPDX-License-Identifier: GPL-3.0-or-later
"""A NAT before the box.

Each VPN comes up behind it, nothing new reaches the box from outside, and packets fit.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from helpers.guest_runs import Run, RunCells
from helpers.scenario_with import ran, with_snapshot
from helpers.vpns_tested import VPNS, on

GEO = ("cc=cubic", "size=60k")
TERMINAL = "10.10.2.1"
UDP, ESP = 17, 50
ALIVE = (
    "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('{own}', 7000)); "
)
ASKS = ALIVE + "s.settimeout(5); s.sendto(b'?', ('10.10.4.2', 7000)); print(s.recvfrom(9)[0])"
ANSWERS = ALIVE + "peer = s.recvfrom(9)[1]; s.sendto(b'1', peer); print(peer[0])"
LATE = (
    ALIVE
    + "peer = s.recvfrom(9)[1]; import time; time.sleep(10); s.sendto(b'1', peer); print(peer[0])"
)


def sources(run: Run, interface: str) -> set[str]:
    return {socket.inet_ntoa(packet[12:16]) for packet in on(run, interface)}


def fragments(run: Run) -> int:
    return sum(int(run.row[f"{side}_fragments"]) for side in ("forward", "return"))


def test_every_vpn_works_behind_a_nat_without_a_fragment(run_cells: RunCells) -> None:
    runs = run_cells("geo", f"vpn={','.join(['none', *VPNS])}", *GEO, "nat=terminal")
    assert {run.row["vpn"]: fragments(run) for run in runs} == dict.fromkeys(["none", *VPNS], 0)


def test_the_address_is_translated_and_ipsec_goes_in_udp_that_fits(run_cells: RunCells) -> None:
    """The NAT is found by strongSwan itself; its packets are 8 bytes longer, and still fit."""
    cells = ("vpn=none,strongswan", *GEO, "nat=none,terminal", "access_mtu=1492,inventory")
    for run in run_cells("geo", *cells, pcap=True):
        has_nat = run.row["nat"] == "terminal"
        assert (sources(run, "st/to_sat") == {TERMINAL}) == has_nat
        assert fragments(run) == 0
        if run.row["vpn"] == "strongswan":
            packets = [
                one for one in on(run, "pop/to_gw") if one[9] in (UDP, ESP) and len(one) > 1000
            ]
            assert {one[9] for one in packets} == {UDP if has_nat else ESP}
            mtu = 1492 if run.row["access_mtu"] == "1492" else 1500
            assert mtu - 4 < max(map(len, packets)) <= mtu


@pytest.mark.parametrize("pep", ["A", "B", "A_double", "B_double"])
def test_proxies_split_connections_through_a_nat(run_cells: RunCells, pep: str) -> None:
    runs = run_cells("geo", "vpn=none,openvpn_tcp", *GEO, f"pep={pep}", "nat=terminal")
    for run in runs:
        split = [line["connections"] for line in run.statistics("satpep") if "connections" in line]
        assert max(split, default=0) > 0 or run.row["vpn"] == "openvpn_tcp"


@pytest.mark.parametrize(
    ("server", "timeout_s", "answered"), [(ANSWERS, 0, True), (LATE, 5, False)]
)
def test_a_silent_flow_is_forgotten_and_nobody_comes_in_from_outside(
    tmp_path: Path, server: str, timeout_s: int, answered: bool
) -> None:
    """A UDP packet of the box is answered at the terminal's address, at once or too late.

    A ping to the box is not.
    """
    path = with_snapshot(
        tmp_path,
        (
            "pop",
            0,
            (
                f'timeout 30 python3 -c "{server.format(own="10.10.4.2")}"; ping -c 1 -W 2'
                " 10.10.1.1 || true"
            ),
        ),
        (
            "box",
            1,
            f'python3 -c "{ASKS.format(own="10.10.1.1").replace("5)", "20)", 1)}" || echo nothing',
        ),
    )
    options = ["vpn=none", "cc=bbr", "loss=0", "pep=none", "duration_s=40", "nat=terminal"]
    run = ran(path, tmp_path / "r", *options, f"nat_timeout_s={timeout_s}")
    printed = [line["printed"] for line in run.statistics("snapshot")]
    assert any(TERMINAL in one and "0 received" in one for one in printed), printed
    assert any(("b'1'" if answered else "nothing") in one for one in printed), printed
    (told,) = [line for line in run.statistics("nat") if "refused_packets" in line]
    assert told["refused_packets"] == 1, "the ping; what came too late was for the terminal itself"
