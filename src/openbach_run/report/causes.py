# SPDX-License-Identifier: GPL-3.0-or-later
"""What else differs between two cells that a claim compares: the trace that the cause left in their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from openbach_run.openbach.measures import Measure, in_words
from openbach_run.report.cells import Cell
from openbach_run.results.intervals import difference

RELEVANT = 0.1
"""Part of the greater value by which a measure has to differ, with its whole interval."""
SAME = 0.02
"""A measure whose ratio is that of the judged one or its inverse within this is the same thing said again: the goodput of a
transfer of fixed size beside its time."""
MOST = 3


@dataclass(frozen=True)
class Difference:
    """A measure in words, with its median in both cells."""

    words: str
    here: float
    there: float

    @property
    def part(self) -> float:
        """By how much they differ, as a part of the greater one."""
        return abs(self.here - self.there) / max(abs(self.here), abs(self.there))


def differences(cell: Cell, against: Cell, judged: str, declared: Sequence[Measure]) -> list[Difference]:
    """The measures beside `judged` that tell the cells apart, those that differ most first; at most MOST."""
    names = dict.fromkeys(name for run in cell.runs if run.record for name in run.record.measures if name != judged)
    of_judged = _ratio(cell, against, judged)
    found = []
    for name in names:
        changed = difference(cell.measured(name), against.measured(name))
        if changed is None or not changed.median:
            continue
        one = Difference(in_words(name, declared), _median(cell, name), _median(against, name))
        ends = (changed.median if end is None else end for end in (changed.low, changed.high))
        is_relevant = min(map(abs, ends)) >= RELEVANT * max(abs(one.here), abs(one.there))
        ratio = _ratio(cell, against, name)
        is_same = (
            of_judged is not None
            and ratio is not None
            and any(abs(ratio / known - 1) <= SAME for known in (of_judged, 1 / of_judged))
        )
        if is_relevant and not is_same and _same_sign(changed.low, changed.high):
            found.append(one)
    return sorted(found, key=lambda one: -one.part)[:MOST]


def _ratio(cell: Cell, against: Cell, measure: str) -> float | None:
    here, there = (list(one.measured(measure).values()) for one in (cell, against))
    return median(here) / median(there) if here and there and median(here) and median(there) else None


def _median(cell: Cell, measure: str) -> float:
    return median(cell.measured(measure).values())


def _same_sign(low: float | None, high: float | None) -> bool:
    return low is None or high is None or low * high > 0
