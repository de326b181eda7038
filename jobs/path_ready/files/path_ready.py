# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job path_ready: ends well as soon as a destination answers.

Others can wait for it with finished_ids.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import time

import collect_agent

from openbach_jobs.command import wait_for

RUNS_AS_THREAD = True
"""Sign for the guest, which needs no process for this job (openbach_run/guest/threads.py)."""
CONFIGURATION = "/opt/openbach/agent/jobs/path_ready/path_ready_rstats_filter.conf"
PAUSE_S = 0.5  # between two attempts when there is no route yet and ping fails at once
FIRST = ("-W", "2")
"""Words of ping that wait 2 s for the first answer."""
INTERVAL_S = 2.5
UNANSWERED = 1
"""Exit code of a ping that has sent something; one that could not has another."""


def ping(destination: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Send one ping, and return how it ended."""
    return subprocess.run(
        ["ping", "-n", "-c", "1", *words, destination], check=False, capture_output=True, text=True
    )


def until_answered(limit_s: float) -> tuple[str, ...]:
    """Return words for a ping that goes on sending until one answer has come."""
    return ("-i", f"{INTERVAL_S:g}", "-w", str(round(limit_s)))


def answered(destination: str, deadline_s: float) -> float:
    """Return the round-trip time in ms of the first ping that comes back.

    A lost one is no failure, too many are. The path may take as long as it likes, up to the
    deadline.
    """
    printed = ""
    words: tuple[str, ...] = FIRST

    def answer() -> re.Match[str] | None:
        nonlocal printed, words
        done = ping(destination, *words)
        printed = (done.stderr or done.stdout).strip()
        if done.returncode == UNANSWERED:
            words = until_answered(deadline_s)
        return re.search(r"time=([\d.]+) ms", printed)

    missing = f"{destination} does not answer"
    time_ms = wait_for(
        missing, answer, deadline_s, retry_s=PAUSE_S, evidence=lambda: f"; ping says: {printed}"
    )
    return float(time_ms[1])


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("destination_ip")
    parser.add_argument("--deadline-s", type=int, default=60)
    arguments = parser.parse_args(argv)
    if not 1 <= arguments.deadline_s <= 86400:
        parser.error(f"deadline_s is {arguments.deadline_s}: from 1 to 86400 s")
    return arguments


def main() -> None:
    """Run the job."""
    arguments = parse()
    start_s = time.monotonic()
    answered(arguments.destination_ip, arguments.deadline_s)
    ready_s = time.monotonic() - start_s
    # The first one may have set up caches.
    rtt_ms = answered(arguments.destination_ip, arguments.deadline_s)
    collect_agent.send_stat(collect_agent.now(), rtt_ms=rtt_ms, ready_s=ready_s)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
