# SPDX-License-Identifier: GPL-3.0-or-later
"""The group speed of kernel/series changes no packet.

A kernel without it makes the same captures, to the bit.

That kernel is an entry of the cache of its own. To build it takes some three minutes of two cores,
once.
"""

from __future__ import annotations

import pytest
from helpers.guest_runs import Run, RunCells

from openbach_run.engine.virtual.series import WITHOUT_VARIABLE
from openbach_run.results.store import Store

pytestmark = pytest.mark.nightly
CELLS = ("vpn=none,wireguard,openvpn_udp", "cc=cubic", "pep=B", "loss=1", "size=100k")


def kernel_of(run: Run) -> str:
    record = Store(run.record.parents[1]).load(run.record.name)
    assert record is not None
    return record.identity["kernel"]


def test_speed_changes_no_packet(run_cells: RunCells, monkeypatch: pytest.MonkeyPatch) -> None:
    with_speed = run_cells("geo_loss", *CELLS)
    monkeypatch.setenv(WITHOUT_VARIABLE, "speed")
    without = run_cells("geo_loss", *CELLS, again=1)
    assert kernel_of(with_speed[0]) != kernel_of(without[0])
    hashes = [[run.row["capture_hash"] for run in runs] for runs in (with_speed, without)]
    assert len(set(hashes[0])) == len(hashes[0]) == 3
    assert hashes[0] == hashes[1]
