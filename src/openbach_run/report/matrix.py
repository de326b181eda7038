# SPDX-License-Identifier: GPL-3.0-or-later
"""A site of static pages: a matrix VPN × link × transport for each scenario of some results.

A cell of the matrix is one result, coloured by its ratio to the best of its column, and leads to a
page with its runs, their figures, and the command that repeats them. Everything is read from
results.parquet, so the results of a report are enough. Where a results directory still has the
records of the runs, they are copied beside the pages, and the curves of one run of each cell are
drawn: results.parquet has no time series.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openbach_run.errors import InputError
from openbach_run.openbach.measures import OF_A_RUN, Measure, measure_of
from openbach_run.paths import REPOSITORY
from openbach_run.progress import shown
from openbach_run.report.document import templates
from openbach_run.report.runs_file import record_of
from openbach_run.results import run_files
from openbach_run.results.files import arrow
from openbach_run.results.grid import Grid, Key, grid_of
from openbach_run.results.intervals import Estimate, estimate, figure
from openbach_run.results.least_transfer_time import TIME, notes
from openbach_run.units import number

TABLE = "results.parquet"
FINISHED = "Finished Ok"
ROWS = ("vpn", "pep")
LINK = (
    "orbit", "rate", "return_rate", "delay_ms", "jitter_ms", "loss", "return_loss", "loss_at",
    "burst_packets", "burst_ms", "buffer", "buffer_bdp", "queue", "link_file", "link_start",
    "terrestrial_ms",
)  # fmt: skip
"""Arguments that describe the path. All others that differ are the transport's."""
LEVELS = ((1.02, "best"), (1.1, "near"), (1.5, "far"), (float("inf"), "farthest"))
"""The largest ratio to the best of the column, and its class in the page."""
WORDS = {
    "best": "within 2 % of the best of its column",
    "near": "within 10 %",
    "far": "within 50 %",
    "farthest": "more than 50 % from it",
    "failed": "a run failed",
    "plain": "nothing to compare with",
}
SIGNS = {"best": "●", "near": "◕", "far": "◑", "farthest": "○", "failed": "✕", "plain": ""}
Row = Mapping[str, Any]
Draw = Callable[[Path], bytes | None]
"""Returns the curves of a run's directory as SVG; None if it sent none."""


@dataclass
class Cell:
    """One combination of arguments with its runs, a row of results.parquet for each."""

    name: str
    arguments: dict[str, str]
    runs: list[Row]
    estimate: Estimate | None
    level: str = "plain"
    ratio: float | None = None

    @property
    def failed(self) -> int:
        """Return how many runs did not finish."""
        return sum(run["status"] != FINISHED for run in self.runs)

    @property
    def text(self) -> str:
        """Return the median as the matrix shows it."""
        return f"{self.estimate.median:.4g}" if self.estimate else "failed"

    @property
    def command(self) -> str:
        """Return the command that runs the cell again, with every argument that has a value."""
        values = [f"{name}={shlex.quote(value)}" for name, value in self.arguments.items() if value]
        seeds = ",".join(str(run["seed"]) for run in self.runs)
        if len(self.runs) == 1:
            seeds += ","
        return " ".join(
            ["./openbach-run", str(self.runs[0]["scenario"]), *values, "--seeds", seeds]
        )


@dataclass(frozen=True)
class Matrix:
    """All cells of one scenario of one campaign."""

    campaign: str
    scenario: str
    measure: Measure
    column: str
    row_names: tuple[str, ...]
    links: list[tuple[str, list[str]]]
    """The groups of columns: the path in words, and the transports with that path."""
    grid: Grid[Cell]
    """The columns have two values: the path and the transport in words."""
    fixed: dict[str, str]
    """The arguments that all cells have alike."""
    notes: list[str]

    @property
    def page(self) -> str:
        """Return the file name of its page."""
        return f"{_safe(self.campaign)}-{_safe(self.scenario)}.html"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)


def read_rows(directory: Path) -> tuple[list[str], list[Row]]:
    """Return the arguments' names and the rows of a directory's results.parquet.

    Raises InputError.
    """
    file = directory / TABLE
    if not file.is_file():
        raise InputError(f"{file} is not there; `openbach-run export DIR --parquet` writes it")
    pyarrow = arrow()
    try:
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(file.read_bytes()))
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{file}: {error}") from error
    names: list[str] = table.column_names
    lacking = {"scenario", "seed", "status", "run_id"} - {*names}
    if lacking:
        raise InputError(f"{file} has no column {', '.join(sorted(lacking))}")
    arguments = [name for name in names[: names.index("seed")] if name != "scenario"]
    return arguments, table.to_pylist()


def matrices(
    directory: Path, declared: Sequence[Measure], measure: str | None = None
) -> list[Matrix]:
    """Return a matrix for each scenario in a directory's results.

    `measure` is the column to show; by default the first measure that the scenario has. Raises
    InputError.
    """
    arguments, rows = read_rows(directory)
    tables = []
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        of_scenario = [row for row in rows if row["scenario"] == scenario]
        tables.append(_matrix(directory, scenario, arguments, of_scenario, declared, measure))
    return tables


def _matrix(
    directory: Path,
    scenario: str,
    arguments: Sequence[str],
    rows: Sequence[Row],
    declared: Sequence[Measure],
    wanted: str | None,
) -> Matrix:
    column = _column(rows, wanted, directory / TABLE, scenario)
    values = {}
    for name in arguments:
        had = [row[name] for row in rows if row[name] is not None]
        # Once each, in the order of the rows.
        values[name] = list(dict.fromkeys(had))
    swept = [name for name, different in values.items() if len(different) > 1]
    row_names = tuple(name for name in ROWS if name in swept) or ("vpn",)
    link = [name for name in LINK if name in swept]
    transport = [name for name in swept if name not in (*row_names, *link)]

    grouped: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        grouped.setdefault(tuple(row[name] or "" for name in arguments), []).append(row)
    cells: list[Cell] = []
    for place_in_file, (key, runs) in enumerate(grouped.items(), 1):
        of_cell = dict(zip(arguments, key, strict=True))
        finished = [run[column] for run in runs if run["status"] == FINISHED]
        figures = [float(value) for value in finished if value is not None]
        name = f"{_safe(directory.resolve().name)}-{_safe(scenario)}-{place_in_file}"
        cells.append(Cell(name, of_cell, runs, estimate(figures)))

    def words_of(cell: Cell) -> dict[str, str]:
        parts = {"link": link, "transport": transport}
        return {part: _in_words(cell.arguments, names) for part, names in parts.items()}

    described = [(cell, {**cell.arguments, **words_of(cell)}) for cell in cells]
    grid = grid_of(described, row_names, ("link", "transport"))
    measured = measure_of(column, declared)[1]
    _compare(grid, measured.better)
    links: dict[str, list[str]] = {}
    ordered = sorted(cells, key=lambda cell: _order(cell.arguments, (*link, *transport)))
    for path, carried in dict.fromkeys(tuple(words_of(cell).values()) for cell in ordered):
        links.setdefault(path, []).append(carried)
    return Matrix(
        directory.resolve().name,
        scenario,
        measured,
        column,
        row_names,
        list(links.items()),
        grid,
        {name: different[0] for name, different in values.items() if len(different) == 1},
        notes([record_of(row, {}) for row in rows], swept) if column == TIME else [],
    )


def _column(rows: Sequence[Row], wanted: str | None, file: Path, scenario: str) -> str:
    """Return the column to show of a scenario. Raises InputError if it has none."""
    names = list(rows[0])
    measured = []
    for name in names[names.index("status") + 1 :]:
        if name not in OF_A_RUN:
            kinds = {type(row[name]) for row in rows}
            if any(issubclass(kind, int | float) for kind in kinds):
                measured.append(name)
    if wanted and wanted not in measured:
        raise InputError(f"{file}: no measure {wanted}; {scenario} has {', '.join(measured)}")
    if not measured:
        raise InputError(f"{file}: no run of {scenario} has a figure")
    return wanted or measured[0]


def _in_words(values: Mapping[str, str], names: Iterable[str]) -> str:
    return ", ".join(f"{name}={values[name]}" for name in names if values.get(name))


def _order(values: Mapping[str, str], names: Sequence[str]) -> list[tuple[int, float, str]]:
    """Return a key by which numbers sort as numbers, and words in front of them."""
    keys = []
    for name in names:
        value = values.get(name, "")
        amount = number(value)
        keys.append((0, 0.0, value) if amount is None else (1, amount, value))
    return keys


def _compare(grid: Grid[Cell], better: str | None) -> None:
    """Give every cell its level: how far it is from the best of its column."""
    columns: dict[Key, list[Cell]] = {}
    for (_, key), cell in grid.cells.items():
        columns.setdefault(key, []).append(cell)
    for column in columns.values():
        values = [cell.estimate.median for cell in column if cell.estimate]
        for cell in column:
            if cell.failed:
                cell.level = "failed"
            elif cell.estimate and better and len(values) > 1 and min(values) > 0:
                best = min(values) if better == "less" else max(values)
                ratio = cell.estimate.median / best
                cell.ratio = ratio if better == "less" else 1 / ratio
                cell.level = next(name for most, name in LEVELS if cell.ratio <= most)


def write_site(
    directories: Sequence[Path],
    declared: Sequence[Measure],
    output: Path,
    measure: str | None = None,
    reports: Mapping[str, str] | None = None,
    draw: Draw = lambda run_dir: None,
) -> list[Matrix]:
    """Write the pages of some results directories to a directory; return the matrices.

    `reports`: for a campaign's name, where its report is, as seen from the output. Raises
    InputError; nothing is written then.
    """
    tables = [table for place in directories for table in matrices(place, declared, measure)]
    pages = templates(REPOSITORY / "reports/templates", lambda value: shown(f"{value}"), html=True)
    cell_page = pages.get_template("matrix_cell.html.j2")
    (output / "cells").mkdir(parents=True)
    (output / "records").mkdir()
    (output / "curves").mkdir()
    places = {place.resolve().name: place for place in directories}
    for table in tables:
        context = {"matrix": table, "signs": SIGNS, "words": WORDS, "figure": figure}
        report = (reports or {}).get(table.campaign)
        text = pages.get_template("matrix.html.j2").render(**context, report=report)
        (output / table.page).write_text(text)
        for cell in table.grid.cells.values():
            records = _copy_records(cell, places[table.campaign], output / "records")
            curves = _draw_curves(cell, places[table.campaign], output / "curves", draw)
            text = cell_page.render(**context, cell=cell, records=records, curves=curves)
            (output / "cells" / f"{cell.name}.html").write_text(text)
    (output / "index.html").write_text(
        pages.get_template("matrices.html.j2").render(matrices=tables, words=WORDS, signs=SIGNS)
    )
    return tables


def _copy_records(cell: Cell, directory: Path, place: Path) -> dict[str, str]:
    """Copy the records that are there; return their file names by run_id."""
    copied = {}
    for run in cell.runs:
        with suppress(FileNotFoundError):
            record = run_files.content(directory / "runs" / str(run["run_id"]), "record.json")
            name = f"{run['run_id']}.json"
            (place / name).write_bytes(record)
            copied[str(run["run_id"])] = name
    return copied


def _draw_curves(cell: Cell, directory: Path, place: Path, draw: Draw) -> Row | None:
    """Draw the curves of a cell's first finished run that has any; return that run.

    One is enough to see what happens, and a drawing takes a quarter of a second.
    """
    for run in cell.runs:
        run_dir = directory / "runs" / str(run["run_id"])
        if run["status"] == FINISHED and run_files.is_there(run_dir) and (drawing := draw(run_dir)):
            (place / f"{run['run_id']}.svg").write_bytes(drawing)
            return run
    return None
