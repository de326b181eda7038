# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of one run: its path, jobs, curves, files and packets."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, RedirectResponse

from openbach_run.paths import PROJECT
from openbach_run.results.record import events
from openbach_run.web import result_sets, runs
from openbach_run.web.answers import Services, With, not_found
from openbach_run.web.instances import find_instance
from openbach_run.web.launch_form import SERIES
from openbach_run.web.page_results import form_query
from openbach_run.web.render import Form, shown
from openbach_run.web.runs import Run, find_run

PLAIN = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}
SHOWN_LETTERS = 200_000
"""The letters of a file that a page shows; the whole file can be downloaded."""

LOG_EVENTS = 20
"""The events of a run that its page shows while it goes on."""

router = APIRouter()


@router.get("/page/run/{folder}/{name}")
def one_run(folder: str, name: str, request: Request, services: With) -> Response:
    """Show a run: its path, jobs, curves and files."""
    run = find_run(services, folder, name)
    arguments = run.spec.get("values")
    values: dict[str, Any] = (
        run.record.arguments if run.record else arguments if isinstance(arguments, dict) else {}
    )
    return shown(
        request,
        "run.html",
        run=run,
        record=run.record,
        values=values,
        route=runs.route_of(run),
        jobs=runs.jobs_of(run),
        # A stopped run has what it wrote until then; it is not packed.
        files=[name for name in runs.FILES if run.record or (run.place / name).is_file()],
        item=f"run={folder}/{name}",
        has_capture=runs.capture_file(services, run) is not None,
        words=services.database.pairs("SELECT name, words FROM measure"),
        again=again(services, run, values),
        with_curves=again(services, run, {**values, SERIES: "0.5"}),
        instance=instance_of(services, run),
    )


def again(services: Services, run: Run, values: dict[str, Any]) -> str:
    """Return the address of the form with this run's values; "" for an unknown scenario."""
    if run.record is None or services.database.scenario(PROJECT, run.record.scenario) is None:
        return ""
    query = form_query({name: [str(value)] for name, value in values.items()}, [run.record.seed])
    return f"/page/scenario/{PROJECT}/{run.record.scenario}?{query}"


def instance_of(services: Services, run: Run) -> int | None:
    """Return the id of the latest scenario instance that is this run, or None.

    OpenBACH's web UI calls the run by it.
    """
    row = services.database.row(
        "SELECT MAX(id) AS id FROM instance WHERE owner = id AND run_dir = ?", str(run.place)
    )
    return None if row is None else row["id"]


@router.get("/page/run/{folder}/{name}/job/{number:int}")
def job(folder: str, name: str, number: int, request: Request, services: With) -> Response:
    """Show what a job was started with, and what it wrote."""
    run = find_run(services, folder, name)
    jobs = [job for job in runs.jobs_of(run) if job["number"] == number]
    if not jobs:
        raise not_found("Job", number=number)
    texts = {key: text[:SHOWN_LETTERS] for key, text in runs.outputs(run, number).items()}
    return shown(request, "job.html", run=run, job=jobs[0], texts=texts)


@router.get("/page/run/{folder}/{name}/events")
def events_page(folder: str, name: str, request: Request, services: With) -> Response:
    """Show the events of a run; with `part` in the address the last ones, the latest first."""
    run = find_run(services, folder, name)
    try:
        lines = list(events(run.place))
    except Exception:  # a guest's
        lines = []
    is_log = "part" in request.query_params
    # The whole file can be downloaded.
    shown_lines = lines[: -LOG_EVENTS - 1 : -1] if is_log else lines[:5000]
    return shown(request, "rows.html" if is_log else "events.html", run=run, lines=shown_lines)


@router.get("/page/run/{folder}/{name}/file/{file}")
def one_file(folder: str, name: str, file: str, services: With) -> Response:
    """Return a file of a run as text. Raises Refusal (404)."""
    run = find_run(services, folder, name)
    text = runs.content(run, file) if file in runs.FILES else None
    if text is None:
        raise not_found("File", name=file)
    return Response(
        text.encode(errors="replace"), media_type="text/plain; charset=utf-8", headers=PLAIN
    )


@router.post("/page/run/{folder}/{name}/capture")
async def make_capture(folder: str, name: str, form: Form, services: With) -> Response:
    """Repeat a run for its packets, and offer them."""
    run = find_run(services, folder, name)
    await services.once.do(f"capture {folder}/{name}", lambda: runs.make_capture(services, run))
    return RedirectResponse(f"/page/run/{folder}/{name}/capture.pcapng", 303)


@router.get("/page/run/{folder}/{name}/capture.pcapng")
def capture(folder: str, name: str, services: With) -> Response:
    """Return the packets of a run. Raises Refusal (404)."""
    file = runs.capture_file(services, find_run(services, folder, name))
    if file is None:
        raise not_found("Capture", run=name)
    return FileResponse(file, media_type="application/x-pcapng", filename=f"{name}.pcapng")


@router.get("/page/instance/{number:int}")
def instance(number: int, services: With) -> Response:
    """Redirect from an instance's id, as OpenBACH's web UI uses it, to the run.

    If the run has not begun, it goes to its launch. Raises Refusal (404).
    """
    row = find_instance(services, number)
    row = find_instance(services, row["owner"])
    if row["run_dir"]:
        folder, _, name = row["run_dir"].rpartition("/runs/")
        return RedirectResponse(
            f"/page/run/{folder.rpartition('/')[2]}/{name.removesuffix('.unfinished')}", 303
        )
    if row["launch"] is None:
        raise not_found("Run", scenario_instance_id=number)
    return RedirectResponse(f"/page/set/launch/{result_sets.number_of(str(row['launch']))}", 303)
