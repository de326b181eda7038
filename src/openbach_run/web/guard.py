# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of a request before any route: its host, its page of origin, its size, its session.

- Where only this machine is served the Host header must name it. Otherwise a page anywhere could
  reach the server through a name that it makes resolve to 127.0.0.1 (DNS rebinding).
- A request that changes something and says which page it comes from (Origin, Sec-Fetch-Site) must
  come from ours.
- Bodies have a limit, announced or not, and so have all that are being worked on together.
- Everything but logging in needs a session; ?token=… begins one, and leaves the address.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, urlencode, urlsplit

from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openbach_run.web.sessions import Sessions, cookie_of

BODY_LIMIT_BYTES = 4_000_000
LOGIN_LIMIT_BYTES = 16_000
"""The limit of a body from somebody without a session."""
BODIES_LIMIT_BYTES = 32_000_000
SAFE = ("GET", "HEAD", "OPTIONS")
LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
OPEN_PATHS = ("/login/", "/openbach/login/", "/version/", "/openbach/version/", "/page/login")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
)


class TooLarge(Exception):
    """A body is over the limit, although it was not announced as such."""


class Guard:
    """The middleware (ASGI) that does the checks. `local`: only this machine is served."""

    def __init__(self, app: ASGIApp, sessions: Sessions, local: bool) -> None:
        self._app, self._sessions, self._local = app, sessions, local
        self._bodies = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is not let through; pass the others on."""
        # The application's start and end come this way, too.
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        headers = Headers(scope=scope)
        limit = BODY_LIMIT_BYTES if self._has_session(headers) else LOGIN_LIMIT_BYTES
        got, is_complete = 0, not _announces_body(headers)

        # A body may be longer than announced, or not announced: it is counted while it comes.
        async def limited() -> Message:
            """Return the next part of the body. Raises TooLarge."""
            nonlocal got, is_complete
            message = await receive()
            read = len(message.get("body", b""))
            got, self._bodies = got + read, self._bodies + read
            is_complete = not message.get("more_body", False)
            if got > limit or self._bodies > BODIES_LIMIT_BYTES:
                raise TooLarge
            return message

        # A connection that is closed with a part of the body unread is reset by the kernel, and
        # the client may lose the answer: what comes of the body is read before any answer.
        async def hardened(message: Message) -> None:
            """Send an answer with the headers that every answer has."""
            if message["type"] == "http.response.start":
                with suppress(TooLarge):
                    while not is_complete:
                        await limited()
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            if (answer := self._objection(scope, headers, limit)) is not None:
                await answer(scope, receive, hardened)
                return
            await self._app(scope, limited, hardened)
        finally:
            self._bodies -= got

    def _objection(self, scope: Scope, headers: Headers, limit: int) -> Response | None:
        """Return the answer to a request that is not let through, or None."""
        host = headers.get("host", "")
        if self._local and _name(host) not in LOCAL_NAMES:
            text = f"this server serves this machine only, not {host[:100]}"
            return JSONResponse({"error": text}, 403)
        if scope["method"] not in SAFE and not _from_our_page(headers, host):
            return JSONResponse({"error": "this request comes from a page of another site"}, 403)
        # The announced length is refused at once; what really comes is counted while it comes.
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > limit:
            return too_large()
        query = QueryParams(scope["query_string"])
        if scope["method"] == "GET" and self._sessions.is_token(query.get("token", "")):
            return self._entered(scope["path"], query, headers)
        is_open = scope["path"] in OPEN_PATHS or scope["path"].startswith("/page/static/")
        if is_open or self._has_session(headers):
            return None
        # A browser is led to the form; a program is told.
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse("/page/login", 303)
        return JSONResponse({"error": "You are not logged in", "msg": "You are not logged in"}, 403)

    def _has_session(self, headers: Headers) -> bool:
        """Return whether a request has the cookie of a session."""
        return self._sessions.user(cookies(headers).get(cookie_of(headers))) is not None

    def _entered(self, path: str, query: QueryParams, headers: Headers) -> Response:
        """Begin a session, and redirect to the same address without the token.

        The token is not to stay in a history or a bookmark.
        """
        rest = urlencode([(name, value) for name, value in query.multi_items() if name != "token"])
        answer = RedirectResponse(f"/{quote(path.lstrip('/'))}{'?' if rest else ''}{rest}", 303)
        if not self._has_session(headers):
            # No script can read it, and no link on another site sends it along.
            session = self._sessions.begin()
            answer.set_cookie(cookie_of(headers), session, httponly=True, samesite="strict")
        return answer


def cookies(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the cookies of a request by name; {} if they cannot be read."""
    try:
        morsels = SimpleCookie(headers.get("cookie", "")).items()
        return {name: morsel.value for name, morsel in morsels}
    except CookieError:
        return {}


def _announces_body(headers: Mapping[str, str]) -> bool:
    """Return whether a body follows that is small enough to read, and that is sent unasked."""
    length = headers.get("content-length", "0")
    is_long = not length.isdecimal() or int(length[:20]) > BODY_LIMIT_BYTES
    has_body = length != "0" or "transfer-encoding" in headers
    return has_body and not is_long and headers.get("expect", "").lower() != "100-continue"


def _from_our_page(headers: Mapping[str, str], host: str) -> bool:
    """Return whether a request comes from a page of ours, or does not say where from."""
    # Browsers say it of every request, and no page can change it.
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    # A program sends no Origin; it has no browser's cookies that another page could misuse.
    return origin is None or _netloc(origin) == host


def _netloc(url: str) -> str | None:
    """Return the host and port of a URL; None if it is none."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None


def _name(host: str) -> str | None:
    """Return the name in NAME or NAME:PORT; None for a Host with more, like a login or a path."""
    try:
        parts = urlsplit(f"//{host}")
        is_no_more = (parts.netloc, parts.username) == (host, None) and parts.port != 0
        return parts.hostname if is_no_more else None
    except ValueError:
        return None


def too_large() -> JSONResponse:
    """Return the answer (413) to a body over the limit."""
    text = (
        f"a request may have {BODY_LIMIT_BYTES // 1_000_000} MB at most, one to log in"
        f" {LOGIN_LIMIT_BYTES // 1000} kB"
    )
    return JSONResponse({"error": text}, 413)
