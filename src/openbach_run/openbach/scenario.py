# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario: read from its JSON as the backend of OpenBACH 2.7 reads it, with its refusals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from openbach_run.errors import InputError
from openbach_run.json_files import read_json
from openbach_run.openbach import rules
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
from openbach_run.openbach.source import SUFFIXES
from openbach_run.openbach.stored import check_type, read_entry
from openbach_run.openbach.values import placeholders, texts_of
from openbach_run.units import number

SAME = "same"
"""The value of what follows another one: a proxy's congestion control is the end hosts'."""


@dataclass(frozen=True)
class Scenario:
    """A scenario that the backend accepts."""

    name: str
    description: str | None
    arguments: dict[str, str]
    """Name → description; each needs a value at start."""
    constants: dict[str, str]
    functions: tuple[dict[str, Any], ...]
    """In stored form."""
    sweep: dict[str, Any]
    """`x-sweep` of the file: default values and the values that a campaign sweeps."""
    source: dict[str, Any]
    """What was parsed, for lint."""

    @cached_property
    def by_id(self) -> dict[int, dict[str, Any]]:
        """The functions by their ids."""
        return {function["id"]: function for function in self.functions}

    @property
    def addresses(self) -> dict[str, str]:
        """Constant → what it is in an inventory (`x-inventory` of the file)."""
        given = self.source.get("x-inventory")
        references = given.get("constants") if isinstance(given, dict) else {}
        return references if isinstance(references, dict) else {}

    @property
    def settings(self) -> dict[str, str]:
        """Name → description of everything that NAME=VALUE sets: arguments, and constants
        (`x-constants` of the file) that are no addresses.
        """
        described = self.source.get("x-constants")
        texts = described if isinstance(described, dict) else {}
        names = [name for name in (*self.constants, *self._followers) if name not in self.addresses]
        return {**self.arguments, **{name: str(texts.get(name, "constant")) for name in names}}

    @property
    def defaults(self) -> dict[str, str]:
        """Values of settings that are no arguments: constants, and SAME for what follows another
        value (`x-same` of the file).
        """
        constants = {
            name: value for name, value in self.constants.items() if name not in self.addresses
        }
        return {**constants, **dict.fromkeys(self._followers, SAME)}

    @property
    def idle(self) -> dict[str, list[dict[str, str]]]:
        """Name → when a value of it has no effect (`x-idle` of the file): {if: CONDITION
        (rules.py), because: TEXT}.
        """
        declared = self.source.get("x-idle")
        return declared if isinstance(declared, dict) else {}

    @property
    def only_if(self) -> dict[str, str]:
        """Number of a function → the condition (rules.py) on the values with which our engines
        start it (`x-only-if` of the file).

        On a platform it starts in any case.
        """
        declared = self.source.get("x-only-if")
        return declared if isinstance(declared, dict) else {}

    def with_functions_of(self, values: Mapping[str, str]) -> Scenario:
        """The scenario without the functions that it has not with these values."""
        numbers = {
            name: text if (known := number(text)) is None else known
            for name, text in values.items()
        }
        absent = {
            int(one)
            for one, condition in self.only_if.items()
            if not rules.holds(condition, numbers)
        }
        if not absent:
            return self
        kept = [_without(one, absent) for one in self.functions if one["id"] not in absent]
        return replace(self, functions=tuple(kept))

    @property
    def instead(self) -> dict[str, dict[str, Any]]:
        """Name of a constant → what takes the place of defaults where it has a value that is not
        its own: `values` by name, and the column `measure` of the table (`x-instead` of the
        file).
        """
        declared = self.source.get("x-instead")
        return declared if isinstance(declared, dict) else {}

    @property
    def _followers(self) -> dict[str, list[str]]:
        """Name → the places of job arguments that have its value when it has one of its own."""
        followers = self.source.get("x-same")
        return followers if isinstance(followers, dict) else {}

    def with_constants(self, given: Mapping[str, str]) -> Scenario:
        """The scenario with these values in place of those of its constants that have such a name.

        What follows another value, but has one of its own here, becomes a constant. Raises
        InputError for an `x-same` of the wrong shape.
        """
        constants = {name: given.get(name, value) for name, value in self.constants.items()}
        # By their numbers, which stay when with_functions_of() has left some out.
        functions = {one["id"]: one for one in self.functions}
        for name, places in self._followers.items():
            if (value := given.get(name, SAME)) == SAME:
                continue
            constants[name] = value
            try:
                for place in places:
                    function_id, *path = place.split(".")
                    if int(function_id) in functions or function_id not in self.only_if:
                        functions[int(function_id)] = _with_value(
                            functions[int(function_id)], path, [[f"${name}"]]
                        )
            except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
                text = (
                    f"{self.name}: x-same.{name} should be a list of places like"
                    " 7.start_job_instance.satpep.run.cc"
                )
                raise InputError(f"{text} ({error!r})") from None
        return replace(self, constants=constants, functions=tuple(functions.values()))

    @property
    def spelled_out(self) -> Scenario:
        """The scenario as if everything that may follow another value had one of its own."""
        return self.with_constants(dict.fromkeys(self._followers, ""))

    def as_stored(self) -> dict[str, Any]:
        """Return the scenario as the backend answers with it, and as GET gives it back."""
        return {
            "name": self.name,
            "description": self.description,
            "arguments": self.arguments,
            "constants": self.constants,
            "openbach_functions": list(self.functions),
        }


def _without(function: Mapping[str, Any], absent: set[int]) -> dict[str, Any]:
    """The function, which neither waits for those nor stops them."""
    wait = {
        key: [one for one in ids if one not in absent] if key.endswith("_ids") else ids
        for key, ids in function.get("wait", {}).items()
    }
    found = {**function, "wait": wait} if "wait" in function else dict(function)
    if stop := function.get("stop_job_instances"):
        ids = [one for one in stop["openbach_function_ids"] if one not in absent]
        found["stop_job_instances"] = {"openbach_function_ids": ids}
    return found


def is_place(name: str) -> bool:
    """Return whether a scenario's name can be the name of a directory and a part of an address, and
    shows as what it is.
    """
    return name.isprintable() and name not in ("", ".", "..") and not {"/", "\\"} & {*name}


def defaults_of(scenarios: Iterable[Scenario]) -> dict[str, str]:
    """The defaults of a scenario and its sub-scenarios; of a name that several have, the last one's
    counts.
    """
    return {name: value for one in scenarios for name, value in one.defaults.items()}


def _with_value(tree: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """Return the tree with a value in place of a job's argument, which is a list.

    Raises what `with_constants` expects where none is there.
    """
    key, *rest = path
    if not rest and not isinstance(tree[key], list):
        raise ValueError(f"{key} is no argument")
    return {**tree, key: _with_value(tree[key], rest, value) if rest else value}


def read_scenario(path: Path, jobs: Mapping[str, Job]) -> Scenario:
    """The scenario in a file: OpenBACH's JSON, or the YAML that it is made from.

    Raises InputError (unreadable, broken) or Malformed.
    """
    if path.suffix not in SUFFIXES:
        return parse_scenario(read_json(path), jobs)
    from openbach_run.openbach.expand import expand  # not needed for JSON, which most commands read

    made = expand(path)
    try:
        return parse_scenario(made, jobs)
    except Malformed as error:
        if found := re.search(r"openbach_functions\.(\d+)", str(error)):
            label = made["openbach_functions"][int(found[1])]["label"]
            error.args = (f"{error}; openbach_functions.{found[1]} is {label!r}",)
        raise


RENAMED = {"pep": ("satpep", "position")}
"""Old name of one of our jobs → its name, and an argument by which it is told from OpenBACH's own job of the old name."""


def parse_scenario(data: Any, jobs: Mapping[str, Job]) -> Scenario:
    """The scenario, checked as the backend does when it is created, with our jobs by the names that
    they have now.

    Raises Malformed.
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
    """The scenario with the names of RENAMED jobs, also in its x-same; itself if it starts none of
    them.
    """
    functions = data.get("openbach_functions")
    if not isinstance(functions, list) or not any(
        isinstance(one, dict) and _renamed_in(one) for one in functions
    ):
        return data
    made = {**data, "openbach_functions": [_with_job_names(one) for one in functions]}
    if isinstance(same := data.get("x-same"), dict):
        made["x-same"] = {name: _with_place_names(places) for name, places in same.items()}
    return made


def _renamed_in(function: Mapping[str, Any]) -> list[str]:
    """The old names of our jobs that a function starts."""
    start = function.get("start_job_instance")
    if not isinstance(start, dict):
        return []
    return [
        name
        for name, (_, own) in RENAMED.items()
        if isinstance(start.get(name), dict) and own in start[name]
    ]


def _with_job_names(function: Any) -> Any:
    if not isinstance(function, dict) or not (old := _renamed_in(function)):
        return function
    start = {
        RENAMED[key][0] if key in old else key: value
        for key, value in function["start_job_instance"].items()
    }
    return {**function, "start_job_instance": start}


def _with_place_names(places: Any) -> Any:
    """The places of arguments (7.start_job_instance.pep.run.cc) with the names of now."""
    if not isinstance(places, list):
        return places
    for name, (now, _) in RENAMED.items():
        before, after = f".start_job_instance.{name}.", f".start_job_instance.{now}."
        places = [one.replace(before, after) if isinstance(one, str) else one for one in places]
    return places


def _parse(data: dict[str, Any], jobs: Mapping[str, Job]) -> Scenario:
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
    for name, text in texts.items():
        check_type(text, str, f"{at}.{name}")


def _check_use(
    functions: list[dict[str, Any]], arguments: dict[str, str], constants: dict[str, str]
) -> None:
    used: dict[str, None] = {}
    for index, function in enumerate(functions):
        given = function.get("start_scenario_instance", {}).get("arguments", {})
        if isinstance(given, str):  # with a placeholder: others are refused before
            advice = (
                f"openbach_functions.{index}.start_scenario_instance.arguments: {given!r} should be"
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
