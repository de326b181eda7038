# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of the command in campaigns of 1 000 to 100 000 runs (`tools/dev tools/bench/scale.py`).

A made-up engine leaves at once what a guest leaves: 76 files and directories a run. What it takes
for that is not counted. Each step is a process of its own; `us a run` should not grow with the
number of runs. SCALE_SEEDS is the number of seeds of a cell (10), SCALE_DIR where results go (a
tmpfs spares the disk the files that each made-up guest leaves).

    plan       --dry-run with no results yet
    first      all runs, results.csv, results.parquet, the table
    resume     the same command again: all runs are there
    forecast   --dry-run with all results
    report     the technical report
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openbach_run.campaign import run
from openbach_run.catalog import Uses
from openbach_run.commands import main
from openbach_run.engine.contract import OnEvent, Outcome
from openbach_run.progress import Progress
from openbach_run.results.record import FINISHED

REPOSITORY = Path(__file__).resolve().parents[2]
SIZES = (1_000, 10_000, 100_000)
SEEDS = int(os.environ.get("SCALE_SEEDS", "10"))
STEPS = ("plan", "first", "resume", "forecast", "report")
LIMITS = {
    "plan": "20 s",
    "first": "3000 us a run",
    "resume": "60 s, 500 MB",
    "report": "60 s for 10 000 cells",
}
"""What 100 000 runs are to take at most."""
JOBS = 23
JOB = {
    "job": "file_transfer",
    "entity": "satvpn_pc",
    "argv": ["file_transfer", "client", "172.20.35.3"],
    "exit_code": 0,
}
PACKAGES = tuple(f"package-{number}_1.{number}-1_amd64" for number in range(170))


class Engine:
    """Leaves the files of a run at once; `own_s` is the CPU time that this took."""

    packages = PACKAGES
    code_folders: Mapping[str, Path] = {}

    def __init__(self) -> None:
        self.own_s = 0.0
        self._lock = threading.Lock()

    def identity_of(self, uses: Uses) -> dict[str, str]:
        """Return the identity of the made-up engine, with the VPNs that a run uses."""
        return {"engine": "made up", "vpns": ",".join(uses.get("vpn-configs", ()))}

    def prepare(self, progress: Progress) -> None:
        """Say that the engine is ready: it needs nothing."""
        progress("ready", 1)

    def first_missing(self) -> str:
        """Say that nothing is missing."""
        return ""

    def stop(self) -> None:
        """Do nothing: no run goes on for longer than its call."""

    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: OnEvent) -> Outcome:
        """Leave a run's files at once, with a made-up transfer time."""
        # Of this thread alone: what the made-up engine takes is subtracted at the end.
        start_s = time.thread_time()
        taken_s = 28.0 + float(spec["arguments"]["loss"]) + 0.1 * (spec["seed"] % 7)
        events = _events(spec, taken_s)
        (run_dir / "run.json").write_text(json.dumps(spec))
        ended = [
            {**JOB, "instance_id": number, "start_s": 0.1 * number, "stop_s": taken_s}
            for number in range(1, JOBS + 1)
        ]
        for name, lines in (
            ("events", events),
            ("statistics", _statistics(taken_s)),
            ("jobs", ended),
        ):
            (run_dir / f"{name}.jsonl").write_text(
                "".join(json.dumps(line) + "\n" for line in lines)
            )
        (run_dir / "result.json").write_text(
            json.dumps({"status": FINISHED, "virtual_s": taken_s, "failed": []})
        )
        (run_dir / "console.log").write_text("booted\n")
        for number in range(1, JOBS + 1):
            job = run_dir / f"jobs/{number}_{JOB['job']}_{JOB['entity']}"
            job.mkdir(parents=True)
            for name in ("stdout", "stderr"):
                (job / name).touch()
        took_s = time.thread_time() - start_s
        for event in events:
            on_event(event)
        with self._lock:
            self.own_s += took_s
        return Outcome(FINISHED, taken_s, 0.1, f"{spec['seed']:064x}", None)


def _events(spec: Mapping[str, Any], taken_s: float) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = [
        {
            "t_s": 0.0,
            "event": "scenario_started",
            "scenario_instance_id": 1,
            "scenario": spec["scenario"]["name"],
            "arguments": spec["arguments"],
        }
    ]
    for number in range(1, JOBS + 1):
        function = {"t_s": 0.1 * number, "scenario_instance_id": 1, "function": number}
        job = {**function, "instance_id": number, "job": JOB["job"], "entity": JOB["entity"]}
        told += [
            {**function, "event": "function_started"},
            {**job, "event": "job_started", "argv": JOB["argv"]},
            {**job, "t_s": taken_s, "event": "job_ended", "status": "Not Running"},
            {**function, "t_s": taken_s, "event": "function_finished"},
        ]
    return [
        *told,
        {"t_s": taken_s, "event": "scenario_ended", "scenario_instance_id": 1, "status": FINISHED},
    ]


def _statistics(taken_s: float) -> list[dict[str, Any]]:
    metadata = {
        "time": 1767225600000, "is_file": False, "job_name": "file_transfer",
        "agent_name": "satvpn_pc", "suffix": None, "job_instance_id": 23, "scenario_instance_id": 1,
        "owner_scenario_instance_id": 1,
    }  # fmt: skip
    sent = {
        "transfer_time_s": taken_s,
        "goodput_bps": 240e6 / taken_s,
        "bytes": 30_000_000,
        "ttfb_s": 0.5,
    }
    return [{**sent, "retransmits": 0, "_metadata": metadata}]


def step(name: str, runs: int, results: Path) -> None:
    """One step in this process; prints what it took as JSON."""
    engine = Engine()
    setattr(run, "engine_of", lambda *_: engine)  # noqa: B010 - a name that it imports, not its own
    sizes = ",".join(f"{number}M" for number in range(1, runs // SEEDS // 100 + 1))
    words = [
        "geo_loss",
        "vpn=none,wireguard,openvpn_udp,openvpn_tcp,nebula",
        "pep=none,B",
        "cc=cubic,bbr",
        "loss=0,0.1,0.5,1,2",
        f"size={sizes}",
        "--seeds",
        str(SEEDS),
        "--results",
        str(results),
        "--quiet",
    ]
    match name:
        case "plan" | "forecast":
            words.append("--dry-run")
        case "report":
            words = ["report", str(results), "-o", f"{results}-report", "--quiet"]
    # The last line of stdout is this step's result; the command's table must not be in it.
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = main.main(words)
    assert code == 0, printed.getvalue()
    used = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime + children.ru_utime + children.ru_stime - engine.own_s
    print(json.dumps({"cpu_s": cpu_s, "peak_mb": used.ru_maxrss / 1024}))


def record_size(results: Path, runs: int) -> str:
    """Return the inodes of a run, and its kB: of the files' content, and on the disk."""
    places = [*(results / "runs").rglob("*")]
    content = sum(place.stat().st_size for place in places if place.is_file())
    disk = sum(place.stat().st_blocks * 512 for place in places)
    inodes = f"a record: {len(places) / runs:.3f} inodes"
    return f"{inodes}, {content / runs / 1e3:.1f} kB, {disk / runs / 1e3:.1f} kB on disk"


def measure() -> None:
    """Execute the step that the command line names, and print its times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="RUNS")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        step(arguments.step[0], arguments.sizes[0], Path(arguments.step[1]))
        return
    print(
        f"{'runs':>7}  {'step':9} {'CPU s':>8} {'us a run':>9} {'peak MB':>8}  at most (of 100 000"
        " runs)"
    )
    for runs in arguments.sizes:
        with tempfile.TemporaryDirectory(dir=os.environ.get("SCALE_DIR")) as name:
            results = Path(name) / "results"
            for one in STEPS:
                if one not in arguments.steps:
                    continue
                done = subprocess.run(
                    # A process for each step: the peak of memory is that of a process, and imports
                    # count each time.
                    [sys.executable, __file__, "--step", one, str(results), str(runs)],
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=REPOSITORY,
                )
                took = json.loads(done.stdout.splitlines()[-1])
                print(
                    f"{runs:7}  {one:9} {took['cpu_s']:8.2f} {took['cpu_s'] / runs * 1e6:9.0f}"
                    f" {took['peak_mb']:8.0f}  {LIMITS.get(one, '')}",
                    flush=True,
                )
            if "first" in arguments.steps:
                print(f"{'':9}{record_size(results, runs)}")


if __name__ == "__main__":
    measure()
