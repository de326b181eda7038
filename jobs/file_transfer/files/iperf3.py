# SPDX-License-Identifier: GPL-3.0-or-later
"""iperf3's command line and its report.

The receiver always is the iperf3 client in reverse mode (-R): it ends the test as soon as it has
the bytes, and reports its own time. The other way round iperf3 ends when the sender has queued its
last byte.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, NamedTuple

MOST_IDLE_MS = 86_400_000
LONGEST_S = 86_400


class Test(NamedTuple):
    """One test.

    `size` 0 is as much as goes in `duration_s`; both 0: until it is stopped. `cc` is the sender's
    congestion control, None what its host has. `interval_s` 0 makes no series.
    """

    port: int
    size: int
    duration_s: int
    streams: int
    interval_s: float
    cc: str | None
    deadline_s: float

    @property
    def is_endless(self) -> bool:
        """Return whether only being stopped ends it."""
        return not self.size and not self.duration_s


class Received(NamedTuple):
    """The result of a transfer, as the receiver measured it.

    `congestion_control` is the sender's, if the tool tells it. `series` has seconds from the start,
    their length, and bytes. `handshake_time_s` is the time until a request can be sent (HTTP).
    """

    seconds: float
    bytes: int
    ttfb_s: float | None
    congestion_control: str | None
    series: list[tuple[float, float, int]]
    handshake_time_s: float | None = None


def client_command(server_ip: str, test: Test) -> list[str]:
    """Return the command of iperf3's client.

    Only the deadline ends a transfer that stalls: by itself iperf3 gives up after 120 s without a
    byte.
    """
    idle_ms = min(round(test.deadline_s * 1000), MOST_IDLE_MS)
    amount = ["-n", str(test.size)] if test.size else ["-t", str(test.duration_s or LONGEST_S)]
    own = ["-C", test.cc] if test.cc else []
    command = ["iperf3", "-c", server_ip, "-p", str(test.port), "-R", *amount]
    command += ["-P", str(test.streams), *own]
    return [*command, "-i", f"{test.interval_s:g}", "-J", "--rcv-timeout", str(idle_ms)]


def receive(server_ip: str, test: Test) -> dict[str, Any]:
    """Receive, and return iperf3's JSON report."""
    try:
        done = subprocess.run(
            client_command(server_ip, test),
            check=False,
            capture_output=True,
            text=True,
            timeout=test.deadline_s,
        )
    except subprocess.TimeoutExpired:
        sys.exit(late(test.deadline_s))
    return report(done.stdout, done.stderr, test)


def late(deadline_s: float) -> str:
    """Return the words for a transfer that the deadline has ended."""
    return f"the transfer did not end in {deadline_s:g} s"


def report(printed: str, error: str, test: Test) -> dict[str, Any]:
    """Return the report that iperf3 has printed. If it has failed the job ends.

    An endless test says that it was interrupted, and tells what came until then.
    """
    try:
        read: dict[str, Any] = json.loads(printed)
    except json.JSONDecodeError:
        read = {"error": error.strip() or printed.strip() or "no report"}
    if "error" in read and not (test.is_endless and "end" in read):
        from openbach_jobs.iperf3_test import failure  # not above: to read a file moves packets

        sys.exit(failure(str(read["error"])))
    return read


def received(read: dict[str, Any], ttfb_s: float | None) -> Received:
    """Return the receiver's side of an iperf3 report.

    A test that was stopped has no totals: then they are the sums of its intervals.
    """
    sums = [interval["sum"] for interval in read["intervals"]]
    series = [(total["start"], total["seconds"], total["bytes"]) for total in sums]
    end = read["end"]
    if total := end.get("sum_received"):
        seconds, size = total["seconds"], total["bytes"]
    else:
        _, lasts_s, sizes = zip(*series, strict=True) if series else ((), (), ())
        seconds, size = sum(lasts_s), sum(sizes)
    return Received(seconds, size, ttfb_s, end.get("sender_tcp_congestion"), series)
