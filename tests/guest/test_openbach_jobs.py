# SPDX-License-Identifier: GPL-3.0-or-later
"""Two agents with OpenBACH's own wireguard job: packets cross their tunnel.

It needs the checkouts of tools/upstream_jobs.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import upstream_jobs

CHECKOUTS = [Path(path) for name in ("OPENBACH", "EXTRA") if (path := os.environ.get(name))]


@pytest.mark.skipif(
    len(CHECKOUTS) < 2,
    reason="OPENBACH and EXTRA name no checkouts: tools/upstream_jobs.py",
)
def test_a_tunnel_of_upstreams_job_carries_packets() -> None:
    assert upstream_jobs.tried("wireguard", upstream_jobs.CASES["wireguard"], CHECKOUTS) == ""
