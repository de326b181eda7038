# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job tcp_series: goodput, RTT and window of a TCP connection, again and again.

The connection is the busiest one from a port of this host.

What `ss -ti` shows, at a fixed interval, until the job is stopped. With the interval 0 it looks at
nothing.
"""

from __future__ import annotations

import argparse
import re
import signal
import time
from typing import Any

import collect_agent

from openbach_jobs.command import run

RUNS_AS_THREAD = True
"""Sign for the guest, which needs no process for this job (openbach_run/guest/threads.py)."""
CONFIGURATION = "/opt/openbach/agent/jobs/tcp_series/tcp_series_rstats_filter.conf"
SIGNALS = {signal.SIGTERM, signal.SIGINT}
SHOWN = {  # statistic: what ss calls it
    "rtt_ms": r"\brtt:([\d.]+)",
    "cwnd_segments": r"\bcwnd:(\d+)",
    "unacked_segments": r"\bunacked:(\d+)",
    "delivery_rate_bps": r"delivery_rate (\d+)bps",
    "retransmitted_bytes": r"bytes_retrans:(\d+)",
    "acked_bytes": r"bytes_acked:(\d+)",
}


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "interval_s", type=float, help="seconds between two looks; 0 looks at nothing"
    )
    parser.add_argument("port", type=int, help="local port of the connections")
    arguments = parser.parse_args(argv)
    if arguments.interval_s != 0 and not 0.01 <= arguments.interval_s <= 3600:
        parser.error(f"interval_s is {arguments.interval_s:g}: 0, or from 0.01 to 3600 s")
    if not 1 <= arguments.port <= 65535:
        parser.error(f"port is {arguments.port}: from 1 to 65535")
    return arguments


def look(port: int) -> str:
    """Return the line of the busiest connection; empty if there is none."""
    shown = run("ss", "-tinHO", "state", "established", "sport", "=", f":{port}")
    return max(
        shown.splitlines(), key=lambda line: values(line).get("acked_bytes", 0.0), default=""
    )


def values(line: str) -> dict[str, Any]:
    """Return the numbers that a line of ss shows of a connection, by name."""
    matches = {name: re.search(pattern, line) for name, pattern in SHOWN.items()}
    return {name: float(match[1]) for name, match in matches.items() if match}


def watch(interval_s: float, port: int) -> None:
    """Send what ss shows, at each interval until the job is stopped.

    Goodput is what was acknowledged since the last look at the same connection.
    """
    last_peer, last_bytes, last_s = "", 0.0, 0.0
    while not signal.sigtimedwait(SIGNALS, interval_s):
        line, now_s = look(port), time.monotonic()
        if not line:
            continue
        peer, seen = line.split()[3], values(line)
        acked_bytes = seen.pop("acked_bytes", 0.0)
        if peer == last_peer:
            seen["goodput_bps"] = (acked_bytes - last_bytes) * 8 / (now_s - last_s)
        last_peer, last_bytes, last_s = peer, acked_bytes, now_s
        collect_agent.send_stat(collect_agent.now(), **seen)


def main() -> None:
    """Run the job."""
    arguments = parse()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if arguments.interval_s:
        watch(arguments.interval_s, arguments.port)
    else:
        signal.sigwait(SIGNALS)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
