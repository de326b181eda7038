# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VPN and PEP position to take, per orbit, loss and transport, as far as the cells decide it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openbach_run.report.cells import Cell, partner
from openbach_run.report.claims import MIN_SEEDS
from openbach_run.results.intervals import Estimate, ratio

AS_GOOD = 1.05
"""A configuration is as good as the best if it may take no more than this times its time (the report calls 5 % fair)."""

MEASURE = "transfer_time_s"


@dataclass(frozen=True)
class Recommendation:
    """Of cells that share all but VPN and PEP: the best with a VPN, and those as good. `against` is its ratio to the
    same cell without VPN and PEP."""

    best: Cell
    found: Estimate
    as_good: list[Cell]
    against: Estimate | None


def recommend(cells: Sequence[Cell]) -> Recommendation | None:
    """None when there is no cell with a VPN whose runs all finished with at least MIN_SEEDS seeds. `cells` share all but
    VPN and PEP."""
    able = [
        (found.median, number)
        for number, cell in enumerate(cells)
        if cell.values.get("vpn") != "none"
        and cell.whole
        and (found := cell.estimate(MEASURE))
        and found.seeds >= MIN_SEEDS
    ]
    if not able:
        return None
    best = cells[min(able)[1]]
    others = [cells[number] for _, number in sorted(able) if cells[number] is not best]
    found = best.estimate(MEASURE)
    assert found is not None
    without = {"vpn": "none", "pep": "none"}
    bare = [cell for cell in partner(best, cells, without) if without.items() <= cell.values.items()]
    against = ratio(best.measured(MEASURE), bare[0].measured(MEASURE)) if bare else None
    return Recommendation(best, found, [cell for cell in others if _is_as_good(cell, best)], against)


def _is_as_good(cell: Cell, best: Cell) -> bool:
    compared = ratio(cell.measured(MEASURE), best.measured(MEASURE))
    return compared is not None and compared.low is not None and compared.low <= AS_GOOD
