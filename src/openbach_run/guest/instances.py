# SPDX-License-Identifier: GPL-3.0-or-later
"""The functions, jobs and scenarios of a run, as OpenBACH's director sees them: their states.

WAITS and NEVER say of each kind of wait when it is met, and why it can never be.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

RETRY_DELAY_S = 5.0
STARTING = ("start_job_instance", "start_scenario_instance")


class FunctionStatus(StrEnum):
    """The status of a function, in OpenBACH's words."""

    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    STOPPED = "Stopped"
    FINISHED = "Finished"
    ERROR = "Error"
    RETRIED = "Retried"


class JobStatus(StrEnum):
    """The status of a job instance, in OpenBACH's words."""

    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    ERROR = "Error"
    STOPPED = "Stopped"
    NOT_RUNNING = "Not Running"


class ScenarioStatus(StrEnum):
    """The status of a scenario instance, in OpenBACH's words."""

    SCHEDULING = "Scheduling"
    RUNNING = "Running"
    FINISHED_KO = "Finished Ko"
    FINISHED_OK = "Finished Ok"
    STOPPED = "Stopped"


class Function(NamedTuple):
    """A function of a scenario in stored form, whose values may hold placeholders."""

    id: int
    label: str
    kind: str  # start_job_instance, …
    body: dict[str, Any]
    waits: dict[str, list[int]]  # ids by launched_ids, finished_ids, running_ids, ended_ids
    time_s: float | str
    policy: str  # fail, ignore, retry
    retry: int
    delay_s: float | str

    @staticmethod
    def from_stored(entry: dict[str, Any]) -> Function:
        """Return the function of an entry of a scenario in stored form."""
        (kind,) = entry.keys() - {"id", "label", "wait", "on_fail"}
        wait, on_fail = entry.get("wait", {}), entry.get("on_fail", {})
        return Function(
            id=entry["id"],
            label=entry.get("label", str(entry["id"])),
            kind=kind,
            body=entry[kind],
            waits={name: wait.get(name, []) for name in WAITS},
            time_s=wait.get("time", 0),
            policy=on_fail.get("policy", "fail").lower(),
            retry=on_fail.get("retry", 0),
            delay_s=on_fail.get("delay", RETRY_DELAY_S),
        )


class JobInstance:
    """A job that an agent was asked to run. It has ended once `stop_us` is known."""

    def __init__(
        self,
        id: int,
        job: str,
        entity: str,
        argv: list[str],
        scenario_id: int,
        owner_id: int,
        ignorable: bool,
    ) -> None:
        self.id, self.job, self.entity, self.argv = id, job, entity, argv
        self.scenario_id, self.owner_id, self.ignorable = scenario_id, owner_id, ignorable
        self.status = JobStatus.SCHEDULED
        self.start_us: int | None = None
        self.stop_us: int | None = None


class FunctionInstance:
    """Execution of a function; each retry is another one."""

    def __init__(self, function: Function, wait_us: int, retries_left: int | None) -> None:
        self.function, self.wait_us = function, wait_us
        self.retries_left = retries_left  # None: its failure is ignored
        self.status = FunctionStatus.SCHEDULED
        self.job: JobInstance | None = None
        self.scenario: ScenarioInstance | None = None


class ScenarioInstance:
    """A scenario that runs, or has run."""

    def __init__(
        self, id: int, owner_id: int, lineage: tuple[str, ...], values: dict[str, str]
    ) -> None:
        self.id = id
        self.owner_id = owner_id  # the outermost scenario instance
        self.lineage = lineage  # the scenarios that led here, this one last
        self.values = values
        self.status = ScenarioStatus.SCHEDULING
        self.rows: list[FunctionInstance] = []

    @property
    def name(self) -> str:
        """Return the scenario's name, without those of the scenarios that it is in."""
        return self.lineage[-1]

    @property
    def ended(self) -> bool:
        """Return whether the scenario instance has ended, in whatever way."""
        return self.status not in (ScenarioStatus.SCHEDULING, ScenarioStatus.RUNNING)


Rows = list[FunctionInstance]


def rows_of(run: ScenarioInstance, number: int) -> Rows:
    """Return all executions of a function, the first one first."""
    return [row for row in run.rows if row.function.id == number]


def has_running(row: FunctionInstance) -> bool:
    """Return whether what a function has started still runs."""
    return (row.job is not None and row.job.stop_us is None) or (
        row.scenario is not None and not row.scenario.ended
    )


# When a wait is met, given all executions of a function waited for.

UNFINISHED = (FunctionStatus.SCHEDULED, FunctionStatus.RUNNING)


def _is_running(rows: Rows) -> bool:
    return all(row.status is not FunctionStatus.SCHEDULED for row in rows)


def _is_ended(rows: Rows) -> bool:
    return all(row.status not in UNFINISHED for row in rows)


def _is_launched(rows: Rows) -> bool:
    return all(row.status is FunctionStatus.FINISHED for row in rows)


def _is_finished(rows: Rows) -> bool:
    started = [row for row in rows if row.job is not None or row.scenario is not None]
    return bool(started) and not any(has_running(row) for row in started)


# Why a wait can never be met any more, or "".


def _never_launched(rows: Rows) -> str:
    if any(row.status is FunctionStatus.RETRIED for row in rows):
        return "which was retried (use ended_ids)"
    if any(row.status is FunctionStatus.ERROR for row in rows):
        return "which failed and is ignored (use ended_ids)"
    return ""


def _never_finished(rows: Rows) -> str:
    if any(row.function.kind not in STARTING for row in rows):
        return "which starts neither a job nor a scenario (use launched_ids)"
    if rows[-1].status is FunctionStatus.ERROR:
        return "which failed and is ignored (use ended_ids)"
    return ""


WAITS: dict[str, Callable[[Rows], bool]] = {
    "launched_ids": _is_launched,
    "finished_ids": _is_finished,
    "running_ids": _is_running,
    "ended_ids": _is_ended,
}
NEVER: dict[str, Callable[[Rows], str]] = {
    "launched_ids": _never_launched,
    "finished_ids": _never_finished,
}
