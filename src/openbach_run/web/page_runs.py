# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of one run: its path, jobs, curves, files and packets."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, RedirectResponse

from openbach_run.paths import PROJECT
from openbach_run.results.record import events
from openbach_run.web import runs, sets
from openbach_run.web.answers import Services, With, not_found
from openbach_run.web.ask import SERIES
from openbach_run.web.instances import find_instance
from openbach_run.web.page_results import form_query
from openbach_run.web.render import Form, check_token, shown
from openbach_run.web.runs import Run, find_run

PLAIN = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}
SHOWN_LETTERS = 200_000
"""Of a file on a page; the whole of it can be downloaded."""

router = APIRouter()


@router.get("/page/run/{folder}/{name}")
def one_run(folder: str, name: str, request: Request, services: With) -> Response:
    run = find_run(services, folder, name)
    given = run.spec.get("values")
    values: dict[str, Any] = run.record.arguments if run.record else given if isinstance(given, dict) else {}
    return shown(
        request, services, "run.html", run=run, record=run.record, values=values, route=runs.route_of(run),
        jobs=runs.jobs_of(run), files=runs.FILES, item=f"run={folder}/{name}",
        has_capture=runs.capture_file(services, run) is not None,
        words=words_of(services, run), again=again(services, run, values),
        with_curves=again(services, run, {**values, SERIES: "0.5"}), instance=instance_of(services, run),
    )  # fmt: skip


def words_of(services: Services, run: Run) -> list[tuple[str, str]]:
    """What it measured, in words."""
    if run.record is None:
        return []
    known = {row["name"]: row["words"] for row in services.database.rows("SELECT name, words FROM measure")}
    found = run.record.measures.items()
    return [(known.get(name, name), f"{value:.6g}" if isinstance(value, float) else str(value)) for name, value in found
            if value is not None]  # fmt: skip


def again(services: Services, run: Run, values: dict[str, Any]) -> str:
    if run.record is None or services.database.scenario(PROJECT, run.record.scenario) is None:
        return ""
    query = form_query({name: [str(value)] for name, value in values.items()}, [run.record.seed])
    return f"/page/scenario/{PROJECT}/{run.record.scenario}?{query}"


def instance_of(services: Services, run: Run) -> int | None:
    """The latest scenario instance that is this run: what OpenBACH's web UI calls it."""
    row = services.database.row("SELECT MAX(id) AS id FROM instance WHERE owner = id AND run_dir = ?", str(run.place))
    return None if row is None else row["id"]


@router.get("/page/run/{folder}/{name}/job/{number:int}")
def job(folder: str, name: str, number: int, request: Request, services: With) -> Response:
    """What a job was started with, and what it wrote."""
    run = find_run(services, folder, name)
    found = [one for one in runs.jobs_of(run) if one["number"] == number]
    if not found:
        raise not_found("Job", number=number)
    texts = {key: text[:SHOWN_LETTERS] for key, text in runs.outputs(run, number).items()}
    return shown(request, services, "job.html", run=run, job=found[0], texts=texts)


@router.get("/page/run/{folder}/{name}/events")
def told(folder: str, name: str, request: Request, services: With) -> Response:
    run = find_run(services, folder, name)
    try:
        lines = list(events(run.place))
    except Exception:  # a guest's
        lines = []
    rows = [(one["t_s"], one["event"], {key: value for key, value in one.items() if key not in ("t_s", "event")})
            for one in lines[:5000]]  # fmt: skip
    shown_rows = [(t_s, event, ", ".join(f"{k} {json.dumps(v) if isinstance(v, dict | list) else v}" for k, v in more.items()))
                  for t_s, event, more in rows]  # fmt: skip
    return shown(request, services, "events.html", run=run, rows=shown_rows)


@router.get("/page/run/{folder}/{name}/file/{file}")
def one_file(folder: str, name: str, file: str, services: With) -> Response:
    run = find_run(services, folder, name)
    text = runs.content(run, file) if file in runs.FILES else None
    if text is None:
        raise not_found("File", name=file)
    return Response(text.encode(errors="replace"), media_type="text/plain; charset=utf-8", headers=PLAIN)


@router.post("/page/run/{folder}/{name}/capture")
async def make_capture(folder: str, name: str, request: Request, form: Form, services: With) -> Response:
    check_token(request, services, form)
    run = find_run(services, folder, name)
    await services.once.do(f"capture {folder}/{name}", lambda: runs.make_capture(services, run))
    return RedirectResponse(f"/page/run/{folder}/{name}/capture.pcapng", 303)


@router.get("/page/run/{folder}/{name}/capture.pcapng")
def capture(folder: str, name: str, services: With) -> Response:
    file = runs.capture_file(services, find_run(services, folder, name))
    if file is None:
        raise not_found("Capture", run=name)
    return FileResponse(file, media_type="application/x-pcapng", filename=f"{name}.pcapng")


@router.get("/page/instance/{number:int}")
def instance(number: int, services: With) -> Response:
    """From what OpenBACH's web UI calls a run to the run; to its launch while it has not begun."""
    row = find_instance(services, number)
    row = find_instance(services, row["owner"])
    if row["run_dir"]:
        folder, _, name = row["run_dir"].rpartition("/runs/")
        return RedirectResponse(f"/page/run/{folder.rpartition('/')[2]}/{name.removesuffix('.unfinished')}", 303)
    if row["launch"] is None:
        raise not_found("Run", scenario_instance_id=number)
    return RedirectResponse(f"/page/set/launch/{sets.number_of(str(row['launch']))}", 303)
