# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake engine: what the command, the page and the API know of an engine, without a guest.

A run of it is one of three plays:

- `directed`: the real director over agents that are made up; it leaves what a guest leaves
- `Transfers`: one transfer, which takes longer with more loss, or fails where a test says so
- `few_files`: the fewest files that make a record, at once
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.waiting import HANG_S
from openbach_run.catalog import Uses
from openbach_run.engine.contract import OnEvent, Outcome
from openbach_run.engine.virtual.engine import GUEST_START_NS
from openbach_run.guest.director import SECOND_US, Director
from openbach_run.guest.instances import JobInstance, JobStatus, ScenarioStatus
from openbach_run.progress import Progress

FOR_EVER_S = 1e9
Spec = Mapping[str, Any]
Play = Callable[["FakeEngine", Spec, Path, OnEvent], Outcome]
"""Leave what a run leaves in its directory, and say how it ended."""
METADATA = {
    "job_name": "file_transfer",
    "agent_name": "satvpn_pc",
    "time": 0,
    "job_instance_id": 1,
    "scenario_instance_id": 1,
}


class FakeEngine:
    """An engine whose runs are a play.

    `before` is told the number of the run that begins. With a `gate`, directed runs go on when it
    is set; `stop` sets it, too.
    """

    packages: tuple[str, ...] = ("made-up_1",)
    code_folders: Mapping[str, Path] = {}

    def __init__(
        self,
        play: Play | None = None,
        gate: threading.Event | None = None,
        before: Callable[[int], None] = lambda number: None,
    ) -> None:
        self.play, self.gate, self.before = play or directed, gate, before
        self.stopping = threading.Event()
        self.runs = 0

    def identity_of(self, uses: Uses) -> dict[str, str]:
        return {"engine": "made up", "clock": "virtual"}

    def prepare(self, progress: Progress) -> None:
        progress("ready", 1)

    def first_missing(self) -> str:
        return ""

    def run(self, spec: Spec, run_dir: Path, cpu: int, on_event: OnEvent) -> Outcome:
        self.before(self.runs)
        self.runs += 1
        return self.play(self, spec, run_dir, on_event)

    def stop(self) -> None:
        self.stopping.set()
        if self.gate:
            self.gate.set()

    def wait_for_the_gate(self) -> None:
        """Wait until a run may go on. Raises Stopped."""
        if self.gate:
            assert self.gate.wait(HANG_S), "no run was let go on"
        if self.stopping.is_set():
            raise Stopped


def write_lines(file: Path, *lines: Mapping[str, Any]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


# One transfer


@dataclass
class Transfers:
    """A play: transfers in 10 s times (1 + loss), which fail where the loss is in `failing`."""

    ran: list[dict[str, str]] = field(default_factory=list)
    """The arguments of the runs that were executed."""
    failing: set[str] = field(default_factory=set)
    interrupt_after: int | None = None
    """After so many runs the disk is full."""

    def engine(self, *_: Any, **__: Any) -> FakeEngine:
        """Return an engine of this play, whatever the options are: it stands for VirtualEngine."""
        return FakeEngine(self)

    def __call__(self, engine: FakeEngine, spec: Spec, run_dir: Path, on_event: OnEvent) -> Outcome:
        if self.interrupt_after is not None and len(self.ran) >= self.interrupt_after:
            raise OSError(28, "No space left on device")
        self.ran.append(spec["arguments"])
        on_event({"t_s": 1.0, "event": "heartbeat"})
        (run_dir / "run.json").write_text(json.dumps(spec))
        if "loss" not in spec["arguments"]:
            return Outcome("Finished Ok", 1.0, 0.1, "ab", None)
        if spec["arguments"]["loss"] in self.failing:
            error = "job vpn on satvpn_box: Error, exit code 1\n    no route"
            return Outcome("Finished Ko", 3.0, 0.1, "00", error)
        sent = {
            "transfer_time_s": 10 * (1 + float(spec["arguments"]["loss"])) + spec["seed"] / 100,
            "goodput_bps": 8e6,
            "bytes": 10_000_000,
            "retransmits": 0,
            "_metadata": METADATA,
        }
        write_lines(run_dir / "statistics.jsonl", sent)
        return Outcome("Finished Ok", 40.0, 1.0, "ab", None)


# Few files


EVENT = {
    "t_s": 0.0,
    "event": "scenario_started",
    "scenario_instance_id": 1,
    "scenario": "geo",
    "arguments": {},
}
SENT = {"transfer_time_s": 9.5, "_metadata": METADATA}


def few_files(engine: FakeEngine, spec: Spec, run_dir: Path, on_event: OnEvent) -> Outcome:
    """A play: a run that is over at once."""
    leave(run_dir, spec)
    return Outcome("Finished Ok", 30.0, 0.1, "ab", None)


def leave(run_dir: Path, spec: Spec) -> None:
    """Leave one event, one statistic, and the output of two jobs."""
    (run_dir / "run.json").write_text(json.dumps(spec))
    write_lines(run_dir / "events.jsonl", EVENT)
    write_lines(run_dir / "statistics.jsonl", SENT)
    for name in ("1_vpn_box", "2_file_transfer_pc"):
        job = run_dir / "jobs" / name
        job.mkdir(parents=True)
        (job / "stdout").write_text(f"{name}\n")
        (job / "stderr").touch()


# The director


class Stopped(Exception):
    """The run was told to stop."""


@dataclass
class Agents:
    """A job's command line is how long it takes, and how it ends."""

    send: Callable[[JobInstance, float, float], None]
    time_us: int = 0
    ends_us: dict[int, tuple[int, int]] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)

    def now_us(self) -> int:
        return self.time_us

    def wait_until(self, due_us: int) -> None:
        self.time_us = due_us

    def start(self, job: JobInstance) -> None:
        takes_s = float(job.argv[0])
        self.ends_us[job.id] = (self.time_us + round(takes_s * SECOND_US), int(job.argv[1]))
        if job.job == "file_transfer" and takes_s < FOR_EVER_S:
            self.send(job, self.time_us / SECOND_US, takes_s)

    def poll(self, instance_id: int) -> JobStatus:
        end_us, exit_code = self.ends_us[instance_id]
        if instance_id in self.stopped:
            return JobStatus.STOPPED
        if end_us > self.time_us:
            return JobStatus.RUNNING
        return JobStatus.ERROR if exit_code else JobStatus.NOT_RUNNING

    def stop(self, instance_id: int) -> None:
        self.stopped.add(instance_id)


def bind(job: Any, arguments: dict[str, Any], values: dict[str, str], resolve: Any) -> list[str]:
    """Transfers take 10 s times (1 + loss); loss=13 fails.

    Links, tunnels and servers last until they are stopped.
    """
    if "client" in arguments and job.name == "file_transfer":
        loss = float(values.get("loss", "0"))
        return [str(10 * (1 + loss)), "1" if loss == 13 else "0"]
    is_short = job.name in ("path_ready", "transfer_table") or "wait" in arguments
    return ["1" if is_short else str(FOR_EVER_S), "0"]


def directed(engine: FakeEngine, spec: Spec, run_dir: Path, on_event: OnEvent) -> Outcome:
    """A play: the director launches the scenario's jobs; each transfer sends its goodput."""
    (run_dir / "run.json").write_text(json.dumps(spec))
    jobs = {name: type("J", (), {"name": name})() for name in spec["jobs"]}
    with (
        (run_dir / "events.jsonl").open("w", buffering=1) as events,
        (run_dir / "statistics.jsonl").open("w", buffering=1) as statistics,
    ):

        def observe(event: dict[str, Any]) -> None:
            events.write(json.dumps(event) + "\n")
            on_event(event)
            if event["event"] == "job_started" and event["job"] == "path_ready":
                engine.wait_for_the_gate()

        def send(job: JobInstance, t_s: float, takes_s: float) -> None:
            for second in range(int(takes_s)):
                each = {"goodput_bps": 8e6 + 1e5 * second, "rtt_ms": 510 + second}
                line(job, t_s + second, each)
            last = {"transfer_time_s": takes_s, "goodput_bps": 8e6, "bytes": 10_000_000}
            line(job, t_s + takes_s, last)

        def line(job: JobInstance, t_s: float, values: dict[str, Any]) -> None:
            metadata = {
                "time": GUEST_START_NS // 1_000_000 + round(t_s * 1000),
                "is_file": False,
                "job_name": job.job,
                "agent_name": job.entity,
                "job_instance_id": job.id,
                "scenario_instance_id": job.scenario_id,
                "owner_scenario_instance_id": job.owner_id,
            }
            statistics.write(json.dumps({**values, "_metadata": metadata}) + "\n")

        agents = Agents(send)
        director = Director(
            agents, jobs, bind, spec["sub_scenarios"], observe, spec["virtual_limit_s"]
        )
        try:
            status = director.run(spec["scenario"], spec["arguments"])
        except Stopped:
            return Outcome("Guest Lost", 0.0, 0.1, "", "the guest was ended")
    error = None if status is ScenarioStatus.FINISHED_OK else str(director.failed)
    return Outcome(status, agents.time_us / SECOND_US, 0.1, "ab", error)
