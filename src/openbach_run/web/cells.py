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
    known = {name: name for name in settings}
    known |= {name: words for name, (words, _) in measures.items()}
    # Of the settings six if nobody has chosen any.
    usual = [*settings[:6], *(heat.main_measure(services, name, measures) for name in scenarios)]
    # Column → cell → its value.
    columns: dict[str, Mapping[int, str | float]] = {}
    for name in filter(known.__contains__, [*filter(known.__contains__, chosen)] or usual):
        if name in measures:
            columns[name] = heat.medians_of(runs, heat.values_of(services, item, name))
        else:
            columns[name] = {key: cell[name] for key, cell in values.items() if name in cell}
    by = sort.lstrip("-")
    column = columns.get(by, {})
    distinct: list[Any] = list(dict.fromkeys(column.values()))
    ranked = sorted(distinct) if by in measures else heat.ordered(distinct)
    ranks = {value: rank for rank, value in enumerate(ranked)}
    in_order = sorted(column, key=lambda cell: ranks[column[cell]], reverse=sort[:1] == "-")
    rows = []
    for key in [*in_order, *(cell for cell in cells if cell not in column)]:
        rows.append((cells[key].key, [shown.get(key) for shown in columns.values()]))
    measured = measures.keys() & columns.keys()
    places = {name: decimals(map(float, columns[name].values())) for name in measured}
    return {"columns": list(columns), "known": known, "places": places, "rows": rows}
