# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for the state itself, for the jobs that start a server or need one: other jobs link to this file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

READY_LIMIT_S = 30.0
RETRY_S = 0.1


def wait_until(state: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + READY_LIMIT_S
    while not state():
        if time.monotonic() > end:
            sys.exit(f"{what} is not there after {READY_LIMIT_S:g} s")
        time.sleep(RETRY_S)


def is_listening(port: int) -> bool:
    """Whether a TCP socket of this host listens on the port (state 0A in /proc/net/tcp)."""
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    lines = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return any(line[1].endswith(f":{port:04X}") and line[3] == "0A" for line in lines)
