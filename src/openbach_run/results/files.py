# SPDX-License-Identifier: GPL-3.0-or-later
"""One tidy row a run, as CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openbach_run.results.measures import FACTORS, NUMBERS
from openbach_run.results.record import Record


def row(record: Record) -> dict[str, Any]:
    """The record's row of results.csv; what is not known is empty."""
    others = [name for name in record.arguments if name not in FACTORS]
    factors = {name: record.arguments.get(name) for name in (*FACTORS, *others)}
    values = {
        "scenario": record.scenario,
        **factors,
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
    """The rows of results.csv: arguments as text, measures with the types of NUMBERS, others with that of their values."""
    import pyarrow
    import pyarrow.parquet

    rows = [row(record) for record in records]
    measured = {name for record in records for name in record.measures} - NUMBERS.keys()
    types = {
        **NUMBERS,
        **dict.fromkeys(measured),
        **{name: "string" for record in records for name in record.arguments},
    }
    arrays = {name: pyarrow.array([one.get(name) for one in rows], types.get(name, "string")) for name in columns(rows)}
    pyarrow.parquet.write_table(pyarrow.table(arrays), file)
