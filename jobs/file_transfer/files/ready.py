# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for the state itself, for the jobs that start a server or need one: other jobs link to this file."""

from __future__ import annotations

import os
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
    """Whether a TCP socket of this host listens on the port."""
    return bool(_listeners(port))


def taken(*ports: int) -> str:
    """Why a server could not start, in words for the end of a message: who listens on its TCP ports. "" if nobody does."""
    for port in ports:
        if inodes := _listeners(port):
            left = "a job that an earlier run has left? End it with OpenBACH's stop_all_job_instances.py"
            return f"; port {port} is taken by {_owner(inodes)}: {left}"
    return ""


def _listeners(port: int) -> set[str]:
    """Inodes of the TCP sockets of this network namespace that listen on a port (state 0A in /proc/net/tcp)."""
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    lines = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return {line[9] for line in lines if line[1].endswith(f":{port:04X}") and line[3] == "0A"}


def _owner(inodes: set[str]) -> str:
    """The program that holds one of these sockets, as far as this process may see it."""
    sockets = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(file) in sockets for file in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (process {process.name})"
        except OSError:  # it has ended, or is another user's
            continue
    return "another program (`ss -ltnp` names it)"
