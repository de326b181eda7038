# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VPN and PEP position to take, per orbit, loss and transport, as far as the cells decide it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openbach_run.report.cells import Cell, Partners
from openbach_run.results.chance import MIN_SEEDS
from openbach_run.results.intervals import Estimate, ratio

EQUAL = 1.01
"""Practically equal: no more than this times the time, with the whole interval."""
AS_GOOD = 1.05
"""A configuration is as good as the best if it may take no more than this times its time (the report calls 5 % fair)."""


@dataclass(frozen=True)
class Recommendation:
    """Of cells that share all but VPN and PEP: the best with a VPN, and those as good. `against` is its ratio to the
    same cell without VPN and PEP."""

    best: Cell
    found: Estimate
    as_good: list[Cell]
    against: Estimate | None


def recommend(cells: Sequence[Cell], measure: str) -> Recommendation | None:
    """The best is the cell with the least `measure`, a time, or, of those that take practically as long, one without a PEP.
    None when there is no cell with a VPN whose runs all finished with at least MIN_SEEDS seeds. `cells` share all but VPN,
    PEP and transport."""
    able = [
        (found.median, number)
        for number, cell in enumerate(cells)
        if cell.values.get("vpn") != "none"
        and cell.whole
        and (found := cell.estimate(measure))
        and found.seeds >= MIN_SEEDS
    ]
    if not able:
        return None
    in_order = [cells[number] for _, number in sorted(able)]
    equal = [cell for cell in in_order if _within(EQUAL, cell, in_order[0], measure, whole=True)]
    best = min(equal, key=lambda cell: cell.values.get("pep", "none") != "none")
    others = [cell for cell in in_order if cell is not best]
    found = best.estimate(measure)
    assert found is not None
    without = {"vpn": "none", "pep": "none"}
    bare = [cell for cell in Partners(cells, without).of(best) if without.items() <= cell.values.items()]
    against = ratio(best.measured(measure), bare[0].measured(measure)) if bare else None
    return Recommendation(
        best, found, [cell for cell in others if _within(AS_GOOD, cell, best, measure, whole=False)], against
    )


def _within(factor: float, cell: Cell, best: Cell, measure: str, *, whole: bool) -> bool:
    """Whether the cell takes at most this times the time of the best one: with its whole interval, or as far as that does
    not exclude it."""
    compared = ratio(cell.measured(measure), best.measured(measure))
    if compared is None:
        return False
    end = compared.high if whole else compared.low
    return end is not None and end <= factor
