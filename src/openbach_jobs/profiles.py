# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the folders of congestion-controls (README.md there): one a transport profile."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

from openbach_jobs.data import data_folder

FOLDERS = data_folder("congestion-controls")
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
INSTALLER = "/opt/openbach/agent/jobs/transport_profile/install_modules.py"


def names() -> list[str]:
    """Return the names of all profiles, Linux's default first."""
    return sorted(
        (file.parent.name for file in FOLDERS.glob("*/profile.json")),
        key=lambda name: (name != "cubic", name),
    )


def described(name: str) -> dict[str, Any]:
    """Return the profile.json of a profile.

    Without a folder the name is that of a congestion control and nothing else.
    """
    file = FOLDERS / name / "profile.json"
    profile: dict[str, Any] = json.loads(file.read_bytes()) if file.exists() else {}
    return {"algorithm": name, "parameters": {}, "sysctls": {}, **profile}


def is_in_kernel(algorithm: str) -> bool:
    """Return whether sockets of this host can use the congestion control.

    A socket asks for one that is not loaded yet: for root, the kernel then loads it.
    """
    if algorithm in AVAILABLE.read_text().split():
        return True
    with socket.socket() as asks:
        try:
            asks.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
        except OSError:
            return False
    return True


def algorithm(name: str) -> str:
    """Return the kernel's congestion control for a profile.

    It is the one of the profile's own name if the kernel has it (the virtual engine's has
    cubic_nohystart, since all hosts share its parameters), else the profile's `algorithm`. Ends the
    job if the kernel has neither.
    """
    wanted = described(name)["algorithm"]
    for control in dict.fromkeys((name, wanted)):
        if is_in_kernel(control):
            return str(control)
    module = (
        f"; its module is built by: sudo python3 {INSTALLER} {name}"
        if (FOLDERS / name / "Kbuild").exists()
        else ""
    )
    sys.exit(
        f"this host's kernel has no congestion control {wanted}; it has"
        f" {AVAILABLE.read_text().strip()}{module}"
    )
