# SPDX-License-Identifier: GPL-3.0-or-later
"""REST API: scenario instances, job instances and their statistics."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from statistics import fmean, pvariance
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from openbach_run.engine.platform.leftovers import NO_STOP_DATE
from openbach_run.results import run_files
from openbach_run.web import instances
from openbach_run.web.answers import (
    Body,
    Json,
    Refusal,
    Services,
    With,
    download,
    malformed,
    not_found,
    project_of,
    refused_by_view,
)
from openbach_run.web.index import is_drawable
from openbach_run.web.store import LARGEST_ID, Row

router = APIRouter(default_response_class=Json)

BUCKETS = 10_000
NO_SINGLE_JOB = (
    "A local controller runs jobs in scenarios only; start or stop the scenario instance"
)


# Scenario instances


@router.get("/project/{project}/scenario_instance/")
def of_project(project: str, request: Request, services: With) -> Any:
    """Return the instances of a project."""
    return _listed(services, request, project, None)


@router.get("/project/{project}/scenario/{scenario}/scenario_instance/")
def of_scenario(project: str, scenario: str, request: Request, services: With) -> Any:
    """Return the instances of a scenario."""
    return _listed(services, request, project, scenario)


def _listed(services: Services, request: Request, project: str, scenario: str | None) -> Any:
    """Return instances in the form that the query asks for. Raises Refusal (404)."""
    project_of(services, project)
    limit, offset = _number(request, "limit"), _number(request, "offset")
    within = (0, -1) if limit is None else (offset or 0, limit)
    rows = services.database.instances(project, scenario, *within)
    if "quiet" in request.query_params:
        return instances.shown_quietly(services, rows)
    # A project may have thousands, and each is read from its record.
    return StreamingResponse(_one_by_one(services, rows), media_type="application/json")


def _one_by_one(services: Services, rows: Sequence[Row]) -> Iterator[str]:
    """Yield a JSON list of whole instances, with only one of them in memory at a time."""
    before = "["
    for row in rows:
        with suppress(Refusal):  # removed since the list was begun
            yield before + json.dumps(instances.shown_instance(services, row))
            before = ","
    yield "[]" if before == "[" else "]"


def _number(request: Request, name: str) -> int | None:
    """Return a number of the query, at most LARGEST_ID; None if it is missing or no number."""
    text = request.query_params.get(name, "")
    # int() takes digits of every script, and any number of them; SQLite takes 64 bits.
    return min(int(text[:20]), LARGEST_ID) if text.isascii() and text.isdigit() else None


@router.post("/project/{project}/scenario/{scenario}/scenario_instance/")
def start(project: str, scenario: str, body: Body, services: With) -> dict[str, Any]:
    """Start an instance, and return its id and what the quiet form says of it.

    The web UI would show a bare id as an unknown state.
    """
    number = instances.start(services, project, scenario, body.get("arguments") or {})
    return instances.shown_quietly(services, [instances.find_instance(services, number)])[0]


@router.get("/scenario_instance/{number:int}/")
def instance(number: int, request: Request, services: With) -> Any:
    """Return an instance in the form that the query asks for. Raises Refusal (404)."""
    row = instances.find_instance(services, number)
    if "files_count" in request.query_params:
        return _files_count(services, row)
    if "quiet" in request.query_params:
        return instances.shown_quietly(services, [row])[0]
    return instances.shown_instance(services, row)


def _files_count(services: Services, row: Row) -> dict[str, dict[str, int]]:
    """Return how many files the jobs have sent, by job and statistic."""
    counts: dict[str, dict[str, int]] = {}
    for sent in instances.measured(services, row):
        for name in sent["values"] if sent["is_file"] else ():
            of_job = counts.setdefault(sent["job_name"], {})
            of_job[name] = of_job.get(name, 0) + 1
    return counts


@router.post("/scenario_instance/{number:int}/", status_code=204)
def stop(number: int, services: With) -> None:
    """Stop an instance that was launched; it is no error if it has ended."""
    try:
        row = instances.find_instance(services, number)
    except Refusal as refusal:  # OpenBACH's director answers this one, in a form of its own
        raise Refusal(
            refusal.status, **refusal.answer, response=refusal.answer, returncode=refusal.status
        ) from None
    if row["owner"] != row["id"]:
        raise Refusal(
            422,
            "A sub-scenario of a local run cannot be stopped alone",
            scenario_instance_id=row["owner"],
        )
    if row["stop_date"] is None:
        services.launcher.stop(number)


@router.delete("/scenario_instance/{number:int}/", status_code=204)
def remove(number: int, services: With) -> None:
    """Remove an instance from the database.

    Its record stays in the results directory. A stopped run has no record, and its files are
    removed.
    """
    row = instances.find_instance(services, number)
    if row["stop_date"] is None:
        raise Refusal(
            409, "Trying to remove a scenario_instance still running", scenario_instance_id=number
        )
    if row["owner"] != row["id"]:
        raise Refusal(
            409, "It belongs to another scenario instance", scenario_instance_id=row["owner"]
        )
    services.database.delete_instance(number)
    services.launcher.forget(row)


# OpenBACH's web UI asks without the slash where an instance has files; a real backend answers 404.
@router.get("/scenario_instance/{number:int}/csv")
@router.get("/scenario_instance/{number:int}/csv/")
def download_csv(number: int, services: With) -> Response:
    """Return the statistics of an instance as a CSV file."""
    return download(_csv(services, number), f"scenario{number}.csv", "text/csv")


def _csv(services: Services, number: int) -> bytes:
    """Return the statistics of an instance that has ended, as CSV.

    Raises Refusal (404, as the backend has it) while the instance runs.
    """
    row = instances.find_instance(services, number)
    if row["stop_date"] is None:
        raise Refusal(404, "Trying to export the statistics of a scenario_instance still running")
    # A guest's text may have what UTF-8 cannot hold.
    return instances.as_csv(services, row).encode("utf-8", "backslashreplace")


@router.get("/scenario_instance/{number:int}/archive")
@router.get("/scenario_instance/{number:int}/archive/")
def download_archive(number: int, request: Request, services: With) -> Response:
    """Return a .tar.gz, as OpenBACH's web UI downloads it.

    It has the statistics of an instance, and the files that its jobs have stored as the statistics
    that the query names by job.
    """
    contents = {f"scenario_instance_{number}.csv": _csv(services, number)}
    row = instances.find_instance(services, number)
    for sent in instances.measured(services, row):
        asked = set(request.query_params.getlist(sent["job_name"]))
        for statistic in asked & sent["values"].keys():
            if sent["is_file"] and (stored := _stored(services, row, sent["values"][statistic])):
                folder = f"{sent['job_name']}_({sent['job_instance_id']}).{statistic}"
                contents[f"{folder.replace('/', '_')}/{stored[0]}"] = stored[1]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return download(packed.getvalue(), f"scenario{number}.tar.gz", "application/gzip")


def _stored(services: Services, row: Row, place: Any) -> tuple[str, bytes] | None:
    """Return name and content of a file at its place in the guest; None if it is not kept."""
    inside = PurePosixPath("files", str(place).partition("/files/")[2].lstrip("/"))
    # It is a guest's text, which may lead out of the record.
    if ".." not in inside.parts:
        run_dir = Path(instances.find_instance(services, row["owner"])["run_dir"])
        with suppress(OSError, ValueError, run_files.DamagedRecord):
            return inside.name, run_files.content(run_dir, str(inside))
    return None


# Job instances


def _job(services: Services, number: int) -> tuple[Row, dict[str, Any]]:
    """Return the launched instance that has the job with this id, and the job.

    Raises Refusal (404).
    """
    if row := services.database.by_id("job", number):
        owner = instances.find_instance(services, row["owner"])
        for _, job in instances.jobs_in(instances.shown_instance(services, owner)):
            if job["id"] == number:
                return owner, dict(job)
    raise not_found("Job Instance", job_instance_id=number)


@router.get("/job_instance/{number:int}/")
def job_instance(number: int, services: With) -> dict[str, Any]:
    """Return a job instance. Raises Refusal (404)."""
    return _job(services, number)[1]


@router.get("/job_instance/", status_code=202)
def running_jobs(request: Request, services: With) -> dict[str, Any]:
    """Return the job instances that run on the agents at the given addresses."""
    running = []
    for owner in services.database.running():
        jobs = instances.jobs_in(instances.shown_instance(services, owner))
        running += [job for _, job in jobs if job["stop_date"] == NO_STOP_DATE]
    addresses = request.query_params.getlist("address")
    return {"instances": [_on_agent(services, address, running) for address in addresses]}


def _on_agent(
    services: Services, address: str, running: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the installed jobs of an agent, each with its instances among the `running` ones."""
    if services.platform.host_at(address) is None:
        raise not_found("Agent", agent_address=address)
    here = [job for job in running if job["agent"] == address]
    jobs = []
    for installed in services.platform.installed_jobs():
        name = installed["name"]
        jobs.append({"job_name": name, "instances": [job for job in here if job["name"] == name]})
    return {"address": address, "installed_jobs": jobs}


@router.get("/job_instance/{number:int}/state/")
def job_instance_state(number: int, services: With) -> dict[str, Any]:
    """Return the last orders to start, stop and restart a job instance.

    An order that was never given is None; so are all orders of a job instance that does not exist.
    """
    states: dict[str, Any] = dict.fromkeys(("start", "stop", "restart"))
    try:
        owner, job = _job(services, number)
    except Refusal:
        return states
    done = {"response": {}, "returncode": 204}
    states["start"] = {**done, "last_operation_date": job["start_date"]}
    if job["status"] == "Stopped":
        states["stop"] = {**done, "last_operation_date": owner["stop_date"] or job["stop_date"]}
    return states


@router.post("/job_instance/", status_code=202)
def change_job_instances(body: Body, services: With) -> dict[str, Any]:
    """Stop job instances, or all runs (`kill`), as far as local runs know such orders."""
    match body.get("action"):
        case "stop":
            numbers = body.get("job_instance_ids")
            if not isinstance(numbers, list) or {*map(type, numbers)} - {int, bool}:
                raise malformed("job_instance_ids")
            for number in numbers:
                _stop_job(services, number)
            return {}
        # OpenBACH's order to end all jobs of all agents: here it ends all runs.
        case "kill":
            for owner in services.database.running():
                services.launcher.stop(owner["id"])
            return {}
        case action:
            raise _refused(action, "start")


@router.post("/job_instance/{number:int}/", status_code=202)
def change_job_instance(number: int, body: Body, services: With) -> dict[str, Any]:
    """Stop a job instance, as far as a local run knows such an order."""
    if body.get("action") != "stop":
        raise _refused(body.get("action"), "restart")
    _stop_job(services, number)
    return {}


def _refused(action: object, single: str) -> Refusal:
    """Return the refusal of an action: none, one of a single job (422), or an unknown one (400)."""
    if action is None:
        return malformed("action")
    if action == single:
        return Refusal(422, NO_SINGLE_JOB)
    return refused_by_view(400, f"POST data malformed: unknown action '{action}' for this route")


def _stop_job(services: Services, number: int) -> None:
    """Accept the order to stop a job that has ended, as OpenBACH does.

    Raises Refusal (422) for one that runs: its run knows no order to stop a single job.
    """
    if _job(services, number)[1]["stop_date"] == NO_STOP_DATE:
        raise Refusal(422, NO_SINGLE_JOB, job_instance_id=number)


# Statistics


@router.get("/statistic/{number:int}/")
def statistic(number: int, request: Request, services: With) -> Any:
    """Return a job's statistics in the form that the query asks for.

    Without a name these are the names and suffixes that it has sent, or the first time (`origin`).
    """
    query = request.query_params
    owner, _ = _job(services, number)
    lines = [
        sent for sent in instances.measured(services, owner) if sent["job_instance_id"] == number
    ]
    if "name" not in query:
        if "origin" in query:
            return min((line["time"] for line in lines), default=None)
        return {
            "statistics": sorted(set().union(*(line["values"] for line in lines))),
            "suffixes": sorted({line["suffix"] for line in lines if line.get("suffix")}),
        }
    name, suffix = query["name"], query.get("suffix")
    points = [
        (line["time"], line["values"][name])
        for line in lines
        if is_drawable(line["values"].get(name))
        and (suffix is None or line.get("suffix") == suffix)
    ]
    return _series(request, name, points)


def _series(request: Request, name: str, points: Sequence[tuple[int, float]]) -> Any:
    """Return the points of a statistic as a series, as mean and variance, or as a histogram."""
    values = [value for _, value in points]
    buckets = _number(request, "histogram")
    if not points:
        return None if "comparative" in request.query_params and not buckets else []
    if buckets:
        return _histogram(values, min(buckets, BUCKETS))
    if "comparative" in request.query_params:
        return {"mean": fmean(values), "variance": pvariance(values)}
    origin = _number(request, "origin") or 0
    return {name: values, "time": [time - origin for time, _ in points]}


def _histogram(values: Sequence[float], buckets: int) -> Mapping[str, list[float]]:
    """Return how many values are in each of so many equal buckets, and the buckets' middles."""
    least, most = min(values), max(values)
    # One value many times has no width: any will do.
    width = (most - least) / buckets or 1.0
    counts = [0.0] * buckets
    for value in values:
        # The greatest value is in the last bucket.
        counts[min(int((value - least) / width), buckets - 1)] += 1
    return {
        "counts": counts,
        "buckets": [least + width * (index + 0.5) for index in range(buckets)],
    }
