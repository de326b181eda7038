# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job ping_series: the round-trip time to an address at a fixed interval, until stopped: ping under load.

With the interval 0 it pings nothing.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection

import collect_agent

CONFIGURATION = "/opt/openbach/agent/jobs/ping_series/ping_series_rstats_filter.conf"
SIGNALS = {signal.SIGTERM, signal.SIGINT}
ANSWER_LIMIT_S = 2.0
"""A request without an answer is lost after that time; younger ones count for nothing when the job is stopped."""
ANSWER = re.compile(r"icmp_seq=(\d+) .*time=([\d.]+) ms")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("interval_s", type=float, help="seconds between two requests; 0 sends none")
    parser.add_argument("destination_ip")
    arguments = parser.parse_args(argv)
    if arguments.interval_s != 0 and not 0.01 <= arguments.interval_s <= 3600:
        parser.error(f"interval_s is {arguments.interval_s:g}: 0, or from 0.01 to 3600 s")
    return arguments


def answer(line: str) -> tuple[int, float] | None:
    """Number of the request and round-trip time in ms, of a line of ping's that has them."""
    found = ANSWER.search(line)
    return (int(found[1]), float(found[2])) if found else None


def lost_pct(answered: Collection[int], interval_s: float, lasted_s: float) -> float | None:
    """Percent of the requests 1, 2, … that are older than ANSWER_LIMIT_S and have no answer; None if there are none."""
    old = {
        number for number in range(1, int((lasted_s - ANSWER_LIMIT_S) / interval_s) + 2) if lasted_s >= ANSWER_LIMIT_S
    }
    return 100 * len(old - set(answered)) / len(old) if old else None


def ping(interval_s: float, destination_ip: str) -> None:
    start_s = time.monotonic()
    command = ["ping", "-n", "-i", f"{interval_s:g}", destination_ip]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for number in SIGNALS:
        signal.signal(number, lambda *_: process.terminate())
    assert process.stdout is not None and process.stderr is not None
    answered: set[int] = set()
    for line in process.stdout:
        if found := answer(line):
            sequence, rtt_ms = found
            answered.add(sequence)
            collect_agent.send_stat(collect_agent.now(), rtt_ms=rtt_ms)
    if process.wait() >= 0:
        sys.exit(f"{' '.join(command)} ended by itself: {process.stderr.read().strip()}")
    lost = lost_pct(answered, interval_s, time.monotonic() - start_s)
    collect_agent.send_stat(collect_agent.now(), lost_pct=lost)


def main() -> None:
    arguments = parse()
    if arguments.interval_s:
        ping(arguments.interval_s, arguments.destination_ip)
    else:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        signal.sigwait(SIGNALS)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
