# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for the assumptions under which claims hold.

Each alternative is tried alone, with all others as our scenarios have them: first one of each assumption, then the second of
each, in the order of the file. Those that change any comparison by more than the margin are influential. What they change
alone, taken together as if they were independent, promises how near the claims come under any choice of them. The search
begins where that promises most, and goes on to the first neighbour that is better (one assumption changed, or two where one
leads to nothing better), those that promise most first, until none is. Better is first that more findings hold, among what
promises this; then that the claims are nearer, whatever is promised: how far their comparisons lie outside their bounds,
since how many hold is too coarse to lead far. Of all that was tried, that under which most holds is the result. Everything
is paired by seed, because all campaigns have the same seeds.

A search may have one seed, so it goes by the medians, whatever their intervals are. What it finds is run again with seeds that
it has not used (`Search.again`), and only that gives verdicts and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product, zip_longest
from statistics import median

from openbach_run.report.assumptions import Assumption, Choice
from openbach_run.report.cells import FACTORS
from openbach_run.report.claims import BUT_FOR, CANNOT_TELL, DOES_NOT, HOLDS, MARGIN, Claim, Comparison, Finding, Part
from openbach_run.results.intervals import Estimate, differences, estimate, ratios

MOST_TOGETHER = 2
"""So many assumptions are changed at once where changing one leads no nearer."""

Key = tuple[str, str, str]
"""Of a finding: claim, what is compared, orbit."""
Pair = tuple[str, str]
"""An assumption and one of its alternatives."""
Of = tuple[str, str]
"""A claim and one of its orbits."""
Place = tuple[Key, object]
"""A comparison of a finding, whatever choice it was made under."""
Levels = Mapping[Place, float]
"""What a comparison comes to, so that effects add up: the logarithm of a ratio or of a measure, or a difference itself."""
Judged = Callable[[Choice], list[Claim]]


class Stop(Exception):
    """Raised by who judges: the search ends with what it has."""


@dataclass(frozen=True)
class Tried:
    """A choice and what the claims come to under it."""

    choice: dict[str, str]
    claims: list[Claim]

    @cached_property
    def findings(self) -> dict[Key, Finding]:
        return {(claim.name, one.part.says, one.orbit): one for claim in self.claims for one in claim.findings}

    @cached_property
    def held(self) -> int:
        """How many findings hold by their medians."""
        return sum(by_medians(one) == HOLDS for one in self.findings.values())

    @cached_property
    def distance(self) -> float:
        """How far the comparisons lie outside their bounds on average, as a part of the bound, each counted as 1 at most; what
        was not measured counts as 1."""
        found = [_outside(one) for several in self.findings.values() for one in several.comparisons]
        return sum(found) / len(found) if found else 1.0

    @cached_property
    def parts(self) -> dict[Place, Part]:
        """What is compared, of each comparison."""
        return {(key, _name(one)): one.part for key, several in self.findings.items() for one in several.comparisons}

    @cached_property
    def levels(self) -> dict[Place, float]:
        return {
            (key, _name(one)): _level(one.part, one.found.median)
            for key, several in self.findings.items()
            for one in several.comparisons
            if one.found
        }


@dataclass(frozen=True)
class Search:
    """All that was tried, in its order; the first has no alternative. `whole` is False if it was ended before it was done."""

    tried: list[Tried]
    whole: bool
    untried: list[dict[str, str]] = field(default_factory=list)
    """Alternatives for which there was no time, not even alone."""
    again: list[Tried] = field(default_factory=list)
    """What was run with other seeds: the first has no alternative; of most others only what they drive is there."""

    @property
    def ranked(self) -> list[Tried]:
        """First that under which most holds; of equals that with the fewest alternatives."""
        return sorted(self.tried, key=lambda one: (-one.held, one.distance, len(one.choice)))

    @property
    def best(self) -> Tried:
        return self.ranked[0]

    @property
    def confirmed(self) -> list[Tried]:
        """Of those run with other seeds the ones that were run as a whole, but for ours."""
        every = self.tried[0].findings.keys()
        return [one for one in self.again if one.choice and one.findings.keys() >= every]

    @property
    def joint(self) -> Tried:
        """That under which most holds with other seeds, of those that were run with them as a whole, if any but ours was."""
        if not self.best.choice or not self.confirmed:
            return self.best
        held = {
            _pairs(one.choice): sum(each.verdict == HOLDS for each in one.findings.values()) for one in self.confirmed
        }
        return max((one for one in self.ranked if _pairs(one.choice) in held), key=lambda one: held[_pairs(one.choice)])

    @property
    def without_effect(self) -> list[dict[str, str]]:
        """What alone changes nothing."""
        base = self.tried[0]
        return [one.choice for one in self.tried if len(one.choice) == 1 and not _is_moved(base, one)]

    def same_again(self, choice: Choice) -> Tried | None:
        return next((one for one in self.again if one.choice == choice), None)

    def finding(self, one: Tried, key: Key) -> Finding | None:
        """As the other seeds have it where it was run with them."""
        again = self.same_again(one.choice)
        return again.findings[key] if again and key in again.findings else one.findings.get(key)


def _pairs(choice: Choice) -> frozenset[Pair]:
    return frozenset(choice.items())


def by_medians(finding: Finding) -> str:
    """The verdict as the medians have it."""
    within = _within(finding)
    if within == len(finding.comparisons) > 0 and not finding.not_run:
        return HOLDS
    if within > len(finding.comparisons) / 2:
        return BUT_FOR
    return DOES_NOT if any(one.found for one in finding.comparisons) else CANNOT_TELL


def _within(finding: Finding) -> int:
    """How many of its comparisons lie within their bounds."""
    return sum(_outside(one) == 0 for one in finding.comparisons)


def _outside(one: Comparison) -> float:
    return 1.0 if one.found is None else _distance(one.part, one.found.median)


def _distance(part: Part, value: float) -> float:
    least, most = part.with_margin
    bound = part.least if value < least else part.most
    excess = max(least - value, value - most, 0.0)
    return min(1.0, excess / abs(bound)) if excess and bound else min(1.0, excess)


def _is_factor(part: Part) -> bool:
    return part.is_ratio or part.against is None


def _level(part: Part, value: float) -> float:
    return math.log(value) if _is_factor(part) and value > 0 else value


def _name(one: Comparison) -> object:
    """What tells a comparison from the others of its finding, under every choice."""
    own = {*FACTORS, *one.part.cell} - {*one.part.best_over, "scenario", "orbit"}
    other = {*(one.part.against or ())} - {*one.part.against_best_over}
    values = (one.cell.values, own), (one.against.values if one.against else {}, other)
    return tuple(frozenset((name, of.get(name)) for name in names) for of, names in values)


def search(
    assumptions: Mapping[str, Assumption],
    judged: Judged,
    may_try: Callable[[Choice], bool] = lambda choice: True,
    before: Iterable[Choice] = (),
) -> Search:
    """Tries choices until none is nearer, each once, and none that it may not try; with those that a search `before` has
    found."""
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
    """The first alternative of each assumption, then the second of each, …"""
    rounds = zip_longest(*([(name, value) for value in one.alternatives] for name, one in assumptions.items()))
    return [pair for several in rounds for pair in several if pair is not None]


def _search(
    assumptions: Mapping[str, Assumption], try_one: Callable[[Choice], Tried | None], before: Iterable[Choice]
) -> None:
    base = try_one({})
    if base is None:
        return
    alone = {pair: found for pair in in_turn(assumptions) if (found := try_one(dict([pair])))}
    influential = {pair: found for pair, found in alone.items() if _is_moved(base, found)}
    promise = _Promise(base, influential)
    known = [base, *alone.values(), *map(try_one, before)]
    most = [*known, try_one(promise.best(_most_hold))]
    here = _climbed(promise, _most_hold, most, try_one, better=True)
    near = [*known, here, try_one(promise.best(_nearest)), try_one(_better(base, influential))]
    _climbed(promise, _nearest, near, try_one, better=False)


Goal = Callable[[int, float], tuple[float, ...]]
"""Of how many findings do not hold, and the cost: what is to be least."""


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
    """From the best of the starts on to neighbours that are better (and, if `better`, promise to be), until none is."""
    here = min(filter(None, starts), key=lambda one: promise.reached(goal, one))
    while here.distance or here.choice:
        least, there = promise.reached(goal, here), map(try_one, promise.neighbours(goal, here, better=better))
        found = next((one for one in there if one and promise.reached(goal, one) < least), None)
        if found is None:
            break
        here = found
    return here


def _cost(base: Tried, distance: float, choice: Choice) -> float:
    """An assumption is another one than ours only if that brings the claims nearer by more than MARGIN of how far they are."""
    return distance + MARGIN * base.distance * len(choice)


def _better(base: Tried, influential: Mapping[Pair, Tried]) -> dict[str, str]:
    """All that alone bring the claims nearer; of one assumption's alternatives the nearest."""
    nearer = {pair: one.distance for pair, one in influential.items() if one.distance < base.distance}
    return dict(sorted(nearer, key=lambda pair: -nearer[pair]))


class _Promise:
    """How near the claims would be under any choice, if what each alternative changes alone added up."""

    def __init__(self, base: Tried, influential: Mapping[Pair, Tried]) -> None:
        self._base = base
        self._influential = influential
        self._effects = {
            pair: {place: level - base.levels[place] for place, level in one.levels.items() if place in base.levels}
            for pair, one in influential.items()
        }

    def reached(self, goal: Goal, one: Tried) -> tuple[float, ...]:
        return goal(len(one.findings) - one.held, _cost(self._base, one.distance, one.choice))

    def _promised(self, goal: Goal, here: Tried, there: Choice) -> tuple[float, ...]:
        """Of another choice, from what was found here."""
        changed = {name for name in here.choice.keys() | there.keys() if here.choice.get(name) != there.get(name)}
        gone = [self._effects.get((name, here.choice[name]), {}) for name in changed if name in here.choice]
        come = [self._effects.get((name, there[name]), {}) for name in changed if name in there]
        total, missed = 0.0, set()
        for place, part in self._base.parts.items():
            level = here.levels.get(place)
            if level is not None:
                level += sum(one.get(place, 0.0) for one in come) - sum(one.get(place, 0.0) for one in gone)
                outside = _distance(part, math.exp(min(level, 99.0)) if _is_factor(part) else level)
            else:
                outside = 1.0
            total += outside
            missed |= {place[0]} if outside else set()
        return goal(len(missed), _cost(self._base, total / max(1, len(self._base.parts)), there))

    def best(self, goal: Goal) -> dict[str, str]:
        """The choice that promises most."""
        here: dict[str, str] = {}
        least = self._promised(goal, self._base, here)
        while True:
            there = [
                (self._promised(goal, self._base, choice), together, number, choice)
                for together in range(1, MOST_TOGETHER + 1)
                for number, choice in enumerate(_changed(here, self._influential, together))
            ]
            promised, _, _, choice = min(there, default=(least, 0, 0, here))
            if promised >= least:
                return here
            here, least = choice, promised

    def neighbours(self, goal: Goal, here: Tried, *, better: bool) -> Iterator[dict[str, str]]:
        """What differs in one assumption, what promises most first; then what differs in more, in the same order. Only what
        promises to be better, if `better`."""
        least = self.reached(goal, here)
        for together in range(1, MOST_TOGETHER + 1):
            choices = list(_changed(here.choice, self._influential, together))
            promised = sorted((self._promised(goal, here, choice), number) for number, choice in enumerate(choices))
            yield from (choices[number] for one, number in promised if one < least or not better)


def _changed(here: Choice, influential: Iterable[Pair], together: int) -> Iterator[dict[str, str]]:
    """What differs from a choice in so many assumptions."""
    values: dict[str, set[str | None]] = {}
    for name, value in influential:
        values.setdefault(name, {None}).add(value)  # None: as ours
    for names in combinations(values, together):
        for changed in product(*(sorted(values[name] - {here.get(name)}, key=str) for name in names)):
            there = {**here, **dict(zip(names, changed, strict=True))}
            yield {name: value for name, value in there.items() if value is not None}


def _is_moved(base: Tried, one: Tried) -> bool:
    """Whether any comparison's ratio or value is another by more than MARGIN, or is missing in one of the two."""
    if base.levels.keys() != one.levels.keys():
        return True
    return any(abs(one.levels[place] - level) > _relevant(base.parts[place]) for place, level in base.levels.items())


def _relevant(part: Part) -> float:
    """Change of a level: a factor, or a part of what a difference may be."""
    bounds = [abs(bound) for bound in (part.least, part.most) if math.isfinite(bound) and bound]
    return MARGIN * (1.0 if _is_factor(part) else max(bounds, default=1.0))


@dataclass(frozen=True)
class Effect:
    """What an alternative alone does to a finding."""

    assumption: str
    alternative: str
    change: Estimate
    """Over the seeds: of each the median, over the comparisons (those that come into or out of their bounds, if any do), of the
    factor by which the ratio or measure changes; of a difference, by how much it changes."""
    is_factor: bool
    more: int
    """So many more of its comparisons lie within their bounds."""


def effects(tried: Sequence[Tried]) -> dict[Key, list[Effect]]:
    """Of the alternatives that were tried alone, by finding; the first of `tried` has no alternative."""
    told: dict[Key, list[Effect]] = {key: [] for key in tried[0].findings}
    for one in tried:
        if len(one.choice) == 1:
            ((assumption, alternative),) = one.choice.items()
            for key, before in tried[0].findings.items():
                after = one.findings.get(key)
                change = after and _change(before, after)
                if after and change:
                    more = _within(after) - _within(before)
                    told[key].append(Effect(assumption, alternative, change, _is_factor(before.part), more))
    return told


def _change(before: Finding, after: Finding) -> Estimate | None:
    now = {_name(one): one for one in after.comparisons}
    both = [(one, now[name]) for one in before.comparisons if (name := _name(one)) in now]
    moved = [(one, then) for one, then in both if bool(_outside(one)) != bool(_outside(then))]
    by_seed: dict[int, list[float]] = {}
    for one, then in moved or both:
        changes = ratios if _is_factor(one.part) else differences
        for seed, change in changes(then.by_seed, one.by_seed).items():
            by_seed.setdefault(seed, []).append(change)
    return estimate([median(by_seed[seed]) for seed in sorted(by_seed)])


def drivers(found: Search) -> list[dict[Pair, set[Of]]]:
    """The alternatives that alone change how many of a finding's comparisons hold, each with what it drives: first the one that
    does most to each finding, then the second of each, …"""

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
    """By finding: under which of the choices tried it holds by its medians, in words: ours, or single alternatives, or the
    fewest that together are enough. What was not run with the other seeds differs from ours where it did with the seeds of the
    search; if these are one, this is said."""
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
            f"{choice} (one seed)" if is_told(ours) and not is_told(one) and _seeds(one.findings[key]) == 1 else choice
        )

    known = [one for one in found.tried if key in one.findings]
    alone = [one for one in known if len(one.choice) == 1]
    if ours_hold:
        breaking = [words(one) for one in alone if not holds(one)]
        return f"ours, but not {'; or '.join(breaking)}" if breaking else "ours and under each alternative alone"
    if enough := [words(one) for one in alone if holds(one)]:
        return "; or ".join(enough)
    fewest = min((one for one in known if holds(one)), key=lambda one: len(one.choice), default=None)
    return words(fewest) if fewest else "none of what was tried"


def _holds(finding: Finding | None) -> bool:
    return finding is not None and by_medians(finding) == HOLDS


def _seeds(finding: Finding) -> int:
    """The most that any of its comparisons has."""
    return max((one.found.seeds for one in finding.comparisons if one.found), default=0)
