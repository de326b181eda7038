# SPDX-License-Identifier: GPL-3.0-or-later
"""A parser of numbers as users write them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from openbach_jobs import netem


def number(text: str) -> float | None:
    """Return the value of a number with an optional multiplier: `30M` is 30 000 000.

    None for a text that is not a finite number.
    """
    try:
        return netem.number(text, -sys.float_info.max, sys.float_info.max, "a number")
    except ValueError:
        return None


NATURAL = re.compile(
    r"([0-9.]+) ?([kKMG]i?)?(B|bytes|[Bb]/s|bps|bit(?:/s)?|us|ms|s|min|h|%)", re.ASCII
)
"""A number with its unit, as people write them: 30MB, 20Mbit/s, 250ms, 2%."""
BINARY = {"ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
BIT_RATES = {"b/s": 1.0, "bps": 1.0, "bit": 1.0, "bit/s": 1.0, "B/s": 8.0}
TIMES_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
ACCEPTED: Mapping[str, Mapping[str, float]] = {
    "bytes": {"B": 1.0, "bytes": 1.0},
    "bit/s": BIT_RATES,
    "kbit/s": {name: factor / 1e3 for name, factor in BIT_RATES.items()},
    "s": TIMES_S,
    "ms": {name: factor * 1e3 for name, factor in TIMES_S.items()},
    "%": {"%": 1.0},
}
"""Unit that an argument declares → units that people write → how many of the former one is."""


def plain(text: str, unit: str) -> str:
    """Return a number with a unit as an argument in `unit` takes it: `30MB` in bytes is `30M`.

    Other texts, and units of something else (`30MB` in ms), come back as they are.
    """
    match = NATURAL.fullmatch(text)
    factor = ACCEPTED.get(unit, {}).get(match[3]) if match else None
    if match is None or factor is None or number(match[1]) is None:
        return text
    digits, prefix = match[1], (match[2] or "").replace("K", "k")
    if factor == 1 and prefix not in BINARY:
        return digits + prefix
    value = float(digits) * factor * {**netem.MULTIPLIERS, **BINARY, "": 1.0}[prefix]
    return f"{value:.12g}"
