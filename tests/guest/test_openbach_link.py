# SPDX-License-Identifier: GPL-3.0-or-later
"""The link of OpenBACH's own job: loss and delay before the rate, and packets put together."""

from __future__ import annotations

import pytest
from helpers.guest_runs import Run, RunCells

GRO = ("queue=netem_gro", "buffer=10000p")
CELL = ("cc=cubic", "loss=1", "size=2M", "noise=host")


@pytest.mark.parametrize("vpn", ["none", "openvpn_tcp"])
def test_same_seed_same_capture(run_cells: RunCells, vpn: str) -> None:
    (first,) = run_cells("geo_loss", f"vpn={vpn}", *GRO, *CELL)
    (second,) = run_cells("geo_loss", f"vpn={vpn}", *GRO, *CELL, again=1)
    assert first.row["capture_hash"] == second.row["capture_hash"]


def test_an_outage_holds_packets_and_no_longer(run_cells: RunCells) -> None:
    """The orbit has one of 30 ms every 15 s: htb would remember a packet of it for a minute."""
    cell = ("cc=cubic", "vpn=none", "loss=0", "size=20M", "buffer=10000p")
    times_s = {
        run.row["queue"]: float(run.row["transfer_time_s"])
        for run in run_cells("leo_loss", *cell, "queue=fifo,netem")
    }
    assert times_s["netem"] == pytest.approx(times_s["fifo"], rel=0.02)


def again_per_loss(run: Run) -> float:
    """How many packets were sent again for each loss that netem counts."""
    lost = sum(
        line["lost_packets"]
        for line in run.statistics("satcom_link")
        if "lost_packets" in line and line["_metadata"]["suffix"] == "forward"
    )
    return float(run.row["retransmits"]) / float(lost)


def test_tcp_loses_several_packets_as_one_and_a_udp_tunnel_does_not(run_cells: RunCells) -> None:
    cell = ("cc=cubic", "loss=1", "size=10M", "pep=none", "buffer=10000p")
    found = {
        (run.row["vpn"], run.row["queue"]): again_per_loss(run)
        for run in run_cells("geo_loss", "vpn=none,wireguard", "queue=netem,netem_gro", *cell)
    }
    assert found["none", "netem"] == pytest.approx(1, abs=0.1)
    assert found["wireguard", "netem"] == pytest.approx(1, abs=0.1)
    assert found["wireguard", "netem_gro"] == pytest.approx(1, abs=0.1)
    assert found["none", "netem_gro"] > 1.3
