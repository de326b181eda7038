# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of a cluster beside its guests (`tools/dev tools/bench/cluster.py`).

64 workers, whose runs take 2 s (made up; they leave the files of real ones), at a real Dask
scheduler, and the command with `--scheduler`.

    wall       from the first run's start to the last one's end, over that of workers that never
               wait
    CPU        of scheduler and command, a run and as a share of the wall time; the workers' is not
               counted: elsewhere they have CPUs of their own, here they share these. What the
               scheduler takes with idle workers is named too

The first run of each worker, and then one in a hundred, is executed twice (engine/cluster.py):
these count as runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psutil
import scale
from distributed import Client, Worker

from openbach_run.campaign import engines
from openbach_run.commands import main
from openbach_run.engine import cluster
from openbach_run.engine.contract import OnEvent, Outcome

READY_LIMIT_S = 120
IDLE_S = 10
PROCESSES = 8
"""That the workers are in: threads of one would wait for each other."""


class Engine(scale.Engine):
    """A guest that takes `run_s` of wall time and no CPU."""

    def __init__(self, run_s: float) -> None:
        super().__init__()
        self._run_s = run_s
        self.runs = 0

    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: OnEvent) -> Outcome:
        """Leave a real run's files after the time that it takes here."""
        self.runs += 1
        due_s = time.monotonic() + self._run_s
        outcome = super().run(spec, run_dir, cpu, lambda event: None)
        time.sleep(max(0.0, due_s - time.monotonic()))
        return outcome


async def work(scheduler: str, numbers: range, run_s: float) -> None:
    """Keep workers in this process, until it is ended."""
    engine = Engine(run_s)
    # The worker's own code around an engine that takes a fixed time: what is measured is the rest.
    cluster._worker_engine = lambda code: engine  # type: ignore[assignment]
    async with AsyncExitStack() as stack:
        for number in numbers:
            await stack.enter_async_context(
                Worker(scheduler, nthreads=1, name=f"worker-{number}", dashboard_address=None)
            )
        # For ever: the parent kills this process.
        await asyncio.Event().wait()


def campaign(scheduler: str, runs: int, run_s: float, results: Path) -> None:
    """Execute the command in this process, and print what it took as JSON."""
    here = Engine(run_s)
    setattr(engines, "VirtualEngine", lambda *_, **__: here)  # noqa: B010 - a name that it imports
    times_s: list[float] = []
    executed, ask, result_of = 0, cluster.ClusterExecutor._ask, cluster._result_of

    def timed(self: Any, *arguments: Any) -> None:
        times_s.append(time.monotonic())
        ask(self, *arguments)

    def counted(task: Any) -> Any:
        nonlocal executed
        came = result_of(task)
        times_s.append(time.monotonic())
        assert not isinstance(came, Exception), came
        executed += len(came[1])
        return came

    cluster.ClusterExecutor._ask = timed  # type: ignore[method-assign,assignment]
    cluster._result_of = counted
    words = [
        "geo_loss",
        "vpn=none",
        "pep=none",
        "cc=cubic",
        "loss=0",
        "--seeds",
        str(runs),
        "--results",
        str(results),
        "--quiet",
        "--scheduler",
        scheduler,
    ]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        before_s = time.process_time()
        code = main.main(words)
        cpu_s = time.process_time() - before_s - here.own_s
    assert code == 0, printed.getvalue()
    print(
        json.dumps(
            {
                "wall_s": max(times_s) - min(times_s),
                "cpu_s": cpu_s,
                "executed": executed,
                "here": here.runs,
            }
        )
    )


def cpu_s_of(process: subprocess.Popen[bytes]) -> float:
    """Return the CPU time in s of a process, in user mode and in the kernel."""
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


def measure() -> None:
    """Print wall time and CPU time of the campaign on the made-up cluster."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--run-s", type=float, default=2.0)
    parser.add_argument("--runs", type=int, default=1920)
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    match given.part:
        case ["work", scheduler, first]:
            asyncio.run(work(scheduler, range(int(first), given.workers, PROCESSES), given.run_s))
            return
        case ["campaign", scheduler, results]:
            campaign(scheduler, given.runs, given.run_s, Path(results))
            return
    same = ["--workers", str(given.workers), "--run-s", str(given.run_s), "--runs", str(given.runs)]
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = place / "scheduler.json"

        def start(*command: str) -> subprocess.Popen[bytes]:
            started = stack.enter_context(
                subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL)
            )
            stack.callback(started.kill)
            return started

        os.environ["DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL"] = (
            "1s"  # as docs/clusters.md starts it
        )
        local = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        scheduler = start("-m", "dask", "scheduler", "--scheduler-file", str(file), *local)
        due_s = time.monotonic() + READY_LIMIT_S
        while not file.exists():
            assert time.monotonic() < due_s, (
                f"the Dask scheduler did not start within {READY_LIMIT_S} s"
            )
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        for first in range(PROCESSES):
            start(__file__, *same, "--part", "work", address, str(first))
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(given.workers, READY_LIMIT_S)
        # First of workers that have nothing to do: heartbeats are a cost of their own.
        at_start_s = cpu_s_of(scheduler)
        time.sleep(IDLE_S)
        before_s = cpu_s_of(scheduler)
        command = [
            sys.executable,
            __file__,
            *same,
            "--part",
            "campaign",
            address,
            str(place / "results"),
        ]
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, cwd=scale.REPOSITORY
        )
        scheduler_s = cpu_s_of(scheduler) - before_s
    took = json.loads(done.stdout.splitlines()[-1])
    least_s = took["executed"] * given.run_s / given.workers
    wall_s = took["wall_s"]
    twice = took["executed"] - given.runs
    print(
        f"{given.runs} runs of {given.run_s:g} s on {given.workers} workers; {twice} twice there,"
        f" {took['here']} here too"
    )
    print(f"wall       {wall_s:.1f} s, at least {least_s:.1f} s: {wall_s / least_s - 1:+.1%}")
    for name, cpu_s in (("scheduler", scheduler_s), ("command", took["cpu_s"])):
        print(
            f"{name:10} {cpu_s / given.runs * 1e3:.1f} ms of CPU a run: {cpu_s / wall_s:.1%} of the"
            " wall time"
        )
    print(f"{'':10} the scheduler with idle workers: {(before_s - at_start_s) / IDLE_S:.1%}")


if __name__ == "__main__":
    measure()
