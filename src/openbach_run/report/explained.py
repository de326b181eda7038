# SPDX-License-Identifier: GPL-3.0-or-later
"""The map that `openbach-run explain` makes, as data and as a text for people.

It says under which assumptions each finding holds, and what each alternative changes. The data
(reports/assumptions/map.json) is for the technical report.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any

from openbach_run.errors import InputError
from openbach_run.report.assumptions import Assumption, Choice
from openbach_run.report.claims import HOLDS, MARGIN, Claim, Finding
from openbach_run.report.search import Effect, Key, Search, by_medians, effects, regions
from openbach_run.results import run_files
from openbach_run.results.run_files import fields, parsed
from openbach_run.results.seeds import MIN_SEEDS
from openbach_run.results.tables import Table, as_markdown

FILE = "map.json"
DRIVERS = 3
"""The most alternatives that are named in a sentence."""
NUMBER_OR_NONE = (int, float, NoneType)
CHANGE: dict[str, Any] = {
    **dict.fromkeys(("assumption", "alternative", "unit"), str),
    **dict.fromkeys(("seeds", "more"), int),
    "by": float,
    **dict.fromkeys(("low", "high"), NUMBER_OR_NONE),
}
EXPLAINED = {
    **dict.fromkeys(("claim", "part", "orbit", "ours", "joint", "holds_under", "searched"), str),
    "changes": list,
}
MAP = {
    **dict.fromkeys(
        (
            "command",
            "commit",
            "joint",
            "campaign",
            "searched",
            "confirmed",
            "promising",
            "versions",
        ),
        str,
    ),
    **dict.fromkeys(("untried", "without_effect", "again", "failed", "findings"), list),
    "tried": int,
    "whole": bool,
}
"""The fields of the file: those of a change, of a finding and of the whole."""


@dataclass(frozen=True)
class Change:
    """The effect of an alternative alone on a finding.

    `by` is a factor if `unit` is ×, else a difference. `more` is how many more comparisons lie
    within their bounds. With one seed there is no interval.
    """

    assumption: str
    alternative: str
    by: float
    low: float | None
    high: float | None
    seeds: int
    unit: str
    more: int

    @property
    def figure(self) -> str:
        """Return the change with its interval, like `× 1.13 [1.10–1.16]` or `+3.1 [2.8–3.4]`.

        With one seed there is no interval: `× 1.13`.
        """
        digits, sign = (2, "× ") if self.unit == "×" else (1, "+" if self.by > 0 else "")
        shown = [
            f"{one:.{digits}f}".replace("-", "−")
            for one in (self.by, self.low, self.high)
            if one is not None
        ]
        return f"{sign}{shown[0]}" + (f" [{shown[1]}–{shown[2]}]" if len(shown) > 1 else "")

    @property
    def size(self) -> float:
        """Return how large the change is, whatever its direction."""
        return max(self.by, 1 / self.by) if self.unit == "×" and self.by > 0 else abs(self.by)

    @property
    def words(self) -> str:
        """Return the change in words: `buffer: 2 BDP (× 1.13, one seed)`."""
        return (
            f"{self.assumption}: {self.alternative}"
            f" ({self.figure}{', one seed' if self.seeds == 1 else ''})"
        )


@dataclass(frozen=True)
class Explained:
    """The finding on a part of a claim on one orbit: where it holds, and what changes it."""

    claim: str
    part: str
    orbit: str
    ours: str
    """The verdict with our scenarios as they are: that of the report, if `agree` was given it."""
    joint: str
    """The verdict under the joint set."""
    holds_under: str
    changes: list[Change] = field(default_factory=list)
    searched: str = ""
    """The verdict by the search's own runs, where the report's is another."""

    @property
    def drivers(self) -> list[Change]:
        """Return the alternatives that alone change how many of its comparisons hold.

        Those with an interval come first, then those that change most comparisons.
        """
        driving = (one for one in self.changes if one.more)
        return sorted(driving, key=lambda one: (one.seeds == 1, -abs(one.more), -one.size))

    @property
    def driven_by(self) -> str:
        """Return in words the assumptions that change the finding most."""
        return (
            "; ".join(one.words for one in self.drivers[:DRIVERS])
            or "nothing of what was tried alone"
        )


@dataclass(frozen=True)
class Map:
    """The whole map. `joint` is the set of assumptions under which most findings hold, in words."""

    command: str
    commit: str
    whole: bool
    joint: str
    campaign: str
    """The cells and their number, or those of a campaign file."""
    searched: str
    """The seeds of the search, in words."""
    confirmed: str
    """The other seeds, from which the verdicts are; "" if there was no time for them."""
    tried: int
    untried: list[str]
    without_effect: list[str]
    again: list[str]
    """The choices that were run with the other seeds."""
    findings: list[Explained]
    promising: str = ""
    """The choice under which more holds by the seeds of the search, if there was no time to run it
    with the other seeds."""
    versions: str = ""
    """A sentence if the runs are from several versions of Debian."""
    failed: list[str] = field(default_factory=list)
    """The choices under which runs failed, with their number."""

    def of(self, claim: str) -> list[Explained]:
        """Return the findings of a claim."""
        return [one for one in self.findings if one.claim == claim]

    def held(self, under: str, claim: str | None = None) -> int:
        """Return how many findings (of a claim) hold under `ours` or `joint`."""
        return sum(
            getattr(one, under) == HOLDS for one in self.findings if claim in (None, one.claim)
        )

    def as_json(self) -> str:
        """Return the map as JSON, with one finding on each line."""
        fields = asdict(self)
        findings = ",\n".join(json.dumps(one, ensure_ascii=False) for one in fields.pop("findings"))
        head = json.dumps(fields, indent=1, ensure_ascii=False).removesuffix("\n}")
        return f'{head},\n "findings": [\n{findings}\n]}}\n'


def words(choice: Choice) -> str:
    """Return a choice of assumptions in words."""
    return "; ".join(f"{name}: {value}" for name, value in choice.items()) or "all as ours"


def assumptions_of(folder: Path) -> Map | None:
    """Return the map in a folder; None if none was made. Raises InputError."""
    file = folder / FILE
    if not file.exists():
        return None
    content: dict[str, Any] = parsed(run_files.content(folder, FILE), str(file))
    try:
        if wrong := _wrong(content):
            raise TypeError(wrong)
        findings = []
        for one in content.pop("findings"):
            changes = [Change(**change) for change in one["changes"]]
            findings.append(Explained(**{**one, "changes": changes}))
        return Map(**content, findings=findings)
    except TypeError as error:
        raise InputError(f"{file}: {error}; openbach-run explain writes it anew") from error


def _wrong(content: Any) -> str | None:
    """Return what is wrong with the content of a map.json, or None."""
    if isinstance(content, dict):
        # Maps of before have no such fields.
        content = {"promising": "", "versions": "", "failed": [], **content}
    if wrong := fields(content, MAP):
        return wrong
    listed = ("untried", "without_effect", "again", "failed")
    texts = chain.from_iterable(content[name] for name in listed)
    if not all(type(one) is str for one in texts):
        return f"{', '.join(listed)} should be lists of texts"
    for one in content["findings"]:
        wrong = fields({"searched": "", **one} if isinstance(one, dict) else one, EXPLAINED)
        if not wrong:
            faults = (fields(each, CHANGE) for each in one["changes"])
            wrong = next(filter(None, faults), None)
        if wrong:
            return f"findings: {wrong}"
    return None


def agree(found: Map, claims: Iterable[Claim]) -> Map:
    """Return the map with the verdicts of a report on our scenarios, where it has them.

    A report has more cells than a search, so it is the source of every verdict; what the search
    found by its own runs is kept beside it.
    """
    told = {}
    for claim in claims:
        for one in claim.findings:
            told[claim.name, one.part.says, one.orbit] = one.verdict
    findings = []
    for each in found.findings:
        searched = each.searched or each.ours
        ours = told.get((each.claim, each.part, each.orbit), searched)
        findings.append(replace(each, ours=ours, searched=searched if searched != ours else ""))
    return replace(found, findings=findings)


def map_of(
    found: Search,
    command: str,
    commit: str,
    campaign: str,
    searched: str,
    confirmed: str,
    versions: str = "",
    failed: Sequence[str] = (),
) -> Map:
    """Return the map of what a search has found.

    `confirmed` are the seeds of `found.again`, in words.
    """
    where, changed = regions(found), _changes(found)
    ours, joint = found.same_again({}), found.same_again(found.joint.choice)
    # Was the best choice by the seeds of the search run with the other seeds, too?
    is_judged = found.best is found.joint or found.same_again(found.best.choice) in found.confirmed
    findings = [
        Explained(
            *key,
            ours.findings[key].verdict if ours and key in ours.findings else by_medians(finding),
            (
                _verdict(joint.findings.get(key))
                if joint
                else _by_medians(found.joint.findings.get(key))
            ),
            where[key],
            changed[key],
        )
        for key, finding in found.tried[0].findings.items()
    ]
    return Map(
        command,
        commit,
        found.whole,
        words(found.joint.choice),
        campaign,
        searched,
        confirmed if joint else "",
        len(found.tried),
        [words(one) for one in found.untried],
        [words(one) for one in found.without_effect],
        [
            "the joint set" if one is joint and one.choice else words(one.choice)
            for one in found.again
        ],
        findings,
        "" if is_judged else f"{words(found.best.choice)} ({found.best.held} of {len(findings)})",
        versions,
        list(failed),
    )


def _verdict(finding: Finding | None) -> str:
    return finding.verdict if finding else ""


def _by_medians(finding: Finding | None) -> str:
    return by_medians(finding) if finding else ""


def _changes(found: Search) -> dict[Key, list[Change]]:
    """Return the changes by finding.

    If an alternative was run with the other seeds, the intervals are of those.
    """
    with_intervals = effects(found.again) if found.again else {}
    told = {}
    for key, several in effects(found.tried).items():
        better = {(one.assumption, one.alternative): one for one in with_intervals.get(key, ())}
        told[key] = [_shown(better.get((one.assumption, one.alternative), one)) for one in several]
    return told


def _shown(one: Effect) -> Change:
    by, ends = (
        one.change.median,
        [end and round(end, 4) for end in (one.change.low, one.change.high)],
    )
    unit = "×" if one.is_factor else ""
    return Change(
        one.assumption,
        one.alternative,
        round(by, 4),
        ends[0],
        ends[1],
        one.change.seeds,
        unit,
        one.more,
    )


def answer(found: Map, assumptions: Mapping[str, Assumption], joint: Choice) -> str:
    """Return the map as Markdown.

    It says how many findings hold, where each holds and what drives it, and what each alternative
    changes.
    """
    claims = dict.fromkeys(one.claim for one in found.findings)
    tables = [_of_claim(found, claim) for claim in claims]
    parts = [
        "# Assumptions under which the published report's claims hold",
        summary(found),
        f"    {found.command}",
        f"In the cells of `{found.campaign}`"
        + (f", at commit {found.commit[:12]}" if found.commit else "")
        + f". The search went by the medians of {found.searched}. "
        + (
            f"The verdicts are those of {found.confirmed}, which it has not used."
            + (
                f" By those medians more hold under {found.promising}; there was no time to run"
                " this with the other seeds."
                if found.promising
                else ""
            )
            if found.confirmed
            else (
                "There was no time to run what it found with other seeds (`--confirm`): the"
                f" verdicts, too, are those of these medians, and fewer than {MIN_SEEDS} seeds"
                " decide nothing."
            )
        )
        + (f" {found.versions}" if found.versions else ""),
        as_markdown(_held(found)),
        as_markdown(_findings(found)),
        "## What each alternative alone changes",
        (
            "By how much the compared ratio or measure changes: the median over a claim's"
            " comparisons (those that come into or out of their bounds, if any do), paired by"
            " seed, with its 95 % bootstrap interval over the seeds; without brackets it is of one"
            " seed, and says little where packets are lost at random. With (+2) two more"
            " comparisons lie within theirs. Left out is what changes none of a claim's findings"
            f" by more than {100 * MARGIN:g} %."
        ),
        *(as_markdown(table) for table in tables if table),
        "## What was tried",
        _tried(found),
        as_markdown(_asked(assumptions, joint)),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def summary(found: Map, by: str = "") -> str:
    """Return how many findings hold; `by` says by what, for people who do not see the map."""
    end = " The budget ended the search: the same command with a larger one goes on."
    return (
        f"As our scenarios are, {found.held('ours')} of {len(found.findings)} findings are"
        f" reproduced{by and ' ' + by}; under {found.joint}, {found.held('joint')}."
        f"{'' if found.whole else end}"
    )


def _held(found: Map) -> Table:
    """Return the number of findings that hold, by claim and in all."""
    claims = list(dict.fromkeys(one.claim for one in found.findings))
    rows = [
        [
            claim,
            str(found.held("ours", claim)),
            str(found.held("joint", claim)),
            str(len(found.of(claim))),
        ]
        for claim in claims
    ]
    rows.append(
        [
            "all findings",
            *(str(one) for one in (found.held("ours"), found.held("joint"), len(found.findings))),
        ]
    )
    whole = []
    for under in ("ours", "joint"):
        whole.append(sum(found.held(under, one) == len(found.of(one)) for one in claims))
    rows.append(["whole claims", *map(str, whole), str(len(claims))])
    note = (
        "a finding is one part of a claim on one orbit; a claim holds as a whole if all its"
        " findings do"
    )
    return Table(
        "Findings that hold", ["claim", "as ours", "under the joint set", "of"], rows, note, 1
    )


def _findings(found: Map) -> Table:
    rows = [
        [
            one.claim,
            one.part,
            one.orbit.upper(),
            one.ours + (f" (in the search: {one.searched})" if one.searched else ""),
            one.joint,
            one.holds_under,
            one.driven_by,
        ]
        for one in found.findings
    ]
    header = [
        "claim",
        "what is compared",
        "orbit",
        "as ours",
        "under the joint set",
        "holds under",
        "driven by",
    ]
    note = (
        "holds under: of the choices tried, by their medians; driven by: alternatives that alone"
        " change how many of its comparisons hold, with what they do to their ratio or value"
    )
    return Table(
        "Claims and the assumptions under which they hold", header, rows, note, len(header)
    )


def _of_claim(found: Map, claim: str) -> Table | None:
    """Return a row for each alternative that changes anything, a column for each finding.

    None if no alternative does.
    """
    findings = found.of(claim)
    by_pair: dict[tuple[str, str], dict[int, Change]] = {}
    for number, finding in enumerate(findings):
        for one in finding.changes:
            by_pair.setdefault((one.assumption, one.alternative), {})[number] = one
    rows = []
    for (assumption, alternative), changes in by_pair.items():
        if any(map(_matters, changes.values())):
            cells = [_cell(changes.get(number)) for number in range(len(findings))]
            rows.append([f"{assumption}: {alternative}", *cells])
    if not rows:
        return None
    header = [claim, *(" ".join(filter(None, (one.orbit.upper(), one.part))) for one in findings)]
    return Table(f"{claim}: what each alternative alone changes", header, rows, "", 1)


def _matters(one: Change) -> bool:
    """Return whether a change moves a comparison over a bound, or is larger than the margin."""
    return bool(one.more or one.size > 1 + MARGIN or (one.unit != "×" and one.size > MARGIN))


def _cell(one: Change | None) -> str:
    if one is None:
        return "–"
    return one.figure + (f" ({one.more:+d})".replace("-", "−") if one.more else "")


def _tried(found: Map) -> str:
    told = [f"{found.tried} choices."]
    if found.again:
        told.append(f"With the other seeds: {'; '.join(found.again)}.")
    if found.without_effect:
        told.append(
            f"Change nothing by more than {100 * MARGIN:g} % alone:"
            f" {'; '.join(found.without_effect)}."
        )
    if found.failed:
        told.append(
            "Runs failed, and a comparison that has none left does not hold:"
            f" {'; '.join(found.failed)}."
        )
    if found.untried:
        told.append(f"Not tried, for want of time: {'; '.join(found.untried)}.")
    return "\n".join(f"- {one}" for one in told)


def _asked(assumptions: Mapping[str, Assumption], joint: Choice) -> Table:
    rows = [
        [name, one.asks, one.ours, "; ".join(one.alternatives), joint.get(name, "as ours")]
        for name, one in assumptions.items()
    ]
    return Table(
        "What the published report leaves open",
        ["", "asked", "ours", "alternatives", "joint set"],
        rows,
        "",
        5,
    )
