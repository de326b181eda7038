# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the campaigns of a report from its results.parquet, where the runs themselves are gone.

The file has what each run was given and what it measured, and in its metadata the engine's
identity and, if a report wrote it, the orbit. It has no time series, no hosts and no packages; a
report says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openbach_run.clock import REAL, VIRTUAL, slowdown
from openbach_run.errors import InputError
from openbach_run.openbach.expand import expand
from openbach_run.paths import REPOSITORY
from openbach_run.results.files import ABOUT, arrow
from openbach_run.results.record import Record

ENDING = ".parquet"
OF_A_RUN = ("virtual_s", "wall_s", "run_id", "capture_hash")
"""The last columns of results.parquet."""
REAL_TIME = {"native", "controller", REAL}
"""Words of a command whose runs are in real time, by the names of engines and clocks."""
NEEDED = ("scenario", "seed", "status", *OF_A_RUN)


def read(file: Path) -> tuple[dict[str, Any], list[Record]]:
    """Return the content of campaign.json as far as the file has it, and the records of its runs.

    Raises InputError for a file that is no table of runs.
    """
    pyarrow = arrow()
    try:
        whole = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(file.read_bytes()))
        table = whole.read()
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{file}: no results.parquet: {error}") from error
    if lacking := [name for name in NEEDED if name not in table.column_names]:
        raise InputError(f"{file}: no results.parquet of a report: no column {lacking[0]}")
    about = json.loads((whole.metadata.metadata or {}).get(ABOUT, b"{}"))
    orbits, identities = _of_rows(file, about, table.num_rows)
    records = [record_of(*row) for row in zip(table.to_pylist(), identities, strict=True)]
    runs = []
    for record, orbit in zip(records, orbits, strict=True):
        columns = ("run_id", "scenario", "arguments", "seed")
        run = {name: getattr(record, name) for name in columns}
        runs.append(run if orbit is None else {**run, "orbit": orbit})
    scenarios = dict.fromkeys([record.scenario for record in records])
    plots = {name: _plot(name) for name in scenarios}
    runs += about.pop("not_run", [])
    return {"commands": [], "plots": plots, **about, "runs": runs}, records


def _column(stored: Mapping[str, Any]) -> list[Any]:
    # Files of before 1.1 have a place for each row.
    runs = [(place, 1) for place in stored["of_row"]] if "of_row" in stored else stored["in_a_row"]
    return [stored["values"][place] for place, often in runs for _ in range(often)]


def _columns(stored: Mapping[str, Any]) -> list[Any]:
    """Return rows of the keys in `stored`, with one column for each key, or for all of them."""
    if "values" in stored:
        return _column(stored)
    rows = zip(*map(_column, stored.values()), strict=True)
    return [_known(zip(stored, row, strict=True)) for row in rows]


def _known(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in items if value is not None}


def _of_rows(
    file: Path, about: dict[str, Any], number: int
) -> tuple[Sequence[str | None], Sequence[dict[str, str]]]:
    """Return the orbit and the engine's identity of each row, and take them out of `about`.

    A campaign's own file has no orbits; files of before 1.0 have no identities either. Their orbits
    are None: an argument has them. Their identity is what their commands say. Raises InputError for
    metadata that do not fit the rows.
    """
    if "rows" not in about:
        return [None] * number, [_identity_by(about.get("commands", []))] * number
    rows = about.pop("rows")
    columns: dict[str, Sequence[Any]] = {"orbit": [None] * number}
    for name in ("identity", *(["orbit"] if "orbit" in rows else [])):
        try:
            values = (_columns if name == "identity" else _column)(rows[name])
        except (AttributeError, LookupError, TypeError, ValueError):
            values = []
        if len(values) != number:
            raise InputError(f"{file}: no results.parquet of a report: its rows have no {name}")
        columns[name] = values
    return columns["orbit"], columns["identity"]


def _identity_by(commands: Sequence[str]) -> dict[str, str]:
    """Return what the commands of runs say of their engine.

    Without a command the engine is not known. The clock then counts as virtual, so that nothing is
    judged about a CPU.
    """
    words = {word for command in commands for word in re.split("[ =]", command)}
    if any(word in REAL_TIME or slowdown(word) > 1 for word in words):
        return {"clock": REAL}
    return {"engine": VIRTUAL, "clock": VIRTUAL} if commands else {"clock": VIRTUAL}


def _plot(name: str) -> dict[str, str]:
    """Return what the checkout's scenario of this name asks to be drawn; {} without one."""
    file = REPOSITORY / "scenarios" / f"{name}.yml"
    if not re.fullmatch(r"\w+", name) or not file.exists():
        return {}
    sweep = expand(file).get("x-sweep", {})
    return {key: sweep[key] for key in ("measure", "figure") if key in sweep}


def record_of(row: Mapping[str, Any], identity: dict[str, str]) -> Record:
    """Return the record of a row: arguments stand before the seed, measures and texts behind it."""
    names = list(row)
    arguments = names[names.index("scenario") + 1 : names.index("seed")]
    stored = names[names.index("status") + 1 : names.index(OF_A_RUN[0])]
    values = {name: row[name] for name in stored if row[name] is not None}
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    return Record(
        row["run_id"],
        row["scenario"],
        {name: row[name] for name in arguments if row[name] is not None},
        row["seed"],
        row["status"],
        None,
        row["virtual_s"],
        row["wall_s"],
        row["capture_hash"],
        {name: value for name, value in values.items() if name not in texts},
        "",
        identity,
        [],
        texts=texts,
    )
