# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job ping_series: the round-trip time to an address at a fixed interval, until stopped.

Beside a transfer, that is ping under load.

With a count it ends after so many requests.

With the interval 0 it pings nothing.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from itertools import pairwise

import collect_agent

from openbach_jobs import limits

CONFIGURATION = "/opt/openbach/agent/jobs/ping_series/ping_series_rstats_filter.conf"
SIGNALS = {signal.SIGTERM, signal.SIGINT}
ENDED = (0, 1)
"""Exit codes of a ping that has sent its requests: there were answers, there was none."""
ANSWER_LIMIT_S = 2.0
"""A request without an answer is lost after that time, or twice the longest round trip; younger
ones count for nothing when the job is stopped."""
LONGEST_S = 40
"""Seconds that ping waits for the last answers of a count: twice the longest round trip that
satcom_link makes."""
LIMITS = {"payload_bytes": (16, 65507), "count": (0, 1_000_000)}
"""ping measures the time with the first 16 bytes of the payload."""
ANSWER = re.compile(r"icmp_seq=(\d+) .*time=([\d.]+) ms")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("interval_s", type=float, help="seconds between two requests; 0 sends none")
    parser.add_argument("destination_ip")
    parser.add_argument(
        "--payload-bytes", type=int, default=56, help="of a request, behind its ICMP header"
    )
    parser.add_argument("--count", type=int, default=0, help="requests; 0: until stopped")
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    if arguments.interval_s != 0 and not 0.01 <= arguments.interval_s <= 3600:
        parser.error(f"interval_s is {arguments.interval_s:g}: 0, or from 0.01 to 3600 s")
    return arguments


def answer(line: str) -> tuple[int, float] | None:
    """Return the request's number and round-trip time in ms of a line of ping's that has them."""
    shown = ANSWER.search(line)
    return (int(shown[1]), float(shown[2])) if shown else None


def longest_gap_s(answers_s: Sequence[float], begin_s: float, end_s: float) -> float:
    """Return the longest time between two answers, or between one and the begin or the end."""
    edges = [begin_s, *answers_s, max(end_s, *answers_s[-1:], begin_s)]
    return max(later - earlier for earlier, later in pairwise(edges))


def old_requests(interval_s: float, sent_for_s: float) -> int:
    """Return the number of requests that were sent in that time."""
    return int(sent_for_s / interval_s) + 1 if sent_for_s >= 0 else 0


def lost_pct(answered: Collection[int], requests: int) -> float:
    """Return the percent of the requests 1 to `requests` that have no answer."""
    return 100 * len(set(range(1, requests + 1)) - set(answered)) / requests


def command_of(arguments: argparse.Namespace) -> list[str]:
    """Return the command of ping.

    It waits for the last answers of a count twice as long as for the others, and as long as any
    path takes if there was none.
    """
    size = ["-s", str(arguments.payload_bytes)] if arguments.payload_bytes != 56 else []
    count = ["-c", str(arguments.count), "-W", f"{LONGEST_S}"] if arguments.count else []
    interval = ["-i", f"{arguments.interval_s:g}"]
    return ["ping", "-n", *interval, *size, *count, arguments.destination_ip]


def ping(arguments: argparse.Namespace) -> None:
    """Send pings until the count or the order to stop, and what they showed as statistics."""
    start_s = time.monotonic()
    command = command_of(arguments)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for number in SIGNALS:
        signal.signal(number, lambda *_: process.terminate())
    assert process.stdout is not None and process.stderr is not None
    answered: set[int] = set()
    answers_s: list[float] = []
    limit_s = ANSWER_LIMIT_S
    for line in process.stdout:
        if shown := answer(line):
            sequence, rtt_ms = shown
            answered.add(sequence)
            answers_s.append(time.monotonic())
            limit_s = max(limit_s, 2 * rtt_ms / 1000)
            collect_agent.send_stat(collect_agent.now(), rtt_ms=rtt_ms)
    ended = process.wait()
    if ended >= 0 and not (arguments.count and ended in ENDED):
        sys.exit(f"{' '.join(command)} ended by itself: {process.stderr.read().strip()}")
    end_s = time.monotonic() - limit_s
    whole = arguments.count and ended >= 0
    requests = arguments.count if whole else old_requests(arguments.interval_s, end_s - start_s)
    if requests:
        gap_s = round(longest_gap_s(answers_s, start_s, end_s), 3)
        collect_agent.send_stat(
            collect_agent.now(), lost_pct=lost_pct(answered, requests), longest_gap_s=gap_s
        )


def main() -> None:
    """Run the job."""
    arguments = parse()
    if arguments.interval_s:
        ping(arguments)
    else:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        signal.sigwait(SIGNALS)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
