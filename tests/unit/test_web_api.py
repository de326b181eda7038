# SPDX-License-Identifier: GPL-3.0-or-later
"""The local controller's REST API.

Shapes of all answers that the web UI and the auditorium scripts use, and refusals.
"""

from __future__ import annotations

import csv
import gzip
import html
import io
import json
import subprocess
import tarfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from fastapi.testclient import TestClient
from helpers import rest_shapes as shapes
from helpers.fake_engine import FakeEngine
from helpers.rest_shapes import differences
from helpers.waiting import HANG_S, wait_for
from helpers.web import (
    ARGUMENTS,
    ROOT,
    application,
    ended,
    enter,
    entrance,
    listening,
    start,
    visiting,
)

from openbach_run.openbach.expand import expand
from openbach_run.web import instances, reports, result_sets
from openbach_run.web.shared_work import Once

CONFORMANCE = json.loads((ROOT / "tests/data/conformance.json").read_text())


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    app = application(tmp_path)
    app.state.directory = tmp_path
    with visiting(app) as visitor:
        yield visitor


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A controller on which instances 1 (geo) and 2 (of a parent scenario) have ended."""
    with visiting(application(tmp_path_factory.mktemp("web"))) as visitor:
        ended(visitor, start(visitor))
        body = {
            "name": "both",
            "arguments": {"loss": ""},
            "openbach_functions": [
                {
                    "id": 0,
                    "start_scenario_instance": {
                        "scenario_name": "geo",
                        "arguments": {**ARGUMENTS, "loss": "$loss"},
                    },
                }
            ],
        }
        assert visitor.post("/project/satvpn/scenario/", json=body).status_code == 200
        sent = {"arguments": {"loss": 1}}
        answer = visitor.post(
            "/openbach/project/satvpn/scenario/both/scenario_instance/", json=sent
        )
        ended(visitor, answer.json()["scenario_instance_id"])
        yield visitor


@pytest.mark.parametrize("prefix", ["", "/openbach"])
@pytest.mark.parametrize(
    ("path", "shape"),
    {
        "/login/": shapes.PROFILE,
        "/version/": {"openbach_version": str},
        "/agent/": [shapes.AGENT],
        "/agent/?services": [
            {**shapes.AGENT, "services": shapes.Map(str), "errors": (list, shapes.NONE)}
        ],
        "/agent/172.20.34.11/": shapes.AGENT,
        "/agent/172.20.34.11/state/": shapes.Map((dict, shapes.NONE)),
        "/collector/": [
            {
                "address": str,
                **dict.fromkeys(
                    (
                        "logs_port",
                        "logs_query_port",
                        "stats_port",
                        "stats_query_port",
                        "logstash_broadcast_port",
                    ),
                    int,
                ),
                **dict.fromkeys(
                    (
                        "logs_database_name",
                        "stats_mode",
                        "stats_database_name",
                        "stats_database_precision",
                        "logstash_broadcast_mode",
                    ),
                    str,
                ),
            }
        ],
        "/job/": [shapes.JOB],
        "/job/?string_to_search=vpn": [shapes.JOB],
        "/job/?external=true": list,
        "/job/?address=172.20.34.11": shapes.INSTALLED,
        "/job/vpn/": shapes.JOB,
        "/job/vpn/?type=help": {"job_name": str, "help": str},
        "/job/vpn/?type=keywords": {"job_name": str, "keywords": [str]},
        "/job/vpn/?type=statistics": {"job_name": str, "statistics": [shapes.STATISTIC]},
        "/job/vpn/?type=agents": {
            "job_name": str,
            "installed_on": [{"agent__name": str, "agent__address": str}],
        },
        "/job/vpn/state/?address=172.20.34.11": shapes.Map((dict, shapes.NONE)),
        "/project/": [shapes.PROJECT],
        "/project/satvpn/": shapes.PROJECT,
        "/project/satvpn/entity/": [shapes.ENTITY],
        "/project/satvpn/entity/satvpn_pc/": shapes.ENTITY,
        "/project/satvpn/scenario/": [shapes.SCENARIO],
        "/project/satvpn/scenario/geo/": shapes.SCENARIO,
        "/project/satvpn/scenario_instance/": [shapes.INSTANCE],
        "/project/satvpn/scenario_instance/?quiet&offset=0&limit=15": [shapes.QUIET],
        "/project/satvpn/scenario/geo/scenario_instance/?quiet": [shapes.QUIET],
        "/scenario_instance/1/": shapes.INSTANCE,
        "/scenario_instance/1/?quiet": shapes.QUIET,
        "/scenario_instance/1/?files_count": shapes.Map(shapes.Map(int)),
        "/scenario_instance/2/": shapes.INSTANCE,
        "/scenario_instance/3/": shapes.INSTANCE,
        "/job_instance/1/": shapes.JOB_INSTANCE,
        "/job_instance/1/state/": dict.fromkeys(
            ("start", "stop", "restart"), (shapes.STATE, shapes.NONE)
        ),
        "/statistics/satvpn/": shapes.Map([str]),
        "/statistic/1/": {"statistics": [str], "suffixes": [str]},
        "/logs/?level=4&delay=5000": [shapes.LOG],
        "/login/users/": [
            {name: shape for name, shape in shapes.PROFILE.items() if name != "favorites"}
        ],
    }.items(),
)
def test_shapes(finished: TestClient, prefix: str, path: str, shape: Any) -> None:
    answer = finished.get(prefix + path)
    assert answer.status_code == 200, answer.text
    assert differences(answer.json(), shape) == []


def test_the_shapes_are_not_empty(finished: TestClient) -> None:
    """Lists that are checked entry by entry have entries."""
    for path in (
        "/agent/",
        "/job/",
        "/project/",
        "/project/satvpn/scenario_instance/",
        "/job/?string_to_search=vpn",
    ):
        assert finished.get(path).json(), path
    assert finished.get("/project/satvpn/").json()["entity"][0]["networks"]


def test_instance_after_a_run(finished: TestClient) -> None:
    shown = finished.get("/scenario_instance/1/").json()
    assert shown["status"] == "Finished Ok"
    functions = {one["label"]: one for one in shown["openbach_functions"]}
    assert functions["download"]["job"]["status"] == "Not Running"
    assert functions["download"]["job"]["arguments"]["client"]["size"] == ["1M"]
    assert functions["download"]["job"]["agent"] == "172.20.34.11"
    assert functions["VPN server"]["job"]["status"] == "Stopped"
    assert {one["status"] for one in shown["openbach_functions"]} == {"Finished"}
    dates = [one["launch_date"] for one in shown["openbach_functions"]]
    assert dates == sorted(dates)


def test_a_sub_scenario_has_ids_of_its_own(finished: TestClient) -> None:
    parent = finished.get("/scenario_instance/2/").json()
    assert parent["sub_scenario_instance_ids"] == [3]
    child = finished.get("/scenario_instance/3/").json()
    assert child["owner_scenario_instance_id"] == 2
    assert child["scenario_name"] == "geo"
    assert parent["openbach_functions"][0]["scenario"] == child
    jobs = [one["job"]["id"] for one in child["openbach_functions"] if "job" in one]
    first = [
        one["job"]["id"]
        for one in finished.get("/scenario_instance/1/").json()["openbach_functions"]
        if "job" in one
    ]
    assert not set(jobs) & set(first)


def test_statistics(finished: TestClient) -> None:
    functions = finished.get("/scenario_instance/2/").json()["openbach_functions"][0]["scenario"][
        "openbach_functions"
    ]
    (transfer,) = [one["job"]["id"] for one in functions if one["label"] == "download"]
    path = f"/statistic/{transfer}/"
    names = finished.get(path).json()["statistics"]
    assert names == ["bytes", "goodput_bps", "rtt_ms", "transfer_time_s"]
    origin = finished.get(path + "?origin").json()
    series = finished.get(path + f"?name=rtt_ms&origin={origin}").json()
    assert series["rtt_ms"] == list(range(510, 530))
    assert series["time"] == [1000 * second for second in range(20)]
    assert finished.get(path + "?name=transfer_time_s&comparative").json() == {
        "mean": 20.0,
        "variance": 0.0,
    }
    counts = finished.get(path + "?name=rtt_ms&histogram=4").json()["counts"]
    assert counts == [5, 5, 5, 5]
    assert finished.get(path + "?name=nothing").json() == []


def test_csv_and_archive(finished: TestClient) -> None:
    answer = finished.get("/scenario_instance/2/csv/")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(rows[0]) == sorted(rows[0])
    (last,) = [row for row in rows if row["transfer_time_s"]]
    assert (
        last["@job_name"],
        last["@scenario_instance_id"],
        last["@owner_scenario_instance_id"],
    ) == ("file_transfer", "3", "2")
    assert last["transfer_time_s"] == "20.0"
    assert finished.get("/scenario_instance/2/archive/").content[:2] == b"\x1f\x8b"


def test_the_same_run_is_not_repeated(tmp_path: Path) -> None:
    engines: list[FakeEngine] = []

    def engine() -> FakeEngine:
        engines.append(FakeEngine())
        return engines[-1]

    with visiting(application(tmp_path, engine)) as client:
        first, second = (ended(client, start(client)) for _ in range(2))
        assert sum(one.runs for one in engines) == 1
        assert second["status"] == first["status"] == "Finished Ok"
        assert [one["label"] for one in first["openbach_functions"]] == [
            one["label"] for one in second["openbach_functions"]
        ]
        ids = [
            {one["job"]["id"] for one in shown["openbach_functions"] if "job" in one}
            for shown in (first, second)
        ]
        assert not ids[0] & ids[1]


def test_a_failed_run_gives_its_reason_in_the_logs(client: TestClient) -> None:
    shown = ended(client, start(client, loss="13"))
    assert shown["status"] == "Finished Ko"
    ((_, _, severity, source, message),) = client.get("/logs/?level=4&delay=60000").json()
    assert (severity, source) == ("err", "geo")
    assert "file_transfer" in message


# A run that goes on


def test_stop_and_remove(tmp_path: Path) -> None:
    with visiting(
        application(tmp_path, lambda: FakeEngine(gate=threading.Event()), workers=1)
    ) as client:
        running, waiting = start(client), start(client, loss="1")

        def state(number: int) -> str:
            return str(client.get(f"/scenario_instance/{number}/?quiet").json()["status"])

        wait_for(lambda: state(running) == "Running", "the start of the run")
        assert state(waiting) == "Scheduling"
        shown = client.get(f"/scenario_instance/{running}/").json()
        assert differences(shown, shapes.INSTANCE) == []
        assert shown["stop_date"] is None
        assert client.get(f"/scenario_instance/{running}/csv/").status_code == 404
        assert client.delete(f"/scenario_instance/{running}/").status_code == 409
        assert client.post(f"/scenario_instance/{waiting}/", json={}).status_code == 204
        assert ended(client, waiting)["status"] == "Stopped"
        assert client.post(f"/scenario_instance/{running}/", json={}).status_code == 204
        shown = ended(client, running)
        assert shown["status"] == "Stopped"
        jobs = [one["job"]["status"] for one in shown["openbach_functions"] if "job" in one]
        assert "Running" not in jobs
        again = start(client)
        wait_for(lambda: state(again) == "Running", "the same run, started again")
        assert client.get(f"/scenario_instance/{running}/").json() == shown
        assert client.delete(f"/scenario_instance/{running}/").status_code == 204
        assert client.get(f"/scenario_instance/{running}/").status_code == 404


def test_after_a_restart_nothing_runs(tmp_path: Path) -> None:
    with visiting(
        application(tmp_path, lambda: FakeEngine(gate=threading.Event()), workers=1)
    ) as client:
        numbers = [start(client), start(client, loss="1")]
        wait_for(
            lambda: (
                client.get(f"/scenario_instance/{numbers[0]}/?quiet").json()["status"] == "Running"
            ),
            "the first run",
        )
    with visiting(application(tmp_path)) as client:
        assert [ended(client, number)["status"] for number in numbers] == ["Stopped", "Stopped"]
        assert ended(client, start(client))["status"] == "Finished Ok"
        listed = client.get("/project/satvpn/scenario_instance/?quiet").json()
        assert [one["scenario_instance_id"] for one in listed] == [3, 2, 1]


def test_after_a_crash_nothing_runs(tmp_path: Path) -> None:
    """As if the process had been killed: no shutdown, the database as it was."""
    gate = threading.Event()
    app = application(tmp_path, lambda: FakeEngine(gate=gate), workers=1)
    client = TestClient(app, base_url="http://127.0.0.1:8000")  # no lifespan: nothing is shut down
    enter(app, client)
    number = start(client)
    wait_for(
        lambda: client.get(f"/scenario_instance/{number}/?quiet").json()["status"] == "Running",
        "the run",
    )
    with visiting(application(tmp_path)) as again:
        assert ended(again, number)["status"] == "Stopped"
        message = again.get("/logs/").json()[0][4]
        assert "ended while this ran" in message
    gate.set()


# Scenarios and projects


@pytest.mark.parametrize("name", CONFORMANCE)
def test_malformed_scenarios_as_the_backend(client: TestClient, name: str) -> None:
    """Every case sent to the real backend.

    The same status, but for its crashes; what is refused leaves nothing.
    """
    sent = CONFORMANCE[name]["sent"]
    before = client.get("/project/satvpn/").json()
    answer = client.post("/project/satvpn/scenario/", json=sent)
    assert answer.status_code < 500
    if answer.status_code != 200:
        assert client.get("/project/satvpn/").json() == before
        assert answer.json()["error"]


def test_scenario_comes_back_as_stored(client: TestClient) -> None:
    sent = expand(ROOT / "scenarios/geo.yml") | {"name": "mine"}
    stored = client.post("/project/satvpn/scenario/", json=sent).json()
    assert "x-sweep" not in stored
    assert client.get("/project/satvpn/scenario/mine/").json() == stored
    assert client.post("/project/satvpn/scenario/", json=sent).status_code == 409
    assert (
        client.put("/project/satvpn/scenario/mine/", json={**sent, "description": "new"}).json()[
            "description"
        ]
        == "new"
    )
    assert (
        client.put("/project/satvpn/scenario/mine/", json={**sent, "name": "other"}).status_code
        == 400
    )
    assert (
        client.put("/project/satvpn/scenario/none/", json={**sent, "name": "none"}).status_code
        == 404
    )
    assert client.delete("/project/satvpn/scenario/mine/").status_code == 204
    assert client.get("/project/satvpn/scenario/mine/").status_code == 404


def test_an_instance_keeps_the_version_that_it_ran(client: TestClient) -> None:
    number = start(client)
    before = ended(client, number)
    bare = {"name": "geo", "openbach_functions": []}
    assert client.put("/project/satvpn/scenario/geo/", json=bare).status_code == 200
    assert client.get(f"/scenario_instance/{number}/").json() == before
    assert client.delete("/project/satvpn/scenario/geo/").status_code == 204
    assert client.get(f"/scenario_instance/{number}/").json() == before


def test_favourites(client: TestClient) -> None:
    sent = {"action": "favorite", "favorite": True}
    profile = client.post("/project/satvpn/scenario/geo/", json=sent).json()
    assert profile["favorites"] == {"satvpn": ["geo"]}


def test_project_comes_and_goes(client: TestClient) -> None:
    exported = client.get("/project/satvpn/").json() | {"name": "mine"}
    made = client.post("/project/", json=exported).json()
    assert differences(made, shapes.PROJECT) == []
    assert {entity["agent"] for entity in made["entity"]} == {None}, "agents are attached by hand"
    assert made["scenario"] == exported["scenario"]
    refused = client.post(
        "/project/mine/scenario/geo/scenario_instance/", json={"arguments": ARGUMENTS}
    )
    assert refused.status_code == 422
    assert "missing an attached agent" in refused.json()["error"]
    for entity in exported["entity"]:
        answer = client.put(f"/project/mine/entity/{entity['name']}/", json=entity)
        assert answer.status_code == 200, answer.text
    answer = client.post(
        "/project/mine/scenario/geo/scenario_instance/", json={"arguments": ARGUMENTS}
    )
    assert ended(client, answer.json()["scenario_instance_id"])["project_name"] == "mine"
    assert client.delete("/project/mine/").status_code == 204
    assert client.get("/project/mine/").status_code == 404


def test_entities_with_names_of_their_own(client: TestClient) -> None:
    """An entity stands for the host that its agent is on."""
    assert (
        client.post(
            "/project/", json={"name": "mine", "entity": [{"name": "laptop", "networks": []}]}
        ).status_code
        == 200
    )
    entity = {"name": "laptop", "agent": {"address": "172.20.34.11"}}
    project = client.put("/project/mine/entity/laptop/", json=entity).json()
    assert project["entity"][0]["networks"][0]["interface"] == "to_box"
    function = {
        "id": 0,
        "start_job_instance": {
            "entity_name": "laptop",
            "path_ready": {"destination_ip": "10.0.0.1"},
        },
    }
    assert (
        client.post(
            "/project/mine/scenario/", json={"name": "s", "openbach_functions": [function]}
        ).status_code
        == 200
    )
    number = client.post("/project/mine/scenario/s/scenario_instance/", json={}).json()[
        "scenario_instance_id"
    ]
    (shown,) = ended(client, number)["openbach_functions"]
    assert (shown["job"]["entity"], shown["job"]["agent_name"]) == ("laptop", "satvpn_pc")
    assert client.delete("/project/mine/entity/laptop/").json()["entity"] == []


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "must provide a name"),
        ({"name": "1"}, 400, "digits only"),
        ({"name": "a/b"}, 400, "forbidden"),
        ({"name": "satvpn"}, 409, "existing"),
        ({"name": "p", "entity": 3}, 400, "malformed"),
        ({"name": "p", "entity": [{"name": "e"}]}, 400, "malformed"),
        ({"name": "p", "scenario": [{"name": "s"}]}, 400, "malformed"),
    ],
)
def test_refused_projects(client: TestClient, body: Any, status: int, words: str) -> None:
    answer = client.post("/project/", json=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert [project["name"] for project in client.get("/project/").json()] == ["satvpn"]


def test_a_malformed_scenario_refuses_the_whole_project(client: TestClient) -> None:
    bad = {"name": "p", "scenario": [{"name": "fine", "openbach_functions": []}, {"name": "bad"}]}
    answer = client.post("/project/", json=bad)
    message = answer.json()["error_message"]
    assert message["section"] == "scenario.bad"
    assert message["message"]["offending_entry"] == "openbach_functions"
    assert client.get("/project/p/").status_code == 404


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ({**ARGUMENTS, "new": "1"}, 400, "not defined for this Scenario"),
        ({"vpn": "none"}, 400, "wrong type of values"),
        ({**ARGUMENTS, "loss": "much"}, 422, "loss is preset, or from 0 to 100 %"),
        ({**ARGUMENTS, "loss": None}, 400, "texts by name"),
        ("x", 400, "texts by name"),
    ],
)
def test_refused_starts(client: TestClient, arguments: Any, status: int, words: str) -> None:
    answer = client.post(
        "/project/satvpn/scenario/geo/scenario_instance/", json={"arguments": arguments}
    )
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert "Running" not in str(client.get("/project/satvpn/scenario_instance/?quiet").json())


def test_a_start_with_wrong_arguments_leaves_a_stopped_instance(client: TestClient) -> None:
    path = "/project/satvpn/scenario/geo/scenario_instance/"
    assert client.post(path, json={"arguments": {"vpn": "none"}}).status_code == 400
    (left,) = client.get("/project/satvpn/scenario_instance/").json()
    assert (left["scenario_name"], left["status"]) == ("geo", "Stopped")
    assert left["stop_date"]
    assert differences(left, shapes.INSTANCE) == []


@pytest.mark.parametrize("arguments", [{}, {"new": "1"}, {"loss": None}, "x"])
def test_hosts_are_checked_before_arguments(client: TestClient, arguments: Any) -> None:
    bare = client.get("/project/satvpn/").json() | {"name": "mine"}
    assert client.post("/project/", json=bare).status_code == 200
    answer = client.post(
        "/project/mine/scenario/geo/scenario_instance/", json={"arguments": arguments}
    )
    assert answer.status_code == 422
    assert client.get("/project/mine/scenario_instance/?quiet").json() == []


def test_owners_come_back(client: TestClient) -> None:
    sent = {"name": "mine", "owners": ["openbach"], "entity": []}
    assert client.post("/project/", json=sent).json()["owners"] == ["openbach"]
    assert client.get("/project/mine/").json()["owners"] == ["openbach"]


@pytest.mark.parametrize(
    ("method", "path", "answer"),
    [
        ("GET", "/agent/10.9.9.9/", {"agent_address": "10.9.9.9"}),
        ("GET", "/job_instance/?address=10.9.9.9", {"agent_address": "10.9.9.9"}),
        ("GET", "/collector/10.9.9.9/", {"collector_address": "10.9.9.9"}),
        (
            "POST",
            "/scenario_instance/99/",
            {
                "returncode": 404,
                "response": {
                    "error": "The requested Scenario Instance is not in the database",
                    "scenario_instance_id": 99,
                },
            },
        ),
    ],
)
def test_keys_of_what_is_not_there(
    client: TestClient, method: str, path: str, answer: dict[str, Any]
) -> None:
    answered = client.request(method, path)
    assert answered.status_code == 404
    assert answer.items() <= answered.json().items()


def test_jobs_that_run(tmp_path: Path) -> None:
    """By agent, as auditorium's list_job_instances.py and stop_all_job_instances.py ask."""
    gate = threading.Event()
    with visiting(application(tmp_path, lambda: FakeEngine(gate=gate), workers=1)) as client:
        number = start(client)
        path = "/job_instance/?address=172.20.34.11&address=172.20.34.17&update"

        def running() -> list[dict[str, Any]]:
            answer = client.get(path)
            assert answer.status_code == 202
            assert differences(answer.json(), shapes.RUNNING_JOBS) == []
            return [
                one
                for agent in answer.json()["instances"]
                for job in agent["installed_jobs"]
                for one in job["instances"]
            ]

        jobs = wait_for(running, "a job on one of the agents")
        assert {job["agent"] for job in jobs} <= {"172.20.34.11", "172.20.34.17"}
        stop = {"action": "stop", "job_instance_ids": [jobs[0]["id"]]}
        assert client.post("/job_instance/", json=stop).status_code == 422, "it belongs to a run"
        assert client.post("/job_instance/", json={"action": "kill"}).status_code == 202
        assert ended(client, number)["status"] == "Stopped"
        assert running() == []
        assert client.post("/job_instance/", json=stop).status_code == 202, (
            "a stop of what has ended"
        )
        assert (
            client.post(f"/job_instance/{jobs[0]['id']}/", json={"action": "stop"}).status_code
            == 202
        )
        assert (
            client.get(f"/job_instance/{jobs[0]['id']}/state/").json()["stop"]["returncode"] == 204
        )
        for sent, status in (
            ({}, 400),
            ({"action": "x"}, 400),
            ({"action": "start"}, 422),
            ({"action": "stop"}, 400),
        ):
            assert client.post("/job_instance/", json=sent).status_code == status, sent


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/project/none/", 404),
        ("GET", "/project/satvpn/scenario/none/", 404),
        ("GET", "/scenario_instance/99/", 404),
        ("GET", "/scenario_instance/99999999999999999999999/", 404),
        ("GET", "/scenario_instance/x/", 404),
        ("GET", "/job_instance/99/", 404),
        ("GET", "/job/none/", 404),
        ("GET", "/job/vpn/?type=what", 400),
        ("GET", "/agent/10.9.9.9/", 404),
        ("GET", "/nothing/", 404),
        ("GET", "/version", 404),
        ("POST", "/agent/", 422),
        ("POST", "/reboot/", 422),
        ("DELETE", "/job/vpn/", 422),
        ("PATCH", "/project/", 405),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/project/..%2f..%2fetc/", 404),
    ],
)
def test_refusals_are_json_with_words(
    client: TestClient, method: str, path: str, status: int
) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b"3",
        b'{"name": NaN}',
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
        b"\xff",
        b"[" * 9999,
    ],
)
def test_bodies_that_are_no_objects(client: TestClient, text: bytes) -> None:
    answer = client.post("/project/", content=text)
    assert answer.status_code == 400
    assert "API error" in answer.json()["error"]


# OpenBACH's own web UI


def test_the_web_ui_is_served_and_nothing_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "ui"
    (folder / "static").mkdir(parents=True)
    (folder / "index.html").write_text("<title>OpenBach</title><body class='x'></body>")
    (folder / "static/main.js").write_text("1")
    (tmp_path / "secret").write_text("a password")
    with visiting(application(tmp_path / "results", web_ui=folder)) as client:
        for path in ("/app", "/app/project/satvpn/scenario/geo"):
            assert "<body class='x'><a href=\"/page/results\"" in client.get(path).text
        for page in ("/", "/page/scenario/satvpn/geo"):
            assert 'href="/app' in client.get(page).text
        assert client.get("/static/main.js").text == "1"
        for path in (
            "/../secret",
            "/static/../../secret",
            "/%2e%2e/secret",
            "/app/../../secret",
            "/static/..%2f..%2fsecret",
        ):
            assert "a password" not in client.get(path).text
        assert client.get("/openbach/version/").status_code == 200
        assert "Scenarios" in client.get("/").text


# Login


def test_login_and_logout(tmp_path: Path) -> None:
    app = application(tmp_path)
    right = {"login": "openbach", "password": app.state.services.sessions.token}
    with visiting(app, logged_in=False) as client:
        log_in_and_out(client, right)


def log_in_and_out(client: TestClient, right: dict[str, str]) -> None:
    assert client.get("/login/").json()["username"] is None
    profile = client.post("/login/", json=right)
    assert profile.json()["username"] == "openbach"
    assert "HttpOnly" in profile.headers["set-cookie"]
    assert client.post("/login/", json=right).status_code == 409
    assert client.get("/openbach/login/").json()["is_admin"]
    assert client.delete("/login/").status_code == 204
    assert client.get("/login/").json()["username"] is None
    assert client.post("/login/", json={"login": "me"}).status_code == 400


# What a guest has written, what is removed meanwhile, names


HOSTILE = [
    "null",
    "3",
    "[]",
    "{}",
    '{"_metadata": 3}',
    '{"_metadata": {"time": NaN}}',
    "x",
    '{"_metadata": {"time": 1e999}}',
    (
        '{"_metadata": {"time": 99999999999999999999, "is_file": false, "job_instance_id": 1,'
        ' "scenario_instance_id": 1}}'
    ),
]
METADATA = {
    "time": 1_700_000_000_000, "is_file": False, "job_name": "\ud800", "agent_name": None,
    "job_instance_id": 1, "scenario_instance_id": 1,
}  # fmt: skip
VALUES = ["NaN", "Infinity", "-Infinity", "1" + 400 * "0", "1e999", '"text"', "null", "[1]"]


def paths_of(number: int) -> list[str]:
    about, statistic = f"/scenario_instance/{number}/", "/statistic/1/"
    of_value = f"{statistic}?name=value"
    return [
        about,
        f"{about}csv/",
        f"{about}archive/",
        f"{about}?files_count",
        f"/page/instance/{number}",
        "/job_instance/1/",
        statistic,
        f"{statistic}?origin",
        of_value,
        f"{of_value}&comparative",
        f"{of_value}&histogram=3",
        "/project/satvpn/scenario_instance/",
    ]


def no_number(text: str) -> None:
    pytest.fail(f"{text} is no JSON")


def unpacked(client: TestClient, name: str) -> Path:
    """A file of the one finished run, as its guest left it."""
    (packed,) = Path(client.app.state.directory).glob(f"geo/runs/*/{name}.gz")  # type: ignore[attr-defined]
    file = packed.with_suffix("")
    file.write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    return file


def test_an_export_has_the_files_that_jobs_have_stored(client: TestClient) -> None:
    """Those of the statistics that the web UI asks for; none from elsewhere in the record."""
    number = start(client)
    ended(client, number)
    file = unpacked(client, "statistics.jsonl")
    stored = file.parent / "files/transfer_table/1/1000"
    stored.mkdir(parents=True)
    (stored / "table.csv").write_text("vpn,runs\n")
    here = "/run/openbach/files/transfer_table/1/1000"
    places = {"table_csv": f"{here}/table.csv", "other": f"{here}/table.csv", "gone": f"{here}/x"}
    places |= {"out": "/run/openbach/files/../record.json", "far": "/etc/passwd", "no": "x/files/"}
    metadata = {**METADATA, "is_file": True, "job_name": "a/b"}
    sent = json.dumps({**places, "number": 1, "_metadata": metadata})
    file.write_text(file.read_text() + sent + "\n")
    counted = client.get(f"/scenario_instance/{number}/?files_count").json()
    assert counted == {"a/b": dict.fromkeys([*places, "number"], 1)}
    asked = "&".join(f"a%2Fb={name}" for name in [*places, "number"] if name != "other")
    # As the web UI asks.
    answer = client.get(f"/openbach/scenario_instance/{number}/archive?{asked}")
    assert answer.status_code == 200, answer.text
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        kept = f"a_b_({METADATA['job_instance_id']}).table_csv/table.csv"
        assert archive.getnames() == [f"scenario_instance_{number}.csv", kept]
        member = archive.extractfile(kept)
        assert member is not None and member.read() == b"vpn,runs\n"


@pytest.mark.parametrize("line", [*HOSTILE, *VALUES])
def test_statistics_of_a_guest_may_be_anything(client: TestClient, line: str) -> None:
    number = start(client)
    ended(client, number)
    file = unpacked(client, "statistics.jsonl")
    metadata = json.dumps(METADATA)
    lines = (
        [line]
        if line in HOSTILE
        else [f'{{"value": {one}, "_metadata": {metadata}}}' for one in ("1", line, "2", "3")]
    )
    file.write_text(file.read_text() + "".join(one + "\n" for one in lines))
    for path in paths_of(number):
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.text)
        if "json" in answer.headers["content-type"]:
            json.loads(answer.content, parse_constant=no_number)


@pytest.mark.parametrize(
    "line",
    [
        "null",
        "x",
        "{}",
        '{"event": "job_started", "t_s": NaN}',
        '{"event": "job_ended", "t_s": 1, "instance_id": []}',
        (
            '{"event": "scenario_started", "t_s": 1e308, "scenario": "none",'
            ' "scenario_instance_id": 1}'
        ),
        '{"event": "function_started", "t_s": 1, "scenario_instance_id": 1, "function": 99}',
    ],
)
def test_events_of_a_guest_may_be_anything(client: TestClient, line: str) -> None:
    number = start(client)
    ended(client, number)
    file = unpacked(client, "events.jsonl")
    file.write_text(file.read_text() + line + "\n")
    for path in paths_of(number):
        assert client.get(path).status_code in (200, 404) if "/1/" in path else (200,), path
    assert client.get(f"/scenario_instance/{number}/").json()["status"] == "Finished Ok"


def test_instances_are_removed_while_they_are_listed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = [start(client) for _ in range(4)]
    for number in numbers:
        ended(client, number)
    shown, removed = instances.shown_instance, iter(numbers)

    def slowly(services: Any, row: Any) -> Any:
        services.database.delete_instance(next(removed))
        return shown(services, row)

    monkeypatch.setattr(instances, "shown_instance", slowly)
    listed = client.get("/project/satvpn/scenario_instance/").json()
    assert [one["scenario_instance_id"] for one in listed] == [4, 3]


@pytest.mark.parametrize(
    "name", ["", "/", "a/b", ".", "..", "../geo", "a\0b", "a\\b", "a\u202egpj.exe", "a\nb"]
)
def test_scenarios_with_names_that_have_no_address_are_refused(
    client: TestClient, name: str
) -> None:
    scenario = {"name": name, "openbach_functions": []}
    before = client.get("/project/").json()
    assert client.post("/project/satvpn/scenario/", json=scenario).status_code == 400
    assert client.post("/project/", json={"name": "p", "scenario": [scenario]}).status_code == 400
    if name not in (".", ".."):
        assert client.post("/project/", json={"name": name}).status_code == 400
    files = {"file": ("mine.json", json.dumps(scenario).encode(), "application/json")}
    assert (
        client.post("/page/import", data={"token": form_token(client)}, files=files).status_code
        == 422
    )
    assert client.get("/project/").json() == before


@pytest.mark.parametrize(
    "name",
    [
        *("?", "#", "a b", "é", "&", "launch-1", "serve.sqlite", "serve.lock", "x" * 500),
        *("$HOME ${vpn}", "'\"`id`", "100 %s", "<b>"),
    ],
)
def test_scenarios_with_any_other_name_are_shown_and_run(client: TestClient, name: str) -> None:
    """`launch-1` was also the directory of a report, serve.sqlite is the database."""
    scenario = {"name": name, "openbach_functions": []}
    files = {"file": ("mine.json", json.dumps(scenario).encode(), "application/json")}
    assert (
        client.post("/page/import", data={"token": form_token(client)}, files=files).status_code
        == 200
    )
    path = f"/project/satvpn/scenario/{quote(name, safe='')}/scenario_instance/"
    number = client.post(path, json={}).json()["scenario_instance_id"]
    assert ended(client, number)["status"] == "Finished Ok"
    for page in ("/", f"/page/scenario/satvpn/{quote(name, safe='')}"):
        shown = client.get(page)
        assert (
            shown.status_code == 200
            and name in html.unescape(shown.text)
            and "<b>" not in shown.text
        )


# The page's form


def form_token(client: TestClient) -> str:
    return client.get("/").text.partition('name="token" value="')[2].partition('"')[0]


def launch(client: TestClient, **fields: Any) -> Any:
    form: dict[str, Any] = {f"values.{name}": value for name, value in ARGUMENTS.items()}
    form = {**form, **fields, "token": form_token(client)}
    form = {name: value for name, value in form.items() if value is not None}
    return client.post("/page/scenario/satvpn/geo", data=form, follow_redirects=False)


def launched(client: TestClient) -> int:
    return len(client.get("/project/satvpn/scenario_instance/?quiet").json())


def test_what_a_launch_has_of_its_own_is_in_the_list_and_in_its_command(client: TestClient) -> None:
    """Values that are the scenario's own anyway are in neither."""
    launch(client, **{"values.rate": "20M", "values.loss": "preset"})
    shown = client.get("/page/results").text
    assert "vpn: none; cc: bbr; size: 1M; rate: 20M</td>" in shown
    services = client.app.state.services  # type: ignore[attr-defined]
    place = services.launcher.results / "geo"
    assert reports._command(services, result_sets.find_set(services, "launch/1")) == (
        f"./openbach-run geo vpn=none cc=bbr size=1M rate=20M --results {place}"
    )
    assert f"{place}</a>, with those of other launches" in client.get("/page/set/launch/1").text


def test_a_page_has_the_record_of_each_run_that_has_finished(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a look that does not know of it goes on: the page does not ask again."""
    services = client.app.state.services  # type: ignore[attr-defined]
    look, finished = services.index.look, "SELECT 1 FROM instance WHERE status = 'Finished Ok'"
    monkeypatch.setattr(services.index, "look", lambda limit_s=0, wait_s=0: wait_s and look())
    launch(client)
    wait_for(lambda: services.database.rows(finished), "the end of the run")
    assert ",Finished Ok," in client.get("/page/set/launch/1/results.csv").text
    assert 'class="pick"' in client.get("/page/set/launch/1?part=map").text


def test_the_form_says_what_preset_is_and_that_an_example_waits_for_launch(
    client: TestClient,
) -> None:
    shown = client.get("/page/scenario/satvpn/geo?start=yes&values.orbit=geo,starlink").text
    for words in ("10M (geo), 284M (starlink)", "that of rate (geo), 17M (starlink)"):
        assert f"<code>preset</code> is {words}</p>" in shown
    assert "Press <em>Launch</em> to begin" in shown and "&amp;start=yes" in client.get("/").text


def test_an_argument_without_a_ticked_value_launches_nothing(client: TestClient) -> None:
    nothing: dict[str, Any] = {"values.vpn": None, "values.loss": " , "}
    answer = launch(client, **nothing)
    assert answer.status_code == 422
    assert answer.text.count("choose at least one value") == 2
    assert (
        'value="none" checked'
        not in answer.text.partition("<legend>vpn")[2].partition("</fieldset>")[0]
    )
    assert launched(client) == 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"values.vpn": "wiregard"}, "vpn=wiregard: did you mean wireguard?"),
        (
            {"values.link_file": "nofile.csv"},
            "link_file=nofile.csv: a link file is uploaded on this page first",
        ),
        ({"values.cc_pep": "$nothing"}, "after $ comes an argument"),
        ({"values.vpn.cipher": "x"}, "vpn.cipher=x: there is no VPN that could have it (vpn=none)"),
        (
            {"values.vpn_values": "cypher=x"},
            "vpn.cypher=x: there is no VPN that could have it (vpn=none)",
        ),
    ],
)
def test_values_are_looked_at_before_anything_is_launched(
    client: TestClient, fields: Any, words: str
) -> None:
    answer = launch(client, **fields)
    assert answer.status_code == 422
    assert words in html.unescape(answer.text)
    assert client.get("/page/launch/1").status_code == 404
    arguments = {
        **ARGUMENTS,
        **{name.removeprefix("values."): value for name, value in fields.items()},
    }
    answer = client.post(
        "/project/satvpn/scenario/geo/scenario_instance/", json={"arguments": arguments}
    )
    if fields.keys() == {"values.vpn"}:
        assert answer.status_code == 422
        assert words in answer.json()["error"]
        assert launched(client) == 0
    else:  # a constant: OpenBACH takes no value for it, and keeps the start that it refused
        assert answer.status_code == 400
        assert "not defined for this Scenario" in answer.json()["error"]
        (kept,) = client.get("/project/satvpn/scenario_instance/").json()
        assert kept["status"] == "Stopped"


def test_millions_of_cells_are_counted_not_built(client: TestClient) -> None:
    """3.6 GB for these, once."""
    token = form_token(client)
    many = {
        "values.rate": ",".join(f"{n}k" for n in range(1500)),
        "values.size": ",".join(map(str, range(1500))),
    }
    tracemalloc.start()
    answer = launch(client, **many, token=token)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status_code == 422
    assert "2250000 runs; at most 2000 at once" in answer.text
    assert most_bytes < 40_000_000


def test_a_form_of_very_many_values_is_read(client: TestClient) -> None:
    """Once every value was compared with all before: minutes."""
    answer = launch(client, **{"values.size": ",".join(map(str, range(100_000)))})
    assert answer.status_code == 422
    assert "100000 runs; at most" in answer.text


def test_charts_are_sent_once(client: TestClient) -> None:
    for name, words in {"charts.js": "class Charts", "charts.css": ".legend"}.items():
        answer = client.get(f"/page/static/{name}")
        assert words in answer.text
        again = client.get(
            f"/page/static/{name}", headers={"if-none-match": answer.headers["etag"]}
        )
        assert (again.status_code, again.content) == (304, b"")


def test_seeds_that_nobody_gives_are_five_if_anything_is_random(client: TestClient) -> None:
    """As on the command line; once it was one. Every cell is begun before any is run again."""
    launch(client, **{"values.loss": "0,1"})
    instances = client.get("/project/satvpn/scenario_instance/").json()
    values = [
        {one["name"]: one["value"] for one in instance["arguments"]}["loss"]
        for instance in sorted(instances, key=lambda one: one["scenario_instance_id"])
    ]
    assert values == 5 * ["0", "1"]
    many = {"values.loss": "1", "values.size": ",".join(map(str, range(1, 501)))}
    assert "2500 runs; at most 2000 at once" in launch(client, **many).text
    form = {
        **{f"values.{name}": value for name, value in ARGUMENTS.items()},
        **many,
        "token": form_token(client),
    }
    assert (
        "500 cells, 500 runs"
        in client.post("/page/check/satvpn/geo", data={**form, "seeds": "1"}).json()["text"]
    )


def test_five_clicks_on_report_make_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    gate = threading.Event()

    def make(services: Any, item: str) -> None:
        made.append(item)
        assert gate.wait(HANG_S)
        place = reports.directory_of(services, item) / "report"
        place.mkdir(parents=True)
        (place / "report.html").write_text("the report")

    asked: list[str] = []
    do = Once.do

    async def asking(self: Once, name: str, work: Callable[[], None]) -> None:
        asked.append(name)
        await do(self, name, work)

    monkeypatch.setattr(reports, "make_report", make)
    monkeypatch.setattr(Once, "do", asking)
    app = application(tmp_path)
    with listening(app) as url:
        session = requests.Session()
        page = session.get(entrance(app, url), timeout=HANG_S).text
        token = page.partition('name="token" value="')[2].partition('"')[0]
        form = {f"values.{name}": value for name, value in ARGUMENTS.items()} | {"token": token}
        session.post(f"{url}page/scenario/satvpn/geo", data=form, timeout=HANG_S).raise_for_status()
        with ThreadPoolExecutor(5) as clients:
            post = partial(
                session.post,
                f"{url}page/set/launch/1/report",
                data={"token": token},
                timeout=HANG_S,
            )
            answers = [clients.submit(post) for _ in range(5)]
            wait_for(lambda: made, "the first click")
            wait_for(lambda: len(asked) == 5, "the other clicks")
            gate.set()
            assert [one.result().text for one in answers] == 5 * ["the report"]
    assert made == ["launch/1"]


def test_what_goes_wrong_in_a_report_names_no_files_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(command: Any, **more: Any) -> Any:
        return subprocess.CompletedProcess(
            command, 1, "", f"Traceback\nFileNotFoundError: {tmp_path}/secret"
        )

    monkeypatch.setattr(subprocess, "run", fail)
    with visiting(application(tmp_path)) as client:
        number = launch(client).headers["location"].rpartition("/")[2]
        wait_for(
            lambda: client.get(f"/page/set/launch/{number}/state").json()["done"],
            "the end of the run",
        )
        answer = client.post(
            f"/page/set/launch/{number}/report", data={"token": form_token(client)}
        )
    assert answer.status_code == 422
    assert str(tmp_path) not in answer.text
    assert str(tmp_path) in caplog.text
