# SPDX-License-Identifier: GPL-3.0-or-later
"""The states of a scenario instance, from a record's events, as OpenBACH's answers have them.

The events are the director's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from string import Template
from typing import Any

from openbach_run.engine.platform.leftovers import NO_STOP_DATE
from openbach_run.openbach.values import jobs_started

FUNCTION_STATES = {
    "function_started": "Running",
    "function_finished": "Finished",
    "function_error": "Error",
    "function_stopped": "Stopped",
    "function_retried": "Retried",
}


@dataclass
class JobState:
    """A job instance: what has become of it. Times are in virtual s."""

    name: str
    entity: str
    number: int
    status: str
    start_s: float
    stop_s: float | None = None


@dataclass
class FunctionState:
    """A function of a scenario: whether it has run, and the job or scenario that it has started."""

    function: dict[str, Any]
    status: str = "Scheduled"
    launch_s: float | None = None
    job: JobState | None = None
    scenario: ScenarioState | None = None


@dataclass
class ScenarioState:
    """A scenario instance: what has become of it and its functions. Times are in virtual s."""

    name: str
    number: int
    arguments: dict[str, str]
    constants: dict[str, str]
    status: str
    start_s: float
    functions: list[FunctionState] = field(default_factory=list)
    stop_s: float | None = None

    def latest(self, function: int) -> FunctionState:
        """Return the state of the last try of a function."""
        return [state for state in self.functions if state.function["id"] == function][-1]


def replay(
    events: Iterable[Mapping[str, Any]], scenarios: Mapping[str, Mapping[str, Any]]
) -> dict[int, ScenarioState]:
    """Return scenario instances by their number in the record.

    `scenarios` are in stored form, by name. Raises KeyError and others for events that make no
    sense.
    """
    states: dict[int, ScenarioState] = {}
    jobs: dict[int, JobState] = {}
    for event in events:
        name, t_s = event["event"], float(event["t_s"])
        if name == "scenario_started":
            started = begin(event, scenarios[event["scenario"]])
            states[event["scenario_instance_id"]] = started
            if "parent_id" in event:
                states[event["parent_id"]].latest(event["function"]).scenario = started
        elif name == "scenario_ended":
            state = states[event["scenario_instance_id"]]
            state.status, state.stop_s = event["status"], t_s
        elif name in FUNCTION_STATES:
            _tell_function(states[event["scenario_instance_id"]], event, t_s)
        elif name == "job_started":
            job = JobState(event["job"], event["entity"], event["instance_id"], "Running", t_s)
            jobs[job.number] = job
            states[event["scenario_instance_id"]].latest(event["function"]).job = job
        elif name in ("job_ended", "job_stop_ordered"):
            job = jobs[event["instance_id"]]
            job.status = event.get("status", "Stopped")
            # The first of the two events says when it stopped.
            job.stop_s = t_s if job.stop_s is None else job.stop_s
    return states


def begin(event: Mapping[str, Any], stored: Mapping[str, Any]) -> ScenarioState:
    """Return a scenario instance of which nothing has run yet."""
    functions = [FunctionState(function) for function in stored["openbach_functions"]]
    number, t_s = event["scenario_instance_id"], float(event["t_s"])
    values = dict(event["arguments"]), dict(stored["constants"])
    return ScenarioState(stored["name"], number, *values, "Running", t_s, functions)


def _tell_function(scenario: ScenarioState, event: Mapping[str, Any], t_s: float) -> None:
    """Change the state of a function as an event says; one that is retried gets a new state."""
    state = scenario.latest(event["function"])
    if event["event"] == "function_started":
        if state.status == "Retried":
            state = FunctionState(state.function)
            scenario.functions.append(state)
        state.launch_s = t_s
    state.status = FUNCTION_STATES[event["event"]]


def end(state: ScenarioState, status: str, t_s: float) -> None:
    """End what the events leave open: in a run that was stopped, or whose guest was lost."""
    state.status, state.stop_s = status, t_s if state.stop_s is None else state.stop_s
    for function in state.functions:
        function.status = "Stopped" if function.status == "Running" else function.status
        if function.job and function.job.stop_s is None:
            function.job.status, function.job.stop_s = "Stopped", t_s
        if function.scenario and function.scenario.stop_s is None:
            end(function.scenario, "Stopped", t_s)


@dataclass(frozen=True)
class Names:
    """The API's ids for what a record numbers from 1, and the date at which its time begins."""

    project: str
    owner: int
    instances: Mapping[int, int]
    jobs: Mapping[int, int]
    agents: Mapping[str, Mapping[str, str]]
    """Entity → name and address of its agent."""
    begin: datetime

    def date(self, t_s: float | None) -> str | None:
        """Return the date of a virtual time in s; None for None."""
        return None if t_s is None else as_date(self.begin + timedelta(seconds=t_s))


def as_date(moment: datetime) -> str:
    """Return a date as Django writes it: 2026-11-21T04:40:51.123Z."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def document(state: ScenarioState, names: Names) -> dict[str, Any]:
    """Return the answer to GET scenario_instance/<id>/."""

    def rank(function: FunctionState) -> tuple[bool, float, int]:
        return function.launch_s is None, function.launch_s or 0.0, function.function["id"]

    functions = sorted(state.functions, key=rank)
    values = {**state.constants, **state.arguments}
    children = [function.scenario for function in state.functions if function.scenario]
    return {
        "project_name": names.project,
        "scenario_name": state.name,
        "scenario_instance_id": names.instances.get(state.number),
        "owner_scenario_instance_id": names.owner,
        "sub_scenario_instance_ids": sorted(
            names.instances[c.number] for c in children if c.number in names.instances
        ),
        "status": state.status,
        "start_date": names.date(state.start_s),
        "stop_date": names.date(state.stop_s),
        "arguments": [{"name": name, "value": value} for name, value in values.items()],
        "openbach_functions": [_function(function, values, names) for function in functions],
    }


def _function(state: FunctionState, values: Mapping[str, str], names: Names) -> dict[str, Any]:
    """Return a function as the API shows it, with the job or scenario that it has started."""
    answer = {
        **copy.deepcopy(state.function),
        "status": state.status,
        "launch_date": names.date(state.launch_s),
    }
    if state.job and state.job.number in names.jobs:
        answer["job"] = job_document(state.job, state.function, values, names)
    if state.scenario and state.scenario.number in names.instances:
        answer["scenario"] = document(state.scenario, names)
    return answer


def job_document(
    job: JobState, function: Mapping[str, Any], values: Mapping[str, str], names: Names
) -> dict[str, Any]:
    """Return a job instance as the API shows it."""
    ((_, arguments),) = jobs_started(function)
    agent = names.agents.get(job.entity, {})
    return {
        "name": job.name,
        "agent": agent.get("address"),
        "agent_name": agent.get("name", job.entity),
        "entity": job.entity,
        "id": names.jobs[job.number],
        "arguments": _bound(arguments, values),
        "update_status": names.date(job.stop_s if job.stop_s is not None else job.start_s),
        "status": job.status,
        "start_date": names.date(job.start_s),
        "stop_date": names.date(job.stop_s) or NO_STOP_DATE,
    }


def _bound(arguments: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Return a job's arguments with their values, {name: [value, …]}; subcommands are nested."""
    bound: dict[str, Any] = {}
    for name, argument in arguments.items():
        if isinstance(argument, dict):  # a subcommand
            bound[name] = _bound(argument, values)
        else:  # a list of values for each use of the option
            bound[name] = [_value(part, values) for part in chain.from_iterable(argument)]
    return bound


def _value(value: Any, values: Mapping[str, str]) -> Any:
    """Return a value with its placeholders replaced."""
    return Template(value).safe_substitute(values) if isinstance(value, str) else value
