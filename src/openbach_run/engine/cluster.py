# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the workers of a Dask cluster, in place of the virtual engine of this machine.

A worker executes a run with the virtual engine of its own checkout and sends the run's directory back. It refuses
runs of another kernel, guest tree or code than its own: their packets would be others. Dask gives the runs of a
worker that dies to the others; a run is kept here as soon as it is done, so no finished one is lost or repeated.

A worker may still give other packets than it should: of bad memory, say. So its first run, and then one of CHECK_EVERY, is
executed a second time elsewhere. If that gives other packets, this machine decides between the two, the worker that is
wrong gets no more runs, and those that it has done since its last check are done by others.
"""

from __future__ import annotations

import fcntl
import io
import logging
import math
import os
import random
import socket
import tarfile
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from openbach_run.additions import Uses
from openbach_run.engine.contract import Outcome, Withdrawn
from openbach_run.engine.virtual.engine import VirtualEngine, guest_code
from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY, cache_directory
from openbach_run.progress import Progress
from openbach_run.results import run_files
from openbach_run.results.record import FINISHED, LEFT_OUT

if TYPE_CHECKING:
    from distributed import Client

CONNECT_LIMIT_S = 10
LOOK_S = 2
WORKERS_LIMIT_S = 60
"""How long a cluster may have no worker (a nanny starts another one in the place of one that died)."""
CHECK_EVERY = 100
"""Runs of a worker from one that is executed elsewhere too to the next: how many a wrong worker can cost."""
Parts = tuple[tuple[str, str], ...]
"""The jobs and folders that a campaign uses (see `guest_code`), on the worker as here."""
Executed = tuple[str, Outcome, bytes]
"""A worker's address, and of a run of it the outcome and what it has left: its directory as a tar file, packed as in the
results if it has finished."""


class ClusterEngine:
    """An engine (see `executor.Engine`) whose `run` waits for a worker of the cluster; call it from many threads."""

    def __init__(self, virtual: VirtualEngine, scheduler: str, parts: Mapping[str, Path]) -> None:
        """`virtual`, of this machine, says what a run's identity is; `scheduler` is `tcp://HOST:PORT`."""
        self._virtual = virtual
        self._scheduler = scheduler
        self._parts: Parts = tuple((place, _portable(folder)) for place, folder in parts.items())
        self._futures: set[Any] = set()
        self._lock = threading.Lock()
        self._workers: dict[str, str] = {}
        """What those that were there last are called, by address."""
        self._unchecked: dict[str, list[str]] = {}
        """Runs since the last check of a worker that has passed one, by address."""
        self._wrong: set[str] = set()
        self._first = threading.Lock()
        """Held while this machine executes what no other worker can check."""
        self._checks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
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
        """Raises SetupError when a worker refuses the run, when one after the other died of it, and when there is none;
        Withdrawn when the worker that did it is wrong."""
        worker, outcome, files = self._executed(spec, run_dir.stem)
        if outcome.status == FINISHED:
            with self._lock:
                check = self._checks[worker]
            with check:  # what comes from the worker meanwhile waits
                self._check(worker, outcome, spec, run_dir.stem)
        with tarfile.open(fileobj=io.BytesIO(files)) as archive:
            archive.extractall(run_dir, [one for one in archive if one.isreg() or one.isdir()], filter="data")
        return outcome

    def _executed(self, spec: Mapping[str, Any], name: str, on: str | None = None) -> Executed:
        """By a worker that nothing is known against, or if it is there by the one asked for."""
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        workers = [on] if on else self._right_ones()
        future = self._client.submit(
            execute, dict(spec), self._parts, key=f"openbach-run-{name}-{uuid4().hex}", pure=False,
            workers=workers, allow_other_workers=workers is not None,  # when these have gone
        )  # fmt: skip
        with self._lock:
            self._futures.add(future)
        try:
            return self._result(future)
        except KilledWorker as error:
            raise SetupError(f"the Dask workers died of this run: {error}") from error
        except FutureCancelledError as error:
            raise SetupError("the run was taken back from the Dask cluster, or its scheduler is gone") from error
        except ModuleNotFoundError as error:
            raise SetupError(f"{error} on a Dask worker; start workers as docs/clusters.md says") from error
        finally:
            with self._lock:
                self._futures.discard(future)

    def _right_ones(self) -> list[str] | None:
        """The workers that may get a run; None as long as all may."""
        if not self._wrong:
            return None
        self._expect_workers(0)
        if right := [address for address in self._workers if address not in self._wrong]:
            return right
        raise SetupError(f"all workers of the Dask cluster at {self._scheduler} give other packets than this machine")

    def _check(self, worker: str, outcome: Outcome, spec: Mapping[str, Any], name: str) -> None:
        """Raises Withdrawn if the worker is wrong, and keeps count if this run is not to be checked."""
        with self._lock:
            if worker in self._wrong:
                raise Withdrawn(
                    [name], f"{self._called(worker)} gives other packets than this machine: a run is repeated"
                )
            since = self._unchecked.get(worker)
            if since is not None and len(since) < CHECK_EVERY - 1:
                since.append(name)
                return
        with self._first:
            if alone := not self._others(worker):
                self._judge(worker, _same(outcome, self._here(spec)), name)
        if alone:
            return
        other, second, _ = self._executed(spec, name, random.choice(self._others(worker)))
        if other != worker and _same(outcome, second):
            self._judge(worker, True, name)
        elif _same(outcome, here := self._here(spec)):
            self._judge(other, _same(second, here), name)
        else:
            self._judge(worker, False, name)

    def _others(self, worker: str) -> list[str]:
        """That have passed a check."""
        return [one for one in list(self._unchecked) if one != worker and one in self._workers]

    def _judge(self, worker: str, right: bool, name: str) -> None:
        with self._lock:
            since = self._unchecked.pop(worker, [])
            if right:
                self._unchecked[worker] = []
                return
            self._wrong.add(worker)
        raise Withdrawn([*since, name], (
            f"{self._called(worker)} gives other packets than this machine: it gets no more runs, and {len(since) + 1} of "
            "those that it has done are repeated elsewhere"
        ))  # fmt: skip

    def _here(self, spec: Mapping[str, Any]) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="openbach-run-") as place, _free_cpu() as cpu:
            return self._virtual.run(spec, Path(place), cpu, lambda event: None)

    def _called(self, worker: str) -> str:
        return f"the Dask worker {self._workers.get(worker, worker)}"

    def _result(self, future: Any) -> Executed:
        """Raises SetupError when there is no worker for it and none comes. Asked for a result that is on its way when the time
        is over, Dask (2026.8) ends in an UnboundLocalError: so it is asked when there is one."""
        ended = threading.Event()
        future.add_done_callback(lambda _: ended.set())
        while True:
            try:
                while not ended.wait(LOOK_S):
                    self._expect_workers()
                done: Executed = future.result(WORKERS_LIMIT_S)
                return done
            except TimeoutError:  # its worker has died, and another one is to execute it again
                self._expect_workers()

    def _expect_workers(self, look_s: float = LOOK_S) -> None:
        """All that wait ask, and the scheduler is asked once in so many seconds."""
        with self._lock:
            now_s = time.monotonic()
            if now_s - self._looked_s < look_s:
                return
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
            self._looked_s = now_s = time.monotonic()
            if workers:
                self._workers = {address: f"{one.get('name')} ({address})" for address, one in sorted(workers.items())}
            if workers.keys() - self._wrong:
                self._seen_s = now_s
        if now_s - self._seen_s > WORKERS_LIMIT_S:
            gone = f"; the last ones were {', '.join([*self._workers.values()][:3])}" if self._workers else ""
            raise SetupError(
                f"the Dask cluster at {self._scheduler} has had no worker for {WORKERS_LIMIT_S} s{gone}. What finished is "
                "kept; start workers as docs/clusters.md says, and the same command goes on from there"
            )

    def stop(self) -> None:
        """Takes back what has not begun; what a worker is running ends there and is dropped."""
        self._virtual.stop()
        with self._lock:
            futures = list(self._futures)
        self._client.cancel(futures)


def execute(spec: dict[str, Any], parts: Parts) -> Executed:
    """On a worker. Raises SetupError when this machine differs."""
    from distributed import get_worker

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
        if outcome.status == FINISHED:
            run_files.pack(run_dir, LEFT_OUT)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(run_dir, ".", filter=lambda one: one if one.isreg() or one.isdir() else None)
    return get_worker().address, outcome, archive.getvalue()


def _same(one: Outcome, other: Outcome) -> bool:
    return (one.status, one.capture_hash) == (other.status, other.capture_hash)


@cache
def _client(scheduler: str) -> Client:
    from distributed import Client

    logging.getLogger("asyncio").addFilter(_is_of_interest)
    try:
        return Client(scheduler, timeout=CONNECT_LIMIT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise SetupError(f"no Dask scheduler answers at {scheduler}: {error}") from error


def _is_of_interest(log: logging.LogRecord) -> bool:
    """False of the trace that Dask's gather leaves when what it waits for is taken back: its caller is told as well."""
    from distributed.client import AllExit

    return not (log.exc_info and isinstance(log.exc_info[1], AllExit))


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
