# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of an OpenBACH controller's REST API: its address, the log-in, and errors in words.

Every request has a connection of its own, which is closed after it: the controller's web server
closes kept ones without telling the client. A request that does no harm twice is repeated, with
growing pauses, while no whole answer comes; any other one is sent once, and it is for its caller to
find out whether it arrived.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from getpass import getpass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import requests

from openbach_run.errors import InputError, SetupError
from openbach_run.json_files import read_json
from openbach_run.paths import CONTROLLER_PORT

TIMEOUT_S = 30.0
"""Limit for a whole answer, from the request on."""
LOST_LIMIT_S = 120.0
"""The time for which a request is repeated while the controller cannot be reached; agents go on
without it."""
LOG_IN_LIMIT_S = 3.0
"""That time before anything has worked: more likely the address is wrong."""
RETRY_S, LONGEST_RETRY_S = 0.2, 5.0
"""Pauses between repetitions: the first, doubled each time up to the longest."""
CHUNK_BYTES = 1 << 16
VAULT_PASSWORD_NEEDED = 460
BAD_GATEWAY = (502, 503, 504)
"""A proxy before the controller got no answer from it."""
CONTROLLER_FILE = "controller"
"""OpenBACH's name for the file that says where the controller is and who logs in; it is in the
current directory."""
KEYS = ("controller", "login", "password", "vault_password")


T = TypeVar("T")


class Refused(SetupError):
    """The controller answered, and the answer is no."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


class Lost(SetupError):
    """No whole answer: no connection, a dropped one, or none in time.

    Whether the request arrived is not known.
    """


@dataclass(frozen=True)
class Answer:
    """A whole one."""

    status: int
    reason: str
    kind: str
    """The Content-Type."""
    body: bytes

    def json(self) -> Any:
        """Return the answer's body as JSON. Raises ValueError."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Access:
    """The address of a controller, and who logs in. Passwords are kept out of its text."""

    url: str
    """URL with a slash at its end: http://172.20.34.80:8000/"""
    login: str
    password: str = field(repr=False)
    vault_password: str = field(default="", repr=False)


def read_access(address: str | None, file: Path) -> Access:
    """Return the access that OpenBACH's own file `controller` gives.

    An `address` (HOST, HOST:PORT or a URL) goes before the file's. The file holds a JSON object
    with the keys controller, login, password and vault_password, a JSON text, or a bare line with
    the address. Its password is sent to no other controller than the file's own; what it does not
    give is asked for on a terminal. Raises InputError.
    """
    known = _said_in(file) if file.exists() else {}
    if address is None and not known.get("controller"):
        raise InputError(f"which controller? Give --controller HOST, or write {file}: {_example()}")
    url = base_url(address or known["controller"])
    # The file's password is for the file's controller; no other one gets to see it.
    if known.get("controller") and base_url(known["controller"]) != url:
        known = {}
    login = known.get("login") or _ask("Login", url, file, hidden=False)
    password = known.get("password") or _ask("Password", url, file, hidden=True)
    return Access(url, login, password, known.get("vault_password", ""))


def write_access(file: Path, address: str, login: str, password: str) -> None:
    """Write the file `controller`, whole or not at all, for its owner's eyes only.

    `address` is as `read_access` takes it; the auditorium scripts take a host alone. Raises
    InputError, and leaves a file for another controller alone.
    """
    try:
        known = _read_file(file) if file.exists() else {}
        others = known.get("controller", "")
        if file.exists() and (not others or base_url(others) != base_url(address)):
            raise InputError(f"{file} is for another controller ({others or 'none'})")
        # A new file that only its owner can read from the first byte on, renamed when it is whole.
        new = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            json.dump({"controller": address, "login": login, "password": password}, stream)
        try:
            new.replace(file)
        finally:
            new.unlink(missing_ok=True)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be written: {error}") from error


def base_url(address: str) -> str:
    """Return `HOST`, `HOST:PORT` or a URL as a base URL. Raises InputError."""
    url = address if "://" in address else f"http://{address}"
    named = address.rpartition("@")[2]  # before it may be a password
    try:
        parts = urlsplit(url)
        # A URL is taken as it is: it may name a proxy on the usual port of HTTP.
        port = parts.port or (CONTROLLER_PORT if "://" not in address else None)
    except ValueError:
        raise InputError(f"controller {named!r} is no address, or no port") from None
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.username
        or parts.query
        or parts.fragment
    ):
        raise InputError(
            f"controller {named!r}: should be like 172.20.34.80, name:8000 or"
            " https://name/openbach/, without a login"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}/"


def _read_file(file: Path) -> dict[str, str]:
    text = file.read_text(encoding="utf-8").strip()
    # OpenBACH's scripts take the bare address, too.
    if text[:1] not in ("{", '"'):
        return {"controller": text.splitlines()[0].strip()} if text else {}
    content = read_json(file)
    if isinstance(content, str):
        return {"controller": content}
    if not isinstance(content, dict) or not all(
        isinstance(content.get(key, ""), str) for key in KEYS
    ):
        raise InputError(f"{file}: should be like {_example()}")
    return {key: content[key] for key in KEYS if key in content}


def _said_in(file: Path) -> dict[str, str]:
    try:
        return _read_file(file)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file}: not UTF-8 text (byte {error.start}); it should be like {_example()}"
        ) from error


def _example() -> str:
    return json.dumps(
        {"controller": "172.20.34.80", "login": "…", "password": "…"}, ensure_ascii=False
    )


def _ask(what: str, url: str, file: Path, *, hidden: bool) -> str:
    if not sys.stdin.isatty():
        raise InputError(
            f"{url}: no {what.lower()} in {file}, and no terminal to ask on; write it there:"
            f" {_example()}"
        )
    return getpass(f"{what} at {url}: ") if hidden else input(f"{what} at {url}: ")


class Controller:
    """A session with a controller, for any thread.

    Methods raise Refused or Lost, both with text for a person.
    """

    def __init__(self, access: Access, timeout_s: float = TIMEOUT_S) -> None:
        self.access = access
        self._timeout_s = timeout_s
        self._cookies = requests.cookies.RequestsCookieJar()
        self._logged_in = False

    def log_in(self) -> None:
        """Begin a session; its cookie goes with every later request."""
        body = {"login": self.access.login, "password": self.access.password}
        vault = {"vault_password": self.access.vault_password} if self.access.vault_password else {}
        try:
            # the controller keeps the vault password with the session
            _patiently(
                lambda: self._once("POST", ("login/",), json={**body, **vault}), LOG_IN_LIMIT_S
            )
        except Refused as refusal:
            if refusal.status != 409:  # an earlier answer was lost after its cookie
                raise
        self._logged_in = True

    def get(self, *path: str | int, **query: str | list[str]) -> Any:
        """The answer to GET.

        `path` are the parts of the route, quoted here; a text that ends with / is taken as it is.
        """
        return _patiently(lambda: self._json(self._send("GET", path, params=query)))

    def find(self, *path: str | int) -> Any:
        """Return the answer to GET; None where the controller has no such thing."""
        try:
            return self.get(*path)
        except Refused as refusal:
            if refusal.status != 404:
                raise
            return None

    def text(self, *path: str | int) -> str:
        """Return the answer to a GET as text."""
        return _patiently(lambda: self._send("GET", path)).body.decode(errors="replace")

    def put(self, *path: str | int, body: dict[str, Any]) -> Any:
        """Return the JSON answer to a PUT."""
        return _patiently(lambda: self._json(self._send("PUT", path, json=body)))

    def post(self, *path: str | int, body: dict[str, Any], repeat: bool = False) -> Any:
        """Return the JSON answer to a POST.

        With `repeat` the order does no harm twice, so it is given again when its answer is lost.
        """

        def send() -> Any:
            return self._json(self._send("POST", path, json=body))

        return _patiently(send) if repeat else send()

    def send_file(self, *path: str | int, name: str, content: bytes) -> Any:
        """Return the JSON answer to a POST of a file and its name, which does no harm twice."""
        more = {"data": {"name": name}, "files": {"file": (f"{name}.tar.gz", content)}}
        return _patiently(lambda: self._json(self._send("POST", path, **more)))

    def _send(self, method: str, path: tuple[str | int, ...], **more: Any) -> Answer:
        """Return the answer to a request; log in again if the controller has forgotten the session.

        It has not done then what it was asked for.
        """
        try:
            return self._once(method, path, **more)
        except Refused as refusal:
            # Sessions end: after hours, or when the controller starts again.
            if refusal.status not in (401, 403) or not self._logged_in:
                raise
        self.log_in()
        return self._once(method, path, **more)

    def _once(self, method: str, path: tuple[str | int, ...], **more: Any) -> Answer:
        route = "".join(
            str(part) if str(part).endswith("/") else quote(str(part), safe="") + "/"
            for part in path
        )
        what = f"{method} {route}"
        try:
            answer = self._exchange(method, self.access.url + route, **more)
        except (requests.Timeout, TimeoutError):
            raise Lost(
                f"{self.access.url} gave no answer to {what} in {self._timeout_s:g} s"
            ) from None
        except requests.RequestException as error:
            raise Lost(f"{self.access.url}: {what}: {_reason(error)}") from None
        if answer.status in BAD_GATEWAY:
            raise Lost(
                f"{self.access.url}: {what}: the proxy before the controller got no answer (HTTP"
                f" {answer.status})"
            )
        if answer.status >= 300:
            raise Refused(answer.status, self._words(answer, method, route))
        return answer

    def _exchange(self, method: str, url: str, **more: Any) -> Answer:
        with requests.Session() as session:  # its end closes the connection
            session.trust_env = (
                False  # no proxy, and no ~/.netrc: its password is none of this controller's
            )
            session.cookies = self._cookies
            session.headers["Connection"] = "close"
            # requests' own time-out is for each read: a slow sender could go on for ever.
            end_s = time.monotonic() + self._timeout_s
            with session.request(
                method, url, timeout=self._timeout_s, allow_redirects=False, stream=True, **more
            ) as answer:
                body = bytearray()
                for chunk in answer.iter_content(CHUNK_BYTES):
                    body += chunk
                    if time.monotonic() > end_s:
                        raise TimeoutError
                kind = answer.headers.get("Content-Type", "")
                return Answer(answer.status_code, answer.reason, kind, bytes(body))

    def _json(self, answer: Answer) -> Any:
        if not answer.body:
            return {}
        try:
            return answer.json()
        except ValueError:
            # Cut off in the middle: whether the order was carried out is not known.
            if "json" in answer.kind:
                raise Lost(
                    f"{self.access.url}: the connection was dropped in the middle of the answer"
                ) from None
            text = f"{self.access.url} answers what is not JSON: is an OpenBACH controller there? "
            raise Refused(answer.status, f"{text}Port {CONTROLLER_PORT} is its usual one") from None

    def _words(self, answer: Answer, method: str, route: str) -> str:
        """Return the meaning of a refusal, with the controller's own reason."""
        reason = _reason_of(answer)
        match answer.status:
            case 401:
                return (
                    f"{self.access.url} does not know the login {self.access.login} with this"
                    f" password ({reason})"
                )
            case 403:
                return (
                    f"{self.access.url} does not let {self.access.login} do {method} {route}:"
                    f" {reason}"
                )
            case code if code == VAULT_PASSWORD_NEEDED:
                held = (
                    "the vault password is wrong"
                    if self.access.vault_password
                    else "it needs the vault password"
                )
                text = (
                    f"{self.access.url}: {held}: the controller reaches its agents with keys under"
                    " that password; "
                )
                return text + 'write it in the file controller, key "vault_password"'
            case 422:
                return f"{self.access.url} cannot do {method} {route} on its agents: {reason}"
            case code if code >= 500:
                return f"{self.access.url} failed in {method} {route} (HTTP {code}): {reason}"
            case code:
                return f"{self.access.url} refuses {method} {route} (HTTP {code}): {reason}"


def _patiently(send: Callable[[], T], limit_s: float | None = None) -> T:
    """Return what `send` returns.

    While it raises Lost it is repeated, for LOST_LIMIT_S if no other limit is given.
    """
    end_s, pause_s = time.monotonic() + (LOST_LIMIT_S if limit_s is None else limit_s), RETRY_S
    while True:
        try:
            return send()
        except Lost:
            if time.monotonic() + pause_s > end_s:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_RETRY_S)


def _reason(error: requests.RequestException) -> str:
    text = str(error)
    # urllib3 wraps errors in errors; their texts are what tells them apart.
    for part, words in (
        ("refused", "connection refused: nothing listens there"),
        ("RemoteDisconnected", "the connection was dropped before an answer came"),
        ("reset", "the connection was reset"),
        ("IncompleteRead", "the connection was dropped in the middle of the answer"),
        ("resolve", "there is no such host"),
        ("unreachable", "the host cannot be reached"),
    ):
        if part in text:
            return words
    return f"no connection ({type(error).__name__})"


def _reason_of(answer: Answer) -> str:
    try:
        body = answer.json()
    except ValueError:
        return answer.reason or "no reason given"
    # Of the director, through the conductor.
    if isinstance(body, dict) and isinstance(body.get("response"), dict):
        body = body["response"]
    if not isinstance(body, dict):
        return json.dumps(body)[:500]
    parts = [str(body[key]) for key in ("error", "msg", "message") if body.get(key)]
    detail = body.get("error_message")
    # The backend's checks name the entry at fault, the conductor's errors are texts.
    if isinstance(detail, dict):
        parts.append(
            ": ".join(str(detail[key]) for key in ("offending_entry", "error") if key in detail)
        )
    elif detail:
        parts.append(str(detail))
    parts += _entities(body.get("entities"))
    return "; ".join(dict.fromkeys(parts)) or answer.reason or "no reason given"


def _entities(entities: Any) -> list[str]:
    """Return the entities of an answer 422, in words, with what each lacks: an agent, or jobs."""
    if isinstance(entities, dict):
        return [
            f"{name} lacks {', '.join(map(str, entry.get('jobs', [])))}"
            for name, entry in entities.items()
        ]
    return [", ".join(map(str, entities))] if isinstance(entities, list) else []
