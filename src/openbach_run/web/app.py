# SPDX-License-Identifier: GPL-3.0-or-later
"""The local controller as a web application: OpenBACH's REST API and our page.

The API is at / and at /openbach/.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles

from openbach_run.errors import InputError, SetupError
from openbach_run.openbach.scenario import Scenario
from openbach_run.paths import PROJECT
from openbach_run.web import (
    api_instances,
    api_login,
    api_platform,
    api_projects,
    page,
    page_compare,
    page_results,
    page_runs,
)
from openbach_run.web.answers import Json, Refusal, Services
from openbach_run.web.guard import Guard, TooLarge, too_large
from openbach_run.web.index import Index
from openbach_run.web.launcher import Launcher, MakeEngine
from openbach_run.web.platform import Platform
from openbach_run.web.render import STATIC, error_page, wants_page
from openbach_run.web.sessions import Sessions, TooMany, Tries
from openbach_run.web.shared_work import Once
from openbach_run.web.store import Database

DATABASE = "serve.sqlite"
BODY = re.compile(r"<body[^>]*>", re.IGNORECASE)
BACK = (
    '<a href="/page/results"'
    ' style="position:fixed;right:.5rem;bottom:.5rem;z-index:9999;background:#fff;color:#0b5cad;'
    'padding:.2rem .5rem;border:1px solid">openbach-run: results, comparison</a>'
)


def make_app(
    platform: Platform,
    scenarios: Sequence[Scenario],
    results: Path,
    make_engine: MakeEngine,
    cpus: Sequence[int],
    sessions: Sessions,
    *,
    local: bool = True,
    web_ui: Path | None = None,
) -> FastAPI:
    """Return the application, which keeps its data in `results` and ends its runs at shutdown.

    `local`: it serves this machine only. `web_ui` is the folder of OpenBACH's own web UI, which is
    then at /app. Raises InputError.
    """
    results.mkdir(parents=True, exist_ok=True)
    database = Database(results / DATABASE)
    launcher = Launcher(database, results, make_engine, platform.packages, cpus)
    begin_project(database, platform, scenarios)
    index = Index(database, results)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        """Follow the results while the application lives; end its runs with it."""
        index.start()
        yield
        # First the runs, which write to the database to the end.
        launcher.close()
        index.close()
        database.close()

    app = FastAPI(
        lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
    )
    app.state.services = Services(
        database, launcher, platform, sessions, Tries(), Once(), index, web_ui is not None
    )
    for module in (api_login, api_platform, api_projects, api_instances):
        app.include_router(module.router)
        # OpenBACH's web UI asks below /openbach, its auditorium scripts at the root.
        app.include_router(module.router, prefix="/openbach")
    for module in (page, page_results, page_runs, page_compare):
        app.include_router(module.router)
    app.mount("/page/static", StaticFiles(directory=STATIC))
    if web_ui is not None:
        add_web_ui(app, web_ui)
    for kind, answer in ANSWERS.items():
        app.add_exception_handler(kind, answer)
    # Around all of it: files and errors are guarded, too.
    app.add_middleware(Guard, sessions=sessions, local=local)
    return app


def add_web_ui(app: FastAPI, folder: Path) -> None:
    """Serve OpenBACH's web UI.

    Its pages have addresses below /app, and one file makes all of them; a link in it leads back to
    our page. The rest of the folder is at /.
    """
    index = folder / "index.html"

    @app.get("/app")
    @app.get("/app/{rest:path}")
    def web_ui() -> HTMLResponse:
        """Return the one page of the web UI, with a link back to ours."""
        text = index.read_text(encoding="utf-8")
        return HTMLResponse(BODY.sub(lambda match: match[0] + BACK, text, count=1))

    app.mount("/", StaticFiles(directory=folder))


def begin_project(database: Database, platform: Platform, scenarios: Sequence[Scenario]) -> None:
    """Make the checkout's project at the first start; update its scenarios at every start."""
    with database.transaction():
        if database.project(PROJECT) is None:
            database.put_project(PROJECT, platform.default_project())
        for scenario in scenarios:
            database.put_scenario(PROJECT, scenario)


def _refused(request: Request, error: Exception) -> Response:
    """Return a refusal as a page or as JSON."""
    assert isinstance(error, Refusal)
    if wants_page(request):
        return error_page(request, error.status, str(error))
    return Json(error.answer, error.status)


def _no_route(request: Request, error: Exception) -> Response:
    """Return the answer to an address that there is not."""
    assert isinstance(error, HTTPException)
    if wants_page(request):
        return error_page(request, error.status_code, f"There is no page {request.url.path}")
    words = f"{request.method} {request.url.path}: {error.detail}"
    return JSONResponse({"error": words}, error.status_code)


def _error_answer(request: Request, status: int, words: str, **more: str) -> Response:
    """Return an error as a page for a browser, and as JSON for any other client."""
    if wants_page(request):
        return error_page(request, status, words)
    return Json({"error": words, **more}, status)


TOO_MANY = (
    "Too many wrong passwords from this address; try again in some seconds, or use the token that"
    " serve printed"
)
NO_NUMBER = "not a number that could be an id"
ANSWERS: dict[type[Exception], Callable[[Request, Exception], Response]] = {
    Refusal: _refused,
    HTTPException: _no_route,
    RequestValidationError: lambda request, error: _error_answer(
        request, 404, f"{request.url.path}: {NO_NUMBER}"
    ),
    InputError: lambda request, error: _error_answer(request, 422, str(error)),
    TooLarge: lambda request, error: too_large(),
    SetupError: lambda request, error: _error_answer(request, 503, str(error)),
    TooMany: lambda request, error: _error_answer(request, 429, TOO_MANY, msg=TOO_MANY),
    sqlite3.Error: lambda request, error: _error_answer(
        request, 503, f"{DATABASE} in the results directory: {error}"
    ),
    # Nobody reads this one.
    ClientDisconnect: lambda request, error: Response(status_code=400),
}
"""Answers to a request, by the error that it ended with."""
