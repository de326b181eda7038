# SPDX-License-Identifier: GPL-3.0-or-later
"""A Dask cluster that is made up: a client, its workers, the ways to them."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
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
