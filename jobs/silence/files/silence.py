# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job silence: says nothing for a while, then asks, and measures when the answer comes.

Meanwhile a NAT forgets flows, keys get old, and peers are taken for dead. It asks by ping, once a
second, as long as its patience. One scenario has both ends: the one that is not to speak first does
nothing.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time

import collect_agent

from openbach_jobs import limits

CONFIGURATION = "/opt/openbach/agent/jobs/silence/silence_rstats_filter.conf"
ENDS = ("server", "client")
LIMITS = {"silence_s": (0, 13_000), "patience_s": (1, 3600)}
SIGNALS = {signal.SIGTERM, signal.SIGINT}
ANSWERED, UNANSWERED = 0, 1
"""Exit codes of ping."""


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination_ip")
    parser.add_argument("first", choices=ENDS, help="the end that speaks first")
    parser.add_argument("at", choices=ENDS, help="the end that this is")
    parser.add_argument("--silence-s", type=int, default=60)
    parser.add_argument("--patience-s", type=int, default=120, help="without an answer")
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    return arguments


def answer_after_s(destination_ip: str, patience_s: int) -> float | None:
    """Return the seconds from the first request to the first answer; None if there is none."""
    begin_s = time.monotonic()
    # With -w it goes on until there is one answer.
    command = ["ping", "-nq", "-c", "1", "-w", str(patience_s), destination_ip]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode not in (ANSWERED, UNANSWERED):
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return time.monotonic() - begin_s if done.returncode == ANSWERED else None


def main() -> None:
    """Run the job."""
    arguments = parse()
    if arguments.at != arguments.first:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if signal.sigtimedwait(SIGNALS, arguments.silence_s):
        return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    after_s = answer_after_s(arguments.destination_ip, arguments.patience_s)
    answered = 0 if after_s is None else 1
    collect_agent.send_stat(collect_agent.now(), answered=answered, answer_after_s=after_s)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
