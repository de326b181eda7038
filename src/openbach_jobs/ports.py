# SPDX-License-Identifier: GPL-3.0-or-later
"""TCP ports of this host, for the jobs that start a server: who listens there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from openbach_jobs.command import wait_for

OUR_ENGINE, OUR_IPV6 = "OPENBACH_RUN_HOST", "OPENBACH_RUN_IPV6"
"""Variables of a job's environment in our engines: always set, and set where hosts have IPv6."""
READY_LIMIT_S = 240.0
"""Seconds to wait for a server's answer. A round trip may take 20 s (satcom_link), and TCP and TLS
need several, lost packets included; a server that fails ends its own job before."""


def wait_listening(server: subprocess.Popen[Any], name: str, port: int) -> None:
    """Wait until the server that was started listens.

    Ends the job if it has ended, saying who has its port.
    """
    wait_for(
        f"{name} does not listen on port {port}",
        lambda: server.poll() is not None or is_listening(port),
        READY_LIMIT_S,
    )
    if server.poll() is not None:
        sys.exit(f"{name} ended at once with exit code {server.returncode}{taken(port)}")


def has_ipv6() -> bool:
    """Return whether this host has IPv6. Our engines say so: a look takes virtual time."""
    if OUR_ENGINE in os.environ:
        return OUR_IPV6 in os.environ
    switch = Path("/proc/sys/net/ipv6/conf/lo/disable_ipv6")
    return switch.exists() and switch.read_text().strip() == "0"


def any_address() -> dict[str, Any]:
    """Return what makes socket.create_server listen on all addresses of this host."""
    return {"family": socket.AF_INET6, "dualstack_ipv6": True} if has_ipv6() else {}


def with_port(address: str, port: int) -> str:
    """Return an address with a port, as in a URL: [fd00::1]:443."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def is_listening(port: int) -> bool:
    """Return whether a TCP socket of this host listens on the port."""
    return bool(_listeners(port))


def is_bound_udp(port: int) -> bool:
    """Return whether a UDP socket of this host has the port."""
    tables = [Path("/proc/net/udp"), Path("/proc/net/udp6")]
    lines = [table.read_text().splitlines()[1:] for table in tables if table.exists()]
    return any(line.split()[1].endswith(f":{port:04X}") for table in lines for line in table)


def taken(*ports: int) -> str:
    """Return why a server could not start: who listens on its TCP ports.

    It is in words for the end of a message. "" if nobody does.
    """
    for port in ports:
        if inodes := _listeners(port):
            left = (
                "a job that an earlier run has left? End it with OpenBACH's"
                " stop_all_job_instances.py"
            )
            return f"; port {port} is taken by {_owner(inodes)}: {left}"
    return ""


def _listeners(port: int) -> set[str]:
    """Return the inodes of this network namespace's TCP sockets that listen on a port.

    They are in state 0A in /proc/net/tcp.
    """
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    lines = [
        line.split()
        for table in tables
        if table.exists()
        for line in table.read_text().splitlines()[1:]
    ]
    return {line[9] for line in lines if line[1].endswith(f":{port:04X}") and line[3] == "0A"}


def _owner(inodes: set[str]) -> str:
    """Return the program that holds one of these sockets, as far as this process may see it."""
    sockets = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(file) in sockets for file in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (process {process.name})"
        except OSError:  # it has ended, or is another user's
            continue
    return "another program (`ss -ltnp` names it)"
