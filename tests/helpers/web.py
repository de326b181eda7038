# SPDX-License-Identifier: GPL-3.0-or-later
"""A local controller for tests: the application with an engine that is made up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

from helpers.fake_engine import FakeEngine
from helpers.waiting import HANG_S, wait_for
from openbach_run.catalog import Catalog
from openbach_run.openbach.job_folders import load_packages
from openbach_run.topology.inventory import agent_addresses, load_inventory
from openbach_run.web.app import make_app
from openbach_run.web.connections import CONNECTIONS, config
from openbach_run.web.platform import Platform
from openbach_run.web.serve import listen, scenarios_of
from openbach_run.web.sessions import Sessions, cookie_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])
SCENARIOS = scenarios_of(Catalog(), PACKAGES)
PLATFORM = Platform(
    load_inventory(ROOT / "inventory.yml"), agent_addresses(ROOT / "inventory.yml"), PACKAGES
)
ARGUMENTS = {"vpn": "none", "cc": "bbr", "pep": "none", "loss": "0", "size": "1M"}
HOST = "127.0.0.1:8000"
COOKIE = cookie_of({"host": HOST})


def application(
    results: Path,
    engine: Callable[[], FakeEngine] = FakeEngine,
    *,
    password: str | None = None,
    workers: int = 2,
    web_ui: Path | None = None,
) -> FastAPI:
    sessions = Sessions(password)
    return make_app(
        PLATFORM,
        SCENARIOS,
        results,
        lambda jobs: engine(),
        [0] * workers,
        sessions,
        local=password is None,
        web_ui=web_ui,
    )


@contextmanager
def visiting(app: FastAPI, *, logged_in: bool = True) -> Iterator[TestClient]:
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=True) as client:
        if logged_in:
            enter(app, client)
        yield client


def enter(app: FastAPI, client: TestClient) -> None:
    client.cookies.set(COOKIE, app.state.services.sessions.begin())


def entrance(app: FastAPI, url: str = "/") -> str:
    """The address that logs in."""
    return f"{url}?token={app.state.services.sessions.token}"


@contextmanager
def listening(app: FastAPI, connections: int = CONNECTIONS) -> Iterator[str]:
    """The URL at which an application is served on this machine."""
    place = listen("127.0.0.1", 0)
    server = uvicorn.Server(config(app, connections))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
    thread.start()
    wait_for(lambda: server.started, "the server")
    try:
        yield f"http://127.0.0.1:{place.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(HANG_S)


def start(client: TestClient, scenario: str = "geo", **arguments: str) -> int:
    sent = {"arguments": {**ARGUMENTS, **arguments}}
    answer = client.post(f"/project/satvpn/scenario/{scenario}/scenario_instance/", json=sent)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["scenario_instance_id"])


def ended(client: TestClient, number: int) -> dict[str, Any]:
    """The instance, once it has a stop date."""

    def look() -> dict[str, Any] | None:
        answer: dict[str, Any] = client.get(f"/scenario_instance/{number}/").json()
        return answer if answer["stop_date"] else None

    shown: dict[str, Any] = wait_for(look, f"the end of instance {number}")
    return shown
