# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure what this machine's kernel adds to the times of packets: a file for `noise=FILE`.

receive_us is the time from a program's sending of a datagram over the loopback interface until the
program that waits for it has it: softirq, protocols, and the reader's wake-up. timer_us is how much
later than asked a sleeping program wakes up, without Linux's slack of 50 us. Both are quantiles,
[probability, us]. A network card's interrupt moderation is in neither: --moderation-us adds it as a
uniform time from 0. Two CPUs, and nothing else should run meanwhile. It takes a minute.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import random
import socket
import sys
import time
from datetime import UTC, datetime

PROBABILITIES = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999)
SET_TIMERSLACK = 29  # of prctl(2)
GAP_US = (500, 1500)


def now_ns() -> int:
    """Return the time of the clock that all programs share."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def received_us(samples: int) -> list[float]:
    """Return the times from sending a datagram to having it, in us."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    if not os.fork():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(samples):
                time.sleep(random.uniform(*GAP_US) / 1e6)
                sender.sendto(now_ns().to_bytes(8, "big"), receiver.getsockname())
        os._exit(0)
    times = []
    for _ in range(samples):
        sent_ns = receiver.recv(8)
        times.append((now_ns() - int.from_bytes(sent_ns, "big")) / 1e3)
    os.wait()
    return times


def late_us(samples: int) -> list[float]:
    """Return how late a program wakes up that sleeps, in us."""
    ctypes.CDLL(None).prctl(SET_TIMERSLACK, 1, 0, 0, 0)
    times = []
    for _ in range(samples):
        gap_ns = random.randint(*GAP_US) * 1000
        asked_ns = now_ns() + gap_ns
        time.sleep(gap_ns / 1e9)
        times.append((now_ns() - asked_ns) / 1e3)
    return times


def quantiles(values: list[float]) -> list[list[float]]:
    """Return [probability, value] of PROBABILITIES."""
    ordered = sorted(values)
    return [[part, round(ordered[int(part * len(ordered))], 1)] for part in PROBABILITIES]


def main() -> None:
    """Print the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=20_000, help="of each kind (20 000)")
    parser.add_argument("--moderation-us", type=float, default=0, help="of the network card")
    arguments = parser.parse_args()
    received = received_us(arguments.samples)
    moderated = [one + random.uniform(0, arguments.moderation_us) for one in received]
    measured = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "command": " ".join(["tools/bench/host_noise.py", *sys.argv[1:]]),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
        "samples": arguments.samples,
    }
    distributions = {"receive_us": moderated, "timer_us": late_us(arguments.samples)}
    print(
        json.dumps(
            {"measured": measured}
            | {name: quantiles(values) for name, values in distributions.items()}
        )
    )


if __name__ == "__main__":
    main()
