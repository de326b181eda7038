# SPDX-License-Identifier: GPL-3.0-or-later
"""What the backend accepts and then breaks on: a scenario without these warnings runs the same here and on a controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openbach_run.jobs import Argument, Command, Job
from openbach_run.model import WAIT_LISTS, Scenario, job_values, jobs_started, placeholders

NOT_RUN = (
    "if", "while", "assign_collector", "install_agent", "uninstall_agent", "list_job_instances", "set_log_severity_job",
    "set_statistics_policy_job",
)  # fmt: skip
STARTING = ("start_job_instance", "start_scenario_instance")
WAIT_KEYS = ("time", *WAIT_LISTS)


@dataclass(frozen=True)
class Finding:
    """Where (a JSON path), what breaks and what to do instead."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def lint(scenario: Scenario, jobs: Mapping[str, Job]) -> list[Finding]:
    """All findings, in the scenario's order."""
    findings = []
    if "/" in scenario.name:
        findings.append(Finding("name", "a '/' makes the scenario unreachable by its URL; use another character"))
    sent = scenario.source["openbach_functions"]
    for index, function in enumerate(scenario.functions):
        at = f"openbach_functions.{index}"
        for check in (_kind, _waits, _entity, _schedule, _stops):
            findings += check(function, sent[index], at, scenario)
        findings += [
            finding
            for job, arguments in jobs_started(function)
            for finding in _job(jobs[job], arguments, f"{at}.start_job_instance.{job}")
        ]
    return findings + list(_circles(scenario))


Found = Iterator[Finding]


def _kind_of(function: Mapping[str, Any]) -> str:
    (kind,) = function.keys() - {"id", "label", "wait", "on_fail"}
    return str(kind)


def _kind(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    (kind,) = sent.keys() - {"id", "label", "wait", "on_fail"}
    if kind in NOT_RUN:
        yield Finding(f"{at}.{kind}", "is stored but cannot be run: the scenario ends as Finished Ko; leave it out")
    if kind in ("push_file", "pull_file"):
        yield Finding(
            f"{at}.{kind}", "cannot be exported and imported again, and needs a real platform; let a job move the file"
        )
    if function.get("start_scenario_instance", {}).get("scenario_name") == scenario.name:
        yield Finding(f"{at}.{kind}", "the scenario starts itself: the controller fails at start")


def _waits(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    for key in sent.get("wait", {}):
        if key not in WAIT_KEYS:
            yield Finding(f"{at}.wait.{key}", f"is ignored; there are {', '.join(WAIT_KEYS)}")
    functions = {one["id"]: one for one in scenario.functions}
    wait = function.get("wait", {})
    if function["id"] in {number for key in WAIT_LISTS for number in wait.get(key, ())}:
        yield Finding(f"{at}.wait", "waits for itself, and never starts")
    for number in wait.get("finished_ids", ()):
        if _kind_of(functions[number]) not in STARTING:
            yield Finding(
                f"{at}.wait.finished_ids",
                f"function {number} starts nothing that could finish: never met; use launched_ids",
            )
    for number in wait.get("launched_ids", ()):
        if functions[number].get("on_fail", {}).get("policy") in ("Retry", "Ignore"):
            yield Finding(
                f"{at}.wait.launched_ids",
                f"never met once function {number} was retried or its failure ignored; use ended_ids",
            )


def _entity(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    entity = next(
        iter(
            value.get("entity_name", "")
            for key, value in function.items()
            if isinstance(value, dict) and "entity_name" in value
        ),
        "",
    )
    if placeholders(entity):
        yield Finding(
            f"{at}.{_kind_of(function)}.entity_name",
            "a placeholder here makes the scenario impossible to start; write the entity's name",
        )


def _schedule(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    body = function.get("start_job_instance", {})
    for key in ("offset", "interval"):
        if body.get(key):
            yield Finding(f"{at}.start_job_instance.{key}", "on a controller such a scenario never ends; use wait.time")


def _stops(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    known = {one["id"]: _kind_of(one) for one in scenario.functions}
    kind = _kind_of(function)
    body = function[kind]
    wanted = {
        "stop_job_instances": "start_job_instance",
        "stop_job_instance": "start_job_instance",
        "stop_scenario_instance": "start_scenario_instance",
    }
    for number in [
        *body.get("openbach_function_ids", ()),
        *([body["openbach_function_id"]] if "openbach_function_id" in body else []),
    ]:
        if kind in wanted and known.get(number) != wanted[kind]:
            yield Finding(f"{at}.{kind}", f"function {number} is no {wanted[kind]}: there is nothing to stop")


def _job(job: Job, arguments: dict[str, Any], at: str) -> Found:
    for argument, value in job_values(job.arguments, arguments):
        if argument.choices and not placeholders(value) and str(value) not in argument.choices:
            yield Finding(
                f"{at}.{argument.name}",
                f"{value!r} is not one of {', '.join(argument.choices)}; the job will refuse it",
            )
    yield from _counts(job.arguments, arguments, at)


def _counts(command: Command, arguments: dict[str, Any], at: str) -> Found:
    for name, value in arguments.items():
        if name in command.subcommands:
            yield from _counts(command.subcommands[name], value, f"{at}.{name}")
        elif not command.arguments[name].is_switch:
            yield from _count(command.arguments[name], value, f"{at}.{name}")


def _count(argument: Argument, occurrences: list[list[Any]], at: str) -> Found:
    if len(occurrences) > 1 and not argument.repeatable:
        yield Finding(
            at, f"is given {len(occurrences)} times, but cannot be repeated: the scenario ends as Finished Ko"
        )
    for values in occurrences:
        if not argument.takes(len(values)):
            yield Finding(
                at,
                f"has {len(values)} values, takes {argument.count}: the scenario ends as Finished Ko without a reason",
            )


def _circles(scenario: Scenario) -> Found:
    waits = {f["id"]: {n for key in WAIT_LISTS for n in f.get("wait", {}).get(key, ())} for f in scenario.functions}
    started: set[int] = set()
    while ready := {number for number, needed in waits.items() if number not in started and needed <= started}:
        started |= ready
    circle = sorted(number for number in waits.keys() - started if number not in waits[number])
    if circle:
        yield Finding(
            "openbach_functions",
            f"functions {', '.join(map(str, circle))} wait for each other, or for one that never starts",
        )
