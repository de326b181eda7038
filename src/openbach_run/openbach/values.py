# SPDX-License-Identifier: GPL-3.0-or-later
"""Placeholders, and the values that take their place when a scenario runs.

The guest uses this too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from string import Template
from typing import Any

from openbach_run.errors import InputError
from openbach_run.openbach.job import INSTANCE_TYPES, Argument, Command, Job, argv, convert, word
from openbach_run.openbach.refusals import BadPlaceholder, NoValue


def placeholders(text: str) -> list[str]:
    """Return the names in a text (`$name`, `${name}`).

    Raises ValueError for a `$` that begins none and is not `$$`.
    """
    matches = list(Template.pattern.finditer(text))
    if any(match["invalid"] is not None for match in matches):
        raise BadPlaceholder
    names = [match["named"] or match["braced"] for match in matches]
    # `$$` is a literal dollar and has no name.
    return [name for name in names if name]


def texts_of(function: Mapping[str, Any]) -> list[str]:
    """Return the texts of a function in which the backend looks for placeholders.

    The function is in stored form. on_fail is not among them.
    """
    kind = kind_of(function)
    body = function[kind]
    parts = [function.get("wait", {}).get("time"), *body.values()]
    if kind == "start_scenario_instance":
        parts += body["arguments"].values()
    for _, arguments in jobs_started(function):
        parts += leaves(arguments)
    return [part for part in parts if isinstance(part, str)]


def leaves(value: Any) -> Iterator[Any]:
    """Yield what is in lists and objects, at any depth."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def kind_of(function: Mapping[str, Any]) -> str:
    """Return what a function does: the key of its body."""
    (kind,) = function.keys() - {"id", "label", "wait", "on_fail"}
    return str(kind)


def substitute(value: Any, kind: str, values: Mapping[str, str]) -> Any:
    """Return a value with its placeholders replaced, as one of its type.

    Raises ValueError with the backend's text.
    """
    if not isinstance(value, str):
        return value
    try:
        return convert(Template(value).substitute(values), kind)
    except KeyError as error:
        raise NoValue(str(error.args[0])) from None


def bind(
    job: Job,
    arguments: Mapping[str, Any],
    values: Mapping[str, str],
    instance_id: Callable[[list[int]], int],
) -> list[str]:
    """Return the command line of a job whose arguments, in stored form, get the scenario's values.

    `instance_id` resolves a path of function ids. Raises InputError for a value of the wrong type,
    and for a wrong number of values: OpenBACH counts them only now.
    """
    return argv(job.arguments, _bound(job.arguments, arguments, values, instance_id, job.name))


def _bound(
    command: Command,
    arguments: Mapping[str, Any],
    values: Mapping[str, str],
    instance_id: Callable[[list[int]], int],
    at: str,
) -> dict[str, Any]:
    """Return job arguments with words in place of values. Raises InputError."""
    bound: dict[str, Any] = {}
    for name, value in arguments.items():
        place = f"{at}.{name}"
        if name in command.subcommands:
            bound[name] = _bound(command.subcommands[name], value, values, instance_id, place)
            continue
        argument = command.arguments[name]
        if problem := argument.miscounted(value):
            raise InputError(f"{place}: {problem}")
        bound[name] = []
        for occurrence in value:
            words = [_word(argument, item, values, instance_id, place) for item in occurrence]
            bound[name].append(words)
    return bound


def _word(
    argument: Argument,
    value: Any,
    values: Mapping[str, str],
    instance_id: Callable[[list[int]], int],
    at: str,
) -> str:
    """Return a value as a word of the command line. Raises InputError."""
    try:
        if argument.type in INSTANCE_TYPES:
            return str(instance_id([substitute(number, "int", values) for number in value]))
        return word(substitute(value, argument.type, values), argument.type)
    except ValueError as error:
        raise InputError(f"{at}: {value!r}: {error}") from error


def jobs_started(function: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield job and arguments of a function that starts one."""
    for name, arguments in function.get("start_job_instance", {}).items():
        if name not in ("entity_name", "offset", "interval"):
            yield name, arguments


def job_values(command: Command, arguments: Mapping[str, Any]) -> Iterator[tuple[Argument, Any]]:
    """Yield every value of job arguments in stored form, with the argument that it is given to."""
    for name, value in arguments.items():
        if name in command.subcommands:
            yield from job_values(command.subcommands[name], value)
        else:
            yield from (
                (command.arguments[name], item) for occurrence in value for item in occurrence
            )


def sole_placeholder(value: Any) -> str | None:
    """Return the name in `$name` or `${name}` if the value is nothing else."""
    match = Template.pattern.fullmatch(value) if isinstance(value, str) else None
    return (match["named"] or match["braced"]) if match else None
