# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients that hold connections, are slow, or try passwords.

They neither keep others out nor fill the log.
"""

from __future__ import annotations

import logging
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from helpers.fake_engine import FakeEngine
from helpers.waiting import HANG_S, wait_for
from helpers.web import ARGUMENTS, application, entrance, listening, visiting

from openbach_run.errors import InputError
from openbach_run.web import connections, guard
from openbach_run.web.connections import Connection, FewLines, connections_for
from openbach_run.web.guard import LOGIN_LIMIT_BYTES
from openbach_run.web.sessions import (
    FREE_TRIES,
    LONGEST_WAIT_S,
    TRY_EVERY_S,
    TooMany,
    Tries,
    network_of,
)

PASSWORD = "a password for a test"
FEW = 8


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    return application(tmp_path, password=PASSWORD)


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(sockets: ExitStack, url: str, sent: bytes = b"") -> socket.socket:
    place = urlsplit(url)
    assert place.hostname and place.port
    made = sockets.enter_context(
        socket.create_connection((place.hostname, place.port), timeout=HANG_S)
    )
    made.sendall(sent)
    return made


def is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(65536) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\n",
        b"POST /login/ HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\n{",
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_who_holds_connections_keeps_nobody_out(
    app: FastAPI, sockets: ExitStack, begun: bytes
) -> None:
    with listening(app, FEW) as url:
        held = [connected(sockets, url, begun) for _ in range(5 * FEW)]
        for _ in range(3):
            assert requests.get(f"{url}version/", timeout=HANG_S).status_code == 200
        wait_for(
            lambda: sum(map(is_closed, held)) >= 4 * FEW, "the end of connections over the limit"
        )
        sockets.close()  # the server ends when those that it answers have


@pytest.mark.parametrize(
    ("limit", "begun"),
    [
        ("HEADER_S", b""),
        ("HEADER_S", b"GET / HTTP/1.1\r\n"),
        ("HEADER_S", b"GET /version/ HTTP/1.1\r\nHost: x\r\n\r\nGET /version"),
        ("BODY_S", b"POST /login/ HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\n{"),
        (
            "BODY_S",
            (
                b"GET /version/ HTTP/1.1\r\nHost: x\r\n\r\nPOST /login/ HTTP/1.1\r\nHost:"
                b" x\r\nContent-Length: 90\r\n\r\n"
            ),
        ),
    ],
)
def test_nobody_is_waited_for_without_an_end(
    app: FastAPI, sockets: ExitStack, monkeypatch: pytest.MonkeyPatch, limit: str, begun: bytes
) -> None:
    monkeypatch.setattr(connections, limit, 0.2)
    with listening(app) as url:
        client = connected(sockets, url, begun)
        wait_for(lambda: is_closed(client), "the end of a connection without a request")


def test_a_client_that_does_not_read_is_left(
    app: FastAPI, sockets: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[Connection] = []
    give_up = Connection.give_up
    monkeypatch.setattr(connections, "STALL_S", 0.2)

    def leave(connection: Connection) -> None:
        left.append(connection)
        give_up(connection)

    monkeypatch.setattr(Connection, "give_up", leave)
    app.add_api_route("/endless", lambda: StreamingResponse(bytes(1_000_000) for _ in count()))
    cookie = app.state.services.sessions.begin()
    with listening(app) as url:
        connected(
            sockets,
            url,
            f"GET /endless HTTP/1.1\r\nHost: x\r\nCookie: sessionid={cookie}\r\n\r\n".encode(),
        )
        wait_for(lambda: left, "the end of an answer that nobody reads")


def test_a_run_goes_on_whatever_clients_do(tmp_path: Path, sockets: ExitStack) -> None:
    gate = threading.Event()
    app = application(tmp_path, lambda: FakeEngine(gate=gate), workers=1)
    with listening(app, FEW) as url:
        session = requests.Session()
        session.headers["Connection"] = (
            "close"  # one that is kept open and idle has to make room, too
        )
        session.get(entrance(app, url), timeout=HANG_S).raise_for_status()
        path = f"{url}project/satvpn/scenario/geo/scenario_instance/"
        number = session.post(path, json={"arguments": ARGUMENTS}, timeout=HANG_S).json()[
            "scenario_instance_id"
        ]
        for _ in range(20 * FEW):
            connected(sockets, url, b"GET / HTTP/1.1\r\n")
        gate.set()

        def is_finished() -> bool:
            shown = session.get(f"{url}scenario_instance/{number}/?quiet", timeout=HANG_S).json()
            return bool(shown["status"] == "Finished Ok")

        wait_for(is_finished, "the end of the run")


def test_the_limit_of_open_files_leaves_room_for_the_guests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = [(256, 256), (64, 64), (64, 4096), (1024, 1024)]
    found: list[int | str] = []
    for limit in limits:
        monkeypatch.setattr(resource, "getrlimit", lambda which, limit=limit: limit)
        monkeypatch.setattr(resource, "setrlimit", lambda which, limit: None)
        try:
            found.append(connections_for(2))
        except InputError as error:
            found.append(str(error).partition(":")[0])
    assert found == [
        96,
        "this process may open 64 files; 2 guests and the server need 176",
        200,
        200,
    ]


def test_the_log_has_one_line_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    lines: list[str] = []
    logger = logging.Logger("test")
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    handler.addFilter(FewLines())
    logger.addHandler(handler)
    for _ in range(5000):
        logger.error("cannot accept %d", 7)
        now_s[0] += 0.001
    assert lines[:2] == ["cannot accept 7", "cannot accept 7 (and 999 times more before)"]
    assert len(lines) == 5


# Passwords


def test_tries_are_slowed_down_by_address() -> None:
    now_s = [1000.0]
    tries = Tries(lambda: now_s[0])
    assert [tries.wait_s("10.0.0.1") for _ in range(FREE_TRIES)] == FREE_TRIES * [0.0]
    waits = [tries.wait_s("10.0.0.1") for _ in range(int(LONGEST_WAIT_S / TRY_EVERY_S))]
    assert waits == [TRY_EVERY_S * (number + 1) for number in range(len(waits))]
    with pytest.raises(TooMany):
        tries.wait_s("10.0.0.1")
    assert tries.wait_s("10.0.0.2") == 0.0, "other clients do not wait"
    now_s[0] += 2 * LONGEST_WAIT_S
    assert tries.wait_s("10.0.0.1") == 0.0


def test_an_ipv6_client_is_its_network() -> None:
    assert (
        network_of("2001:db8::1") == network_of("2001:db8::ffff") != network_of("2001:db8:0:1::1")
    )
    assert network_of("10.0.0.1") != network_of("10.0.0.2")


def test_a_thousand_wrong_passwords(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of them are looked at; who has a session or the token is not kept waiting."""
    looked_at: list[str] = []
    sessions, now_s = app.state.services.sessions, [1000.0]
    is_password = sessions.is_password

    def look(text: str) -> bool:
        looked_at.append(text)
        return bool(is_password(text))

    monkeypatch.setattr(sessions, "is_password", look)
    monkeypatch.setattr(app.state.services.tries, "_clock", lambda: now_s[0])
    answers = []
    with visiting(app, logged_in=False) as client:
        for number in range(200):
            if (
                number >= FREE_TRIES
            ):  # every try would now wait for its turn: what comes at once is refused
                app.state.services.tries._next_s["testclient"] = now_s[0] + LONGEST_WAIT_S
            body = {"login": "openbach", "password": f"wrong password {number}"}
            answers.append(client.post("/login/", json=body).status_code)
        refused = client.post("/login/", json={"login": "openbach", "password": PASSWORD})
        assert answers == FREE_TRIES * [401] + (200 - FREE_TRIES) * [429]
        assert len(looked_at) == FREE_TRIES
        assert refused.status_code == 429
        assert "Too many wrong passwords" in refused.json()["msg"]
        assert (
            client.post(
                "/login/", json={"login": "openbach", "password": sessions.token}
            ).status_code
            == 200
        )
        assert client.get("/project/").status_code == 200


def test_a_body_of_somebody_without_a_session_is_small(app: FastAPI) -> None:
    with visiting(app, logged_in=False) as client:
        body = b'{"login": "' + LOGIN_LIMIT_BYTES * b"x" + b'"}'
        assert client.post("/login/", content=body).status_code == 413
        assert client.post("/login/", content=iter([body[:1000], body[1000:]])).status_code == 413


def test_bodies_have_a_limit_together(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODIES_LIMIT_BYTES", 1000)
    with visiting(app) as client:
        assert (
            client.post("/project/", content=b'{"name": "' + 2000 * b"x" + b'"}').status_code == 413
        )
        assert client.post("/project/", json={"name": "p"}).status_code == 200, (
            "what has been read is no longer counted"
        )
