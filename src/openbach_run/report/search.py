# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for the assumptions under which claims hold.

One score decides: the number of findings that do not hold, and, where this is equal, how far the
comparisons lie outside their bounds, with a price for each alternative.

1. Each alternative is tried alone, with all other assumptions as our scenarios have them.
2. The changes by each alternative alone, added up as if they were independent, predict the score of
   any choice of alternatives.
3. From the best choice so far the search goes to the first one with a better score, until there is
   none. It tries the choice with the best prediction, then those that differ in one or two
   assumptions, in the order of their predictions.

A search may have one seed, so it goes by the medians, whatever their intervals are. All campaigns
have the same seeds, so everything is paired by seed. What the search finds is run again with seeds
that it has not used (`Search.again`), and only that gives verdicts and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations, product, zip_longest
from statistics import median

from openbach_run.report.assumptions import Assumption, Choice
from openbach_run.report.cells import FACTORS
from openbach_run.report.claims import (
    BUT_FOR,
    CANNOT_TELL,
    DOES_NOT,
    HOLDS,
    MARGIN,
    Claim,
    Comparison,
    Finding,
    Part,
)
from openbach_run.results.intervals import Estimate, differences, estimate, ratios

MOST_TOGETHER = 2
"""The number of assumptions that are changed at once."""

Key = tuple[str, str, str]
"""A finding: claim, what is compared, orbit."""
Pair = tuple[str, str]
"""An assumption and one of its alternatives."""
Of = tuple[str, str]
"""A claim and one of its orbits."""
Place = tuple[Key, object]
"""A comparison of a finding, whatever choice it was made under."""
Score = tuple[int, float]
"""What is to be least: findings that do not hold, then the cost."""


class Stop(Exception):
    """Raised by the function that judges, to end the search with what it has."""


@dataclass(frozen=True)
class Tried:
    """A choice, and the claims as they are judged under it."""

    choice: dict[str, str]
    claims: list[Claim]

    @cached_property
    def findings(self) -> dict[Key, Finding]:
        """Return the findings on all claims by their key."""
        found: dict[Key, Finding] = {}
        for claim in self.claims:
            found |= {(claim.name, one.part.says, one.orbit): one for one in claim.findings}
        return found

    @cached_property
    def held(self) -> int:
        """Return how many findings hold by their medians."""
        return sum(by_medians(one) == HOLDS for one in self.findings.values())

    @cached_property
    def comparisons(self) -> dict[Place, Comparison]:
        """Return every comparison of every finding, by its place."""
        found: dict[Place, Comparison] = {}
        for key, finding in self.findings.items():
            found |= {(key, _name(one)): one for one in finding.comparisons}
        return found

    @cached_property
    def distance(self) -> float:
        """Return how far the comparisons lie outside their bounds on average, 0 to 1.

        One that was not measured counts as 1, and so do no comparisons at all.
        """
        found = [_outside(one) for one in self.comparisons.values()]
        return sum(found) / len(found) if found else 1.0

    @cached_property
    def levels(self) -> dict[Place, float]:
        """Return a value for each comparison that was measured, whose changes add up.

        It is the logarithm of a ratio or of a measure, or a difference itself.
        """
        measured: dict[Place, float] = {}
        for place, one in self.comparisons.items():
            if one.found:
                value = one.found.median
                is_log = _is_factor(one.part) and value > 0
                measured[place] = math.log(value) if is_log else value
        return measured


@dataclass(frozen=True)
class Search:
    """The choices that were tried, in order; the first has no alternative.

    `whole` is False if the search was ended before it was done.
    """

    tried: list[Tried]
    whole: bool
    untried: list[dict[str, str]] = field(default_factory=list)
    """Alternatives for which there was no time, not even alone."""
    again: list[Tried] = field(default_factory=list)
    """Choices that were run with other seeds. The first has no alternative. Most others have only
    the findings that they drive."""

    @property
    def ranked(self) -> list[Tried]:
        """Return the choices tried: first the one under which most holds.

        Of equals it is the nearest and simplest.
        """
        return sorted(self.tried, key=lambda one: (-one.held, one.distance, len(one.choice)))

    @property
    def best(self) -> Tried:
        """Return the first of the choices tried, as `ranked` has them."""
        return self.ranked[0]

    @property
    def confirmed(self) -> list[Tried]:
        """Return the choices, except ours, for which all findings were run with other seeds."""
        every = self.tried[0].findings.keys()
        return [one for one in self.again if one.choice and one.findings.keys() >= every]

    @property
    def joint(self) -> Tried:
        """Return the choice under which most holds with the other seeds.

        Only choices that were run as a whole with them count. If there are none, or if ours is
        best, it is the best choice by the seeds of the search.
        """
        held: dict[frozenset[Pair], int] = {}
        for one in self.confirmed:
            verdicts = [finding.verdict for finding in one.findings.values()]
            held[_pairs(one.choice)] = verdicts.count(HOLDS)
        known = [one for one in self.ranked if _pairs(one.choice) in held]
        if not self.best.choice or not known:
            return self.best
        return max(known, key=lambda one: held[_pairs(one.choice)])

    @property
    def without_effect(self) -> list[dict[str, str]]:
        """Return the alternatives that change nothing alone."""
        alone = [one for one in self.tried if len(one.choice) == 1]
        return [one.choice for one in alone if not _is_moved(self.tried[0], one)]

    def same_again(self, choice: Choice) -> Tried | None:
        """Return a choice as it was run with the other seeds, or None."""
        return next((one for one in self.again if one.choice == choice), None)


def _pairs(choice: Choice) -> frozenset[Pair]:
    return frozenset(choice.items())


def by_medians(finding: Finding) -> str:
    """Return the verdict on a finding by the medians of its comparisons."""
    within = _within(finding)
    if within == len(finding.comparisons) > 0 and not finding.not_run:
        return HOLDS
    if within > len(finding.comparisons) / 2:
        return BUT_FOR
    return DOES_NOT if any(one.found for one in finding.comparisons) else CANNOT_TELL


def _within(finding: Finding) -> int:
    """Return how many of its comparisons lie within their bounds."""
    return sum(_outside(one) == 0 for one in finding.comparisons)


def _outside(one: Comparison) -> float:
    """Return how far a comparison's median lies outside its bounds, 0 to 1.

    It is 1 if the comparison was not measured.
    """
    return 1.0 if one.found is None else _distance(one.part, one.found.median)


def _distance(part: Part, value: float) -> float:
    """Return how far a value lies outside a part's bounds with their margin.

    It is a part of the bound.
    """
    least, most = part.with_margin
    bound = part.least if value < least else part.most
    excess = max(least - value, value - most, 0.0)
    return min(1.0, excess / abs(bound)) if excess and bound else min(1.0, excess)


def _is_factor(part: Part) -> bool:
    return part.is_ratio or part.against is None


def _name(one: Comparison) -> object:
    """Return what tells a comparison from the others of its finding, under every choice."""
    own = {*FACTORS, *one.part.cell} - {*one.part.best_over, "scenario", "orbit"}
    other = {*(one.part.against or ())} - {*one.part.against_best_over}
    here, there = one.cell.values, one.against.values if one.against else {}
    of_cell = frozenset((name, here.get(name)) for name in own)
    return of_cell, frozenset((name, there.get(name)) for name in other)


def search(
    assumptions: Mapping[str, Assumption],
    judged: Callable[[Choice], list[Claim]],
    may_try: Callable[[Choice], bool] = lambda choice: True,
    before: Iterable[Choice] = (),
) -> Search:
    """Try choices until none is better, and return all that were tried.

    Each choice is tried once, and only if `may_try` allows it. `before` has choices that an earlier
    search has found; they are tried as well. `judged` returns the claims under a choice, and may
    raise Stop.
    """
    tried: dict[frozenset[Pair], Tried] = {}
    alone = [dict([pair]) for pair in in_turn(assumptions)]
    whole = True

    def try_each(choices: Iterable[Choice]) -> Iterator[Tried]:
        """Yield the choices that could be tried."""
        nonlocal whole
        for choice in choices:
            key = _pairs(choice)
            if key not in tried and tried and not may_try(choice):
                whole = False
                continue
            if key not in tried:
                in_order = {name: choice[name] for name in assumptions if name in choice}
                tried[key] = Tried(in_order, judged(in_order))
            yield tried[key]

    try:
        known = list(try_each([{}, *alone, *before]))
        model = _Model(known)
        best = min(known, key=model.score)
        while True:
            better = (
                one
                for one in try_each(model.promising(best))
                if model.score(one) < model.score(best)
            )
            found = next(better, None)
            if found is None:
                break
            best = found
    except Stop:
        whole = False
    untried = [one for one in alone if _pairs(one) not in tried]
    return Search(list(tried.values()), whole, untried)


def in_turn(assumptions: Mapping[str, Assumption]) -> list[Pair]:
    """Return the first alternative of each assumption, then the second of each, and so on."""
    by_assumption = []
    for name, one in assumptions.items():
        by_assumption.append([(name, value) for value in one.alternatives])
    # Assumptions with fewer alternatives than others have None in the later rounds.
    rounds = zip_longest(*by_assumption)
    return [pair for pair in chain.from_iterable(rounds) if pair is not None]


class _Model:
    """Predicts scores, as if the changes by each alternative alone added up."""

    def __init__(self, known: Sequence[Tried]) -> None:
        """Take the choices that were tried: ours first, then each alternative alone."""
        self._base = known[0]
        self._changes: dict[Pair, dict[Place, float]] = {}
        for one in known:
            if len(one.choice) == 1 and _is_moved(self._base, one):
                (pair,) = one.choice.items()
                self._changes[pair] = _added_levels(self._base, one)

    def score(self, one: Tried) -> Score:
        """Return the score of a choice that was tried."""
        return len(one.findings) - one.held, self._cost(one.distance, one.choice)

    def promising(self, here: Tried) -> Iterator[dict[str, str]]:
        """Yield the choices to try after `here`: the one that promises most, then its neighbours.

        The neighbours come in the order of what they promise.
        """
        # If all holds under ours, nothing can be better.
        if self.score(here) == (0, 0.0):
            return
        promised, best = self.score(here), here.choice
        while True:
            (next_promised, next_best), *_ = self._neighbours(here, best) or [(promised, best)]
            if next_promised >= promised:
                break
            promised, best = next_promised, next_best
        yield best
        for _, choice in self._neighbours(here, here.choice):
            yield choice

    def _neighbours(self, here: Tried, middle: Choice) -> list[tuple[Score, dict[str, str]]]:
        """Return the choices that differ from `middle` in a few assumptions, the best first.

        They have the scores that they promise from the levels found for `here`.
        """
        values: dict[str, set[str | None]] = {}
        for name, value in self._changes:
            values.setdefault(name, {None}).add(value)  # None: as ours
        found = []
        for together in range(1, MOST_TOGETHER + 1):
            for names in combinations(values, together):
                others = [sorted(values[name] - {middle.get(name)}, key=str) for name in names]
                for changed in product(*others):
                    there = {**middle, **dict(zip(names, changed, strict=True))}
                    choice = {name: value for name, value in there.items() if value is not None}
                    found.append((self._promised(here, choice), choice))
        return sorted(found, key=lambda one: one[0])

    def _promised(self, here: Tried, there: Choice) -> Score:
        """Return the score that the choice `there` promises, from the levels found for `here`."""
        come = [self._changes.get(pair, {}) for pair in there.items() - here.choice.items()]
        gone = [self._changes.get(pair, {}) for pair in here.choice.items() - there.items()]
        total, missed = 0.0, set()
        for place, one in self._base.comparisons.items():
            outside = 1.0
            if place in here.levels:
                level = here.levels[place] + sum(change.get(place, 0.0) for change in come)
                level -= sum(change.get(place, 0.0) for change in gone)
                is_log = _is_factor(one.part)
                outside = _distance(one.part, math.exp(min(level, 99.0)) if is_log else level)
            total += outside
            missed |= {place[0]} if outside else set()
        return len(missed), self._cost(total / max(1, len(self._base.comparisons)), there)

    def _cost(self, distance: float, choice: Choice) -> float:
        """Return the distance, with a price for each assumption that is not ours.

        So another assumption is taken only if it brings the claims nearer by more than MARGIN of
        how far they are from holding under ours.
        """
        return distance + MARGIN * self._base.distance * len(choice)


def _added_levels(base: Tried, one: Tried) -> dict[Place, float]:
    """Return by how much each level differs from that of `base`, where both have one."""
    both = base.levels.keys() & one.levels.keys()
    return {place: one.levels[place] - base.levels[place] for place in both}


def _is_moved(base: Tried, one: Tried) -> bool:
    """Return whether any level changed by more than MARGIN, or is missing in one of the two.

    A difference changes by more if it does so as a part of the larger of its bounds.
    """

    def relevant(part: Part) -> float:
        bounds = [abs(bound) for bound in (part.least, part.most) if math.isfinite(bound) and bound]
        return MARGIN * (1.0 if _is_factor(part) else max(bounds, default=1.0))

    return base.levels.keys() != one.levels.keys() or any(
        abs(added) > relevant(base.comparisons[place].part)
        for place, added in _added_levels(base, one).items()
    )


@dataclass(frozen=True)
class Effect:
    """The change of a finding by one alternative alone."""

    assumption: str
    alternative: str
    change: Estimate
    """Over the seeds: for each the median over the comparisons of the factor by which the ratio or
    measure changes, or of the amount by which a difference changes. Only comparisons that come into
    or out of their bounds count, if any do."""
    is_factor: bool
    more: int
    """The number of its comparisons that come within their bounds, less those that go out of
    them."""

    @property
    def size(self) -> tuple[int, float]:
        """Return how much it does: comparisons, then the change, whatever its direction."""
        by = self.change.median
        return abs(self.more), abs(math.log(by) if self.is_factor and by > 0 else by)


def effects(tried: Sequence[Tried]) -> dict[Key, list[Effect]]:
    """Return the effects of the alternatives that were tried alone, by finding.

    The first of `tried` has no alternative.
    """
    told: dict[Key, list[Effect]] = {}
    for key, before in tried[0].findings.items():
        told[key] = []
        for one in tried:
            after = one.findings.get(key)
            if after is None or len(one.choice) != 1:
                continue
            (pair,) = one.choice.items()
            change, more = _change(before, after), _within(after) - _within(before)
            if change:
                told[key].append(Effect(*pair, change, _is_factor(before.part), more))
    return told


def _change(before: Finding, after: Finding) -> Estimate | None:
    """Return the change between two findings, see Effect.change; None if no seed has both."""
    now = {_name(one): one for one in after.comparisons}
    then_and_now = [(one, now.get(_name(one))) for one in before.comparisons]
    both = [(one, then) for one, then in then_and_now if then is not None]
    moved = [(one, then) for one, then in both if bool(_outside(one)) != bool(_outside(then))]
    by_seed: dict[int, list[float]] = {}
    for one, then in moved or both:
        changes = ratios if _is_factor(one.part) else differences
        for seed, change in changes(then.by_seed, one.by_seed).items():
            by_seed.setdefault(seed, []).append(change)
    return estimate([median(by_seed[seed]) for seed in sorted(by_seed)])


def drivers(found: Search) -> list[dict[Pair, set[Of]]]:
    """Return the alternatives that alone change how many comparisons hold, with what they drive.

    First come those that do most to each finding, then the second of each, and so on.
    """
    rounds: list[dict[Pair, set[Of]]] = []
    for (claim, _, orbit), several in effects(found.tried).items():
        driving = [one for one in several if one.more]
        most_first = sorted(driving, key=lambda one: one.size, reverse=True)
        for number, one in enumerate(most_first):
            if number == len(rounds):
                rounds.append({})
            rounds[number].setdefault((one.assumption, one.alternative), set()).add((claim, orbit))
    return rounds


def regions(found: Search) -> dict[Key, str]:
    """Return, by finding, under which of the choices tried it holds by its medians, in words.

    That is ours, or single alternatives, or the fewest alternatives that are enough together. A
    choice that was not run with the other seeds counts as different from ours if it was different
    with the seeds of the search. If that was a single seed, the words say so.
    """
    return {key: _region(key, found) for key in found.tried[0].findings}


def _region(key: Key, found: Search) -> str:
    def again(one: Tried) -> Finding | None:
        judged = found.same_again(one.choice)
        return judged.findings.get(key) if judged else None

    ours = found.tried[0]
    searched, judged = by_medians(ours.findings[key]) == HOLDS, again(ours)
    ours_hold = by_medians(judged) == HOLDS if judged else searched
    holding: list[tuple[int, str]] = []
    breaking: list[tuple[int, str]] = []
    for one in found.tried[1:]:
        if key not in one.findings:
            continue
        finding = again(one) or one.findings[key]
        holds = by_medians(finding) == HOLDS
        words = " and ".join(f"{name}: {value}" for name, value in one.choice.items())
        if not again(one):
            holds = holds if holds != searched else ours_hold
            words += " (one seed)" if judged and _seeds(finding) == 1 else ""
        (holding if holds else breaking).append((len(one.choice), words))
    if ours_hold:
        alone = [words for several, words in breaking if several == 1]
        return (
            f"ours, but not {'; or '.join(alone)}"
            if alone
            else "ours and under each alternative alone"
        )
    alone = [words for several, words in holding if several == 1]
    fewest = min(holding, key=lambda one: one[0], default=(0, "none of what was tried"))
    return "; or ".join(alone) or fewest[1]


def _seeds(finding: Finding) -> int:
    """Return the most seeds that any of its comparisons has."""
    return max((one.found.seeds for one in finding.comparisons if one.found), default=0)
