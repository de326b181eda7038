# SPDX-License-Identifier: GPL-3.0-or-later
"""A Dask cluster that is made up: a client and its workers."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import pytest

from helpers.fake_engine import FakeEngine, few_files
from helpers.plans import planned
from openbach_run.campaign.execute import Execution
from openbach_run.engine import cluster
from openbach_run.engine.cluster import ClusterEngine
from openbach_run.engine.contract import Outcome
from openbach_run.progress import Reporter
from openbach_run.results.record import Store

CHECK_EVERY = 10
RUNS = 80
Hash = Callable[[int], str]
"""A worker's capture, by how many it has made before."""


def right(number: int) -> str:
    """Return the hash of the fake engine's captures."""
    return "ab"


def wrong(number: int) -> str:
    """Return a hash that nobody else has."""
    return f"wrong {number}"


def wrong_after(good: int) -> Hash:
    """Return the hashes of a worker whose first captures are right."""
    return lambda number: right(number) if number < good else wrong(number)


class Worker(FakeEngine):
    """The engine of a worker, whose captures have the hashes of `hash_of`."""

    def __init__(self, hash_of: Hash) -> None:
        super().__init__(few_files)
        self._hash_of = hash_of
        self.got: list[tuple[str, int]] = []

    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: Any) -> Outcome:
        self.got.append((spec["arguments"]["vpn"], spec["seed"]))
        return replace(
            super().run(spec, run_dir, cpu, on_event), capture_hash=self._hash_of(self.runs - 1)
        )


class Address:
    """A worker as Dask's scheduler has it: one thread, which executes what is submitted."""

    def __init__(self, address: str, workers: Mapping[str, Worker]) -> None:
        self._address, self._workers = address, workers
        self.executor = ThreadPoolExecutor(1, thread_name_prefix=address)
        self.now = self.most = 0
        """Runs that it has, and had at most."""

    def execute(self, task: Future[Any], function: Callable[..., Any], *arguments: Any) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            left, error = function(*arguments), None
        except Exception as raised:
            left, error = None, raised
        self.now -= 1
        # Of a worker that has died meanwhile the scheduler hears nothing.
        if self._address in self._workers:
            task.set_exception(error) if error else task.set_result(left)


class Client:
    """A scheduler that knows workers, and passes tasks to them."""

    status = "running"

    def __init__(self, workers: dict[str, Worker], monkeypatch: pytest.MonkeyPatch) -> None:
        self.workers = workers
        self.at = cache(partial(Address, workers=workers))
        monkeypatch.setattr(
            cluster,
            "_worker_engine",
            lambda parts: self.workers[threading.current_thread().name.split("_")[0]],
        )

    def submit(
        self, function: Callable[..., Any], *arguments: Any, workers: list[str], pure: bool
    ) -> Future[Any]:
        assert not pure, "the same run again is another one: it checks the first"
        task: Future[Any] = Future()
        place = self.at(workers[0])
        sent = pickle.loads(pickle.dumps((function, *arguments)))
        place.executor.submit(lambda: place.execute(task, *sent))
        return task

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {
            "workers": {
                address: {"name": address.upper(), "nthreads": 1} for address in list(self.workers)
            }
        }


def execute_by(
    client: Client, here: FakeEngine, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Execute RUNS runs on the workers of a client, with checks `here`."""
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
