# SPDX-License-Identifier: GPL-3.0-or-later
"""Recommend a VPN, PEP position and transport, as far as the cells decide it.

The recommendations are by orbit, loss, and what one controls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from openbach_run.openbach.scenario import SAME
from openbach_run.report.cells import Cell, Partners
from openbach_run.results.intervals import Estimate, ratio
from openbach_run.results.seeds import MIN_SEEDS

EQUAL = 1.01
"""Practically equal: at most this times the time, with the whole interval."""
AS_GOOD = 1.05
"""A configuration is as good as the best if it may take at most this times its time (the report
calls 5 % fair)."""

END_HOSTS = "cubic"
"""The congestion control of end hosts that nobody has changed."""
CONTROLS: dict[str, Callable[[Mapping[str, str]], bool]] = {
    "end hosts, PEP and VPN": lambda values: True,
    "PEP and VPN; end hosts have CUBIC": lambda values: values.get("cc") == END_HOSTS,
    "the VPN only; end hosts have CUBIC": lambda values: (
        values.get("cc") == END_HOSTS and values.get("pep") == "none"
    ),
}
"""Name of what somebody controls → check whether a cell with these values is within reach."""
CHOSEN = ("vpn", "pep", "cc", "cc_pep", "cc_tunnel")
"""The arguments to choose; cells that differ in another argument are not compared."""


@dataclass(frozen=True)
class Advice:
    """A recommendation and where it applies.

    `conditions`: what its cells have in common, by argument; `control`: one of CONTROLS.
    """

    conditions: dict[str, str]
    control: str
    chosen: Recommendation


@dataclass(frozen=True)
class Recommendation:
    """The best cell with a VPN, and those as good, of cells that share all but VPN and PEP.

    `against` is its ratio to the same cell without VPN and PEP.
    """

    best: Cell
    found: Estimate
    as_good: list[Cell]
    against: Estimate | None
    of: int
    """The number of cells that it is the best of."""


def recommend(cells: Sequence[Cell], measure: str) -> Recommendation | None:
    """Return the cell with the least `measure`, a time, and those that are as good.

    Of cells that take practically as long, one without a PEP is best. `cells` share all but VPN,
    PEP and transport. None if no cell with a VPN has at least MIN_SEEDS seeds and finished all
    runs.
    """
    able = []
    for number, cell in enumerate(cells):
        if cell.values.get("vpn") != "none" and cell.whole:
            estimated = cell.estimate(measure)
            if estimated and estimated.seeds >= MIN_SEEDS:
                able.append((estimated.median, number))
    if not able:
        return None
    in_order = [cells[number] for _, number in sorted(able)]
    equal = [cell for cell in in_order if _within(EQUAL, cell, in_order[0], measure, whole=True)]
    # False is less than True: the quickest one without a PEP, or else the quickest.
    best = min(equal, key=lambda cell: cell.values.get("pep", "none") != "none")
    others = [cell for cell in in_order if cell is not best]
    found = best.estimate(measure)
    assert found is not None
    without = {"vpn": "none", "pep": "none"}
    free = (
        *without,
        "scenario",
        "cc_pep",
        "cc_tunnel",
    )  # without a PEP and a tunnel their transport says nothing
    bare = [
        cell for cell in Partners(cells, free).of(best) if without.items() <= cell.values.items()
    ]
    against = ratio(best.measured(measure), bare[0].measured(measure)) if bare else None
    as_good = [cell for cell in others if _within(AS_GOOD, cell, best, measure, whole=False)]
    return Recommendation(best, found, as_good, against, len(able))


def _within(factor: float, cell: Cell, best: Cell, measure: str, *, whole: bool) -> bool:
    """Return whether the cell takes at most `factor` times the time of the best one.

    `whole`: the whole interval has to say so; else it is enough that the interval does not exclude
    it.
    """
    compared = ratio(cell.measured(measure), best.measured(measure))
    if compared is None:
        return False
    end = compared.high if whole else compared.low
    return end is not None and end <= factor


def advice(cells: Sequence[Cell], measure: str) -> list[Advice]:
    """Return the recommendations for each set of conditions, whatever scenario had them.

    There is one for each control that reaches other cells than a narrower one, if there are at
    least two configurations to choose from.
    """
    groups: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in cells:
        told = {name: value for name, value in cell.values.items() if value != SAME}
        key = tuple(sorted(pair for pair in told.items() if pair[0] not in (*CHOSEN, "scenario")))
        groups.setdefault(key, []).append(cell)
    found = []
    for key, group in groups.items():
        reached: list[list[int]] = []
        of_group: list[Advice] = []
        for control, is_reached in reversed(
            CONTROLS.items()
        ):  # the narrowest name for the same cells
            within = [number for number, cell in enumerate(group) if is_reached(cell.values)]
            chosen = (
                recommend([group[number] for number in within], measure)
                if within not in reached
                else None
            )
            if chosen and chosen.of > 1:
                of_group.insert(0, Advice(dict(key), control, chosen))
            reached.append(within)
        found += of_group
    return found
