# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenSAND's delay files (satellite delay of type "FileDelay") as the delay of a link.

A line has a time, counted in refresh periods, and the delay in ms between one ground entity and the
satellite; `#` begins a comment. Between two lines OpenSAND interpolates in whole milliseconds,
rounded towards the earlier one's; before the first and after the last it takes theirs, or begins
again one period after the last (its option `loop`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path

from openbach_jobs.link_file import Change, LinkFileError, State, lines

ROW = re.compile(r"([0-9]{1,7})\s+([0-9]{1,7})")
Delays = list[tuple[int, int]]
"""Pairs of time in refresh periods and delay in ms, ascending."""


def read_delays(path: Path) -> Delays:
    """Return the delays of a file. Raises LinkFileError."""
    return _parsed(path, lines(path))


def parsed(path: Path, text: str) -> Delays:
    """Return the delays in a text. Raises LinkFileError with the name of its file."""
    return _parsed(
        path, ((number, line.strip()) for number, line in enumerate(text.split("\n"), 1))
    )


def _parsed(path: Path, numbered: Iterable[tuple[int, str]]) -> Delays:
    delays: dict[int, int] = {}
    for number, text in numbered:
        if text and not text.startswith("#"):
            row = ROW.fullmatch(text)
            if not row:
                raise LinkFileError(
                    path, f"{text!r} is not a time (in refresh periods) and a delay (ms)", number
                )
            if int(row[1]) in delays:
                raise LinkFileError(
                    path, f"a second delay at {row[1]} refresh periods: give one", number
                )
            delays[int(row[1])] = int(row[2])
    if not delays:
        raise LinkFileError(path, "no delay in it")
    return sorted(delays.items())


def delay_ms(delays: Delays, time: int) -> int:
    """Return the delay in ms that OpenSAND sets `time` refresh periods after its start."""
    place = bisect_left(delays, (time,))
    if place in (0, len(delays)):
        return delays[0 if place == 0 else -1][1]
    (before, before_ms), (after, after_ms) = delays[place - 1], delays[place]
    # int() cuts towards 0, as OpenSAND's cast does: rounding would move a change by one period.
    return before_ms + int((after_ms - before_ms) / (after - before) * (time - before))


def changes(
    terminal: Delays, gateway: Delays, refresh_period_ms: int, rate_bps: float
) -> Iterator[Change]:
    """Yield the delays of both hops together, from 0 s to the last line of either file.

    Both directions have the same delay.
    """
    for time in range(max(terminal[-1][0], gateway[-1][0]) + 1):
        state = State(rate_bps, delay_ms(terminal, time) + delay_ms(gateway, time), 0.0)
        yield Change(time * refresh_period_ms / 1000, "forward", state)
        yield Change(time * refresh_period_ms / 1000, "return", state)


def repeat_s(terminal: Delays, gateway: Delays, refresh_period_ms: int) -> float:
    """Return the time in s after which OpenSAND's `loop` begins again.

    Raises ValueError for hops that do so at different times.
    """
    last, other = terminal[-1][0], gateway[-1][0]
    if last != other:
        raise ValueError(
            f"the terminal's file ends at {last}, the gateway's at {other}: to repeat they must end"
            " together"
        )
    return (last + 1) * refresh_period_ms / 1000
