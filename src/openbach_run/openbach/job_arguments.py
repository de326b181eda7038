# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of a job in a scenario's function, read as the backend reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.openbach.job import INSTANCE_TYPES, Argument, Command, Job, WrongType
from openbach_run.openbach.refusals import BadPlaceholder, Crash, Refusal, as_list
from openbach_run.openbach.stored import to_stored, type_name

RENAMED = {"configure_link": "tc_configure_link", "tcpdump": "tcpdump_pcap", "ping": "fping"}
"""Jobs of OpenBACH before 2019, and their names now."""


def read_job_arguments(
    name: str, arguments: dict[str, Any], jobs: Mapping[str, Job], at: str
) -> dict[str, Any]:
    """Return the arguments of a job in stored form. Raises Refusal or Crash."""
    if name not in jobs:
        meant = f"since 2019 it is {RENAMED[name]}; " if name in RENAMED else near(name, jobs)
        advice = f"{meant}more jobs can be given with --jobs"
        raise Refusal(f"No such job in the controller database: {name}", at, advice)
    stored: dict[str, Any] = {}
    _check_required(jobs[name].arguments, arguments, at)
    _fill(stored, jobs[name], (), jobs[name].arguments, arguments, at)
    return stored


def _check_required(command: Command, tree: Any, at: str) -> None:
    """Check that what is required is there, at any depth. Raises Refusal or Crash."""
    if tree is None:
        raise Crash("ValueError", "Cannot use None as a query value")
    # Before the types are looked at: the backend iterates over whatever it was given.
    names = list(_values(tree))
    for argument in command.required:
        if argument.name not in names:
            raise Refusal(
                "Missing required argument", f"{at}.{argument.name}", argument.description
            )
    for group in command.groups:
        chosen = [name for name in group.choices if name in names]
        advice = f"one of {', '.join(group.choices)}"
        if len(chosen) > 1:
            raise Refusal(
                "Several subcommands provided for the group", f"{at}.{group.name}", advice
            )
        if chosen:
            _check_required(
                group.choices[chosen[0]], tree[chosen[0]] if isinstance(tree, dict) else {}, at
            )
        elif not group.optional:
            raise Refusal("Missing subcommand for required group", f"{at}.{group.name}", advice)


def _fill(
    stored: dict[str, Any], job: Job, path: tuple[str, ...], command: Command, tree: Any, at: str
) -> None:
    """Put job arguments in their places in `stored`. Raises Refusal or Crash.

    The backend names the place of an error without the subcommands.
    """
    if not isinstance(tree, dict):
        raise Crash(
            "AttributeError",
            f"'{type_name(tree)}' object has no attribute 'items'",
            f"{at}.{'.'.join(path)}",
        )
    # A subcommand's arguments are stored below the names that lead to it.
    branch = stored
    for name in path:
        branch = branch.setdefault(name, {})
    for name, value in tree.items():
        if name in job.subcommands:
            _fill(stored, job, *job.subcommands[name], value, at)
        elif name in command.arguments:
            if occurrences := _occurrences(command.arguments[name], value, f"{at}.{name}"):
                branch[name] = occurrences
        else:
            known = ", ".join([*command.arguments, *command.subcommands]) or "nothing"
            under = f"{path[-1]} of {job.name}" if path else job.name
            text = "The configured job does not accept the given argument"
            raise Refusal(text, f"{at}.{name}", f"{under} takes {known}")


def _occurrences(argument: Argument, raw: Any, place: str) -> list[list[Any]]:
    """Return `v`, `[v, …]` or `[[v, …], …]` as a list of occurrences, each a list of values.

    Raises Refusal or Crash.
    """
    nested = raw if isinstance(raw, list) else [[raw]]
    if not nested:
        raise Crash(
            "IndexError",
            "list index out of range",
            f"{place}: give a value, or leave the argument out",
        )
    occurrences: list[list[Any]] = []
    for index, values in enumerate(nested if isinstance(nested[0], list) else [nested]):
        for value in _values(values):
            if value is None:
                raise Refusal("An array of value contains gaps for the given argument", place)
            if argument.is_switch and not value:
                continue
            if index > len(occurrences):
                raise Crash(
                    "IndexError",
                    "list index out of range",
                    f"{place}: an empty list before this value",
                )
            # The backend makes the list of an occurrence only at its first value.
            occurrences += [[]] * (index == len(occurrences))
            occurrences[index].append(
                True if argument.is_switch else _value(argument, value, place)
            )
    return occurrences


def _values(values: Any) -> Iterator[Any]:
    """Return an iterator over what was given. Raises Crash, as the backend, for what is no list."""
    try:
        return iter(values)
    except TypeError as error:
        raise Crash("TypeError", str(error)) from None


def _value(argument: Argument, value: Any, place: str) -> Any:
    """Return a value as it is stored. Raises Refusal or Crash."""
    try:
        return to_stored(value, argument.type)
    except (WrongType, BadPlaceholder) as error:
        raise Refusal(
            as_list(error), place, offending_value=value, expected_type=argument.type
        ) from None
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        advice = (
            f"{place}: a path of function ids is written [[[3]]]"
            if argument.type in INSTANCE_TYPES
            else place
        )
        raise Crash(type(error).__name__, str(error), advice) from None
