# SPDX-License-Identifier: GPL-3.0-or-later
"""Two browsers, REST and a command change one results directory: nothing is lost or runs unseen."""

from __future__ import annotations

import contextlib
import html
import re
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import unquote

import pytest
from helpers.fake_engine import FakeEngine, Spec, Stopped, few_files
from helpers.waiting import wait_for
from helpers.web import ARGUMENTS, COOKIE, PACKAGES, application, enter, visiting
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from openbach_run.campaign import engines, request
from openbach_run.commands import main
from openbach_run.engine.contract import OnEvent, Outcome
from openbach_run.errors import InputError
from openbach_run.results import run_files
from openbach_run.results.store import Store
from openbach_run.web import launches, links, runs

STEPS = 40  # fewer than a page of the list has rows
PICK, BROWSER = st.integers(0, 5), st.integers(0, 1)
"""Which of the sets or instances that there have ever been, those first that are listed."""
FOLDER, SIZE = st.sampled_from(["geo", "mine"]), st.sampled_from(["1M", "2M"])
LISTS = {"delete": "", "restore": "?deleted=yes", "remove": "?deleted=yes"}
UNSAID = '["", "", []]'


class Visitors(RuleBasedStateMachine):
    """What two people, a program and a command do in turn; a run ends when it is let to."""

    def __init__(self) -> None:
        super().__init__()
        self.stack, self.server, self.held = ExitStack(), ExitStack(), ExitStack()
        self.results = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        patched = self.stack.enter_context(pytest.MonkeyPatch.context())
        patched.setattr(engines, "VirtualEngine", lambda *_, **__: FakeEngine(few_files))
        patched.setattr(request, "load_packages", lambda paths, catalog: PACKAGES)
        self.items, self.numbers, self.said, self.failing = ["launch/1"], [1], 0, False
        self.records: dict[int, Path] = {}
        self.texts: dict[str, int] = {}
        """Note → the inode of the folder, or the number of the launch, that it was given to."""
        self.seen: dict[tuple[int, str], str] = {}
        self.runs: dict[int, str] = {}
        self.restart()
        self.command("geo", "1M")
        self.command("mine", "1M")

    def play(self, engine: FakeEngine, spec: Spec, run_dir: Path, on_event: OnEvent) -> Outcome:
        self.at_gate.append(engine)
        with contextlib.suppress(Stopped):
            engine.wait_for_the_gate()
            few_files(engine, spec, run_dir, on_event)
            return Outcome(f"Finished {'Ko' if self.failing else 'Ok'}", 30.0, 0.1, "ab", None)
        return Outcome("Guest Lost", 0.0, 0.1, "", "the guest was ended")

    def teardown(self) -> None:
        for one in (self.held, self.server, self.stack):
            one.close()

    # What is there

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [{**row} for row in self.services.database.rows(f"SELECT * FROM {table}")]

    def state(self) -> Any:
        tables = [self.rows(table) for table in ("mark", "launch", "member", "instance")]
        return sorted(self.results.rglob("record.json")), sorted(self.results.glob("*/*")), tables

    def settle(self) -> None:
        """Wait until the worker waits for the gate, or has nothing to do."""
        stores = self.services.launcher._stores
        wait_for(
            lambda: (
                any(one.gate and not one.gate.is_set() for one in self.at_gate)
                or not (self.services.database.running() or stores._open)
            ),
            "the worker",
        )

    def owner(self, item: str) -> int:
        kind, _, name = item.partition("/")
        return int(name) if kind == "launch" else (self.results / name).stat().st_ino

    def notes(self) -> dict[str, str]:
        return {row["item"]: row["note"] for row in self.rows("mark") if row["note"]}

    def listed(self, query: str = "") -> set[str]:
        page = self.client.get(f"/page/results{query}").text
        return {unquote(one) for one in re.findall(r'/page/(?:set|restore)/([^"?]+)"', page)}

    def check(self) -> None:
        self.settle()
        self.services.index.look()
        files = {file.stat().st_mtime_ns: file for file in self.results.rglob("record.json")}
        assert self.records.keys() <= files.keys(), "a record is lost"
        self.records = {key: one for key, one in files.items() if "ed Ok" in one.read_text()}
        owners = {note: self.owner(item) for item, note in self.notes().items()}
        assert owners == self.texts, "a note is lost, or is at other results"
        self.lists = {query: self.listed(query) for query in LISTS.values()}
        shown, deleted = self.lists.values()
        places = {file.parents[2].relative_to(self.results) for file in files.values()}
        # A launch that is listed has the runs of its folder, which no command has written.
        launched = {"folder/geo"} if any(item.startswith("launch/") for item in shown) else set()
        assert {f"folder/{place}" for place in places if len(place.parts) == 1} <= shown | launched
        assert {f"folder/{place.name}" for place in places if len(place.parts) > 1} <= deleted
        known = {f"launch/{row['id']}" for row in self.rows("launch")}
        assert known <= shown | deleted, "a launch is not listed"
        self.runs |= {one["instance"]: one["run_id"] for one in self.rows("member")}
        finished = {file.parent.name for file in self.records.values()}
        for row in self.services.database.running():
            # One that has finished already is not executed when its turn comes.
            is_seen = row["launch"] is None or f"launch/{row['launch']}" in shown
            assert is_seen or self.runs[row["id"]] in finished, "it runs unseen"
        self.numbers = sorted((row["id"] for row in self.rows("instance")), reverse=True) or [1]
        self.items = [*(shown | deleted | known) - {*self.items}, *self.items]

    # What is done

    def ask(self, path: str, method: str = "POST", **sent: Any) -> bool:
        """Return whether it was done; what is refused has changed nothing."""
        before = self.state()
        answer = self.client.request(method, path, follow_redirects=False, **sent)
        assert answer.status_code < 500, answer.text
        self.settle()
        assert answer.status_code < 400 or self.state() == before, answer.text
        return answer.status_code < 400

    def post(self, browser: int, path: str, **fields: str) -> bool:
        self.client.cookies.set(COOKIE, self.cookies[browser])
        token = self.services.sessions.form_token(self.cookies[browser])
        return self.ask(f"/page/{path}", data={"token": token, **fields})

    def item(self, pick: int, query: str = "", kind: str = "") -> str:
        items = sorted(self.items, key=lambda one: one not in self.lists[query])
        found = [one for one in items if one.startswith(kind)]
        return found[pick % len(found)]

    @rule(browser=BROWSER, size=SIZE, seeds=st.integers(1, 2))
    def launch(self, browser: int, size: str, seeds: int) -> None:
        values = {f"values.{name}": value for name, value in {**ARGUMENTS, "size": size}.items()}
        assert self.post(browser, "scenario/satvpn/geo", seeds=str(seeds), **values)
        self.check()

    @rule(browser=BROWSER, pick=PICK, action=st.sampled_from([*LISTS]))
    def change(self, browser: int, pick: int, action: str) -> None:
        item = self.item(pick, LISTS[action])
        place = item.replace("folder/", "folder/.deleted/")
        note, folder = self.notes().get(place, ""), self.results / place.partition("/")[2]
        if self.post(browser, f"{action}/{item}") and action == "remove":
            self.texts.pop(note, None)
            self.records = {k: f for k, f in self.records.items() if folder not in f.parents}
        self.check()

    @rule(browser=BROWSER, pick=PICK, action=st.sampled_from(["stop", "resume"]))
    def steer(self, browser: int, pick: int, action: str) -> None:
        self.post(browser, f"{self.item(pick, kind='launch/')}/{action}")
        self.check()

    @rule(browser=BROWSER, pick=PICK)
    def look(self, browser: int, pick: int) -> None:
        page = self.client.get(f"/page/set/{self.item(pick)}").text
        found = re.search(r'name="seen" value="([^"]*)"', page)
        self.seen[browser, self.item(pick)] = html.unescape(found[1]) if found else UNSAID

    @rule(browser=BROWSER, pick=PICK)
    def note(self, browser: int, pick: int) -> None:
        item, said = self.item(pick), f"note {self.said}"
        before, seen = self.notes().get(item, ""), self.seen.get((browser, item), UNSAID)
        if self.post(browser, f"mark/{item}", note=said, seen=seen):
            assert before in seen, "a note was replaced that this browser had not seen"
            self.texts.pop(before, None)
            self.texts[said] = self.owner(item)
            self.said += 1
        self.check()

    @rule(size=SIZE)
    def rest_start(self, size: str) -> None:
        sent = {"arguments": {**ARGUMENTS, "size": size}}
        assert self.ask("/project/satvpn/scenario/geo/scenario_instance/", json=sent)
        self.check()

    @rule(pick=PICK, method=st.sampled_from(["POST", "DELETE"]))
    def rest_stop_or_delete(self, pick: int, method: str) -> None:
        self.ask(f"/scenario_instance/{self.numbers[pick % len(self.numbers)]}/", method)
        self.check()

    @rule(failing=st.booleans())
    def end_run(self, failing: bool) -> None:
        self.failing = failing
        for engine in self.at_gate:
            assert engine.gate
            engine.gate.set()
        self.check()

    @rule(folder=FOLDER, size=SIZE)
    def command(self, folder: str, size: str) -> None:
        values = [f"{name}={value}" for name, value in {**ARGUMENTS, "size": size}.items()]
        words = ["geo", *values, "--seeds=1", "--quiet", "--results", str(self.results / folder)]
        assert main.main(words) in (0, 2)
        self.check()

    @rule(folder=FOLDER)
    def command_begins_or_ends(self, folder: str) -> None:
        self.held.close()
        with contextlib.suppress(InputError):
            self.held.enter_context(Store(self.results / folder).opened())
        self.check()

    @rule()
    def restart(self) -> None:
        self.server.close()
        self.at_gate: list[FakeEngine] = []
        app = application(self.results, lambda: FakeEngine(self.play, threading.Event()), workers=1)
        self.services, self.client = app.state.services, self.server.enter_context(visiting(app))
        self.cookies = []
        for _ in range(2):
            enter(app, self.client)
            self.cookies.append(self.client.cookies[COOKIE])
        self.check()


@pytest.mark.parametrize("steps", [200, pytest.param(2000, marks=pytest.mark.nightly)])
def test_nothing_is_lost_and_nothing_runs_unseen(steps: int) -> None:
    run_state_machine_as_test(
        Visitors,
        settings=settings(
            max_examples=steps // STEPS,
            stateful_step_count=STEPS,
            phases=[Phase.generate],
            deadline=None,
            suppress_health_check=[*HealthCheck],
        ),
    )


# One by one


@pytest.fixture
def visitors() -> Iterator[Visitors]:
    made = Visitors()
    made.launch(0, "2M", 2)
    yield made
    made.teardown()


def test_a_launch_is_removed_only_after_it_was_deleted_and_has_ended(visitors: Visitors) -> None:
    assert not visitors.post(0, "remove/launch/1") and not visitors.post(0, "delete/launch/1")
    visitors.post(0, "launch/1/stop")
    assert not visitors.post(0, "remove/launch/1")
    assert visitors.post(0, "delete/launch/1") and visitors.post(0, "remove/launch/1")
    assert "launch/1" not in visitors.listed() | visitors.listed("?deleted=yes")


def test_what_a_stopped_run_has_left_is_shown_and_what_never_began_is_no_link(
    visitors: Visitors,
) -> None:
    visitors.settle()
    (begun, waiting) = visitors.services.database.rows("SELECT * FROM member ORDER BY instance")
    page = visitors.client.get(f"/page/run/geo/{begun['run_id']}").text
    assert "It is running." in page
    visitors.post(0, "launch/1/stop")
    wait_for(lambda: list(visitors.results.glob("geo/runs/stopped-*")), "the stopped run")
    (key,) = visitors.services.database.pairs(
        "SELECT key, id FROM cell WHERE id IN (SELECT cell FROM member)"
    )
    cell = visitors.client.get(f"/page/set/launch/1/cell/{key}").text
    links = [f'href="/page/run/geo/{of["run_id"]}"' in cell for of in (begun, waiting)]
    assert links == [True, False]
    assert "Stopped under way" in cell and "Stopped before it began" in cell
    page = visitors.client.get(f"/page/run/geo/{begun['run_id']}").text
    assert "It was stopped under way" in page
    assert "stopped under way: <a" in visitors.client.get("/page/set/launch/1").text


@pytest.mark.parametrize("ends_meanwhile", [False, True])
def test_a_run_that_is_still_being_stopped_is_resumed(
    visitors: Visitors, monkeypatch: pytest.MonkeyPatch, ends_meanwhile: bool
) -> None:
    visitors.settle()
    (engine,) = visitors.at_gate
    stop, asked = engine.stop, launches.asked_campaign

    def campaign(*of: Any) -> Any:
        if ends_meanwhile:
            stop()
            visitors.settle()
        return asked(*of)

    monkeypatch.setattr(launches, "asked_campaign", campaign)
    monkeypatch.setattr(engine, "stop", lambda: None)  # a guest takes its time
    assert visitors.post(0, "launch/1/stop") and visitors.post(1, "launch/1/resume")
    stop()
    visitors.settle()
    for _ in range(2):
        visitors.end_run(failing=False)
    assert visitors.client.get("/page/set/launch/1/state").json()["state"] == "finished"
    assert not visitors.services.launcher.stopping()


def test_a_run_that_ends_while_it_is_looked_for_is_found(
    visitors: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitors.settle()
    is_there = run_files.is_there

    def end_it(place: Path) -> bool:
        if place.name.endswith(".unfinished") and place.is_dir():
            place.rename(place.with_suffix(""))
        return is_there(place)

    monkeypatch.setattr(run_files, "is_there", end_it)
    (begun, _) = visitors.services.database.rows("SELECT * FROM member ORDER BY instance")
    found = runs.find_run(visitors.services, "geo", begun["run_id"])
    assert found.place.name == begun["run_id"] and not found.goes_on
    found.place.rename(found.place.with_suffix(".unfinished"))  # its engine goes on there


def test_the_list_reads_a_scenario_once(
    visitors: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        visitors.launch(0, "1M", 1)
    values = Mock(wraps=launches.own_values)
    monkeypatch.setattr(launches, "own_values", values)
    visitors.listed()
    values.assert_called_once()


def test_a_deleted_launch_that_is_resumed_is_in_the_list_again(visitors: Visitors) -> None:
    visitors.post(0, "launch/1/stop")
    assert visitors.post(0, "delete/launch/1") and visitors.post(1, "launch/1/resume")
    assert "launch/1" in visitors.listed() and not visitors.post(0, "remove/launch/1")


def test_a_launch_with_a_failed_run_that_is_repeated_has_not_ended(visitors: Visitors) -> None:
    for _ in range(2):
        visitors.end_run(failing=True)
    visitors.post(0, "launch/1/resume")
    assert visitors.client.get("/page/set/launch/1/state").json()["state"] == "running"
    assert not visitors.post(1, "delete/launch/1")


def test_a_launch_that_cannot_be_stored_runs_nothing(
    visitors: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(launches, "_remember")
    before, values = visitors.state(), {f"values.{name}": ARGUMENTS[name] for name in ARGUMENTS}
    with pytest.raises(NameError):
        visitors.post(0, "scenario/satvpn/geo", seeds="2", **values)
    assert visitors.state() == before


def test_a_folder_for_which_a_run_waits_is_not_deleted(visitors: Visitors) -> None:
    visitors.post(0, "launch/1/stop")
    sent = {"arguments": ARGUMENTS}
    assert visitors.ask("/project/satvpn/scenario/leo/scenario_instance/", json=sent)
    visitors.rest_start("2M")
    assert not visitors.post(0, "delete/folder/geo") and visitors.post(0, "delete/folder/mine")


def test_a_project_whose_runs_go_on_is_not_deleted(visitors: Visitors) -> None:
    assert not visitors.ask("/project/satvpn/", "DELETE")
    visitors.post(0, "launch/1/stop")
    assert visitors.ask("/project/satvpn/", "DELETE")


def test_a_link_file_does_not_take_the_place_of_another(tmp_path: Path) -> None:
    for _ in range(2):
        kept = links.keep(tmp_path, "leo.csv", b"time_s,es_n0_db\n0,14\n")
    with pytest.raises(InputError, match=r"leo\.csv: another file has this name"):
        links.keep(tmp_path, "leo.csv", b"time_s,es_n0_db\n0,9\n")
    assert Path(kept).read_bytes() == b"time_s,es_n0_db\n0,14\n"


def open_fonts() -> int:
    return sum("mpl-data" in str(file.resolve()) for file in Path("/proc/self/fd").iterdir())


def test_the_fonts_of_figures_are_opened_once(tmp_path: Path) -> None:
    """Each thread of the server that drew kept them open."""
    kept = Path(links.keep(tmp_path, "leo.csv", b"time_s,rate_bps,delay_ms\n0,1000000,5\n"))
    app, before = application(tmp_path), open_fonts()
    with visiting(app) as client, ThreadPoolExecutor(8) as clients:
        asked = [f"/page/link/{kept.stem}.svg"] * 8
        assert {answer.status_code for answer in clients.map(client.get, asked)} == {200}
    assert open_fonts() <= before + 2
