# SPDX-License-Identifier: GPL-3.0-or-later
"""The same seed gives the same packets to the bit, on every interface; another seed gives others."""

from __future__ import annotations

import hashlib

import pytest
from conftest import RunCells

VPNS = ("none", "wireguard", "openvpn_udp", "openvpn_tcp")
CELL = ("cc=cubic", "loss=1", "size=2M")


@pytest.mark.parametrize("vpn", VPNS)
def test_same_seed_same_capture(run_cells: RunCells, vpn: str) -> None:
    (first,) = run_cells("geo_loss", f"vpn={vpn}", *CELL)
    (second,) = run_cells("geo_loss", f"vpn={vpn}", *CELL, again=1)
    assert first.row["capture_sha256"] == second.row["capture_sha256"]
    assert first.row["transfer_time_s"] == second.row["transfer_time_s"]


@pytest.mark.parametrize("vpn", VPNS)
def test_other_seed_other_capture(run_cells: RunCells, vpn: str) -> None:
    (first,) = run_cells("geo_loss", f"vpn={vpn}", *CELL)
    (other,) = run_cells("geo_loss", f"vpn={vpn}", *CELL, seeds="7,")
    assert first.row["capture_sha256"] != other.row["capture_sha256"]


def test_the_hash_is_that_of_the_capture_file(run_cells: RunCells) -> None:
    """With --pcap the stream that was hashed is the file that was kept, and keeping it changes no packet."""
    (kept,) = run_cells("geo_loss", "vpn=none", *CELL, pcap=True)
    (hashed,) = run_cells("geo_loss", "vpn=none", *CELL)
    assert (
        hashlib.sha256(kept.capture.read_bytes()).hexdigest()
        == kept.row["capture_sha256"]
        == hashed.row["capture_sha256"]
    )
