# SPDX-License-Identifier: GPL-3.0-or-later
"""What the arguments of a job may be. The files/ of jobs that need it have links to this file."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping

MULTIPLIERS = {"k": 1e3, "M": 1e6, "G": 1e9}


def number(text: str, least: float, most: float, right: str) -> float:
    """A number with a decimal suffix or none (`10M` is 10 000 000). Raises ValueError, which says what would be right."""
    digits, factor = (text[:-1], MULTIPLIERS[text[-1]]) if text[-1:] in MULTIPLIERS else (text, 1.0)
    try:
        value = float(digits) * factor
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise ValueError(f"{text!r} is not {right}")
    return value


def check(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, limits: Mapping[str, tuple[float, float]]
) -> None:
    """`limits` are the least and the most by the argument's name; what this mode of the job does not have is left out. Ends the
    job if one lies outside."""
    for name, (least, most) in limits.items():
        value = getattr(arguments, name, least)
        if not least <= value <= most:
            parser.error(f"{name} is {value:.15g}: from {least:.15g} to {most:.15g}")
