# SPDX-License-Identifier: GPL-3.0-or-later
"""Advice of page 1: by what somebody controls, the configuration that is never far from the best.

Of each configuration the greatest ratio to the best one under the same condition counts. Only what
was run under all conditions of a block is a candidate, with seeds enough, and no sender without
congestion control or encryption. A PEP is advised only where it is shown to be better than none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import ne

from openbach_run.report.cells import Cell
from openbach_run.report.effects import widest_tie
from openbach_run.report.page_model import CHOSEN, EQUIVALENT, USUAL, Block, PageOne, has_fixed_rate
from openbach_run.report.recommendations import effort, has_idle_pep, is_candidate, is_in_clear

Configuration = tuple[str, ...]
"""Values of CHOSEN, in their order."""


@dataclass(frozen=True)
class Choice:
    """Configuration to use for a control, and VPNs that are equivalent with its own."""

    control: tuple[str, ...]
    """The arguments that are within reach and have several values."""
    cells: list[Cell]
    """The configuration's cells, one for each condition of the block."""
    vpns: list[str]
    worst: list[Cell]
    """Cells of the configuration that is worst at its worst, of those that differ in one thing."""


@lru_cache(maxsize=16)  # most rules ask for them, and each block's take long
def advice(page: PageOne, block: Block) -> list[Choice]:
    """Return a choice for each control that reaches other cells than a narrower one.

    There is none for a measure of which neither more nor less is better.
    """
    advised: list[Choice] = []
    if not block.is_ranked:
        return advised
    reached: list[list[Cell]] = []
    fixed = [(), ("cc",), ("cc", "pep")]
    for names in reversed(fixed):
        held = {name: block.usual[name] for name in names if name in block.usual}
        within = [cell for cell in block.of(**held) if not _is_twice(block, cell)]
        if within not in reached:
            reached.append(within)
            chosen = _choice(page, block, within)
            advised = [chosen, *advised] if chosen else advised
    return advised


def advised_vpns(page: PageOne, block: Block) -> list[str]:
    """Return the VPNs that the table names for a block, the narrowest control's first."""
    vpns: list[str] = []
    for choice in reversed(advice(page, block)):
        vpns += choice.vpns
    return list(dict.fromkeys(vpns))


def _is_twice(block: Block, cell: Cell) -> bool:
    """Return whether a PEP does nothing in a cell, and the cell without it is there as well."""
    return has_idle_pep(cell) and block.other(cell, pep=USUAL["pep"]) is not None


def _choice(page: PageOne, block: Block, within: Sequence[Cell]) -> Choice | None:
    """Return the choice among these cells; None without two that were run everywhere."""
    is_vpn = any(cell.values.get("vpn", USUAL["vpn"]) != USUAL["vpn"] for cell in within)
    every: dict[Configuration, list[Cell | None]] = {}
    for cell in within:
        name = tuple(cell.values.get(argument, "") for argument in CHOSEN)
        is_plain = has_fixed_rate(cell) or is_in_clear(cell)
        if name not in every and not is_plain and (name[-1] != USUAL["vpn"] or not is_vpn):
            every[name] = [_cell(block, name, wanted) for wanted in block.conditions]
    table = {}
    for name, cells in every.items():
        candidates = [cell for cell in cells if cell and is_candidate(cell, block.measure)]
        if len(candidates) == len(block.conditions):
            table[name] = candidates
    if len(table) < 2:
        return None
    worst = _worst(block, table)
    tie = max(EQUIVALENT, widest_tie(within, block.tie))
    least = min(worst, key=lambda name: worst[name])
    without_pep = (least[0], USUAL["pep"], least[2])
    equal = [
        name
        for name in table
        if worst[name] <= worst[least] * tie
        or (name == without_pep and not _is_shown_better(block, table, least, name))
    ]
    best = min(equal, key=lambda name: (effort(table[name][0]), worst[name]))
    vpns = [vpn for vpn in page.alike(best[-1]) if (*best[:-1], vpn) in table]
    control = tuple(name for name in CHOSEN if _has_several(within, name))
    alike = [best[-1], *(vpn for vpn in vpns if vpn != best[-1])]
    others = [
        name for name in table if (*name[:-1], "") != (*best[:-1], "") or name[-1] not in alike
    ]
    apart = [name for name in others if sum(map(ne, name, best)) == 1]
    bad = max(apart or others or [best], key=lambda name: worst[name])
    return Choice(control, table[best], alike, table[bad])


def _is_shown_better(
    block: Block,
    table: Mapping[Configuration, Sequence[Cell]],
    name: Configuration,
    other: Configuration,
) -> bool:
    """Return whether a configuration is shown to be better than another one under any condition."""
    pairs = zip(table[name], table[other], strict=True)
    compared = [block.compare(cell, of_other) for cell, of_other in pairs if cell is not of_other]
    return any(comparison.is_better for comparison in compared if comparison)


def _has_several(cells: Sequence[Cell], name: str) -> bool:
    return len({cell.values.get(name) for cell in cells}) > 1


def _cell(block: Block, name: Configuration, wanted: Mapping[str, str]) -> Cell | None:
    """Return a configuration's cell under a condition."""
    values = {**wanted, **dict(zip(CHOSEN, name, strict=True))}
    return next((cell for cell in block.cells if cell.has(values)), None)


def _worst(
    block: Block, table: Mapping[Configuration, Sequence[Cell]]
) -> dict[Configuration, float]:
    """Return by configuration how many times worse than the best one it is at its worst."""
    best = []
    take = max if block.is_more_better else min
    for cells in zip(*table.values(), strict=True):
        best.append(take(block.median(cell) for cell in cells))
    ratios = {}
    for name, own in table.items():
        bad = [block.badness(cell, best_value) for cell, best_value in zip(own, best, strict=True)]
        ratios[name] = max(bad)
    return ratios
