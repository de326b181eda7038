# SPDX-License-Identifier: GPL-3.0-or-later
"""What a published text leaves open (reports/assumptions.yml), and the search for the assumptions under which its claims hold.

First each alternative is tried alone, with all others as our scenarios have them: with one seed only, if that is how it is
screened, then again with all seeds if it changes something. Those that change any comparison by more than the margin are
influential. The search begins with all influential alternatives that alone bring the claims nearer, taken
together, or with a single one if that is nearer. It goes to the nearest neighbour (one assumption changed, or two where one
leads no nearer) until none is nearer. How near the claims are is how far their comparisons lie outside their bounds: how many
hold is too coarse to lead anywhere. Of all that was tried, that under which most holds is the result. Everything is paired by
seed, because all campaigns have the same seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from statistics import median
from typing import Any

from openbach_run.errors import InputError
from openbach_run.openbach.scenario import SAME
from openbach_run.report.cells import Campaigns, Cell, Run, matches
from openbach_run.report.claims import BUT_FOR, CANNOT_TELL, DOES_NOT, HOLDS, MARGIN, Claim, Comparison, Finding
from openbach_run.report.groups import groups
from openbach_run.yaml_files import read_texts

KEYS = ("asks", "ours", "alternatives")
CHANGES = ("set", "scenarios", "read", "add")
OPTIONAL = "needs"

FOLLOWERS = ("cc_pep", "cc_tunnel", "initcwnd_pep")
"""Arguments that are as the end hosts' in claims which do not name them."""
MOST_TOGETHER = 2
"""So many assumptions are changed at once where changing one leads no nearer."""

Choice = Mapping[str, str]
"""Assumption → name of its alternative; those that are not named are as our scenarios have them."""


@dataclass(frozen=True)
class Alternative:
    """`set`: values of arguments, in the scenarios that are named (all if none is). `read`: argument → value of the claims →
    the value that is run in its place."""

    set: dict[str, str] = field(default_factory=dict)
    scenarios: tuple[str, ...] = ()
    read: dict[str, dict[str, str]] = field(default_factory=dict)
    add: dict[str, list[str]] = field(default_factory=dict)
    """Measure → measures that it includes besides."""


@dataclass(frozen=True)
class Assumption:
    """What the text leaves open, what our scenarios assume, and what is as plausible."""

    asks: str
    ours: str
    alternatives: dict[str, Alternative]
    needs: dict[str, Any] = field(default_factory=dict)
    """Of values that a cell has, those without which it says nothing."""


@dataclass(frozen=True)
class Tried:
    """A choice and what the claims come to under it."""

    choice: dict[str, str]
    claims: list[Claim]

    @property
    def held(self) -> int:
        """How many findings hold."""
        return sum(one.verdict == HOLDS for claim in self.claims for one in claim.findings)

    @cached_property
    def distance(self) -> float:
        """How far the comparisons lie outside their bounds on average, as a part of the bound, each counted as 1 at most; what
        was not measured counts as 1."""
        found = [compared for claim in self.claims for one in claim.findings for compared in one.comparisons]
        return sum(map(_distance, found)) / len(found) if found else 1.0

    def findings(self) -> dict[tuple[str, str, str], Finding]:
        """By claim, part and orbit."""
        return {(claim.name, one.part.says, one.orbit): one for claim in self.claims for one in claim.findings}


@dataclass(frozen=True)
class Search:
    """All that was tried, in its order; the first has no alternative. `whole` is False if it was ended before it was done."""

    tried: list[Tried]
    whole: bool
    without_effect: list[dict[str, str]] = field(default_factory=list)
    """What was screened and changed nothing."""

    @property
    def best(self) -> Tried:
        """Under which most holds; of equals that with the fewest alternatives."""
        return min(self.tried, key=lambda one: (-one.held, one.distance, len(one.choice)))


def _distance(one: Comparison) -> float:
    if one.found is None:
        return 1.0
    least, most = one.part.with_margin
    bound = one.part.least if one.found.median < least else one.part.most
    excess = max(least - one.found.median, one.found.median - most, 0.0)
    return min(1.0, excess / abs(bound)) if excess and bound else min(1.0, excess)


def read_assumptions(file: Path) -> dict[str, Assumption]:
    """Raises InputError for what is not of the form that the file's head describes."""
    content = read_texts(file)
    if not isinstance(content, dict):
        raise InputError(f"{file}: should have assumptions by name")
    return {str(name): _assumption(f"{file}: {name}", one) for name, one in content.items()}


def _assumption(where: str, given: Any) -> Assumption:
    if (
        not isinstance(given, dict)
        or given.keys() - {OPTIONAL} != set(KEYS)
        or not isinstance(given["alternatives"], dict)
    ):
        raise InputError(f"{where}: should have the keys {', '.join(KEYS)}, the last an object")
    alternatives = {}
    for name, one in given["alternatives"].items():
        if not isinstance(one, dict) or not one or one.keys() - set(CHANGES):
            raise InputError(f"{where}.alternatives.{name}: should have some of the keys {', '.join(CHANGES)}")
        changes = (one.get("read", {}), one.get("add", {}))
        alternatives[name] = Alternative(one.get("set", {}), tuple(one.get("scenarios", ())), *changes)
    needs = {
        argument: {key: float(value) for key, value in allowed.items()} if isinstance(allowed, dict) else allowed
        for argument, allowed in given.get(OPTIONAL, {}).items()
    }
    return Assumption(given["asks"], given["ours"], alternatives, needs)


def relevant(assumptions: Mapping[str, Assumption], scenarios: Sequence[Mapping[str, Any]]) -> dict[str, Assumption]:
    """Those that can change something in a campaign file's scenarios."""
    cells = [Cell({name: str(value)}) for one in scenarios for name, some in one["values"].items() for value in some]
    return {
        name: one
        for name, one in assumptions.items()
        if all(any(matches(cell, {argument: allowed}) for cell in cells) for argument, allowed in one.needs.items())
    }


def scenarios_under(
    scenarios: Sequence[Mapping[str, Any]], choice: Choice, assumptions: Mapping[str, Assumption]
) -> list[dict[str, Any]]:
    """The scenarios of a campaign file with the values of a choice."""
    made = [
        {**one, "values": {name: list(map(str, some)) for name, some in one["values"].items()}} for one in scenarios
    ]
    chosen = _chosen(choice, assumptions)
    for entry in made:
        values = entry["values"]
        for one in chosen:
            if not one.scenarios or entry["scenario"] in one.scenarios:
                values |= {name: [value] for name, value in one.set.items()}
        for name in values:
            values[name] = [_run_for(name, value, chosen) for value in values[name]]
    return made


def _run_for(name: str, claimed: str, chosen: Sequence[Alternative]) -> str:
    """What is run for a value of a claim: what each alternative, in turn, reads for that of the one before."""
    for one in chosen:
        claimed = one.read.get(name, {}).get(claimed, claimed)
    return claimed


def needed(scenarios: Sequence[Mapping[str, Any]], claims: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of a campaign file's scenarios and their values those that some of the claims speak of."""
    parts = [part for claim in claims for part in claim["parts"]]
    made = []
    for entry in scenarios:
        of_entry = [one for one in parts if entry["scenario"] in one["cell"].get("scenario", [entry["scenario"]])]
        values = {
            name: [value for value in some if any(_speaks_of(part, name, str(value)) for part in of_entry)]
            for name, some in entry["values"].items()
        }
        if of_entry and all(values.values()):
            made.append({**entry, "values": values})
    return made


def _speaks_of(part: Mapping[str, Any], name: str, value: str) -> bool:
    selections = [part["cell"], part.get("against") or {}]
    named = [{name: one[name]} for one in selections if name in one]
    return not named or any(matches(Cell({name: value}), one) for one in named)


def as_claimed(campaigns: Campaigns, choice: Choice, assumptions: Mapping[str, Assumption]) -> Campaigns:
    """The cells of what was run under a choice, with the values that the claims have for them."""
    chosen = _chosen(choice, assumptions)
    claimed = {(name, value) for one in chosen for name, instead in one.read.items() for value in instead}
    back = {(name, _run_for(name, value, chosen)): value for name, value in claimed}
    cells = []
    for cell in campaigns.cells:
        values = {name: back.get((name, value), value) for name, value in cell.values.items()}
        for one in chosen:
            if not one.scenarios or values["scenario"] in one.scenarios:
                values |= {name: SAME for name in one.set if name in FOLLOWERS}
        cells.append(Cell(values, [_with_added(run, chosen) for run in cell.runs]))
    return Campaigns(campaigns.commands, cells, campaigns.declared, campaigns.plots)


def _with_added(run: Run, chosen: Sequence[Alternative]) -> Run:
    added = {name: others for one in chosen for name, others in one.add.items()}
    if run.record is None or not added:
        return run
    before = run.record.measures
    sums = {
        name: sum(before[one] or 0 for one in (name, *others))
        for name, others in added.items()
        if all(before.get(one) is not None for one in (name, *others))
    }
    return replace(run, record=replace(run.record, measures={**before, **sums}))


def _chosen(choice: Choice, assumptions: Mapping[str, Assumption]) -> list[Alternative]:
    """In the order of the file, on which what several read for the same value depends."""
    return [one.alternatives[choice[name]] for name, one in assumptions.items() if name in choice]


def search(
    assumptions: Mapping[str, Assumption],
    judged: Callable[[Choice], list[Claim]],
    may_go_on: Callable[[], bool] = lambda: True,
    screened: Callable[[Choice], list[Claim]] | None = None,
) -> Search:
    """Tries choices until none is nearer, or until it may not go on. Each is judged once, after it was `screened` (judged in a
    cheaper way) if that is given and no other assumption differs."""
    tried: dict[frozenset[tuple[str, str]], Tried] = {}
    without_effect: list[dict[str, str]] = []

    def try_one(choice: Choice) -> Tried:
        key = frozenset(choice.items())
        if key not in tried:
            if tried and not may_go_on():
                raise _Over
            tried[key] = Tried(dict(choice), judged(choice))
        return tried[key]

    def moves(choice: Choice) -> bool:
        if screened is None:
            return True
        if not may_go_on():
            raise _Over
        if _is_moved(Tried({}, screened({})), Tried(dict(choice), screened(choice))):
            return True
        without_effect.append(dict(choice))
        return False

    try:
        _search(assumptions, try_one, moves)
    except _Over:
        return Search(list(tried.values()), whole=False, without_effect=without_effect)
    return Search(list(tried.values()), whole=True, without_effect=without_effect)


class _Over(Exception):
    """The budget is."""


def _search(
    assumptions: Mapping[str, Assumption], try_one: Callable[[Choice], Tried], moves: Callable[[Choice], bool]
) -> None:
    base = try_one({})
    alone = [{name: value} for name, one in assumptions.items() for value in one.alternatives]
    known = {next(iter(choice.items())): try_one(choice) for choice in filter(moves, alone)}
    influential = [pair for pair, one in known.items() if _is_moved(base, one)]
    better: dict[str, str] = {}
    for name, value in sorted(influential, key=lambda pair: -known[pair].distance):
        if known[name, value].distance < base.distance:
            better[name] = value  # of one assumption's alternatives the nearest
    best = min((base, try_one(better), *known.values()), key=lambda one: one.distance)
    together = 1
    while together <= MOST_TOGETHER:
        neighbours = _neighbours(best.choice, influential, together)
        nearest = min(map(try_one, neighbours), key=lambda one: one.distance, default=best)
        if nearest.distance < best.distance:
            best, together = nearest, 1
        else:
            together += 1


def _neighbours(here: Choice, influential: Sequence[tuple[str, str]], together: int) -> Iterator[dict[str, str]]:
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
    before, after = base.findings(), one.findings()
    return any(
        abs(factor - 1) > MARGIN
        for key in before.keys() | after.keys()
        for factor in _factors(before.get(key), after.get(key))
    )


def _factors(before: Finding | None, after: Finding | None) -> list[float]:
    """By how much each comparison's ratio or value is multiplied; infinity for one that is not there."""
    if before is None or after is None or len(before.comparisons) != len(after.comparisons):
        return [math.inf]
    pairs = [(one.found, other.found) for one, other in zip(before.comparisons, after.comparisons, strict=True)]
    return [now.median / then.median if then and now and then.median else math.inf for then, now in pairs]


@dataclass(frozen=True)
class Effect:
    """What an alternative alone does to a finding: how its verdict and its comparisons' medians change."""

    assumption: str
    alternative: str
    before: Finding
    after: Finding

    @property
    def shift(self) -> float:
        """The median, over the comparisons, of the factor by which the found ratio or value changes."""
        return median(_factors(self.before, self.after))


def effects(found: Search) -> dict[tuple[str, str, str], list[Effect]]:
    """By claim, part and orbit: the alternatives that alone change what holds of it, the strongest first."""
    base = found.tried[0].findings()
    told: dict[tuple[str, str, str], list[Effect]] = {key: [] for key in base}
    for one in found.tried:
        if len(one.choice) == 1:
            ((assumption, alternative),) = one.choice.items()
            for key, after in one.findings().items():
                before = base.get(key)
                if before is not None and len(after.of(True)) != len(before.of(True)):
                    told[key].append(Effect(assumption, alternative, before, after))
    return {key: sorted(some, key=lambda one: -_change(one)) for key, some in told.items()}


def _change(one: Effect) -> int:
    return abs(len(one.after.of(True)) - len(one.before.of(True)))


def regions(found: Search) -> dict[tuple[str, str, str], str]:
    """By claim, part and orbit: under which of the choices tried it holds, in words."""
    return {key: _region(key, found) for key in found.tried[0].findings()}


def _region(key: tuple[str, str, str], found: Search) -> str:
    def has(one: Tried, verdicts: tuple[str, ...]) -> bool:
        finding = one.findings().get(key)
        return finding is not None and finding.verdict in verdicts

    holding = [one for one in found.tried if has(one, (HOLDS,))]
    rest = [one for one in found.tried if has(one, (BUT_FOR, DOES_NOT, CANNOT_TELL))]
    if not holding:
        return "under none of those tried"
    if not rest:
        return "under all that were tried"
    names = {name for one in found.tried for name in one.choice}
    named = groups([_pairs(one, names) for one in holding], [_pairs(one, names) for one in rest])
    return "; or ".join(" and ".join(f"{name}: {value}" for name, value in sorted(group)) for group, _ in named)


def _pairs(one: Tried, names: set[str]) -> frozenset[tuple[str, str]]:
    return frozenset((name, one.choice.get(name, "as ours")) for name in names)
