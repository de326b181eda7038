# SPDX-License-Identifier: GPL-3.0-or-later
"""Our own page, for users without an OpenBACH: choose a scenario, give values, launch.

The pages of results are in page_results.py, page_runs.py and page_compare.py. The pages are plain
HTML from templates/, with a style sheet and small scripts from static/, and uPlot for curves.
Nothing is fetched from elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import UploadFile

from openbach_jobs.presets import ES_N0_FILE
from openbach_run import drawing
from openbach_run.errors import InputError
from openbach_run.link_checks import is_es_n0_file
from openbach_run.openbach.refusals import Malformed
from openbach_run.paths import PROJECT
from openbach_run.web import answers, launch_form, launches, links, result_sets
from openbach_run.web.answers import Json, Services, With, not_found, read_json
from openbach_run.web.curves import PEN
from openbach_run.web.instances import find_scenario, read_scenario
from openbach_run.web.page_results import LOOK_S, address
from openbach_run.web.render import AnyForm, Form, shown
from openbach_run.web.sessions import cookie_of
from openbach_run.yaml_files import read_yaml

QUESTIONS = Path(__file__).parent / "templates/questions.yml"

router = APIRouter()


# Scenarios


@router.get("/")
def home(request: Request, services: With) -> Response:
    """Show the scenarios by question, campaigns, and the latest results; `q` has words to find."""
    return _home(request, services)


def first_comment(file: Path) -> str:
    """Return the text of a file's first comment, without its licence and schema."""
    words = []
    for line in file.read_text().splitlines():
        if not line.startswith("#"):
            break
        if "SPDX-License-Identifier" not in line and "yaml-language-server" not in line:
            words.append(line.strip("# "))
    return " ".join(words).strip()


def _home(request: Request, services: Services, status: int = 200, error: str = "") -> Response:
    """Return the first page, with an error if there is one."""
    services.index.look(LOOK_S)
    scenarios, files = services.database.scenarios, launches.campaign_files(services)
    asked = request.query_params.get("q", "").lower().split()
    return shown(
        request,
        "home.html",
        status,
        # A card is shown if its texts have all words that are asked for.
        has=lambda *texts: all(word in " ".join(texts).lower() for word in asked),
        questions=read_yaml(QUESTIONS),
        projects={name: scenarios(name) for name in services.database.projects()},
        campaigns={name: first_comment(file) for name, file in sorted(files.items())},
        recent=result_sets.all_sets(services)[:10],
        error=error,
    )


@router.get("/page/scenario/{project}/{name}")
def scenario(project: str, name: str, request: Request, services: With) -> Response:
    """Show the form with the values of the address: `?values.vpn=none,wireguard&seeds=5`."""
    query = request.query_params
    chosen, seeds = launch_form.given_values(query), query.get("seeds", "")[:1000]
    return _scenario(request, services, project, name, chosen, seeds)


def _scenario(
    request: Request,
    services: Services,
    project: str,
    name: str,
    chosen: Mapping[str, list[str]],
    seeds: str,
    status: int = 200,
    errors: Mapping[str, str] | None = None,
) -> Response:
    """Show the form; errors of fields that it does not have are shown apart."""
    scenario, subs, _ = find_scenario(services, project, name)
    fields = launch_form.fields_of(scenario, subs, services, chosen)
    errors = errors or {}
    whole = {field["name"]: field["whole"] for field in fields}
    shown_there = {*whole, launch_form.SEEDS}
    return shown(
        request,
        "scenario.html",
        status,
        project=project,
        scenario=scenario,
        fields=fields,
        seeds=seeds,
        errors=errors,
        elsewhere={name: words for name, words in errors.items() if name not in shown_there},
        files=[Path(file) for file in links.all_links(services.launcher.results)],
        opened=[name for name in whole if name in chosen and chosen[name] != whole[name]],
    )


@router.post("/page/scenario/{project}/{name}")
def start(project: str, name: str, request: Request, form: Form, services: With) -> Response:
    """Launch the form's values; show its results, or the form with what is wrong."""
    chosen, seeds = launch_form.given_values(form), str(form.get("seeds", ""))[:1000]
    errors = launch_form.check(services, project, name, chosen, seeds).errors
    if not errors:
        try:
            numbers = launch_form.asked_seeds(seeds)
            number = launches.launch(services, project, name, chosen, numbers)
            result_sets.mark(services, f"launch/{number}", name=str(form.get("title", "")).strip())
            return RedirectResponse(address(f"launch/{number}"), 303)
        except InputError as error:
            errors = {"": str(error)}
    # A field without a value is shown as empty, not with its default.
    chosen = {**{name: [] for name in errors}, **chosen}
    return _scenario(request, services, project, name, chosen, seeds, 422, errors)


@router.post("/page/check/{project}/{name}")
def check(project: str, name: str, form: Form, services: With) -> Response:
    """Return what is to be said of the form's values as they are now; nothing is launched."""
    services.index.look(LOOK_S)
    chosen, seeds = launch_form.given_values(form), str(form.get("seeds", ""))[:1000]
    return Json(asdict(launch_form.check(services, project, name, chosen, seeds)))


@router.post("/page/link/{project}/{name}")
def upload_link(project: str, name: str, request: Request, form: Form, services: With) -> Response:
    """Store a link file, which every scenario can name from then on."""
    file = form.get("file")
    try:
        if not isinstance(file, UploadFile) or not file.filename:
            raise InputError("choose a link file first")
        kept = links.keep(services.launcher.results, file.filename, file.file.read())
    except InputError as error:
        return _scenario(request, services, project, name, {}, "", 422, {"link file": str(error)})
    scenario, subs, _ = find_scenario(services, project, name)
    fields = launch_form.fields_of(scenario, subs, services, {})
    is_es_n0 = is_es_n0_file(Path(kept))
    names = [field["name"] for field in fields if field["is_link"]]
    argument = next((name for name in names if (name == ES_N0_FILE) == is_es_n0), "")
    chosen = f"?{urlencode({f'values.{argument}': kept})}" if argument else ""
    place = f"{quote(project, safe='')}/{quote(name, safe='')}"
    return RedirectResponse(f"/page/scenario/{place}{chosen}#links", 303)


@router.get("/page/link/{name}.svg")
def link_plot(name: str, services: With) -> Response:
    """Return a drawing of an uploaded link file: rate, delay and loss over time."""
    file = links.find(services.launcher.results, f"{name}.csv")
    if file is None:
        raise not_found("Link file", name=name)
    # Late, as it imports matplotlib.
    from satlink.plot import draw

    with TemporaryDirectory() as folder:
        PEN.submit(draw, file, Path(folder) / "link.svg").result()
        content = (Path(folder) / "link.svg").read_bytes()
    return Response(
        content,
        media_type="image/svg+xml",
        # An SVG may hold scripts; none of them is to run.
        headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"},
    )


@router.get("/page/campaign/{name}")
def campaign_file(name: str, request: Request, services: With) -> Response:
    """Show what a campaign file runs."""
    return _campaign_file(request, services, name, {})


def _campaign_file(
    request: Request, services: Services, name: str, given: Mapping[str, Any], error: str = ""
) -> Response:
    """Return the page of a campaign file with the seeds of its form, and what is wrong with it."""
    seeds = str(given.get("seeds", ""))[:1000]
    try:
        campaigns = launches.campaigns_of_file(services, name, launch_form.asked_seeds(seeds))
    except InputError as wrong:
        campaigns, error = launches.campaigns_of_file(services, name, None), str(wrong)
    return shown(
        request,
        "campaign.html",
        422 if error else 200,
        name=name,
        description=first_comment(launches.campaign_files(services)[name]),
        campaigns=campaigns,
        forecast=lambda some: launch_form.forecast(services, some),
        given=given,
        error=error,
    )


@router.post("/page/campaign/{name}")
def start_campaign_file(name: str, request: Request, form: Form, services: With) -> Response:
    """Launch every campaign of the file and show the results of the first one, or estimate it."""
    if "estimate" in form:
        return _campaign_file(request, services, name, form)
    try:
        seeds = launch_form.asked_seeds(str(form.get("seeds", ""))[:1000])
        first = launches.launch_file(services, name, seeds, str(form.get("title", "")).strip())
    except InputError as error:
        return _campaign_file(request, services, name, form, str(error))
    return RedirectResponse(address(f"launch/{first}"), 303)


@router.post("/page/import")
def import_scenario(request: Request, form: Form, services: With) -> Response:
    """Store a scenario file in the checkout's project; an existing name gets a new version."""
    file = form.get("file")
    if not isinstance(file, UploadFile):
        return _home(request, services, 422, "Choose a scenario file first")
    try:
        read = read_scenario(services, read_json(file.file.read()))
        services.database.put_scenario(PROJECT, read)
    except Malformed as error:
        return _home(request, services, 422, f"{file.filename}: {error}")
    except (ValueError, RecursionError) as error:
        return _home(request, services, 422, f"{file.filename}: no JSON: {error}")
    return RedirectResponse(f"/page/scenario/{PROJECT}/{quote(read.name, safe='')}", 303)


# The charts


@router.get("/page/static/charts.js")
def chart_script(request: Request) -> Response:
    """Return the script of the charts."""
    return _unless_known(request, drawing.chart_script(), "text/javascript")


@router.get("/page/static/charts.css")
def chart_style(request: Request) -> Response:
    """Return the style sheet of the charts."""
    return _unless_known(request, drawing.chart_style(), "text/css")


def _unless_known(request: Request, text: str, kind: str) -> Response:
    """Return a text, or 304 without content if the browser has it already."""
    tag = f'"{hashlib.sha256(text.encode()).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(text, media_type=kind, headers=headers)


# Logging in


@router.get("/page/login")
def login_page(request: Request) -> Response:
    """Show the form for logging in."""
    return shown(request, "login.html", error="")


@router.post("/page/login")
async def log_in(request: Request, form: AnyForm, services: With) -> Response:
    """Begin a session, or show the form again."""
    login, password = str(form.get("login", "")), str(form.get("password", ""))
    cookie = await answers.log_in(request, services, login, password)
    if cookie is None:
        error = "This login and password do not belong together"
        return shown(request, "login.html", 401, error=error)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(cookie_of(request.headers), cookie, httponly=True, samesite="strict")
    return answer
