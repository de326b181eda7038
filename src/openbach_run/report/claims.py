# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge claims (reports/claims.yml) by the cells of campaigns.

Each part of a claim gets a verdict for each orbit:

- "reproduced": every one of its comparisons lies within its bounds with its whole interval.
- "partly": more than half of them do; the others are named.
- "not": at least one lies outside with its whole interval, and at most half lie within.
- "inconclusive": everything else.
- "not comparable": what the claim is about is something else here (`not_comparable` says what was
  compared with what). The figures are shown, and decide nothing.

Bounds have a margin: to be outside by less matters to nobody. But where a bound says that nothing
differs (a ratio of 1), what lies between it and its margin is a tie, which decides nothing: the
claim is that something is better. A comparison decides nothing if it
has fewer than MIN_SEEDS seeds, if a run failed or is missing, or if it is with "the best" of cells
that were not all run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any

from openbach_run.campaign.platforms import OURS, PLATFORM
from openbach_run.errors import InputError
from openbach_run.openbach.measures import from_name
from openbach_run.report.cells import (
    FACTORS,
    Campaigns,
    Cell,
    Partners,
    Selection,
    is_selection,
    matches,
    measured_against,
)
from openbach_run.report.groups import groups
from openbach_run.report.words import phrase
from openbach_run.results.intervals import Estimate
from openbach_run.results.run_files import fields
from openbach_run.results.seeds import MIN_SEEDS
from openbach_run.yaml_files import read_yaml

MARGIN = 0.01
"""The part of a bound by which it may be missed, if a claim has no `margin` of its own."""

OF_A_CLAIM = {"reading": "", "document": "", "not_comparable": ""}
CLAIM: dict[str, Any] = {**dict.fromkeys(("statement", *OF_A_CLAIM), str), "parts": list}
PART: dict[str, Any] = {
    **dict.fromkeys(("says", "measure", "better", "as", "published", "not_comparable"), str),
    "cell": dict,
    "against": (dict, NoneType),
    **dict.fromkeys(("best_over", "against_best_over"), list),
    **dict.fromkeys(("least", "most", "margin"), float),
    "cpu": bool,
}
USUAL: dict[str, Any] = {
    "measure": "", "better": "less", "as": "ratio", "published": "", "against": None,
    "best_over": [], "against_best_over": [], "least": 0, "most": 0, "margin": 0, "cpu": False,
    "not_comparable": "",
}  # fmt: skip
"""The fields of a claim, those of its parts, and the values of fields that may be missing."""

SATCOM = "satcom"
"""The document of claims that name none: the report on VPNs for SATCOM."""
HOLDS, BUT_FOR, DOES_NOT, CANNOT_TELL = "reproduced", "partly", "not", "inconclusive"
OTHER = "not comparable"
"""The verdicts: the one source of their words."""

TIE = "a tie: it differs from the bound by less than the margin"


@dataclass(frozen=True)
class Part:
    """One comparison that a claim makes, over all cells it speaks of.

    reports/claims.yml describes the fields.
    """

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
    margin: float = MARGIN
    cpu: bool = False
    published: str = ""
    """The published figure, in words."""
    not_comparable: str = ""
    """Reason why its figures cannot be compared, where the claim is about something else here."""

    @property
    def with_margin(self) -> tuple[float, float]:
        """Return the least and the greatest allowed value, each moved outwards by the margin."""
        # An infinite bound times a margin of 0 would be no number.
        if not self.margin:
            return self.least, self.most
        return self.least - abs(self.least) * self.margin, self.most + abs(self.most) * self.margin

    @property
    def strict(self) -> tuple[float, float]:
        """Return the bounds that a comparison has to lie within to be reproduced.

        They have the margin, but for a bound that says that nothing differs.
        """
        nothing = 1.0 if self.is_ratio else 0.0 if self.against is not None else None
        least, most = self.with_margin
        # A millionth is no difference.
        least = self.least - 1e-6 if self.least == nothing else least
        return least, self.most + 1e-6 if self.most == nothing else most

    @property
    def bounds(self) -> str:
        """Return the bounds in words: `0.9 to 1.1`, `at most 1 s`."""
        unit = "" if self.is_ratio else f" {from_name(self.measure).unit}".rstrip()
        if math.isinf(self.least):
            return f"at most {self.most:g}{unit}"
        if math.isinf(self.most):
            return f"at least {self.least:g}{unit}"
        return f"{self.least:g} to {self.most:g}{unit}"

    @property
    def is_ratio(self) -> bool:
        """Return whether the part is about a ratio of two cells."""
        return self.against is not None and self.as_ == "ratio"

    def not_run(self, cells: Sequence[Cell]) -> list[str]:
        """Return the values that the part speaks of and no cell has, in words: `PEP A`.

        Scenarios are left out: one of them is enough.
        """
        missing = []
        for name, value in [*listed(self.cell), *listed(self.against or {})]:
            if not any(matches(cell, {name: [value]}) for cell in cells):
                missing.append(phrase(name, str(value)))
        return list(dict.fromkeys(missing))


@dataclass(frozen=True)
class Comparison:
    """One cell's value, or its ratio to or difference from that of another, and what it decides.

    `holds` is None if nothing was decided. `why_not` says why, unless the interval is just too
    wide.
    """

    part: Part
    cell: Cell
    against: Cell | None
    estimate: Estimate | None
    holds: bool | None
    why_not: str | None
    apart: tuple[str, ...] = ()
    """Arguments of which other comparisons of the same finding have another value."""

    @property
    def excess(self) -> float:
        """Return how far the median lies outside the bounds; negative if it is inside."""
        if self.estimate is None:
            return -math.inf
        return max(self.part.least - self.estimate.median, self.estimate.median - self.part.most)

    @property
    def own(self) -> dict[str, str]:
        """Return the values that tell its cell from others of its orbit: argument → value."""
        arguments = (name for name in self.part.cell if name not in ("scenario", "orbit"))
        names = dict.fromkeys([*FACTORS, *arguments, *self.apart])
        return {name: self.cell.values[name] for name in names if self.cell.values.get(name)}

    @property
    def other(self) -> dict[str, str]:
        """Return the values that the other cell has instead of the cell's own."""
        values = self.against.values if self.against else {}
        return {
            name: value for name, value in values.items() if self.cell.values.get(name) != value
        }

    @property
    def name(self) -> str:
        """Return the name of the comparison, from the values of both cells."""
        return compared(self.own, self.other)


def compared(own: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Return the name of a comparison: `wireguard, PEP B against openvpn_udp`."""
    words = [", ".join(itertools.starmap(phrase, values.items())) for values in (own, other)]
    return " against ".join(filter(None, words))


@dataclass(frozen=True)
class Finding:
    """The result of one part of a claim on one orbit ("" if the cells have none)."""

    part: Part
    orbit: str
    comparisons: list[Comparison]
    not_run: list[str]
    """Values that the part speaks of and no cell has."""

    def of(self, holds: bool | None) -> list[Comparison]:
        """Return the comparisons with this decision."""
        return [pair for pair in self.comparisons if pair.holds is holds]

    @property
    def verdict(self) -> str:
        """Return the verdict; the module describes the rules."""
        if self.part.not_comparable:
            return OTHER
        holding = len(self.of(True))
        if holding == len(self.comparisons) > 0 and not self.not_run:
            return HOLDS
        if holding > len(self.comparisons) / 2:
            return BUT_FOR
        return DOES_NOT if self.of(False) else CANNOT_TELL

    @property
    def exceptions(self) -> list[Group]:
        """Return the groups that the verdict names, or [] if it names none.

        For "partly" they are what is not reproduced, for "not" what is.
        """
        rest = [pair for pair in self.comparisons if pair.holds is not True]
        if self.verdict == BUT_FOR:
            return _grouped(rest, self.of(True))
        return _grouped(self.of(True), rest) if self.verdict == DOES_NOT else []


@dataclass(frozen=True)
class Claim:
    """A claim with the findings on its parts."""

    name: str
    statement: str
    reading: str
    findings: list[Finding]
    document: str = SATCOM

    @property
    def is_spoken_of(self) -> bool:
        """Return whether the campaigns have any of its cells."""
        return any(finding.comparisons for finding in self.findings)

    @property
    def is_told(self) -> bool:
        """Return whether the campaigns decide something about it.

        Also if they could with a narrower interval.
        """
        pairs = itertools.chain(*(finding.comparisons for finding in self.findings))
        return any(pair.why_not is None or pair.part.not_comparable for pair in pairs)

    @property
    def verdicts(self) -> dict[str, str]:
        """Return the verdict on all parts by orbit: that of the part which holds least."""
        order = (HOLDS, BUT_FOR, CANNOT_TELL, DOES_NOT, OTHER)
        worst: dict[str, str] = {}
        for finding in self.findings:
            so_far = worst.get(finding.orbit, HOLDS)
            worst[finding.orbit] = max(so_far, finding.verdict, key=order.index)
        return worst


@dataclass(frozen=True)
class Group:
    """Comparisons that have these values in common, which none of the comparisons outside has."""

    own: dict[str, str]
    other: dict[str, str]
    comparisons: list[Comparison]

    @property
    def name(self) -> str:
        """Return the comparison in words."""
        return compared(self.own, self.other)


def _grouped(some: Sequence[Comparison], rest: Sequence[Comparison]) -> list[Group]:
    """Return groups of `some` comparisons, in few values that tell them from the `rest`."""
    grouped = []
    for named, members in groups(list(map(_values, some)), list(map(_values, rest))):
        first = some[members[0]]  # has the values in their order, which a set has not
        own = {name: value for name, value in first.own.items() if (0, name, value) in named}
        other = {name: value for name, value in first.other.items() if (1, name, value) in named}
        grouped.append(Group(own, other, [some[number] for number in members]))
    return grouped


def _values(pair: Comparison) -> frozenset[tuple[int, str, str]]:
    """Return the values of both cells: 0 (its cell) or 1 (the other cell), name, value."""
    own = [(0, name, value) for name, value in pair.own.items()]
    other = [(1, name, value) for name, value in pair.other.items()]
    return frozenset(own + other)


def read_claims(file: Path) -> dict[str, dict[str, Any]]:
    """Return the claims of a file by name, in the form that the file's head describes.

    Raises InputError for a claim in another form.
    """
    claims: dict[str, dict[str, Any]] = read_yaml(file)
    for name, claim in claims.items() if isinstance(claims, dict) else [("the whole", claims)]:
        if wrong := _wrong(claim):
            raise InputError(f"{file}: {name}: {wrong}")
    return claims


def _wrong(claim: Any) -> str | None:
    """Return what is wrong with a claim, or None."""
    if wrong := fields({**OF_A_CLAIM, **claim} if isinstance(claim, dict) else claim, CLAIM):
        return wrong
    for number, part in enumerate(claim["parts"]):
        wrong = fields({**USUAL, **part} if isinstance(part, dict) else part, PART)
        if not wrong and (unknown := part.keys() - PART.keys()):
            wrong = f"{sorted(map(str, unknown))[0]}: a part has {', '.join(PART)}"
        wrong = wrong or _wrong_values(part)
        if wrong:
            return f"parts.{number}: {wrong}"
    return None


def _wrong_values(part: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the lists and selections of a part, or None."""
    for name in ("best_over", "against_best_over"):
        if not all(isinstance(value, str) for value in part.get(name, ())):
            return f"{name}: should be a list of the names of arguments"
    for name in ("cell", "against"):
        if not is_selection(part.get(name) or {}):
            right = "a list of values, {any_of: LIST} or {above: NUMBER}"
            return f"{name}: should have for each argument {right}"
    return None


def judge(name: str, described: dict[str, Any], campaigns: Campaigns) -> Claim:
    """Return a claim, read from a file, with the findings on its parts."""
    findings = []
    of_all = {"not_comparable": described.get("not_comparable", "")}
    cells = list(map(_of_platform, campaigns.cells))
    for part in described["parts"]:
        findings += _findings(_part({**of_all, **part}), cells)
    reading, document = described.get("reading", ""), described.get("document", SATCOM)
    return Claim(name, described["statement"], reading, findings, document)


def _of_platform(cell: Cell) -> Cell:
    """Return a cell without the VPN's values that its platform gives: another VPN has others."""
    if cell.values.get(PLATFORM, OURS) == OURS or "vpn_values" not in cell.values:
        return cell
    return replace(cell, values={**cell.values, "vpn_values": "none"})


def _findings(part: Part, cells: Sequence[Cell]) -> list[Finding]:
    """Return one finding for each orbit that has comparisons; if none has, one that says so."""
    compared = compare(part, cells)
    orbits = list(dict.fromkeys(pair.cell.values["orbit"] for pair in compared)) or [""]
    findings = []
    for orbit in orbits:
        comparisons = [pair for pair in compared if pair.cell.values["orbit"] == orbit]
        of_orbit = [cell for cell in cells if orbit in ("", cell.values["orbit"])]
        findings.append(Finding(part, orbit, _told_apart(comparisons), part.not_run(of_orbit)))
    return findings


def _told_apart(comparisons: list[Comparison]) -> list[Comparison]:
    """Return the comparisons, with the arguments in which their cells differ."""
    values = [pair.cell.values for pair in comparisons]
    names = dict.fromkeys(itertools.chain.from_iterable(values))

    def differs(name: str) -> bool:
        return len({some.get(name) for some in values}) > 1

    apart = tuple(filter(differs, names))
    return [replace(pair, apart=apart) for pair in comparisons]


def _part(described: dict[str, Any]) -> Part:
    return Part(**{"as_" if name == "as" else name: value for name, value in described.items()})


def listed(selection: Selection) -> list[tuple[str, Any]]:
    """Return the arguments and values that a selection names one by one, without scenarios."""
    pairs = []
    for name, values in selection.items():
        if isinstance(values, list) and name != "scenario":
            pairs += [(name, value) for value in values]
    return pairs


def compare(part: Part, cells: Sequence[Cell]) -> list[Comparison]:
    """Return every comparison that the part makes."""
    # The best of cells that were not all run may not be the best.
    missing = part.not_run(cells) if part.best_over or part.against_best_over else []
    speakers = _best([cell for cell in cells if matches(cell, part.cell)], part.best_over, part)
    if part.against is None:
        return [_judged(part, cell, None, missing) for cell in speakers]
    candidates = [cell for cell in cells if matches(cell, part.against)]
    # A partner differs in what `against` names, and may differ in what the best was chosen from.
    partners = Partners(candidates, {*part.against, *part.best_over})
    comparisons = []
    for cell in speakers:
        others = _best(partners.of(cell), part.against_best_over, part)
        comparisons += [_judged(part, cell, against, missing) for against in others]
    return comparisons


def _best(cells: Sequence[Cell], over: Sequence[str], part: Part) -> list[Cell]:
    """Return the best of each set of cells that differ in nothing but the arguments in `over`.

    Cells that were not measured come last. All cells are returned if `over` is empty.
    """
    if not over:
        return list(cells)
    groups: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in cells:
        rest = tuple((name, value) for name, value in cell.values.items() if name not in over)
        groups.setdefault(rest, []).append(cell)

    def badness(cell: Cell) -> float:
        estimate, sign = cell.estimate(part.measure), 1 if part.better == "less" else -1
        return math.inf if estimate is None else estimate.median * sign

    return [min(group, key=badness) for group in groups.values()]


def _judged(part: Part, cell: Cell, against: Cell | None, missing: Sequence[str]) -> Comparison:
    """Return a comparison with its decision, or with the reason why nothing is decided."""
    estimate = cell.estimate(part.measure)
    if against is not None:
        estimate = measured_against(cell, against, part.measure, as_ratio=part.as_ == "ratio")
    why_not = None
    # The first reason that applies is told.
    if part.not_comparable:
        why_not = part.not_comparable
    elif estimate is None:
        why_not = "no seed has both measured" if against else "not measured"
    elif not (cell.whole and (against is None or against.whole)):
        why_not = "runs failed or are missing"
    elif part.cpu and (cell.is_virtual or (against is not None and against.is_virtual)):
        why_not = "it is about a CPU, which costs nothing in virtual time"
    elif missing:
        why_not = f"the best of what was run: no {', '.join(missing)}"
    elif estimate.seeds < MIN_SEEDS:
        why_not = f"{estimate.seeds} of at least {MIN_SEEDS} seeds"
    holds = None if why_not or estimate is None else estimate.lies_within(*part.with_margin)
    if holds and estimate and not estimate.lies_within(*part.strict):
        holds, why_not = None, TIE
    return Comparison(part, cell, against, estimate, holds, why_not)


def why(finding: Finding) -> str:
    """Return the reason for a verdict, from its comparisons, in words."""
    not_run = f"not run: {', '.join(finding.not_run)}" if finding.not_run else ""
    if not finding.comparisons:
        return f"the campaigns have no such cells{not_run and f' ({not_run})'}"
    undecided = finding.of(None)
    reasons = list(
        dict.fromkeys(pair.why_not or "interval on both sides of the bound" for pair in undecided)
    )
    parts = [
        f"{len(finding.of(True))} of {len(finding.comparisons)} comparisons hold",
        f"{len(finding.of(False))} do not" if finding.of(False) else "",
        f"{len(undecided)} decide nothing ({'; '.join(reasons)})" if undecided else "",
        not_run,
    ]
    return ", ".join(filter(None, parts))
