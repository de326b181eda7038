# SPDX-License-Identifier: GPL-3.0-or-later
"""A trial against an earlier one, paired by seed: what has become worse, for people and for CI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from openbach_run.errors import InputError
from openbach_run.prompt.trial import Seen
from openbach_run.results.intervals import Estimate, estimate, ratio

WORSE, SAME, BETTER, UNKNOWN = "worse", "no worse", "better", "not decided"


@dataclass(frozen=True)
class Verdict:
    """The comparison of a time, or another measure, with an earlier one."""

    change: Estimate | None
    """Factor by which it is worse, 1 for no change; None if no seed ended well in both."""
    broken: tuple[Seen, ...]
    """The seeds that failed now and had not before."""
    tolerance: float
    what: str = "time"
    more_is_better: bool = False
    """True if `change` is the earlier measure through this one."""

    @property
    def word(self) -> str:
        """Return WORSE, SAME, BETTER or UNKNOWN.

        It is worse if a seed fails that did not, or if the median of the change lies beyond the
        tolerance and its whole interval on the same side of no change. With one seed the change
        itself decides.
        """
        if self.broken:
            return WORSE
        if self.change is None:
            return UNKNOWN
        median = self.change.median
        low = median if self.change.low is None else self.change.low
        high = median if self.change.high is None else self.change.high
        if median > 1 + self.tolerance:
            return WORSE if low > 1 else UNKNOWN
        return BETTER if median < 1 - self.tolerance and high < 1 else SAME

    @property
    def is_worse(self) -> bool:
        """Return whether it is a regression."""
        return self.word == WORSE

    def in_words(self) -> str:
        """Return it for a person."""
        if self.broken:
            return "; ".join(f"seed {run.seed}: {run.wrong}" for run in self.broken)
        if self.change is None:
            return "no seed ended well in both"
        power = -1 if self.more_is_better else 1
        change = f"{self.change.median**power - 1:+.1%}"
        if self.change.low is not None and self.change.high is not None:
            ends = sorted(end**power - 1 for end in (self.change.low, self.change.high))
            change += f" ({ends[0]:+.1%} to {ends[1]:+.1%})"
        return f"{self.what} {change}, {self.change.seeds} seeds, tolerance {self.tolerance:.1%}"


def tolerance_of(text: str) -> float:
    """Return the tolerance of `5%` or `0.05`. Raises InputError."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise InputError(f"--tolerance {text}: a part of the time, as 5% or 0.05, below 100%")
    return value


def compared(now: Sequence[Seen], before: Sequence[Seen], tolerance: float) -> Verdict:
    """Return how the times of the same seeds have changed."""
    good = {run.seed: run for run in before if not run.wrong}
    broken = tuple(run for run in now if run.wrong and run.seed in good)
    return Verdict(ratio(_times(now), _times(before)), broken, tolerance)


def _times(seen: Sequence[Seen]) -> dict[int, float]:
    return {run.seed: run.time_s for run in seen if run.time_s is not None and not run.wrong}


def check_comparable(wanted: Mapping[str, Any], before: Mapping[str, Any], place: str) -> None:
    """Raise InputError for a baseline that was measured on another path, or with other seeds."""
    for name in ("scenario", "values", "payload_bytes", "seeds"):
        if wanted[name] != before.get(name):
            raise InputError(
                f"--against {place}: its {name} is {before.get(name)}, here it is {wanted[name]}:"
                " the two cannot be compared"
            )


def summary(title: str, seen: Sequence[Seen], verdict: Verdict | None, note: str) -> str:
    """Return it as Markdown, for a pull request."""
    lines = [f"### {title}", ""]
    if verdict is not None:
        lines += [f"**{verdict.word}**: {verdict.in_words()}", ""]
    lines += ["| seed | time (s) | bytes | goodput (Mbit/s) | |", "|--:|--:|--:|--:|---|"]
    for run in seen:
        rate = "" if run.goodput_bps is None else f"{run.goodput_bps / 1e6:.3f}"
        time = "" if run.time_s is None else f"{run.time_s:.3f}"
        size = "" if run.bytes is None else str(run.bytes)
        end = run.wrong.replace("|", "\\|").replace("\n", " ") or "well"
        lines.append(f"| {run.seed} | {time} | {size} | {rate} | {end} |")
    measured = estimate(list(_times(seen).values()))
    if measured is not None:
        seeds = "1 seed" if measured.seeds == 1 else f"{measured.seeds} seeds"
        lines += ["", f"Median {_interval(measured)} s of {seeds}."]
    return "\n".join([*lines, *(["", note] if note else []), ""])


def _interval(value: Estimate) -> str:
    if value.low is None or value.high is None:
        return f"{value.median:.3f}"
    return f"{value.median:.3f} ({value.low:.3f} to {value.high:.3f})"


def junit(name: str, seen: Sequence[Seen], verdict: Verdict | None) -> str:
    """Return it as JUnit's XML: a test for each seed, and one for the comparison."""
    failures = sum(bool(run.wrong) for run in seen) + int(verdict is not None and verdict.is_worse)
    count = len(seen) + int(verdict is not None)
    suite = ElementTree.Element(
        "testsuite", name=name, tests=str(count), failures=str(failures), errors="0"
    )
    for run in seen:
        time_s = "0" if run.time_s is None else f"{run.time_s:.6f}"
        case = ElementTree.SubElement(
            suite, "testcase", classname=name, name=f"seed {run.seed}", time=time_s
        )
        if run.wrong:
            _failure(case, run.wrong)
    if verdict is not None:
        case = ElementTree.SubElement(
            suite, "testcase", classname=name, name="against the baseline", time="0"
        )
        if verdict.is_worse:
            _failure(case, verdict.in_words())
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _failure(case: ElementTree.Element, text: str) -> None:
    # XML 1.0 has no control characters, which a program may have printed.
    plain = "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)
    ElementTree.SubElement(case, "failure", message=plain.splitlines()[0][:500]).text = plain
