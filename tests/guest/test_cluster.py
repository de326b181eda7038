# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign on a real Dask scheduler and workers, all on this machine.

One dies in the middle, one does not fit, one gives other packets.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import Client
from helpers.guest_runs import REPOSITORY, command, copy_of_the_checkout, rows

READY_LIMIT_S = 180
DASK = ("-m", "dask")
WRONG = """
from dataclasses import replace
from dask.__main__ import main
from openbach_run.engine.virtual.engine import VirtualEngine as Engine
run = Engine.run
Engine.run = lambda self, *arguments: replace(run(self, *arguments), capture_hash="0" * 64)
main()
"""
"""A worker whose captures are not those of other machines."""
CELLS = (
    *("geo_loss", "noise=off", "vpn=none,wireguard", "cc=bbr,cubic", "loss=0,1", "size=1M"),
    *("--seeds", "2"),
)
RECORDS = f"runs/{'?' * 16}/record.json"
"""Of runs that are kept: the directory of another one is called RUN_ID.unfinished."""


@contextmanager
def process(
    *arguments: str, checkout: Path = REPOSITORY, dask: tuple[str, ...] = DASK, **options: Any
) -> Iterator[subprocess.Popen[Any]]:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    words = [sys.executable, *dask, *arguments]
    with subprocess.Popen(words, env=environment, **options) as started:
        try:
            yield started
        finally:
            started.kill()


def wait_for(state: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + READY_LIMIT_S
    while not state():
        assert time.monotonic() < end, f"{what} did not come in {READY_LIMIT_S} s"
        time.sleep(0.05)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Callable[..., list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and n workers, of which the last ones may be wrong: `cluster(n)`.

    The scheduler's address is in a file, `cluster.address`.
    """
    with ExitStack() as stack:

        def start(
            workers: int, checkout: Path = REPOSITORY, wrong: int = 0
        ) -> list[subprocess.Popen[bytes]]:
            file = tmp_path / "scheduler.json"
            local = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
            stack.enter_context(process("scheduler", "--scheduler-file", str(file), *local))
            wait_for(file.exists, "the scheduler")
            of_worker = (
                "--scheduler-file",
                str(file),
                "--nthreads",
                "1",
                "--no-nanny",
                "--no-dashboard",
            )
            started = [
                stack.enter_context(
                    process(
                        *(
                            "worker",
                            *of_worker,
                            "--name",
                            f"worker-{n}",
                            "--local-directory",
                            str(tmp_path / str(n)),
                        ),
                        checkout=checkout,
                        dask=("-c", WRONG) if n >= workers - wrong else DASK,
                    )
                )
                for n in range(workers)
            ]
            with Client(address(tmp_path), set_as_default=False) as client:
                client.wait_for_workers(workers, READY_LIMIT_S)
            return started

        yield start


def address(folder: Path) -> str:
    return str(json.loads((folder / "scheduler.json").read_text())["address"])


@pytest.mark.nightly
def test_a_worker_dies_and_nothing_is_lost_or_kept_twice(
    cluster: Callable[..., list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    first, _ = cluster(2)
    results = tmp_path / "results"
    arguments = [*CELLS, "--scheduler", address(tmp_path), "--results", str(results)]
    with process(*arguments, dask=("-m", "openbach_run"), cwd=REPOSITORY) as campaign:
        wait_for(lambda: len(list(results.glob(RECORDS))) >= 3, "the third record")
        kept = {file: file.stat().st_mtime_ns for file in results.glob(RECORDS)}
        first.kill()
        assert campaign.wait(300) == 0
    assert all(file.stat().st_mtime_ns == when for file, when in kept.items()), (
        "a finished run was run again"
    )
    assert len(list((results / "runs").iterdir())) == 16
    here = tmp_path / "here"
    assert command(*CELLS, "--results", str(here)).returncode == 0
    assert rows(results) == rows(here), "a run on the cluster is not what it is here"


@pytest.mark.nightly
def test_a_wrong_worker_costs_its_runs_and_nothing_else(
    cluster: Callable[..., list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    cluster(2, wrong=1)
    done = command(*CELLS, "--scheduler", address(tmp_path), "--results", str(tmp_path / "results"))
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"the Dask worker worker-1 \(tcp://\S+\) gives other packets than this machine", done.stderr
    )
    here = tmp_path / "here"
    assert command(*CELLS, "--results", str(here)).returncode == 0
    assert rows(tmp_path / "results") == rows(here)


@pytest.mark.nightly
def test_the_only_worker_dies(
    cluster: Callable[..., list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    (worker,) = cluster(1)
    limit = (
        "import openbach_run.engine.cluster as it; it.WORKERS_LIMIT_S = 3; from"
        " openbach_run.commands.main import main"
    )
    arguments = [
        *CELLS,
        "--seeds",
        "50",
        "--scheduler",
        address(tmp_path),
        "--results",
        str(tmp_path / "results"),
    ]
    shown: dict[str, Any] = {"cwd": REPOSITORY, "stderr": subprocess.PIPE, "text": True}
    code = ("-c", f"{limit}; raise SystemExit(main())")
    with process(*arguments, dask=code, **shown) as campaign:
        wait_for(
            lambda: len(list(tmp_path.glob("results/runs/*/record.json"))) >= 1, "the first record"
        )
        worker.kill()
        _, told = campaign.communicate(timeout=READY_LIMIT_S)
    assert campaign.returncode == 1
    assert (
        f"the Dask cluster at {address(tmp_path)} has had no worker for 3 s; the last ones were"
        " worker-0 (tcp://127.0.0.1:" in told
    )
    assert "Traceback" not in told


@pytest.mark.nightly
def test_a_worker_of_another_checkout_refuses(
    cluster: Callable[..., list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    other = copy_of_the_checkout(tmp_path / "other")
    with (other / "jobs/path_ready/files/path_ready.py").open("a") as file:
        file.write("changed = True\n")
    cluster(1, other)
    done = command(*CELLS, "--scheduler", address(tmp_path), "--results", str(tmp_path / "results"))
    assert done.returncode == 1
    assert "refuses the run" in done.stderr
    assert re.search(r"code: [0-9a-f]{16} there, [0-9a-f]{16} here", done.stderr)
    assert not list((tmp_path / "results/runs").glob("*/record.json"))


def test_no_scheduler(tmp_path: Path) -> None:
    done = command(
        *CELLS, "--scheduler", "tcp://127.0.0.1:9", "--results", str(tmp_path / "results")
    )
    assert done.returncode == 1
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in done.stderr
