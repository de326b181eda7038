# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the workers of a Dask cluster, in place of the virtual engine of this machine.

A worker executes runs with the virtual engine of its own checkout and sends their directories back.
It refuses runs of another kernel, guest tree or code than its own: their packets would be others.

A task of Dask is a batch of runs, most of them seeds of one cell. Dask gives it to a worker that
has nothing to do, and to another one if that worker dies. A worker ends its batch after BATCH_S,
and what it has not begun is sent anew: so no more than that is lost with a worker. There are as
many tasks as the workers have threads, however many runs wait here.

A worker may still give other packets than it should: of bad memory, say. So one of its first runs,
and then one of CHECK_EVERY, is executed a second time elsewhere. If that gives other packets, this
machine decides between the two, the worker that is wrong gets no more runs, and those that it has
done since its last check are done by others.
"""

from __future__ import annotations

import fcntl
import io
import math
import os
import queue
import socket
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from openbach_run.engine.contract import OnEvent, Outcome, Withdrawn
from openbach_run.engine.local import LocalEngine
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY, cache_directory
from openbach_run.results import run_files
from openbach_run.results.record import FINISHED, LEFT_OUT

if TYPE_CHECKING:
    from distributed import Client

CONNECT_LIMIT_S = 10
LOOK_S = 2
WORKERS_LIMIT_S = 60
"""Limit of a cluster's time without a worker (a nanny starts another one in the place of one that
died)."""
BATCH_S, BATCH_RUNS = 10, 20
"""Time after which a worker begins no further run of its batch, and the most runs of a batch."""
CHECK_EVERY = 100
"""Runs of a worker from one that is executed elsewhere too to the next: how many a wrong worker can
cost, with those that it does while it is checked."""
Code = tuple[tuple[str, str], ...]
"""The folders that a guest gets to see (`LocalEngine.code_folders`), on the worker as here."""
Spec = Mapping[str, Any]
Left = tuple[Outcome, bytes]
"""Outcome of a run and what it has left: its directory as a tar file, packed as in the results
if it has finished."""
Done = tuple[str, list[Left]]
"""Result of a batch: the worker, and what the first of its runs have left."""


@dataclass(eq=False)
class _Run:
    """A run that waits: `task` is called when it has come back."""

    task: Callable[[int], None]
    later: bool
    planned: Any
    """A PlannedRun of the virtual engine (campaign/execute.py)."""

    @property
    def name(self) -> str:
        """Return the name of its record."""
        return str(self.planned.spec.run_id)


@dataclass(eq=False)
class _Check:
    """A batch that is kept when somebody else has repeated one of its runs."""

    worker: str
    run: _Run
    outcome: Outcome
    done: list[tuple[_Run, Left]]
    unchecked: int
    """Number of the worker's runs that it decides on."""


class ClusterExecutor:
    """An executor (see campaign/executor.py) whose tasks are called when their runs come back.

    All of it happens in the thread that waits.
    """

    def __init__(self, scheduler: str) -> None:
        """Raises SetupError when the scheduler does not answer."""
        self._scheduler, self._client = scheduler, _client(scheduler)
        self._waiting: tuple[deque[_Run], deque[_Run]] = deque(), deque()
        """Runs that come first, and runs that come later."""
        self._lowest = math.inf
        self._unfinished = self._orders = 0
        self._going: dict[int, tuple[Any, Collection[str]]] = {}
        """The tasks that the scheduler has; of a check with the workers that may do it."""
        self._came: queue.SimpleQueue[tuple[int, Callable[[Any], None], Any]] = queue.SimpleQueue()
        self._threads: dict[str, int] = {}
        """The workers that get runs, by address."""
        self._names: dict[str, str] = {}
        """Names of the workers that were there last, by address."""
        self._seen_s, self._looked_s = time.monotonic(), -math.inf
        self._wrong: set[str] = set()
        self._since: dict[str, list[str]] = {}
        """Finished runs since the last check of a worker."""
        self._passed: set[str] = set()
        self._checks: list[_Check] = []
        self._left: dict[str, Left | Exception] = {}
        """Results of the runs that are kept next, by name."""

    def submit(self, task: Callable[[int], None], priority: float = 0, run: Any = None) -> None:
        """Add a task that keeps a run; those of the lowest number come first."""
        self._unfinished += 1
        self._lowest = min(self._lowest, priority)
        # All others as they came: seeds of one cell follow one another.
        waits = _Run(task, priority > self._lowest, run)
        self._waiting[waits.later].append(waits)

    def run(self, spec: Spec, run_dir: Path, cpu: int, on_event: OnEvent) -> Outcome:
        """Put what a worker has left into the run's directory, in place of an engine's `run`.

        Raises SetupError when a worker refuses the run, or when one after the other died of it;
        Withdrawn when a worker is wrong.
        """
        left = self._left.pop(run_dir.stem)
        if isinstance(left, Exception):
            raise left
        outcome, files = left
        with tarfile.open(fileobj=io.BytesIO(files)) as archive:
            # Debian 12's Python, 3.11.2, has no filter: names are looked at here, too.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(run_dir, filter(stays_inside, archive))
        return outcome

    def wait(self, limit_s: float) -> bool:
        """Keep what comes, for at most this time; return whether all tasks have ended.

        Raises SetupError when the scheduler is gone, and when there is no worker and none comes.
        """
        self._look()
        self._send()
        with suppress(queue.Empty):
            number, keep, came = self._came.get(timeout=limit_s)
            del self._going[number]
            keep(came)
        return not self._unfinished

    def close(self) -> None:
        """Take back what the workers have not begun; what they are running is dropped."""
        for task, _ in self._going.values():
            task.cancel()

    def _look(self) -> None:
        """Ask the scheduler who is there, once in LOOK_S."""
        if time.monotonic() - self._looked_s < LOOK_S:
            return
        self._looked_s = time.monotonic()
        if self._client.status != "running":
            raise SetupError(f"the scheduler of the Dask cluster at {self._scheduler} is gone")
        live = self._client.scheduler_info(n_workers=-1)["workers"]
        self._threads = {at: info["nthreads"] for at, info in live.items() if at not in self._wrong}
        if live:
            self._names = {at: f"{info.get('name')} ({at})" for at, info in sorted(live.items())}
        if self._threads:
            self._seen_s = self._looked_s
        elif self._wrong and self._names.keys() <= self._wrong:
            raise SetupError(
                f"all workers of the Dask cluster at {self._scheduler} give other packets than this"
                " machine"
            )
        elif self._looked_s - self._seen_s > WORKERS_LIMIT_S:
            last = ", ".join([*self._names.values()][:3])
            raise SetupError(
                f"the Dask cluster at {self._scheduler} has had no worker for {WORKERS_LIMIT_S} s"
                f"{last and f'; the last ones were {last}'}. What finished is kept; start workers"
                " as docs/clusters.md says, and the same command goes on from there"
            )
        for task, workers in self._going.values():
            if workers and not self._threads.keys() & workers:
                task.cancel()  # Dask would wait for these very workers

    def _send(self) -> None:
        threads = sum(self._threads.values())
        while any(self._waiting) and len(self._going) < threads:
            waiting = self._waiting[not self._waiting[0]]
            # Smaller ones to the end, so that no worker has much to do when others have nothing.
            size = min(BATCH_RUNS, math.ceil(sum(map(len, self._waiting)) / (2 * threads)))
            batch = [waiting.popleft() for _ in range(min(size, len(waiting)))]
            self._ask(batch, partial(self._keep, batch))

    def _ask(
        self, batch: Sequence[_Run], keep: Callable[[Any], None], workers: Collection[str] = ()
    ) -> None:
        number = self._orders = self._orders + 1
        sent: list[tuple[Spec, Code]] = []
        before = None
        for run in batch:
            spec = run.planned.spec
            # A cell's spec is made, and sent, once for its seeds.
            guest = sent[-1][0] if spec.cell is before else spec.for_guest()
            sent.append(({**guest, "seed": spec.seed}, _portable(run.planned.engine)))
            before = spec.cell
        task = self._client.submit(
            execute,
            sent,
            workers=sorted(workers) or None,
            priority=1 if workers else 0,
            pure=False,  # a check is the same run with the same arguments once more
        )
        self._going[number] = task, workers
        task.add_done_callback(lambda done: self._came.put((number, keep, _result_of(done))))

    def _keep(self, batch: Sequence[_Run], came: Done | Exception) -> None:
        """Have the runs of a batch kept, unless one of them is to be checked first."""
        if isinstance(came, CancelledError):
            self._again(batch)
            return
        if isinstance(came, Exception):
            self._end(batch[0], _in_words(came, len(batch)))
            return
        worker, lefts = came
        self._again(batch if worker in self._wrong else batch[len(lefts) :])
        if worker in self._wrong:
            return
        done = list(zip(batch, lefts, strict=False))
        finished = [(run, left[0]) for run, left in done if left[0].status == FINISHED]
        since = self._since.setdefault(worker, [])
        since += [run.name for run, _ in finished]
        due = worker not in self._passed or len(since) >= CHECK_EVERY
        if due and finished and all(check.worker != worker for check in self._checks):
            self._check(_Check(worker, *finished[-1], done, len(since)))
            return
        for run, left in done:
            self._end(run, left)

    def _again(self, runs: Sequence[_Run]) -> None:
        for run in reversed(runs):
            self._waiting[run.later].appendleft(run)

    def _end(self, run: _Run, came: Left | Exception) -> None:
        self._unfinished -= 1
        self._left[run.name] = came
        run.task(0)

    def _check(self, check: _Check) -> None:
        """Have a run repeated by another worker; here if it is the first of all, or the only."""
        if check not in self._checks:
            self._checks.append(check)
        others = self._threads.keys() - {check.worker}
        if self._passed and others:
            self._ask([check.run], partial(self._checked, check), others)
        else:
            self._judge(check, None, _here(check.run))

    def _checked(self, check: _Check, came: Done | Exception) -> None:
        if check not in self._checks:
            return
        if isinstance(came, CancelledError):
            self._check(check)
        elif isinstance(came, Exception):
            self._end(check.run, _in_words(came, 1))
        else:
            other, ((outcome, _),) = came
            self._judge(check, other, outcome)

    def _judge(self, check: _Check, by: str | None, second: Outcome) -> None:
        """Keep a checked batch, and have what a wrong worker did repeated.

        `by` is who has repeated its run; None if this machine has.
        """
        wrong = None
        if not _same(check.outcome, second):
            right = by is not None and _same(check.outcome, _here(check.run))
            wrong = by if right else check.worker
        if wrong != check.worker:
            self._checks.remove(check)
            self._passed.add(check.worker)
            del self._since[check.worker][: check.unchecked]
            for run, left in check.done:
                if run is not check.run or wrong is None:
                    self._end(run, left)
        if wrong is not None:
            self._exclude(wrong, check.run)

    def _exclude(self, worker: str, run: _Run) -> None:
        """Give a wrong worker no more runs, and have those that it did repeated: `run` with them.

        `run` has not been kept.
        """
        self._wrong.add(worker)
        self._threads.pop(worker, None)
        self._client.retire_workers([worker])
        self._looked_s = -math.inf
        names = {*self._since.pop(worker, ()), run.name}
        kept = set(names)
        for check in [check for check in self._checks if check.worker == worker]:
            self._checks.remove(check)
            held = [again for again, _ in check.done if again is not run]
            self._again(held)
            kept -= {again.name for again in held}
        self._end(
            run,
            Withdrawn(
                kept,
                f"the Dask worker {self._names.get(worker, worker)} gives other packets than this"
                f" machine: it gets no more runs, and {len(names)} of those that it has done are"
                " repeated elsewhere",
            ),
        )


def execute(runs: Sequence[tuple[Spec, Code]]) -> Done:
    """Execute a batch on a worker, in one of its threads, or the first runs of it.

    Raises SetupError when this machine differs.
    """
    from distributed import get_worker

    end_s, done = time.monotonic() + BATCH_S, list[Left]()
    for spec, code in runs:
        try:
            done.append(_executed(spec, code))
        except Exception:
            if not done:
                raise
            break  # it is sent anew, and then says so
        if time.monotonic() > end_s:
            break
    return get_worker().address, done


def _executed(spec: Spec, code: Code) -> Left:
    engine = _worker_engine(code)
    here, wanted = engine.identity_of(spec["uses"]), spec["identity"]
    if differing := [name for name, value in here.items() if wanted.get(name) != value]:
        raise SetupError(
            f"the Dask worker on {socket.gethostname()} refuses the run: {REPOSITORY} there is not"
            " what the campaign has\n  "
            + "\n  ".join(f"{key}: {here[key]} there, {wanted.get(key)} here" for key in differing)
            + "\n  bring both to the same commit and package lists (remove kernel-* and image-* of"
            " the older cache)"
        )
    with tempfile.TemporaryDirectory(prefix="openbach-run-") as name, _free_cpu() as cpu:
        folder = Path(name) / "run"
        folder.mkdir(0o700)
        outcome = engine.run(spec, folder, cpu, lambda event: None)
        if outcome.status == FINISHED:
            run_files.pack(folder, LEFT_OUT)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(folder, ".", filter=lambda file: file if file.isreg() or file.isdir() else None)
    return outcome, archive.getvalue()


def _here(run: _Run) -> Outcome:
    """Execute a run on this machine, to check a worker."""
    engine: VirtualEngine = run.planned.engine
    with tempfile.TemporaryDirectory(prefix="openbach-run-") as place, _free_cpu() as cpu:
        return engine.run(run.planned.spec.for_guest(), Path(place), cpu, lambda event: None)


def _result_of(task: Any) -> Done | Exception:
    try:
        done: Done = task.result()
    except Exception as error:  # CancelledError too, which is concurrent.futures' own
        return error
    return done


def _in_words(error: Exception, runs: int) -> Exception:
    """Return the error of a task as one for a person."""
    from distributed import KilledWorker

    if isinstance(error, ModuleNotFoundError):
        return SetupError(f"{error} on a Dask worker; start workers as docs/clusters.md says")
    if isinstance(error, KilledWorker):
        return SetupError(
            f"{error.allowed_failures + 1} Dask workers died of {'this run' * (runs == 1)}"
            f"{f'one of these {runs} runs' * (runs > 1)}, one after the other, at last"
            f" {getattr(error.last_worker, 'address', error.last_worker)}"
        )
    return error


def stays_inside(member: tarfile.TarInfo) -> bool:
    """Return whether a member is a file or a folder below the directory it is unpacked in."""
    path = PurePosixPath(member.name)
    is_below = not path.is_absolute() and ".." not in path.parts
    return is_below and (member.isreg() or member.isdir())


def _same(first: Outcome, other: Outcome) -> bool:
    return (first.status, first.capture_hash) == (other.status, other.capture_hash)


@cache
def _client(scheduler: str) -> Client:
    from distributed import Client

    try:
        return Client(scheduler, timeout=CONNECT_LIMIT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise SetupError(f"no Dask scheduler answers at {scheduler}: {error}") from error


@cache
def _worker_engine(code: Code) -> VirtualEngine:
    engine = VirtualEngine(REPOSITORY, {place: REPOSITORY / folder for place, folder in code})
    engine.prepare(lambda text, part: print(f"{part:4.0%}  {text}", flush=True))
    return engine


def _portable(engine: LocalEngine) -> Code:
    """Return the folders of code; a worker may have the checkout elsewhere, so relative to it."""
    folders = []
    for place, folder in engine.code_folders.items():
        real = folder.resolve()
        inside = real.is_relative_to(REPOSITORY)
        folders.append((place, str(real.relative_to(REPOSITORY) if inside else real)))
    return tuple(folders)


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
