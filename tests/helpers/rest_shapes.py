# SPDX-License-Identifier: GPL-3.0-or-later
"""The shapes of OpenBACH 2.7's REST answers, written down from its reference.

A shape is a type, a tuple of shapes (one of them), a list of one shape (each entry), or a dict of
shapes by key: exactly these keys, but for those that end with `?`, which may be absent.
`Map(shape)` is an object with any keys. `differences` says where an answer has another shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Map:
    value: Any


NUMBER = (int, float)
DATE = str
NONE = type(None)

PROFILE = {
    "username": (str, NONE), "name": (str, NONE), "first_name": (str, NONE),
    "last_name": (str, NONE), "is_user": bool, "is_admin": bool, "email": (str, NONE),
    "favorites": Map([str]),
}  # fmt: skip
AGENT = {
    "name": str, "address": str, "port": int, "collector_ip": str, "reachable": bool,
    "available": bool, "status": str, "project": (str, NONE), "reserved": (str, NONE),
}  # fmt: skip
NETWORK = {"name": str, "address": str}
ENTITY = {
    "name": str, "description": (str, NONE), "agent": (AGENT, NONE),
    "networks": [{**NETWORK, "interface?": (str, NONE), "ip?": (str, NONE)}],
}  # fmt: skip
SCENARIO = {
    "name": str,
    "description": (str, NONE),
    "arguments": Map(str),
    "constants": Map(str),
    "openbach_functions": [Map(object)],
}
PROJECT = {
    "name": str, "description": (str, NONE), "owners": [str], "entity": [ENTITY],
    "scenario": [SCENARIO], "network": [NETWORK], "hidden_network": [str], "reserved_agents": [str],
}  # fmt: skip
ARGUMENT = {
    "name": str, "type": str, "count": str, "description": str, "password": bool, "default?": str,
    "choices?": [str],
}  # fmt: skip
COMMAND: dict[str, Any] = {
    "required": [ARGUMENT],
    "optional": [{**ARGUMENT, "flag": str, "repeatable": bool}],
}
CHOICE: dict[str, Any] = {**COMMAND, "name": str}
GROUPS = [{"group_name": str, "optional": bool, "choices": [CHOICE]}]
COMMAND["subcommands?"] = CHOICE["subcommands?"] = GROUPS
STATISTIC = {"name": str, "description": str, "frequency": str}
JOB = {
    "general": {
        "name": str,
        "description": str,
        "job_version": str,
        "keywords": [str],
        "persistent": bool,
    },
    "platform_configuration": [Map((str, NONE))],
    "arguments": COMMAND,
    "statistics": [STATISTIC],
}
INSTALLED = {
    "agent": str,
    "installed_jobs": [
        {
            "name": str,
            "update_status": DATE,
            "severity": int,
            "local_severity": int,
            "default_stat_policy": {"local": bool, "storage": bool, "broadcast": bool},
            "statistic_instances": list,
        }
    ],
}
JOB_INSTANCE = {
    "name": str, "agent": (str, NONE), "agent_name": str, "entity": str, "id": int,
    "arguments": Map(object), "update_status": DATE, "status": str, "start_date": DATE,
    "stop_date": str,
}  # fmt: skip
RUNNING_JOBS = {
    "instances": [
        {"address": str, "installed_jobs": [{"job_name": str, "instances": [JOB_INSTANCE]}]}
    ]
}
STATE = {"response": (dict, NONE), "returncode": int, "last_operation_date": DATE}
QUIET = {
    "scenario_name": str, "scenario_instance_id": int, "status": str, "start_date": DATE,
    "sub_scenario_instance_ids": [int],
}  # fmt: skip
INSTANCE: dict[str, Any] = {
    **QUIET, "project_name": str, "owner_scenario_instance_id": int, "stop_date": (DATE, NONE),
    "arguments": [{"name": str, "value": str}],
}  # fmt: skip
FUNCTION = {
    "id": int,
    "label": str,
    "status": str,
    "launch_date": (DATE, NONE),
    "wait?": Map(object),
    "on_fail?": Map(object),
    "start_job_instance?": Map(object),
    "stop_job_instances?": Map(object),
    "start_scenario_instance?": Map(object),
    "job?": JOB_INSTANCE,
    "scenario?": INSTANCE,
}
INSTANCE["openbach_functions"] = [FUNCTION]
LOG = [(str, int)]


def differences(answer: Any, shape: Any, at: str = "answer") -> list[str]:
    """Where an answer has not the shape."""
    if isinstance(shape, tuple):
        found = [differences(answer, one, at) for one in shape]
        return [] if [] in found else found[0]
    if isinstance(shape, list):
        if not isinstance(answer, list):
            return [f"{at}: {type(answer).__name__} is no list"]
        return [
            one
            for index, entry in enumerate(answer)
            for one in differences(entry, shape[0], f"{at}[{index}]")
        ]
    if isinstance(shape, Map):
        if not isinstance(answer, dict):
            return [f"{at}: {type(answer).__name__} is no object"]
        return [
            one
            for key, entry in answer.items()
            for one in differences(entry, shape.value, f"{at}.{key}")
        ]
    if isinstance(shape, dict):
        return _keys(answer, shape, at)
    right = isinstance(answer, shape) and not (isinstance(answer, bool) and shape in (int, float))
    return [] if right else [f"{at}: {answer!r} is no {shape.__name__}"]


def _keys(answer: Any, shape: dict[str, Any], at: str) -> list[str]:
    if not isinstance(answer, dict):
        return [f"{at}: {type(answer).__name__} is no object"]
    shapes = {key.removesuffix("?"): one for key, one in shape.items()}
    missing = [key for key in shape if not key.endswith("?") and key not in answer]
    found = [f"{at}.{key} is missing" for key in missing] + [
        f"{at}.{key} is new" for key in answer.keys() - shapes.keys()
    ]
    return found + [
        one
        for key, entry in answer.items()
        if key in shapes
        for one in differences(entry, shapes[key], f"{at}.{key}")
    ]
