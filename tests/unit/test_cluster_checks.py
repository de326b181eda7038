# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers of a cluster whose packets are wrong: what they cost, and what is said of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.fake_cluster import (
    BATCH_RUNS,
    CHECK_EVERY,
    RUNS,
    Hash,
    Worker,
    cluster_of,
    right,
    wrong,
    wrong_after,
)
from helpers.fake_engine import FakeEngine, few_files
from helpers.plans import planned

from openbach_run.campaign.execute import Execution
from openbach_run.errors import SetupError
from openbach_run.progress import Reporter
from openbach_run.results import run_files
from openbach_run.results.store import Store


def execute(
    hashes: Mapping[str, Hash], place: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Mapping[str, Worker], FakeEngine]:
    """Eighty runs on workers that make these captures.

    Who has done how many: the workers, and this machine.
    """
    workers = {name: Worker(hash_of) for name, hash_of in hashes.items()}
    with cluster_of(workers, monkeypatch) as cluster:
        execution = cluster.execute(place)
    assert not execution.failed and len(execution.records) == RUNS
    assert len((place / "results.csv").read_text().splitlines()) == 1 + RUNS
    assert captures(place) == {"ab": RUNS}
    return workers, cluster.here


def captures(place: Path) -> Counter[str]:
    return Counter(record.capture_hash for record in Store(place).all())


def test_right_workers_are_checked_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, here = execute({"a": right, "b": right}, tmp_path, monkeypatch)
    done = sum(one.runs for one in workers.values())
    assert here.runs >= 1, "the first run of all; then the workers check each other"
    assert RUNS + 1 < done + here.runs <= RUNS + 2 + RUNS // (CHECK_EVERY - BATCH_RUNS)


def test_a_single_worker_is_checked_by_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, here = execute({"a": right}, tmp_path, monkeypatch)
    assert workers["a"].runs == RUNS
    assert RUNS // (CHECK_EVERY + BATCH_RUNS) <= here.runs <= 1 + RUNS // CHECK_EVERY


@pytest.mark.parametrize("good", [0, 3])
def test_a_wrong_worker_costs_its_runs_and_nothing_else(
    good: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workers, _ = execute({"a": right, "b": wrong_after(good), "c": right}, tmp_path, monkeypatch)
    assert workers["b"].runs <= good + CHECK_EVERY + 4 * BATCH_RUNS, "no more once it is known"
    told = capsys.readouterr().err
    assert "the Dask worker b (tcp://" in told
    assert "gives other packets than this machine: it gets no more runs, and" in told


def test_a_worker_that_is_wrong_as_it_checks_another_is_the_wrong_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    execute({"a": wrong_after(5), "b": right}, tmp_path, monkeypatch)
    told = capsys.readouterr().err
    assert "worker a (tcp://" in told and "worker b" not in told


def test_all_workers_are_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = {"a": Worker(wrong), "b": Worker(wrong)}
    with (
        cluster_of(workers, monkeypatch) as cluster,
        pytest.raises(SetupError, match=r"all workers of the Dask cluster at tcp://127.0.0.1:"),
    ):
        cluster.execute(tmp_path)
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
