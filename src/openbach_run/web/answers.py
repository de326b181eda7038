# SPDX-License-Identifier: GPL-3.0-or-later
"""What all routes share: the services behind them, bodies that are read with care, and refusals as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import JSONResponse

from openbach_run.model import Malformed
from openbach_run.web.launcher import Launcher
from openbach_run.web.platform import Platform
from openbach_run.web.sessions import Sessions
from openbach_run.web.store import Database


@dataclass(frozen=True)
class Services:
    """What a request is answered with."""

    database: Database
    launcher: Launcher
    platform: Platform
    sessions: Sessions


class Refusal(Exception):
    """An answer other than success. `answer` has the keys of OpenBACH's: `error` from its conductor, `msg` from its views."""

    def __init__(self, status: int, error: str, **more: Any) -> None:
        super().__init__(error)
        self.status, self.answer = status, {"error": error, **more}


def not_found(what: str, **names: Any) -> Refusal:
    return Refusal(404, f"The requested {what} is not in the database", **names)


def refused_scenario(error: Malformed) -> Refusal:
    """The backend's answer to a scenario. Where that is a crash, ours is not."""
    if error.status == 500:
        return Refusal(400, "Data of the Scenario are malformed", error_message={"error": str(error)})
    answer = dict(error.answer)
    return Refusal(error.status, answer.pop("error"), **answer)


def refuse(request: Request, refusal: Exception) -> JSONResponse:
    assert isinstance(refusal, Refusal)
    return JSONResponse(refusal.answer, refusal.status)


def services(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


async def json_body(request: Request) -> dict[str, Any]:
    """The JSON object of a request, {} for none. Texts, numbers and depth are such that an answer can hold them again."""
    try:
        text = (await request.body()).decode()
        body = json.loads(text, parse_constant=_no_number, parse_float=_finite) if text else {}
        json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise Refusal(400, "API error: data should be sent as JSON in the request body") from None
    if not isinstance(body, dict):
        raise Refusal(400, "API error: a JSON object is expected in the request body")
    return body


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def malformed(field: str) -> Refusal:
    return Refusal(400, f"POST data malformed: '{field}' missing", msg=f"POST data malformed: '{field}' missing")


With = Annotated[Services, Depends(services)]
Body = Annotated[dict[str, Any], Depends(json_body)]
