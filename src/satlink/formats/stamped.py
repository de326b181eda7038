# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines with a time before them, as `ts` and scripts put it before what a program prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

STAMP = re.compile(
    r"(?:\[(?=\d{4}-))?"
    r"(?:(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    r"|(\d{9,10}\.\d{1,9}))\]?(?:[ \t]+|\r?$)"
)
"""A date of ISO 8601, or seconds since 1970; `[1700000000.1] ` is what ping -D writes itself."""
LEAST_SHARE = 0.5
AT_ONCE_S = 0.001


class Stamped(NamedTuple):
    """A text without its stamps, the same with `[seconds since 1970]`, and what was assumed."""

    bare: str
    dated: str
    assumed: list[str]


def is_stamped(lines: list[str]) -> bool:
    """Return whether most lines begin with a stamp."""
    written = [line for line in lines if line]
    stamped = sum(1 for line in written if STAMP.match(line))
    return stamped > LEAST_SHARE * len(written)


def without(text: str, is_answer: Callable[[str], bool]) -> Stamped:
    """Return a text without its stamps, and with those of answers in the form of `ping -D`.

    A program that writes into a pipe may write many lines at once. Their stamps tell nothing, so
    they are left out of `dated`.
    """
    bare, dated, times_s = [], [], []
    has_no_zone = False
    for line in text.split("\n"):
        match = STAMP.match(line)
        if match is None:
            bare.append(line)
            dated.append(line)
            continue
        try:
            time_s = _time_s(match)
        except ValueError:
            bare.append(line)
            dated.append(line)
            continue
        has_no_zone = has_no_zone or bool(match[1] and not _zone(match[1]))
        rest = line[match.end() :]
        bare.append(rest)
        if is_answer(rest):
            times_s.append(time_s)
            rest = f"[{time_s:.6f}] {rest}"
        dated.append(rest)
    gaps_s = [after - before for before, after in pairwise(times_s)]
    at_once = sum(1 for gap_s in gaps_s if gap_s < AT_ONCE_S)
    if 2 * at_once > len(gaps_s):
        return Stamped(
            "\n".join(bare),
            "\n".join(bare),
            ["the times before the lines are of many lines at once: they are left out"],
        )
    assumed = ["the time before a line is that of the answer"]
    if has_no_zone:
        assumed.append("times without a zone are UTC")
    return Stamped("\n".join(bare), "\n".join(dated), assumed)


def _zone(date: str) -> str:
    zone = re.search(r"(?:Z|[+-]\d\d:?\d\d)$", date[10:])
    return zone[0] if zone else ""


def _time_s(match: re.Match[str]) -> float:
    """Return a stamp in s since 1970. Raises ValueError."""
    if match[2]:
        return float(match[2])
    date = match[1].replace(",", ".")
    moment = datetime.fromisoformat(date.replace("Z", "+00:00"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
