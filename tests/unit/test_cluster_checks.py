# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers of a cluster whose packets are wrong, on a Dask client that is made up.

What they cost, and what is said of them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from helpers.fake_cluster import (
    CHECK_EVERY,
    RUNS,
    Client,
    Hash,
    Worker,
    execute_by,
    right,
    wrong,
    wrong_after,
)
from helpers.fake_engine import FakeEngine, few_files
from helpers.plans import planned

from openbach_run.campaign.execute import Execution
from openbach_run.engine import cluster
from openbach_run.engine.cluster import ClusterEngine
from openbach_run.errors import SetupError
from openbach_run.progress import Reporter
from openbach_run.results import run_files
from openbach_run.results.record import Store


def execute(
    hashes: Mapping[str, Hash], place: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Mapping[str, Worker], FakeEngine]:
    """Eighty runs on workers that make these captures.

    Who has done how many: the workers, and this machine.
    """
    workers, here = (
        {name: Worker(hash_of) for name, hash_of in hashes.items()},
        FakeEngine(few_files),
    )
    execute_by(Client(dict(workers), monkeypatch), here, place, monkeypatch)
    return workers, here


def captures(place: Path) -> Counter[str]:
    return Counter(record.capture_hash for record in Store(place).all())


class OnItsWay(Future[Any]):
    """A future as Dask has them.

    Its result must not be asked for with a time-out that ends as the result comes.
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
    engine = ClusterEngine(cast(Any, FakeEngine(few_files)), "tcp://made-up:8786", {})
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
    here = FakeEngine(few_files)
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
