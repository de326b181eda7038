# SPDX-License-Identifier: GPL-3.0-or-later
"""How a cluster's workers get runs.

When they have nothing to do, and what becomes of the run of one that dies.
"""

from __future__ import annotations

import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import distributed
import pytest
from helpers.fake_cluster import RUNS, Client, Worker, execute_by, right, wrong
from helpers.fake_engine import FakeEngine, few_files
from helpers.waiting import HANG_S, wait_for

from openbach_run.engine import cluster
from openbach_run.engine.cluster import ClusterEngine, stays_inside
from openbach_run.engine.contract import Withdrawn
from openbach_run.errors import SetupError
from openbach_run.results.record import Store

SPEC = {
    "arguments": {"vpn": "none"},
    "seed": 1,
    "uses": {},
    "identity": {"engine": "made up", "clock": "virtual"},
}


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "LOOK_S", 0.01)


def engine_of(client: Any, monkeypatch: pytest.MonkeyPatch) -> ClusterEngine:
    monkeypatch.setattr(cluster, "_client", lambda scheduler: client)
    engine = ClusterEngine(cast(Any, FakeEngine(few_files)), "tcp://made-up:8786", {})
    engine.prepare(lambda text, part: None)
    return engine


def test_a_worker_gets_a_run_when_it_has_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that at the end none waits behind another one's.

    The executor's four threads would give them more.
    """
    client = Client({"a": Worker(right), "b": Worker(right)}, monkeypatch)
    execute_by(client, FakeEngine(few_files), tmp_path, monkeypatch)
    assert [client.at(name).most for name in ("a", "b")] == [1, 1]


def test_a_worker_with_two_threads_gets_two(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client({"a": Worker(right)}, monkeypatch)
    monkeypatch.setattr(
        client, "scheduler_info", lambda n_workers: {"workers": {"a": {"name": "A", "nthreads": 2}}}
    )
    both = threading.Barrier(2, timeout=HANG_S)
    client.workers["a"].before = lambda number: cast(None, both.wait())
    client.at("a").executor = ThreadPoolExecutor(2, thread_name_prefix="a")
    engine = engine_of(client, monkeypatch)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: engine._executed(SPEC), range(4)))
    assert client.at("a").most == 2


def test_a_worker_dies_and_only_the_run_that_it_had_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = {name: Worker(right) for name in "abc"}
    client = Client(dict(workers), monkeypatch)

    def die(number: int) -> None:
        if number == 5:
            del client.workers["b"]

    workers["b"].before = die
    execute_by(client, FakeEngine(few_files), tmp_path, monkeypatch)
    assert len(workers["b"].got) == 6
    got = Counter(run for one in workers.values() for run in one.got)
    assert got[workers["b"].got[5]] >= 2, "its last one was done by another worker"
    checks = sum(got.values()) - RUNS - 1
    assert len(got) == RUNS and 0 <= checks <= 2 * RUNS // 10, "the others once, but for the checks"
    assert {record.status for record in Store(tmp_path).all()} == {"Finished Ok"}


def test_a_worker_that_comes_back_at_its_address_gets_runs_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client({"a": Worker(right)}, monkeypatch)
    execute, known = client.at("a").execute, client.scheduler_info

    def die(task: Any, *_: Any) -> None:
        monkeypatch.setattr(client.at("a"), "execute", execute)
        monkeypatch.setattr(client, "scheduler_info", gone)

    def gone(n_workers: int) -> dict[str, Any]:
        monkeypatch.setattr(client, "scheduler_info", known)
        return {"workers": {}}

    monkeypatch.setattr(client.at("a"), "execute", die)
    assert engine_of(client, monkeypatch)._executed(SPEC)[0] == "a"


def test_a_worker_that_says_nothing_is_waited_for_until_the_scheduler_gives_it_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its machine has gone, say."""
    client = Client({"a": Worker(right)}, monkeypatch)

    def vanish(*_: Any) -> None:
        client.workers.pop("a")
        client.workers["b"] = Worker(right)

    monkeypatch.setattr(client.at("a"), "execute", vanish)
    assert engine_of(client, monkeypatch)._executed(SPEC)[0] == "b"


def test_no_run_goes_to_a_worker_that_has_just_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client({"a": Worker(right)}, monkeypatch)
    monkeypatch.setattr(client.at("a"), "execute", lambda *_: None)
    known = cluster.Workers(cast(Any, client))
    known.look(0)
    run, waiting = known.ask(known.wish(None).result(0), SPEC, ()), known.wish(None)
    client.workers.clear()
    known.look(0)
    assert run.cancelled() and not waiting.done()


def test_a_run_that_workers_die_of_ends_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = {name: Worker(right) for name in "abcd"}
    client = Client(dict(workers), monkeypatch)
    for name, worker in workers.items():
        worker.before = lambda number, name=name: cast(None, client.workers.pop(name))  # type: ignore[misc]
    with pytest.raises(
        SetupError,
        match=(
            r"3 Dask workers died of this run, one after the other, at last the Dask worker C \(c\)"
        ),
    ):
        engine_of(client, monkeypatch)._executed(SPEC)
    assert list(client.workers) == ["d"]


def test_what_goes_wrong_on_a_worker_is_told_and_is_no_death(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client({"a": Worker(right)}, monkeypatch)

    def fail(number: int) -> None:
        raise OSError(28, "No space left on device")

    client.workers["a"].before = fail
    with pytest.raises(OSError, match="No space left"):
        engine_of(client, monkeypatch)._executed(SPEC)
    assert client.workers["a"].got == [("none", 1)]


def test_a_check_is_done_by_a_worker_that_has_passed_one_before_other_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By any other one when these have gone."""
    known = cluster.Workers(cast(Any, Client({name: Worker(right) for name in "abc"}, monkeypatch)))
    known.unchecked = {"a": [], "c": []}
    run, check = known.wish(None), known.wish("a")
    known.there = {"b"}
    known.give("b")
    assert check.result(0) == "b", "nobody else is there"
    known.there = {"a", "b", "c"}
    check = known.wish("a")
    known.give("b")
    assert run.result(0) == "b", "it has not passed one"
    run = known.wish(None)
    known.give("c")
    assert check.result(0) == "c" and not run.done()
    check = known.wish("a")
    known.give("b")
    assert run.result(0) == "b"
    known.give("b")
    assert not check.done()
    known.lose("c")
    assert check.result(0) == "b"


def test_engines_of_a_command_share_what_they_know_of_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A campaign file has an engine for each of its scenarios."""
    client = Client({"a": Worker(wrong), "b": Worker(right)}, monkeypatch)
    first, second = engine_of(client, monkeypatch), engine_of(client, monkeypatch)
    with pytest.raises(Withdrawn):
        first._judge("a", False, "run")
    assert {second._executed(SPEC)[0] for _ in range(4)} == {"b"}


def test_runs_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client({"a": Worker(right)}, monkeypatch)
    begun, go_on = threading.Event(), threading.Event()

    def wait(number: int) -> None:
        begun.set()
        go_on.wait(HANG_S)

    client.workers["a"].before = wait
    engine = engine_of(client, monkeypatch)
    with ThreadPoolExecutor(3) as threads:
        runs = [threads.submit(engine._executed, SPEC) for _ in range(3)]
        begun.wait(HANG_S)
        engine.stop()
        for run in runs:
            with pytest.raises(SetupError, match="taken back"):
                run.result(HANG_S)
        go_on.set()
    assert client.workers["a"].got == [("none", 1)], "the others had not begun"
    with pytest.raises(SetupError, match="taken back"):
        engine._executed(SPEC)


def test_a_scheduler_that_goes_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client({}, monkeypatch)
    engine = engine_of(client, monkeypatch)
    threading.Timer(0.1, setattr, (client, "status", "closed")).start()
    with pytest.raises(
        SetupError, match="the scheduler of the Dask cluster at tcp://made-up:8786 is gone"
    ):
        engine._executed(SPEC)


# Dask's own


@pytest.fixture
def dask(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A real scheduler with two workers, whose engine is made up, and a client."""
    engine = Worker(right)
    monkeypatch.setattr(cluster, "_worker_engine", lambda parts: engine)
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            protocol="tcp://",
            dashboard_address=":0",
        ) as workers,
        distributed.Client(workers.scheduler_address, set_as_default=False) as client,
    ):
        yield SimpleNamespace(workers=workers, client=client, engine=engine)


def test_a_run_is_a_task_of_dask_that_is_forgotten_at_its_end(
    dask: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(dask.client, monkeypatch)
    done = [engine._executed(SPEC) for _ in range(4)]
    assert {worker for worker, *_ in done} == {
        worker.address for worker in dask.workers.workers.values()
    }
    assert {outcome.capture_hash for _, outcome, _ in done} == {"ab"}
    wait_for(lambda: not dask.workers.scheduler.tasks, "the end of what runs leave in memory")


def test_what_a_worker_of_dask_refuses_is_told(
    dask: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> None:
        raise SetupError("the Dask worker refuses the run")

    dask.engine.before = fail
    with pytest.raises(SetupError, match="the Dask worker refuses the run"):
        engine_of(dask.client, monkeypatch)._executed(SPEC)


def test_a_worker_of_dask_closes_while_it_has_a_run(
    dask: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(number: int) -> None:
        if not begun.is_set():
            begun.set()
            go_on.wait(HANG_S)

    dask.engine.before = wait
    engine = engine_of(dask.client, monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(engine._executed, SPEC)
        begun.wait(HANG_S)
        (first,) = (
            address for address in engine._workers.there if address not in engine._workers._free
        )
        (worker,) = (one for one in dask.workers.workers.values() if one.address == first)
        dask.workers.sync(worker.close, executor_wait=False, nanny=False)
        assert run.result(HANG_S)[0] != first
        go_on.set()


@pytest.mark.parametrize("stopped", [False, True])
def test_a_worker_of_dask_closes_before_its_result_is_fetched(
    stopped: bool, dask: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask then waits for that very worker; the whole campaign did, and its end by Ctrl-C."""
    hand_on, closed, handed_on = cluster._hand_on, list[str](), threading.Event()
    is_stopped = threading.Event()

    def stop() -> None:
        engine.stop()
        is_stopped.set()

    def wait(number: int) -> None:
        if stopped and closed:  # computed again: not before the stop
            is_stopped.wait(HANG_S)

    dask.engine.before = wait

    def late(task: Any, future: Any) -> None:
        workers = dask.workers.workers.values()
        for worker in [one for one in workers if task.key in one.data and not closed]:
            closed.append(worker.address)
            dask.workers.sync(worker.close, executor_wait=False, nanny=False)
            if stopped:
                threading.Timer(0.1, stop).start()
        hand_on(task, future)
        handed_on.set()

    monkeypatch.setattr(cluster, "_hand_on", late)
    engine = engine_of(dask.client, monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(engine._executed, SPEC)
        try:
            if stopped:
                assert "taken back" in str(run.exception(HANG_S))
            else:
                assert run.result(HANG_S)[0] not in closed and closed
            assert handed_on.wait(HANG_S)
        finally:
            engine.stop()


@pytest.mark.parametrize(
    ("name", "kind", "is_taken"),
    [
        ("logs/job.log", tarfile.REGTYPE, True),
        ("logs", tarfile.DIRTYPE, True),
        ("../outside", tarfile.REGTYPE, False),
        ("logs/../../outside", tarfile.REGTYPE, False),
        ("/etc/passwd", tarfile.REGTYPE, False),
        ("link", tarfile.SYMTYPE, False),
        ("device", tarfile.CHRTYPE, False),
    ],
)
def test_a_worker_writes_nothing_outside_of_its_run(name: str, kind: bytes, is_taken: bool) -> None:
    """Also with Debian 12's Python, whose tarfile has no filters."""
    member = tarfile.TarInfo(name)
    member.type = kind
    assert stays_inside(member) == is_taken
