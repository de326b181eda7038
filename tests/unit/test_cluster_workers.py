# SPDX-License-Identifier: GPL-3.0-or-later
"""How a cluster's workers get runs, and what becomes of those of a worker that dies."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from distributed import Client, KilledWorker
from helpers import fake_cluster
from helpers.fake_cluster import BATCH_RUNS, RUNS, Cluster, Worker, cluster_of, once
from helpers.fake_engine import FakeEngine, few_files
from helpers.waiting import HANG_S, wait_for

from openbach_run.engine import cluster
from openbach_run.engine.cluster import ClusterExecutor, _in_words, stays_inside
from openbach_run.errors import SetupError
from openbach_run.results.record import Record
from openbach_run.results.store import Store


def test_a_batch_has_seeds_of_one_cell_and_a_worker_has_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[list[tuple[str, int]]] = []
    most = 0
    ask = ClusterExecutor._ask

    def counted(self: Any, batch: Any, *arguments: Any) -> None:
        nonlocal most
        sent.append([(one.planned.spec.values["vpn"], one.planned.spec.seed) for one in batch])
        ask(self, batch, *arguments)
        most = max(most, len(self._going))

    monkeypatch.setattr(ClusterExecutor, "_ask", counted)
    with cluster_of({"a": Worker(), "b": Worker()}, monkeypatch) as made:
        assert len(made.execute(tmp_path).records) == RUNS
    batches = [one for one in sent if len(one) > 1]
    assert max(map(len, batches)) == BATCH_RUNS
    assert all(len({vpn for vpn, _ in one}) == 1 for one in batches)
    assert [len(one) for one in sent][-2:] == [1, 1], "at the end none has much to do"
    assert most <= 3, "and a check beside them"


def test_runs_of_the_first_seed_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster_of({"a": Worker()}, monkeypatch) as made:
        executor, order = ClusterExecutor(made.address), list[int]()
        for one in made.planned():
            seed = one.spec.seed
            executor.submit(cast(Any, lambda _, seed=seed: order.append(seed)), seed, one)
        while not executor.wait(1):
            pass
    assert order[:2] == [0, 0] and order[2:] != sorted(order[2:])
    assert len(order) == RUNS


def test_a_worker_ends_its_batch_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker()
    monkeypatch.setattr(cluster, "BATCH_S", 0)
    with cluster_of({"a": worker}, monkeypatch) as made:
        assert len(made.execute(tmp_path, 20).records) == 20
    assert Counter(worker.got).most_common(1)[0][1] == 1, "the others were sent anew"


def test_a_worker_closes_and_only_the_batch_that_it_had_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, gate = {name: Worker() for name in "abc"}, threading.Event()
    with cluster_of(workers, monkeypatch) as made:

        def close() -> None:
            threading.Thread(target=made.close, args=("b",)).start()
            gate.wait(HANG_S)

        workers["b"].before = once(close, 5)
        execution = made.execute(tmp_path)
        gate.set()
    got = Counter(run for one in workers.values() for run in one.got)
    assert len(execution.records) == len(got) == RUNS and not execution.failed
    assert sum(got.values()) + made.here.runs <= RUNS + BATCH_RUNS + 4 + RUNS // 6, "and checks"
    assert {record.status for record in Store(tmp_path).all()} == {"Finished Ok"}


def test_a_worker_closes_before_its_result_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask then waited for that very worker, and the whole campaign did."""
    result_of, closed = cluster._result_of, list[str]()
    with cluster_of({name: Worker() for name in "ab"}, monkeypatch) as made:

        def late(task: Any) -> Any:
            holders = [
                name
                for name, worker in made.dask.workers.items()
                if task.key in worker.data and not closed
            ]
            for name in holders[:1]:
                closed.append(name)
                made.close(name)
            return result_of(task)

        monkeypatch.setattr(cluster, "_result_of", late)
        assert len(made.execute(tmp_path).records) == RUNS
    assert closed


def test_what_finished_before_an_error_in_its_batch_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker()

    def fail(number: int) -> None:
        if worker.got.count(("none", 2)) or number >= 2:
            raise OSError(28, "No space left on device")

    worker.before = fail
    with (
        cluster_of({"a": worker}, monkeypatch) as made,
        pytest.raises(OSError, match="No space left"),
    ):
        made.execute(tmp_path)
    assert len(Store(tmp_path).all()) == 2


def test_what_a_worker_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster_of({"a": Worker()}, monkeypatch) as made:
        made.workers["a"].identity_of = lambda uses: {"engine": "another", "clock": "virtual"}  # type: ignore[method-assign]
        with pytest.raises(SetupError) as refused:
            made.execute(tmp_path)
    assert "refuses the run" in str(refused.value)
    assert "engine: another there, made up here" in str(refused.value)


def test_a_campaign_that_is_interrupted_takes_its_runs_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, begun, go_on = Worker(), threading.Event(), threading.Event()

    def wait(number: int) -> None:
        begun.set()
        go_on.wait(HANG_S)

    worker.before = wait
    with cluster_of({"a": worker}, monkeypatch) as made:
        keep = ClusterExecutor.wait

        def interrupted(self: Any, limit_s: float) -> bool:
            if begun.is_set():
                raise KeyboardInterrupt
            return keep(self, limit_s)

        monkeypatch.setattr(ClusterExecutor, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            made.execute(tmp_path)
        wait_for(lambda: not made.dask.scheduler.tasks, "the end of the tasks")
        go_on.set()
    assert not Store(tmp_path).all()


def test_no_worker_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "WORKERS_LIMIT_S", 0.05)
    with (
        cluster_of({}, monkeypatch) as made,
        pytest.raises(SetupError, match=r"has had no worker for 0.05 s. What finished is kept"),
    ):
        made.execute(tmp_path)


def test_a_scheduler_that_goes_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster_of({}, monkeypatch) as made:
        executor = ClusterExecutor(made.address)
        executor._client.close()
        executor.submit(lambda cpu: None, 0, made.planned(2)[0])
        with pytest.raises(SetupError, match=r"the scheduler of the Dask cluster at .* is gone"):
            executor.wait(1)


def test_runs_that_workers_die_of_are_told() -> None:
    last = SimpleNamespace(address="tcp://10.0.0.9:1")
    told = [str(_in_words(KilledWorker("task", cast(Any, last), 3), count)) for count in (1, 7)]
    assert told == [
        f"4 Dask workers died of {what}, one after the other, at last tcp://10.0.0.9:1"
        for what in ("this run", "one of these 7 runs")
    ]


MADE_UP = """
from openbach_run.engine import cluster
from helpers.fake_cluster import Worker
worker = Worker()
cluster._worker_engine = lambda code: worker
"""


def test_a_worker_is_killed_and_nothing_is_lost_or_kept_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes of Dask's own, as on other machines."""
    preload = tmp_path / "made_up.py"
    preload.write_text(MADE_UP)
    place = Path(fake_cluster.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{place}:{place.parent / 'src'}"}
    local = ("--host", "127.0.0.1", "--no-dashboard")
    file = tmp_path / "scheduler.json"
    with ExitStack() as stack:

        def start(*words: str) -> subprocess.Popen[bytes]:
            begun = subprocess.Popen(
                [sys.executable, "-m", "dask", *words, "--scheduler-file", str(file), *local],
                env=environment,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(begun.wait)
            stack.callback(begun.kill)
            return begun

        start("scheduler", "--port", "0")
        wait_for(file.exists, "the scheduler")
        worker = "worker", "--nthreads", "1", "--no-nanny", "--preload", str(preload)
        first, _ = [start(*worker, "--local-directory", str(tmp_path)) for _ in range(2)]
        with Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(2, HANG_S)
            address = str(client.scheduler_info()["address"])
        kept: list[str] = []
        keep = Store.keep

        def counted(self: Store, place: Path, record: Record) -> Path:
            kept.append(record.run_id)
            if len(kept) == 100:
                first.kill()
            return keep(self, place, record)

        monkeypatch.setattr(Store, "keep", counted)
        made = Cluster(address, {}, FakeEngine(few_files), None)
        execution = made.execute(tmp_path / "results", 400)
    assert len(kept) == len(set(kept)) == len(execution.records) == 400
    assert len(Store(tmp_path / "results").all()) == 400


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
