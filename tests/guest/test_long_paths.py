# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths with a round trip of seconds, as over BGAN or to the Moon.

Every delay that is accepted works.

At commit 94585d7 none above 2 s did.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.guest_runs import RunCells, command, records
from helpers.vpns_tested import VPNS, describe, error_of

SLOW = [kind for kind in VPNS if not describe(kind)["rtt_max_s"]]
QUICK = [kind for kind in VPNS if describe(kind)["rtt_max_s"]]
"""VPNs whose handshake crosses no longer path."""


def test_three_seconds_there_and_back(run_cells: RunCells) -> None:
    vpns = ",".join(["none", *(kind for kind in VPNS if (describe(kind)["rtt_max_s"] or 60) > 3)])
    runs = run_cells("geo", f"vpn={vpns}", "cc=cubic", "delay_ms=1500", "size=100k")
    assert all(6 < float(run.row["transfer_time_s"]) < 10 for run in runs)


@pytest.mark.parametrize("settings", ["pep=none,A,B", "http=1.1,2,3", "direction=upload"])
def test_ten_seconds_there_and_back(run_cells: RunCells, settings: str) -> None:
    for run in run_cells("geo", "vpn=none", "cc=cubic", "delay_ms=5000", "size=100k", settings):
        assert 10 < float(run.row["transfer_time_s"]) < 120


def test_the_longest_delay(run_cells: RunCells) -> None:
    runs = run_cells(
        "geo", f"vpn={','.join(['none', *SLOW])}", "cc=cubic", "delay_ms=10000", "size=30k"
    )
    assert all(20 < float(run.row["transfer_time_s"]) < 100 for run in runs)


def test_a_vpn_that_cannot_says_why(tmp_path: Path) -> None:
    ended = command(
        "geo",
        f"vpn={','.join(QUICK)}",
        "cc=cubic",
        "delay_ms=2600",
        "size=30k",
        "--results",
        str(tmp_path / "r"),
    )
    assert ended.returncode == 1
    for run in records(tmp_path / "r"):
        assert (
            f"{run.row['vpn']} does not come up on a path whose round trip is 5.20 s: above "
            in error_of(run)
        )


def test_a_link_that_becomes_slow(tmp_path: Path, run_cells: RunCells) -> None:
    """The keys are exchanged over the fast link."""
    file = tmp_path / "slow.csv"
    file.write_text("time_s,rate_bps,delay_ms\n0,10e6,20\n1.2,10e6,2000\n")
    runs = run_cells(
        "geo", "vpn=none,openvpn_udp,strongswan", "cc=cubic", f"link_file={file}", "size=30k"
    )
    assert all(float(run.row["transfer_time_s"]) > 4 for run in runs)


def test_a_telephone_call_and_a_page(run_cells: RunCells) -> None:
    (call,) = run_cells(
        "voip", "vpn=none", "background=none", "delay_ms=3000", "duration_s=5", "orbit=geo"
    )
    (page,) = run_cells(
        "web", "vpn=none", "http=2", "pep=none", "delay_ms=3000", "loads=1", "loss=0"
    )
    assert json.loads((call.record / "record.json").read_text())["status"] == "Finished Ok"
    assert float(page.row["page_load_time_s"]) > 6
