# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims (reports/claims.yml) judged by the cells of campaigns.

A claim is confirmed when every one of its comparisons lies within its bounds with its whole interval, contradicted when
one lies outside with its whole interval, and otherwise not decided. A comparison of fewer than MIN_SEEDS seeds, or with
a run that failed or is missing, decides nothing; nor does one of "the best" of cells that were not all run. A claim about
values that were not all run cannot be confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from openbach_run.openbach.measures import from_name
from openbach_run.report.cells import Campaigns, Cell, Partners, Selection, matches, name_of
from openbach_run.results.intervals import Estimate, difference, ratio

MIN_SEEDS = 5
"""With fewer the interval holds the median with less than 94 % (see `intervals`)."""

SATCOM = "satcom"
"""The document of claims that name none: the report on VPNs for SATCOM."""
CONFIRMED, CONTRADICTED, NOT_DECIDED = "confirmed", "contradicted", "not decided"


@dataclass(frozen=True)
class Part:
    """One comparison that a claim makes, over all cells it speaks of. See reports/claims.yml for the fields."""

    says: str
    cell: Selection
    against: Selection | None = None
    best_over: Sequence[str] = ()
    against_best_over: Sequence[str] = ()
    measure: str = "transfer_time_s"
    better: str = "less"
    as_: str = "ratio"
    least: float = -math.inf
    most: float = math.inf
    cpu: bool = False

    @property
    def bounds(self) -> str:
        """`0.9 to 1.1`, `at most 1 s`."""
        unit = "" if self.is_ratio else f" {from_name(self.measure).unit}".rstrip()
        if math.isinf(self.least):
            return f"at most {self.most:g}{unit}"
        if math.isinf(self.most):
            return f"at least {self.least:g}{unit}"
        return f"{self.least:g} to {self.most:g}{unit}"

    @property
    def is_ratio(self) -> bool:
        return self.against is not None and self.as_ == "ratio"

    def not_run(self, cells: Sequence[Cell]) -> list[str]:
        """`pep=A` for every value that the part speaks of and no cell has (one of the scenarios is enough)."""
        spoken_of = [pair for one in (self.cell, self.against or {}) for pair in listed(one)]
        missing = [
            f"{name}={value}" for name, value in spoken_of if not any(matches(cell, {name: [value]}) for cell in cells)
        ]
        return list(dict.fromkeys(missing))


@dataclass(frozen=True)
class Comparison:
    """`holds` is None when nothing was decided; `why_not` says why, unless the interval is just too wide."""

    part: Part
    cell: Cell
    against: Cell | None
    found: Estimate | None
    holds: bool | None
    why_not: str | None

    @property
    def excess(self) -> float:
        """How far the median lies outside the bounds; negative inside."""
        if self.found is None:
            return -math.inf
        return max(self.part.least - self.found.median, self.found.median - self.part.most)

    @property
    def name(self) -> str:
        shown = [
            "orbit",
            "vpn",
            "pep",
            "cc",
            "loss",
            *(name for name in self.part.cell if name not in ("scenario", "orbit")),
        ]
        own = name_of(self.cell, list(dict.fromkeys(shown)))
        if self.against is None:
            return own
        differing = [name for name, value in self.against.values.items() if self.cell.values.get(name) != value]
        return f"{own} against {name_of(self.against, differing)}"


@dataclass(frozen=True)
class Verdict:
    """A claim with all its comparisons."""

    claim: str
    statement: str
    reading: str
    verdict: str
    comparisons: list[Comparison]
    not_run: list[str]
    """Values that the claim speaks of and no cell has."""

    def of(self, holds: bool | None) -> list[Comparison]:
        return [one for one in self.comparisons if one.holds is holds]

    def part(self, part: Part) -> list[Comparison]:
        return [one for one in self.comparisons if one.part is part]


def read_claims(file: Path) -> dict[str, dict[str, Any]]:
    claims: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return claims


def judge_all(claims: Mapping[str, dict[str, Any]], campaigns: Campaigns) -> list[Verdict]:
    """The verdicts on the claims of the documents of which the campaigns have cells; of the first document if of none."""
    verdicts = {name: judge(name, described, campaigns) for name, described in claims.items()}
    document = {name: described.get("document", SATCOM) for name, described in claims.items()}
    spoken_of = {document[name] for name, verdict in verdicts.items() if verdict.comparisons} or {SATCOM}
    return [verdict for name, verdict in verdicts.items() if document[name] in spoken_of]


def judge(claim: str, described: dict[str, Any], campaigns: Campaigns) -> Verdict:
    parts = [_part(one) for one in described["parts"]]
    comparisons = [comparison for part in parts for comparison in compare(part, campaigns.cells)]
    not_run = list(dict.fromkeys(value for part in parts for value in part.not_run(campaigns.cells)))
    if any(one.holds is False for one in comparisons):
        verdict = CONTRADICTED
    elif (
        not not_run
        and all(any(one.part is part for one in comparisons) for part in parts)
        and all(one.holds for one in comparisons)
    ):
        verdict = CONFIRMED
    else:
        verdict = NOT_DECIDED
    return Verdict(claim, described["statement"], described.get("reading", ""), verdict, comparisons, not_run)


def _part(described: dict[str, Any]) -> Part:
    return Part(**{"as_" if name == "as" else name: value for name, value in described.items()})


def listed(selection: Selection) -> list[tuple[str, Any]]:
    """The arguments and values that a selection names one by one."""
    return [
        (name, value)
        for name, values in selection.items()
        if isinstance(values, list) and name != "scenario"
        for value in values
    ]


def compare(part: Part, cells: Sequence[Cell]) -> list[Comparison]:
    """Every comparison that the part makes."""
    missing = part.not_run(cells) if part.best_over or part.against_best_over else []
    speakers = _best([cell for cell in cells if matches(cell, part.cell)], part.best_over, part)
    if part.against is None:
        return [_judged(part, cell, None, missing) for cell in speakers]
    candidates = [cell for cell in cells if matches(cell, part.against)]
    partners = Partners(candidates, {*part.against, *part.best_over})
    return [
        _judged(part, cell, against, missing)
        for cell in speakers
        for against in _best(partners.of(cell), part.against_best_over, part)
    ]


def _best(cells: Sequence[Cell], over: Sequence[str], part: Part) -> list[Cell]:
    """Of the cells that differ in nothing but the arguments in `over` the best; cells that were not measured come last."""
    if not over:
        return list(cells)
    groups: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in cells:
        rest = tuple((name, value) for name, value in cell.values.items() if name not in over)
        groups.setdefault(rest, []).append(cell)

    def badness(cell: Cell) -> float:
        found = cell.estimate(part.measure)
        return math.inf if found is None else found.median * (1 if part.better == "less" else -1)

    return [min(group, key=badness) for group in groups.values()]


def _judged(part: Part, cell: Cell, against: Cell | None, missing: Sequence[str]) -> Comparison:
    measured = cell.measured(part.measure)
    if against is None:
        found = cell.estimate(part.measure)
    else:
        found = (ratio if part.as_ == "ratio" else difference)(measured, against.measured(part.measure))
    why_not = None
    if found is None:
        why_not = "no seed has both measured" if against else "not measured"
    elif not (cell.whole and (against is None or against.whole)):
        why_not = "runs failed or are missing"
    elif part.cpu and (cell.is_virtual or (against is not None and against.is_virtual)):
        why_not = "it is about a CPU, which costs nothing in virtual time"
    elif missing:
        why_not = f"the best of what was run: no {', '.join(missing)}"
    elif found.seeds < MIN_SEEDS:
        why_not = f"{found.seeds} of at least {MIN_SEEDS} seeds"
    holds = None if why_not or found is None else found.lies_within(part.least, part.most)
    return Comparison(part, cell, against, found, holds, why_not)


def why(verdict: Verdict) -> str:
    """The reason of a verdict, from its comparisons."""
    not_run = f"not run: {', '.join(verdict.not_run)}" if verdict.not_run else ""
    if not verdict.comparisons:
        return f"The campaigns have no such cells{not_run and f' ({not_run})'}"
    undecided = verdict.of(None)
    reasons = list(dict.fromkeys(one.why_not or "interval on both sides of the bound" for one in undecided))
    told = [
        f"{len(verdict.of(True))} of {len(verdict.comparisons)} comparisons hold",
        f"{len(verdict.of(False))} do not" if verdict.of(False) else "",
        f"{len(undecided)} decide nothing ({'; '.join(reasons)})" if undecided else "",
        not_run,
    ]
    return ", ".join(filter(None, told))
