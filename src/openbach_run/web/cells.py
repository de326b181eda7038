# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells of a set of results as rows, with the settings and measures that somebody chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openbach_run.web import heat, result_sets
from openbach_run.web.answers import Services
from openbach_run.web.index import differing
from openbach_run.web.render import decimals


def table_of(services: Services, item: str, chosen: Sequence[str], sort: str) -> dict[str, Any]:
    """Return the cells of a set with the columns `chosen`, if it has these, else with the usual.

    `sort` is a column, with a `-` before it for the greatest first; what is missing comes last. The
    table has `columns`; `known`, all that can be one, in words by name; the `places` (decimals) of
    measures; `rows`, each with the key of its cell.
    """
    runs = result_sets.runs_of(services, item)
    cells = services.index.cells_by_id(list(dict.fromkeys(run.cell for run in runs)))
    scenarios, swept = differing([(cell.scenario, cell.values) for cell in cells.values()])
    measures = heat.measures_of_set(services, [run.row for run in runs if run.row is not None])
    values = {key: {"scenario": cell.scenario, **cell.values} for key, cell in cells.items()}
    settings = [*["scenario"] * (len(scenarios) > 1), *swept]
    known = {name: name for name in settings} | {
        name: words for name, (words, _) in measures.items()
    }
    # Of the settings six if nobody has chosen any.
    usual = [*settings[:6], *(heat.main_measure(services, one, measures) for one in scenarios)]
    # Column → cell → its value.
    of: dict[str, Mapping[int, str | float]] = {}
    for name in filter(known.__contains__, [*filter(known.__contains__, chosen)] or usual):
        if name in measures:
            of[name] = heat.medians_of(runs, heat.values_of(services, item, name))
        else:
            of[name] = {cell: of_cell[name] for cell, of_cell in values.items() if name in of_cell}
    by = sort.lstrip("-")
    values_by: list[Any] = list(dict.fromkeys(of.get(by, {}).values()))
    ranked = sorted(values_by) if by in measures else heat.ordered(values_by)
    ranks = {value: rank for rank, value in enumerate(ranked)}
    there = sorted(of.get(by, {}), key=lambda cell: ranks[of[by][cell]], reverse=sort[:1] == "-")
    order = [*there, *(cell for cell in cells if cell not in of.get(by, {}))]
    places = {name: decimals(map(float, of[name].values())) for name in of if name in measures}
    rows = [(cells[cell].key, [of[name].get(cell) for name in of]) for cell in order]
    return {"columns": list(of), "known": known, "places": places, "rows": rows}
