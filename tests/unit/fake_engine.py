# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine without a guest: the real director over agents that are made up.

What it leaves has the form of a record.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openbach_run.catalog import Uses
from openbach_run.engine.contract import Outcome
from openbach_run.engine.virtual.engine import GUEST_START_NS
from openbach_run.guest.director import SECOND_US, Director, JobInstance, JobStatus, ScenarioStatus

FOR_EVER_S = 1e9


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
    return ["1" if job.name == "path_ready" or "wait" in arguments else str(FOR_EVER_S), "0"]


class DirectedEngine:
    """Runs end at once, or go on when `gate` is set if there is one."""

    packages: tuple[str, ...] = ("made-up_1",)

    def __init__(self, gate: threading.Event | None = None) -> None:
        self.gate = gate
        self.stopping = threading.Event()
        self.runs = 0

    def identity_of(self, uses: Uses) -> dict[str, str]:
        return {"engine": "made up"}

    def prepare(self, progress: Callable[[str, float], None]) -> None:
        progress("ready", 1)

    def look(self) -> str:
        return ""

    def run(
        self,
        spec: Mapping[str, Any],
        run_dir: Path,
        cpu: int,
        on_event: Callable[[Mapping[str, Any]], None],
    ) -> Outcome:
        self.runs += 1
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
                    self._wait()

            def send(job: JobInstance, t_s: float, takes_s: float) -> None:
                for second in range(int(takes_s)):
                    line(
                        job,
                        t_s + second,
                        {"goodput_bps": 8e6 + 1e5 * second, "rtt_ms": 510 + second},
                    )
                line(
                    job,
                    t_s + takes_s,
                    {"transfer_time_s": takes_s, "goodput_bps": 8e6, "bytes": 10_000_000},
                )

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

    def stop(self) -> None:
        self.stopping.set()
        if self.gate:
            self.gate.set()

    def _wait(self) -> None:
        if self.gate:
            assert self.gate.wait(30), "nobody let the run go on within 30 s"
        if self.stopping.is_set():
            raise Stopped
