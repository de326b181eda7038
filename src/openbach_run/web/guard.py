# SPDX-License-Identifier: GPL-3.0-or-later
"""Before any route: is the request for us, from a page of ours, small enough, and from somebody who may ask?

- Without a password only this machine is served: the Host header must name it, or a page anywhere could reach the
  server through a name that it makes resolve to 127.0.0.1 (DNS rebinding).
- A request that changes something and says which page it comes from (Origin, Sec-Fetch-Site) must come from ours.
- Bodies have a limit, announced or not.
- With a password, everything but logging in needs a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openbach_run.web.sessions import COOKIE, Sessions

BODY_LIMIT_BYTES = 4_000_000
SAFE = ("GET", "HEAD", "OPTIONS")
LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
OPEN_PATHS = ("/login/", "/openbach/login/", "/version/", "/openbach/version/", "/page/login")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
)


class TooLarge(Exception):
    """A body that was not announced and is over the limit."""


class Guard:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, sessions: Sessions) -> None:
        self._app, self._sessions = app, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if (answer := self._objection(scope, headers)) is not None:
            await answer(scope, receive, send)
            return
        got = 0

        async def limited() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > BODY_LIMIT_BYTES:
                raise TooLarge
            return message

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        await self._app(scope, limited, hardened)

    def _objection(self, scope: Scope, headers: Headers) -> JSONResponse | RedirectResponse | None:
        host = headers.get("host", "")
        if self._sessions.open and _name(f"//{host}") not in LOCAL_NAMES:
            return JSONResponse({"error": f"this server serves this machine only, not {host[:100]}"}, 403)
        if scope["method"] not in SAFE and not _from_our_page(headers, host):
            return JSONResponse({"error": "this request comes from a page of another site"}, 403)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > BODY_LIMIT_BYTES:
            return too_large()
        if self._sessions.open or scope["path"] in OPEN_PATHS or scope["path"].startswith("/page/static/"):
            return None
        if self._sessions.user(cookies(headers).get(COOKIE)) is not None:
            return None
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse("/page/login", 303)
        return JSONResponse({"error": "You are not logged in", "msg": "You are not logged in"}, 403)


def cookies(headers: Mapping[str, str]) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(headers.get("cookie", "")).items()}
    except CookieError:
        return {}


def _from_our_page(headers: Mapping[str, str], host: str) -> bool:
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or _netloc(origin) == host


def _netloc(url: str) -> str | None:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def too_large() -> JSONResponse:
    return JSONResponse({"error": f"a request may have {BODY_LIMIT_BYTES // 1_000_000} MB at most"}, 413)
