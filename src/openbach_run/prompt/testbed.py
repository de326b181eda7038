# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario's testbed: what it starts before its measurement, with commands in place of that."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from openbach_run.campaign.engines import engine_of, inventory_of
from openbach_run.campaign.ip_versions import IP
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.options import Options
from openbach_run.campaign.reading import GENERAL, expanded
from openbach_run.campaign.request import Plan, plan_of
from openbach_run.campaign.spec import runs_of
from openbach_run.campaign.vpn_values import setting_of
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.errors import InputError
from openbach_run.guest.typed import JOB
from openbach_run.openbach.scenario import Scenario
from openbach_run.openbach.steps import READY_JOB
from openbach_run.openbach.templates import names_in
from openbach_run.openbach.values import jobs_started, kind_of, texts_of
from openbach_run.progress import Progress
from openbach_run.topology.hosts import Inventory
from openbach_run.topology.networks import SUFFIX

WAITS = ("launched_ids", "finished_ids", "running_ids", "ended_ids")
STARTS = "start_job_instance"
STOPS = {"stop_job_instances": "openbach_function_ids", "stop_job_instance": "openbach_function_id"}

Function = Mapping[str, Any]


@dataclass(frozen=True)
class Testbed:
    """A checked testbed: one combination of a scenario's values."""

    plan: Plan
    campaign: Campaign
    options: Options

    @cached_property
    def inventory(self) -> Inventory:
        """Return the hosts. Raises InputError."""
        return inventory_of(self.campaign, self.plan.catalog, self.options)

    @property
    def hosts(self) -> dict[str, str]:
        """Return what each host is called → its name: the names themselves, and the entities."""
        hosts = self.inventory.hosts
        return {host.name: host.name for host in hosts} | {host.entity: host.name for host in hosts}

    @property
    def chosen(self) -> dict[str, str]:
        """Return the arguments that were not given and have several values, with the one taken."""
        cell, given = self.campaign.cells[0], self.campaign.given
        swept = {name for name, values in self.plan.campaigns[0].values.items() if len(values) > 1}
        return {name: cell[name] for name in sorted(swept - given)}

    def prepared(self, progress: Progress) -> tuple[VirtualEngine, dict[int, dict[str, Any]]]:
        """Return the engine, ready to run, and the specification of the run for each seed.

        A run of it is the scenario's own. Raises InputError, SetupError.
        """
        here = self.campaign.on(self.inventory)
        engine = engine_of(here, self.plan, self.options, None)
        assert isinstance(engine, VirtualEngine)
        engine.prepare(progress)
        runs = runs_of(self.campaign, self.inventory, engine.identity_of)
        return engine, {run.seed: run.for_guest() for run in runs}


def checked_testbed(
    scenario: str, settings: Sequence[str], seeds: str, options: Options, for_what: str
) -> Testbed:
    """Return the testbed of a scenario with the values NAME=VALUE.

    For an argument that is not given the first of the scenario's values is taken. `for_what` is the
    command, for the text of an InputError.
    """
    plan = plan_of(scenario, settings, seeds, options)
    if len(plan.campaigns) != 1:
        raise InputError(f"{plan.path}: has several scenarios; {for_what} takes one")
    campaign = plan.campaigns[0]
    given = set(campaign.given)
    several = [name for name in campaign.swept if name in given]
    if several:
        name = several[0]
        values = ",".join(campaign.values[name])
        raise InputError(f"{name}={values}: {for_what} has one path: give one value")
    firsts = {name: values[:1] for name, values in campaign.values.items()}
    narrowed = expanded(replace(campaign, values=firsts))
    if campaign.sub_scenarios:
        raise InputError(
            f"{plan.path}: starts other scenarios; {for_what} takes one that has its path itself"
        )
    _check_given(campaign.scenario, given - {*GENERAL, IP}, plan, for_what)
    testbed = Testbed(plan, narrowed, options)
    _ = testbed.inventory  # checked before anything is made
    return testbed


def _check_given(scenario: Scenario, given: Collection[str], plan: Plan, for_what: str) -> None:
    """Raise InputError for a value that only the scenario's own measurement uses."""
    left_out = measuring(scenario.functions, f"{plan.path}: {for_what}")
    whole = scenario.spelled_out
    used: set[str] = set()
    for function in whole.functions:
        if function["id"] not in left_out:
            for text in texts_of(function):
                used |= names_in(text)
    for function_id, condition in scenario.only_if.items():
        if int(function_id) not in left_out:
            used |= {name for name in given if name in condition}
    used |= {setting_of(name) for name in given if name.endswith(SUFFIX)}
    for name in sorted(given):
        if name not in used:
            raise InputError(
                f"{name}: has no effect: only the measurement of {scenario.name} uses it, which"
                f" {for_what} leaves out"
            )


def measuring(functions: Sequence[Function], place: str) -> set[int]:
    """Return the ids of the functions that wait, also by others, for the path to be ready.

    Raises InputError if nothing tells that it is.
    """
    ready = {function["id"] for function in functions if READY_JOB in _jobs(function)}
    if not ready:
        raise InputError(
            f"{place}: no function starts the job {READY_JOB}, which ends when the path is up: it"
            " is not known when commands may start"
        )
    ids: set[int] = set()
    while more := {
        step["id"] for step in functions if step["id"] not in ids and _waited(step) & (ready | ids)
    }:
        ids |= more
    return ids


def with_commands(
    run: Mapping[str, Any], entries: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    """Return the specification of a run with commands in place of the scenario's measurement.

    With `entries` None they come while the run goes on.

    They start when, and where, the scenario's first measuring job would. What the scenario stops at
    its end is stopped when they have ended.
    """
    scenario = run["scenario"]
    functions: list[dict[str, Any]] = scenario["openbach_functions"]
    left_out = measuring(functions, scenario["name"])
    ready = [step for step in functions if READY_JOB in _jobs(step)]
    first = next((step for step in functions if step["id"] in left_out and STARTS in step), None)
    # Its waits for servers are kept: it starts at the very time of the scenario's own job.
    place = first or {"id": max(step["id"] for step in functions) + 1, "wait": {}}
    kept_waits = {}
    for kind in WAITS:
        kept_waits[kind] = [wait for wait in place["wait"].get(kind, []) if wait not in left_out]
    if first is None:
        kept_waits["finished_ids"] = [step["id"] for step in ready]
    entity = (first or ready[0])[STARTS]["entity_name"]
    typed = {
        "id": place["id"],
        "label": "commands",
        "wait": {"time": 0, **kept_waits},
        "on_fail": {},
        STARTS: {"entity_name": entity, JOB: {}},
    }
    changed: list[dict[str, Any]] = []
    for function in functions:
        if function["id"] == typed["id"]:
            changed.append(typed)
        elif function["id"] not in left_out:
            changed.append(function)
        elif kind_of(function) in STOPS:
            changed += _stops(function, typed["id"], left_out)
    if first is None:
        changed.append(typed)
    return {
        **run,
        "scenario": {**scenario, "openbach_functions": changed},
        "typed": None if entries is None else list(entries),
    }


def _stops(function: dict[str, Any], after: int, left_out: set[int]) -> list[dict[str, Any]]:
    """Return the function with what is left to stop, after the commands; [] if nothing is left."""
    kind = kind_of(function)
    targets = function[kind][STOPS[kind]]
    ids = targets if isinstance(targets, list) else [targets]
    kept = [target for target in ids if target not in left_out]
    if not kept:
        return []
    stops = {"stop_job_instances": {"openbach_function_ids": kept}}
    rest = {key: value for key, value in function.items() if key != kind}
    return [{**rest, "wait": {"time": 0, "finished_ids": [after]}, **stops}]


def _jobs(function: Function) -> list[str]:
    return [job for job, _ in jobs_started(function)]


def _waited(function: Function) -> set[int]:
    wait = function.get("wait", {})
    return {number for kind in WAITS for number in wait.get(kind, [])}
