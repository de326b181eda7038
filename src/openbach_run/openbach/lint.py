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
    """Yield warnings of the scenario's name and its keys."""
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
    """Yield warnings of functions that cannot be run, or not here."""
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
    """Yield warnings of keys that the backend does not look at."""
    for part, known in (("wait", WAIT_KEYS), ("on_fail", FAIL_KEYS)):
        for key in sent.get(part, {}):
            if key not in known:
                yield Finding(f"{at}.{part}.{key}", f"is ignored; there are {', '.join(known)}")


def _waits(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    """Yield warnings of waits that never end."""
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
    """Yield a warning of an entity that is a placeholder: the backend looks it up earlier."""
    kind = kind_of(function)
    if placeholders(function[kind].get("entity_name", "")):
        yield Finding(
            f"{at}.{kind}.entity_name",
            "a placeholder here makes the scenario impossible to start; write the entity's name",
        )


def _schedule(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    """Yield warnings of jobs that start later or again."""
    body = function.get("start_job_instance", {})
    for key in ("offset", "interval"):
        if body.get(key):
            yield Finding(
                f"{at}.start_job_instance.{key}",
                "on a controller such a scenario never ends; use wait.time",
            )


def _stops(function: dict[str, Any], sent: dict[str, Any], at: str, scenario: Scenario) -> Found:
    """Yield warnings of stops of what was not started."""
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
    """Yield warnings of a job's arguments."""
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
    """Yield a warning of function ids that do not lead to what they should stand for.

    All but the last one start a scenario.
    """
    wanted = "scenario" if len(value) > 1 else argument.type
    function = scenario.by_id.get(value[0]) if value and isinstance(value[0], int) else None
    if not value or (
        isinstance(value[0], int) and (function is None or STARTS.get(kind_of(function)) != wanted)
    ):
        yield Finding(
            at, f"{value}: no function {value[0] if value else ''} here that starts a {wanted}"
        )


def _constant(argument: Argument, text: str, at: str, constants: Mapping[str, str]) -> Found:
    """Yield a warning of a value that is known before the start, and not of its type."""
    try:
        substitute(text, argument.type, constants)
    except ValueError as error:
        yield Finding(at, f"{text!r}: {error}: the scenario cannot be started")
        return


def _counts(command: Command, arguments: dict[str, Any], at: str) -> Found:
    """Yield warnings of a number of values that the backend stores and its start refuses."""
    chosen = [name for name in arguments if name in command.subcommands]
    options = sorted(
        (option for option in command.optional if option.name in arguments),
        key=lambda option: option.is_switch,
    )
    # argparse, in the job, takes every word that follows for a value of such an option.
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
    """Yield a warning of functions that wait for each other."""
    waits: dict[int, set[int]] = {}
    for number, function in scenario.by_id.items():
        lists = [function.get("wait", {}).get(key, ()) for key in WAIT_LISTS]
        waits[number] = set(chain.from_iterable(lists))
    followers: dict[int, list[int]] = {}
    for number, needed in waits.items():
        for earlier in needed:
            followers.setdefault(earlier, []).append(number)
    # Kahn's algorithm: take away what waits for nothing, until nothing can be taken; what is left
    # waits for itself.
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
