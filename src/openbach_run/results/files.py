# SPDX-License-Identifier: GPL-3.0-or-later
"""One tidy row a run, as CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openbach_run.openbach.measures import Measure, flat, measure_of
from openbach_run.results.measures import measures_of_all
from openbach_run.results.record import Record

FIRST = ("vpn", "pep", "cc", "loss")
"""Arguments whose columns come first, where a scenario has them."""
NUMBERS = {"seed": "int64", "virtual_s": "float64", "wall_s": "float64"}
"""Columns besides measures that are numbers in results.parquet; all others are text, arguments as they were given."""


def row(record: Record) -> dict[str, Any]:
    """The record's row of results.csv; what is not known is empty."""
    names = sorted(record.arguments, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    values = {
        "scenario": record.scenario,
        **{name: record.arguments[name] for name in names},
        "seed": record.seed,
        "status": record.status,
        **record.measures,
        **{name: getattr(record, name) for name in ("virtual_s", "wall_s", "run_id", "capture_sha256")},
    }
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in values.items()}


def columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of all columns; those that only some rows have come before the column that follows them there."""
    merged: list[str] = []
    for one in rows:
        place = 0
        for name in one:
            if name not in merged:
                merged.insert(place, name)
            place = merged.index(name) + 1
    return merged


def as_csv(records: Sequence[Record]) -> str:
    rows = [row(record) for record in records]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_json(records: Sequence[Record]) -> str:
    return json.dumps([row(record) for record in records], indent=1) + "\n"


def write_parquet(records: Sequence[Record], file: Path) -> None:
    """The rows of results.csv: arguments as text, measures with the types, units and titles that their jobs declare."""
    import pyarrow
    import pyarrow.parquet

    rows = [row(record) for record in records]
    declared = flat(measures_of_all(records))
    measured = {name: measure_of(name, declared)[1] for record in records for name in record.measures}
    types = {
        **{name: _type(measure, [one.get(name) for one in rows]) for name, measure in measured.items()},
        **NUMBERS,
        **{name: "string" for record in records for name in record.arguments},
    }
    names = columns(rows)
    arrays = [pyarrow.array([one.get(name) for one in rows], types.get(name, "string")) for name in names]
    words = {name: {"unit": measure.unit, "title": measure.title} for name, measure in measured.items()}
    fields = [
        pyarrow.field(name, array.type, metadata=words.get(name)) for name, array in zip(names, arrays, strict=True)
    ]
    pyarrow.parquet.write_table(pyarrow.table(arrays, schema=pyarrow.schema(fields)), file)


def _type(measure: Measure, values: Sequence[Any]) -> str:
    """Older records may have a measure as it was declared then."""
    return "int64" if measure.type == "int" and not any(isinstance(one, float) for one in values) else "float64"
