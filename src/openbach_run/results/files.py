# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of results, one row per run, as CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from openbach_run.openbach.measures import Measure, flat, measure_of
from openbach_run.progress import shown
from openbach_run.results.least_transfer_time import TOO_SHORT, too_short_by_s
from openbach_run.results.measures import measures_of_all
from openbach_run.results.record import Record
from openbach_run.units import number

FIRST = ("vpn", "pep", "cc", "loss")
"""Arguments whose columns come first if a scenario has them."""
NUMBERS = {"seed": "int64", **dict.fromkeys(("virtual_s", "wall_s", TOO_SHORT), "float64")}
"""Columns besides the measures that are numbers in results.parquet. All other columns are text,
with the arguments as they were given."""

CSV, PARQUET = "results.csv", "results.parquet"
ABOUT = b"openbach-run"
"""The key of results.parquet's metadata that holds, as JSON, what a report needs besides rows."""
BATCH = 10_000
"""The number of rows that are written to results.parquet at a time."""


def row(record: Record) -> dict[str, Any]:
    """Return a record's row of results.csv by column; None for a value that is not known."""
    names = sorted(
        record.arguments, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)
    )
    values = {
        "scenario": record.scenario,
        **{name: record.arguments[name] for name in names},
        "seed": record.seed,
        "status": record.status,
        **record.measures,
        **record.texts,
        "virtual_s": record.virtual_s,
        "wall_s": round(record.wall_s, 2),
        "run_id": record.run_id,
        "capture_hash": record.capture_hash,
        **({TOO_SHORT: too_short} if (too_short := too_short_by_s(record)) else {}),
    }
    items = values.items()
    return {name: round(v, 6) if isinstance(v, float) else v for name, v in items}


class Rows(NamedTuple):
    """Rows of a results.csv that is there, as texts."""

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


NO_ROWS = Rows()


def read_rows(file: Path, run_ids: Collection[str]) -> Rows:
    """Return the rows of these runs in a results.csv; none if it is missing or damaged."""
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            reader = csv.reader(lines)
            names = next(reader, [])
            place = names.index("run_id")
            # The last line of a file may be half of one.
            whole = (row for row in reader if len(row) == len(names))
            return Rows(names, [row for row in whole if row[place] in run_ids])
    except (OSError, ValueError, csv.Error):
        return NO_ROWS


def columns_of(records: Iterable[Record], earlier: Rows = NO_ROWS) -> list[str]:
    """Return the columns that the rows of these records, and earlier ones, need.

    A measure for which no record has a value gets no column.
    """
    kinds: dict[tuple[str, ...], dict[str, Any]] = {}
    for record in records:
        # Rows with the same columns are alike here: one row of each kind is enough.
        lacking = {name for name, value in record.measures.items() if value is None}
        having = (name for name in record.measures if name not in lacking)
        marked = TOO_SHORT if too_short_by_s(record) else ""
        key = (*record.arguments, *record.texts, marked, *having)
        if key not in kinds:
            kinds[key] = {name: value for name, value in row(record).items() if name not in lacking}
    return columns([*kinds.values(), *([dict.fromkeys(earlier.columns)] if earlier.rows else [])])


def columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of all columns in an order that fits every row.

    A column that only some rows have comes before the column that follows it in those rows.
    """
    merged: list[str] = []
    for row in rows:
        place = 0
        for name in row:
            if name not in merged:
                merged.insert(place, name)
            place = merged.index(name) + 1
    return merged


def csv_lines(records: Sequence[Record], earlier: Rows = NO_ROWS) -> Iterator[str]:
    """Yield the head of results.csv, then a line for each record and each earlier row."""
    names = columns_of(records, earlier)
    yield _line(names)
    for record in records:
        yield csv_line(record, names)
    for texts in earlier.rows:
        values = dict(zip(earlier.columns, texts, strict=True))
        yield _line([values.get(name) for name in names])


def csv_line(record: Record, names: Sequence[str]) -> str:
    """Return a record's line of results.csv, with the values of the columns `names`."""
    values = row(record)
    return _line([values.get(name) for name in names])


def _line(values: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(map(csv_cell, values))
    return text.getvalue()


def csv_cell(value: Any) -> Any:
    """Return a value as a cell of a CSV file, harmless to terminals and spreadsheets.

    A float has up to six decimals. A text that a spreadsheet would compute gets a `'` in front.
    """
    if not isinstance(value, str):
        return round(value, 6) if isinstance(value, float) else value
    is_formula = re.match(r"\s*[=+@-]", value) and number(value) is None
    return shown(f"'{value}" if is_formula else value)


def as_csv(records: Sequence[Record]) -> str:
    """Return the records as the text of results.csv."""
    return "".join(csv_lines(records))


def as_json(records: Sequence[Record]) -> str:
    """Return the records as a JSON list, with an object for each row of results.csv."""
    return json.dumps([row(record) for record in records], indent=1) + "\n"


def arrow() -> Any:
    """Return pyarrow, with its modules that read JSON and write Parquet.

    The import takes 0.2 s. It is done when it is needed: most commands write no table.
    """
    import pyarrow.json
    import pyarrow.parquet

    return pyarrow


def write_parquet(
    records: Sequence[Record], file: Path, about: Mapping[str, Any] | None = None
) -> None:
    """Write the rows of results.csv as a Parquet file, whole or not at all.

    Arguments are text. Measures have the types, units and titles that their jobs declare. `about`
    is kept in the file's metadata. Its `rows` have what the columns lack, in the form of `places`:
    here each key of the runs' identity, such as their clock.
    """
    about = about or {}
    rows: dict[str, Any] = {"identity": {}, **about.get("rows", {})}
    for key in dict.fromkeys(chain(["clock"], *(record.identity for record in records))):
        rows["identity"][key] = places([record.identity.get(key) for record in records])
    pyarrow = arrow()
    declared = flat(measures_of_all(records))
    arguments = set().union(*(record.arguments for record in records))
    columns = dict.fromkeys(chain(*(record.measures for record in records)))
    measured = {name: measure_of(name, declared)[1] for name in columns}
    types: dict[str, str] = {}
    for name, measure in measured.items():
        types[name] = _type(measure, [record.measures.get(name) for record in records])
    # These go before a measure of the same name.
    types |= {**NUMBERS, **dict.fromkeys(arguments, "string")}
    fields = []
    for name in columns_of(records):
        kind, about_it = pyarrow.type_for_alias(types.get(name, "string")), measured.get(name)
        words = {"unit": about_it.unit, "title": about_it.title} if about_it else None
        fields.append(pyarrow.field(name, kind, metadata=words))
    schema = pyarrow.schema(fields)
    packed = {"compression": "zstd", "compression_level": 19}
    packed |= {"write_statistics": False, "use_dictionary": False}  # a fifth of a small file
    new = file.with_name(f".{file.name}.new")
    # Opened here: pyarrow takes no name that is not UTF-8.
    with new.open("wb") as sink, pyarrow.parquet.ParquetWriter(sink, schema, **packed) as writer:
        # As metadata of the schema it would be in the file twice.
        writer.add_key_value_metadata({ABOUT: json.dumps({**about, "rows": rows}).encode()})
        # Of no records there is one empty part: a file without any has no columns.
        for first in range(0, len(records), BATCH) or [0]:
            writer.write_table(_table(records[first : first + BATCH], schema))
    new.replace(file)


def places(values: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the different `values`, and `in_a_row`: place among those, how often in a row."""
    texts = [json.dumps(value, sort_keys=True) for value in values]
    place = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    runs = [[place[text], len([*several])] for text, several in groupby(texts)]
    return {"values": [json.loads(text) for text in place], "in_a_row": runs}


def _table(records: Sequence[Record], schema: Any) -> Any:
    """Return the rows of the records as a pyarrow.Table with this schema."""
    pyarrow = arrow()
    lines = b"".join(json.dumps(row(record)).encode() + b"\n" for record in records)
    if not lines:
        return schema.empty_table()
    # As JSON, since pyarrow.array imports pandas first, to see whether it is given pandas data:
    # 0.2 s of every command. The block holds all lines, because none may be longer than a block.
    read = pyarrow.json.read_json(
        pyarrow.BufferReader(lines),
        pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines)),
        pyarrow.json.ParseOptions(explicit_schema=schema),
    )
    # What is read has no metadata: the units and titles come from the schema.
    return pyarrow.Table.from_arrays(read.select(schema.names).columns, schema=schema)


def _type(measure: Measure, values: Iterable[Any]) -> str:
    """Return the Arrow type of a measure's column.

    Older records may hold floats for a measure that is declared as int now.
    """
    return "float64" if measure.type != "int" or float in map(type, values) else "int64"
