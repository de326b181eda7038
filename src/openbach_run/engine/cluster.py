# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the workers of a Dask cluster, in place of the virtual engine of this machine.

A worker executes a run with the virtual engine of its own checkout and sends the run's directory
back. It refuses runs of another kernel, guest tree or code than its own: their packets would be
others. The run of a worker that dies goes to another one; a run is kept here as soon as it is done,
so no finished one is lost or repeated.

Dask's scheduler says which workers there are, and passes each run to one: a task that only the
worker that this machine names may execute. It is named here, as soon as it has nothing to do,
because who may execute a run depends on what is known of the workers' packets.

A worker may still give other packets than it should: of bad memory, say. So its first run, and then
one of CHECK_EVERY, is executed a second time elsewhere. If that gives other packets, this machine
decides between the two, the worker that is wrong gets no more runs, and those that it has done
since its last check are done by others.
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
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from openbach_run.catalog import Uses
from openbach_run.engine.contract import Outcome, Withdrawn
from openbach_run.engine.local import guest_code
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY, cache_directory
from openbach_run.progress import Progress
from openbach_run.results import run_files
from openbach_run.results.record import FINISHED, LEFT_OUT

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as Task

CONNECT_LIMIT_S = 10
LOOK_S = 2
DEATHS_LIMIT = 3
"""Workers that die of a run, one after the other."""
WORKERS_LIMIT_S = 60
"""How long a cluster may have no worker (a nanny starts another one in the place of one that
died)."""
CHECK_EVERY = 100
"""Runs of a worker from one that is executed elsewhere too to the next: how many a wrong worker can
cost."""
Parts = tuple[tuple[str, str], ...]
"""The jobs and folders that a campaign uses (see `guest_code`), on the worker as here."""
Left = tuple[Outcome, bytes]
"""Of a run the outcome and what it has left: its directory as a tar file, packed as in the results
if it has finished."""
Awaited = TypeVar("Awaited")


class Workers:
    """The workers of a cluster: which are there, which are idle, and what is known of them.

    All engines of a command share them, as `_client`.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.lock = threading.RLock()
        self.there: set[str] = set()
        """Addresses of those that may get runs."""
        self.names: dict[str, str] = {}
        """What those that were there last are called, by address."""
        self.seen_s = -math.inf
        """When there was one."""
        self.wrong: set[str] = set()
        self.unchecked: dict[str, list[str]] = {}
        """Runs since the last check of a worker that has passed one, by address."""
        self.checks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self.first = threading.Lock()
        """Held while this machine executes what no other worker can check."""
        self._looked_s = -math.inf
        self._free: list[str] = []
        """Addresses, each as often as the worker has threads with nothing to do."""
        self._wishes: list[tuple[Future[str], str | None]] = []
        self._going: dict[Future[Left], tuple[Task[Left], str]] = {}
        """The runs that workers have, each with its task at the scheduler and the worker."""

    def look(self, look_s: float) -> None:
        """Asks the scheduler who is there, for all that want to know once in so many seconds."""
        with self.lock:
            if time.monotonic() - self._looked_s < look_s:
                return
            self._looked_s = time.monotonic()
        found = self.client.scheduler_info(n_workers=-1)["workers"]
        with self.lock:
            if found:
                self.names = {
                    address: f"{one.get('name')} ({address})"
                    for address, one in sorted(found.items())
                }
            if found.keys() - self.wrong:
                self.seen_s = time.monotonic()
            for address in self.there - found.keys():
                self.lose(address)
            for task, address in list(self._going.values()):
                if address not in found:
                    task.cancel()
            for address in sorted(found.keys() - self.there - self.wrong):
                self.there.add(address)
                for _ in range(found[address]["nthreads"]):
                    self.give(address)

    def others(self, worker: str) -> Collection[str]:
        """Return the other workers that have passed a check."""
        return (self.unchecked.keys() & self.there) - {worker}

    def wish(self, checked: str | None) -> Future[str]:
        """A worker, as soon as one has nothing to do.

        To check another one, which comes first, one that has passed a check; any when these have
        gone.
        """
        wish: Future[str] = Future()
        with self.lock:
            self._wishes.insert(0 if checked else len(self._wishes), (wish, checked))
            self._match()
        return wish

    def give(self, address: str) -> None:
        """A thread of this worker has nothing to do."""
        with self.lock:
            if address in self.there:
                self._free.append(address)
                self._match()

    def lose(self, address: str) -> None:
        """Take a worker out: it gets no more runs.

        It gets some again if it is there at the next look and is not wrong.
        """
        with self.lock:
            self.there.discard(address)
            self._free = [one for one in self._free if one != address]
            self._match()

    def _match(self) -> None:
        for one in list(self._wishes):
            if not self._free:
                return
            wish, checked = one
            others = self.others(checked) if checked else ()
            address = next((free for free in self._free if not others or free in others), None)
            if address is not None:
                self._wishes.remove(one)
                if wish.set_running_or_notify_cancel():
                    self._free.remove(address)
                    wish.set_result(address)

    def ask(self, address: str, spec: Mapping[str, Any], parts: Parts) -> Future[Left]:
        """Send a run to a worker. The future is cancelled if the worker dies."""
        future: Future[Left] = Future()
        # Not pure: a check is the same run with the same arguments once more.
        task = self.client.submit(execute, dict(spec), parts, workers=[address], pure=False)
        with self.lock:
            self._going[future] = task, address

        def ended(task: Task[Left]) -> None:
            _hand_on(task, future)
            with self.lock:
                self._going.pop(future)
            self.give(address)

        task.add_done_callback(ended)
        future.add_done_callback(lambda one: task.cancel() if one.cancelled() else None)
        return future


def _hand_on(task: Task[Left], future: Future[Left]) -> None:
    """Give a future what has come of its task, unless nobody waits for it any more.

    The future is cancelled if the worker has died. Where it dies before its result is fetched, Dask
    waits for that worker until the task is cancelled, by `look` or with the future.
    """
    from distributed import KilledWorker

    try:
        left = task.result()
    except (CancelledError, KilledWorker):
        future.cancel()
    except Exception as error:
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
    else:
        if future.set_running_or_notify_cancel():
            future.set_result(left)


class ClusterEngine:
    """An engine (see engine/contract.py) whose `run` waits for a worker of the cluster.

    It is called from many threads.
    """

    def __init__(self, virtual: VirtualEngine, scheduler: str, parts: Mapping[str, Path]) -> None:
        """Make an engine at a scheduler (`tcp://HOST:PORT`).

        `virtual`, of this machine, says what a run's identity is.
        """
        self._virtual = virtual
        self._scheduler = scheduler
        self._parts: Parts = tuple((place, _portable(folder)) for place, folder in parts.items())
        self._futures: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._start_s = time.monotonic()

    def prepare(self, progress: Progress) -> None:
        """Raises SetupError when the scheduler does not answer."""
        self._virtual.prepare(progress)
        self._workers = _workers(_client(self._scheduler))
        self._expect_workers(
            0
        )  # who is there at the beginning: they may die before anybody asks again

    def look(self) -> str:
        """Return what is to be made on this machine before a run's name is known; "" if nothing."""
        return self._virtual.look()

    def identity_of(self, uses: Uses) -> dict[str, str]:
        """Return the identity of a run, which is the same on every worker."""
        return self._virtual.identity_of(uses)

    @property
    def packages(self) -> tuple[str, ...]:
        """Return names and versions of the Debian packages in the guest."""
        return self._virtual.packages

    def run(
        self,
        spec: Mapping[str, Any],
        run_dir: Path,
        cpu: int,
        on_event: Callable[[Mapping[str, Any]], None],
    ) -> Outcome:
        """Execute a run on a worker. Raises SetupError, Withdrawn.

        SetupError comes when a worker refuses the run, when one after the other died of it, and
        when there is none; Withdrawn when the worker that did it is wrong.
        """
        worker, outcome, files = self._executed(spec)
        if outcome.status == FINISHED:
            with self._workers.lock:
                check = self._workers.checks[worker]
            with check:  # what comes from the worker meanwhile waits
                self._check(worker, outcome, spec, run_dir.stem)
        with tarfile.open(fileobj=io.BytesIO(files)) as archive:
            # Debian 12's Python, 3.11.2, has no filter: names are looked at here, too.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(run_dir, filter(stays_inside, archive))
        return outcome

    def _executed(
        self, spec: Mapping[str, Any], checked: str | None = None
    ) -> tuple[str, Outcome, bytes]:
        """Execute a run on the next free worker; return its address, the outcome and the files.

        To check the worker `checked`, it is another one that has passed a check.
        """
        self._expect_right_ones()
        for _ in range(DEATHS_LIMIT):
            worker = self._awaited(self._workers.wish(checked))
            called = self._called(worker)
            try:
                return worker, *self._awaited(self._workers.ask(worker, spec, self._parts))
            except ModuleNotFoundError as error:
                raise SetupError(
                    f"{error} on a Dask worker; start workers as docs/clusters.md says"
                ) from error
            except CancelledError:
                self._stopped.wait(LOOK_S)  # then others that died with it are known to be gone
                self._expect_workers(0)
        raise SetupError(
            f"{DEATHS_LIMIT} Dask workers died of this run, one after the other, at last {called}"
        )

    def _awaited(self, future: Future[Awaited]) -> Awaited:
        with self._lock:
            self._futures.add(future)
        if self._stopped.is_set():
            future.cancel()
        try:
            return self._result(future)
        except CancelledError:
            if self._stopped.is_set():
                raise SetupError("the run was taken back from the Dask cluster") from None
            raise
        finally:
            with self._lock:
                self._futures.discard(future)

    def _expect_right_ones(self) -> None:
        known = self._workers
        if known.wrong and not known.there:
            self._expect_workers(0)
            if known.names.keys() <= known.wrong:
                raise SetupError(
                    f"all workers of the Dask cluster at {self._scheduler} give other packets than"
                    " this machine"
                )

    def _check(self, worker: str, outcome: Outcome, spec: Mapping[str, Any], name: str) -> None:
        """Check a worker now and then, and keep count. Raises Withdrawn if it is wrong."""
        known = self._workers
        with known.lock:
            if worker in known.wrong:
                raise Withdrawn(
                    [name],
                    f"{self._called(worker)} gives other packets than this machine: a run is"
                    " repeated",
                )
            since = known.unchecked.get(worker)
            if since is not None and len(since) < CHECK_EVERY - 1:
                since.append(name)
                return
        with known.first:
            if alone := not known.others(worker):
                self._judge(worker, _same(outcome, self._here(spec)), name)
        if alone:
            return
        other, second, _ = self._executed(spec, worker)
        if other != worker and _same(outcome, second):
            self._judge(worker, True, name)
        elif _same(outcome, here := self._here(spec)):
            self._judge(other, _same(second, here), name)
        else:
            self._judge(worker, False, name)

    def _judge(self, worker: str, right: bool, name: str) -> None:
        known = self._workers
        with known.lock:
            since = known.unchecked.pop(worker, [])
            if right:
                known.unchecked[worker] = []
                return
            known.wrong.add(worker)
            known.lose(worker)
        raise Withdrawn(
            [*since, name],
            f"{self._called(worker)} gives other packets than this machine: it gets no more runs,"
            f" and {len(since) + 1} of those that it has done are repeated elsewhere",
        )

    def _here(self, spec: Mapping[str, Any]) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="openbach-run-") as place, _free_cpu() as cpu:
            return self._virtual.run(spec, Path(place), cpu, lambda event: None)

    def _called(self, worker: str) -> str:
        return f"the Dask worker {self._workers.names.get(worker, worker)}"

    def _result(self, future: Future[Awaited]) -> Awaited:
        """Raises SetupError when there is no worker for it and none comes.

        It is asked for when it is there.
        """
        ended = threading.Event()
        future.add_done_callback(lambda _: ended.set())
        while not ended.wait(LOOK_S):
            self._expect_workers()
        return future.result()

    def _expect_workers(self, look_s: float | None = None) -> None:
        known = self._workers
        if known.client.status != "running":
            raise SetupError(f"the scheduler of the Dask cluster at {self._scheduler} is gone")
        known.look(LOOK_S if look_s is None else look_s)
        if time.monotonic() - max(self._start_s, known.seen_s) > WORKERS_LIMIT_S:
            gone = (
                f"; the last ones were {', '.join([*known.names.values()][:3])}"
                if known.names
                else ""
            )
            raise SetupError(
                f"the Dask cluster at {self._scheduler} has had no worker for {WORKERS_LIMIT_S}"
                f" s{gone}. What finished is kept; start workers as docs/clusters.md says, and the"
                " same command goes on from there"
            )

    def stop(self) -> None:
        """Takes back what has not begun; what a worker is running ends there and is dropped."""
        self._stopped.set()
        self._virtual.stop()
        with self._lock:
            futures = list(self._futures)
        for future in futures:
            future.cancel()


def execute(spec: Mapping[str, Any], parts: Parts) -> Left:
    """On a worker, in one of its threads. Raises SetupError when this machine differs."""
    engine = _worker_engine(parts)
    here = engine.identity_of(spec["uses"])
    if differing := [name for name, value in here.items() if spec["identity"].get(name) != value]:
        raise SetupError(
            "\n  ".join(
                [
                    (
                        f"the Dask worker on {socket.gethostname()} refuses the run: {REPOSITORY}"
                        " there is not what the campaign has"
                    ),
                    *(
                        f"{name}: {here[name]} there, {spec['identity'].get(name)} here"
                        for name in differing
                    ),
                    (
                        "bring both to the same commit and package lists (remove kernel-* and"
                        " image-* of the older cache)"
                    ),
                ]
            )
        )
    with tempfile.TemporaryDirectory(prefix="openbach-run-") as name, _free_cpu() as cpu:
        run_dir = Path(name) / "run"
        run_dir.mkdir(0o700)
        outcome = engine.run(spec, run_dir, cpu, lambda event: None)
        if outcome.status == FINISHED:
            run_files.pack(run_dir, LEFT_OUT)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(run_dir, ".", filter=lambda one: one if one.isreg() or one.isdir() else None)
    return outcome, archive.getvalue()


def stays_inside(member: tarfile.TarInfo) -> bool:
    """Return whether a member is a file or a folder below the directory it is unpacked in."""
    path = PurePosixPath(member.name)
    is_below = not path.is_absolute() and ".." not in path.parts
    return is_below and (member.isreg() or member.isdir())


def _same(one: Outcome, other: Outcome) -> bool:
    return (one.status, one.capture_hash) == (other.status, other.capture_hash)


@cache
def _client(scheduler: str) -> Client:
    from distributed import Client

    try:
        return Client(scheduler, timeout=CONNECT_LIMIT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise SetupError(f"no Dask scheduler answers at {scheduler}: {error}") from error


_workers = cache(Workers)
"""Of a client, always the same."""


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
    for cpu in cpus:
        with (cache_directory() / f"cpu-{cpu}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield cpu
            return
    yield cpus[0]
