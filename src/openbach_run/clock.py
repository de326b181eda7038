# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of a run's clock: virtual, this machine's, or this machine's made slower."""

from __future__ import annotations

import re

from openbach_run.errors import InputError

VIRTUAL, REAL = "virtual", "real"
SLOWEST = 1000
WORDS = f"virtual, real, or real/N, N times slower than this machine's (N from 2 to {SLOWEST})"


def clock_named(text: str) -> str:
    """Return the name of a clock. Raises InputError for any other text."""
    if text in (VIRTUAL, REAL) or 2 <= slowdown(text) <= SLOWEST:
        return text
    raise InputError(f"--clock {text}: one of {WORDS}")


def slowdown(clock: str) -> int:
    """Return the seconds of this machine in a second of the guest: 10 for `real/10`, else 1."""
    match = re.fullmatch(rf"{REAL}/([1-9][0-9]{{0,3}})", clock)
    return int(match[1]) if match else 1
