# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VPNs are tested, and what their tests look for in a capture.

Those whose program is built first are tested by `make vpns` (BUILT_VPNS=1) only; names in that
variable (BUILT_VPNS=connect_ip,wireguard) are the only ones then.
"""

from __future__ import annotations

import json
import os

from vpn_folders import describe, kinds, scripts

from helpers import pcapng
from helpers.guest_runs import Run

__all__ = ["LIMIT_S", "VPNS", "describe", "error_of", "on", "scripts"]
ASKED = os.environ.get("BUILT_VPNS", "")
NAMED = {name for name in ASKED.split(",") if name in kinds()}
TESTED = ("CI", "make vpns") if ASKED else ("CI",)
VPNS = [
    kind for kind in kinds() if describe(kind)["tested"] in TESTED and (not NAMED or kind in NAMED)
]
LIMIT_S = 60
"""After which the job says what did not come (LIMIT_S of openbach_jobs.command)."""


def on(run: Run, interface: str) -> list[bytes]:
    """The IP packets that a run's capture has of interfaces whose names begin so."""
    return [
        packet.ip
        for packet in pcapng.read(run.capture)
        if packet.interface.startswith(interface) and packet.ip
    ]


def error_of(run: Run) -> str:
    """Why it failed."""
    return str(json.loads((run.record / "record.json").read_text())["error"])
