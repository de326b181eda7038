# SPDX-License-Identifier: GPL-3.0-or-later
"""A parser of numbers as users write them."""

from __future__ import annotations

import math

MULTIPLIERS = {"k": 1e3, "M": 1e6, "G": 1e9}
DIGITS = frozenset("0123456789.+-eE")
"""Python takes digits of other scripts, too, and underscores and blanks between them."""


def number(text: str) -> float | None:
    """Return the value of a number with an optional multiplier: `30M` is 30 000 000.

    None for a text that is not a finite number.
    """
    digits, factor = (text[:-1], MULTIPLIERS[text[-1]]) if text[-1:] in MULTIPLIERS else (text, 1.0)
    try:
        value = float(digits) * factor if DIGITS.issuperset(digits) else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None
