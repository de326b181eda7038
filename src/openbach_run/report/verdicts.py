# SPDX-License-Identifier: GPL-3.0-or-later
"""The results on claims in words.

These are verdicts with their exceptions, figures beside the published ones, and mechanisms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter

from openbach_run.openbach.measures import Declared, flat, measure_of
from openbach_run.report.causes import mechanism
from openbach_run.report.claims import (
    BUT_FOR,
    CANNOT_TELL,
    DOES_NOT,
    HOLDS,
    MARGIN,
    OTHER,
    Claim,
    Comparison,
    Finding,
    Group,
    Part,
    why,
)
from openbach_run.report.words import figure
from openbach_run.results.seeds import MIN_SEEDS
from openbach_run.results.tables import Table

VERDICTS_NOTE = (
    "reproduced: every comparison lies within its bounds with its whole interval; partly:"
    " more than half of them; not: at least one lies outside with its whole interval. A"
    f" bound may be missed by {100 * MARGIN:g} % of it, where a claim says nothing else. A"
    f" comparison of fewer than {MIN_SEEDS} seeds or with failed runs decides nothing; not"
    " comparable: what the claim is about is something else here"
)
GROUPS_NAMED = 4
"""The most exceptions that a sentence names; claims.csv has them all."""


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return a row for each finding that has comparisons."""
    rows = []
    for claim in claims:
        for finding in claim.findings:
            if finding.comparisons:
                published = finding.part.published or finding.part.bounds
                labels = [claim.name, finding.part.says, finding.orbit.upper(), published]
                rows.append([*labels, range_in_words(finding), finding.verdict])
    ours = "ours, from least to most"
    header = ["claim", "what is compared", "orbit", "published", ours, "verdict"]
    return Table("Claims of the published documents", header, rows, VERDICTS_NOTE, len(header))


SYMBOLS = {HOLDS: "●", BUT_FOR: "◐", DOES_NOT: "○", CANNOT_TELL: "?", OTHER: "–"}
PHRASES = {BUT_FOR: "partly reproduced", DOES_NOT: "not reproduced"}
"""Verdicts as a sentence has them, where that is not the word itself."""


def word_of(claim: Claim) -> str:
    """Return the verdict on a claim as in the list of verdicts (claims.py).

    Partly is what is reproduced on one link, or for more than half of the comparisons.
    """
    verdicts = set(claim.verdicts.values())
    if len(verdicts) == 1:
        return verdicts.pop()
    return BUT_FOR if verdicts & {HOLDS, BUT_FOR} else DOES_NOT


def lines_table(claims: Sequence[Claim]) -> Table:
    """Return a line for each claim: a symbol, its verdict in a word, and what was found."""
    rows = []
    for claim in claims:
        word = word_of(claim)
        rows.append([f"{SYMBOLS[word]} {word}", f"{claim.name}. {claim.statement}", _line(claim)])
    header = ["verdict", "claim", "found"]
    counted = Counter(map(word_of, claims))
    counts = [f"{counted[word]} {word}" for word in SYMBOLS if counted[word]]
    note = f"{', '.join(counts)}. found: medians from least to most, of the part that decides"
    return Table("Claims, a line each", header, rows, note, len(header))


def _line(claim: Claim) -> str:
    """Return the part of a claim that decides, with its figures on each link."""
    by_verdict: dict[tuple[str, str], list[str]] = {}
    for orbit, verdict in claim.verdicts.items():
        finding = next(f for f in claim.findings if (f.orbit, f.verdict) == (orbit, verdict))
        alone = len(set(claim.verdicts.values())) == 1
        words = f"{orbit.upper()} {range_in_words(finding)}{'' if alone else f' ({verdict})'}"
        claimed = finding.part.not_comparable or f"claimed {finding.part.bounds}"
        by_verdict.setdefault((finding.part.says, claimed), []).append(words.strip())
    parts = [f"{says}: {', '.join(of)}; {claimed}" for (says, claimed), of in by_verdict.items()]
    return ". ".join(f"{words[:1].upper()}{words[1:]}" for words in parts)


def range_in_words(finding: Finding) -> str:
    """Return the least and greatest of the comparisons' medians: `0.970 to 1.130`."""
    medians = sorted(pair.estimate.median for pair in finding.comparisons if pair.estimate)
    if not medians:
        return "not measured"
    places = 3 if finding.part.is_ratio else 2 if max(map(abs, medians)) < 1000 else 0
    ends = (f"{median:.{places}f}" for median in (medians[0], medians[-1]))
    return " to ".join(dict.fromkeys(ends))


def verdict_in_words(finding: Finding) -> str:
    """Return the verdict with its exceptions: `partly reproduced, not for OpenVPN TCP (1.13)`."""
    if finding.verdict == OTHER:
        return f"{OTHER}: {finding.part.not_comparable}"
    if finding.verdict == CANNOT_TELL:
        return f"{finding.verdict}: {why(finding)}"
    exceptions = finding.exceptions
    if len(exceptions) > GROUPS_NAMED:
        several = sum(len(exception.comparisons) for exception in exceptions)
        named = [f"{several} of {len(finding.comparisons)} comparisons"]
    else:
        named = [_group(exception) for exception in exceptions]
    if finding.verdict == BUT_FOR:
        not_run = [f"what was not run: {', '.join(finding.not_run)}"] if finding.not_run else []
        return f"{PHRASES[BUT_FOR]}, not for {'; '.join(named + not_run)}"
    words = PHRASES.get(finding.verdict, finding.verdict)
    return f"{words}, only for {'; '.join(named)}" if named else words


def _group(group: Group) -> str:
    """Return a group of comparisons in words: its name, its least and greatest median."""
    medians = sorted(pair.estimate.median for pair in group.comparisons if pair.estimate)
    part = group.comparisons[0].part
    digits = 3 if part.is_ratio else 2
    ends = [f"{median:.{digits}f}" for median in (*medians[:1], *medians[-1:])]
    open_pairs = [pair for pair in group.comparisons if pair.holds is None]
    why_not = {pair.why_not or "interval on both sides of the bound" for pair in open_pairs}
    undecided = f", inconclusive: {'; '.join(sorted(why_not))}" if why_not else ""
    figures = " to ".join(dict.fromkeys(ends)) or "not measured"
    return f"{group.name or 'all'} ({figures}{undecided})"


def verdict_of(claim: Claim) -> str:
    """Return a claim's verdicts in words, for a list of claims.

    Examples are `GEO: partly reproduced, not for PEP A. LEO: reproduced` and `GEO and LEO:
    inconclusive`.
    """
    by_words: dict[str, list[str]] = {}
    for orbit in claim.verdicts:
        words = [verdict_in_words(finding) for finding in claim.findings if finding.orbit == orbit]
        all_alike = len(set(words)) == 1
        of_parts = (
            words[0]
            if all_alike
            else "; ".join(
                f"{finding.part.says}: {verdict_in_words(finding)}"
                for finding in claim.findings
                if finding.orbit == orbit
            )
        )
        by_words.setdefault(of_parts, []).append(orbit.upper())
    return ". ".join(
        f"{' and '.join(orbits)}: {words}".removeprefix(": ") for words, orbits in by_words.items()
    )


def asked_of(part: Part, declared: Declared) -> str:
    """Return what has to hold for a part, in words."""
    measure = measure_of(part.measure, flat(declared))[1].title
    what = f"the difference in {measure}" if part.against else measure
    what = "the ratio" if part.is_ratio else what
    return f"{part.says[:1].upper()}{part.says[1:]}: {what} has to be {part.bounds}"


def sentences(finding: Finding, declared: Declared) -> str:
    """Return a finding in sentences: the verdict, the figures from least to most, and the reason.

    The reason is what else the runs show for the comparison farthest outside its bounds or, if none
    is outside, for the one that is farthest from no difference.
    """
    words = verdict_in_words(finding)
    parts = f"{words[:1].upper()}{words[1:]}.", _range(finding), _why(finding, declared)
    return " ".join(filter(None, parts))


def _ends(finding: Finding) -> list[Comparison]:
    """Return the least and the greatest comparison.

    Only one if both have the same figure, none if nothing was measured.
    """
    known = [(pair.estimate.median, pair) for pair in finding.comparisons if pair.estimate]
    if not known:
        return []
    ends = [choose(known, key=itemgetter(0))[1] for choose in (min, max)]
    return ends if _figure(ends[0]) != _figure(ends[1]) else ends[:1]


def _alike(finding: Finding) -> bool:
    """Return whether there are several comparisons that all have the same figure."""
    return len(_ends(finding)) == 1 < len(finding.comparisons)


def _range(finding: Finding) -> str:
    """Return the figures from least to most, as a sentence."""
    figures = [_figure(end) if _alike(finding) else _named(end) for end in _ends(finding)]
    if not figures:
        return "Nothing was measured."
    return f"It is {'from ' if len(figures) > 1 else ''}{' to '.join(figures)}."


def _why(finding: Finding, declared: Declared) -> str:
    """Return the mechanism, as far as the runs show it; "" if they show none."""
    compared = [pair for pair in finding.comparisons if pair.estimate and pair.against]
    if not compared:
        return ""
    worst = max(compared, key=lambda pair: pair.excess)
    outside = worst.excess > 0 and worst.holds is not True
    shown = worst if outside else max(compared, key=_effect)
    assert shown.against is not None
    words = mechanism(shown.cell, shown.against, finding.part.measure, flat(declared))
    if not words:
        return ""
    ends = _ends(finding)
    where = "There" if len(finding.comparisons) == 1 else ""
    if len(ends) > 1 and shown in ends:
        where = ("In the first", "In the last")[ends.index(shown)]
    return f"{where or (f'For {shown.name}' if _alike(finding) else _named(shown))}: {words}."


def _effect(pair: Comparison) -> float:
    """Return how far a comparison is from no difference; −1 if it was not measured."""
    none = 1.0 if pair.part.is_ratio else 0.0
    return abs(pair.estimate.median - none) if pair.estimate else -1.0


def _named(pair: Comparison) -> str:
    return f"{_figure(pair)} ({pair.name})"


def _figure(pair: Comparison) -> str:
    return figure(pair.estimate, 3 if pair.part.is_ratio else None)


def undecided(claims: Sequence[Claim]) -> Mapping[str, list[str]]:
    """Return, by reason, the names of claims with cells on which nothing is decided."""
    reasons: dict[str, list[str]] = {}
    for claim in claims:
        if claim.is_spoken_of and not claim.is_told:
            comparisons = chain.from_iterable(part.comparisons for part in claim.findings)
            why_not = {pair.why_not or "" for pair in comparisons}
            reasons.setdefault("; ".join(sorted(filter(None, why_not))), []).append(claim.name)
    return reasons


def by_document(
    claims: Sequence[Claim], titles: Mapping[str, str]
) -> list[tuple[str, list[Claim]]]:
    """Return the titles of documents, each with its claims."""
    claims_of: dict[str, list[Claim]] = {}
    for claim in claims:
        claims_of.setdefault(titles[claim.document], []).append(claim)
    return list(claims_of.items())
