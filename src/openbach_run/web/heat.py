# SPDX-License-Identifier: GPL-3.0-or-later
"""The heat map of a set of results: one measure of one scenario, by cell.

A cell has a median with its interval, and the reason why its runs failed. Everything comes from the
index.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, repeat
from statistics import median
from typing import Any, NamedTuple, TypeVar

from openbach_run.campaign.model import USUAL
from openbach_run.link_checks import has_random_link
from openbach_run.openbach.extras import MEASURE
from openbach_run.openbach.measures import from_name
from openbach_run.paths import PROJECT
from openbach_run.results.files import FIRST
from openbach_run.results.grid import Grid, Key, grid_of, rank_of
from openbach_run.results.intervals import Estimate, estimate
from openbach_run.results.intervals import notes as notes_on
from openbach_run.results.least_transfer_time import RECEIVED, least_transfer_time_s
from openbach_run.results.least_transfer_time import notes as notes_on_times
from openbach_run.results.record import Record
from openbach_run.results.seeds import WARNING
from openbach_run.units import number
from openbach_run.web.answers import Services
from openbach_run.web.index import differing
from openbach_run.web.render import decimals
from openbach_run.web.result_sets import Run, number_of
from openbach_run.web.store import RUNNING, STOPPED

T = TypeVar("T")
LEVELS = 10
"""The number of shades of the map."""
DECIDING = ("size", "rate", "direction", "return_rate", "link_file", "orbit")
"""Arguments from which the least transfer time follows."""
SHOWN_CELLS = 120
"""The cells on one page of the map: each has an interval, which takes time."""
MOST_COLUMNS = 12


@dataclass(frozen=True)
class Cell:
    """A cell of the map, with the results of its runs."""

    key: str
    estimate: Estimate | None
    level: int | None
    """The shade, from 0 (least) to LEVELS - 1; None without a value."""
    total: int
    done: int
    failed: int
    stopped: int
    running: int
    reason: str
    """Why the first failed run failed."""


@dataclass(frozen=True)
class Heat:
    """A page of the map."""

    scenario: str
    scenarios: list[str]
    """The names of all scenarios in the set."""
    measure: str
    words: str
    better: str
    measures: dict[str, str]
    """The measures that can be shown, in words by column."""
    swept: dict[str, list[str]]
    """The settings that the cells differ in, and their values."""
    fixed: dict[str, str]
    """The settings that all cells have in common, and those of which one value is shown."""
    down: list[str]
    across: str
    columns: list[str]
    rows: list[tuple[list[str], list[Cell | None]]]
    shades: list[float]
    """The least value of each shade, and the greatest of the last one; [] without a value."""
    decimals: int
    """The decimals of all values, so that these are below each other."""
    cells: int
    page: int
    pages: int
    notes: list[str]


def heat(
    services: Services, item: str, runs: Sequence[Run], query: Mapping[str, str]
) -> Heat | None:
    """Return the page of the map that is asked for; None for a set without runs.

    `query` may have `scenario`, `measure`, `across` (the argument of the columns), `page`, and
    `only.<argument>` (the value that is shown of it).
    """
    if (selection := _selected(services, item, runs, query)) is None:
        return None
    scenarios, scenario, swept, only, keys, cells, by_cell = selection
    rows = [run.row for run in chain.from_iterable(by_cell.values()) if run.row is not None]
    measures = measures_of_set(services, rows)
    measure = query.get("measure", "")
    measure = measure if measure in measures else main_measure(services, scenario, measures)
    words, better = measures.get(measure, (from_name(measure).words if measure else "runs", ""))
    down, across = _axes(swept, only, query.get("across", ""))
    # Medians and places of all cells are kept until the results change.
    key = (item, "places", scenario, across, *map("=".join, only.items()))
    grid = services.index.remembered(key, lambda: _grid(cells, swept, down, across))
    values = values_of(services, item, measure)
    every = services.index.remembered((item, "medians", measure), lambda: medians_of(runs, values))
    medians = {number: every[number] for number in by_cell if number in every}
    # Of all results with this measure: one scale for every scenario, filter and page.
    scale = shades(every.values())
    per_page = max(1, SHOWN_CELLS // max(1, len(grid.columns)))
    page, pages, lines = page_of(grid.rows, query.get("page", "1"), per_page)

    def shown(row: Key, column: Key) -> Cell | None:
        number = grid.cells.get((row, column))
        if number is None:
            return None
        return _cell(keys[number], by_cell.get(number, []), values, medians.get(number), scale)

    notes = _notes(measure, cells.values(), by_cell.values())
    if measure == USUAL:
        timed = _records(scenario, cells, by_cell, values, values_of(services, item, RECEIVED))
        key = (item, "times", scenario, *map("=".join, only.items()))
        notes += services.index.remembered(key, lambda: notes_on_times(list(timed), list(swept)))
    sample: dict[str, str] = next(iter(cells.values()), {})
    return Heat(
        scenario=scenario,
        scenarios=scenarios,
        measure=measure,
        words=words,
        better=better,
        measures={name: of_measure for name, (of_measure, _) in measures.items()},
        swept=swept,
        fixed={name: value for name, value in sample.items() if name not in swept} | only,
        down=down,
        across=across,
        columns=["".join(column) for column in grid.columns],
        rows=[(list(row), list(map(shown, repeat(row), grid.columns))) for row in lines],
        shades=scale,
        decimals=decimals(values.values()),
        cells=len(cells),
        page=page,
        pages=pages,
        notes=notes,
    )


class _Selection(NamedTuple):
    """The cells of one scenario that a query leaves, and their runs, by the id of the cell."""

    scenarios: list[str]
    scenario: str
    swept: dict[str, list[str]]
    only: dict[str, str]
    keys: dict[int, str]
    cells: dict[int, dict[str, str]]
    by_cell: dict[int, list[Run]]


def _selected(
    services: Services, item: str, runs: Sequence[Run], query: Mapping[str, str]
) -> _Selection | None:
    """Return the cells of a set that a query leaves; None for a set without runs."""
    known = services.index.cells_by_id(list(dict.fromkeys(run.cell for run in runs)))
    scenarios = list(dict.fromkeys(cell.scenario for cell in known.values()))
    if not scenarios:
        return None
    scenario = query["scenario"] if query.get("scenario") in scenarios else scenarios[0]
    cells = {number: cell.values for number, cell in known.items() if cell.scenario == scenario}
    swept = _swept(services, item, scenario, list(cells.values()))
    narrowed = [name for name in swept if query.get(f"only.{name}") in swept[name]]
    only = {name: query[f"only.{name}"] for name in narrowed}
    cells = {number: values for number, values in cells.items() if only.items() <= values.items()}
    by_cell: dict[int, list[Run]] = {}
    for run in runs:
        if run.cell in cells:
            by_cell.setdefault(run.cell, []).append(run)
    keys = {number: known[number].key for number in cells}
    return _Selection(scenarios, scenario, swept, only, keys, cells, by_cell)


def _records(
    scenario: str,
    of_cells: Mapping[int, Mapping[str, str]],
    by_cell: Mapping[int, Sequence[Run]],
    times_s: Mapping[int, float],
    received: Mapping[int, float],
) -> Iterator[Record]:
    """Yield the runs with a transfer time as records, as far as notes on times read them."""
    for cell, runs in by_cell.items():
        arguments = dict(of_cells[cell])
        for run in runs:
            if run.row is not None and run.row in times_s:
                got = {USUAL: times_s[run.row], RECEIVED: received.get(run.row)}
                about = run.run_id, scenario, arguments, run.seed, run.status, None, 0.0, 0.0, ""
                yield Record(*about, got, "", {}, [])


def _swept(
    services: Services, item: str, scenario: str, cells: Sequence[Mapping[str, str]]
) -> dict[str, list[str]]:
    """Return the settings that a scenario's cells differ in, and their values, the usual first."""
    listed = [(scenario, values) for values in cells]
    _, differ = services.index.remembered((item, "differing", scenario), lambda: differing(listed))
    places = {name: place for place, name in enumerate(FIRST)}
    names = sorted(differ, key=lambda name: places.get(name, len(FIRST)))
    return {name: ordered(differ[name]) for name in names}


def page_of(lines: Sequence[T], wanted: str, per_page: int) -> tuple[int, int, Sequence[T]]:
    """Return the number of the page that is asked for, the number of pages, and its lines."""
    pages = -(-len(lines) // per_page)  # rounded up
    page = min(max(number_of(wanted), 1), pages)
    return page, pages, lines[(page - 1) * per_page : page * per_page]


def values_of(services: Services, item: str, measure: str) -> dict[int, float]:
    """Return the values of a measure, by the row of each run in a set."""
    kind, _, name = item.partition("/")
    of_it = (
        "SELECT r.id FROM member m JOIN run r ON r.folder = m.folder AND r.run_id = m.run_id WHERE"
        " m.launch = ?2"
    )
    if kind == "folder":
        of_it = "SELECT id FROM run WHERE folder = ?2"
    sql = f"SELECT v.run, v.value FROM ({of_it}) s JOIN measured v ON v.run = s.id AND v.name = ?1"
    named = name if kind == "folder" else number_of(name)
    ask = services.database.pairs
    return services.index.remembered((item, "values", measure), lambda: ask(sql, measure, named))


def medians_of(runs: Iterable[Run], values: Mapping[int, float]) -> dict[int, float]:
    """Return the median of each cell's finished runs."""
    by_cell: dict[int, list[float]] = {}
    for run in runs:
        if run.row is not None and run.row in values and run.finished:
            by_cell.setdefault(run.cell, []).append(values[run.row])
    return {cell: median(listed) for cell, listed in by_cell.items()}


def measures_of_set(services: Services, rows: Sequence[int]) -> dict[str, tuple[str, str]]:
    """Return, by column, words and what is better for the measures of these runs.

    Only some of the runs are looked at, at most about 50.
    """
    measured = services.database.rows_of(
        "SELECT DISTINCT v.name, m.words, m.better FROM measured v LEFT JOIN measure m ON m.name ="
        " v.name WHERE v.run IN ({}) ORDER BY v.name",
        rows[:: -(-len(rows) // 50) or 1],
    )
    return {row["name"]: (row["words"] or row["name"], row["better"] or "") for row in measured}


def sweep_of(services: Services, scenario: str) -> dict[str, Any]:
    """Return what a scenario of the checkout says of its sweep; {} if it says nothing."""
    row = services.database.scenario(PROJECT, scenario)
    sweep = json.loads(row["source"]).get("x-sweep") if row else None
    return sweep if isinstance(sweep, dict) else {}


def main_measure(services: Services, scenario: str, measures: Iterable[str]) -> str:
    """Return the measure that a scenario names, or the transfer time, or the first there is."""
    named = str(sweep_of(services, scenario).get(MEASURE, ""))
    names = list(measures)
    # That of the worse direction, where there may be two.
    named = f"worse_{named}" if f"worse_{named}" in names else named
    return named if named in names else USUAL if USUAL in names or not names else names[0]


def ordered(values: Sequence[str]) -> list[str]:
    """Return values in order: numbers from the least, texts as they are with `none` first."""
    numbers = [number(value) for value in values]
    if all(amount is not None for amount in numbers):
        pairs = zip(numbers, values, strict=True)
        return [value for _, value in sorted(pairs, key=lambda pair: (pair[0] or 0.0, pair[1]))]
    return sorted(values, key=lambda value: value != "none")


def _axes(
    swept: Mapping[str, Sequence[str]], only: Collection[str], across: str
) -> tuple[list[str], str]:
    """Return the arguments of the rows and the one of the columns; "" if none has few values."""
    names = [name for name in swept if name not in only]
    if across not in names:
        across = next((name for name in reversed(names) if len(swept[name]) <= MOST_COLUMNS), "")
    return [name for name in names if name != across], across


def _grid(
    cells: Mapping[int, Mapping[str, str]],
    swept: Mapping[str, Sequence[str]],
    down: Sequence[str],
    across: str,
) -> Grid[int]:
    """Return the grid of the cells, rows and columns in the order of the values that were swept."""
    columns = [across] if across else []
    orders = {name: swept[name] for name in (*down, *columns)}
    ordered = sorted(cells.items(), key=lambda cell: rank_of(cell[1], orders))
    grid = grid_of(ordered, down, columns, "–")
    if not across:
        return grid
    return replace(grid, columns=[(v,) for v in swept[across] if (v,) in grid.columns])


def _cell(
    key: str,
    runs: Sequence[Run],
    values: Mapping[int, float],
    middle: float | None,
    scale: Sequence[float],
) -> Cell:
    """Return a cell of the map with what its runs have come to."""
    level = None if middle is None else max(0, bisect_right(scale[:LEVELS], middle) - 1)
    failed = [run for run in runs if run.failed]
    reason = next((run.error or run.status for run in failed), "")
    rows = [run.row for run in sorted(runs, key=lambda run: run.seed) if run.finished]
    measured = tuple(values[row] for row in rows if row is not None and row in values)
    return Cell(
        key,
        _estimate(measured),
        level,
        len(runs),
        sum(run.finished or run.failed for run in runs),
        len(failed),
        sum(run.status == STOPPED for run in runs),
        sum(run.status == RUNNING for run in runs),
        reason.strip(),
    )


_estimate = lru_cache(maxsize=20_000)(estimate)


def shades(medians: Collection[float]) -> list[float]:
    """Return the limits of the shades from the least to the greatest median; [] without any.

    If all are positive, each shade is the same factor, and the scale reaches to twice the least one
    at least: a difference of a few percent has no other colour.
    """
    if not medians:
        return []
    least, most = min(medians), max(medians)
    parts = [number / LEVELS for number in range(LEVELS + 1)]
    if least > 0:
        return [least * max(2.0, most / least) ** part for part in parts]
    return [least + (most - least or 1.0) * part for part in parts]


def _notes(
    measure: str, cells: Iterable[Mapping[str, str]], runs: Iterable[Sequence[Run]]
) -> list[str]:
    """Return the notes below the map: the seeds, a warning about random links, the least time."""
    seeds = {run.seed for run in chain.from_iterable(runs)}
    notes = [f"seed {min(seeds, default=1)}"]
    if len(seeds) > 1:
        notes = ["; ".join(notes_on([len(seeds)]))]
    listed = list(cells)
    if len(seeds) == 1 and any(map(has_random_link, listed)):
        notes.append(WARNING)
    # The time is computed once for all cells with the same deciding arguments.
    distinct = {tuple(map(values.get, DECIDING)): values for values in listed}.values()
    least_s = [least_transfer_time_s(values) for values in distinct]
    times_s = {seconds for seconds in least_s if seconds is not None}
    # Where a cell's rate changes with time the sentence would be wrong of it.
    if measure == USUAL and times_s and None not in least_s:
        shown = (
            f"{min(times_s):.2f} s"
            if len(times_s) == 1
            else f"{min(times_s):.2f} to {max(times_s):.2f} s"
        )
        notes.append(
            f"no transfer can take less than {shown} at its rate (headers counted, no slow start)"
        )
    return notes
