# SPDX-License-Identifier: GPL-3.0-or-later
"""The backend's checks when a scenario is started with values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from openbach_run.openbach.job import INSTANCE_TYPES, Job
from openbach_run.openbach.refusals import Malformed, as_list
from openbach_run.openbach.scenario import Scenario
from openbach_run.openbach.templates import names_in
from openbach_run.openbach.values import (
    job_values,
    jobs_started,
    kind_of,
    leaves,
    placeholders,
    substitute,
)


def check_values(scenario: Scenario, values: Mapping[str, str], jobs: Mapping[str, Job]) -> None:
    """Check the values as the backend does when a scenario is started.

    Raises Malformed. Sub-scenarios are checked when they start.
    """
    for name in values:
        if name not in scenario.arguments:
            text = "A value was provided for an Argument that is not defined for this Scenario."
            answer = {"error": text, "scenario_name": scenario.name, "argument_name": name}
            raise Malformed(
                400, answer, f"{name}: there are {', '.join(scenario.arguments) or 'none'}"
            )
    known = {**scenario.constants, **values}
    for index, function in enumerate(scenario.functions):
        for place, kind, value in _typed_texts(function, jobs):
            try:
                substitute(value, kind, known)
            except ValueError as error:
                answer = {
                    "error": "Arguments of an OpenbachFunction have the wrong type of values.",
                    "openbach_function_name": kind_of(function).replace("_", " "),
                    "error_message": as_list(error),
                }
                used = {name: known[name] for name in placeholders(value) if name in known}
                where = f"openbach_functions.{index}.{place}: {value!r}"
                raise Malformed(400, answer, f"{where} with {used}" if used else where) from None


def names_used(scenario: Scenario, jobs: Mapping[str, Job]) -> list[set[str]]:
    """Return the names that each value which `check_values` looks at follows from.

    Two starts with the same values of these names have the same value there.
    """
    names: dict[tuple[int, str], set[str]] = {}
    for variant in (scenario, scenario.spelled_out):
        for index, function in enumerate(variant.functions):
            for place, _, text in _typed_texts(function, jobs):
                names.setdefault((index, place), set()).update(names_in(text))
    return list(names.values())


def _typed_texts(
    function: Mapping[str, Any], jobs: Mapping[str, Job]
) -> Iterator[tuple[str, str, str]]:
    """Yield place, type and text of every value of a function that is put together at start."""
    kind = kind_of(function)
    types = {"offset": "float", "interval": "int", "openbach_function_id": "int"}
    typed = [
        (f"{kind}.{name}", types.get(name, "str"), value) for name, value in function[kind].items()
    ]
    for job, arguments in jobs_started(function):
        typed += [
            (
                f"{kind}.{job}.{argument.name}",
                "int" if argument.type in INSTANCE_TYPES else argument.type,
                leaf,
            )
            for argument, value in job_values(jobs[job].arguments, arguments)
            for leaf in leaves(value)
        ]
    if kind == "start_scenario_instance":
        typed += [
            (f"{kind}.arguments.{name}", "str", value)
            for name, value in function[kind]["arguments"].items()
        ]
    for key, name in (("on_fail", "delay"), ("wait", "time")):
        typed.append((f"{key}.{name}", "float", function.get(key, {}).get(name)))
    return ((place, kind, value) for place, kind, value in typed if isinstance(value, str))
