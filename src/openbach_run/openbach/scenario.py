# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario that the backend of OpenBACH 2.7 accepts (reading.py reads it)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from openbach_run.errors import InputError
from openbach_run.openbach import rules
from openbach_run.openbach.values import jobs_started

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
    """Functions in stored form."""
    sweep: dict[str, Any]
    """`x-sweep` of the file: default values and the values that a campaign sweeps."""
    source: dict[str, Any]
    """JSON that was parsed, for lint."""

    @cached_property
    def by_id(self) -> dict[int, dict[str, Any]]:
        """Return the functions by their ids."""
        return {function["id"]: function for function in self.functions}

    @property
    def addresses(self) -> dict[str, str]:
        """Return constant → what it is in an inventory (`x-inventory` of the file)."""
        inventory = self.source.get("x-inventory")
        references = inventory.get("constants") if isinstance(inventory, dict) else {}
        return references if isinstance(references, dict) else {}

    @property
    def settings(self) -> dict[str, str]:
        """Return name → description of everything that NAME=VALUE sets.

        It is the arguments, and the constants that are no addresses (`x-constants` of the file).
        """
        described = self.source.get("x-constants")
        texts = described if isinstance(described, dict) else {}
        # An address is the inventory's: a value here would send packets to a host that is not
        # there.
        names = [name for name in (*self.constants, *self._followers) if name not in self.addresses]
        return {**self.arguments, **{name: str(texts.get(name, "constant")) for name in names}}

    @property
    def defaults(self) -> dict[str, str]:
        """Return the values of settings that are no arguments.

        They are the constants', and SAME for what follows another value (`x-same` of the file).
        """
        constants = {
            name: value for name, value in self.constants.items() if name not in self.addresses
        }
        return {**constants, **dict.fromkeys(self._followers, SAME)}

    @property
    def idle(self) -> dict[str, list[dict[str, str]]]:
        """Return name → when a value of it has no effect (`x-idle` of the file).

        It is {if: CONDITION (rules.py), because: TEXT}.
        """
        declared = self.source.get("x-idle")
        return declared if isinstance(declared, dict) else {}

    @property
    def only_if(self) -> dict[str, str]:
        """Return the number of a function → the condition with which our engines start it.

        On a platform it starts in any case. (`x-only-if` of the file; rules.py)
        """
        declared = self.source.get("x-only-if")
        return declared if isinstance(declared, dict) else {}

    def with_functions_of(self, values: Mapping[str, str]) -> Scenario:
        """Return the scenario with the functions that it has with these values."""
        numbers = rules.as_numbers(values)
        absent = {
            int(number)
            for number, condition in self.only_if.items()
            if not rules.holds(condition, numbers)
        }
        if not absent:
            return self
        kept = [_without(entry, absent) for entry in self.functions if entry["id"] not in absent]
        return replace(self, functions=tuple(kept))

    @property
    def instead(self) -> dict[str, dict[str, Any]]:
        """Return constant → what takes the place of defaults if it has not its own value.

        It has `values` by name, and the column `measure` of the table (`x-instead` of the file).
        """
        declared = self.source.get("x-instead")
        return declared if isinstance(declared, dict) else {}

    @property
    def measures(self) -> dict[str, Any]:
        """Return column → what it is, of those that its steps measure (`x-measures`)."""
        declared = self.source.get("x-measures")
        return declared if isinstance(declared, dict) else {}

    @property
    def _followers(self) -> dict[str, list[str]]:
        """Return name → the places of job arguments that have its value when it has its own."""
        followers = self.source.get("x-same")
        return followers if isinstance(followers, dict) else {}

    def with_constants(self, values: Mapping[str, str]) -> Scenario:
        """Return the scenario with these values in place of those of its constants.

        What follows another value, but has one of its own here, becomes a constant. Raises
        InputError for an `x-same` of the wrong shape.
        """
        constants = {name: values.get(name, value) for name, value in self.constants.items()}
        # By their numbers, which stay when with_functions_of() has left some out.
        functions = {function["id"]: function for function in self.functions}
        for name, places in self._followers.items():
            if (value := values.get(name, SAME)) == SAME:
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
        """Return the scenario as if nothing followed another value."""
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
    """Return the function, which neither waits for absent ones nor stops them."""
    wait = dict(function.get("wait", {}))
    for key in wait:
        if key.endswith("_ids"):
            wait[key] = [number for number in wait[key] if number not in absent]
    kept = {**function, "wait": wait} if "wait" in function else dict(function)
    if stop := function.get("stop_job_instances"):
        ids = [number for number in stop["openbach_function_ids"] if number not in absent]
        kept["stop_job_instances"] = {"openbach_function_ids": ids}
    return kept


def is_place(name: str) -> bool:
    """Return whether a scenario's name can be that of a directory, and shows as what it is.

    It is a part of an address (URL), too.
    """
    return name.isprintable() and name not in ("", ".", "..") and not {"/", "\\"} & {*name}


def jobs_of(scenarios: Iterable[Scenario]) -> list[str]:
    """Return the jobs that the scenarios start, in their order, with repetitions."""
    jobs: list[str] = []
    for scenario in scenarios:
        for function in scenario.functions:
            jobs += [job for job, _ in jobs_started(function)]
    return jobs


def jobs_by_entity(scenarios: Iterable[Scenario]) -> dict[str, set[str]]:
    """Return the jobs that the scenarios start, by the entity on which they start them."""
    jobs: dict[str, set[str]] = {}
    for scenario in scenarios:
        for function in scenario.functions:
            for job, _ in jobs_started(function):
                jobs.setdefault(function["start_job_instance"]["entity_name"], set()).add(job)
    return jobs


def defaults_of(scenarios: Iterable[Scenario]) -> dict[str, str]:
    """Return the defaults of a scenario and its sub-scenarios.

    If several have a name, the last one's value counts.
    """
    return {name: value for scenario in scenarios for name, value in scenario.defaults.items()}


def _with_value(tree: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """Return the tree with a value in place of a job's argument, which is a list.

    Raises what `with_constants` expects where none is there.
    """
    key, *rest = path
    if not rest and not isinstance(tree[key], list):
        raise ValueError(f"{key} is no argument")
    return {**tree, key: _with_value(tree[key], rest, value) if rest else value}
