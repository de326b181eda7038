# SPDX-License-Identifier: GPL-3.0-or-later
"""Implementations of QUIC for the jobs that transfer over HTTP/3 with another one than nginx's.

Each is a program that serves a directory. The virtual engine builds it; on an agent it has to be in
PROGRAMS (library/quic-stacks/README.md). Which there are is in nginx.py: jobs import this module
only when they need it, since to read a file takes virtual time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openbach_jobs.command import run, started, wait_for
from openbach_jobs.ports import READY_LIMIT_S, is_bound_udp

PROGRAMS = "/opt/openbach-run/bin"
PROGRAM = {"quic_go": "quic-tunnel", "quinn": "quinn-files"}
LATE_S = 5.0
"""Seconds that an upload may take beyond its limit before its program is killed."""


@contextmanager
def serving(stack: str, port: int, root: Path, cc: str) -> Iterator[subprocess.Popen[Any]]:
    """Return the server of the files below `root`, which listens, until the end of the block."""
    environment = environment_of(stack, cc)
    command = [program_of(stack), "files", str(port), str(root)]
    with started(*command, environment=environment) as server:
        wait_for(
            f"{stack} does not listen on port {port}",
            lambda: server.poll() is not None or is_bound_udp(port),
            READY_LIMIT_S,
        )
        if server.poll() is not None:
            sys.exit(f"{stack} ended at once with exit code {server.returncode}")
        yield server


def upload(stack: str, address: str, size: int, cc: str, limit_s: float) -> dict[str, Any]:
    """Send so many bytes to a server, and return the bytes and seconds that it has received.

    The seconds count from the connection's first packet; `handshake_s` is the sender's.
    """
    environment = environment_of(stack, cc)
    words = [program_of(stack), "send", address, str(size), str(limit_s)]
    printed = run(*words, environment=environment, limit_s=limit_s + LATE_S)
    result: dict[str, Any] = json.loads(printed)
    return result


def environment_of(stack: str, cc: str) -> dict[str, str]:
    """Return what its program reads: a congestion control, and one thread."""
    if stack == "quinn":
        return {"QUIC_CC": cc, "QUIC_THREADS": "1"}
    return {"QUIC_TUNNEL_CC": cc, "GOMAXPROCS": "1"}


def program_of(stack: str) -> str:
    """Return the program's path. Ends the job if this host has none."""
    program = f"{PROGRAMS}/{PROGRAM[stack]}"
    if not Path(program).exists():
        sys.exit(f"quic={stack}: this host has no {program} (library/quic-stacks/README.md)")
    return program
