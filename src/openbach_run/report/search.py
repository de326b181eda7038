# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for the assumptions under which claims hold.

1. Each alternative is tried alone, with all other assumptions as our scenarios have them: first one
alternative of each assumption, then the second of each, in the order of the file. Alternatives that
change any comparison by more than the margin are influential.

2. The changes by each alternative alone, added up as if they were independent, promise how near the
claims come under any choice of alternatives. The search begins with the choice that promises most.

3. It goes on to the first neighbour that is better, until none is. A neighbour differs in one
assumption, or in two if one leads to nothing better. Neighbours that promise most are tried first.

"Better" means at first that more findings hold; only choices that promise this are tried. Then it
means that the claims are nearer, whatever is promised: how far their comparisons lie outside their
bounds. The number of findings that hold is too coarse to lead far. The result is the choice, of all
that were tried, under which most findings hold. Everything is paired by seed, because all campaigns
have the same seeds.

A search may have one seed, so it goes by the medians, whatever their intervals are. What it finds
is run again with seeds that it has not used (`Search.again`), and only that gives verdicts and
intervals.
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
"""The number of assumptions that are changed at once where changing one leads no nearer."""

Key = tuple[str, str, str]
"""A finding: claim, what is compared, orbit."""
Pair = tuple[str, str]
"""An assumption and one of its alternatives."""
Of = tuple[str, str]
"""A claim and one of its orbits."""
Place = tuple[Key, object]
"""A comparison of a finding, whatever choice it was made under."""
Levels = Mapping[Place, float]
"""The level of each comparison, a value whose effects add up: the logarithm of a ratio or of a
measure, or a difference itself."""
Judged = Callable[[Choice], list[Claim]]


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
    def distance(self) -> float:
        """Return how far the comparisons lie outside their bounds on average, as a part of the
        bound.

        Each counts as at most 1; one that was not measured counts as 1. Without comparisons it is
        1, too.
        """
        found = [_outside(one) for _, one in self._comparisons]
        return sum(found) / len(found) if found else 1.0

    @cached_property
    def _comparisons(self) -> list[tuple[Place, Comparison]]:
        """Return every comparison of every finding, with its place."""
        found: list[tuple[Place, Comparison]] = []
        for key, several in self.findings.items():
            found += [((key, _name(one)), one) for one in several.comparisons]
        return found

    @cached_property
    def parts(self) -> dict[Place, Part]:
        """Return the part of a claim to which each comparison belongs."""
        return {place: one.part for place, one in self._comparisons}

    @cached_property
    def levels(self) -> dict[Place, float]:
        """Return the level of each comparison that was measured."""
        return {
            place: _level(one.part, one.found.median)
            for place, one in self._comparisons
            if one.found
        }


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
        """Return the choices tried: first the one under which most holds, of equals the nearest and
        simplest.
        """
        return sorted(self.tried, key=lambda one: (-one.held, one.distance, len(one.choice)))

    @property
    def best(self) -> Tried:
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
        if not self.best.choice or not self.confirmed:
            return self.best
        held: dict[frozenset[Pair], int] = {}
        for one in self.confirmed:
            verdicts = [each.verdict for each in one.findings.values()]
            held[_pairs(one.choice)] = verdicts.count(HOLDS)
        known = [one for one in self.ranked if _pairs(one.choice) in held]
        return max(known, key=lambda one: held[_pairs(one.choice)])

    @property
    def without_effect(self) -> list[dict[str, str]]:
        """Return the alternatives that change nothing alone."""
        base = self.tried[0]
        return [
            one.choice for one in self.tried if len(one.choice) == 1 and not _is_moved(base, one)
        ]

    def same_again(self, choice: Choice) -> Tried | None:
        """Return a choice as it was run with the other seeds, or None."""
        return next((one for one in self.again if one.choice == choice), None)

    def finding(self, one: Tried, key: Key) -> Finding | None:
        """Return a choice's finding with the other seeds if it was run with them, else with the
        search's.
        """
        again = self.same_again(one.choice)
        return again.findings[key] if again and key in again.findings else one.findings.get(key)


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
    """Return how far a comparison's median lies outside its bounds, 0 to 1; 1 if it was not
    measured.
    """
    return 1.0 if one.found is None else _distance(one.part, one.found.median)


def _distance(part: Part, value: float) -> float:
    """Return how far a value lies outside a part's bounds with their margin, as a part of the
    bound.
    """
    least, most = part.with_margin
    bound = part.least if value < least else part.most
    excess = max(least - value, value - most, 0.0)
    return min(1.0, excess / abs(bound)) if excess and bound else min(1.0, excess)


def _is_factor(part: Part) -> bool:
    return part.is_ratio or part.against is None


def _level(part: Part, value: float) -> float:
    """Return a value on the scale on which effects add up, see Levels."""
    return math.log(value) if _is_factor(part) and value > 0 else value


def _name(one: Comparison) -> object:
    """Return what tells a comparison from the others of its finding, the same under every choice."""
    own = {*FACTORS, *one.part.cell} - {*one.part.best_over, "scenario", "orbit"}
    other = {*(one.part.against or ())} - {*one.part.against_best_over}
    here, there = one.cell.values, one.against.values if one.against else {}
    of_cell = frozenset((name, here.get(name)) for name in own)
    return of_cell, frozenset((name, there.get(name)) for name in other)


def search(
    assumptions: Mapping[str, Assumption],
    judged: Judged,
    may_try: Callable[[Choice], bool] = lambda choice: True,
    before: Iterable[Choice] = (),
) -> Search:
    """Try choices until none is nearer, and return all that were tried.

    Each choice is tried once, and only if `may_try` allows it. `before` has choices that an earlier
    search has found; they are tried as well. `judged` returns the claims under a choice, and may
    raise Stop.
    """
    tried: dict[frozenset[Pair], Tried] = {}
    refused: list[dict[str, str]] = []

    def try_one(choice: Choice) -> Tried | None:
        key = _pairs(choice)
        if key not in tried:
            if tried and not may_try(choice):
                refused.append(dict(choice))
                return None
            tried[key] = Tried(dict(choice), judged(choice))
        return tried[key]

    stopped = False
    try:
        _search(assumptions, try_one, before)
    except Stop:
        stopped = True
    alone = [dict([pair]) for pair in in_turn(assumptions)]
    untried = [one for one in alone if _pairs(one) not in tried]
    return Search(list(tried.values()), not refused and not stopped, untried)


def in_turn(assumptions: Mapping[str, Assumption]) -> list[Pair]:
    """Return the first alternative of each assumption, then the second of each, and so on."""
    by_assumption = []
    for name, one in assumptions.items():
        by_assumption.append([(name, value) for value in one.alternatives])
    # Assumptions with fewer alternatives than others have None in the later rounds.
    rounds = zip_longest(*by_assumption)
    return [pair for pair in chain.from_iterable(rounds) if pair is not None]


def _search(
    assumptions: Mapping[str, Assumption],
    try_one: Callable[[Choice], Tried | None],
    before: Iterable[Choice],
) -> None:
    base = try_one({})
    if base is None:
        return
    alone: dict[Pair, Tried] = {}
    for pair in in_turn(assumptions):
        found = try_one(dict([pair]))
        if found:
            alone[pair] = found
    influential = {pair: found for pair, found in alone.items() if _is_moved(base, found)}
    promise = _Promise(base, influential)
    known = [base, *alone.values(), *map(try_one, before)]
    most = [*known, try_one(promise.best(_most_hold))]
    here = _climbed(promise, _most_hold, most, try_one, better=True)
    near = [*known, here, try_one(promise.best(_nearest)), try_one(_better(base, influential))]
    _climbed(promise, _nearest, near, try_one, better=False)


Goal = Callable[[int, float], tuple[float, ...]]
"""Returns what is to be least, from the number of findings that do not hold and the cost."""


def _most_hold(unheld: int, cost: float) -> tuple[float, ...]:
    return unheld, cost


def _nearest(unheld: int, cost: float) -> tuple[float, ...]:
    return (cost,)


def _climbed(
    promise: _Promise,
    goal: Goal,
    starts: Iterable[Tried | None],
    try_one: Callable[[Choice], Tried | None],
    *,
    better: bool,
) -> Tried:
    """Go from the best start to better neighbours until none is, and return where that ends.

    With `better` only neighbours that promise to be better are tried.
    """
    here = min(filter(None, starts), key=lambda one: promise.reached(goal, one))
    # If all holds under ours, there is nothing to look for.
    while here.distance or here.choice:
        least, there = (
            promise.reached(goal, here),
            map(try_one, promise.neighbours(goal, here, better=better)),
        )
        found = next((one for one in there if one and promise.reached(goal, one) < least), None)
        if found is None:
            break
        here = found
    return here


def _cost(base: Tried, distance: float, choice: Choice) -> float:
    """Return the distance, with a price for each assumption that is not ours.

    So another assumption is taken only if it brings the claims nearer by more than MARGIN of how
    far they are from holding under ours.
    """
    return distance + MARGIN * base.distance * len(choice)


def _better(base: Tried, influential: Mapping[Pair, Tried]) -> dict[str, str]:
    """Return all alternatives that alone bring the claims nearer; for an assumption with several
    the best.
    """
    nearer = {
        pair: one.distance for pair, one in influential.items() if one.distance < base.distance
    }
    # The nearest comes last, so that it is the one that stays in the dict.
    return dict(sorted(nearer, key=lambda pair: -nearer[pair]))


def _added_levels(base: Tried, one: Tried) -> dict[Place, float]:
    """Return by how much each level differs from that of `base`, where both have one."""
    before = base.levels
    return {place: level - before[place] for place, level in one.levels.items() if place in before}


class _Promise:
    """Predicts the claims under any choice, as if the changes by each alternative alone added up."""

    def __init__(self, base: Tried, influential: Mapping[Pair, Tried]) -> None:
        self._base = base
        self._influential = influential
        self._effects = {pair: _added_levels(base, one) for pair, one in influential.items()}

    def reached(self, goal: Goal, one: Tried) -> tuple[float, ...]:
        """Return the goal as a choice that was tried has reached it."""
        return goal(len(one.findings) - one.held, _cost(self._base, one.distance, one.choice))

    def _promised(self, goal: Goal, here: Tried, there: Choice) -> tuple[float, ...]:
        """Return the goal that the choice `there` promises to reach, from the levels found for
        `here`.
        """
        changed = {
            name
            for name in here.choice.keys() | there.keys()
            if here.choice.get(name) != there.get(name)
        }
        gone = [
            self._effects.get((name, here.choice[name]), {})
            for name in changed
            if name in here.choice
        ]
        come = [self._effects.get((name, there[name]), {}) for name in changed if name in there]
        total, missed = 0.0, set()
        for place, part in self._base.parts.items():
            level = here.levels.get(place)
            # Take the effects of the alternatives that go, add those of the ones that come.
            if level is not None:
                level += sum(one.get(place, 0.0) for one in come) - sum(
                    one.get(place, 0.0) for one in gone
                )
                outside = _distance(part, math.exp(min(level, 99.0)) if _is_factor(part) else level)
            else:
                outside = 1.0
            total += outside
            missed |= {place[0]} if outside else set()
        return goal(len(missed), _cost(self._base, total / max(1, len(self._base.parts)), there))

    def best(self, goal: Goal) -> dict[str, str]:
        """Return the choice that promises most."""
        here: dict[str, str] = {}
        least = self._promised(goal, self._base, here)
        while True:
            there = []
            for together in range(1, MOST_TOGETHER + 1):
                for number, choice in enumerate(_changed(here, self._influential, together)):
                    promised = self._promised(goal, self._base, choice)
                    there.append((promised, together, number, choice))
            promised, _, _, choice = min(there, default=(least, 0, 0, here))
            if promised >= least:
                return here
            here, least = choice, promised

    def neighbours(self, goal: Goal, here: Tried, *, better: bool) -> Iterator[dict[str, str]]:
        """Yield choices that differ in one assumption, those that promise most first; then in more.

        With `better` only those that promise to be better.
        """
        least = self.reached(goal, here)
        for together in range(1, MOST_TOGETHER + 1):
            choices = list(_changed(here.choice, self._influential, together))
            promised = sorted(
                (self._promised(goal, here, choice), number)
                for number, choice in enumerate(choices)
            )
            yield from (choices[number] for one, number in promised if one < least or not better)


def _changed(here: Choice, influential: Iterable[Pair], together: int) -> Iterator[dict[str, str]]:
    """Yield the choices that differ from `here` in exactly `together` assumptions."""
    values: dict[str, set[str | None]] = {}
    for name, value in influential:
        values.setdefault(name, {None}).add(value)  # None: as ours
    for names in combinations(values, together):
        others = [sorted(values[name] - {here.get(name)}, key=str) for name in names]
        for changed in product(*others):
            there = {**here, **dict(zip(names, changed, strict=True))}
            yield {name: value for name, value in there.items() if value is not None}


def _is_moved(base: Tried, one: Tried) -> bool:
    """Return whether any level changed by more than MARGIN, or is missing in one of the two."""
    if base.levels.keys() != one.levels.keys():
        return True
    return any(
        abs(one.levels[place] - level) > _relevant(base.parts[place])
        for place, level in base.levels.items()
    )


def _relevant(part: Part) -> float:
    """Return the change of a level that matters: of a factor, or as a part of what a difference may
    be.
    """
    bounds = [abs(bound) for bound in (part.least, part.most) if math.isfinite(bound) and bound]
    return MARGIN * (1.0 if _is_factor(part) else max(bounds, default=1.0))


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


def effects(tried: Sequence[Tried]) -> dict[Key, list[Effect]]:
    """Return the effects of the alternatives that were tried alone, by finding.

    The first of `tried` has no alternative.
    """
    told: dict[Key, list[Effect]] = {key: [] for key in tried[0].findings}
    for one in tried:
        if len(one.choice) == 1:
            ((assumption, alternative),) = one.choice.items()
            for key, before in tried[0].findings.items():
                after = one.findings.get(key)
                change = after and _change(before, after)
                if after and change:
                    more = _within(after) - _within(before)
                    told[key].append(
                        Effect(assumption, alternative, change, _is_factor(before.part), more)
                    )
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

    def size(one: Effect) -> tuple[float, float]:
        by = one.change.median
        return -abs(one.more), -abs(math.log(by) if one.is_factor and by > 0 else by)

    rounds: list[dict[Pair, set[Of]]] = []
    for (claim, _, orbit), several in effects(found.tried).items():
        for number, one in enumerate(sorted((one for one in several if one.more), key=size)):
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
    ours = found.tried[0]
    ours_hold = _holds(found.finding(ours, key))
    ours_held = _holds(ours.findings[key])

    def is_told(one: Tried) -> bool:
        again = found.same_again(one.choice)
        return again is not None and key in again.findings

    def holds(one: Tried) -> bool:
        held = _holds(found.finding(one, key))
        return held if is_told(one) or held != ours_held else ours_hold

    def words(one: Tried) -> str:
        choice = " and ".join(f"{name}: {value}" for name, value in one.choice.items())
        return (
            f"{choice} (one seed)"
            if is_told(ours) and not is_told(one) and _seeds(one.findings[key]) == 1
            else choice
        )

    known = [one for one in found.tried if key in one.findings]
    alone = [one for one in known if len(one.choice) == 1]
    if ours_hold:
        breaking = [words(one) for one in alone if not holds(one)]
        return (
            f"ours, but not {'; or '.join(breaking)}"
            if breaking
            else "ours and under each alternative alone"
        )
    if enough := [words(one) for one in alone if holds(one)]:
        return "; or ".join(enough)
    fewest = min(
        (one for one in known if holds(one)), key=lambda one: len(one.choice), default=None
    )
    return words(fewest) if fewest else "none of what was tried"


def _holds(finding: Finding | None) -> bool:
    return finding is not None and by_medians(finding) == HOLDS


def _seeds(finding: Finding) -> int:
    """Return the most seeds that any of its comparisons has."""
    return max((one.found.seeds for one in finding.comparisons if one.found), default=0)
