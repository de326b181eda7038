# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine `controller` against a controller that works or does not.

It lacks something, refuses, stalls or drops connections.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from helpers.fake_controller import HARM, FakeController, serving
from helpers.waiting import HANG_S, wait_for

from openbach_run.campaign.reading import plan
from openbach_run.commands import main
from openbach_run.engine.contract import Outcome
from openbach_run.engine.platform import engine as engine_module
from openbach_run.engine.platform import reasons, rest
from openbach_run.engine.platform.answers import as_collected
from openbach_run.engine.platform.engine import ControllerEngine
from openbach_run.engine.platform.rest import Access, Controller, base_url, read_access
from openbach_run.errors import InputError, SetupError
from openbach_run.openbach.job_folders import load_packages
from openbach_run.results.store import Store

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])
CAMPAIGN = plan(ROOT / "scenarios/geo.yml", ["vpn=none", "cc=bbr"], (1,), PACKAGES)
VALUES = {"vpn": "none", "pep": "none", "cc": "bbr", "loss": "0", "size": "1M"}
HOSTS = ("pc", "box", "st", "sat", "gw", "pop", "server")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeController]:
    monkeypatch.setattr(rest, "RETRY_S", 0.01)
    monkeypatch.setattr(rest, "LONGEST_RETRY_S", 0.02)
    monkeypatch.setattr(rest, "LOST_LIMIT_S", float(HANG_S))
    monkeypatch.setattr(rest, "LOG_IN_LIMIT_S", 0.1)
    monkeypatch.setattr(engine_module, "ARRIVAL_LIMIT_S", 0.05)
    monkeypatch.setattr(engine_module, "LEFTOVERS_LIMIT_S", 0.05)
    monkeypatch.setattr(engine_module, "SETTLED_S", 0.05)

    monkeypatch.setattr(reasons, "LOGS_LIMIT_S", 0.05)
    jobs = sorted(PACKAGES)
    entities: dict[str, str | None] = {
        f"satvpn_{host}": f"10.0.0.{index}" for index, host in enumerate(HOSTS)
    }
    with serving(FakeController(entities=entities, installed=[*jobs], jobs=jobs)) as started:
        yield started


@pytest.fixture
def soon_lost(fake: FakeController, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "LOST_LIMIT_S", 0.1)


def engine_of(fake: FakeController, timeout_s: float = HANG_S) -> ControllerEngine:
    controller = Controller(Access(fake.url, "admin", "secret"), timeout_s)
    return ControllerEngine(controller, "satvpn", [CAMPAIGN.scenario], poll_s=0.01)


def run(engine: ControllerEngine, run_dir: Path, limit_s: float = HANG_S) -> Outcome:
    spec = {"values": VALUES, "virtual_limit_s": limit_s}
    return engine.run(spec, run_dir, 0, lambda event: None)


def quiet(text: str, part: float) -> None:
    pass


# The whole command


def test_same_table_and_files_as_the_virtual_engine(
    fake: FakeController,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine_module, "POLL_S", 0.01)
    Path("controller").write_text(
        json.dumps({"controller": fake.url, "login": "admin", "password": "secret"})
    )
    arguments = [str(ROOT / "scenarios/geo.yml"), "vpn=none", "cc=bbr", "--engine", "controller"]
    assert main.main(arguments) == 0
    printed = capsys.readouterr()
    assert "1.50" in printed.out
    (record,) = Path("results/geo/runs").glob("*/record.json")
    kept = Store(Path("results/geo")).load(record.parent.name)
    assert kept is not None and kept.identity["openbach"] == "2.7.0"
    assert "file_transfer 1.0" in kept.identity["jobs"]
    assert kept.virtual_s == 90.5
    assert kept.measures["transfer_time_s"] == 1.5
    assert kept.command.endswith(f"--engine controller --controller {fake.url} --project satvpn")
    files = [
        file
        for file in Path("results/geo").rglob("*")
        if file.is_file() and file.suffix != ".parquet"
    ]
    written = b"".join(
        gzip.decompress(one.read_bytes()) if one.suffix == ".gz" else one.read_bytes()
        for one in files
    )
    assert b"instance.json" in written, "the packed files are looked into"
    assert "secret" not in written.decode() + printed.out + printed.err
    (sent,) = fake.started
    assert sent == {"vpn": "none", "cc": "bbr", "pep": "none", "size": "30M", "loss": "0"}


@pytest.mark.parametrize(
    ("options", "words"), [(["--pcap"], "tcpdump"), (["--workers", "2"], "one at a time")]
)
def test_options_of_the_virtual_engine_only(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["geo", "--engine", "controller", *options]) == 2
    assert words in capsys.readouterr().err


# Before the start


def test_uploads_only_what_differs(fake: FakeController) -> None:
    engine_of(fake).prepare(quiet)
    assert fake.scenarios == {"geo": CAMPAIGN.scenario.as_stored()}
    engine_of(fake).prepare(quiet)
    fake.scenarios["geo"] = {"name": "geo", "description": "an old one"}
    engine_of(fake).prepare(quiet)
    methods = [method for method, path, _ in fake.asked if "scenario" in path and method != "GET"]
    assert methods == ["POST", "PUT"]


def test_names_everything_that_is_missing(fake: FakeController) -> None:
    del fake.entities["satvpn_sat"]
    fake.entities["satvpn_gw"] = None
    fake.jobs.remove("vpn")
    fake.installed.remove("file_transfer")
    with pytest.raises(SetupError) as caught:
        engine_of(fake).prepare(quiet)
    text = str(caught.value)
    assert "no entity satvpn_sat" in text
    assert "satvpn_gw has no agent" in text
    assert "no job vpn: add jobs-2.7/vpn.tar.gz" in text
    assert "file_transfer is not installed on 10.0.0.0, the agent of satvpn_pc" in text
    assert not fake.scenarios


def test_asks_for_no_more_of_the_project_than_its_entities(fake: FakeController) -> None:
    """The whole project has every scenario in it.

    A real controller that was busy took 58 s, and then again.
    """
    engine_of(fake).prepare(quiet)
    asked = [path.rstrip("?") for method, path, _ in fake.asked if method == "GET"]
    assert "/project/satvpn/entity/" in asked
    assert "/project/satvpn/" not in asked


def test_asks_the_agents_not_the_database(fake: FakeController) -> None:
    fake.absent = ["vpn"]
    with pytest.raises(SetupError) as caught:
        engine_of(fake).prepare(quiet)
    assert "the job vpn is not installed on 10.0.0.1, the agent of satvpn_box: install it" in str(
        caught.value
    )
    assert not fake.scenarios


def test_an_agent_that_does_not_answer_is_named(fake: FakeController) -> None:
    fake.unreachable = "10.0.0.1"
    with pytest.raises(SetupError) as caught:
        engine_of(fake).prepare(quiet)
    text = str(caught.value)
    assert (
        "the agent of satvpn_box, 10.0.0.1, does not answer the controller: Cannot connect socket"
        in text
    )
    assert "not installed" not in text


@pytest.mark.parametrize(
    ("method", "end", "status", "words"),
    [
        ("POST", "login/", 401, "does not know the login admin"),
        ("POST", "login/", 460, "vault_password"),
        ("GET", "project/satvpn/entity/", 404, "has no project satvpn"),
        ("GET", "project/satvpn/entity/", 403, "does not let admin do GET"),
        ("GET", "version/", 500, "HTTP 500"),
        ("POST", "scenario/", 400, "HTTP 400"),
        ("GET", "version/", 302, "HTTP 302"),
    ],
)
def test_refusals_in_words(
    fake: FakeController, method: str, end: str, status: int, words: str
) -> None:
    fake.fail(method, end, *[lambda: (status, {"error": "so it is"})] * 9)
    with pytest.raises(SetupError, match=words) as caught:
        engine_of(fake).prepare(quiet)
    assert "secret" not in str(caught.value)


def test_not_a_controller(fake: FakeController) -> None:
    fake.fail("GET", "version/", lambda: (200, "<html>"))
    with pytest.raises(SetupError, match="not JSON"):
        engine_of(fake).prepare(quiet)


def test_nothing_listens() -> None:
    controller = Controller(Access("http://127.0.0.1:9/", "admin", "secret"))
    with pytest.raises(SetupError, match="nothing listens there"):
        ControllerEngine(controller, "satvpn", [CAMPAIGN.scenario]).prepare(quiet)


# A run


def test_events_and_statistics_are_kept(fake: FakeController, tmp_path: Path) -> None:
    fake.functions = [
        {
            "id": 3,
            "label": "download",
            "status": "Finished",
            "job": {
                "id": 12,
                "name": "file_transfer",
                "entity": "satvpn_pc",
                "status": "Not Running",
            },
        }
    ]
    assert run(engine_of(fake), tmp_path).error is None
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == [
        "scenario_started",
        "function_started",
        "job_started",
        "job_ended",
        "function_finished",
        "scenario_ended",
    ]
    statistic = json.loads((tmp_path / "statistics.jsonl").read_text())
    assert statistic["transfer_time_s"] == 1.5
    assert statistic["_metadata"]["job_instance_id"] == 12
    assert statistic["_metadata"]["time"] == 1795236051123


def test_a_failed_job_is_named(fake: FakeController, tmp_path: Path) -> None:
    fake.final_status = "Finished Ko"
    fake.functions = [{"id": 3, "label": "VPN", "status": "Finished", "job": FAILED_JOB}]
    outcome = run(engine_of(fake), tmp_path)
    assert outcome.status == "Finished Ko"
    assert outcome.error is not None
    assert "job vpn on satvpn_pop: Error" in outcome.error


def test_422_at_start(fake: FakeController, tmp_path: Path) -> None:
    answer = {
        "error": "Cannot start scenario geo",
        "entities": {"satvpn_pc": {"agent": {}, "jobs": ["vpn"]}},
    }
    fake.fail("POST", "scenario_instance/", lambda: (422, answer))
    outcome = run(engine_of(fake), tmp_path)
    assert outcome.status == "Not Started"
    assert "satvpn_pc lacks vpn" in str(outcome.error)


def test_reads_survive_dropped_connections(fake: FakeController, tmp_path: Path) -> None:
    fake.fail("GET", "scenario_instance/7/", lambda: None, lambda: None)
    assert run(engine_of(fake), tmp_path).error is None


def test_an_order_whose_answer_was_lost_is_not_given_twice(
    fake: FakeController, tmp_path: Path
) -> None:
    def start_and_drop() -> None:
        fake.start(VALUES)

    fake.fail("POST", "scenario_instance/", start_and_drop)
    assert run(engine_of(fake), tmp_path).error is None
    assert len(fake.started) == 1


def test_an_order_that_never_arrived(fake: FakeController, tmp_path: Path) -> None:
    fake.fail("POST", "scenario_instance/", lambda: None)
    assert run(engine_of(fake), tmp_path).error is None
    assert len(fake.started) == 1


@pytest.mark.usefixtures("soon_lost")
def test_a_controller_that_never_answers_an_order(fake: FakeController, tmp_path: Path) -> None:
    fake.fail("POST", "scenario_instance/", *[lambda: None] * 100)
    outcome = run(engine_of(fake), tmp_path)
    assert outcome.status == "Controller Lost"
    assert "reset" in str(outcome.error)
    assert not fake.started


@pytest.mark.usefixtures("soon_lost")
def test_a_controller_that_stays_away(fake: FakeController, tmp_path: Path) -> None:
    fake.fail("GET", "scenario_instance/7/", *[lambda: None] * 100)
    outcome = run(engine_of(fake), tmp_path)
    assert outcome.status == "Controller Lost"
    assert "instance 7 may still be running" in str(outcome.error)


@pytest.mark.usefixtures("soon_lost")
def test_a_slow_answer_has_a_limit(fake: FakeController, tmp_path: Path) -> None:
    done = threading.Event()

    def stall() -> tuple[int, Any]:
        done.wait(HANG_S)
        return 200, {"scenario_instance_id": 9}

    fake.fail("POST", "scenario_instance/", *[stall] * 100)
    outcome = run(engine_of(fake, timeout_s=0.2), tmp_path)
    done.set()
    assert "gave no answer" in str(outcome.error)


def test_a_run_over_its_limit_is_stopped(fake: FakeController, tmp_path: Path) -> None:
    fake.polls_until_end = 10**9
    outcome = run(engine_of(fake), tmp_path, limit_s=0.05)
    assert fake.stopped
    assert outcome.status == "Stopped"


def test_a_job_whose_end_was_lost_is_asked_for_again(fake: FakeController, tmp_path: Path) -> None:
    """The director has taken its stop date back, and looks at it no more."""
    fake.polls_until_end = 10**9
    lost = {**LEFT, "stop_date": "Not programmed yet"}
    over = {**lost, "id": 32, "stop_date": "2026-11-21T04:41:30Z"}
    stop = {"stop_job_instances": {"openbach_function_ids": [0, 1]}}
    what: list[dict[str, Any]] = [{"job": lost}, {"job": over}, stop]
    inner = [{"id": i, "label": "", "status": "Finished", **what[i]} for i in range(3)]
    fake.names, fake.started = ["sub"], [{}]
    sub = {**fake.instance(7), "openbach_functions": inner}
    fake.names, fake.started = [], []
    fake.functions = [{"id": 0, "label": "", "status": "Finished", "scenario": sub}]

    def looked_at() -> tuple[int, Any]:
        fake.polls_until_end = 0
        return 200, {**lost, "status": "Stopped"}

    fake.fail("GET", "job_instance/31/", looked_at)
    assert run(engine_of(fake), tmp_path).status == "Finished Ok"
    assert not any("job_instance/32" in path for _, path, _ in fake.asked)


def test_stop_stops_the_instance(fake: FakeController, tmp_path: Path) -> None:
    fake.polls_until_end = 10**9
    engine = engine_of(fake)
    caught: list[BaseException] = []

    def work() -> None:
        try:
            run(engine, tmp_path)
        except InterruptedError as error:
            caught.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    wait_for(lambda: fake.polls >= 2, "the second look at the scenario")
    engine.stop()
    worker.join(HANG_S)
    assert caught
    assert fake.stopped


def test_constants_of_ones_own_go_under_a_name_of_their_own(
    fake: FakeController, tmp_path: Path
) -> None:
    """The platform's geo stays as it is for those who launch it in the web UI."""
    engine = engine_of(fake)
    engine.prepare(quiet)
    before = dict(fake.scenarios)
    for rate in ("20M", "10M"):
        place = tmp_path / f"{rate}.unfinished"
        place.mkdir()
        outcome = engine.run(
            {"values": {**VALUES, "rate": rate}, "virtual_limit_s": HANG_S},
            place,
            0,
            lambda event: None,
        )
        assert outcome.error is None
        events = [json.loads(line) for line in (place / "events.jsonl").read_text().splitlines()]
        assert {event["scenario"] for event in events if "scenario" in event} == {"geo"}
    own, usual = fake.names
    assert usual == "geo"
    assert fake.scenarios.keys() == {"geo", own}
    assert fake.scenarios["geo"] == before["geo"]
    assert fake.scenarios[own]["constants"] == {**before["geo"]["constants"], "rate": "20M"}
    assert fake.scenarios[own]["description"].endswith("; rate=20M")
    assert fake.started == [VALUES, VALUES]


def test_a_platform_gets_what_a_vpn_file_comes_to(fake: FakeController, tmp_path: Path) -> None:
    """The file is of the person's machine, which no agent can read."""
    engine = engine_of(fake)
    engine.prepare(quiet)
    values = {**VALUES, "vpn_values": "config=wg0.conf"}
    configured = {"vpn_values": "mtu=1420;clamp=off"}
    spec = {"values": values, "configured": configured, "virtual_limit_s": HANG_S}
    assert engine.run(spec, tmp_path, 0, lambda event: None).error is None
    (own,) = fake.names
    assert fake.scenarios[own]["constants"]["vpn_values"] == configured["vpn_values"]
    assert "wg0.conf" not in json.dumps(fake.scenarios)


# What goes wrong on the way


@pytest.mark.parametrize("seed", range(4))
def test_no_request_is_lost(
    fake: FakeController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """100 requests and more, a third of which meet something.

    Each run is started once, and its results are there.
    """
    monkeypatch.setattr(rest, "LOG_IN_LIMIT_S", float(HANG_S))
    # A busy machine takes some time to start anything.
    monkeypatch.setattr(engine_module, "ARRIVAL_LIMIT_S", 0.5)
    chance = random.Random(seed)
    fake.slow_s = 0.4
    fake.harm = lambda: chance.choice(HARM) if chance.random() < 0.4 else "none"
    engine = engine_of(fake, timeout_s=0.3)
    engine.prepare(quiet)
    runs = 0
    while len(fake.asked) < 100:
        place = tmp_path / f"{runs}.unfinished"
        place.mkdir()
        spec = {"values": {**VALUES, "size": str(1000 + runs)}, "virtual_limit_s": HANG_S}
        outcome = engine.run(spec, place, 0, lambda event: None)
        assert outcome.error is None, outcome.error
        assert "transfer_time_s" in (place / "statistics.jsonl").read_text()
        runs += 1
    assert [started["size"] for started in fake.started] == [
        str(1000 + number) for number in range(runs)
    ]


def test_kept_connections_that_are_closed(fake: FakeController) -> None:
    """As OpenBACH's uWSGI does it.

    A session that keeps connections loses every other one of these.
    """
    controller = Controller(Access(fake.url, "admin", "secret"))
    controller.log_in()
    for _ in range(100):
        controller.post("job_instance/", body={"action": "stop", "job_instance_ids": []})


@pytest.mark.usefixtures("soon_lost")
def test_results_that_could_not_be_fetched_are_fetched_later(
    fake: FakeController, tmp_path: Path
) -> None:
    fake.fail("GET", "/csv/", *[lambda: None] * 1000)
    first, second = tmp_path / "id.unfinished", tmp_path / "again" / "id.unfinished"
    first.mkdir()
    outcome = run(engine_of(fake), first)
    assert outcome.status == "Controller Lost"
    assert "the same command fetches its results" in str(outcome.error)
    fake.faults.clear()
    first.rename(tmp_path / "id")  # the record of the failure
    first.mkdir()
    assert run(engine_of(fake), first).error is None
    assert "transfer_time_s" in (first / "statistics.jsonl").read_text()
    assert len(fake.started) == 1
    (tmp_path / "id").rename(tmp_path / "old")
    first.rename(tmp_path / "id")
    first.mkdir()
    assert run(engine_of(fake), first).error is None, "--rerun"
    assert len(fake.started) == 2
    assert not second.exists()


def test_a_killed_command_is_taken_up(fake: FakeController, tmp_path: Path) -> None:
    """It had started instance 7, which still runs."""
    place = tmp_path / "id.unfinished"
    place.mkdir()
    (tmp_path / "id.instance").write_text("7\n")
    fake.start(VALUES)
    assert run(engine_of(fake), place).error is None
    assert len(fake.started) == 1


@pytest.mark.parametrize("what", ["stopped", "other", "unknown"])
def test_an_instance_that_is_no_result(fake: FakeController, tmp_path: Path, what: str) -> None:
    place = tmp_path / "id.unfinished"
    place.mkdir()
    (tmp_path / "id.instance").write_text("7\n")
    fake.start({**VALUES, "vpn": "wireguard"} if what == "other" else VALUES)
    fake.polls_until_end = 1
    fake.polls = 1
    if what == "unknown":
        fake.fail("GET", "scenario_instance/7/", lambda: (404, {"error": "not in the database"}))
    if what == "stopped":
        fake.fail(
            "GET", "scenario_instance/7/", lambda: (200, {**fake.instance(7), "status": "Stopped"})
        )
    assert run(engine_of(fake), place).error is None
    assert len(fake.started) == 2


def test_a_controller_that_starts_again_meanwhile(fake: FakeController, tmp_path: Path) -> None:
    fake.fail("GET", "scenario_instance/7/", *[lambda: (500, {"error": "Traceback …"})] * 3)
    assert run(engine_of(fake), tmp_path).error is None


def test_a_session_that_was_forgotten(fake: FakeController, tmp_path: Path) -> None:
    engine = engine_of(fake)
    engine.prepare(quiet)
    fake.fail("POST", "scenario_instance/", lambda: (403, {"error": "Forbidden"}))
    assert run(engine, tmp_path).error is None


def stopped_while_running(fake: FakeController, run_dir: Path, engine: ControllerEngine) -> None:
    fake.polls_until_end = 10**9

    def work() -> None:
        with suppress(InterruptedError):
            run(engine, run_dir)

    worker = threading.Thread(target=work)
    worker.start()
    wait_for(lambda: fake.polls >= 2, "the second look at the scenario")
    try:
        engine.stop()
    finally:
        worker.join(HANG_S)


@pytest.mark.parametrize("arrives", [True, False])
def test_a_stop_without_an_answer_is_repeated(
    fake: FakeController, tmp_path: Path, arrives: bool
) -> None:
    lost = []

    def order_lost() -> None:
        lost.append("stop")
        fake.stopped = arrives

    fake.fail("POST", "scenario_instance/7/", order_lost, order_lost)
    stopped_while_running(fake, tmp_path, engine_of(fake))
    assert len(lost) == 2
    assert fake.stopped


@pytest.mark.usefixtures("soon_lost")
def test_a_stop_that_never_arrives_is_told(fake: FakeController, tmp_path: Path) -> None:
    fake.fail("POST", "scenario_instance/7/", *[lambda: None] * 1000)
    with pytest.raises(SetupError, match=r"7 may still be running .* stop_scenario_instance.py 7"):
        stopped_while_running(fake, tmp_path, engine_of(fake))


def test_ctrl_c_over_a_bad_connection(fake: FakeController, tmp_path: Path) -> None:
    """The command itself, as a person stops it.

    It waits until the platform has stopped, and the next one goes on.
    """
    chance = random.Random(5)
    fake.harm = lambda: (
        chance.choice(HARM[1:6]) if fake.started and chance.random() < 0.3 else "none"
    )
    fake.polls_until_end = 10**9
    access = {"controller": fake.url, "login": "admin", "password": "secret"}
    (tmp_path / "controller").write_text(json.dumps(access))
    cell = [
        "geo",
        "vpn=none",
        "cc=bbr",
        "size=1M",
        "--engine",
        "controller",
        "--quiet",
        "--results",
        str(tmp_path / "r"),
    ]
    command = subprocess.Popen(
        [sys.executable, "-m", "openbach_run", *cell],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # a shell's background job ignores it
    )
    wait_for(lambda: fake.polls >= 2 or command.poll() is not None, "the second look")
    assert command.poll() is None, command.communicate()
    command.send_signal(signal.SIGINT)
    _, told = command.communicate(timeout=HANG_S)
    assert (command.returncode, fake.stopped) == (130, True), told
    assert "stopping scenario instance 7" in told
    assert "secret" not in told


# What still runs on the hosts


LEFT = {"name": "file_transfer", "id": 31, "entity": "satvpn_server", "status": "Running"}


def test_a_job_of_an_earlier_run_is_named(fake: FakeController, tmp_path: Path) -> None:
    engine = engine_of(fake)
    engine.prepare(quiet)
    fake.left = [LEFT, {**LEFT, "name": "vpn", "id": 32, "entity": "satvpn_pop"}]
    with pytest.raises(SetupError) as caught:
        run(engine, tmp_path)
    text = str(caught.value)
    assert "the job file_transfer (instance 31) on satvpn_server is running" in text
    assert "python3 stop_job_instance.py 31" in text
    assert "python3 stop_all_job_instances.py 10.0.0.0 -j file_transfer -j vpn" in text
    assert not fake.started


def test_jobs_of_others_are_left_alone(fake: FakeController, tmp_path: Path) -> None:
    engine = engine_of(fake)
    engine.prepare(quiet)
    fake.left = [{**LEFT, "name": "cpu_monitoring"}, {**LEFT, "status": "Not Running"}]
    assert run(engine, tmp_path).error is None


def test_a_scenario_that_runs_already_is_named(fake: FakeController, tmp_path: Path) -> None:
    engine = engine_of(fake)
    engine.prepare(quiet)
    fake.start(VALUES)
    with pytest.raises(
        SetupError, match=r"scenario instance 7 \(geo\) is running; .* stop_scenario_instance.py 7"
    ):
        run(engine, tmp_path)


def test_a_scenario_of_another_name_is_found_by_its_jobs(
    fake: FakeController, tmp_path: Path
) -> None:
    """Values that change a scenario's content give it a name of its own on the platform."""
    engine = engine_of(fake)
    engine.prepare(quiet)
    fake.start(VALUES)
    fake.names[-1] = "geo-0123456789"
    fake.polls_until_end = 10**9
    fake.left = [LEFT]
    fake.functions = [{"id": 0, "label": "server", "status": "Running", "job": LEFT}]
    with pytest.raises(
        SetupError, match=r"scenario instance 7 \(geo-0123456789\) .* stop_scenario_instance.py 7"
    ):
        run(engine, tmp_path)


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_job_that_a_stop_has_missed(fake: FakeController, tmp_path: Path, stubborn: bool) -> None:
    engine = engine_of(fake)
    engine.prepare(quiet)
    fake.functions = [{"id": 0, "label": "server", "status": "Stopped", "job": LEFT}]
    fake.stubborn = stubborn

    def stop() -> tuple[int, Any]:
        fake.left, fake.stopped = [LEFT], True
        return 204, None

    fake.fail("POST", "scenario_instance/7/", stop)
    if stubborn:
        with pytest.raises(SetupError, match=r"stop_job_instance.py 31"):
            stopped_while_running(fake, tmp_path, engine)
    else:
        stopped_while_running(fake, tmp_path, engine)
        assert fake.left == []


def test_jobs_that_are_started_after_the_stop(
    fake: FakeController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The instance has its stop date, and its director goes on starting functions.

    2.7.0 does so for some seconds.
    """
    monkeypatch.setattr(engine_module, "SETTLED_S", 1.0)
    engine = engine_of(fake)
    engine.prepare(quiet)
    fake.functions = []
    stopped_at: list[int] = []

    def stop() -> tuple[int, Any]:
        fake.stopped = True
        stopped_at.append(fake.polls)
        return 204, None

    def shown() -> tuple[int, Any] | None:
        if stopped_at and not fake.functions and fake.polls >= stopped_at[0] + 2:
            fake.left, fake.functions = (
                [LEFT],
                [{"id": 0, "label": "server", "status": "Finished", "job": LEFT}],
            )
        return 200, fake.instance(7)

    fake.fail("POST", "scenario_instance/7/", stop)
    fake.fail("GET", "scenario_instance/7/", *[shown] * 1000)
    stopped_while_running(fake, tmp_path, engine)
    assert len(fake.functions) == 1
    assert fake.left == []


# Why a run failed

FAILED_JOB = {
    "id": 12,
    "name": "vpn",
    "entity": "satvpn_pop",
    "agent": "10.0.0.5",
    "status": "Error",
}


class Elasticsearch(BaseHTTPRequestHandler):
    """The log of a collector: one job's line in the Elastic Common Schema, and another job's."""

    def do_POST(self) -> None:
        query = self.rfile.read(int(self.headers["Content-Length"])).decode()
        assert self.path == "/logstash-*/_search"
        assert "scenario_instance_id:7 OR owner_scenario_instance_id:7" in query
        sources = [
            {"job_instance_id": 13, "severity": 3, "message": "of another job"},
            {"job_instance_id": 12, "severity": 7, "message": "Starting job vpn"},
            {
                "job_instance_id": 12,
                "message": ["OWNER_… the whole", "openvpn: no TUN device"],
                "log": {"syslog": {"severity": {"code": 2}}},
            },
        ]
        text = json.dumps(
            {"hits": {"hits": [{"_source": source} for source in reversed(sources)]}}
        ).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


def test_the_reason_comes_from_the_collector(fake: FakeController, tmp_path: Path) -> None:
    fake.final_status = "Finished Ko"
    fake.functions = [{"id": 3, "label": "VPN", "status": "Finished", "job": FAILED_JOB}]
    with HTTPServer(("127.0.0.1", 0), Elasticsearch) as collector:
        threading.Thread(
            target=collector.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        fake.collector = ("127.0.0.1", collector.server_address[1])
        outcome = run(engine_of(fake), tmp_path)
        collector.shutdown()
    assert outcome.error == "job vpn on satvpn_pop: Error\n  openvpn: no TUN device"


def test_where_the_reason_is(fake: FakeController, tmp_path: Path) -> None:
    fake.final_status = "Finished Ko"
    fake.functions = [{"id": 3, "label": "VPN", "status": "Finished", "job": FAILED_JOB}]
    text = str(run(engine_of(fake), tmp_path).error)
    assert "/var/log/openbach/vpn_*.log on its agent 10.0.0.5" in text
    assert "http://127.0.0.1:9/logstash-*/_search?q=scenario_instance_id:7" in text


def test_a_function_that_could_not_start_its_job(fake: FakeController, tmp_path: Path) -> None:
    fake.final_status = "Finished Ko"
    fake.functions = [{"id": 3, "label": "TCP of pc", "status": "Error"}]
    fake.logs = [
        ["x", 1, "err", "controller", "The requested Installed Job is not in the database"]
    ]
    text = str(run(engine_of(fake), tmp_path).error)
    assert (
        text
        == "function 3 (TCP of pc): Error\n  The requested Installed Job is not in the database"
    )


@pytest.mark.parametrize("said", ["2.6.0", "2.7.0"])
def test_the_version_is_not_taken_from_what_it_says(fake: FakeController, said: str) -> None:
    """OpenBACH 2.7.0 answers 2.6.0."""
    fake.version = said
    engine = engine_of(fake)
    engine.prepare(quiet)
    assert engine.identity_of({})["openbach"].startswith("2.7")


# What was measured


def finished(name: str) -> list[dict[str, Any]]:
    """A run's only function: a job that has come to its end."""
    job = {"id": 12, "name": name, "entity": "satvpn_pc", "status": "Not Running"}
    return [{"id": 0, "label": "x", "status": "Finished", "job": job}]


@pytest.mark.parametrize("status", ["Finished Ko", "Finished Ok"])
def test_statistics_that_nobody_sends_are_not_waited_for(
    fake: FakeController, tmp_path: Path, status: str
) -> None:
    """A run that failed, and one whose jobs have no statistics."""
    engine = engine_of(fake)
    engine.prepare(quiet)
    fake.final_status, fake.csv = status, ""
    fake.functions = finished("command_shell")
    run(engine, tmp_path)
    assert sum(path.endswith("/csv/") for _, path, _ in fake.asked) == 2


def test_statistics_that_come_late_are_waited_for(fake: FakeController, tmp_path: Path) -> None:
    engine = engine_of(fake)
    engine.prepare(quiet)
    fake.functions = finished("file_transfer")
    fake.fail("GET", "/csv/", *[lambda: (404, {})] * 5)
    run(engine, tmp_path)
    assert "transfer_time_s" in (tmp_path / "statistics.jsonl").read_text()


def test_csv_rows_without_statistics_are_none() -> None:
    assert list(as_collected("@agent_name,@job_name\npc,vpn\n")) == []
    assert list(as_collected("")) == []


# Where a controller is


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("172.20.34.80", "http://172.20.34.80:8000/"),
        ("lab:8080", "http://lab:8080/"),
        ("https://lab/openbach", "https://lab/openbach/"),
        ("http://[::1]:8000/", "http://[::1]:8000/"),
    ],
)
def test_addresses(address: str, url: str) -> None:
    assert base_url(address) == url


@pytest.mark.parametrize(
    "address",
    [
        *("", "ftp://lab", "http://lab/?q", "lab:port", "http://me:s3cret@lab/"),
        *("me:s3/cret@lab", "http://me:s3@cret@lab", "me:s3cret@lab:port", "http://me:s3]cret@lab"),
    ],
)
def test_bad_addresses(address: str) -> None:
    """Until commit c2fd0045 a password in it was repeated."""
    with pytest.raises(InputError, match=r"^controller '") as refused:
        base_url(address)
    assert not re.search("s3|cret", str(refused.value))


@pytest.mark.parametrize(
    "text",
    ['{"controller": "lab", "login": "me", "password": "pw"}', '"lab"', "lab\n"],
    ids=["object", "text", "line"],
)
def test_forms_of_the_controller_file(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "controller").write_text(text)
    monkeypatch.setattr(rest, "_ask", lambda what, *_, **__: f"asked {what}")
    access = read_access(None, tmp_path / "controller")
    assert access.url == "http://lab:8000/"
    assert access.password == ("pw" if "pw" in text else "asked Password")
    assert "pw" not in repr(access)


def test_a_password_goes_to_its_own_controller_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "controller").write_text('{"controller": "lab", "login": "me", "password": "pw"}')
    monkeypatch.setattr(rest, "_ask", lambda what, *_, **__: "asked")
    assert read_access("lab:8000", tmp_path / "controller").password == "pw"
    assert read_access("elsewhere", tmp_path / "controller").password == "asked"


def test_no_controller_is_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--controller HOST"):
        read_access(None, tmp_path / "controller")


def test_no_terminal_to_ask_on(tmp_path: Path) -> None:
    (tmp_path / "controller").write_text("lab")
    with pytest.raises(InputError, match="no terminal"):
        read_access(None, tmp_path / "controller")
