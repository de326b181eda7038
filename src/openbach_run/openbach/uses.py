# SPDX-License-Identifier: GPL-3.0-or-later
"""The places where a scenario gives values: to arguments of jobs, and as times of functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from string import Template
from typing import Any

from openbach_run.catalog import Entries, Uses, names_with_base
from openbach_run.openbach.job import INSTANCE_TYPES, Argument, Job
from openbach_run.openbach.limits import asked_beside, names_folders
from openbach_run.openbach.scenario import SAME, Scenario
from openbach_run.openbach.templates import composed, names_in
from openbach_run.openbach.values import job_values, jobs_started, sole_placeholder

WITHIN = " > "
"""Separator of the place of a function and a place in the sub-scenario that it starts."""
WEEK_S = 7 * 24 * 3600
TIMES = [
    Argument(name, "float", "1", "", (), False, "", {"minimum": 0, "maximum": WEEK_S, "unit": "s"})
    for name in (
        "wait.time",
        "on_fail.delay",
        "start_job_instance.offset",
        "start_job_instance.interval",
    )
]
"""The times of a function, as if they were arguments of a job."""


@dataclass(frozen=True)
class Use:
    """A value in a scenario, and what it is given to.

    `template` has placeholders of the scenario that is started.
    """

    place: str
    """JSON path; through sub-scenarios, `function > path in the sub-scenario`."""
    argument: Argument
    template: str
    beside: Mapping[str, str] = field(default_factory=dict)
    """Templates of the arguments, itself too, of this start of the job that its conditions name."""
    is_stopped: bool = True
    """True if a function of the scenario stops the job."""

    @cached_property
    def own_names(self) -> set[str]:
        """Return the names in the template."""
        return names_in(self.template)

    @cached_property
    def names(self) -> set[str]:
        """Return the names whose values decide whether its own is refused, and what is noted."""
        others = asked_beside(self.argument) & self.beside.keys()
        return self.own_names.union(*(names_in(self.beside[name]) for name in others))


def uses(
    scenario: Scenario, jobs: Mapping[str, Job], sub_scenarios: Mapping[str, Scenario]
) -> list[Use]:
    """Return every value that is given to an argument with choices or limits, once for each one.

    Sub-scenarios are included; their constants stand in the templates by their names.
    """
    subs = {name: sub.spelled_out for name, sub in sub_scenarios.items()}
    all_uses = every_use(scenario.spelled_out, jobs, subs)
    return [use for use in all_uses if use.argument.choices or use.argument.limits]


def every_use(
    scenario: Scenario, jobs: Mapping[str, Job], sub_scenarios: Mapping[str, Scenario]
) -> list[Use]:
    """Return every value that is given to an argument, once for each.

    A value that follows another one stands there by the other one's name.
    """
    # A job that is started ten times with the same template is one use: the checks are made for
    # every cell.
    known: dict[tuple[Any, ...], Use] = {}
    for use in _uses(scenario, jobs, sub_scenarios, None, "", (scenario.name,)):
        known.setdefault((id(use.argument), use.template, use.is_stopped, *use.beside.items()), use)
    return list(known.values())


def _uses(
    scenario: Scenario,
    jobs: Mapping[str, Job],
    subs: Mapping[str, Scenario],
    templates: Mapping[str, str] | None,
    at: str,
    path: tuple[str, ...],
    all_stopped: bool = False,
) -> Iterator[Use]:
    """Yield the uses of a scenario and, below it, of its sub-scenarios.

    `templates` are those that a parent gives to this sub-scenario's arguments; it may stop all of
    it.
    """
    stopped = _stopped(scenario)
    for index, function in enumerate(scenario.functions):
        base = f"{at}openbach_functions.{index}"
        is_stopped = all_stopped or function["id"] in stopped
        for place, argument, value, beside in (*_times(function), *_job_values(function, jobs)):
            template = str(value) if templates is None else composed(str(value), templates)
            if template is not None:
                others = {
                    name: composed(text, templates) if templates is not None else text
                    for name, text in beside.items()
                }
                known = {name: text for name, text in others.items() if text is not None}
                yield Use(f"{base}.{place}", argument, template, known, is_stopped)
        start = function.get("start_scenario_instance", {})
        sub = subs.get(str(start.get("scenario_name", "")))
        # A scenario that starts itself is what lint warns of; here it must not go on for ever.
        if sub is not None and sub.name not in path and isinstance(start["arguments"], dict):
            texts = {name: str(text) for name, text in start["arguments"].items()}
            if templates is not None:
                whole = {name: composed(text, templates) for name, text in texts.items()}
                texts = {name: text for name, text in whole.items() if text is not None}
            constants = {name: f"${name}" for name in sub.constants}
            yield from _uses(
                sub, jobs, subs, constants | texts, f"{base}{WITHIN}", (*path, sub.name), is_stopped
            )


def _stopped(scenario: Scenario) -> set[int]:
    """Return the ids of the functions that another one stops without waiting for their end."""
    ids: set[int] = set()
    for function in scenario.functions:
        single = [
            function.get(kind, {}).get("openbach_function_id")
            for kind in ("stop_job_instance", "stop_scenario_instance")
        ]
        listed = function.get("stop_job_instances", {}).get("openbach_function_ids", [])
        numbers = {*(listed if isinstance(listed, list) else []), *single}
        ids |= numbers - {*function.get("wait", {}).get("finished_ids", [])}
    return ids


def _times(function: Mapping[str, Any]) -> Iterator[tuple[str, Argument, Any, dict[str, str]]]:
    """Yield the times of a function as uses of TIMES: place, argument, value, nothing beside."""
    for argument in TIMES:
        part, name = argument.name.split(".")
        if (value := function.get(part, {}).get(name)) is not None:
            yield argument.name, argument, value, {}


def _job_values(
    function: Mapping[str, Any], jobs: Mapping[str, Job]
) -> Iterator[tuple[str, Argument, Any, dict[str, str]]]:
    """Yield place, argument and value of what a function gives to a job, and what is beside it."""
    for job, arguments in jobs_started(function):
        values = [
            pair
            for pair in job_values(jobs[job].arguments, arguments)
            if pair[0].type not in INSTANCE_TYPES
        ]
        for argument, value in values:
            names = asked_beside(argument)
            beside = {other.name: str(text) for other, text in values if other.name in names}
            yield f"start_job_instance.{job}.{argument.name}", argument, value, beside


def folders_used(uses: Sequence[Use], values: Mapping[str, str], entries: Entries) -> Uses:
    """Return the folders and files that the values name, of those that there are."""
    folders: dict[str, set[str]] = {}
    for use in uses:
        for key in names_folders(use.argument):
            try:
                value = Template(use.template).substitute(values)
            except (KeyError, ValueError):
                continue
            kind = use.argument.limits[key]
            # A text that mentions names is written for a program, like iproute2's
            # `cc=bbr2,mss=1300`.
            for name in [value] if key == "folder" else re.findall(r"[\w.-]+", value):
                if name in entries[kind]:
                    folders.setdefault(kind, set()).update(names_with_base(entries[kind], name))
    return {kind: sorted(names) for kind, names in sorted(folders.items())}


def argument_choices(
    scenario: Scenario, jobs: Mapping[str, Job], sub_scenarios: Mapping[str, Scenario] | None = None
) -> dict[str, tuple[str, ...]]:
    """Return name → the values that an argument or constant may have, if jobs have choices for it.

    It is given alone to a job's argument there. `same` is one of them where it may follow another
    value. Sub-scenarios are included.
    """
    subs = sub_scenarios or {}
    followers = [
        name
        for sub in (scenario, *subs.values())
        for name, value in sub.defaults.items()
        if value == SAME
    ]
    common: dict[str, tuple[str, ...]] = {}
    for use in uses(scenario, jobs, subs):
        if use.argument.choices and (name := sole_placeholder(use.template)) is not None:
            common[name] = tuple(
                choice
                for choice in common.get(name, use.argument.choices)
                if choice in use.argument.choices
            )
    return {
        name: (SAME, *choices) if name in followers else choices for name, choices in common.items()
    }
