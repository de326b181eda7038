# SPDX-License-Identifier: GPL-3.0-or-later
"""One tidy row a run, as CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import io
import json
import sys
import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

from openbach_run.openbach.measures import Measure, flat, measure_of
from openbach_run.results.measures import measures_of_all
from openbach_run.results.record import Record

FIRST = ("vpn", "pep", "cc", "loss")
"""Arguments whose columns come first, where a scenario has them."""
NUMBERS = {"seed": "int64", "virtual_s": "float64", "wall_s": "float64"}
"""Columns besides measures that are numbers in results.parquet; all others are text, arguments as they were given."""

CODES = {"int64": "q", "float64": "d"}
"""Of `array`."""
BATCH = 10_000
"""Rows that results.parquet is made of at a time."""


def row(record: Record) -> dict[str, Any]:
    """The record's row of results.csv; what is not known is empty."""
    names = sorted(record.arguments, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    values = {
        "scenario": record.scenario,
        **{name: record.arguments[name] for name in names},
        "seed": record.seed,
        "status": record.status,
        **record.measures,
        **{name: getattr(record, name) for name in ("virtual_s", "wall_s", "run_id", "capture_hash")},
    }
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in values.items()}


def columns_of(records: Iterable[Record]) -> list[str]:
    """A measure that none of them has is no column."""
    kinds: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in records:
        lacking = {name for name, value in one.measures.items() if value is None}
        key = (*one.arguments, "", *(name for name in one.measures if name not in lacking))
        if key not in kinds:
            kinds[key] = {name: value for name, value in row(one).items() if name not in lacking}
    return columns(kinds.values())


def columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names of all columns; those that only some rows have come before the column that follows them there."""
    merged: list[str] = []
    for one in rows:
        place = 0
        for name in one:
            if name not in merged:
                merged.insert(place, name)
            place = merged.index(name) + 1
    return merged


def csv_lines(records: Sequence[Record]) -> Iterator[str]:
    """The head and a line for each record."""
    names = columns_of(records)
    yield _line(names)
    for record in records:
        yield csv_line(record, names)


def csv_line(record: Record, names: Sequence[str]) -> str:
    values = row(record)
    return _line([values.get(name) for name in names])


def _line(values: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def as_csv(records: Sequence[Record]) -> str:
    return "".join(csv_lines(records))


def as_json(records: Sequence[Record]) -> str:
    return json.dumps([row(record) for record in records], indent=1) + "\n"


def arrow() -> Any:
    """pyarrow with pyarrow.parquet. It imports numpy, which is two thirds of its CPU time (0.1 s of every command), but can do
    without (an optional dependency since version 18). So it does in a command, which has imported neither; other threads than
    the first one could be importing numpy meanwhile, those of `serve` say."""
    of_command = threading.current_thread() is threading.main_thread()
    with_numpy = "numpy" in sys.modules or "pyarrow" in sys.modules or not of_command
    if not with_numpy:
        sys.modules["numpy"] = None  # type: ignore[assignment]  # an import of it fails
    try:
        return import_module("pyarrow.parquet") and sys.modules["pyarrow"]
    finally:
        if not with_numpy:
            del sys.modules["numpy"]


def write_parquet(records: Sequence[Record], file: Path) -> None:
    """The rows of results.csv: arguments as text, measures with the types, units and titles that their jobs declare."""
    pyarrow = arrow()
    declared = flat(measures_of_all(records))
    measured = {
        name: measure_of(name, declared)[1] for name in {name for record in records for name in record.measures}
    }
    types = {
        **{
            name: _type(measure, (record.measures.get(name) for record in records))
            for name, measure in measured.items()
        },
        **NUMBERS,
        **{name: "string" for record in records for name in record.arguments},
    }
    names = columns_of(records)
    words = {name: {"unit": measure.unit, "title": measure.title} for name, measure in measured.items()}
    schema = pyarrow.schema([
        pyarrow.field(name, pyarrow.type_for_alias(types.get(name, "string")), metadata=words.get(name)) for name in names
    ])  # fmt: skip
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for first in range(0, len(records), BATCH) or [0]:
            rows = [row(record) for record in records[first : first + BATCH]]
            columns = [
                pyarrow.Array.from_buffers(
                    schema.field(name).type,
                    len(rows),
                    list(map(pyarrow.py_buffer, _buffers([one.get(name) for one in rows], types.get(name, "string")))),
                )
                for name in names
            ]
            writer.write_batch(pyarrow.RecordBatch.from_arrays(columns, schema=schema))


def _buffers(values: Sequence[Any], kind: str) -> list[bytes]:
    """An Arrow array as it is laid out (Arrow columnar format, "Physical memory layout"): which values there are, a bit each,
    then the values. `pyarrow.array` would import pandas to see whether it is given some of its: 0.4 s of every command."""
    there = int("".join("01"[value is not None] for value in reversed(values)) or "0", 2)
    valid = there.to_bytes(len(values) // 8 + 1, "little")
    if kind in CODES:
        return [valid, array(CODES[kind], [value or 0 for value in values]).tobytes()]
    texts = [(value or "").encode() for value in values]
    return [valid, array("i", accumulate(map(len, texts), initial=0)).tobytes(), b"".join(texts)]


def _type(measure: Measure, values: Iterable[Any]) -> str:
    """Older records may have a measure as it was declared then."""
    return "int64" if measure.type == "int" and not any(isinstance(one, float) for one in values) else "float64"
