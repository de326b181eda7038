# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain a difference between two cells by what else differs in their runs.

A claim compares the two cells. Their other measures show the trace that the cause has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from openbach_run.openbach.measures import Measure, measure_of
from openbach_run.report.cells import Cell, measured_against
from openbach_run.report.words import in_good_units, title_of

RELEVANT = 0.1
"""A measure has to differ by at least this part of the greater value, with its whole interval."""
SAME = 0.02
"""A measure whose ratio is that of the judged one, or its inverse, within this part says nothing
new, like the goodput of a transfer of fixed size beside its time."""
MOST = 3
REPEATED = ("retransmits", "forward_dropped_packets", "forward_lost_packets")
CARRIED = "forward_sent_bytes"
"""The bytes that the link carried on the forward link, with all headers."""
SHOWS = {  # a measure that differs → what it means that it is greater, and what that it is less
    "forward_dropped_packets": ("the full buffer drops more", "the full buffer drops less"),
    "return_dropped_packets": (
        "the full buffer of the return link drops more",
        "the full buffer of the return link drops less",
    ),
    "forward_lost_packets": ("the link loses more at random", "the link loses less at random"),
    "forward_queue_delay_ms": ("the queue is longer", "the queue is shorter"),
    "retransmits": ("more is retransmitted", "less is retransmitted"),
    "ttfb_s": ("the data begin later", "the data begin earlier"),
    "handshake_time_s": ("handshakes take longer", "handshakes are shorter"),
}
"""The order is from causes to consequences."""


@dataclass(frozen=True)
class Difference:
    """A measure that differs, with its median in both cells."""

    column: str
    words: str
    own: float
    other: float
    unit: str

    @property
    def part(self) -> float:
        """Return by how much the two differ, as a part of the greater one."""
        return abs(self.own - self.other) / max(abs(self.own), abs(self.other))

    @property
    def in_words(self) -> str:
        """Return the difference in words: `the full buffer drops more (412 packets against 3)`."""
        greater, less = SHOWS.get(self.column, (self.words, self.words))
        shown = greater if self.own > self.other else less
        figures = f"{_number(self.own)} {self.unit}".rstrip() + f" against {_number(self.other)}"
        return f"{shown} ({figures})" if self.column in SHOWS else f"{shown} {figures}"


def mechanism(cell: Cell, against: Cell, judged: str, declared: Sequence[Measure]) -> str:
    """Return what the runs of two cells show besides the measure that is judged; "" for nothing."""
    carried, ratio = _ratio(cell, against, CARRIED), _ratio(cell, against, judged)
    seen = [difference.in_words for difference in differences(cell, against, judged, declared)]
    seen += _repeated_in_vain(cell, against)
    if carried is not None and abs(carried - 1) > SAME / 4:
        amount = f"{100 * abs(carried - 1):.1f} % {'more' if carried > 1 else 'fewer'}"
        on_link = f"the forward link carries {amount} bytes (headers, retransmits)"
        known = ratio or 1
        # More bytes on the same link explain a longer time as well as a lower rate, its inverse.
        if known != 1 and _is_explained(carried, known):
            return f"{on_link}, which accounts for it within {100 * SAME:.0f} %"
        seen.append(on_link)
    return "; ".join(seen)


def _repeated_in_vain(cell: Cell, against: Cell) -> list[str]:
    """Return a sentence on repeated segments that were not lost on the link; or [].

    That is as with TCP in TCP. It is said of a download whose sender repeats clearly more segments
    than the link lost.
    """

    # Segments repeated in vain, and all repeated ones; None where the link's counters do not show
    # it.
    def in_vain(some: Cell) -> tuple[float, float] | None:
        is_of_link = some.values.get("loss_at", "satellite") == "satellite"
        is_whole = is_of_link and some.values.get("direction") != "upload"
        measured = [list(some.measured(name).values()) for name in REPEATED] if is_whole else []
        if not measured or not all(measured):
            return None
        sent_again, dropped, lost = map(median, measured)
        return sent_again - dropped - lost, sent_again

    own, others = in_vain(cell), in_vain(against)
    if own is None or others is None:
        return []
    if own[0] < RELEVANT * own[1] or own[0] <= max(others[0], 0) * (1 + RELEVANT):
        return []
    of_all = f"at least {own[0]:.0f} of its {own[1]:.0f} retransmitted segments"
    return [f"{of_all} were not lost on the link"]


def differences(
    cell: Cell, against: Cell, judged: str, declared: Sequence[Measure]
) -> list[Difference]:
    """Return the measures besides `judged` that tell the cells apart, at most MOST.

    Causes come before consequences, then the measures that differ most.
    """
    names: dict[str, None] = {}  # a set that keeps the order
    for run in cell.runs:
        if run.record:
            names |= dict.fromkeys(run.record.measures)
    names.pop(judged, None)
    of_judged = _ratio(cell, against, judged)
    differences_seen = []
    for name in names:
        changed = measured_against(cell, against, name, as_ratio=False)
        if changed is None or not changed.median or name == CARRIED:
            continue
        own, other = _median(cell, name), _median(against, name)
        units = in_good_units(measure_of(name, declared)[1], (own, other))
        values = own * units.factor, other * units.factor
        difference = Difference(name, title_of(name, declared), *values, units.unit)
        # With one seed there is no interval: the median counts as both ends.
        ends = (changed.median if end is None else end for end in (changed.low, changed.high))
        is_relevant = min(map(abs, ends)) >= RELEVANT * max(abs(own), abs(other))
        ratio = _ratio(cell, against, name)
        is_same = bool(of_judged and ratio and _is_explained(ratio, of_judged))
        if is_relevant and not is_same and _same_sign(changed.low, changed.high):
            differences_seen.append(difference)
    order = list(SHOWS)

    def rank(difference: Difference) -> tuple[int, float]:
        column = difference.column
        return order.index(column) if column in order else len(order), -difference.part

    return sorted(differences_seen, key=rank)[:MOST]


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _ratio(cell: Cell, against: Cell, measure: str) -> float | None:
    """Return the ratio of the medians of a measure; None if one is missing or 0."""
    both = [list(each.measured(measure).values()) for each in (cell, against)]
    own, other = (median(values) if values else 0 for values in both)
    return own / other if own and other else None


def _is_explained(ratio: float, other: float) -> bool:
    """Return whether a ratio is another one, or its inverse."""
    return any(abs(ratio / known - 1) <= SAME for known in (other, 1 / other))


def _median(cell: Cell, measure: str) -> float:
    return median(cell.measured(measure).values())


def _same_sign(low: float | None, high: float | None) -> bool:
    """Return whether an interval excludes 0; so does one that is not known."""
    return low is None or high is None or low * high > 0
