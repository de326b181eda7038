# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VPN, PEP position and transport to take, as far as the cells decide it: by orbit, loss, and what one controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from openbach_run.openbach.scenario import SAME
from openbach_run.report.cells import Cell, Partners
from openbach_run.results.chance import MIN_SEEDS
from openbach_run.results.intervals import Estimate, ratio

EQUAL = 1.01
"""Practically equal: no more than this times the time, with the whole interval."""
AS_GOOD = 1.05
"""A configuration is as good as the best if it may take no more than this times its time (the report calls 5 % fair)."""

END_HOSTS = "cubic"
"""What end hosts have that nobody has changed."""
CONTROLS: dict[str, Callable[[Mapping[str, str]], bool]] = {
    "end hosts, PEP and VPN": lambda values: True,
    "PEP and VPN; end hosts have CUBIC": lambda values: values.get("cc") == END_HOSTS,
    "the VPN only; end hosts have CUBIC": lambda values: values.get("cc") == END_HOSTS and values.get("pep") == "none",
}
"""What somebody controls → which of the cells are within reach."""
CHOSEN = ("vpn", "pep", "cc", "cc_pep", "cc_tunnel")
"""The arguments that are chosen among; cells that differ in another one are not compared."""


@dataclass(frozen=True)
class Advice:
    """`conditions`: what its cells have in common, by argument; `control`: one of CONTROLS."""

    conditions: dict[str, str]
    control: str
    chosen: Recommendation


@dataclass(frozen=True)
class Recommendation:
    """Of cells that share all but VPN and PEP: the best with a VPN, and those as good. `against` is its ratio to the
    same cell without VPN and PEP."""

    best: Cell
    found: Estimate
    as_good: list[Cell]
    against: Estimate | None
    of: int
    """Among how many it is the best."""


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
    free = (*without, "scenario", "cc_pep", "cc_tunnel")  # without a PEP and a tunnel their transport says nothing
    bare = [cell for cell in Partners(cells, free).of(best) if without.items() <= cell.values.items()]
    against = ratio(best.measured(measure), bare[0].measured(measure)) if bare else None
    as_good = [cell for cell in others if _within(AS_GOOD, cell, best, measure, whole=False)]
    return Recommendation(best, found, as_good, against, len(able))


def _within(factor: float, cell: Cell, best: Cell, measure: str, *, whole: bool) -> bool:
    """Whether the cell takes at most this times the time of the best one: with its whole interval, or as far as that does
    not exclude it."""
    compared = ratio(cell.measured(measure), best.measured(measure))
    if compared is None:
        return False
    end = compared.high if whole else compared.low
    return end is not None and end <= factor


def advice(cells: Sequence[Cell], measure: str) -> list[Advice]:
    """For each set of conditions, whatever scenario had them, and each control that reaches other cells than those before it:
    what to take. Only where there are at least two configurations to choose among."""
    groups: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in cells:
        key = tuple(sorted((k, v) for k, v in cell.values.items() if k not in (*CHOSEN, "scenario") and v != SAME))
        groups.setdefault(key, []).append(cell)
    found = []
    for key, group in groups.items():
        reached: list[list[int]] = []
        of_group: list[Advice] = []
        for control, is_reached in reversed(CONTROLS.items()):  # the narrowest name for the same cells
            within = [number for number, cell in enumerate(group) if is_reached(cell.values)]
            chosen = recommend([group[number] for number in within], measure) if within not in reached else None
            if chosen and chosen.of > 1:
                of_group.insert(0, Advice(dict(key), control, chosen))
            reached.append(within)
        found += of_group
    return found
