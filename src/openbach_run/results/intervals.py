# SPDX-License-Identifier: GPL-3.0-or-later
"""Medians and 90th percentiles over seeds with exact intervals, and comparisons of cells.

In virtual time the same seed gives all cells of a campaign the same loss process, so two cells are
compared seed by seed, and the interval is that of their differences or ratios. Elsewhere seeds do
not pair (`unpaired`). Nothing is assumed of how values are
distributed: an interval goes from one of the sorted values to another (order statistics: David and
Nagaraja 2003, chapter 7). How many of n values lie below a quantile is binomial, so the sums are
exact. Five seeds are too few for 95 %: the least and the greatest of n values hold the median with
probability 1 - 2^(1-n), 94 % for 5. The greatest is above the 90th percentile with 1 - 0.9^n: 88 %
for 20.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import comb, exp, lgamma, log
from operator import sub, truediv

CONFIDENCE = 0.95
INTERVAL_SEEDS = 6
"""Fewer seeds have no interval of the median with this confidence."""
TAIL = 0.9
TAIL_SEEDS = 10
"""The 90th percentile of fewer seeds is their greatest value."""
BOUND_SEEDS = 29
"""Fewer seeds have no upper bound of the 90th percentile with CONFIDENCE."""


@dataclass(frozen=True)
class Estimate:
    """A median over `seeds` seeds, with its interval, and the tail above it.

    `low` and `high` are the ends of the 95 % interval, or the least and the greatest value of fewer
    than INTERVAL_SEEDS seeds. They are None for a single seed: nothing can be claimed from it.
    """

    median: float
    low: float | None
    high: float | None
    seeds: int
    p90: float | None = None
    """The least value that nine in ten seeds do not exceed; None for fewer than TAIL_SEEDS."""
    p90_high: float | None = None
    """Its upper bound: with CONFIDENCE, or the greatest value of fewer than BOUND_SEEDS seeds."""
    span: tuple[float, float] | None = None
    """The least and the greatest value."""

    def lies_within(self, least: float, most: float) -> bool | None:
        """Return True or False if the whole interval says so, None if it does not decide."""
        if self.low is None or self.high is None:
            return None
        if least <= self.low and self.high <= most:
            return True
        return False if self.high < least or self.low > most else None


def estimate(values: Sequence[float]) -> Estimate | None:
    """Return the median of one value per seed, with its interval; None if there are no values."""
    if not values:
        return None
    taken = sorted(map(float, values))
    count, span = len(taken), (taken[0], taken[-1])
    if count == 1:
        return Estimate(taken[0], None, None, 1)
    outside = max(1, _rank(count, 0.5, (1 - CONFIDENCE) / 2))
    middle = (taken[(count - 1) // 2] + taken[count // 2]) / 2
    figures = (middle, taken[outside - 1], taken[-outside], count)
    if count < TAIL_SEEDS:
        return Estimate(*figures, span=span)
    above = max(1, _rank(count, 1 - TAIL, 1 - CONFIDENCE))
    # In whole numbers, rounded up: 0.9 has no exact form.
    return Estimate(*figures, taken[-(-9 * count // 10) - 1], taken[-above], span)


@cache
def _rank(count: int, part: float, chance: float) -> int:
    """Return the greatest k with at most `chance` that fewer than k of `count` values are there.

    Each is there with the probability `part`.
    """
    rank, total = 0, 0.0
    while True:
        ways = lgamma(count + 1) - lgamma(rank + 1) - lgamma(count - rank + 1)
        total += exp(ways + rank * log(part) + (count - rank) * log(1 - part))
        if total > chance:
            return rank
        rank += 1


def figure(
    estimate: Estimate | None, digits: int = 2, form: str = "f", *, tail: bool = False
) -> str:
    """Return median and interval as `28.50 [28.41–28.77]`; a single seed has no interval.

    With `form` g, `digits` counts significant digits.
    """
    return in_text(estimate, lambda value: f"{value:.{digits}{form}}", tail=tail)


def in_text(
    estimate: Estimate | None, number: Callable[[float], str], *, tail: bool = False
) -> str:
    """Return median and interval; `tail`: and the 90th percentile, `, p90 29.10 (to 81.40)`.

    Where all seeds gave the same digits it is one number.
    """
    if estimate is None:
        return "–"
    middle = number(estimate.median)
    if estimate.low is None or estimate.high is None:
        return middle
    if {middle} == {*map(number, estimate.span or (estimate.low, estimate.high))}:
        return middle
    text = f"{middle} [{number(estimate.low)}–{number(estimate.high)}]"
    if tail and estimate.p90 is not None and estimate.p90_high is not None:
        text += f", p90 {number(estimate.p90)} (to {number(estimate.p90_high)})"
    return text


def without_brackets(shown: Iterable[tuple[str, bool]]) -> list[str]:
    """Return notes on figures without brackets; with each is whether its cell has chance."""
    chances = Counter(chance for text, chance in shown if text[-1:].isdigit())
    notes = ["no brackets: all seeds gave these digits"] if chances[False] else []
    if chances[True]:
        cells = f"no brackets in {chances[True]} of the cells with chance"
        notes.append(f"{cells}: nothing random touched their seeds")
    return notes


def ends(counts: Collection[int]) -> str:
    """Return what `low` and `high` are, of cells with so many seeds."""
    if max(counts, default=0) < INTERVAL_SEEDS:
        return "least to greatest"
    fewer = f", of fewer than {INTERVAL_SEEDS} seeds least to greatest"
    return f"95 % interval{fewer if min(counts) < INTERVAL_SEEDS else ''}"


def change_notes(counts: Collection[int], kinds: Collection[bool], what: str = "changes") -> str:
    """Return what comparisons of cells with so many seeds are; `kinds`: paired or not."""
    texts = {
        True: f"median of paired {what} [{ends(counts)}]",
        False: f"median of the {what} of all pairs of runs, unpaired [95 % interval of rank sums]",
    }
    return "; ".join(texts[kind] for kind in sorted(kinds, reverse=True))


def notes(counts: Collection[int], *, tail: bool = False) -> list[str]:
    """Return what a table's figures are, of cells with so many seeds; `tail`: with the p90."""
    several: dict[str, list[int]] = {}
    for count in sorted({*counts} - {0, 1}):
        text = f"median [{ends([count])}]"
        if tail and count >= TAIL_SEEDS:
            bound = f"greatest, above p90 with {100 * (1 - TAIL**count):.0f} %"
            bound = bound if count < BOUND_SEEDS else "95 % upper bound"
            text += f", p90: one in ten is above (to: {bound}),"
        several.setdefault(text, []).append(count)
    return [
        f"{text} of {'up to ' if len(of) > 1 else ''}{of[-1]} seeds" for text, of in several.items()
    ]


def difference(cell: Mapping[int, float], baseline: Mapping[int, float]) -> Estimate | None:
    """Return the median of `cell - baseline` over the seeds (the keys) that both have."""
    return estimate(list(differences(cell, baseline).values()))


def ratio(cell: Mapping[int, float], baseline: Mapping[int, float]) -> Estimate | None:
    """Return the median of `cell / baseline` over the seeds that both have.

    Seeds for which the baseline is zero are left out.
    """
    return estimate(list(ratios(cell, baseline).values()))


def differences(cell: Mapping[int, float], baseline: Mapping[int, float]) -> dict[int, float]:
    """Return `cell - baseline` by seed, for the seeds that both have."""
    return {seed: cell[seed] - baseline[seed] for seed in sorted(cell.keys() & baseline.keys())}


def ratios(cell: Mapping[int, float], baseline: Mapping[int, float]) -> dict[int, float]:
    """Return `cell / baseline` by seed, for the seeds that both have.

    Seeds for which the baseline is zero are left out.
    """
    return {
        seed: cell[seed] / baseline[seed]
        for seed in sorted(cell.keys() & baseline.keys())
        if baseline[seed]
    }


def unpaired(
    values: Iterable[float], others: Iterable[float], how: Callable[[float, float], float] = truediv
) -> Estimate | None:
    """Return the median ratio (or difference: `sub`) of every value to every other one.

    The interval is that of the rank sums (Mann and Whitney; Hodges and Lehmann 1963), from the
    least to the greatest of all where there are too few. `seeds` is the lesser number of values.
    """
    first, second = list(values), [value for value in others if value or how is sub]
    pairs = sorted(how(*pair) for pair in product(first, second))
    seeds = min(len(first), len(second))
    if not pairs:
        return None
    middle = (pairs[(len(pairs) - 1) // 2] + pairs[len(pairs) // 2]) / 2
    if seeds == 1:
        return Estimate(middle, None, None, 1)
    place = max(1, _rank_sum(len(first), len(second))) - 1
    ends = (pairs[place], pairs[-1 - place])
    return Estimate(middle, *ends, seeds, span=(pairs[0], pairs[-1]))


@cache
def _rank_sum(first: int, second: int) -> int:
    """Return the greatest k with at most half of 1 - CONFIDENCE that U is below k.

    U is Mann and Whitney's, of samples of these sizes from one distribution. The ways to each U are
    the coefficients of a Gaussian binomial.
    """
    ways = [1] + [0] * (first * second)
    for size in range(1, first + 1):
        for u in range(first * second, second + size - 1, -1):
            ways[u] -= ways[u - second - size]
        for u in range(size, first * second + 1):
            ways[u] += ways[u - size]
    rank, total = 0, ways[0]
    while total <= (1 - CONFIDENCE) / 2 * comb(first + second, first):
        rank += 1
        total += ways[rank]
    return rank
