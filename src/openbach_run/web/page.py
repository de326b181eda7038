# SPDX-License-Identifier: GPL-3.0-or-later
"""Our own page, for users without an OpenBACH: choose a scenario, give values, launch, watch, compare.

Plain HTML from templates/, one style sheet and two scripts from static/; nothing is fetched from elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader
from starlette.datastructures import FormData, UploadFile

from openbach_run.campaign.plan import settings_of, sweep_table
from openbach_run.campaign.settings import parse_seeds
from openbach_run.campaign.sub_runs import unfold_all
from openbach_run.engine.platform.rest import CONTROLLER_FILE
from openbach_run.errors import InputError
from openbach_run.openbach.limits import argument_choices
from openbach_run.openbach.refusals import Malformed
from openbach_run.openbach.scenario import Scenario, defaults_of
from openbach_run.paths import PROJECT
from openbach_run.results.files import as_csv
from openbach_run.web import answers, launches, reports
from openbach_run.web.answers import Json, Refusal, Services, With, not_found
from openbach_run.web.instances import find_instance, find_scenario, read_scenario
from openbach_run.web.sessions import COOKIE

HERE = Path(__file__).parent
STATIC = HERE / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; font-src data:; frame-ancestors 'none'"
)
FIELDS_LIMIT = 500

router = APIRouter()
templates = Environment(
    loader=FileSystemLoader(HERE / "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)


async def read_form(request: Request) -> FormData:
    return await request.form(max_files=1, max_fields=FIELDS_LIMIT)


Form = Annotated[FormData, Depends(read_form)]


def shown(request: Request, services: Services, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page. The visitor's session protects its forms."""
    token = services.sessions.form_token(request.cookies.get(COOKIE, ""))
    values = {**values, "token": token, "controller_file": CONTROLLER_FILE}
    answer = HTMLResponse(templates.get_template(template).render(values), status)
    answer.headers["Content-Security-Policy"] = POLICY
    answer.headers["Cache-Control"] = "no-store"
    return answer


def check_token(request: Request, services: Services, form: FormData) -> None:
    token = form.get("token")
    if not services.sessions.knows_form_token(request.cookies.get(COOKIE), token if isinstance(token, str) else ""):
        raise Refusal(403, "This form is too old, or not ours: open the page again")


# Scenarios


@router.get("/")
def home(request: Request, services: With) -> Response:
    return _home(request, services)


def _home(request: Request, services: Services, status: int = 200, error: str = "") -> Response:
    projects = {name: list(services.database.scenarios(name).values()) for name in services.database.projects()}
    return shown(
        request, services, "home.html", status, projects=projects, recent=launches.recent(services), error=error
    )


@router.get("/page/scenario/{project}/{name}")
def scenario(project: str, name: str, request: Request, services: With) -> Response:
    return _scenario(request, services, project, name)


def _scenario(
    request: Request, services: Services, project: str, name: str, status: int = 200, error: str = "",
    given: Mapping[str, list[str]] | None = None, seeds: str = "1",
) -> Response:  # fmt: skip
    found, subs, _ = find_scenario(services, project, name)
    fields = argument_fields(found, subs, services, given)
    return shown(
        request,
        services,
        "scenario.html",
        status,
        project=project,
        scenario=found,
        fields=fields,
        seeds=seeds,
        error=error,
    )


def argument_fields(
    found: Scenario, subs: dict[str, Scenario], services: Services, given: Mapping[str, list[str]] | None
) -> list[dict[str, Any]]:
    """What the form asks for: of each argument and constant its choices if it has any, what is chosen, what a sweep would
    take. `given` is what has been chosen, None in a new form."""
    try:
        choices = argument_choices(found, services.platform.jobs, subs)
        untested = services.platform.additions.untested()
    except InputError:  # of its x-same, or of a folder; a launch says so
        choices, untested = {}, set()
    settings = settings_of(found, subs)
    constants = defaults_of((*subs.values(), found))
    try:
        defaults, swept = (sweep_table(found, Path(found.name), key) for key in ("defaults", "values"))
    except InputError:
        defaults, swept = {}, {}
    fields = []
    arguments = dict.fromkeys([*swept, *found.arguments])
    for name in sorted({**arguments, **settings}, key=lambda name: name not in found.arguments):
        whole = [str(value) for value in swept.get(name, [])]
        is_constant = name not in found.arguments
        own = constants if is_constant else defaults
        default = whole[:1] if name in swept or name not in own else [str(own[name])]
        fields.append({
            "name": name, "description": settings[name], "choices": choices.get(name, ()), "is_constant": is_constant,
            "whole": whole or default, "chosen": default if given is None else given.get(name, []),
            "untested": untested,
        })  # fmt: skip
    return fields


@router.post("/page/scenario/{project}/{name}")
def start(project: str, name: str, request: Request, form: Form, services: With) -> Response:
    check_token(request, services, form)
    given = given_values(form)
    seeds = str(form.get("seeds") or "1")[:1000]
    try:
        number = launches.launch(services, project, name, given, parse_seeds(seeds))
    except InputError as error:
        return _scenario(request, services, project, name, 422, str(error), given, seeds)
    except Refusal as refusal:
        if refusal.status == 404:
            raise
        return _scenario(request, services, project, name, 422, str(refusal), given, seeds)
    return RedirectResponse(f"/page/launch/{number}", 303)


def given_values(form: FormData) -> dict[str, list[str]]:
    """Fields `value.<argument>` are one value each (boxes that are ticked), `values.<argument>` a text with commas."""
    given: dict[str, dict[str, None]] = {}
    for key, text in form.multi_items():
        kind, _, name = key.partition(".")
        if kind in ("value", "values") and isinstance(text, str):
            parts = [text] if kind == "value" else text.split(",")
            given.setdefault(name, {}).update(dict.fromkeys(part.strip() for part in parts if part.strip()))
    return {name: list(values) for name, values in given.items()}


@router.post("/page/import")
def import_scenario(request: Request, form: Form, services: With) -> Response:
    """A scenario file, into the project of the checkout; an existing one of that name gets a new version."""
    check_token(request, services, form)
    file = form.get("file")
    if not isinstance(file, UploadFile):
        return _home(request, services, 422, "Choose a scenario file first")
    try:
        read = read_scenario(services, json.loads(file.file.read()))
        services.database.put_scenario(PROJECT, read)
    except Malformed as error:
        return _home(request, services, 422, f"{file.filename}: {error}")
    except (ValueError, RecursionError) as error:
        return _home(request, services, 422, f"{file.filename}: no JSON: {error}")
    return RedirectResponse(f"/page/scenario/{PROJECT}/{quote(read.name, safe='')}", 303)


# Launches


@router.get("/page/launch/{number:int}")
def launch(number: int, request: Request, services: With) -> Response:
    row = launches.find_launch(services, number)
    values = json.loads(row["values"])
    return shown(request, services, "launch.html", launch=row, values=values, seeds=json.loads(row["seeds"]))


@router.get("/page/launch/{number:int}/state")
def launch_state(number: int, services: With) -> Response:
    return Json(launches.state(services, number))


@router.get("/page/launch/{number:int}/results.csv")
def launch_csv(number: int, services: With) -> Response:
    row = launches.find_launch(services, number)
    runs = services.launcher.directory(row["scenario"]) / "runs"
    records = launches.records_of(launches.runs_of(services, number))
    text = as_csv(unfold_all(records, runs))
    headers = {"Content-Disposition": f'attachment; filename="launch{number}.csv"'}
    return Response(text, media_type="text/csv", headers=headers)


@router.post("/page/launch/{number:int}/stop")
def stop(number: int, request: Request, form: Form, services: With) -> Response:
    check_token(request, services, form)
    launches.find_launch(services, number)
    for run in launches.runs_of(services, number):
        if run["stop_date"] is None:
            services.launcher.stop(run["id"])
    return RedirectResponse(f"/page/launch/{number}", 303)


@router.post("/page/launch/{number:int}/report")
async def make_report(number: int, request: Request, form: Form, services: With) -> Response:
    check_token(request, services, form)
    await services.reports.do(f"launch {number}", lambda: reports.make_report(services, number))
    return RedirectResponse(f"/page/launch/{number}/report/report.html", 303)


@router.get("/page/launch/{number:int}/report/{name}")
def report(number: int, name: str, services: With) -> Response:
    if name not in reports.FILES or not (file := reports.directory_of(services, number) / "report" / name).is_file():
        raise not_found("Report", launch=number)
    return FileResponse(file, headers={"Content-Security-Policy": REPORT_POLICY})


@router.get("/page/run/{number:int}/live")
def live(number: int, services: With) -> Response:
    return Json(launches.live(find_instance(services, number), services.platform.packages))


@router.get("/page/compare")
def compare(request: Request, services: With) -> Response:
    """Launches beside each other, each with its table."""
    numbers = [int(text) for text in request.query_params.getlist("launch")[:20] if text.isdecimal() and len(text) < 19]
    found = [(launches.find_launch(services, number), launches.state(services, number)["table"]) for number in numbers]
    return shown(request, services, "compare.html", launches=found)


# Logging in


@router.get("/page/login")
def login_page(request: Request, services: With) -> Response:
    return shown(request, services, "login.html", error="")


@router.post("/page/login")
async def log_in(request: Request, form: Form, services: With) -> Response:
    cookie = await answers.log_in(request, services, str(form.get("login", "")), str(form.get("password", "")))
    if cookie is None:
        return shown(request, services, "login.html", 401, error="This login and password do not belong together")
    answer = RedirectResponse("/", 303)
    answer.set_cookie(COOKIE, cookie, httponly=True, samesite="strict")
    return answer
