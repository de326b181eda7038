# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers of a cluster whose packets are wrong, on a Dask client that is made up: what they cost,
and what is said of them.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from test_scale import Engine, planned

from openbach_run.campaign.execute import Execution
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
        self.got: list[tuple[str, int]] = []

    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: Any) -> Outcome:
        self.got.append((spec["arguments"]["vpn"], spec["seed"]))
        return replace(
            super().run(spec, run_dir, cpu, on_event), capture_hash=self._hash_of(self.runs - 1)
        )


class Address:
    """A worker as Dask's connections reach it: one thread, which executes what it is sent."""

    def __init__(self, address: str, workers: Mapping[str, Worker]) -> None:
        self._address, self._workers = address, workers
        self.executor = ThreadPoolExecutor(1, thread_name_prefix=address)
        self.now = self.most = 0
        """Runs that it has, and had at most."""

    async def identity(self) -> dict[str, Any]:
        return {}

    async def run(self, function: bytes, args: bytes) -> dict[str, Any]:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return {
                "status": "OK",
                "result": await pickle.loads(function)(*pickle.loads(args), self),
            }
        except Exception as error:
            return {"status": "error", "exception": error}
        finally:
            self.now -= 1
            if self._address not in self._workers:  # it has died meanwhile
                raise ConnectionResetError


class Client:
    """A scheduler that knows workers, and ways to them."""

    status = "running"

    def __init__(self, workers: dict[str, Worker], monkeypatch: pytest.MonkeyPatch) -> None:
        self.workers = workers
        self.rpc = cache(partial(Address, workers=workers))
        self.loop = SimpleNamespace(asyncio_loop=asyncio.new_event_loop())
        threading.Thread(target=self.loop.asyncio_loop.run_forever, daemon=True).start()
        monkeypatch.setattr(
            cluster,
            "_worker_engine",
            lambda parts: self.workers[threading.current_thread().name.split("_")[0]],
        )

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {
            "workers": {
                address: {"name": address.upper(), "nthreads": 1} for address in list(self.workers)
            }
        }


def execute(
    hashes: Mapping[str, Hash], place: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Mapping[str, Worker], Engine]:
    """Eighty runs on workers that make these captures.

    Who has done how many: the workers, and this machine.
    """
    workers, here = {name: Worker(hash_of) for name, hash_of in hashes.items()}, Engine()
    execute_by(Client(dict(workers), monkeypatch), here, place, monkeypatch)
    return workers, here


def execute_by(client: Client, here: Engine, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_client", lambda scheduler: client)
    monkeypatch.setattr(cluster, "CHECK_EVERY", CHECK_EVERY)
    engine = ClusterEngine(cast(Any, here), "tcp://made-up:8786", {})
    engine.prepare(lambda text, part: None)
    runs = planned(cast(Any, engine), "vpn=none,wireguard", "loss=0", seeds=tuple(range(RUNS // 2)))
    store = Store(place)
    reporter = Reporter(quiet=False)
    execution = Execution(runs, store, reporter.show, reporter.say)
    with store.opened():
        execution.execute([0] * 4)
    assert not execution.failed
    assert {one.name for one in store.runs.iterdir()} == {one.spec.run_id for one in runs}
    assert len((place / "results.csv").read_text().splitlines()) == 1 + RUNS


def captures(place: Path) -> Counter[str]:
    return Counter(record.capture_hash for record in Store(place).all())


class OnItsWay(Future[Any]):
    """As a future of Dask's, whose result must not be asked for with a time-out that ends as the
    result comes.
    """

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            raise UnboundLocalError(
                "cannot access local variable 'result' where it is not associated with a value"
            )
        return super().result(timeout)


def test_a_result_is_asked_for_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of some 2 s, after which a look at the workers was due, ended the campaign."""
    monkeypatch.setattr(
        cluster, "_client", lambda scheduler: Client({"a": Worker(right)}, monkeypatch)
    )
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


def test_right_workers_are_checked_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, here = execute({"a": right, "b": right}, tmp_path, monkeypatch)
    assert here.runs == 1, "the first run of all; after it the workers check each other"
    done = sum(one.runs for one in workers.values())
    assert RUNS + 1 <= done <= RUNS + 2 * (RUNS // CHECK_EVERY)


def test_a_single_worker_is_checked_by_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    with pytest.raises(
        SetupError,
        match=r"all workers of the Dask cluster at tcp://made-up:8786 give other packets",
    ):
        execute({"a": wrong, "b": wrong}, tmp_path, monkeypatch)
    assert not captures(tmp_path)


def test_a_record_from_a_worker_is_that_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is packed where it was executed, and once."""
    execute({"a": right}, tmp_path / "there", monkeypatch)
    here = Engine()
    store, reporter = Store(tmp_path / "here"), Reporter(quiet=True)
    runs = planned(here, "vpn=none", "loss=0", seeds=(1,))
    with store.opened():
        Execution(runs, store, reporter.show, reporter.say).execute([0])
    (record,) = store.all()
    files = {file.name: file.read_bytes() for file in (store.runs / record.run_id).iterdir()}
    there = next(
        one
        for one in Store(tmp_path / "there").all()
        if one.arguments == record.arguments and one.seed == 1
    )
    found = {
        file.name: file.read_bytes() for file in (tmp_path / "there/runs" / there.run_id).iterdir()
    }
    assert found.keys() == files.keys()
    assert {name for name in files if files[name] != found[name]} <= {"record.json"}
    assert replace(there, command=record.command, packages=record.packages) == record
    assert (
        run_files.content(tmp_path / "there/runs" / there.run_id, "jobs/1_vpn_box/stdout")
        == b"1_vpn_box\n"
    )
