# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario that the backend of OpenBACH 2.7 accepts (reading.py reads it)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from openbach_run.errors import InputError
from openbach_run.openbach import rules

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
        numbers = rules.as_numbers(values)
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
