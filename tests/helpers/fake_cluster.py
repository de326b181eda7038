# SPDX-License-Identifier: GPL-3.0-or-later
"""A Dask cluster in this process: its scheduler and workers are Dask's, their engine is made up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import distributed
import pytest

from helpers.fake_engine import FakeEngine, few_files
from helpers.plans import planned
from openbach_run.campaign.execute import Execution, PlannedRun
from openbach_run.engine import cluster
from openbach_run.engine.cluster import ClusterExecutor
from openbach_run.engine.contract import Outcome
from openbach_run.progress import Reporter
from openbach_run.results.store import Store

CHECK_EVERY = 10
BATCH_RUNS = 4
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

    def __init__(self, hash_of: Hash = right) -> None:
        super().__init__(few_files)
        self._hash_of = hash_of
        self.got: list[tuple[str, int]] = []

    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: Any) -> Outcome:
        self.got.append((spec["arguments"]["vpn"], spec["seed"]))
        return replace(
            super().run(spec, run_dir, cpu, on_event), capture_hash=self._hash_of(self.runs - 1)
        )


@dataclass
class Cluster:
    """What a test needs of the cluster; `here` is the engine of the machine with the command."""

    address: str
    workers: Mapping[str, Worker]
    here: FakeEngine
    dask: Any

    def planned(self, runs: int = RUNS) -> list[PlannedRun]:
        """Return so many runs of two cells."""
        settings = "vpn=none,wireguard", "loss=0"
        return planned(self.here, *settings, seeds=tuple(range(runs // 2)))

    def execute(self, place: Path, runs: int = RUNS) -> Execution:
        """Execute runs of two cells as a command does."""
        reporter, store = Reporter(quiet=False), Store(place)
        execution = Execution(self.planned(runs), store, reporter.show, reporter.say)
        with store.opened():
            execution.execute([0], ClusterExecutor(self.address))
        return execution

    def close(self, name: str) -> None:
        """End a worker in the midst of what it does."""
        self.dask.sync(self.dask.workers[name].close, executor_wait=False, nanny=False)


@contextmanager
def cluster_of(workers: Mapping[str, Worker], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A scheduler with a worker of one thread for each of these engines."""
    monkeypatch.setattr(
        cluster, "_worker_engine", lambda code: workers[distributed.get_worker().name]
    )
    monkeypatch.setattr(cluster, "CHECK_EVERY", CHECK_EVERY)
    monkeypatch.setattr(cluster, "BATCH_RUNS", BATCH_RUNS)
    monkeypatch.setattr(cluster, "LOOK_S", 0.01)
    local: dict[str, Any] = {"dashboard_address": None, "host": "127.0.0.1"}
    scheduler = {"cls": distributed.Scheduler, "options": {"port": 0, **local}}
    with distributed.SpecCluster(
        {
            name: {"cls": distributed.Worker, "options": {"nthreads": 1, **local}}
            for name in workers
        },
        scheduler,
        silence_logs=50,
    ) as dask:
        yield Cluster(dask.scheduler_address, workers, FakeEngine(few_files), dask)
        cluster._client(dask.scheduler_address).close()


def once(action: Callable[[], None], number: int) -> Callable[[int], None]:
    """Return what does this before the run of that number, once."""
    done = threading.Event()

    def before(run: int) -> None:
        if run == number and not done.is_set():
            done.set()
            action()

    return before
