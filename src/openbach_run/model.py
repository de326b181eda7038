# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH scenarios: what the backend of 2.7 accepts, refuses and stores, with its own words.

`Malformed` carries the very answer of the backend (tests/data/conformance.json has what it was seen to say). The
order of the checks is the backend's, as a scenario with two mistakes is refused for the first one it meets.
Only the standard library: `bind` is used inside the guest.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from string import Template
from typing import Any

from .errors import InputError
from .jobs import INSTANCE_TYPES, Argument, Command, Job, WrongType, argv, convert, word

WAIT_LISTS = ("running_ids", "ended_ids", "launched_ids", "finished_ids")
CONTROLLER_FILES = PurePosixPath("/opt/openbach/controller/files")
NUMBER = (int, float, str)
MAX_LENGTH = 500
TOO_LONG = "value too long for type character varying(500)\n"


class Malformed(InputError):
    """A scenario that the backend refuses. `status` and `answer` are those of its HTTP response; `advice` is ours."""

    def __init__(self, status: int, answer: dict[str, Any], advice: str = "") -> None:
        self.status = status
        self.answer = answer
        super().__init__("; ".join(filter(None, (_in_words(answer), advice))))


class _Refusal(Exception):
    """An `error_message` on its way up; its place may be added later."""

    def __init__(self, error: str, entry: str | None, advice: str = "", **more: Any) -> None:
        super().__init__(error)
        self.advice = advice
        self.message = {"error": error, **({} if entry is None else {"offending_entry": entry}), **more}


class _Crash(Exception):
    """What makes the backend answer 500."""

    def __init__(self, kind: str, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.kind, self.advice = kind, advice


class _BadPlaceholder(ValueError):
    """A `$` that begins no placeholder and is not `$$`; the text is the backend's."""

    def __init__(self) -> None:
        super().__init__("value uses the placeholder escape symbol ($) but does not provide a valid identifier")


class _NoValue(ValueError):
    """A placeholder that has no value at start; the text is the backend's."""

    def __init__(self, name: str) -> None:
        super().__init__(f"value contains a placeholder ({name!r}) that is not found in provided parameters")


def _crash(kind: str, text: str) -> dict[str, Any]:
    return {"message": "Unexpected exception appeared", "error": text, "traceback": f"{kind}: {text}"}


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

    @property
    def addresses(self) -> dict[str, str]:
        """Constant → what it is in an inventory (`x-inventory` of the file)."""
        given = self.source.get("x-inventory")
        references = given.get("constants") if isinstance(given, dict) else {}
        return references if isinstance(references, dict) else {}

    @property
    def settings(self) -> dict[str, str]:
        """Name → description of everything that NAME=VALUE sets: arguments, and constants (`x-constants` of the file)
        that are no addresses."""
        described = self.source.get("x-constants")
        texts = described if isinstance(described, dict) else {}
        names = [name for name in (*self.constants, *self._followers) if name not in self.addresses]
        return {**self.arguments, **{name: str(texts.get(name, "constant")) for name in names}}

    @property
    def defaults(self) -> dict[str, str]:
        """Values of settings that are no arguments: constants, and SAME for what follows another value (`x-same` of the
        file)."""
        constants = {name: value for name, value in self.constants.items() if name not in self.addresses}
        return {**constants, **dict.fromkeys(self._followers, SAME)}

    @property
    def _followers(self) -> dict[str, list[str]]:
        """Name → the places of job arguments that have its value when it has one of its own."""
        followers = self.source.get("x-same")
        return followers if isinstance(followers, dict) else {}

    def with_constants(self, given: Mapping[str, str]) -> Scenario:
        """The scenario with these values in place of those of its constants that have such a name. What follows another
        value, but has one of its own here, becomes a constant. Raises InputError for an `x-same` of the wrong shape."""
        constants = {name: given.get(name, value) for name, value in self.constants.items()}
        functions = list(self.functions)
        for name, places in self._followers.items():
            if (value := given.get(name, SAME)) == SAME:
                continue
            constants[name] = value
            try:
                for place in places:
                    number, *path = place.split(".")
                    functions[int(number)] = _with_value(functions[int(number)], path, [[f"${name}"]])
            except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
                text = f"{self.name}: x-same.{name} should be a list of places like 7.start_job_instance.pep.run.cc"
                raise InputError(f"{text} ({error!r})") from None
        return replace(self, constants=constants, functions=tuple(functions))

    @property
    def spelled_out(self) -> Scenario:
        """The scenario as if everything that may follow another value had one of its own."""
        return self.with_constants(dict.fromkeys(self._followers, ""))

    def as_stored(self) -> dict[str, Any]:
        """What the backend answers, and what GET gives back."""
        return {
            "name": self.name,
            "description": self.description,
            "arguments": self.arguments,
            "constants": self.constants,
            "openbach_functions": list(self.functions),
        }


def _with_value(tree: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    key, *rest = path
    return {**tree, key: _with_value(tree[key], rest, value) if rest else value}


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
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    except RecursionError:
        raise InputError(f"{path}: JSON nested too deeply") from None


def read_scenario(path: Path, jobs: Mapping[str, Job]) -> Scenario:
    """The scenario in a file. Raises InputError (unreadable, broken JSON) or Malformed."""
    return parse_scenario(read_json(path), jobs)


def parse_scenario(data: Any, jobs: Mapping[str, Job]) -> Scenario:
    """The scenario, checked as the backend does when it is created. Raises Malformed."""
    if not isinstance(data, dict):
        text = "list indices must be integers or slices, not str"
        raise Malformed(500, _crash("TypeError", text), "a scenario is a JSON object with a name")
    if "name" not in data:
        raise Malformed(400, {"error": "You must provide a name to create a Scenario"})
    if data["name"] is None:
        raise Malformed(409, {"error": "Trying to create an existing Scenario.", "name": None}, "null is no name")
    try:
        return _parse(data, jobs)
    except _Refusal as refusal:
        answer = {
            "scenario_name": data["name"],
            "error_message": refusal.message,
            "error": "Data of the Scenario are malformed",
        }
        raise Malformed(400, answer, refusal.advice) from None
    except _Crash as crash:
        raise Malformed(500, _crash(crash.kind, str(crash)), crash.advice) from None
    except RecursionError:
        raise Malformed(500, _crash("RecursionError", "maximum recursion depth exceeded")) from None


def _parse(data: dict[str, Any], jobs: Mapping[str, Job]) -> Scenario:
    name, description = str(data["name"]), data.get("description")
    if len(name) > MAX_LENGTH:
        raise _Crash("django.db.utils.DataError", TOO_LONG)
    arguments: dict[str, str] = _entry(data, "arguments", dict, "", {})
    _check_texts(arguments, "arguments")
    constants: dict[str, str] = _entry(data, "constants", dict, "", {})
    if both := [f"constants.{name}" for name in arguments if name in constants]:
        raise _Refusal("Some constants are named the same than some arguments", ", ".join(both))
    _check_texts(constants, "constants")
    entries = _entry(data, "openbach_functions", list, "")
    functions: list[dict[str, Any]] = []
    for index, entry in enumerate(entries):
        functions.append(_function(entry, f"openbach_functions.{index}", jobs, {f["id"] for f in functions}))
    for index, (entry, function) in enumerate(zip(entries, functions, strict=True)):
        _add_waits(entry.get("wait", {}), function, f"openbach_functions.{index}.wait", [f["id"] for f in functions])
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


def _entry(data: dict[str, Any], key: str, kind: type | tuple[type, ...], at: str, *default: Any) -> Any:
    path = f"{at}.{key}" if at else key
    if key not in data and default:
        return default[0]
    _check_type(data.get(key), kind, path)
    return data[key]


def _check_type(value: Any, kind: type | tuple[type, ...], path: str) -> None:
    if value is None:
        raise _Refusal("Missing entry", path)
    if not isinstance(value, kind):
        raise _Refusal("Type error", path, offending_value=value, expected_type=str(kind))


def _check_texts(texts: dict[str, Any], at: str) -> None:
    for name, text in texts.items():
        _check_type(text, str, f"{at}.{name}")


def _check_use(functions: list[dict[str, Any]], arguments: dict[str, str], constants: dict[str, str]) -> None:
    used: list[str] = []
    for index, function in enumerate(functions):
        for text in texts_of(function):
            try:
                used += placeholders(text)
            except _BadPlaceholder as error:
                advice = f"openbach_functions.{index}: {text!r}: a literal dollar is written $$"
                raise _Crash("django.core.exceptions.ValidationError", _as_list(error), advice) from None
    for name in used:
        if name not in arguments and name not in constants:
            raise _Refusal(
                "This argument is used as a placeholder value but is not defined",
                f"arguments.'{name}'",
                f"add {name} to arguments or constants; a literal dollar is written $$",
            )
    for name in (*arguments, *constants):
        if name not in used:
            raise _Refusal(
                "An argument is unused", f"arguments.{name}", f"write ${name} where its value goes, or leave it out"
            )


# Functions


def _function(entry: Any, at: str, jobs: Mapping[str, Job], ids: set[int]) -> dict[str, Any]:
    """A function in stored form, but for the functions that it waits for."""
    _check_type(entry, dict, at)
    wait = _entry(entry, "wait", dict, at, {})
    time = _entry(wait, "time", NUMBER, f"{at}.wait", 0)
    number = int(_entry(entry, "id", int, at))
    label = _entry(entry, "label", str, at, str(number))
    on_fail = _entry(entry, "on_fail", dict, at, {})
    policy = _entry(on_fail, "policy", str, f"{at}.on_fail", "")
    kind = _kind(entry, {**entry, "wait": wait, "on_fail": on_fail}, at)
    place = f"{at}.{kind}"
    with _refusing(place):
        model = _model(kind)
        columns = _columns(model, entry[kind], place)
        time_s = _stored(time, "float")
        _check_row(number, label, ids)
        columns = {name: _column(model, columns, name) for name in model.columns}
    on_fail = _on_fail(on_fail, policy, f"{at}.on_fail")
    stored = model.stored(columns)
    if kind == "start_job_instance":
        name = columns["job_name"]
        stored[name] = _job_arguments(name, entry[kind][name], jobs, f"{place}.{name}")
    return {
        model.stored_as: stored,
        "id": number,
        "label": label,
        **({"wait": {"time": time_s}} if time_s != 0 else {}),
        **({"on_fail": on_fail} if on_fail else {}),
    }


def _kind(entry: dict[str, Any], shown: dict[str, Any], at: str) -> str:
    kinds = [key for key in entry if key not in ("id", "label", "wait", "on_fail")]
    if not kinds:
        problem = "The content of the OpenBACH function to launch is missing"
    elif len(kinds) > 1:
        problem = f"Too much OpenBACH functions configured: {', '.join(kinds)}"
    else:
        return str(kinds[0])
    advice = f"beside id, label, wait and on_fail a function has exactly one of {', '.join(MODELS)}"
    raise _Refusal(problem, at, advice, offending_value=shown, expected_type="None")


def _model(kind: str) -> _Model:
    """The table in which the backend keeps functions of a kind. It looks for a class, and finds others as well."""
    if _title(kind) in OTHER_CLASSES:
        raise _Crash("AttributeError", f"type object '{_title(kind)}' has no attribute 'build_from_arguments'")
    if kind not in MODELS:
        raise _Refusal("Unknown OpenBACH Function", None, _near(kind, MODELS))
    return MODELS[kind]


def _near(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # not at start: the guest has no use for it

    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else ""


def _title(kind: str) -> str:
    return "".join(map(str.title, kind.split("_")))


def _columns(model: _Model, body: Any, place: str) -> dict[str, Any]:
    """What a function's body gives for the columns of its table."""
    try:
        columns = model.columns_of(copy(body))
    except _Wrong as wrong:
        _check_type(wrong.value, wrong.expected, f"{place}.{wrong.entry}")
        raise
    if not isinstance(columns, dict):
        raise TypeError(
            f"django.db.models.query.QuerySet.create() argument after ** must be a mapping, not {_type(columns)}"
        )
    if unknown := [name for name in columns if name not in model.columns]:
        raise TypeError(f"{model.name}() got unexpected keyword arguments: {', '.join(map(repr, unknown))}")
    return columns


def _column(model: _Model, columns: dict[str, Any], name: str) -> Any:
    value, kind = columns.get(name), model.columns[name]
    if value is not None:
        return _whole(value) if kind.startswith("int") else _stored(value, kind.rstrip("?"))
    if not kind.endswith("?"):
        row = ", ".join(_cell(columns.get(column)) for column in model.columns)
        raise _Refusal(
            f'null value in column "{name}" of relation "openbach_django_{model.name.lower()}" violates not-null '
            f"constraint\nDETAIL:  Failing row contains (1, {row}).\n",
            None,
            f"add {name}",
        )
    return None


def _whole(value: Any) -> Any:
    """A whole number. Of true and false the text is kept, which the backend cannot read back."""
    if isinstance(value, bool):
        raise _Crash("django.core.exceptions.ValidationError", _as_list(WrongType(str(value), "int")))
    return _stored(value, "int")


def _cell(value: Any) -> str:
    return "null" if value is None else json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _check_row(number: int, label: str, ids: set[int]) -> None:
    if not -(2**31) <= number < 2**31:
        raise ValueError("integer out of range\n")
    if len(label) > MAX_LENGTH:
        raise ValueError(TOO_LONG)
    if number in ids:
        raise _Refusal(
            'duplicate key value violates unique constraint "openbach_django_openbach_scenario_version_id_func_d1e9a04a_uniq"'
            f"\nDETAIL:  Key (scenario_version_id, function_id)=(1, {number}) already exists.\n",
            None,
            "every function needs an id of its own",
        )


def _on_fail(on_fail: dict[str, Any], policy: str, at: str) -> dict[str, Any]:
    if not policy:
        return {}
    stored = {"policy": policy.lower().capitalize()}
    if stored["policy"] not in ("Fail", "Ignore", "Retry"):
        raise _Refusal(f"Unknown failure policy '{policy}'", at, "there are fail, ignore and retry")
    if stored["policy"] != "Retry":
        return stored
    retry = _entry(on_fail, "retry", int, at)
    delay = _entry(on_fail, "delay", NUMBER, at, 5.0)
    with _refusing(at):
        return {**stored, "delay": _stored(delay, "float"), "retry": _whole(retry)}


def _add_waits(wait: dict[str, Any], function: dict[str, Any], at: str, ids: list[int]) -> None:
    for key in WAIT_LISTS:
        numbers = _entry(wait, key, list, at, [])
        for index, number in enumerate(numbers):
            _check_type(number, int, f"{at}.{key}.{index}")
            if number not in ids:
                raise _Refusal(
                    "The referenced openbach function does not exist",
                    f"{at}.launched_ids.{index}",  # whatever the list
                    f"{key}: the ids are {', '.join(map(str, ids))}",
                    offending_value=number,
                    expected_type="None",
                )
        if numbers:
            function.setdefault("wait", {})[key] = list(map(int, numbers))


# Values as the backend's database holds them


@contextmanager
def _refusing(place: str) -> Iterator[None]:
    """What the backend makes of Python's errors while it fills the row of a function."""
    try:
        yield
    except _Refusal as refusal:
        refusal.message.setdefault("offending_entry", place)
        raise
    except (WrongType, _BadPlaceholder) as error:
        raise _Refusal(_as_list(error), place) from None
    except KeyError as error:
        raise _Refusal(f"Missing entry '{error}'", place) from None
    except (TypeError, ValueError) as error:
        raise _Refusal(str(error), place) from None
    except (AttributeError, OverflowError) as error:
        raise _Crash(type(error).__name__, str(error)) from None


def _as_list(error: Exception) -> str:
    """Django's text of a validation error."""
    return repr([str(error)])


def _type(value: Any) -> str:
    return type(value).__name__


def _stored(value: Any, kind: str) -> Any:
    """A value of a function or of a job's argument. Texts with placeholders stay, whatever the type."""
    if kind == "str":
        return value if isinstance(value, str) else str(value)
    loose = isinstance(value, str) and bool(placeholders(value))
    match kind:
        case "bool":
            return True  # it is kept as the text True or False, and either text is true
        case "list":
            return [str(one) for one in (value if isinstance(value, list) else shlex.split(value))]
        case "job" | "scenario" | "ids":
            return _numbers(value)
        case "dict" if isinstance(value, dict):
            return value
    try:
        return _json_object(value) if kind == "dict" else convert(value, kind)
    except WrongType:
        if loose:
            return value
        raise


def _numbers(value: Any) -> list[Any]:
    """A list of whole numbers, or of texts with placeholders in their stead; a text is split as a shell would."""
    if isinstance(value, list):
        if all(isinstance(one, int) for one in value):
            return list(map(int, value))
        value = " ".join(shlex.quote(str(one)) for one in value)
    return [_stored(one, "int") for one in shlex.split(value)]


def _json_object(value: Any) -> Any:
    try:
        found = json.loads(value)
    except ValueError:
        raise WrongType(value, "dict") from None
    if not isinstance(found, dict):
        raise _Crash("AttributeError", f"'{_type(found)}' object has no attribute 'values'", f"{value!r} is no JSON object")
    return found


# Arguments of a job


def _job_arguments(name: str, given: dict[str, Any], jobs: Mapping[str, Job], at: str) -> dict[str, Any]:
    if name not in jobs:
        advice = f"{_near(name, jobs)} more jobs can be given with --jobs".lstrip()
        raise _Refusal(f"No such job in the controller database: {name}", at, advice)
    stored: dict[str, Any] = {}
    _check_required(jobs[name].arguments, given, at)
    _fill(stored, jobs[name], (), jobs[name].arguments, given, at)
    return stored


def _check_required(command: Command, given: Any, at: str) -> None:
    if given is None:
        raise _Crash("ValueError", "Cannot use None as a query value")
    names = list(_values(given))
    for argument in command.required:
        if argument.name not in names:
            raise _Refusal("Missing required argument", f"{at}.{argument.name}", argument.description)
    for group in command.groups:
        chosen = [name for name in group.choices if name in names]
        advice = f"one of {', '.join(group.choices)}"
        if len(chosen) > 1:
            raise _Refusal("Several subcommands provided for the group", f"{at}.{group.name}", advice)
        if chosen:
            _check_required(group.choices[chosen[0]], given[chosen[0]] if isinstance(given, dict) else {}, at)
        elif not group.optional:
            raise _Refusal("Missing subcommand for required group", f"{at}.{group.name}", advice)


def _fill(stored: dict[str, Any], job: Job, path: tuple[str, ...], command: Command, given: Any, at: str) -> None:
    """Put job arguments in their places. The backend names the place of an error without the subcommands."""
    if not isinstance(given, dict):
        raise _Crash("AttributeError", f"'{_type(given)}' object has no attribute 'items'", f"{at}.{'.'.join(path)}")
    here = stored
    for name in path:
        here = here.setdefault(name, {})
    for name, value in given.items():
        if name in job.subcommands:
            _fill(stored, job, *job.subcommands[name], value, at)
        elif name in command.arguments:
            if occurrences := _occurrences(command.arguments[name], value, f"{at}.{name}"):
                here[name] = occurrences
        else:
            known = ", ".join([*command.arguments, *command.subcommands]) or "nothing"
            under = f"{path[-1]} of {job.name}" if path else job.name
            text = "The configured job does not accept the given argument"
            raise _Refusal(text, f"{at}.{name}", f"{under} takes {known}")


def _occurrences(argument: Argument, given: Any, place: str) -> list[list[Any]]:
    """`v`, `[v, …]` or `[[v, …], …]` as a list of occurrences, each a list of values."""
    nested = given if isinstance(given, list) else [[given]]
    if not nested:
        raise _Crash("IndexError", "list index out of range", f"{place}: give a value, or leave the argument out")
    occurrences: list[list[Any]] = []
    for index, values in enumerate(nested if isinstance(nested[0], list) else [nested]):
        for value in _values(values):
            if value is None:
                raise _Refusal("An array of value contains gaps for the given argument", place)
            if argument.is_switch and not value:
                continue
            if index > len(occurrences):
                raise _Crash("IndexError", "list index out of range", f"{place}: an empty list before this value")
            occurrences += [[]] * (index == len(occurrences))
            occurrences[index].append(True if argument.is_switch else _value(argument, value, place))
    return occurrences


def _values(values: Any) -> Iterator[Any]:
    try:
        return iter(values)
    except TypeError as error:
        raise _Crash("TypeError", str(error)) from None


def _value(argument: Argument, value: Any, place: str) -> Any:
    try:
        return _stored(value, argument.type)
    except (WrongType, _BadPlaceholder) as error:
        raise _Refusal(_as_list(error), place, offending_value=value, expected_type=argument.type) from None
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        advice = f"{place}: a path of function ids is written [[[3]]]" if argument.type in INSTANCE_TYPES else place
        raise _Crash(type(error).__name__, str(error), advice) from None


# Kinds of functions


@dataclass(frozen=True)
class _Model:
    """A table of the backend: the types of its columns (`?`: may be null), from and to JSON."""

    name: str
    stored_as: str
    columns: dict[str, str]
    columns_of: Callable[[Any], Any] = lambda body: body
    stored: Callable[[dict[str, Any]], dict[str, Any]] = lambda columns: columns


class _Wrong(Exception):
    """A part of a function's body that has not the type expected."""

    def __init__(self, expected: type, value: Any, entry: Any) -> None:
        self.expected, self.value, self.entry = expected, value, entry


def _expect(expected: type, value: Any, entry: Any, accepted: tuple[type, ...] = ()) -> Any:
    if not isinstance(value, accepted or expected):
        raise _Wrong(expected, value, entry)
    return value


def _start_job_instance(body: Any) -> dict[str, Any]:
    offset, interval = body.pop("offset", None), body.pop("interval", None)
    _expect(float, 0 if offset is None else offset, "offset", NUMBER)
    _expect(int, 0 if interval is None else interval, "interval", (int, str))
    entity = body.pop("entity_name")
    if len(body) > 1:
        raise ValueError("Too much job names to start")
    if not body:
        raise ValueError("The name of the job to start is missing")
    ((job, arguments),) = body.items()
    _expect(dict, arguments, job)
    return {"entity_name": entity, "job_name": job, "offset": offset, "interval": interval}


def _started_job(columns: dict[str, Any]) -> dict[str, Any]:
    when = {key: columns[key] for key in ("offset", "interval") if columns[key] is not None}
    return {**when, columns["job_name"]: {}, "entity_name": columns["entity_name"]}


OWNERS = {"users": "owner of files", "groups": "group owner of files", "removes": "removes"}


def _files(body: Any) -> dict[str, Any]:
    local, remote = (_expect(list, body.pop(key), key) for key in ("local_path", "remote_path"))
    owners = {key: _expect(list, body.pop(key, []), key) for key in OWNERS}
    if len(local) != len(remote):
        raise ValueError("local and remote paths amount mismatch")
    for key, what in OWNERS.items():
        if owners[key] and len(owners[key]) != len(local):
            raise ValueError(f"{what} and paths amount mismatch")
    places = [str(CONTROLLER_FILES / PurePosixPath(path).as_posix().lstrip("/")) for path in local]
    return {"local_path": places, "remote_path": remote, **owners, **body}


def _stored_files(columns: dict[str, Any]) -> dict[str, Any]:
    keys = {"local_path": "local_path", "remote_path": "remote_path"}
    keys |= {"user": "users", "group": "groups", "remove": "removes"}
    rows = zip(*(columns[column] for column in keys.values()), strict=False)
    return {"entity_name": columns["entity_name"], "files": [dict(zip(keys, row, strict=True)) for row in rows]}


def _restart_job_instance(body: Any) -> dict[str, Any]:
    number, arguments = body.pop("instance_id"), body.pop("arguments")
    return {"instance_id": number, "instance_args": _expect(dict, arguments, number), **body}


def _restarted_job(columns: dict[str, Any]) -> dict[str, Any]:
    return {("arguments" if name == "instance_args" else name): value for name, value in columns.items()}


def _branches(first: str, second: str) -> Callable[[Any], dict[str, Any]]:
    def columns(body: Any) -> dict[str, Any]:
        condition = _condition(body["condition"])
        lists = {key: f"openbach_functions_{key}_ids" for key in (first, second)}
        return {
            "condition": condition,
            **{f"openbach_function_{key}_ids": _expect(list, body[name], name) for key, name in lists.items()},
        }

    return columns


COMPARISONS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
OPERANDS = {"database": ("name", "key", "attribute"), "statistic": ("field", "job_name", "agent_address")}


def _condition(given: Any) -> dict[str, Any]:
    match given["type"]:
        case "not":
            return {"type": "not", "condition": _condition(given["condition"])}
        case "and" | "or" | "xor" as kind:
            sides = ("left_condition", "right_condition")
            left, right = [given[side] for side in sides]
            return {"type": kind, sides[0]: _condition(left), sides[1]: _condition(right)}
        case kind:
            kind, sides = COMPARISONS[kind], ("left_operand", "right_operand")
            left, right = [given[side] for side in sides]
            return {"type": kind, sides[0]: _operand(left), sides[1]: _operand(right)}


def _operand(given: Any) -> dict[str, Any]:
    if given["type"] == "value":
        raise TypeError("'property' object is not callable")
    return {"type": given["type"], **{key: str(given[key]) for key in OPERANDS[given["type"]]}}


def _table(kind: str, stored_as: str = "", **columns: str) -> _Model:
    return _Model(_title(kind), stored_as or kind, columns)


MODELS = {
    "start_job_instance": _Model(
        "StartJobInstance",
        "start_job_instance",
        {"entity_name": "str", "job_name": "str", "offset": "float?", "interval": "int?"},
        _start_job_instance,
        _started_job,
    ),
    "stop_job_instances": _table("stop_job_instances", openbach_function_ids="ids"),
    "stop_job_instance": _table("stop_job_instance", openbach_function_id="int"),
    "start_scenario_instance": _table("start_scenario_instance", scenario_name="str", arguments="dict"),
    "stop_scenario_instance": _table("stop_scenario_instance", openbach_function_id="int"),
    **{
        kind: _Model(_title(kind), kind, dict.fromkeys(columns, "list") | {"entity_name": "str"}, _files, _stored_files)
        for kind, columns in {
            "push_file": ("local_path", "remote_path", "entity_name", "users", "groups", "removes"),
            "pull_file": ("users", "groups", "local_path", "remote_path", "entity_name", "removes"),
        }.items()
    },
    "reboot": _table("reboot", kernel="str?", entity_name="str"),
    "restart_job_instance": _Model(
        "RestartJobInstance",
        "restart_job_instance",
        {"instance_id": "int", "instance_args": "dict", "date": "str", "interval": "int"},
        _restart_job_instance,
        _restarted_job,
    ),
    "status_job_instance": _table("status_job_instance", instance_id="int", update="bool"),
    "list_job_instances": _table("list_job_instances", "status_job_instance", addresses="list", update="bool"),
    **{
        kind: _Model(
            _title(kind),
            kind,
            {"condition": "dict", **{f"openbach_function_{key}_ids": "list" for key in branches}},
            _branches(*branches),
        )
        for kind, branches in {"if": ("true", "false"), "while": ("while", "end")}.items()
    },
    "assign_collector": _table("assign_collector", address="str", collector="str"),
    "install_agent": _table(
        "install_agent", address="str", collector="str", username="str", password="str", name="str"
    ),
    "uninstall_agent": _table("uninstall_agent", address="str"),
    "set_log_severity_job": _table(
        "set_log_severity_job", address="str", job_name="str", severity="int", local_severity="int", date="str"
    ),
    "set_statistics_policy_job": _table(
        "set_statistics_policy_job", "set_log_severity_job", address="str", job_name="str", stat_name="str",
        storage="bool", broadcast="bool", config_file="str", local="bool", path="str",
    ),
}  # fmt: skip
"""In the order in which people use them; stored under another name where the backend does so."""

OTHER_CLASSES = (
    "Agent", "Condition", "ContentTyped", "Entity", "FailurePolicy", "IntegrityError", "OpenbachFunctionInstance",
    "OpenbachFunctionParameter", "StartJobInstanceArgument", "ValuesType", "WaitForEnded", "WaitForFinished",
    "WaitForLaunched", "WaitForRunning", "WaitingCondition",
)  # fmt: skip
"""What the backend finds under the name of a function, and is none."""


# Placeholders


def placeholders(text: str) -> list[str]:
    """The names in a text (`$name`, `${name}`). Raises ValueError for a `$` that begins none and is not `$$`."""
    found = list(Template.pattern.finditer(text))
    if any(match["invalid"] is not None for match in found):
        raise _BadPlaceholder
    return [name for match in found if (name := match["named"] or match["braced"])]


def texts_of(function: Mapping[str, Any]) -> list[str]:
    """The texts of a function in stored form in which the backend looks for placeholders (on_fail is not among them)."""
    kind = kind_of(function)
    body = function[kind]
    parts = [function.get("wait", {}).get("time"), *body.values()]
    if kind == "start_scenario_instance":
        parts += body["arguments"].values()
    for _, arguments in jobs_started(function):
        parts += _leaves(arguments)
    return [part for part in parts if isinstance(part, str)]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def kind_of(function: Mapping[str, Any]) -> str:
    """What a function does, the key of its body."""
    (kind,) = function.keys() - {"id", "label", "wait", "on_fail"}
    return str(kind)


# Values at start


def check_values(scenario: Scenario, values: Mapping[str, str], jobs: Mapping[str, Job]) -> None:
    """What the backend checks when a scenario is started. Raises Malformed. Sub-scenarios are checked when they start."""
    for name in values:
        if name not in scenario.arguments:
            text = "A value was provided for an Argument that is not defined for this Scenario."
            answer = {"error": text, "scenario_name": scenario.name, "argument_name": name}
            raise Malformed(400, answer, f"{name}: there are {', '.join(scenario.arguments) or 'none'}")
    known = {**scenario.constants, **values}
    for index, function in enumerate(scenario.functions):
        for place, kind, value in _typed_texts(function, jobs):
            try:
                substitute(value, kind, known)
            except ValueError as error:
                answer = {
                    "error": "Arguments of an OpenbachFunction have the wrong type of values.",
                    "openbach_function_name": kind_of(function).replace("_", " "),
                    "error_message": _as_list(error),
                }
                given = {name: known[name] for name in placeholders(value) if name in known}
                where = f"openbach_functions.{index}.{place}: {value!r}"
                raise Malformed(400, answer, f"{where} with {given}" if given else where) from None


def _typed_texts(function: Mapping[str, Any], jobs: Mapping[str, Job]) -> Iterator[tuple[str, str, str]]:
    """Place, type and text of every value of a function that is put together at start."""
    kind = kind_of(function)
    types = {"offset": "float", "interval": "int", "openbach_function_id": "int"}
    found = [(f"{kind}.{name}", types.get(name, "str"), value) for name, value in function[kind].items()]
    for job, arguments in jobs_started(function):
        found += [
            (f"{kind}.{job}.{argument.name}", "int" if argument.type in INSTANCE_TYPES else argument.type, one)
            for argument, value in job_values(jobs[job].arguments, arguments)
            for one in _leaves(value)
        ]
    if kind == "start_scenario_instance":
        found += [(f"{kind}.arguments.{name}", "str", value) for name, value in function[kind]["arguments"].items()]
    for key, name in (("on_fail", "delay"), ("wait", "time")):
        found.append((f"{key}.{name}", "float", function.get(key, {}).get(name)))
    return ((place, kind, value) for place, kind, value in found if isinstance(value, str))


def substitute(value: Any, kind: str, values: Mapping[str, str]) -> Any:
    """A value with placeholders as one of its type. Raises ValueError with the backend's text."""
    if not isinstance(value, str):
        return value
    try:
        return convert(Template(value).substitute(values), kind)
    except KeyError as error:
        raise _NoValue(str(error.args[0])) from None


def bind(
    job: Job, arguments: Mapping[str, Any], values: Mapping[str, str], instance_id: Callable[[list[int]], int]
) -> list[str]:
    """The command line of a job whose arguments, in stored form, get the scenario's values.

    `instance_id` resolves a path of function ids. Raises InputError for a value of the wrong type, and for a wrong
    number of values: OpenBACH counts them only now.
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
    for name, given in arguments.items():
        place = f"{at}.{name}"
        if name in command.subcommands:
            bound[name] = _bound(command.subcommands[name], given, values, instance_id, place)
            continue
        argument = command.arguments[name]
        if problem := argument.miscounted(given):
            raise InputError(f"{place}: {problem}")
        bound[name] = [[_word(argument, one, values, instance_id, place) for one in each] for each in given]
    return bound


def _word(
    argument: Argument, value: Any, values: Mapping[str, str], instance_id: Callable[[list[int]], int], at: str
) -> str:
    try:
        if argument.type in INSTANCE_TYPES:
            return str(instance_id([substitute(one, "int", values) for one in value]))
        return word(substitute(value, argument.type, values), argument.type)
    except ValueError as error:
        raise InputError(f"{at}: {value!r}: {error}") from error


def jobs_started(function: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Job and arguments of a function that starts one."""
    for name, arguments in function.get("start_job_instance", {}).items():
        if name not in ("entity_name", "offset", "interval"):
            yield name, arguments


def job_values(command: Command, arguments: Mapping[str, Any]) -> Iterator[tuple[Argument, Any]]:
    """Every single value of job arguments in stored form, with what it is given to."""
    for name, value in arguments.items():
        if name in command.subcommands:
            yield from job_values(command.subcommands[name], value)
        else:
            yield from ((command.arguments[name], one) for occurrence in value for one in occurrence)


def sole_placeholder(value: Any) -> str | None:
    """The name in `$name` or `${name}` when the value is nothing else."""
    found = Template.pattern.fullmatch(value) if isinstance(value, str) else None
    return (found["named"] or found["braced"]) if found else None


# Words for people


def _in_words(answer: Mapping[str, Any]) -> str:
    if "message" in answer:
        return f"the OpenBACH backend would crash on this scenario (HTTP 500: {_unwrapped(answer['error'])})"
    message = answer.get("error_message", {"error": answer["error"]})
    if isinstance(message, str):
        return f"{answer['error']} {_unwrapped(message)}"
    where = f"{message['offending_entry']}: " if "offending_entry" in message else ""
    given = ""
    if message.get("expected_type", "None") != "None":
        wanted = JSON_TYPES.get(message["expected_type"], "")
        given = f" (is {message['offending_value']!r}{', should be ' * bool(wanted)}{wanted})"
    return f"{where}{_unwrapped(message['error'])}{given}"


def _unwrapped(error: str) -> str:
    """The text in Django's list of one text."""
    return error[2:-2] if error.startswith(("['", '["')) else error.strip()


JSON_TYPES = {
    str(dict): "a JSON object", str(list): "a list", str(str): "a text", str(int): "a whole number",
    str(float): "a number", str(NUMBER): "a number or a text",
}  # fmt: skip
