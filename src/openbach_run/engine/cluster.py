# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the workers of a Dask cluster, in place of the virtual engine of this machine.

A worker executes a run with the virtual engine of its own checkout and sends the run's directory back. It refuses
runs of another kernel, guest tree or code than its own: their packets would be others. Dask gives the runs of a
worker that dies to the others; a run is kept here as soon as it is done, so no finished one is lost or repeated.
"""

from __future__ import annotations

import fcntl
import io
import math
import os
import socket
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openbach_run.additions import Uses
from openbach_run.engine.contract import Outcome
from openbach_run.engine.virtual.engine import VirtualEngine, guest_code
from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY, cache_directory
from openbach_run.progress import Progress

if TYPE_CHECKING:
    from distributed import Client

CONNECT_LIMIT_S = 10
LOOK_S = 2
WORKERS_LIMIT_S = 60
"""How long a cluster may have no worker (a nanny starts another one in the place of one that died)."""
Parts = tuple[tuple[str, str], ...]
"""The jobs and folders that a campaign uses (see `guest_code`), on the worker as here."""


class ClusterEngine:
    """An engine (see `executor.Engine`) whose `run` waits for a worker of the cluster; call it from many threads."""

    def __init__(self, virtual: VirtualEngine, scheduler: str, parts: Mapping[str, Path]) -> None:
        """`virtual`, of this machine, says what a run's identity is; `scheduler` is `tcp://HOST:PORT`."""
        self._virtual = virtual
        self._scheduler = scheduler
        self._parts: Parts = tuple((place, _portable(folder)) for place, folder in parts.items())
        self._futures: set[Any] = set()
        self._lock = threading.Lock()
        self._workers: list[str] = []
        self._seen_s, self._looked_s = time.monotonic(), -math.inf

    def prepare(self, progress: Progress) -> None:
        """Raises SetupError when the scheduler does not answer."""
        self._virtual.prepare(progress)
        self._client = _client(self._scheduler)
        self._expect_workers()  # who is there at the beginning: they may die before anybody asks again

    def identity_of(self, uses: Uses) -> dict[str, str]:
        return self._virtual.identity_of(uses)

    @property
    def packages(self) -> tuple[str, ...]:
        return self._virtual.packages

    def run(
        self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: Callable[[Mapping[str, Any]], None]
    ) -> Outcome:
        """Raises SetupError when a worker refuses the run, when one after the other died of it, and when there is none."""
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        future = self._client.submit(execute, dict(spec), self._parts, key=f"openbach-run-{run_dir.stem}", pure=False)
        with self._lock:
            self._futures.add(future)
        try:
            outcome, files = self._result(future)
        except KilledWorker as error:
            raise SetupError(f"the Dask workers died of this run: {error}") from error
        except FutureCancelledError as error:
            raise SetupError("the run was taken back from the Dask cluster, or its scheduler is gone") from error
        except ModuleNotFoundError as error:
            raise SetupError(f"{error} on a Dask worker; start workers as docs/clusters.md says") from error
        finally:
            with self._lock:
                self._futures.discard(future)
        with tarfile.open(fileobj=io.BytesIO(files)) as archive:
            archive.extractall(run_dir, [one for one in archive if one.isreg() or one.isdir()], filter="data")
        return outcome

    def _result(self, future: Any) -> tuple[Outcome, bytes]:
        """Raises SetupError when there is no worker for it and none comes."""
        while True:
            try:
                done: tuple[Outcome, bytes] = future.result(LOOK_S)
                return done
            except TimeoutError:
                self._expect_workers()

    def _expect_workers(self) -> None:
        """All that wait ask, and the scheduler is asked once."""
        with self._lock:
            now_s = time.monotonic()
            if now_s - self._looked_s < LOOK_S:
                return
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
            self._looked_s = now_s = time.monotonic()
            if workers:
                self._workers = sorted(f"{one.get('name')} ({address})" for address, one in workers.items())
                self._seen_s = now_s
        if now_s - self._seen_s > WORKERS_LIMIT_S:
            gone = f"; the last ones were {', '.join(self._workers[:3])}" if self._workers else ""
            raise SetupError(
                f"the Dask cluster at {self._scheduler} has had no worker for {WORKERS_LIMIT_S} s{gone}. What finished is "
                "kept; start workers as docs/clusters.md says, and the same command goes on from there"
            )

    def stop(self) -> None:
        """Takes back what has not begun; what a worker is running ends there and is dropped."""
        with self._lock:
            futures = list(self._futures)
        self._client.cancel(futures)


def execute(spec: dict[str, Any], parts: Parts) -> tuple[Outcome, bytes]:
    """On a worker: the run's outcome, and its directory as a tar file. Raises SetupError when this machine differs."""
    engine = _worker_engine(parts)
    here = engine.identity_of(spec["uses"])
    if differing := [name for name, value in here.items() if spec["identity"].get(name) != value]:
        raise SetupError("\n  ".join([
            f"the Dask worker on {socket.gethostname()} refuses the run: {REPOSITORY} there is not what the campaign has",
            *(f"{name}: {here[name]} there, {spec['identity'].get(name)} here" for name in differing),
            "bring both to the same commit and package lists (remove kernel-* and image-* of the older cache)",
        ]))  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="openbach-run-") as name, _free_cpu() as cpu:
        run_dir = Path(name) / "run"
        run_dir.mkdir()
        outcome = engine.run(spec, run_dir, cpu, lambda event: None)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            tar.add(run_dir, ".", filter=lambda one: one if one.isreg() or one.isdir() else None)
    return outcome, archive.getvalue()


@cache
def _client(scheduler: str) -> Client:
    from distributed import Client

    try:
        return Client(scheduler, timeout=CONNECT_LIMIT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise SetupError(f"no Dask scheduler answers at {scheduler}: {error}") from error


@cache
def _worker_engine(parts: Parts) -> VirtualEngine:
    folders = {place: REPOSITORY / folder for place, folder in parts}
    engine = VirtualEngine(REPOSITORY, guest_code(REPOSITORY, folders))
    engine.prepare(lambda text, part: print(f"{part:4.0%}  {text}", flush=True))
    return engine


def _portable(folder: Path) -> str:
    """Relative to the checkout where it is in it, so that the worker's may lie elsewhere."""
    place = folder.resolve()
    return str(place.relative_to(REPOSITORY) if place.is_relative_to(REPOSITORY) else place)


@contextmanager
def _free_cpu() -> Iterator[int]:
    """A CPU that no other worker of this machine uses for a run; any if all are taken."""
    cpus = sorted(os.sched_getaffinity(0))
    cache_directory().mkdir(parents=True, exist_ok=True)
    for cpu in cpus:
        with (cache_directory() / f"cpu-{cpu}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield cpu
            return
    yield cpus[0]
