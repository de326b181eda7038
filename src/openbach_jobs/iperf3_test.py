# SPDX-License-Identifier: GPL-3.0-or-later
"""iperf3 for the jobs that measure a rate with it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any, NamedTuple, NoReturn

from openbach_jobs.command import started, wait_for
from openbach_jobs.ports import READY_LIMIT_S, wait_listening

PORT = 5201
END_LIMIT_S = 120.0
"""Seconds that a test may take beyond its duration to begin and to end."""
NOT_YET = ("unable to connect to server", "the server is busy")
"""Errors of iperf3 where a server does not listen yet, or still ends the test before."""


GAVE_UP = ("control socket has closed unexpectedly", "timed out", "stream socket")
"""Errors of iperf3 where a connection of the test has ended too early."""


def failure(error: str) -> str:
    """Return an error of iperf3 for a person: with its cause, where that is a lost connection."""
    why = (
        "a TCP connection of the test broke: after 15 retransmissions in a row without an answer"
        " Linux gives it up (net.ipv4.tcp_retries2), as at a high loss or an outage; "
    )
    return f"{why if any(reason in error for reason in GAVE_UP) else ''}iperf3: {error}"


class Tested(NamedTuple):
    """iperf3's report, and how many attempts it took until the server began the test."""

    report: dict[str, Any]
    attempts: int


def serve(port: int) -> NoReturn:
    """Serve tests until the job is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with started("iperf3", "-s", "-p", str(port), stdout=subprocess.DEVNULL) as server:
        wait_listening(server, "the iperf3 server", port)
        sys.exit(f"iperf3 ended by itself with exit code {server.wait()}")


def client(server_ip: str, port: int, *words: str, duration_s: float) -> Tested:
    """Return the test, once the server answers.

    Ends the job if it does not answer, or the test fails.
    """
    command = ["iperf3", "-c", server_ip, "-p", str(port), "-t", f"{duration_s:g}", "-J", *words]
    attempts = 0

    def attempt() -> dict[str, Any] | None:
        nonlocal attempts
        attempts += 1
        read = report(command, duration_s + END_LIMIT_S)
        error = str(read.get("error", ""))
        if error and not error.startswith(NOT_YET):
            sys.exit(failure(error))
        return None if error else read

    return Tested(
        wait_for(f"the iperf3 server on {server_ip} does not answer", attempt, READY_LIMIT_S),
        attempts,
    )


def report(command: list[str], limit_s: float) -> dict[str, Any]:
    """Run iperf3, and return its report.

    If it fails the job ends with iperf3's words.
    """
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=limit_s)
    except FileNotFoundError:
        sys.exit("iperf3 is not installed on this host")
    except subprocess.TimeoutExpired:
        sys.exit(f"{' '.join(command)} did not end in {limit_s:g} s")
    try:
        read: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.exit(failure(done.stderr.strip() or done.stdout.strip() or "no report"))
    return read
