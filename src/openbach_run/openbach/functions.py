# SPDX-License-Identifier: GPL-3.0-or-later
"""The functions of a scenario: which there are, their columns, and how each is read and stored.

The order of the checks and the words of the errors are those of OpenBACH 2.7's backend, its own
mistakes included: a scenario is refused here if and only if a controller refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.openbach.job import Job
from openbach_run.openbach.job_arguments import read_job_arguments
from openbach_run.openbach.refusals import MAX_LENGTH, NUMBER, TOO_LONG, Crash, Refusal, refusing
from openbach_run.openbach.stored import check_type, read_entry, to_stored, type_name, whole_number

WAIT_LISTS = ("running_ids", "ended_ids", "launched_ids", "finished_ids")
CONTROLLER_FILES = PurePosixPath("/opt/openbach/controller/files")


def read_function(
    entry: Any, at: str, jobs: Mapping[str, Job], ids: Collection[int]
) -> dict[str, Any]:
    """Return a function in stored form, but for the functions that it waits for.

    `ids` are those of the functions before it; `at` is its place in the JSON. Raises Refusal or
    Crash.
    """
    check_type(entry, dict, at)
    # In the backend's order: of several mistakes it names the first that it meets.
    wait = read_entry(entry, "wait", dict, at, {})
    time = read_entry(wait, "time", NUMBER, f"{at}.wait", 0)
    number = int(read_entry(entry, "id", int, at))
    label = read_entry(entry, "label", str, at, str(number))
    on_fail = read_entry(entry, "on_fail", dict, at, {})
    policy = read_entry(on_fail, "policy", str, f"{at}.on_fail", "")
    kind = _kind(entry, {**entry, "wait": wait, "on_fail": on_fail}, at)
    place = f"{at}.{kind}"
    with refusing(place):
        model = _model(kind)
        columns = _columns(model, entry[kind], place)
        time_s = to_stored(time, "float")
        _check_row(number, label, ids)
        columns = {name: _column(model, columns, name) for name in model.columns}
    on_fail = _on_fail(on_fail, policy, f"{at}.on_fail")
    stored = model.stored(columns)
    if kind == "start_job_instance":
        name = columns["job_name"]
        stored[name] = read_job_arguments(name, entry[kind][name], jobs, f"{place}.{name}")
    return {
        model.stored_as: stored,
        "id": number,
        "label": label,
        **({"wait": {"time": time_s}} if time_s != 0 else {}),
        **({"on_fail": on_fail} if on_fail else {}),
    }


def _kind(entry: dict[str, Any], shown: dict[str, Any], at: str) -> str:
    """Return the one key of a function that says what it does. Raises Refusal for none or two."""
    kinds = [key for key in entry if key not in ("id", "label", "wait", "on_fail")]
    if not kinds:
        problem = "The content of the OpenBACH function to launch is missing"
    elif len(kinds) > 1:
        problem = f"Too much OpenBACH functions configured: {', '.join(kinds)}"
    else:
        return str(kinds[0])
    advice = f"beside id, label, wait and on_fail a function has exactly one of {', '.join(MODELS)}"
    raise Refusal(problem, at, advice, offending_value=shown, expected_type="None")


def _model(kind: str) -> _Model:
    """Return the table in which the backend keeps functions of a kind. Raises Refusal or Crash.

    The backend looks for a class by its name, and finds others as well.
    """
    if _title(kind) in OTHER_CLASSES:
        raise Crash(
            "AttributeError",
            f"type object '{_title(kind)}' has no attribute 'build_from_arguments'",
        )
    if kind not in MODELS:
        raise Refusal(
            "Unknown OpenBACH Function", None, GONE.get(kind) or near(kind, MODELS).rstrip()
        )
    return MODELS[kind]


def _title(kind: str) -> str:
    """Return the backend's class for a kind: StartJobInstance for start_job_instance."""
    return "".join(map(str.title, kind.split("_")))


def _columns(model: _Model, body: Any, place: str) -> dict[str, Any]:
    """Return the columns of a function's table, from the function's body."""
    try:
        # A copy, as the reader takes keys out of it.
        columns = model.columns_of(copy(body))
    except _Wrong as wrong:
        check_type(wrong.value, wrong.expected, f"{place}.{wrong.entry}")
        raise
    if not isinstance(columns, dict):
        # The backend's code ends here with this error, and its text is in the answer to a client.
        raise TypeError(
            "django.db.models.query.QuerySet.create() argument after ** must be a mapping, not"
            f" {type_name(columns)}"
        )
    if unknown := [name for name in columns if name not in model.columns]:
        raise TypeError(
            f"{model.name}() got unexpected keyword arguments: {', '.join(map(repr, unknown))}"
        )
    return columns


def _column(model: _Model, columns: dict[str, Any], name: str) -> Any:
    """Return the value of a column as it is stored; None where it may be null.

    Raises Refusal with PostgreSQL's words where it must not be.
    """
    value, kind = columns.get(name), model.columns[name]
    if value is not None:
        return whole_number(value) if kind.startswith("int") else to_stored(value, kind.rstrip("?"))
    if not kind.endswith("?"):
        row = ", ".join(_cell(columns.get(column)) for column in model.columns)
        raise Refusal(
            f'null value in column "{name}" of relation "openbach_django_{model.name.lower()}"'
            f" violates not-null constraint\nDETAIL:  Failing row contains (1, {row}).\n",
            None,
            f"add {name}",
        )
    return None


def _cell(value: Any) -> str:
    """Return a value as PostgreSQL shows it in the row that it refuses."""
    return (
        "null"
        if value is None
        else json.dumps(value)
        if isinstance(value, (dict, list))
        else str(value)
    )


def _check_row(number: int, label: str, ids: Collection[int]) -> None:
    """Check what the table of functions takes. Raises ValueError or Refusal, as PostgreSQL."""
    if not -(2**31) <= number < 2**31:
        raise ValueError("integer out of range\n")
    if len(label) > MAX_LENGTH:
        raise ValueError(TOO_LONG)
    if number in ids:
        raise Refusal(
            "duplicate key value violates unique constraint"
            ' "openbach_django_openbach_scenario_version_id_func_d1e9a04a_uniq"\nDETAIL:  Key'
            f" (scenario_version_id, function_id)=(1, {number}) already exists.\n",
            None,
            "every function needs an id of its own",
        )


def _on_fail(on_fail: dict[str, Any], policy: str, at: str) -> dict[str, Any]:
    """Return what happens when a function fails, in stored form; empty if nothing was said."""
    if not policy:
        return {}
    # The backend takes FAIL, fail and Fail.
    stored = {"policy": policy.lower().capitalize()}
    if stored["policy"] not in ("Fail", "Ignore", "Retry"):
        raise Refusal(f"Unknown failure policy '{policy}'", at, "there are fail, ignore and retry")
    if stored["policy"] != "Retry":
        return stored
    retry = read_entry(on_fail, "retry", int, at)
    delay = read_entry(on_fail, "delay", NUMBER, at, 5.0)
    with refusing(at):
        return {**stored, "delay": to_stored(delay, "float"), "retry": whole_number(retry)}


def add_waits(
    wait: dict[str, Any], function: dict[str, Any], at: str, ids: Collection[int]
) -> None:
    """Put the ids that a function waits for into its stored form. Raises Refusal."""
    for key in WAIT_LISTS:
        numbers = read_entry(wait, key, list, at, [])
        for index, number in enumerate(numbers):
            check_type(number, int, f"{at}.{key}.{index}")
            if number not in ids:
                raise Refusal(
                    "The referenced openbach function does not exist",
                    f"{at}.launched_ids.{index}",  # whatever the list
                    f"{key}: the ids are {', '.join(map(str, ids))}",
                    offending_value=number,
                    expected_type="None",
                )
        if numbers:
            function.setdefault("wait", {})[key] = list(map(int, numbers))


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
    """Return a value of the type that is expected. Raises _Wrong for another one."""
    if not isinstance(value, accepted or expected):
        raise _Wrong(expected, value, entry)
    return value


def _start_job_instance(body: Any) -> dict[str, Any]:
    """Return the columns of the function that starts a job. Raises _Wrong, KeyError, ValueError."""
    offset, interval = body.pop("offset", None), body.pop("interval", None)
    # A text passes here, as in the backend: its placeholders have no values yet.
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
    """Return the stored form of the function that starts a job; its arguments are put in later."""
    when = {key: columns[key] for key in ("offset", "interval") if columns[key] is not None}
    return {**when, columns["job_name"]: {}, "entity_name": columns["entity_name"]}


OWNERS = {"users": "owner of files", "groups": "group owner of files", "removes": "removes"}


def _files(body: Any) -> dict[str, Any]:
    """Return the columns of a function that sends files to an agent or gets some from it."""
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
    """Return the stored form of such a function: a row for each file."""
    keys = {"local_path": "local_path", "remote_path": "remote_path"}
    keys |= {"user": "users", "group": "groups", "remove": "removes"}
    # Not strict: owners may be left out, and then the backend's own zip gives no rows at all.
    rows = zip(*(columns[column] for column in keys.values()), strict=False)
    return {
        "entity_name": columns["entity_name"],
        "files": [dict(zip(keys, row, strict=True)) for row in rows],
    }


def _restart_job_instance(body: Any) -> dict[str, Any]:
    """Return the columns of the function that restarts a job instance."""
    number, arguments = body.pop("instance_id"), body.pop("arguments")
    return {"instance_id": number, "instance_args": _expect(dict, arguments, number), **body}


def _restarted_job(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the stored form of that function: a column has another name there."""
    return {
        ("arguments" if name == "instance_args" else name): value for name, value in columns.items()
    }


def _branches(first: str, second: str) -> Callable[[Any], dict[str, Any]]:
    """Return a reader of `if` or `while`, whose branches are called so."""

    def columns(body: Any) -> dict[str, Any]:
        """Return the columns of a branching function. Raises Refusal."""
        try:
            condition = _condition(body["condition"])
        except KeyError as error:
            raise Refusal(f"Missing entry '{error}'", None, CONDITIONS) from None
        except TypeError as error:
            raise Refusal(str(error), None, CONDITIONS) from None
        lists = {key: f"openbach_functions_{key}_ids" for key in (first, second)}
        return {
            "condition": condition,
            **{
                f"openbach_function_{key}_ids": _expect(list, body[name], name)
                for key, name in lists.items()
            },
        }

    return columns


CONDITIONS = (
    "no engine and no controller runs if and while: a condition compares a statistic or an entry of"
    " the database ({type: statistic, …}), and OpenBACH's own code for a value is broken. Leave the"
    " function out; let functions wait for each other (wait), or a job decide"
)
COMPARISONS = {
    "=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
OPERANDS = {
    "database": ("name", "key", "attribute"),
    "statistic": ("field", "job_name", "agent_address"),
}


def _condition(condition: Any) -> dict[str, Any]:
    """Return a condition in stored form. Raises KeyError and TypeError as the backend does."""
    match condition["type"]:
        case "not":
            return {"type": "not", "condition": _condition(condition["condition"])}
        case "and" | "or" | "xor" as kind:
            sides = ("left_condition", "right_condition")
            left, right = [condition[side] for side in sides]
            return {"type": kind, sides[0]: _condition(left), sides[1]: _condition(right)}
        case kind:
            kind, sides = COMPARISONS[kind], ("left_operand", "right_operand")
            left, right = [condition[side] for side in sides]
            return {"type": kind, sides[0]: _operand(left), sides[1]: _operand(right)}


def _operand(side: Any) -> dict[str, Any]:
    """Return a side of a comparison in stored form. Raises KeyError and TypeError."""
    if side["type"] == "value":
        # A defect of OpenBACH's own code, met by every scenario that compares with a value.
        raise TypeError("'property' object is not callable")
    return {"type": side["type"], **{key: str(side[key]) for key in OPERANDS[side["type"]]}}


def _table(kind: str, stored_as: str = "", **columns: str) -> _Model:
    """Return a table whose columns are those of the function's body, as they are."""
    return _Model(_title(kind), stored_as or kind, columns)


def _branching(kind: str, first: str, second: str) -> _Model:
    """Return the table of `if` or `while`, whose branches are called so."""
    lists = dict.fromkeys((f"openbach_function_{branch}_ids" for branch in (first, second)), "list")
    return _Model(_title(kind), kind, {"condition": "dict", **lists}, _branches(first, second))


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
    "start_scenario_instance": _table(
        "start_scenario_instance", scenario_name="str", arguments="dict"
    ),
    "stop_scenario_instance": _table("stop_scenario_instance", openbach_function_id="int"),
    **{
        kind: _Model(
            _title(kind),
            kind,
            dict.fromkeys(columns, "list") | {"entity_name": "str"},
            _files,
            _stored_files,
        )
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
    "list_job_instances": _table(
        "list_job_instances", "status_job_instance", addresses="list", update="bool"
    ),
    "if": _branching("if", "true", "false"),
    "while": _branching("while", "while", "end"),
    "assign_collector": _table("assign_collector", address="str", collector="str"),
    "install_agent": _table(
        "install_agent", address="str", collector="str", username="str", password="str", name="str"
    ),
    "uninstall_agent": _table("uninstall_agent", address="str"),
    "set_log_severity_job": _table(
        "set_log_severity_job",
        address="str",
        job_name="str",
        severity="int",
        local_severity="int",
        date="str",
    ),
    "set_statistics_policy_job": _table(
        "set_statistics_policy_job",
        "set_log_severity_job",
        address="str",
        job_name="str",
        stat_name="str",
        storage="bool",
        broadcast="bool",
        config_file="str",
        local="bool",
        path="str",
    ),
}
"""Tables by kind of function, in the order in which people use them; `stored_as` may differ."""
GONE = dict.fromkeys(
    [f"{before}status_{what}" for before in ("", "retrieve_") for what in ("agents", "jobs")],
    "status_agents and status_jobs are retrieve_status_agents and retrieve_status_jobs since 2017,"
    " and no functions of scenarios any more: ask the platform itself",
)
"""Functions of scenarios of before, and what has become of them."""
OTHER_CLASSES = (
    "Agent", "Condition", "ContentTyped", "Entity", "FailurePolicy", "IntegrityError",
    "OpenbachFunctionInstance", "OpenbachFunctionParameter", "StartJobInstanceArgument",
    "ValuesType", "WaitForEnded", "WaitForFinished", "WaitForLaunched", "WaitForRunning",
    "WaitingCondition",
)  # fmt: skip
"""Classes that the backend finds under the name of a function, and that are none."""
