# SPDX-License-Identifier: GPL-3.0-or-later
"""Two browsers, REST and a command change one results directory: nothing is lost or runs unseen."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from helpers.fake_engine import FakeEngine, Spec, Stopped, few_files
from helpers.waiting import wait_for
from helpers.web import ARGUMENTS, PACKAGES, application, enter, visiting
from httpx2 import Response
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from openbach_run.campaign import engines, request
from openbach_run.commands import main
from openbach_run.engine.contract import OnEvent, Outcome
from openbach_run.errors import InputError
from openbach_run.results.record import Store
from openbach_run.web import launches, links
from openbach_run.web.index import DELETED
from openbach_run.web.sessions import COOKIE

STEPS = 50
PICK = st.integers(0, 5)
"""Which of the sets or instances that there have ever been, the newest first."""
BROWSER = st.integers(0, 1)
SIZES = st.sampled_from(["1M", "2M"])


class Visitors(RuleBasedStateMachine):
    """What two people, a program and a command do in turn; a run ends when it is let to."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.results = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        patched = self.stack.enter_context(pytest.MonkeyPatch.context())
        patched.setattr(engines, "VirtualEngine", lambda *_, **__: FakeEngine(few_files))
        patched.setattr(request, "load_packages", lambda paths, catalog: PACKAGES)
        self.held: ExitStack | None = None
        self.at_gate: list[FakeEngine] = []
        self.items, self.numbers = ["folder/geo", "folder/mine"], [1]
        self.records: dict[int, Path] = {}
        self.texts: dict[str, int] = {}
        """Text → the inode of the folder, or the number of the launch, that it was given to."""
        self.seen: dict[tuple[int, str], str] = {}
        self.runs: dict[int, str] = {}
        """Instance → its run."""
        self.said, self.failing = 0, False
        self.serve()
        for folder in ("geo", "mine"):
            self.command(folder, "1M")

    def serve(self) -> None:
        self.server = ExitStack()
        app = application(self.results, lambda: FakeEngine(self.play, threading.Event()), workers=1)
        self.services = app.state.services
        self.client = self.server.enter_context(visiting(app))
        self.cookies = []
        for _ in range(2):
            enter(app, self.client)
            self.cookies.append(self.client.cookies[COOKIE])

    def play(self, engine: FakeEngine, spec: Spec, run_dir: Path, on_event: OnEvent) -> Outcome:
        self.at_gate.append(engine)
        with contextlib.suppress(Stopped):
            engine.wait_for_the_gate()
            few_files(engine, spec, run_dir, on_event)
            error = "no route" if self.failing else None
            return Outcome(f"Finished {'Ko' if error else 'Ok'}", 30.0, 0.1, "ab", error)
        return Outcome("Guest Lost", 0.0, 0.1, "", "the guest was ended")

    def teardown(self) -> None:
        if self.held:
            self.held.close()
        self.server.close()
        self.stack.close()

    # What is there

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.services.database.rows(f"SELECT * FROM {table}")]

    def state(self) -> Any:
        tables = [self.rows(table) for table in ("mark", "launch", "member", "instance")]
        return sorted(self.results.rglob("record.json")), sorted(self.results.glob("*/*")), tables

    def settle(self) -> None:
        """Wait until the worker waits for the gate, or has nothing to do."""
        stores = self.services.launcher._stores

        def is_settled() -> bool:
            gates = [one.gate for one in self.at_gate if one.gate and not one.gate.is_set()]
            return bool(gates) or not (self.services.database.running() or stores._open)

        wait_for(is_settled, "the worker")

    def places(self) -> dict[str, Path]:
        """Folders by the item that a mark has: those that are there, and those that are deleted."""
        found = [*self.results.glob("[!.]*/runs"), *self.results.glob(f"{DELETED}/*/runs")]
        return {f"folder/{one.parent.relative_to(self.results)}": one.parent for one in found}

    def owner(self, item: str) -> int:
        kind, _, name = item.partition("/")
        return int(name) if kind == "launch" else self.places()[item].stat().st_ino

    def marks(self) -> dict[str, str]:
        return {row[0]: row[2] for row in self.rows("mark") if row[2]}

    def check(self) -> None:
        self.settle()
        self.services.index.look()
        files = {file.stat().st_mtime_ns: file for file in self.results.rglob("record.json")}
        assert self.records.keys() <= files.keys(), "a record is lost"
        self.records = {
            number: file for number, file in files.items() if "Finished Ok" in file.read_text()
        }
        owners = {text: self.owner(item) for item, text in self.marks().items()}
        assert owners == self.texts, "a note is lost, or is at other results"
        self.now = {query: self.listed(query) for query in ("", "?deleted=yes")}
        shown, deleted = self.now.values()
        members = self.services.database.rows("SELECT * FROM member")
        for place in self.places():
            name = place.partition("/")[2]
            there = deleted if name.startswith(DELETED) else shown
            assert f"folder/{name.removeprefix(f'{DELETED}/')}" in there, f"{place} is not listed"
        self.runs |= {one["instance"]: f"{one['folder']}/runs/{one['run_id']}" for one in members}
        finished = {str(file.parent.relative_to(self.results)) for file in self.records.values()}
        for row in self.services.database.running():
            # One that has finished already is not executed when its turn comes.
            is_seen = row["launch"] is None or f"launch/{row['launch']}" in shown
            assert is_seen or self.runs[row["id"]] in finished, "runs unseen"
        instances = self.client.get("/project/satvpn/scenario_instance/?quiet").json()
        self.numbers = [one["scenario_instance_id"] for one in instances] or [1]
        launched = [f"launch/{row[0]}" for row in self.rows("launch")]
        assert {*launched} <= {*shown, *deleted}, "a launch is not listed"
        new = [one for one in [*shown, *deleted, *launched] if one not in self.items]
        self.items = [*new, *self.items]

    def listed(self, query: str) -> set[str]:
        page = self.client.get(f"/page/results{query}").text
        return {unquote(one) for one in re.findall(r'/page/(?:set|restore)/([^"?]+)"', page)}

    # What is done

    def ask(self, send: Callable[[], Response]) -> bool:
        """Return whether it was done; what is refused has changed nothing."""
        before = self.state()
        answer = send()
        assert answer.status_code < 500, answer.text
        refused = answer.status_code >= 400
        self.settle()
        assert not refused or self.state() == before, f"refused, and changed: {answer.text}"
        return not refused

    def post(self, browser: int, path: str, **fields: str) -> bool:
        self.client.cookies.set(COOKIE, self.cookies[browser])
        token = self.services.sessions.form_token(self.cookies[browser])
        data = {"token": token, **fields}
        return self.ask(
            lambda: self.client.post(f"/page/{path}", data=data, follow_redirects=False)
        )

    def item(self, pick: int, query: str = "") -> str:
        """Return one of all items, those first that are listed now."""
        listed = self.now[query]
        items = sorted(self.items, key=lambda one: one not in listed)
        return items[pick % len(items)]

    @rule(browser=BROWSER, size=SIZES, seeds=st.integers(1, 2))
    def launch(self, browser: int, size: str, seeds: int) -> None:
        values = {f"values.{name}": value for name, value in {**ARGUMENTS, "size": size}.items()}
        assert self.post(browser, "scenario/satvpn/geo", seeds=str(seeds), **values)
        self.check()

    @rule(browser=BROWSER, pick=PICK)
    def delete(self, browser: int, pick: int) -> None:
        self.post(browser, f"delete/{self.item(pick)}")
        self.check()

    @rule(browser=BROWSER, pick=PICK)
    def restore(self, browser: int, pick: int) -> None:
        self.post(browser, f"restore/{self.item(pick, '?deleted=yes')}")
        self.check()

    @rule(browser=BROWSER, pick=PICK)
    def remove(self, browser: int, pick: int) -> None:
        item = self.item(pick, "?deleted=yes")
        marked = item.replace("folder/", f"folder/{DELETED}/")
        text, place = self.marks().get(marked), self.places().get(marked)
        if self.post(browser, f"remove/{item}"):
            self.texts.pop(text or "", None)
            gone = place or Path("/")
            self.records = {k: f for k, f in self.records.items() if gone not in f.parents}
        self.check()

    @rule(browser=BROWSER, pick=PICK, action=st.sampled_from(["stop", "resume"]))
    def steer(self, browser: int, pick: int, action: str) -> None:
        launches = [one for one in self.items if one.startswith("launch/")] or ["launch/1"]
        self.post(browser, f"{launches[pick % len(launches)]}/{action}")
        self.check()

    @rule(browser=BROWSER, pick=PICK)
    def look(self, browser: int, pick: int) -> None:
        page = self.client.get(f"/page/set/{self.item(pick)}").text
        if found := re.search(r'name="seen" value="([^"]*)"', page):
            self.seen[browser, self.item(pick)] = found[1].replace("&#34;", '"')

    @rule(browser=BROWSER, pick=PICK)
    def note(self, browser: int, pick: int) -> None:
        item = self.item(pick)
        before, said = self.marks().get(item), f"note {self.said}"
        seen = self.seen.get((browser, item), '["", "", []]')
        if self.post(browser, f"mark/{item}", note=said, seen=seen):
            assert (before or "") in seen, "a note was replaced that this browser had not seen"
            self.texts.pop(before or "", None)
            self.texts[said] = self.owner(item)
            self.said += 1
        self.check()

    @rule(size=SIZES)
    def rest_start(self, size: str) -> None:
        sent = {"arguments": {**ARGUMENTS, "size": size}}
        path = "/project/satvpn/scenario/geo/scenario_instance/"
        assert self.ask(lambda: self.client.post(path, json=sent))
        self.check()

    @rule(pick=PICK, method=st.sampled_from(["POST", "DELETE"]))
    def rest_stop_or_delete(self, pick: int, method: str) -> None:
        path = f"/scenario_instance/{self.numbers[pick % len(self.numbers)]}/"
        self.ask(lambda: self.client.request(method, path))
        self.check()

    @rule(failing=st.booleans())
    def end_run(self, failing: bool) -> None:
        self.failing = failing
        for engine in self.at_gate:
            assert engine.gate
            engine.gate.set()
        self.check()

    @rule(folder=st.sampled_from(["geo", "mine"]), size=SIZES)
    def command(self, folder: str, size: str) -> None:
        values = [f"{name}={value}" for name, value in {**ARGUMENTS, "size": size}.items()]
        words = ["geo", *values, "--seeds=1", "--quiet", "--results", str(self.results / folder)]
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            assert main.main(words) in (0, 2)
        self.check()

    @rule(folder=st.sampled_from(["geo", "mine"]))
    @precondition(lambda self: self.held is None)
    def command_begins(self, folder: str) -> None:
        held, store = ExitStack(), Store(self.results / folder)
        with contextlib.suppress(Exception):
            held.enter_context(store.opened())
            store.begin("0")
            self.held = held
        self.check()

    @rule()
    @precondition(lambda self: self.held is not None)
    def command_ends(self) -> None:
        assert self.held
        self.held.close()
        self.held = None
        self.check()

    @rule()
    def restart(self) -> None:
        self.server.close()
        self.at_gate = []
        self.serve()
        self.check()


@pytest.mark.parametrize("steps", [300, pytest.param(2000, marks=pytest.mark.nightly)])
def test_nothing_is_lost_and_nothing_runs_unseen(steps: int) -> None:
    limits = settings(
        max_examples=steps // STEPS,
        stateful_step_count=STEPS,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    run_state_machine_as_test(Visitors, settings=limits)


# One by one


@pytest.fixture
def visitors() -> Iterator[Visitors]:
    made = Visitors()
    yield made
    made.teardown()


def test_a_launch_is_removed_only_after_it_was_deleted_and_has_ended(visitors: Visitors) -> None:
    visitors.launch(0, "2M", 2)
    assert not visitors.post(0, "remove/launch/1") and not visitors.post(0, "delete/launch/1")
    visitors.post(0, "launch/1/stop")
    assert not visitors.post(0, "remove/launch/1")
    assert visitors.post(0, "delete/launch/1") and visitors.post(0, "remove/launch/1")
    assert "launch/1" not in visitors.listed("") | visitors.listed("?deleted=yes")


def test_a_deleted_launch_that_is_resumed_is_in_the_list_again(visitors: Visitors) -> None:
    visitors.launch(0, "2M", 2)
    visitors.post(0, "launch/1/stop")
    assert visitors.post(0, "delete/launch/1") and visitors.post(1, "launch/1/resume")
    visitors.check()
    assert "launch/1" in visitors.listed("") and not visitors.post(0, "remove/launch/1")


def test_a_launch_with_a_failed_run_that_is_repeated_has_not_ended(visitors: Visitors) -> None:
    visitors.launch(0, "2M", 1)
    visitors.end_run(failing=True)
    wait_for(lambda: not visitors.services.database.running(), "the run")
    visitors.post(0, "launch/1/resume")
    visitors.services.index.look()
    assert visitors.client.get("/page/set/launch/1/state").json()["state"] == "running"
    assert not visitors.post(1, "delete/launch/1")


def test_a_launch_that_cannot_be_stored_runs_nothing(
    visitors: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise InputError("the database is full")

    monkeypatch.setattr(launches, "_remember", full)
    values = {f"values.{name}": value for name, value in ARGUMENTS.items()}
    assert not visitors.post(0, "scenario/satvpn/geo", seeds="2", **values)
    visitors.check()
    assert visitors.rows("launch") == visitors.rows("instance") == []


def test_a_folder_for_which_a_run_waits_is_not_deleted(visitors: Visitors) -> None:
    visitors.rest_start("2M")
    visitors.rest_start("1M")
    assert not visitors.post(0, "delete/folder/geo") and visitors.post(0, "delete/folder/mine")


def test_a_link_file_does_not_take_the_place_of_another(tmp_path: Path) -> None:
    links.keep(tmp_path, "leo.csv", b"time_s,es_n0_db\n0,14\n")
    links.keep(tmp_path, "leo.csv", b"time_s,es_n0_db\n0,14\n")
    with pytest.raises(InputError, match=r"leo\.csv: another file has this name"):
        links.keep(tmp_path, "leo.csv", b"time_s,es_n0_db\n0,9\n")
    (kept,) = links.all_links(tmp_path)
    assert Path(kept).read_bytes() == b"time_s,es_n0_db\n0,14\n"
