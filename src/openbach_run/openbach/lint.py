# SPDX-License-Identifier: GPL-3.0-or-later
"""Warnings of what the backend accepts and then breaks on.

A scenario without them runs the same here and on a controller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from openbach_run.openbach.functions import WAIT_LISTS
from openbach_run.openbach.job import INSTANCE_TYPES, Argument, Command, Job
from openbach_run.openbach.scenario import Scenario
from openbach_run.openbach.value_checks import check
from openbach_run.openbach.values import job_values, jobs_started, kind_of, placeholders, substitute

NOT_RUN = (
    "if", "while", "assign_collector", "install_agent", "uninstall_agent", "list_job_instances",
    "set_log_severity_job", "set_statistics_policy_job",
)  # fmt: skip
PLATFORM_ONLY = ("push_file", "pull_file", "reboot", "restart_job_instance", "status_job_instance")
STARTS = {"start_job_instance": "job", "start_scenario_instance": "scenario"}
STOPS = {
    "stop_job_instances": "start_job_instance",
    "stop_job_instance": "start_job_instance",
    "stop_scenario_instance": "start_scenario_instance",
}
TOP_KEYS = ("name", "description", "arguments", "constants", "openbach_functions")
WAIT_KEYS = ("time", *WAIT_LISTS)
FAIL_KEYS = ("policy", "retry", "delay")
SILENT = ("command_shell",)
"""Jobs that end well whatever happened."""


@dataclass(frozen=True)
class Finding:
    """A warning: where (a JSON path), what breaks, and what to do instead."""

    path: str
    message: str

    def __str__(self) -> str:
        """Return the warning as a line."""
        return f"{self.path}: {self.message}"


def lint(scenario: Scenario, jobs: Mapping[str, Job]) -> list[Finding]:
    """Return all warnings, in the scenario's order."""
    findings = list(_top(scenario))
    sent = scenario.source["openbach_functions"]
    for index, function in enumerate(scenario.functions):
        at = f"openbach_functions.{index}"
        for look in (_kind, _keys, _waits, _entity, _schedule, _stops):
            findings += look(function, sent[index], at, scenario)
        for name, arguments in jobs_started(function):
            findings += _job(jobs[name], arguments, f"{at}.start_job_instance.{name}", scenario)
    findings += [
        Finding(wrong.use.place, f"{wrong.value!r}: {wrong.right}; the job will refuse it")
        for wrong in check(scenario, {}, jobs)
    ]
    return findings + list(_circles(scenario))


Found = Iterator[Finding]


def _top(scenario: Scenario) -> Found:
    if "/" in scenario.name or not scenario.name:
        yield Finding(
            "name",
            "is part of the scenario's URL, where it cannot be empty or have a '/': it is out of"
            " reach",
        )
    for key in scenario.source:
        if key not in TOP_KEYS and not key.startswith(("x-", "$")):
            yield Finding(
                key,
                f"is ignored; there are {', '.join(TOP_KEYS)}, and x-… for what only others read",
            )


def _kind(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    kind = kind_of(sent)
    if kind in NOT_RUN:
        yield Finding(
            f"{at}.{kind}",
            "is stored but cannot be run: the scenario ends as Finished Ko; leave it out",
        )
    if kind in ("push_file", "pull_file"):
        yield Finding(
            f"{at}.{kind}", "cannot be exported and imported again; let a job move the file"
        )
    if kind in PLATFORM_ONLY:
        yield Finding(
            f"{at}.{kind}", "needs a real platform, and cannot be run here; let a job do it"
        )
    if function.get("start_scenario_instance", {}).get("scenario_name") == scenario.name:
        yield Finding(
            f"{at}.{kind}",
            "the scenario starts itself: the controller fails at start; name another one",
        )


def _keys(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    for part, known in (("wait", WAIT_KEYS), ("on_fail", FAIL_KEYS)):
        for key in sent.get(part, {}):
            if key not in known:
                yield Finding(f"{at}.{part}.{key}", f"is ignored; there are {', '.join(known)}")


def _waits(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    functions = scenario.by_id
    wait = function.get("wait", {})
    for key in WAIT_LISTS:
        if function["id"] in wait.get(key, ()):
            yield Finding(
                f"{at}.wait.{key}", "waits for itself, and never starts; leave the id out"
            )
    for number in wait.get("finished_ids", ()):
        if kind_of(functions[number]) not in STARTS:
            yield Finding(
                f"{at}.wait.finished_ids",
                f"function {number} starts nothing that could finish: never met; use launched_ids",
            )
    for number in wait.get("launched_ids", ()):
        if functions[number].get("on_fail", {}).get("policy") in ("Retry", "Ignore"):
            yield Finding(
                f"{at}.wait.launched_ids",
                f"never met once function {number} was retried or its failure ignored; use"
                " ended_ids",
            )


def _entity(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    kind = kind_of(function)
    if placeholders(function[kind].get("entity_name", "")):
        yield Finding(
            f"{at}.{kind}.entity_name",
            "a placeholder here makes the scenario impossible to start; write the entity's name",
        )


def _schedule(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    body = function.get("start_job_instance", {})
    for key in ("offset", "interval"):
        if body.get(key):
            yield Finding(
                f"{at}.start_job_instance.{key}",
                "on a controller such a scenario never ends; use wait.time",
            )


def _stops(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    kind = kind_of(function)
    if kind not in STOPS:
        return
    ((key, numbers),) = function[kind].items()
    for number in numbers if isinstance(numbers, list) else [numbers]:
        known = number in scenario.by_id and kind_of(scenario.by_id[number])
        if known != STOPS[kind]:
            is_what = f"is a {known}" if known else "does not exist"
            yield Finding(
                f"{at}.{kind}.{key}",
                f"there is nothing to stop: function {number} {is_what}, and should be a"
                f" {STOPS[kind]}",
            )


def _job(job: Job, arguments: dict[str, Any], at: str, scenario: Scenario) -> Found:
    if job.name in SILENT:
        yield Finding(
            at,
            "hides the exit code of its command: a failure goes unnoticed; use a job of your own",
        )
    for argument, value in job_values(job.arguments, arguments):
        if argument.type in INSTANCE_TYPES:
            yield from _path(argument, value, f"{at}.{argument.name}", scenario)
        elif isinstance(value, str) and set(placeholders(value)) <= scenario.constants.keys():
            yield from _constant(argument, value, f"{at}.{argument.name}", scenario.constants)
    yield from _counts(job.arguments, arguments, at)


def _path(argument: Argument, value: list[Any], at: str, scenario: Scenario) -> Found:
    """Function ids that stand for what they started: all but the last one for a scenario."""
    wanted = "scenario" if len(value) > 1 else argument.type
    found = scenario.by_id.get(value[0]) if value and isinstance(value[0], int) else None
    if not value or (
        isinstance(value[0], int) and (found is None or STARTS.get(kind_of(found)) != wanted)
    ):
        yield Finding(
            at, f"{value}: no function {value[0] if value else ''} here that starts a {wanted}"
        )


def _constant(argument: Argument, text: str, at: str, constants: Mapping[str, str]) -> Found:
    """A value that is known before the start."""
    try:
        substitute(text, argument.type, constants)
    except ValueError as error:
        yield Finding(at, f"{text!r}: {error}: the scenario cannot be started")
        return


def _counts(command: Command, arguments: dict[str, Any], at: str) -> Found:
    chosen = [name for name in arguments if name in command.subcommands]
    options = sorted(
        (one for one in command.optional if one.name in arguments), key=lambda one: one.is_switch
    )
    if chosen and options and options[-1].count in "+*" and not options[-1].is_switch:
        text = (
            f"takes the subcommand {chosen[0]} that follows it for one more of its values; give an"
            " option after it"
        )
        yield Finding(f"{at}.{options[-1].name}", text)
    for name, value in arguments.items():
        if name in command.subcommands:
            yield from _counts(command.subcommands[name], value, f"{at}.{name}")
            continue
        argument = command.arguments[name]
        if problem := argument.miscounted(value):
            yield Finding(
                f"{at}.{name}", f"{problem}: the scenario ends as Finished Ko without a reason"
            )


def _circles(scenario: Scenario) -> Found:
    waits = {
        number: set(chain.from_iterable(one.get("wait", {}).get(key, ()) for key in WAIT_LISTS))
        for number, one in scenario.by_id.items()
    }
    followers: dict[int, list[int]] = {}
    for number, needed in waits.items():
        for one in needed:
            followers.setdefault(one, []).append(number)
    left = {number: len(needed) for number, needed in waits.items()}
    ready = [number for number, count in left.items() if not count]
    while ready:
        for number in followers.get(ready.pop(), ()):
            left[number] -= 1
            if not left[number]:
                ready.append(number)
    circle = sorted(
        number for number, count in left.items() if count and number not in waits[number]
    )
    if circle:
        yield Finding(
            "openbach_functions",
            f"functions {', '.join(map(str, circle))} wait for each other, or for one that never"
            " starts",
        )
