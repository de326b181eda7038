# SPDX-License-Identifier: GPL-3.0-or-later
"""The clock of a run: virtual, this machine's, or this machine's made slower."""

from __future__ import annotations

import re

from openbach_run.errors import InputError

VIRTUAL, REAL = "virtual", "real"
SLOWEST = 1000
WORDS = f"virtual, real, or real/N, N times slower than this machine's (N from 2 to {SLOWEST})"


def clock_named(text: str) -> str:
    """Raises InputError."""
    if text in (VIRTUAL, REAL) or 2 <= slowdown(text) <= SLOWEST:
        return text
    raise InputError(f"--clock {text}: one of {WORDS}")


def slowdown(clock: str) -> int:
    """How many seconds of this machine one of the guest takes in real time: 10 of `real/10`; 1 of any other clock."""
    found = re.fullmatch(rf"{REAL}/([1-9][0-9]{{0,3}})", clock)
    return int(found[1]) if found else 1
