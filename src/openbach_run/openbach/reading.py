# SPDX-License-Identifier: GPL-3.0-or-later
"""The reading of a scenario from JSON as OpenBACH's backend reads it, with its refusals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openbach_run.json_files import read_json
from openbach_run.openbach.functions import add_waits, read_function
from openbach_run.openbach.job import Job
from openbach_run.openbach.refusals import (
    MAX_LENGTH,
    TOO_LONG,
    BadPlaceholder,
    Crash,
    Malformed,
    Refusal,
    as_list,
    crash_answer,
)
from openbach_run.openbach.scenario import Scenario
from openbach_run.openbach.source import SUFFIXES
from openbach_run.openbach.stored import check_type, read_entry
from openbach_run.openbach.values import placeholders, texts_of


def read_scenario(path: Path, jobs: Mapping[str, Job]) -> Scenario:
    """Return the scenario in a file: OpenBACH's JSON, or the YAML that it is made from.

    Raises InputError (unreadable, broken) or Malformed.
    """
    if path.suffix not in SUFFIXES:
        return parse_scenario(read_json(path), jobs)
    from openbach_run.openbach.expand import expand  # not needed for JSON, which most commands read

    data = expand(path)
    try:
        return parse_scenario(data, jobs)
    except Malformed as error:
        # The writer of a YAML file knows labels, not numbers.
        if match := re.search(r"openbach_functions\.(\d+)", str(error)):
            label = data["openbach_functions"][int(match[1])]["label"]
            error.args = (f"{error}; openbach_functions.{match[1]} is {label!r}",)
        raise


RENAMED = {"pep": ("satpep", "position")}
"""Old name of one of our jobs → its name, and an argument that OpenBACH's own job of the old name
does not have."""


def parse_scenario(data: Any, jobs: Mapping[str, Job]) -> Scenario:
    """Return the scenario of JSON, checked as the backend does when one is created.

    Our jobs have the names that they have now. Raises Malformed.
    """
    if not isinstance(data, dict):
        text = "list indices must be integers or slices, not str"
        raise Malformed(
            500, crash_answer("TypeError", text), "a scenario is a JSON object with a name"
        )
    if "name" not in data:
        raise Malformed(400, {"error": "You must provide a name to create a Scenario"})
    if data["name"] is None:
        raise Malformed(
            409,
            {"error": "Trying to create an existing Scenario.", "name": None},
            "null is no name",
        )
    try:
        return _parse(_with_names_of_now(data), jobs)
    except Refusal as refusal:
        answer = {
            "scenario_name": data["name"],
            "error_message": refusal.message,
            "error": "Data of the Scenario are malformed",
        }
        raise Malformed(400, answer, refusal.advice) from None
    except Crash as crash:
        raise Malformed(500, crash_answer(crash.kind, str(crash)), crash.advice) from None
    except RecursionError:
        raise Malformed(
            500, crash_answer("RecursionError", "maximum recursion depth exceeded")
        ) from None


def _with_names_of_now(data: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario with the names of RENAMED jobs, also in its x-same."""
    functions = data.get("openbach_functions")
    if not isinstance(functions, list) or not any(
        isinstance(function, dict) and _renamed_in(function) for function in functions
    ):
        return data
    current = {**data, "openbach_functions": [_with_job_names(function) for function in functions]}
    if isinstance(same := data.get("x-same"), dict):
        current["x-same"] = {name: _with_place_names(places) for name, places in same.items()}
    return current


def _renamed_in(function: Mapping[str, Any]) -> list[str]:
    """Return the old names of our jobs that a function starts."""
    start = function.get("start_job_instance")
    if not isinstance(start, dict):
        return []
    return [
        name
        for name, (_, own) in RENAMED.items()
        if isinstance(start.get(name), dict) and own in start[name]
    ]


def _with_job_names(function: Any) -> Any:
    """Return a function with the names that our jobs have now."""
    if not isinstance(function, dict) or not (old := _renamed_in(function)):
        return function
    start = {
        RENAMED[key][0] if key in old else key: value
        for key, value in function["start_job_instance"].items()
    }
    return {**function, "start_job_instance": start}


def _with_place_names(places: Any) -> Any:
    """Return the places of arguments (7.start_job_instance.pep.run.cc) with the names of now."""
    if not isinstance(places, list):
        return places
    for name, (now, _) in RENAMED.items():
        before, after = f".start_job_instance.{name}.", f".start_job_instance.{now}."
        places = [path.replace(before, after) if isinstance(path, str) else path for path in places]
    return places


def _parse(data: dict[str, Any], jobs: Mapping[str, Job]) -> Scenario:
    """Return the scenario of JSON with a name. Raises Refusal or Crash."""
    name, description = str(data["name"]), data.get("description")
    if len(name) > MAX_LENGTH:
        raise Crash("django.db.utils.DataError", TOO_LONG)
    arguments: dict[str, str] = read_entry(data, "arguments", dict, "", {})
    _check_texts(arguments, "arguments")
    constants: dict[str, str] = read_entry(data, "constants", dict, "", {})
    if both := [f"constants.{name}" for name in arguments if name in constants]:
        raise Refusal("Some constants are named the same than some arguments", ", ".join(both))
    _check_texts(constants, "constants")
    entries = read_entry(data, "openbach_functions", list, "")
    functions: list[dict[str, Any]] = []
    ids: dict[int, None] = {}
    for index, entry in enumerate(entries):
        functions.append(read_function(entry, f"openbach_functions.{index}", jobs, ids))
        ids[functions[-1]["id"]] = None
    # Afterwards, as a function may wait for one that comes later.
    for index, (entry, function) in enumerate(zip(entries, functions, strict=True)):
        add_waits(entry.get("wait", {}), function, f"openbach_functions.{index}.wait", ids)
    _check_use(functions, arguments, constants)
    sweep = data.get("x-sweep")
    return Scenario(
        name,
        None if description is None else str(description),
        dict(arguments),
        dict(constants),
        tuple(functions),
        sweep if isinstance(sweep, dict) else {},
        data,
    )


def _check_texts(texts: dict[str, Any], at: str) -> None:
    """Check that values are texts. Raises Refusal."""
    for name, text in texts.items():
        check_type(text, str, f"{at}.{name}")


def _check_use(
    functions: list[dict[str, Any]], arguments: dict[str, str], constants: dict[str, str]
) -> None:
    """Check that what is used is declared, and the reverse. Raises Refusal or Crash."""
    used: dict[str, None] = {}
    for index, function in enumerate(functions):
        value = function.get("start_scenario_instance", {}).get("arguments", {})
        if isinstance(value, str):  # with a placeholder: others are refused before
            advice = (
                f"openbach_functions.{index}.start_scenario_instance.arguments: {value!r} should be"
                " an object"
            )
            raise Crash("AttributeError", "'str' object has no attribute 'values'", advice)
        for text in texts_of(function):
            try:
                used.update(dict.fromkeys(placeholders(text)))
            except BadPlaceholder as error:
                advice = f"openbach_functions.{index}: {text!r}: a literal dollar is written $$"
                raise Crash(
                    "django.core.exceptions.ValidationError", as_list(error), advice
                ) from None
    for name in used:
        if name not in arguments and name not in constants:
            raise Refusal(
                "This argument is used as a placeholder value but is not defined",
                f"arguments.'{name}'",
                f"add {name} to arguments or constants; a literal dollar is written $$",
            )
    for name in (*arguments, *constants):
        if name not in used:
            raise Refusal(
                "An argument is unused",
                f"arguments.{name}",
                f"write ${name} where its value goes, or leave it out",
            )
