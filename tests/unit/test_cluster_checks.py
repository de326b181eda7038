# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers of a cluster whose packets are wrong, on a Dask client that is made up: what they cost, and what is said of them."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import distributed
import pytest
from test_scale import Engine, planned

from openbach_run.campaign.execute import Executor
from openbach_run.engine import cluster
from openbach_run.engine.cluster import ClusterEngine
from openbach_run.engine.contract import Outcome
from openbach_run.errors import SetupError
from openbach_run.progress import Reporter
from openbach_run.results import run_files
from openbach_run.results.record import Store

CHECK_EVERY = 10
RUNS = 80
Hash = Callable[[int], str]
"""A worker's capture, by how many it has made before."""


def right(number: int) -> str:
    return "ab"  # as of the engine of this machine


def wrong(number: int) -> str:
    return f"wrong {number}"


def wrong_after(good: int) -> Hash:
    return lambda number: right(number) if number < good else wrong(number)


class Worker(Engine):
    def __init__(self, hash_of: Hash) -> None:
        super().__init__()
        self._hash_of = hash_of

    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: Any) -> Outcome:
        return replace(super().run(spec, run_dir, cpu, on_event), capture_hash=self._hash_of(self.runs - 1))


class Client:
    """Gives runs to the workers in turn, and executes them at once."""

    def __init__(self, workers: Mapping[str, Worker], monkeypatch: pytest.MonkeyPatch) -> None:
        self.workers = workers
        self._turn, self._lock = count(), threading.Lock()
        self._name = ""
        monkeypatch.setattr(cluster, "_worker_engine", lambda parts: self.workers[self._name])
        monkeypatch.setattr(distributed, "get_worker", lambda: SimpleNamespace(address=self._name))

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {address: {"name": address.upper()} for address in self.workers}}

    def submit(self, function: Callable[..., Any], *arguments: Any, workers: list[str] | None, **_: Any) -> Future[Any]:
        future = Future[Any]()
        with self._lock:
            names = workers or sorted(self.workers)
            self._name = names[next(self._turn) % len(names)]
            future.set_result(function(*arguments))
        return future

    def cancel(self, futures: Any) -> None: ...


def execute(
    hashes: Mapping[str, Hash], place: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Mapping[str, Worker], Engine]:
    """Eighty runs on workers that make these captures. Who has done how many: the workers, and this machine."""
    workers, here = {name: Worker(hash_of) for name, hash_of in hashes.items()}, Engine()
    client = Client(workers, monkeypatch)
    monkeypatch.setattr(cluster, "_client", lambda scheduler: client)
    monkeypatch.setattr(cluster, "CHECK_EVERY", CHECK_EVERY)
    engine = ClusterEngine(cast(Any, here), "tcp://made-up:8786", {})
    engine.prepare(lambda text, part: None)
    runs = planned(cast(Any, engine), "vpn=none,wireguard", "loss=0", seeds=tuple(range(RUNS // 2)))
    store = Store(place)
    executor = Executor(store, [0] * 4, False)
    with store.opened():
        executor.execute(runs, Reporter(quiet=False))
    assert not executor.failed
    assert {one.name for one in store.runs.iterdir()} == {one.spec.run_id for one in runs}
    assert len((place / "results.csv").read_text().splitlines()) == 1 + RUNS
    return workers, here


def captures(place: Path) -> Counter[str]:
    return Counter(record.capture_hash for record in Store(place).all())


class OnItsWay(Future[Any]):
    """As a future of Dask's, whose result must not be asked for with a time-out that ends as the result comes."""

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            raise UnboundLocalError("cannot access local variable 'result' where it is not associated with a value")
        return super().result(timeout)


def test_a_result_is_asked_for_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of some 2 s, after which a look at the workers was due, ended the campaign."""
    monkeypatch.setattr(cluster, "_client", lambda scheduler: Client({"a": Worker(right)}, monkeypatch))
    monkeypatch.setattr(cluster, "LOOK_S", 0.001)
    engine = ClusterEngine(cast(Any, Engine()), "tcp://made-up:8786", {})
    future, looked = OnItsWay(), threading.Event()
    monkeypatch.setattr(engine, "_expect_workers", looked.set)

    def end() -> None:
        looked.wait()
        future.set_result("done")

    worker = threading.Thread(target=end)
    worker.start()
    assert engine._result(future) == cast(Any, "done")
    worker.join()


def test_right_workers_are_checked_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers, here = execute({"a": right, "b": right}, tmp_path, monkeypatch)
    assert here.runs == 1, "the first run of all; after it the workers check each other"
    done = sum(one.runs for one in workers.values())
    assert RUNS + 1 <= done <= RUNS + 2 * (RUNS // CHECK_EVERY)


def test_a_single_worker_is_checked_by_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers, here = execute({"a": right}, tmp_path, monkeypatch)
    assert (workers["a"].runs, here.runs) == (RUNS, RUNS // CHECK_EVERY)


@pytest.mark.parametrize("good", [0, 3])
def test_a_wrong_worker_costs_its_runs_and_nothing_else(
    good: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workers, _ = execute({"a": right, "b": wrong_after(good), "c": right}, tmp_path, monkeypatch)
    assert captures(tmp_path) == {"ab": RUNS}
    assert workers["b"].runs <= good + CHECK_EVERY + 4, "no more once it is known"
    assert (
        "the Dask worker B (b) gives other packets than this machine: it gets no more runs, and"
        in capsys.readouterr().err
    )


def test_a_worker_that_is_wrong_as_it_checks_another_is_the_wrong_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    execute({"a": wrong_after(5), "b": right}, tmp_path, monkeypatch)
    assert captures(tmp_path) == {"ab": RUNS}
    told = capsys.readouterr().err
    assert "the Dask worker A (a) gives other packets" in told and "worker B" not in told


def test_all_workers_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match=r"all workers of the Dask cluster at tcp://made-up:8786 give other packets"):
        execute({"a": wrong, "b": wrong}, tmp_path, monkeypatch)
    assert not captures(tmp_path)


def test_a_record_from_a_worker_is_that_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is packed where it was executed, and once."""
    execute({"a": right}, tmp_path / "there", monkeypatch)
    here = Engine()
    store = Store(tmp_path / "here")
    with store.opened():
        Executor(store, [0], False).execute(planned(here, "vpn=none", "loss=0", seeds=(1,)), Reporter(quiet=True))
    (record,) = store.all()
    files = {file.name: file.read_bytes() for file in (store.runs / record.run_id).iterdir()}
    there = next(one for one in Store(tmp_path / "there").all() if one.arguments == record.arguments and one.seed == 1)
    found = {file.name: file.read_bytes() for file in (tmp_path / "there/runs" / there.run_id).iterdir()}
    assert found.keys() == files.keys()
    assert {name for name in files if files[name] != found[name]} <= {"record.json"}
    assert replace(there, command=record.command, packages=record.packages) == record
    assert run_files.content(tmp_path / "there/runs" / there.run_id, "jobs/1_vpn_box/stdout") == b"1_vpn_box\n"


def test_workers_that_go_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check asks for a worker by its address, and takes any other one when that has gone."""
    asked: list[dict[str, Any]] = []
    submit = Client.submit

    def noted(self: Client, *arguments: Any, **options: Any) -> Any:
        asked.append(options)
        return submit(self, *arguments, **options)

    monkeypatch.setattr(Client, "submit", noted)
    execute({"a": right, "b": right}, tmp_path, monkeypatch)
    named = [one for one in asked if one["workers"]]
    assert named and all(one["allow_other_workers"] for one in named)


def test_what_dask_leaves_of_runs_that_are_taken_back_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_LIMIT_S", 0.1)
    with pytest.raises(SetupError, match="no Dask scheduler answers"):
        cluster._client("tcp://127.0.0.1:9")

    async def leave(error: Exception) -> None:
        async def fail() -> None:
            raise error

        await asyncio.wait([asyncio.ensure_future(fail())])

    for error in (distributed.client.AllExit(), ValueError("of interest")):
        asyncio.run(leave(error))
    gc.collect()
    assert "of interest" in caplog.text
    assert "AllExit" not in caplog.text
