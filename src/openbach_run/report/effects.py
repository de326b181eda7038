# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what decides a measure: how much each of the arguments that were swept changes it.

Cells that differ in one argument only are compared (`cells.measured_against`). Two of them differ
if the whole interval of their ratio lies outside a tie, which is as wide as what a PEP that does
nothing changes (`recommendations.ties`), and if transfers differ by more than a round trip. A
transfer goes in rounds: where in a round it begins and ends is chance in a real network, and the
same in every seed here if nothing is lost. Of a page a round less is what people wait less.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import pvariance

from openbach_run.report.cells import Cell, measured_against
from openbach_run.report.recommendations import LEAST_TIE
from openbach_run.report.words import ACCESS
from openbach_run.results.seeds import MIN_SEEDS
from openbach_run.units import number

TOGETHER = {"orbit": ("scenario",)}
"""An argument → others that belong to it: they have no effect of their own here."""
LABEL = "scenario"
"""A scenario's name says nothing where all other values are the same."""
CHANCE = 0.25
"""An argument matters if more than this part of its comparisons differ. Five seeds lie on one side
of the truth in one of sixteen comparisons, by chance alone."""


@dataclass(frozen=True)
class Effect:
    """The effect of one argument on a measure."""

    name: str
    share: float
    """The part of the variance of the measure's logarithm that it explains, alone and together with
    others."""
    differing: int
    compared: int
    """Comparisons that could be decided, and how many of them differ."""
    undecided: int
    """Comparisons that have too few seeds."""
    groups: list[list[Cell]]
    """Cells that differ in this argument only."""

    @property
    def matters(self) -> bool:
        """Return whether more comparisons differ than chance alone explains."""
        return self.differing > CHANCE * self.compared


def effects(cells: Sequence[Cell], measure: str, tie: Mapping[str, float]) -> list[Effect]:
    """Return the effect of each argument that was swept, the largest first."""
    measured = [cell for cell in cells if cell.measured(measure)]
    whole = _variance(measured, measure)
    ranked = []
    for name, free in _swept(measured).items():
        groups = [group for group in _grouped(measured, free) if len(group) > 1]
        pairs = itertools.chain.from_iterable(itertools.combinations(group, 2) for group in groups)
        decided = [differ(cell, other, measure, tie) for cell, other in pairs]
        inside = [_variance(group, measure) * len(group) for group in groups]
        in_groups = sum(map(len, groups))
        share = sum(inside) / in_groups / whole if in_groups and whole else 0.0
        compared = sum(is_different is not None for is_different in decided)
        differing = sum(is_different is True for is_different in decided)
        ranked.append(Effect(name, share, differing, compared, len(decided) - compared, groups))
    return sorted(ranked, key=lambda effect: (not effect.matters, -effect.share))


def differ(cell: Cell, other: Cell, measure: str, tie: Mapping[str, float]) -> bool | None:
    """Return True if two cells are shown to differ by more than a tie, and False if they are not.

    Return None where they have too few seeds for either.
    """
    ratio = measured_against(cell, other, measure)
    if ratio is None or ratio.seeds < MIN_SEEDS:
        return None
    if _is_within_a_round(cell, other, measure):
        return False
    widest = widest_tie((cell, other), tie)
    return ratio.lies_within(1 / widest, widest) is False


def _is_within_a_round(cell: Cell, other: Cell, measure: str) -> bool:
    """Return whether the medians of a time differ by less than a round trip of the link."""
    delays_ms = [number(cell.values.get(name, "")) for name in ("delay_ms", "terrestrial_ms")]
    if not measure.endswith(("transfer_time_s", "cache_time_s")) or delays_ms[0] is None:
        return False
    round_s = 2 * (delays_ms[0] + (delays_ms[1] or 0)) / 1000
    return abs(median_of(cell, measure) - median_of(other, measure)) < round_s


def widest_tie(cells: Iterable[Cell], tie: Mapping[str, float]) -> float:
    """Return the largest tie of the congestion controls of these cells, as a ratio."""
    return max(tie.get(cell.values.get("cc", ""), LEAST_TIE) for cell in cells)


def median_of(cell: Cell, measure: str) -> float:
    """Return the cell's median; infinity for one that was not measured."""
    estimate = cell.estimate(measure)
    return estimate.median if estimate else math.inf


def _variance(cells: Sequence[Cell], measure: str) -> float:
    logarithms = []
    for cell in cells:
        median = median_of(cell, measure)
        logarithms += [math.log(median)] if 0 < median < math.inf else []
    return pvariance(logarithms) if logarithms else 0.0


def _swept(cells: Sequence[Cell]) -> dict[str, tuple[str, ...]]:
    """Return each argument that was swept, with all that may differ between its cells.

    What follows from the orbit, such as the delay, belongs to the orbit.
    """
    names = dict.fromkeys(itertools.chain.from_iterable(cell.values for cell in cells))
    several = [name for name in names if _has_several(cells, name)]
    of_orbit = [name for name in several if name != "orbit" and _follows(cells, name, "orbit")]
    followers = set(itertools.chain.from_iterable(TOGETHER.values())) | set(of_orbit)
    with_access = ACCESS[1:] if ACCESS[0] in several and ACCESS[0] not in of_orbit else ()
    followers |= set(with_access)
    swept = {}
    for name in several:
        if name not in followers and name != LABEL:
            own = of_orbit if name == "orbit" else with_access if name == ACCESS[0] else ()
            swept[name] = (name, LABEL, *TOGETHER.get(name, ()), *own)
    return swept


def _has_several(cells: Sequence[Cell], name: str) -> bool:
    return len({cell.values.get(name) for cell in cells}) > 1


def _follows(cells: Sequence[Cell], name: str, leader: str) -> bool:
    """Return whether the leader's value says the argument's, and the leader has several."""
    values: dict[str | None, set[str | None]] = {}
    for cell in cells:
        values.setdefault(cell.values.get(leader), set()).add(cell.values.get(name))
    return len(values) > 1 and all(len(leaders) == 1 for leaders in values.values())


def _grouped(cells: Sequence[Cell], free: Sequence[str]) -> list[list[Cell]]:
    groups: dict[frozenset[tuple[str, str]], list[Cell]] = {}
    for cell in cells:
        rest = frozenset(item for item in cell.values.items() if item[0] not in free)
        groups.setdefault(rest, []).append(cell)
    return list(groups.values())
