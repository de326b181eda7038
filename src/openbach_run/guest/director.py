# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH's director: when the functions of a scenario start, and how a scenario instance ends.

Same semantics, periods and status labels as the director of OpenBACH 2.7, over two things it does
not know the nature of: agents and their clock. A scenario that passes here passes on a controller,
and takes as long.

- A scenario instance is looked at every 0.2 s while functions are unfinished, then every second; a
  job instance every 2 s from its launch. So whatever waits for the end of a job starts up to 2.2 s
  after that end.
- Where a controller would hang, a run ends at once as `Finished Ko`, and says why: functions that
  can never start (they wait in a circle, or with finished_ids for one that starts nothing, or with
  launched_ids for one that was retried or whose failure was ignored), `offset`, `interval`, and
  functions that only a platform has (push_file, pull_file, reboot, restart_job_instance,
  status_job_instance).
- `if`, `while` and the other functions that a controller stores but cannot run end the instance as
  they do there.
- A launch is refused when the job's program cannot be executed; a real agent reports such a job as
  `Stopped`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from string import Template
from typing import TYPE_CHECKING, Any, Protocol

from openbach_run.errors import InputError
from openbach_run.guest.instances import (
    NEVER,
    STARTING,
    UNFINISHED,
    WAITS,
    Function,
    FunctionInstance,
    FunctionStatus,
    JobInstance,
    JobStatus,
    ScenarioInstance,
    ScenarioStatus,
    has_running,
    rows_of,
)

if TYPE_CHECKING:
    from openbach_run.openbach.job import Job

# The periods are those of OpenBACH's director: of its looks at a scenario instance while functions
# are left, then while only jobs are, and of its questions for a job's status. So a run takes as
# many virtual seconds as it would take on a platform.
SECOND_US = 1_000_000
PASS_UNFINISHED_US = 200_000
PASS_FINISHED_US = 1_000_000
POLL_US = 2_000_000
HEARTBEAT_US = 10 * SECOND_US

# What comes first at one instant: what agents say, actions that are due, then the scenarios are
# looked at.
RANK_LIMIT, RANK_POLL, RANK_ACTION, RANK_PASS, RANK_HEARTBEAT = range(5)

STOPPING = ("stop_job_instances", "stop_job_instance", "stop_scenario_instance")
PLATFORM_ONLY = ("push_file", "pull_file", "reboot", "restart_job_instance", "status_job_instance")
RUNNABLE = STARTING + STOPPING + PLATFORM_ONLY
NO_ID = "there is no instance id to give"


class LaunchRefused(Exception):
    """Refusal of a job by an agent; the text says why."""


class FunctionFailed(Exception):
    """Failure of a function, which ends in Error: its failure policy decides what follows."""


class CannotGoOn(Exception):
    """End of a run that would hang or do nothing sensible: Finished Ko, whatever on_fail says."""


class Agents(Protocol):
    """The agents that run jobs, and their clock. Times are microseconds since the run began."""

    def now_us(self) -> int:
        """Return the time in µs since the run began."""
        ...

    def wait_until(self, due_us: int) -> None:
        """Return at due_us, or at once if that is past."""

    def start(self, job: JobInstance) -> None:
        """Start a job instance. Raises LaunchRefused."""

    def poll(self, instance_id: int) -> JobStatus:
        """Return the status of a job instance, as its agent sees it."""
        ...

    def stop(self, instance_id: int) -> None:
        """Accept the order and return at once: the agent stops the job's processes by itself."""


# A job's command line from the arguments of a scenario's function: (job, arguments, values of
# placeholders, what a path of function ids stands for). Raises InputError.
Bind = Callable[["Job", dict[str, Any], dict[str, str], Callable[[list[int]], int]], list[str]]


class Director:
    """Director of one scenario. `observe` gets each event as it happens: {"t_s", "event", …}."""

    def __init__(
        self,
        agents: Agents,
        jobs: dict[str, Job],
        bind: Bind,
        sub_scenarios: dict[str, dict[str, Any]],
        observe: Callable[[dict[str, Any]], None],
        virtual_limit_s: float,
    ) -> None:
        self.agents, self.jobs, self.bind = agents, jobs, bind
        self.sub_scenarios, self.observe = sub_scenarios, observe
        self.limit_us = round(virtual_limit_s * SECOND_US)
        self.job_ids = count(1)
        self.job_instances: list[JobInstance] = []
        self.scenario_instances: list[ScenarioInstance] = []
        self.failed: list[dict[str, Any]] = []
        self.timers: list[tuple[int, int, int, Callable[[], None]]] = []
        self.timer_count = 0
        self.time_us = 0

    def run(self, scenario: dict[str, Any], arguments: dict[str, str]) -> ScenarioStatus:
        """Run the scenario to its end. What failed is then in `failed`."""
        self.time_us = self.agents.now_us()
        # `root` exists only after the next lines, but before any timer is due.
        self._after(self.limit_us, RANK_LIMIT, lambda: self._limit_reached(root))
        self._after(HEARTBEAT_US, RANK_HEARTBEAT, self._heartbeat)
        try:
            root = self._start_scenario(scenario, arguments, None)
        except FunctionFailed as error:
            self._fail(function=None, error=str(error))
            return ScenarioStatus.FINISHED_KO
        while not root.ended:
            due_us, _, _, action = heapq.heappop(self.timers)
            self.agents.wait_until(due_us)
            self.time_us = due_us
            try:
                action()
            except CannotGoOn as error:
                self._fail(function=None, error=str(error))
                self._terminate(root)
        # The scenario may be over before the last poll of a job: ask once more for the record.
        for job in self.job_instances:
            if job.status is JobStatus.RUNNING:
                job.status = self.agents.poll(job.id)
        return root.status

    def fail_after_its_stop(self, job: JobInstance) -> ScenarioStatus:
        """Fail for a job that, when it was stopped, saw that its measurement is wrong.

        Return the scenario's status then. On a platform such a job is Stopped, and its log says it.
        """
        self._fail(**_identity(job), status=JobStatus.ERROR)
        return ScenarioStatus.FINISHED_KO

    # Time

    def _after(self, delay_us: int, rank: int, action: Callable[[], None]) -> None:
        # The count keeps actions of one instant and rank in their order, and the heap from
        # comparing functions.
        self.timer_count += 1
        heapq.heappush(self.timers, (self.time_us + delay_us, rank, self.timer_count, action))

    def _event(self, event: str, **details: Any) -> None:
        self.observe({"t_s": self.agents.now_us() / SECOND_US, "event": event, **details})

    def _fail(self, **details: Any) -> None:
        self.failed.append(details)
        self._event("failed", **details)

    def _heartbeat(self) -> None:
        self._event("heartbeat")
        self._after(HEARTBEAT_US, RANK_HEARTBEAT, self._heartbeat)

    def _limit_reached(self, root: ScenarioInstance) -> None:
        raise CannotGoOn(
            f"not finished after {self.limit_us / SECOND_US:g} s: "
            + "; ".join(self._unfinished(root))
        )

    def _unfinished(self, run: ScenarioInstance) -> Iterator[str]:
        """Yield what still runs or waits, in words."""
        for row in run.rows:
            name = _name(row.function)
            if row.status is FunctionStatus.SCHEDULED:
                yield f"{name} waits for {', '.join(self._waits_for(run, row))}"
            elif row.status is FunctionStatus.RUNNING:
                yield f"{name} waits for its time"
            if row.job is not None and row.job.stop_us is None:
                yield f"job {row.job.job} on {row.job.entity} ({name}) is running"
            if (inner := row.scenario) is not None and not inner.ended:
                yield from (f"{inner.name}: {text}" for text in self._unfinished(inner))

    def _waits_for(self, run: ScenarioInstance, row: FunctionInstance) -> Iterator[str]:
        for kind, met in WAITS.items():
            for waited in row.function.waits[kind]:
                if not met(rows_of(run, waited)):
                    yield f"{kind} {waited}"

    # Scenario instances

    def _start_scenario(
        self,
        scenario: dict[str, Any],
        arguments: dict[str, str],
        parent: ScenarioInstance | None,
        function_id: int | None = None,
    ) -> ScenarioInstance:
        number = len(self.scenario_instances) + 1
        # Constants and arguments share their names' space; arguments win.
        values = {**scenario.get("constants", {}), **arguments}
        owner_id, ancestors = (parent.owner_id, parent.lineage) if parent else (number, ())
        run = ScenarioInstance(number, owner_id, (*ancestors, scenario["name"]), values)
        for entry in scenario["openbach_functions"]:
            function = Function.from_stored(entry)
            # The three policies of on_fail are one number: how often a function may still be tried,
            # None for never mind.
            retries = {"fail": 0, "ignore": None, "retry": function.retry}[function.policy]
            run.rows.append(FunctionInstance(function, _us(function.time_s, values), retries))
        run.status = ScenarioStatus.RUNNING
        self.scenario_instances.append(run)
        started_by = {"parent_id": parent.id, "function": function_id} if parent else {}
        details = {"scenario": run.name, "scenario_instance_id": run.id, "arguments": arguments}
        self._event("scenario_started", **details, **started_by)
        self._after(0, RANK_PASS, lambda: self._look_at(run))
        return run

    def _look_at(self, run: ScenarioInstance) -> None:
        """Look once at a scenario instance: what failed, what can start, whether it is over."""
        if run.ended:
            return
        failed = (row for row in run.rows if row.status is FunctionStatus.ERROR)
        errors = [row for row in failed if row.retries_left is not None]
        # A job that fails ends the whole scenario instance, whatever its function said, unless that
        # ignores failures.
        failed_job = any(
            row.job and row.job.status is JobStatus.ERROR and not row.job.ignorable
            for row in run.rows
        )
        if failed_job or any(not _can_retry(row) for row in errors):
            self._terminate(run)
            return
        # All can be retried: any other would have ended the instance above.
        for row in errors:
            self._retry(run, row)
        for row in run.rows:
            if row.status is FunctionStatus.SCHEDULED and not any(self._waits_for(run, row)):
                # `if`, `while` and others: a controller stores them, but its director cannot run
                # them.
                if row.function.kind not in RUNNABLE:
                    why = "OpenBACH stores this kind of function, but cannot run it"
                    self._function_failed(run, row, why)
                    self._terminate(run)
                    return
                self._start_function(run, row)
        self._check_not_stuck(run)
        # OpenBACH looks more often while functions are left than while only jobs go on.
        if any(row.status in UNFINISHED for row in run.rows):
            self._after(PASS_UNFINISHED_US, RANK_PASS, lambda: self._look_at(run))
        elif any(has_running(row) for row in run.rows):
            self._after(PASS_FINISHED_US, RANK_PASS, lambda: self._look_at(run))
        else:
            self._end(run, ScenarioStatus.FINISHED_OK)

    def _end(self, run: ScenarioInstance, status: ScenarioStatus) -> None:
        run.status = status
        self._event("scenario_ended", scenario=run.name, scenario_instance_id=run.id, status=status)

    def _terminate(self, run: ScenarioInstance) -> None:
        self._stop_all(run)
        self._end(run, ScenarioStatus.FINISHED_KO)

    def _stop_all(self, run: ScenarioInstance) -> None:
        """Stop a scenario instance's jobs and functions, and those of its sub-scenarios."""
        for row in run.rows:
            if row.job is not None and row.job.stop_us is None:
                self._stop_job(row.job)
            if row.scenario is not None and not row.scenario.ended:
                # Sub-scenarios are part of the instance: what is left of them ends with it.
                self._stop_all(row.scenario)
                self._end(row.scenario, ScenarioStatus.STOPPED)
            if row.status is FunctionStatus.RUNNING:
                self._set_status(run, row, FunctionStatus.STOPPED)

    def _check_not_stuck(self, run: ScenarioInstance) -> None:
        """Raise CannotGoOn if a function can never start, whatever the others do."""
        scheduled = (row for row in run.rows if row.status is FunctionStatus.SCHEDULED)
        waiting = {row.function.id: row for row in scheduled}
        for row in waiting.values():
            for kind, never in NEVER.items():
                for waited in row.function.waits[kind]:
                    reason = never(rows_of(run, waited))
                    if reason:
                        raise CannotGoOn(
                            f"{_name(row.function)} of {run.name} never starts: it waits with"
                            f" {kind} for function {waited}, {reason}. A controller would wait for"
                            " ever"
                        )
        # Add what waits only for functions that can start, until nothing is added: the rest is a
        # circle.
        can_start: set[int] = set()
        while more := {
            number
            for number, row in waiting.items()
            if number not in can_start and not (_waited(row.function) & waiting.keys()) - can_start
        }:
            can_start |= more
        circle = sorted(waiting.keys() - can_start)
        if circle:
            raise CannotGoOn(
                f"of {run.name}, functions {', '.join(map(str, circle))} never start: they wait for"
                " themselves or in a circle. A controller would wait for ever"
            )

    # Functions

    def _start_function(self, run: ScenarioInstance, row: FunctionInstance) -> None:
        self._set_status(run, row, FunctionStatus.RUNNING)
        self._after(row.wait_us, RANK_ACTION, lambda: self._act(run, row))

    def _act(self, run: ScenarioInstance, row: FunctionInstance) -> None:
        """Carry a function out, once its wait.time is over."""
        # The instance may have been stopped while the function waited for its time.
        if row.status is not FunctionStatus.RUNNING:
            return
        try:
            self._carry_out(run, row)
        except (FunctionFailed, LaunchRefused, InputError) as error:
            self._set_status(run, row, FunctionStatus.ERROR, error=str(error))
            # A function that will be retried, or whose failure is ignored, has not failed the run.
            if row.retries_left is not None and not _can_retry(row):
                self._function_failed(run, row, str(error))
        else:
            self._set_status(run, row, FunctionStatus.FINISHED)

    def _retry(self, run: ScenarioInstance, row: FunctionInstance) -> None:
        assert row.retries_left is not None
        self._set_status(run, row, FunctionStatus.RETRIED)
        # A retry is a row of its own, as in OpenBACH: waits for the function see the old one as
        # retried for ever.
        delay_us = _us(row.function.delay_s, run.values)
        again = FunctionInstance(row.function, delay_us, row.retries_left - 1)
        run.rows.append(again)
        self._start_function(run, again)

    def _function_failed(self, run: ScenarioInstance, row: FunctionInstance, error: str) -> None:
        error = f"{row.function.kind}: {error}"
        self._fail(function=row.function.id, scenario=run.name, error=error)

    def _set_status(
        self, run: ScenarioInstance, row: FunctionInstance, status: FunctionStatus, **details: Any
    ) -> None:
        row.status = status
        event = "started" if status is FunctionStatus.RUNNING else status.lower()
        identity = {"scenario_instance_id": run.id, "function": row.function.id}
        self._event(f"function_{event}", **identity, label=row.function.label, **details)

    def _carry_out(self, run: ScenarioInstance, row: FunctionInstance) -> None:
        """Carry out a function.

        Raises FunctionFailed, LaunchRefused, InputError; CannotGoOn for what only a platform has.
        """
        body = row.function.body
        match row.function.kind:
            case "start_job_instance":
                self._start_job(run, row)
            case "stop_job_instances":
                self._stop_jobs(run, body["openbach_function_ids"])
            case "stop_job_instance":
                self._stop_jobs(run, [body["openbach_function_id"]])
            case "start_scenario_instance":
                self._start_sub_scenario(run, row)
            case "stop_scenario_instance":
                self._stop_sub_scenario(run, body["openbach_function_id"])
            case kind:
                raise CannotGoOn(
                    f"{_name(row.function)} of {run.name} is a {kind}: that needs a real platform"
                )

    def _start_job(self, run: ScenarioInstance, row: FunctionInstance) -> None:
        body = dict(row.function.body)
        for key in ("offset", "interval"):
            value = body.pop(key, None)
            if value is not None and (key == "interval" or _us(value, run.values)):
                raise CannotGoOn(
                    f"{_name(row.function)} of {run.name} has an {key} ({value}): on a controller"
                    " such a scenario never ends; use wait.time"
                )
        entity = body.pop("entity_name")
        # What is left of a stored start_job_instance is one entry: the job's name with its
        # arguments.
        ((name, arguments),) = body.items()
        if name not in self.jobs:
            raise FunctionFailed(
                f"no job {name}; there are {', '.join(sorted(self.jobs)) or 'none'}"
            )
        instance_id = partial(self._instance_id, run)
        argv = self.bind(self.jobs[name], arguments, run.values, instance_id)
        ignorable = row.retries_left is None
        job = JobInstance(next(self.job_ids), name, entity, argv, run.id, run.owner_id, ignorable)
        self.agents.start(job)
        self.job_instances.append(job)
        row.job = job
        job.status = JobStatus.RUNNING
        job.start_us = self.agents.now_us()
        self._event("job_started", **_identity(job), function=row.function.id, argv=job.argv)
        self._after(POLL_US, RANK_POLL, lambda: self._poll(job))

    def _stop_jobs(self, run: ScenarioInstance, numbers: list[int]) -> None:
        """Stop the jobs that these functions started: all that can be, even if others cannot."""
        errors = []
        for number in numbers:
            job = self._latest(run, number).job
            if job is None:
                errors.append(f"function {number} has started no job that could be stopped")
            else:
                self._stop_job(job)
        if errors:
            raise FunctionFailed("; ".join(errors))

    def _start_sub_scenario(self, run: ScenarioInstance, row: FunctionInstance) -> None:
        name = row.function.body["scenario_name"]
        if name not in self.sub_scenarios:
            raise FunctionFailed(
                f"no scenario {name}; there are {', '.join(sorted(self.sub_scenarios)) or 'none'}"
            )
        # Scenarios that start each other would never end.
        if name in run.lineage:
            raise FunctionFailed(
                f"scenario {name} would start itself: {' > '.join([*run.lineage, name])}"
            )
        texts = row.function.body["arguments"]
        arguments = {key: substitute(text, run.values) for key, text in texts.items()}
        inner = self.sub_scenarios[name]
        row.scenario = self._start_scenario(inner, arguments, run, row.function.id)

    def _stop_sub_scenario(self, run: ScenarioInstance, number: int) -> None:
        scenario = self._latest(run, number).scenario
        if scenario is None:
            raise FunctionFailed(f"function {number} has started no scenario that could be stopped")
        if not scenario.ended:
            self._stop_all(scenario)
            self._end(scenario, ScenarioStatus.STOPPED)

    def _latest(self, run: ScenarioInstance, number: int) -> FunctionInstance:
        rows = rows_of(run, number)
        if not rows:
            raise FunctionFailed(f"no function has the id {number}")
        return rows[-1]

    def _instance_id(self, run: ScenarioInstance, path: list[int]) -> int:
        """Return the instance that function ids stand for as a job's argument.

        [3] is what function 3 started here, [2, 0] what function 0 started in the sub-scenario of
        function 2.
        """
        *outer, number = path
        for step in outer:
            scenario = self._latest(run, step).scenario
            if scenario is None:
                raise FunctionFailed(f"function {step} has not started a scenario yet: {NO_ID}")
            run = scenario
        row = self._latest(run, number)
        instance = row.job or row.scenario
        if instance is None:
            raise FunctionFailed(f"function {number} has not started anything yet: {NO_ID}")
        return instance.id

    # Job instances

    def _stop_job(self, job: JobInstance) -> None:
        """Order the stop; the job counts as ended from now on."""
        self.agents.stop(job.id)
        job.stop_us = self.agents.now_us()
        self._event("job_stop_ordered", **_identity(job))

    def _poll(self, job: JobInstance) -> None:
        job.status = self.agents.poll(job.id)
        if job.status is JobStatus.RUNNING:
            self._after(POLL_US, RANK_POLL, lambda: self._poll(job))
            return
        if job.stop_us is None:
            job.stop_us = self.agents.now_us()
        self._event("job_ended", **_identity(job), status=job.status)
        if job.status is JobStatus.ERROR and not job.ignorable:
            self._fail(**_identity(job), status=job.status)


def _name(function: Function) -> str:
    label = f" ({function.label})" if function.label != str(function.id) else ""
    return f"function {function.id}{label}"


def _identity(job: JobInstance) -> dict[str, Any]:
    return {
        "job": job.job,
        "entity": job.entity,
        "instance_id": job.id,
        "scenario_instance_id": job.scenario_id,
    }


def substitute(text: str, values: dict[str, str]) -> str:
    """Put values in place of $placeholders. Raises FunctionFailed."""
    try:
        return Template(text).substitute(values)
    except (KeyError, ValueError) as error:
        raise FunctionFailed(f"{text!r}: no value for the placeholder {error}") from error


def _us(seconds: float | str, values: dict[str, str]) -> int:
    """Return a scenario's time in µs; it may be a placeholder. Raises FunctionFailed."""
    text = substitute(seconds, values) if isinstance(seconds, str) else seconds
    try:
        return max(0, round(float(text) * SECOND_US))
    except ValueError as error:
        raise FunctionFailed(f"{text!r} is no number of seconds") from error


def _waited(function: Function) -> set[int]:
    return {number for numbers in function.waits.values() for number in numbers}


def _can_retry(row: FunctionInstance) -> bool:
    return row.retries_left is not None and row.retries_left > 0
