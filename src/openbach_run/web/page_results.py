# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of results: the list of all sets, a set with its heat map, a cell with its seeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, RedirectResponse

from openbach_run.errors import InputError
from openbach_run.paths import PROJECT
from openbach_run.results.files import as_csv
from openbach_run.results.intervals import estimate
from openbach_run.web import cells, heat, launches, reports, result_sets
from openbach_run.web.answers import Json, Services, With, download, not_found
from openbach_run.web.render import POLICY, Form, shown
from openbach_run.web.result_sets import Results, Run
from openbach_run.web.store import RUNNING, STOPPED

LOOK_S = 0.1
"""The time in s that a page takes to look for new results; the rest is found in the background."""
SORTED = ("title", "scenarios", "total", "state", "date")
"""Attributes of a set by which the list of results can be sorted."""
ASKED = ("q", "scenario", "state", "tag", "from", "to", "deleted")

router = APIRouter()


# All


@router.get("/page/results")
def results(request: Request, services: With) -> Response:
    """Show the sets that fit what is asked for."""
    services.index.look(LOOK_S)
    query = request.query_params
    filters = {name: query[name].strip() for name in ASKED if query.get(name)}
    sort = query.get("sort", "-date")
    every, folders = result_sets.all_sets(services), result_sets.deleted_folders(services)
    back = {results.item for results in every if results.deleted}
    back |= {f"folder/{copy}" for copy in folders}
    matching = result_sets.matching(services, every, filters)
    if sort.lstrip("-") in SORTED:
        matching.sort(key=attrgetter(sort.lstrip("-")), reverse=sort.startswith("-"))
    page = max(1, result_sets.number_of(query.get("page", "1")))
    first = (page - 1) * result_sets.PER_PAGE
    sets = matching[first : first + result_sets.PER_PAGE]
    values = {of.item: {**of.values} for of in sets}
    own = cache(partial(launches.own_values, services))  # many launches are of one scenario
    for item in values:
        if item.startswith("launch/"):
            row = launches.find_launch(services, result_sets.number_of(item[7:]))
            values[item] |= launches.chosen(row, own(row["project"], row["scenario"]))
    return shown(
        request,
        "results.html",
        sets=sets,
        values=values,
        count=len(matching),
        page=page,
        pages=-(-len(matching) // result_sets.PER_PAGE),
        settings=sorted(set().union(*values.values(), *(results.values for results in every))),
        states=result_sets.STATES,
        scenarios=sorted(set().union(*(results.scenarios for results in every))),
        tags=sorted(set().union(*(results.tags for results in every))),
        folders=folders if filters.get("deleted") else {},
        just=" ".join(back & {query.get("just", "")}),
        behind=services.index.behind,
    )


@router.post("/page/mark/{kind}/{name}")
def mark(kind: str, name: str, form: Form, services: With) -> Response:
    """Change the name, note and tags of a set, and show it."""
    marks = {column: str(form.get(column, "")).strip() for column in ("name", "note", "tags")}
    with services.database.transaction():
        results = result_sets.find_set(services, f"{kind}/{name}")
        if form.get("seen", results.said) != results.said:
            what = "name, note or tags have changed meanwhile: look again"
            raise InputError(f"{results.title}: {what}")
        result_sets.mark(services, results.item, **marks)
    return RedirectResponse(address(results.item), 303)


@router.post("/page/delete/{kind}/{name}")
def delete(kind: str, name: str, form: Form, services: With) -> Response:
    """Delete a set; the list then offers to bring it back."""
    kept = result_sets.delete(services, f"{kind}/{name}")
    return RedirectResponse(f"/page/results?just={quote(kept, safe='')}", 303)


@router.post("/page/restore/{kind}/{name}")
def restore(kind: str, name: str, form: Form, services: With) -> Response:
    """Bring a deleted set back, and show it."""
    return RedirectResponse(address(result_sets.restore(services, f"{kind}/{name}")), 303)


@router.post("/page/remove/{kind}/{name}")
def remove(kind: str, name: str, form: Form, services: With) -> Response:
    """Remove a deleted set for good."""
    result_sets.remove_for_good(services, f"{kind}/{name}")
    return RedirectResponse("/page/results?deleted=yes", 303)


def address(item: str) -> str:
    """Return the address of a set's page."""
    return f"/page/set/{quote(item)}"


# One set


@router.get("/page/set/{kind}/{name}")
def one_set(kind: str, name: str, request: Request, services: With) -> Response:
    """Show the heat map of a set; with `part` in the address only what changes while runs go on."""
    services.index.look(LOOK_S)
    results = result_sets.find_set(services, f"{kind}/{name}")
    # Before the runs are read: the page then asks again if anything changes meanwhile.
    version = state_of(services, results)["version"]
    runs = result_sets.runs_of(services, results.item)
    query = dict(request.query_params)
    table = heat.heat(services, results.item, runs, query)
    row = launches.find_launch(services, int(name)) if kind == "launch" else None

    def label(cell: int) -> str:
        """Return the values by which a cell differs from others of the set."""
        known = services.index.cells_by_id([cell])[cell]
        values = [f"{name}={known.values[name]}" for name in results.values if name in known.values]
        return " ".join([known.scenario, *values])

    return shown(
        request,
        "map.html" if "part" in query else "set.html",
        results=results,
        heat=table,
        runs=runs,
        version=version,
        launch=row,
        again=again(services, results, row, runs),
        label=label,
        values=heat.values_of(services, results.item, table.measure) if table else {},
        place=services.launcher.results,
        latest=result_sets.latest(services, results.item),
        running=[run for run in runs if run.status == RUNNING][: result_sets.PER_PAGE],
        to_go=result_sets.to_go(services, results),
        failed=[run for run in runs if run.failed][: result_sets.PER_PAGE],
        stopped=[run for run in runs if run.status == STOPPED and run.left],
    )


def again(services: Services, results: Results, row: Any, runs: list[Run]) -> str:
    """Return the address of the form with the values of this set, to launch it with others.

    "" if that is not possible.
    """
    if row is not None:
        values: dict[str, list[str]] = json.loads(row["values"])
        place = f"{quote(row['project'], safe='')}/{quote(row['scenario'], safe='')}"
        return f"/page/scenario/{place}?{form_query(values, launches.seeds_of(row))}"
    if (
        not runs
        or len(results.scenarios) != 1
        or services.database.scenario(PROJECT, results.scenarios[0]) is None
    ):
        return ""
    cell = services.index.cells_by_id([runs[0].cell])[runs[0].cell]
    values = {name: [value] for name, value in cell.values.items()}
    values |= {name: list(listed) for name, listed in results.values.items()}
    seeds_run = sorted({run.seed for run in runs})
    form = f"/page/scenario/{PROJECT}/{quote(results.scenarios[0], safe='')}"
    return f"{form}?{form_query(values, seeds_run)}"


def form_query(values: dict[str, list[str]], seeds: Sequence[int] | None) -> str:
    """Return the query of a form's address with these values and seeds."""
    pairs = [(f"values.{name}", ",".join(listed)) for name, listed in values.items()]
    return urlencode([*pairs, *([] if seeds is None else [("seeds", seeds_in_words(seeds))])])


def seeds_in_words(seeds: Sequence[int]) -> str:
    """Return seeds as the form and --seeds take them: `5` for 1 to 5, else `2,7,`."""
    first = list(range(1, len(seeds) + 1))
    return str(len(seeds)) if list(seeds) == first else ",".join(map(str, seeds)) + ","


@router.get("/page/set/{kind}/{name}/state")
def state(kind: str, name: str, services: With) -> Response:
    """Return the counts of a set, for a page that follows them."""
    services.index.look(LOOK_S)
    return Json(state_of(services, result_sets.find_set(services, f"{kind}/{name}")))


def state_of(services: Services, results: Results) -> dict[str, Any]:
    """Return a set's counts, and a version, which changes when the page is to be drawn again."""
    names = ("total", "done", "failed", "stopped", "running", "state", "title", "progress")
    counted = {name: getattr(results, name) for name in names}
    version = f"{services.index.version}.{results.done}.{results.running}"
    return {**counted, "to_go": result_sets.to_go(services, results), "version": version}


@router.get("/page/set/{kind}/{name}/results.csv")
def set_csv(kind: str, name: str, services: With) -> Response:
    """Return the results of a set as a CSV file."""
    results = result_sets.find_set(services, f"{kind}/{name}")
    text = as_csv(launches.unfolded(services, result_sets.runs_of(services, results.item)))
    named = f"launch{result_sets.number_of(name)}" if kind == "launch" else "results"
    return download(text.encode(errors="replace"), f"{named}.csv", "text/csv")


@router.get("/page/set/{kind}/{name}/table")
def set_table(kind: str, name: str, request: Request, services: With) -> Response:
    """Show the cells of a set as rows, with the columns that are asked for."""
    services.index.look(LOOK_S)
    results, query = result_sets.find_set(services, f"{kind}/{name}"), request.query_params
    table = cells.table_of(services, results.item, query.getlist("column"), query.get("sort", ""))
    page, pages, rows = heat.page_of(table["rows"], query.get("page", "1"), result_sets.PER_PAGE)
    table |= {"results": results, "page": page, "pages": pages, "shown_rows": rows}
    return shown(request, "table.html", **table)


@router.post("/page/launch/{number:int}/stop")
def stop(number: int, form: Form, services: With) -> Response:
    """Stop the runs of a launch."""
    launches.find_launch(services, number)
    launches.stop(services, number)
    return RedirectResponse(address(f"launch/{number}"), 303)


@router.post("/page/launch/{number:int}/resume")
def resume(number: int, form: Form, services: With) -> Response:
    """Start those runs of a launch again that have not finished."""
    launches.resume(services, number)
    return RedirectResponse(address(f"launch/{number}"), 303)


@router.post("/page/set/{kind}/{name}/report")
async def make_report(kind: str, name: str, form: Form, services: With) -> Response:
    """Make the report of a set, and show it."""
    item = f"{kind}/{name}"
    # Several visitors who ask at the same time wait for the same report.
    await services.once.do(f"report {item}", lambda: reports.make_report(services, item))
    return RedirectResponse(f"{address(item)}/report/report.html", 303)


@router.get("/page/set/{kind}/{name}/first-page")
async def first_page(kind: str, name: str, services: With) -> Response:
    """Return page 1 of the report of a set, to be put into its page.

    Without a run that finished there is none: 204, no content.
    """
    item = f"{kind}/{name}"
    if not reports.has_figures(services, item):
        return Response(status_code=204)
    await services.once.do(f"first page {item}", lambda: reports.make_first_page(services, item))
    page = reports.first_page(services, item)
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": POLICY})


@router.get("/page/set/{kind}/{name}/report/{file}")
def report(kind: str, name: str, file: str, services: With) -> Response:
    """Return a file of a report. Raises Refusal (404)."""
    place = reports.directory_of(services, f"{kind}/{name}") / "report" / file
    if file not in reports.FILES or not place.is_file():
        raise not_found("Report", item=f"{kind}/{name}", file=file)
    return FileResponse(place, headers={"Content-Security-Policy": reports.policy()})


# A cell


@router.get("/page/set/{kind}/{name}/cell/{key}")
def cell(kind: str, name: str, key: str, request: Request, services: With) -> Response:
    """Show the seeds of a cell, with all that they measured."""
    services.index.look(LOOK_S)
    results = result_sets.find_set(services, f"{kind}/{name}")
    row = services.database.row("SELECT * FROM cell WHERE key = ?", key)
    cell_id = row["id"] if row else None
    runs = [run for run in result_sets.runs_of(services, results.item) if run.cell == cell_id]
    if row is None or not runs:
        raise not_found("Cell", key=key)
    runs.sort(key=lambda run: run.seed)
    measured = result_sets.measured_by(services, runs)
    words = heat.measures_of_set(services, [run.row for run in runs if run.row is not None])
    main = heat.main_measure(services, row["scenario"], words)
    names = sorted(words, key=lambda name: (name != main, name))
    finished = [measured[run.row] for run in runs if run.row is not None and run.finished]
    estimates = {}
    for name in names:
        estimates[name] = estimate([of_run[name] for of_run in finished if name in of_run])
    values = json.loads(row["values"])
    differs = [name for name in results.values if name in values]
    return shown(
        request,
        "cell.html",
        results=results,
        key=key,
        scenario=row["scenario"],
        runs=runs,
        measured=measured,
        names=names,
        words=words,
        estimates=estimates,
        values=values,
        differs=differs,
    )
