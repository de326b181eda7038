# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools of all routes: services, careful reading of request bodies, and refusals as JSON."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse

from openbach_run.json_files import check_nesting
from openbach_run.openbach.refusals import Malformed
from openbach_run.web.index import Index
from openbach_run.web.launcher import Launcher
from openbach_run.web.platform import Platform
from openbach_run.web.sessions import LOGIN, Sessions, Tries
from openbach_run.web.shared_work import Once
from openbach_run.web.store import Database


@dataclass(frozen=True)
class Services:
    """The services with which a request is answered."""

    database: Database
    launcher: Launcher
    platform: Platform
    sessions: Sessions
    tries: Tries
    once: Once
    index: Index
    has_web_ui: bool = False


class Json(JSONResponse):
    """An answer of any JSON that Python can hold, records of guests included.

    A float that is no number (NaN) or infinite becomes null, and no text is refused.
    """

    def render(self, content: Any) -> bytes:
        """Return the content as JSON in UTF-8."""
        try:
            # Nearly always: the slow way below is for what a guest has made of its numbers.
            return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
        except ValueError:
            return json.dumps(_finite_or_null(content), separators=(",", ":")).encode()


def _finite_or_null(content: Any) -> Any:
    """Return the content with null for every float that is not finite."""
    if isinstance(content, dict):
        return {name: _finite_or_null(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite_or_null(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


class Refusal(Exception):
    """An answer other than success.

    `answer` has the keys of OpenBACH's answers: `error` from its conductor, `msg` from its views.
    """

    def __init__(self, status: int, error: str, **more: Any) -> None:
        """Make the refusal with its HTTP status; `more` are further keys of the answer."""
        super().__init__(error)
        self.status, self.answer = status, {"error": error, **more}


def not_found(what: str, **names: Any) -> Refusal:
    """Return the refusal (404) for something that does not exist."""
    return Refusal(404, f"The requested {what} is not in the database", **names)


def refused_scenario(error: Malformed) -> Refusal:
    """Return the backend's answer to a malformed scenario.

    It is a refusal (400) where the backend itself would crash.
    """
    if error.status == 500:
        message = {"error": str(error)}
        return Refusal(400, "Data of the Scenario are malformed", error_message=message)
    answer = dict(error.answer)
    return Refusal(error.status, answer.pop("error"), **answer)


def services(request: Request) -> Services:
    """Return the services of the application that got a request."""
    services: Services = request.app.state.services
    return services


async def json_body(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request, {} if there is no body. Raises Refusal (400)."""
    try:
        sent = await request.body()
        body = read_json(sent) if sent else {}
    except (ValueError, RecursionError):
        raise Refusal(400, "API error: data should be sent as JSON in the request body") from None
    if not isinstance(body, dict):
        raise Refusal(400, "API error: a JSON object is expected in the request body")
    return body


def read_json(sent: bytes) -> Any:
    """Return the JSON that a client has sent, if an answer can hold its texts, numbers and depth.

    Raises ValueError, RecursionError.
    """
    # Python reads NaN, 1e999 and any depth, which are no JSON to other readers.
    read = json.loads(sent.decode("utf-8-sig"), parse_constant=_no_number, parse_float=_finite)
    check_nesting(read)
    # Half of a surrogate pair is no text: to encode it raises ValueError.
    json.dumps(read, ensure_ascii=False).encode()
    return read


def _no_number(text: str) -> Any:
    """Raise ValueError: NaN and Infinity are no JSON."""
    raise ValueError(f"{text} is no JSON")


def _finite(text: str) -> float:
    """Return a number. Raises ValueError for one that is infinite as a float."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


async def log_in(request: Request, services: Services, login: str, password: str) -> str | None:
    """Return the new session's cookie; None for wrong credentials. Raises TooMany."""
    sessions = services.sessions
    if not sessions.is_token(password):
        # Only passwords can be guessed, so only they are slowed down.
        await asyncio.sleep(services.tries.wait_s(request.client.host if request.client else ""))
        if not sessions.is_password(password):
            return None
    return sessions.begin() if login == LOGIN else None


def malformed(field: str) -> Refusal:
    """Return the refusal (400) of a body without a field, in the backend's words."""
    return refused_by_view(400, f"POST data malformed: '{field}' missing")


def refused_by_view(status: int, text: str) -> Refusal:
    """Return a refusal as the backend's views have it: their text is in `msg`, too."""
    return Refusal(status, text, msg=text)


def download(content: bytes, name: str, media_type: str, **headers: str) -> Response:
    """Return a file that a browser stores under this name."""
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media_type, headers=disposition | headers)


def project_of(services: Services, name: str) -> dict[str, Any]:
    """Return a project's document. Raises Refusal (404)."""
    document = services.database.project(name)
    if document is None:
        raise not_found("Project", project_name=name)
    return document


With = Annotated[Services, Depends(services)]
Body = Annotated[dict[str, Any], Depends(json_body)]
