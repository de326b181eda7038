# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools of all our pages: templates, a content policy, and forms that only they send.

The policy lets nothing in from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader
from starlette.datastructures import FormData, QueryParams

from openbach_run.engine.platform.rest import CONTROLLER_FILE
from openbach_run.web.answers import Refusal, Services, With
from openbach_run.web.sessions import cookie_of

HERE = Path(__file__).parent
STATIC = HERE / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src"
    " 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
FIELDS_LIMIT = 500

templates = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    # Texts of guests and scenarios are never taken for HTML.
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)


def figure(value: float, digits: int = 4) -> str:
    """Return a number with this many digits: `28.51`, `10 000 000`.

    There are no powers of ten for numbers below 10^15.
    """
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}".replace(",", "\u202f") if "e+" in text and abs(value) < 1e15 else text


def decimals(values: Iterable[float]) -> int:
    """Return with how many decimals the values of one measure stand below each other.

    The least one has three digits, unless the greatest had more than six; whole numbers have none.
    """
    sizes = [abs(value) for value in values if value]
    if not any(value % 1 for value in sizes):
        return 0
    least, most = (math.floor(math.log10(edge)) for edge in (min(sizes), max(sizes)))
    return max(0, min(2 - least, 5 - most))


def fixed(value: float, places: int) -> str:
    """Return a number with this many decimals: `28.50`, `10 000 000`."""
    return f"{value:,.{places}f}".replace(",", "\u202f")


templates.filters.update(figure=figure, fixed=fixed)


def with_query(query: QueryParams, **more: Any) -> str:
    """Return the query of an address with some of its fields replaced; an empty one is left out."""
    kept = [(name, value) for name, value in query.multi_items() if value and name not in more]
    return urlencode([*kept, *((name, value) for name, value in more.items() if value)])


async def read_form(request: Request) -> FormData:
    """Return the form of a request, with a limit on its fields."""
    return await request.form(max_files=1, max_fields=FIELDS_LIMIT)


async def own_form(request: Request, services: With) -> FormData:
    """Return a form that our page has sent in this session. Raises Refusal (403) for another."""
    form = await read_form(request)
    token, cookie = form.get("token"), request.cookies.get(cookie_of(request.headers))
    if not isinstance(token, str) or not services.sessions.knows_form_token(cookie, token):
        raise Refusal(403, "This form is too old, or not ours: open the page again")
    return form


AnyForm = Annotated[FormData, Depends(read_form)]
Form = Annotated[FormData, Depends(own_form)]


def shown(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page; its forms are protected by the visitor's session."""
    services: Services = request.app.state.services
    token = services.sessions.form_token(request.cookies.get(cookie_of(request.headers), ""))
    common = {"token": token, "controller_file": CONTROLLER_FILE, "has_web_ui": services.has_web_ui}
    common |= {
        "query": request.query_params,
        "with_query": partial(with_query, request.query_params),
    }
    text = templates.get_template(template).render({**common, **values})
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store"}
    # A guest's text may have what UTF-8 cannot hold.
    return HTMLResponse(text.encode(errors="replace"), status, headers)


def wants_page(request: Request) -> bool:
    """Return whether the client is a browser that asks for a page to show."""
    return "text/html" in request.headers.get("accept", "")


def error_page(request: Request, status: int, words: str) -> HTMLResponse:
    """Return a page that says what is wrong."""
    titles = {403: "Not allowed", 404: "Not found", 422: "This cannot be done"}
    title = titles.get(status, "It did not work")
    return shown(request, "told.html", status, title=title, words=words)
