# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose one configuration for every link of a campaign, by what somebody controls.

It is the configuration whose worst case is least bad: the greatest ratio of its time to that of the
fastest one on the same link.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from openbach_run.openbach.scenario import SAME
from openbach_run.report.cells import Cell, is_numeral
from openbach_run.report.effects import median_of, widest_tie
from openbach_run.report.recommendations import (
    CHOSEN,
    CONTROLS,
    Conditions,
    configuration_of,
    effort,
    has_idle_pep,
    is_candidate,
)

BAD = 1.5
"""A configuration that takes this many times as long as the fastest one on some link is bad there.
The claims have the same bound."""

EQUIVALENT = 1.05
"""Two VPNs are equivalent if none is shown to take more than 5 % longer."""


@dataclass(frozen=True)
class Choice:
    """Cells to use for a control, by condition, and cells of VPNs that are as fast."""

    control: tuple[str, ...]
    """The arguments that are within reach and have several values."""
    cells: dict[Conditions, Cell]
    others: list[Cell]
    """One cell of each equivalent configuration that differs in its VPN only."""
    worst: float
    """The greatest ratio to the fastest configuration within reach."""


def conditions_of(cell: Cell) -> Conditions:
    """Return what nobody chooses: all values but those of CHOSEN."""
    told = {name: value for name, value in cell.values.items() if value != SAME}
    return tuple(sorted(pair for pair in told.items() if pair[0] not in (*CHOSEN, "scenario")))


def choices(cells: Sequence[Cell], measure: str, tie: Mapping[str, float]) -> list[Choice]:
    """Return a choice for each control that reaches other cells than a narrower one."""
    reached: list[list[int]] = []
    found: list[Choice] = []
    for is_reached in reversed(CONTROLS.values()):
        within = [number for number, cell in enumerate(cells) if is_reached(cell.values)]
        if within not in reached:
            reached.append(within)
            of_control = [cells[number] for number in within]
            chosen = _choice(of_control, measure, tie)
            found = [chosen, *found] if chosen else found
    return found


def _choice(cells: Sequence[Cell], measure: str, tie: Mapping[str, float]) -> Choice | None:
    """Return the choice among these cells; None if there are not at least two configurations."""
    is_vpn = any(cell.values.get("vpn", "none") != "none" for cell in cells)
    table: dict[tuple[str, ...], dict[Conditions, Cell]] = {}
    # A PEP that does nothing comes last: its configuration is that without it.
    for cell in sorted(cells, key=has_idle_pep):
        if is_candidate(cell, measure) and (cell.values.get("vpn") != "none" or not is_vpn):
            table.setdefault(configuration_of(cell), {}).setdefault(conditions_of(cell), cell)
    if len(table) < 2:
        return None
    fastest: dict[Conditions, float] = {}
    for of_links in table.values():
        for key, cell in of_links.items():
            fastest[key] = min(fastest.get(key, math.inf), median_of(cell, measure))
    hardest = _hardest(fastest)
    # What was not run at the greatest loss of one of its links may only look good there.
    able = {name: one for name, one in table.items() if _hardest(one) <= hardest} or table
    worst = {name: _worst(one, fastest, measure) for name, one in able.items()}
    # Of what is bad nowhere that comes first which was run under most conditions.
    good = [name for name in able if worst[name] <= BAD]
    widest = max((len(able[name]) for name in good), default=0)
    good = [name for name in good if len(able[name]) == widest] or list(able)
    least = min(worst[name] for name in good)
    equal = []
    for name in good:
        if worst[name] <= least * max(EQUIVALENT, widest_tie(able[name].values(), tie)):
            equal.append(name)
    best = min(equal, key=lambda name: (effort(_first(able[name])), worst[name]))
    others = []
    for name in equal:
        if name != best and name[1:] == best[1:]:
            others.append(_first(able[name]))
    control = tuple(name for name in ("cc", "pep", "vpn") if _several(cells, name))
    return Choice(control, able[best], others, worst[best])


def _several(cells: Sequence[Cell], name: str) -> bool:
    return len({cell.values.get(name) for cell in cells}) > 1


def _first(of_links: Mapping[Conditions, Cell]) -> Cell:
    return next(iter(of_links.values()))


def _worst(
    of_links: Mapping[Conditions, Cell], fastest: Mapping[Conditions, float], measure: str
) -> float:
    return max(median_of(cell, measure) / fastest[key] for key, cell in of_links.items())


def _hardest(links: Iterable[Conditions]) -> set[Conditions]:
    """Return the links with the greatest loss, one of each set that differs in the loss only."""
    greatest: dict[Conditions, tuple[float, Conditions]] = {}
    for key in links:
        rest = tuple(pair for pair in key if pair[0] != "loss")
        loss = dict(key).get("loss", "")
        value = float(loss) if is_numeral(loss) else 0.0
        if rest not in greatest or value > greatest[rest][0]:
            greatest[rest] = value, key
    return {key for _, key in greatest.values()}
