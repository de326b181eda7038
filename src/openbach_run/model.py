# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH scenarios: what the backend of 2.7 accepts, refuses and stores, with its own words.

`Malformed` carries the very answer of the backend (../shared/openbach/conformance.json has what it was seen to say).
Only the standard library: `bind` is used inside the guest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from .errors import InputError
from .jobs import INSTANCE_TYPES, Argument, Command, Job, WrongType, argv, convert

WAIT_LISTS = ("launched_ids", "finished_ids", "running_ids", "ended_ids")
CONTROLLER_FILES = "/opt/openbach/controller/files/"


class Malformed(InputError):
    """A scenario that the backend refuses. `status` and `answer` are those of its HTTP response."""

    def __init__(self, status: int, answer: dict[str, Any]) -> None:
        self.status = status
        self.answer = answer
        super().__init__(_in_words(answer))


class _Refusal(Exception):
    """An `error_message` on its way up."""

    def __init__(self, error: str, entry: str | None = None, **more: Any) -> None:
        super().__init__(error)
        self.message = {"error": error, **({} if entry is None else {"offending_entry": entry}), **more}


class _Crash(Exception):
    """What makes the backend answer 500."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.answer = {"message": "Unexpected exception appeared", "error": text, "traceback": f"{kind}: {text}"}


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

    def as_stored(self) -> dict[str, Any]:
        """What the backend answers, and what GET gives back."""
        return {
            "name": self.name,
            "description": self.description,
            "arguments": self.arguments,
            "constants": self.constants,
            "openbach_functions": list(self.functions),
        }


def read_json(path: Path) -> Any:
    """The content of a JSON file; InputError with line and column if it is broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}, column {error.colno}: broken JSON: {error.msg}") from error
    except RecursionError:
        raise InputError(f"{path}: JSON nested too deeply") from None


def read_scenario(path: Path, jobs: Mapping[str, Job]) -> Scenario:
    """The scenario in a file. Raises InputError (unreadable, broken JSON) or Malformed."""
    return parse_scenario(read_json(path), jobs)


def parse_scenario(data: Any, jobs: Mapping[str, Job]) -> Scenario:
    """The scenario, checked as the backend does when it is created. Raises Malformed."""
    name = str(data["name"]) if isinstance(data, dict) and data.get("name") not in (None, "") else None
    if name is None:
        raise Malformed(400, {"error": "You must provide a name to create a Scenario"})
    try:
        return _parse(name, data, jobs)
    except _Refusal as refusal:
        answer = {
            "scenario_name": name,
            "error_message": refusal.message,
            "error": "Data of the Scenario are malformed",
        }
        raise Malformed(400, answer) from None
    except _Crash as crash:
        raise Malformed(500, crash.answer) from None


def _parse(name: str, data: dict[str, Any], jobs: Mapping[str, Job]) -> Scenario:
    description = data.get("description")
    arguments = _strings(data, "arguments")
    constants = _strings(data, "constants")
    for both in constants.keys() & arguments.keys():
        raise _Refusal("Some constants are named the same than some arguments", f"constants.{both}")
    entries = _get(data, "openbach_functions", list, "")
    functions: list[dict[str, Any]] = []
    for index, entry in enumerate(entries):
        functions.append(_function(entry, f"openbach_functions.{index}", jobs, {f["id"] for f in functions}))
    _check_waits(functions)
    used = {name for function in functions for name in placeholders(function)}
    for undefined in sorted(used - arguments.keys() - constants.keys()):
        raise _Refusal("This argument is used as a placeholder value but is not defined", f"arguments.'{undefined}'")
    for unused in [one for one in (*arguments, *constants) if one not in used]:
        raise _Refusal("An argument is unused", f"arguments.{unused}")
    sweep = data.get("x-sweep")
    return Scenario(
        name,
        None if description is None else str(description),
        arguments,
        constants,
        tuple(functions),
        sweep if isinstance(sweep, dict) else {},
        data,
    )


def _get(data: dict[str, Any], key: str, kind: type, at: str, *default: Any) -> Any:
    value = data.get(key, *default)
    path = f"{at}.{key}" if at else key
    if value is None:
        raise _Refusal("Missing entry", path)
    _check_type(value, kind, path)
    return value


def _check_type(value: Any, kind: type, path: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _Refusal("Type error", path, offending_value=value, expected_type=str(kind))


def _strings(data: dict[str, Any], key: str) -> dict[str, str]:
    found: dict[str, str] = _get(data, key, dict, "", {})
    for name, value in found.items():
        _check_type(value, str, f"{key}.{name}")
    return dict(found)


# Functions


def _function(entry: Any, at: str, jobs: Mapping[str, Job], ids: set[int]) -> dict[str, Any]:
    """A function in stored form."""
    _check_type(entry, dict, at)
    number = _get(entry, "id", int, at)
    label = _get(entry, "label", str, at, str(number))
    wait = _get(entry, "wait", dict, at, {})
    on_fail = _get(entry, "on_fail", dict, at, {})
    kinds = [key for key in entry if key not in ("id", "label", "wait", "on_fail")]
    if len(kinds) != 1:
        problem = (
            f"Too much OpenBACH functions configured: {', '.join(kinds)}"
            if kinds
            else "The content of the OpenBACH function to launch is missing"
        )
        shown = {**entry, "wait": wait, "on_fail": on_fail}
        raise _Refusal(problem, at, offending_value=shown, expected_type="None")
    (kind,) = kinds
    place = f"{at}.{kind}"
    if kind == "condition":
        raise _Crash("AttributeError", "type object 'Condition' has no attribute 'build_from_arguments'")
    if kind not in BODIES:
        raise _Refusal("Unknown OpenBACH Function", at, offending_value=entry, expected_type="None")
    _check_type(entry[kind], dict, place)
    stored_wait = _wait(wait, at, place)
    stored_on_fail = _on_fail(on_fail, at, place)
    stored_kind, body = BODIES[kind](entry[kind], place, jobs)
    if number in ids:
        raise _Refusal(
            'duplicate key value violates unique constraint "openbach_django_openbach_scenario_version_id_func_d1e9a04a_uniq"'
            f"\nDETAIL:  Key (scenario_version_id, function_id)=(1, {number}) already exists.\n",
            place,
        )
    stored = {stored_kind: body, "id": number, "label": label}
    return {
        **stored,
        **({"wait": stored_wait} if stored_wait else {}),
        **({"on_fail": stored_on_fail} if stored_on_fail else {}),
    }


def _number(value: Any, kind: str, place: str) -> Any:
    """A number, or a text with placeholders in its stead."""
    if isinstance(value, str) and _names_in(value):
        return value
    try:
        if value is None or isinstance(value, (list, dict)):
            raise WrongType(value, kind)
        return convert(value, kind)
    except WrongType as error:
        raise _Refusal(json.dumps([str(error)]), place) from None


def _wait(wait: dict[str, Any], at: str, place: str) -> dict[str, Any]:
    stored: dict[str, Any] = {}
    if time := _number(wait.get("time", 0), "float", place):
        stored["time"] = time
    for key in WAIT_LISTS:
        numbers = _get(wait, key, list, f"{at}.wait", [])
        for index, number in enumerate(numbers):
            _check_type(number, int, f"{at}.wait.{key}.{index}")
        if numbers:
            stored[key] = list(numbers)
    return stored


def _check_waits(functions: list[dict[str, Any]]) -> None:
    known = {function["id"] for function in functions}
    for place, function in enumerate(functions):
        for key in WAIT_LISTS:
            for index, number in enumerate(function.get("wait", {}).get(key, [])):
                if number not in known:  # whatever the list, the backend says launched_ids
                    raise _Refusal(
                        "The referenced openbach function does not exist",
                        f"openbach_functions.{place}.wait.launched_ids.{index}",
                        offending_value=number,
                        expected_type="None",
                    )


def _on_fail(on_fail: dict[str, Any], at: str, place: str) -> dict[str, Any]:
    if "policy" not in on_fail:
        return {}
    policy = str(on_fail["policy"]).capitalize()
    if policy not in ("Fail", "Ignore", "Retry"):
        raise _Refusal(f"Unknown failure policy '{on_fail['policy']}'", f"{at}.on_fail")
    if policy != "Retry":
        return {"policy": policy}
    retry = _get(on_fail, "retry", int, f"{at}.on_fail")
    return {"policy": policy, "delay": _number(on_fail.get("delay", 5.0), "float", place), "retry": retry}


# The bodies of functions: what is sent → the name and the body that are stored.

Body = tuple[str, dict[str, Any]]


def _start_job_instance(body: dict[str, Any], at: str, jobs: Mapping[str, Job]) -> Body:
    if "entity_name" not in body:
        raise _Refusal("Missing entry ''entity_name''", at)
    entity = body["entity_name"]
    _check_type(entity, str, f"{at}.entity_name")
    names = [key for key in body if key not in ("entity_name", "offset", "interval")]
    if not names:
        raise _Refusal("The name of the job to start is missing", at)
    if len(names) > 1:
        raise _Refusal("Too much job names to start", at)
    (name,) = names
    place = f"{at}.{name}"
    if name not in jobs:
        raise _Refusal(f"No such job in the controller database: {name}", place)
    _check_type(body[name], dict, place)
    stored = {name: _arguments(jobs[name].arguments, body[name], place), "entity_name": entity}
    for key, kind in (("offset", "float"), ("interval", "int")):
        if body.get(key) is not None:
            stored[key] = _number(body[key], kind, at)
    return "start_job_instance", stored


def _arguments(command: Command, given: dict[str, Any], at: str) -> dict[str, Any]:
    """Job arguments in stored form."""
    stored: dict[str, Any] = {}
    for name, value in given.items():
        place = f"{at}.{name}"
        if name in command.subcommands:
            _check_type(value, dict, place)
            stored[name] = _arguments(command.subcommands[name], value, place)
        elif (argument := command.arguments.get(name)) is None:
            raise _Refusal("The configured job does not accept the given argument", place)
        elif not argument.is_switch:
            stored[name] = _occurrences(argument, value, place)
        elif value:
            stored[name] = True
    for argument in command.required:
        if argument.name not in given:
            raise _Refusal("Missing required argument", f"{at}.{argument.name}")
    for group in command.groups:
        chosen = [name for name in group.choices if name in given]
        if len(chosen) > 1:
            raise _Refusal("Several subcommands provided for the group", f"{at}.{group.name}")
        if not chosen and not group.optional:
            raise _Refusal("Missing subcommand for required group", f"{at}.{group.name}")
    return stored


def _occurrences(argument: Argument, value: Any, place: str) -> list[list[Any]]:
    """`v`, `[v, …]` or `[[v, …], …]` as a list of occurrences, each a list of values."""
    if argument.type in INSTANCE_TYPES:
        return _paths(value)
    values = value if isinstance(value, list) else [value]
    if not values:
        raise _Crash("IndexError", "list index out of range")
    occurrences = values if all(isinstance(one, list) for one in values) else [values]
    return [[_value(one, argument.type, place) for one in occurrence] for occurrence in occurrences]


def _value(value: Any, kind: str, place: str) -> Any:
    if value is None:
        raise _Refusal("An array of value contains gaps for the given argument", place)
    if isinstance(value, str) and _names_in(value):
        return value
    try:
        if isinstance(value, (list, dict)):
            raise WrongType(value, kind)
        return value if kind == "str" and isinstance(value, str) else convert(value, kind)
    except WrongType as error:
        raise _Refusal(json.dumps([str(error)]), place) from None


def _paths(value: Any) -> list[list[Any]]:
    """Paths of function ids, three levels deep."""
    if not isinstance(value, list) or not all(isinstance(one, list) for one in value):
        raise _Crash("TypeError", f"'{type(value).__name__}' object is not iterable")
    for path in (path for occurrence in value for path in occurrence):
        if not isinstance(path, list) or not all(isinstance(number, int) for number in path):
            raise _Crash("TypeError", f"'{type(path).__name__}' object is not iterable")
    return [list(occurrence) for occurrence in value]


def _fields(kind: str, *required: str, **optional: Any) -> Callable[[dict[str, Any], str, Mapping[str, Job]], Body]:
    """A function whose body is a row of a table: what is required may not be null, nothing else may be given."""
    model = "".join(map(str.title, kind.split("_")))

    def parse(body: dict[str, Any], at: str, jobs: Mapping[str, Job]) -> Body:
        if unknown := [key for key in body if key not in (*required, *optional)]:
            raise _Refusal(f"{model}() got unexpected keyword arguments: {', '.join(map(repr, unknown))}", at)
        for name in required:
            if body.get(name) is None:
                row = ", ".join("null" if body.get(key) is None else str(body[key]) for key in required)
                raise _Refusal(
                    f'null value in column "{name}" of relation "openbach_django_{model.lower()}" violates not-null '
                    f"constraint\nDETAIL:  Failing row contains (1, {row}).\n",
                    at,
                )
        for name, kind_of in FIELD_TYPES.items():
            if body.get(name) is not None:
                _check_type(body[name], kind_of, f"{at}.{name}")
        return kind, {**optional, **body}

    return parse


FIELD_TYPES = {"openbach_function_ids": list, "openbach_function_id": int, "arguments": dict, "scenario_name": str}


def _files(kind: str) -> Callable[[dict[str, Any], str, Mapping[str, Job]], Body]:
    def parse(body: dict[str, Any], at: str, jobs: Mapping[str, Job]) -> Body:
        entity = _get(body, "entity_name", str, at)
        local, remote = (_get(body, key, list, at) for key in ("local_path", "remote_path"))
        if len(local) != len(remote):
            raise _Refusal("local and remote paths amount mismatch", at)
        owners = zip(
            local, remote, body.get("users") or [], body.get("groups") or [], body.get("removes") or [], strict=False
        )
        files = [
            {
                "local_path": f"{CONTROLLER_FILES}{one}",
                "remote_path": there,
                "user": user,
                "group": group,
                "remove": str(remove),
            }
            for one, there, user, group, remove in owners
        ]
        return kind, {"entity_name": entity, "files": files}

    return parse


def _branches(kind: str, first: str, second: str) -> Callable[[dict[str, Any], str, Mapping[str, Job]], Body]:
    def parse(body: dict[str, Any], at: str, jobs: Mapping[str, Job]) -> Body:
        condition = _get(body, "condition", dict, at)
        if '"type": "value"' in json.dumps(condition):
            raise _Refusal("'property' object is not callable", at)
        branches = {
            f"openbach_function_{key}_ids": _get(body, f"openbach_functions_{key}_ids", list, at)
            for key in (first, second)
        }
        return kind, {"condition": condition, **branches}

    return parse


def _listing(body: dict[str, Any], at: str, jobs: Mapping[str, Job]) -> Body:
    """Stored under another name, as the backend does."""
    return "status_job_instance", _fields("list_job_instances", "addresses", "update")(body, at, jobs)[1]


BODIES: dict[str, Callable[[dict[str, Any], str, Mapping[str, Job]], Body]] = {
    "start_job_instance": _start_job_instance,
    "stop_job_instances": _fields("stop_job_instances", "openbach_function_ids"),
    "stop_job_instance": _fields("stop_job_instance", "openbach_function_id"),
    "start_scenario_instance": _fields("start_scenario_instance", "scenario_name", "arguments"),
    "stop_scenario_instance": _fields("stop_scenario_instance", "openbach_function_id"),
    "push_file": _files("push_file"),
    "pull_file": _files("pull_file"),
    "reboot": _fields("reboot", "entity_name", kernel=None),
    "restart_job_instance": _fields("restart_job_instance", "instance_id", "arguments", "date", "interval"),
    "status_job_instance": _fields("status_job_instance", "instance_id", "update"),
    "list_job_instances": _listing,
    "if": _branches("if", "true", "false"),
    "while": _branches("while", "while", "end"),
    "assign_collector": _fields("assign_collector", "address", "collector"),
    "install_agent": _fields("install_agent", "address", "collector", "username", "name", password=None),
    "uninstall_agent": _fields("uninstall_agent", "address"),
    "set_log_severity_job": _fields("set_log_severity_job", "address", "job_name", "severity", local_severity=None),
    "set_statistics_policy_job": _fields(
        "set_statistics_policy_job", "address", "job_name", statistic_name=None, storage=None, broadcast=None
    ),
}


# Placeholders


def _names_in(text: str) -> set[str]:
    """The placeholders of a text; a `$` that begins none (and is not `$$`) makes the backend crash."""
    names = set()
    for found in Template.pattern.finditer(text):
        if found.group("invalid") is not None:
            line = text.count("\n", 0, found.start()) + 1
            column = found.start() - text.rfind("\n", 0, found.start())
            raise _Crash("ValueError", f"Invalid placeholder in string: line {line}, col {column}")
        if name := found.group("named") or found.group("braced"):
            names.add(name)
    return names


def placeholders(value: Any) -> set[str]:
    """All placeholders in a function, or a part of one, in stored form."""
    if isinstance(value, str):
        return _names_in(value)
    if isinstance(value, dict):
        return {name for key, one in value.items() if key != "label" for name in placeholders(one)}
    if isinstance(value, list):
        return {name for one in value for name in placeholders(one)}
    return set()


def bind(
    job: Job, arguments: Mapping[str, Any], values: Mapping[str, str], instance_id: Callable[[list[int]], int]
) -> list[str]:
    """The command line of a job whose arguments, in stored form, get the scenario's values.

    `instance_id` resolves a path of function ids. Raises InputError for a value of the wrong type.
    """
    return argv(job.arguments, _bound(job.arguments, arguments, values, instance_id, job.name))


def _bound(
    command: Command,
    arguments: Mapping[str, Any],
    values: Mapping[str, str],
    instance_id: Callable[[list[int]], int],
    at: str,
) -> dict[str, Any]:
    bound: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in command.subcommands:
            bound[name] = _bound(command.subcommands[name], value, values, instance_id, f"{at}.{name}")
        elif (argument := command.arguments[name]).is_switch:
            bound[name] = value
        elif argument.type in INSTANCE_TYPES:
            bound[name] = [[instance_id(path) for path in occurrence] for occurrence in value]
        else:
            bound[name] = [
                [_substituted(one, argument, values, f"{at}.{name}") for one in occurrence] for occurrence in value
            ]
    return bound


def _substituted(value: Any, argument: Argument, values: Mapping[str, str], at: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return convert(Template(value).substitute(values), argument.type)
    except (WrongType, KeyError) as error:
        raise InputError(f"{at}: {value!r}: {error}") from error


def check_values(scenario: Scenario, values: Mapping[str, str], jobs: Mapping[str, Job]) -> None:
    """What the backend checks when a scenario is started. Raises Malformed."""
    if unknown := [name for name in values if name not in scenario.arguments]:
        text = "A value was provided for an Argument that is not defined for this Scenario."
        raise Malformed(400, {"error": text, "name": unknown[0]})
    all_values = {**scenario.constants, **values}
    text = "Arguments of an OpenbachFunction have the wrong type of values."
    for index, function in enumerate(scenario.functions):
        place = f"openbach_functions.{index}"
        if missing := sorted(placeholders(function) - all_values.keys()):
            message = {"error": f"no value for the argument '{missing[0]}'", "offending_entry": place}
            raise Malformed(400, {"error": text, "error_message": message})
        for job, arguments in jobs_started(function):
            try:
                bind(jobs[job], arguments, all_values, lambda path: 0)
            except InputError as error:
                message = {"error": str(error), "offending_entry": f"{place}.start_job_instance"}
                raise Malformed(400, {"error": text, "error_message": message}) from None


def jobs_started(function: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Job and arguments of a function that starts one."""
    for name, arguments in function.get("start_job_instance", {}).items():
        if name not in ("entity_name", "offset", "interval"):
            yield name, arguments


def argument_choices(scenario: Scenario, jobs: Mapping[str, Job]) -> dict[str, tuple[str, ...]]:
    """Values that a scenario argument may take, where a job argument with choices is given it alone."""
    found: dict[str, tuple[str, ...]] = {}
    for function in scenario.functions:
        for job, arguments in jobs_started(function):
            for argument, value in job_values(jobs[job].arguments, arguments):
                name = _sole_placeholder(value) if argument.choices else None
                if name is not None:
                    known = found.get(name, argument.choices)
                    found[name] = tuple(choice for choice in known if choice in argument.choices)
    return found


def _sole_placeholder(value: Any) -> str | None:
    """The name in `$name` or `${name}` when the value is nothing else."""
    found = Template.pattern.fullmatch(value) if isinstance(value, str) else None
    return (found["named"] or found["braced"]) if found else None


def job_values(command: Command, arguments: Mapping[str, Any]) -> Iterator[tuple[Argument, Any]]:
    """Every single value of job arguments in stored form, with what it is given to."""
    for name, value in arguments.items():
        if name in command.subcommands:
            yield from job_values(command.subcommands[name], value)
        elif not (argument := command.arguments[name]).is_switch:
            yield from ((argument, one) for occurrence in value for one in occurrence)


def _in_words(answer: Mapping[str, Any]) -> str:
    message = answer.get("error_message", {})
    if "message" in answer:
        return f"the OpenBACH backend would crash on this scenario (HTTP 500: {answer['error']})"
    where = f"{message['offending_entry']}: " if "offending_entry" in message else ""
    expected = message.get("expected_type", "None")
    wanted = (
        "" if expected == "None" else f" (is {message.get('offending_value')!r}, should be a {_json_type(expected)})"
    )
    return f"{where}{message.get('error', answer['error']).strip()}{wanted}"


def _json_type(python_type: str) -> str:
    return {
        "<class 'dict'>": "JSON object",
        "<class 'list'>": "list",
        "<class 'str'>": "string",
        "<class 'int'>": "whole number",
    }.get(python_type, python_type)
