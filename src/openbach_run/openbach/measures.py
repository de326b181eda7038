# SPDX-License-Identifier: GPL-3.0-or-later
"""A job's measures: `measures.yml` in its folder, beside `files/`.

It is a mapping `column: {statistic, unit, type, factor, title, better, take}`; all of them may be
left out:

    statistic   what the job sends, one of `statistics` in its description (default: the column)
    unit        for people (default: what the column's name ends with: _s, _ms, _pct, _mbps)
    type        float (default) or int, in results.parquet; or text: a column that is no measure
    factor      the column is the statistic times this (default 1)
    title       words for the head of a table and for an axis (default: the column's name in words)
    better      less or more, or left out where neither is
    take        what the column is of a statistic that was sent several times: median (default) and
                others (schemas/measures.json)
    absent      the word in a table's cell for a run that has sent none, as `never`

A job without this file measures what it sends: each number is a column, EVERY_STATISTIC. Words are
no part of a run: a better title makes no finished run stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.errors import InputError
from openbach_run.openbach.shapes import check
from openbach_run.yaml_files import read_yaml

FILE = "measures.yml"
DURING = "transfer_"
"""Beginning of takes of what was sent during a transfer; if there was none, of all that was."""
TAKES_OF_ONE = (
    *("median", "mean", "min", "max", "first", "last", "sum", "count"),
    *(f"{DURING}{of}" for of in ("median", "p95", "max")),
)
"""Takes of what was sent with one suffix."""
WORST = ("worst", "worst_flow")
"""Takes of the worst of the medians by suffix (direction, flow); a worst_flow is of several."""
TAKES_OF_ALL = ("total_rate", "first_share_pct", "fairness", *WORST)
"""Takes of what was sent with all suffixes, one a flow: see results/flows.py."""
SERIES = "series"
"""Take of a measure that is no column, but the words of a drawing over time."""
STEP = "measured_command"
"""Job of a scenario's steps, whose measures the scenario says."""
EACH = "each"
"""Take of EVERY_STATISTIC: every number that the job sends is a column."""
TEXT = "text"
UNITS = {"s": "s", "ms": "ms", "pct": "%", "mbps": "Mbit/s", "bps": "bit/s", "bytes": "bytes"}
"""Last part of a column's name → its unit as it is written."""
OF_A_RUN = ("virtual_s", "wall_s", "run_id", "capture_hash", "too_short_by_s")
OTHER_COLUMNS = ("scenario", "seed", "status", *OF_A_RUN)
"""Columns of results.csv that are neither measures nor arguments."""


@dataclass(frozen=True)
class Measure:
    """A column of results.csv."""

    column: str
    statistic: str
    unit: str
    title: str
    type: str = "float"
    factor: float = 1.0
    better: str | None = None
    take: str = "median"
    absent: str | None = None

    @property
    def is_column(self) -> bool:
        """Return whether it is a column of numbers in results.csv."""
        return self.take not in (SERIES, EACH) and self.type != TEXT

    @property
    def words(self) -> str:
        """Return title and unit: `page load time (s)`."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


Declared = Mapping[str, tuple[Measure, ...]]
"""Measures by job."""
EVERY_STATISTIC = Measure("*", "*", "", "every statistic", take=EACH)
"""The measure of a job without measures.yml (OpenBACH's own have none).

It is the median of each statistic that is a number, in a column of its name. What is sent is what
counts: their descriptions leave some out, and have patterns for others.
"""


def from_name(column: str) -> Measure:
    """Return the measure that a column's name alone describes.

    `page_load_time_s` is `page load time` in s.
    """
    *words, last = column.split("_")
    # A column that is called `s` has no words, so `s` is its name and not its unit.
    unit = UNITS.get(last, "") if words else ""
    title = " ".join(words if unit and last != "bytes" else [*words, last])
    return Measure(column, column, unit, title)


def measure_of(column: str, known: Iterable[Measure]) -> tuple[str, Measure]:
    """Return the measure that a column of results.csv is, and the suffix with which it was sent.

    The suffix of `to_client_mos` is `to_client`.
    """
    fits = [spec for spec in known if spec.is_column and f"_{column}".endswith(f"_{spec.column}")]
    if not fits:
        return "", from_name(column)
    # The longest name: `page_load_time_s` also ends as `time_s` does.
    longest = max(fits, key=lambda measure: len(measure.column))
    return column.removesuffix(longest.column).removesuffix("_"), longest


def in_words(column: str, declared: Iterable[Measure]) -> str:
    """Return a column in words: `to client one-way delay (ms)`."""
    suffix, measure = measure_of(column, declared)
    return f"{suffix.replace('_', ' ')} {measure.words}".strip()


def over_time(statistic: str, declared: Iterable[Measure]) -> Measure:
    """Return the measure that says what a statistic is over time; else what its name says."""
    fitting = [
        spec for spec in declared if spec.statistic == statistic and spec.take not in TAKES_OF_ALL
    ]
    # One that is declared for the drawing alone (SERIES) comes before a column.
    return min(fitting, key=lambda measure: measure.is_column, default=from_name(statistic))


def flat(declared: Declared) -> list[Measure]:
    """Return the measures of all jobs in one list."""
    return [measure for measures in declared.values() for measure in measures]


def to_records(declared: Declared) -> dict[str, list[dict[str, Any]]]:
    """Return measures as a record keeps them.

    The result is shared by all records: do not change it.
    """
    return _to_records(tuple(declared.items()))


@lru_cache
def _to_records(
    declared: tuple[tuple[str, tuple[Measure, ...]], ...],
) -> dict[str, list[dict[str, Any]]]:
    """Return measures as a record keeps them, once for all records of a campaign."""
    return {job: list(map(_as_record, measures)) for job, measures in declared}


def _as_record(measure: Measure) -> dict[str, Any]:
    """Return a measure as a record keeps it; `absent` only if there is such a word."""
    return {key: value for key, value in asdict(measure).items() if key != "absent" or value}


def from_records(kept: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, tuple[Measure, ...]]:
    """Return the measures that a record has kept.

    Keys of another version, and keys that it lacks, do not matter.
    """
    return {job: tuple(map(_kept, measures)) for job, measures in kept.items()}


def _kept(entry: Mapping[str, Any]) -> Measure:
    """Return the measure of a record's entry."""
    return replace(from_name(entry["column"]), **{key: entry[key] for key in KEYS if key in entry})


# Reading


def read_measures(folder: Path, job: str, sent: Iterable[str]) -> tuple[Measure, ...]:
    """Return the measures of the job in a folder, in the order of its file.

    Without a file it is EVERY_STATISTIC. `sent` are the statistics that the job declares. Raises
    InputError.
    """
    file = folder / FILE
    if not file.exists():
        return (EVERY_STATISTIC,)
    content = read_yaml(file)
    check(f"{file}", content, "measures")
    statistics = list(sent)
    measures = tuple(
        described_measure(f"{file}: {column}", column, described)
        for column, described in content.items()
    )
    for measure in measures:
        if measure.statistic not in statistics:
            raise InputError(
                f"{file}: {measure.column}: {job} declares no statistic {measure.statistic};"
                f" {near(measure.statistic, statistics)}files/{job}.yml has"
                f" {', '.join(statistics) or 'none'}"
            )
    return measures


def described_measure(at: str, column: str, described: Any) -> Measure:
    """Return the measure of a column's description. Raises InputError."""
    if not column.isidentifier() or not column.isascii() or column in OTHER_COLUMNS:
        reason = (
            "is another column"
            if column in OTHER_COLUMNS
            else "is not made of letters, digits and _"
        )
        raise InputError(
            f"{at}: the name {reason}; a column is called like answer_time_ms, and its unit is in"
            " its name"
        )
    named = from_name(column)
    values = {"statistic": column, "unit": named.unit, "title": named.title, **(described or {})}
    return Measure(column, **{**values, "factor": float(values.get("factor", 1))})


KEYS = tuple(field.name for field in fields(Measure) if field.name != "column")


def check_agreement(declared: Declared) -> None:
    """Check that jobs with a column of the same name mean the same, as results.csv has one of it.

    Raises InputError for another unit or type.
    """
    first: dict[str, tuple[str, Measure]] = {}
    for job, measures in declared.items():
        for spec in filter(lambda measure: measure.is_column, measures):
            peer, before = first.setdefault(spec.column, (job, spec))
            if (before.unit, before.type, before.better) != (spec.unit, spec.type, spec.better):
                raise InputError(
                    f"jobs {peer} and {job}: both measure {spec.column}, with another unit, type or"
                    " better; call one of them otherwise"
                )
