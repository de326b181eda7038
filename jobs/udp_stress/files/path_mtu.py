# SPDX-License-Identifier: GPL-3.0-or-later
"""Search for the largest IPv4 packet that goes to an address and back in one piece.

It is found with ping, which forbids fragments (-M do).
"""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from openbach_jobs.command import run

HEADERS_BYTES = 28
"""IPv4 and ICMP, or IPv4 and UDP."""
LEAST_BYTES = 576
"""Largest packet in bytes that every host takes: RFC 791, 3.1."""
FIRST_LIMIT_S, ANSWER_LIMIT_S, INTERVAL_S = 40, 2, 0.5
"""Limits of the wait for answers: for the first one, twice the longest round trip that satcom_link
makes. A lost ping says nothing of its size: there is another after each interval, until one is
answered."""


def first_mtu(destination_ip: str) -> int:
    """Return the MTU, in bytes, of the interface that leads there."""
    (route,) = json.loads(run("ip", "-j", "route", "get", destination_ip))
    return int(Path(f"/sys/class/net/{route['dev']}/mtu").read_text())


def fits(destination_ip: str, packet_bytes: int, limit_s: int) -> bool:
    """Return whether a packet of this size gets an answer."""
    words = f"-n -q -c 1 -i {INTERVAL_S} -w {limit_s} -M do -s {packet_bytes - HEADERS_BYTES}"
    command = ["ping", *words.split(), destination_ip]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def largest(least: int, most: int, fits: Callable[[int], bool]) -> int | None:
    """Return the largest number from `least` to `most` that fits; None if none does.

    If one fits, all below it do.
    """
    if not fits(least):
        return None
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least


def path_mtu(destination_ip: str) -> int | None:
    """Return the path MTU in bytes; None if nothing comes back."""
    begin_s = time.monotonic()
    limit_s = FIRST_LIMIT_S

    def is_answered(size: int) -> bool:
        nonlocal limit_s
        answered = fits(destination_ip, size, limit_s)
        if limit_s == FIRST_LIMIT_S:
            limit_s = max(ANSWER_LIMIT_S, math.ceil(2 * (time.monotonic() - begin_s)))
        return answered

    return largest(LEAST_BYTES, first_mtu(destination_ip), is_answered)
