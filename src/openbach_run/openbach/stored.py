# SPDX-License-Identifier: GPL-3.0-or-later
"""Values as the backend stores them: texts with placeholders, numbers, JSON."""

from __future__ import annotations

import json
import shlex
from typing import Any

from openbach_run.openbach.job import WrongType, convert
from openbach_run.openbach.refusals import Crash, Refusal, as_list
from openbach_run.openbach.values import placeholders


def read_entry(
    data: dict[str, Any], key: str, kind: type | tuple[type, ...], at: str, *default: Any
) -> Any:
    """Return an entry of an object. Raises Refusal if it is missing or of another type."""
    path = f"{at}.{key}" if at else key
    if key not in data and default:
        return default[0]
    check_type(data.get(key), kind, path)
    return data[key]


def check_type(value: Any, kind: type | tuple[type, ...], path: str) -> None:
    """Check the type of a value. Raises Refusal."""
    if value is None:
        raise Refusal("Missing entry", path)
    if not isinstance(value, kind):
        raise Refusal("Type error", path, offending_value=value, expected_type=str(kind))


def whole_number(value: Any) -> Any:
    """Return a whole number. Raises Crash, WrongType.

    Of true and false the backend keeps the text, which it cannot read back.
    """
    if isinstance(value, bool):
        raise Crash("django.core.exceptions.ValidationError", as_list(WrongType(str(value), "int")))
    return to_stored(value, "int")


def type_name(value: Any) -> str:
    """Return the name of a value's type in Python."""
    return type(value).__name__


def to_stored(value: Any, kind: str) -> Any:
    """Return a value of a function or of a job's argument as it is stored. Raises WrongType, Crash.

    Texts with placeholders stay, whatever the type.
    """
    if kind == "str":
        return value if isinstance(value, str) else str(value)
    loose = isinstance(value, str) and bool(placeholders(value))
    match kind:
        case "bool":
            return True  # it is kept as the text True or False, and either text is true
        case "list":
            return [str(arg) for arg in (value if isinstance(value, list) else shlex.split(value))]
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
    """Return a list of whole numbers, or of texts with placeholders in their stead.

    A text is split as a shell would.
    """
    if isinstance(value, list):
        if all(isinstance(number, int) for number in value):
            return list(map(int, value))
        value = " ".join(shlex.quote(str(number)) for number in value)
    return [to_stored(word, "int") for word in shlex.split(value)]


def _json_object(value: Any) -> Any:
    """Return the object of a JSON text. Raises WrongType; Crash for another value."""
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        raise WrongType(value, "dict") from None
    if not isinstance(content, dict):
        raise Crash(
            "AttributeError",
            f"'{type_name(content)}' object has no attribute 'values'",
            f"{value!r} is no JSON object",
        )
    return content
