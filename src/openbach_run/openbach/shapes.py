# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the files that users write, by the JSON Schemas in `schemas/`, with errors for people.

Beside JSON Schema's own keywords, of which editors know, a schema there may have the format
`condition` (rules.py), and

    unit       unit of a number
    like       examples of a text that its `pattern` takes
    because    the whole message, where what JSON Schema knows of a mistake is no help
    form       what a key at the top should be, said after any mistake below it
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.errors import InputError, SetupError
from openbach_run.json_files import short
from openbach_run.openbach import rules
from openbach_run.paths import cache_directory

SCHEMAS = Path(__file__).resolve().parents[1] / "schemas"
MARKS = "schemas"
"""Folder of the cache with an empty file for each content that was found right."""
TYPES = {
    "string": "a text", "integer": "a whole number", "number": "a number",
    "boolean": "true or false", "null": "null", "array": "a list", "object": "an object",
}  # fmt: skip
"""Names of JSON Schema's types for people."""


def check(at: str, value: Any, schema: str) -> None:
    """Check that a value is as a schema says: `vpn`, or a part of one, `cpu#/$defs/costs`.

    Raises InputError, with the place below `at`, for the first mistake in it.
    """
    # The library takes longer to import than all else that a command reads: it is asked once for
    # each content, and the cache has a mark of those that were right.
    digest = sha256(f"{_all_schemas()} {schema} {value!r}".encode()).hexdigest()
    try:
        mark = cache_directory() / MARKS / digest
        if mark.exists():
            return
    except (SetupError, OSError):  # a user without a cache
        mark = None
    for error in _validator(schema).iter_errors(value):
        keys = schema_of(schema.partition("#")[0])["properties"]
        key = next(iter(error.absolute_path), "")
        form = f"; {key}: should be {keys[key]['form']}" if "form" in keys.get(key, ()) else ""
        raise InputError(f"{at}: {_in_words(error, schema)}{form}")
    if mark is None:
        return
    with suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


@cache
def _all_schemas() -> str:
    """Return the hash of all schemas, as they refer to each other, and of this program."""
    files = [*sorted(SCHEMAS.glob("*.json")), Path(__file__)]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


@cache
def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a name."""
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_bytes())
    # By this key the library would take its own validator in place of ours.
    return {key: value for key, value in schema.items() if key != "$schema"}


@cache
def _validator(schema: str) -> Any:
    """Return the validator of a schema or of a part of it."""
    kind, options = _library()
    name, _, part = schema.partition("#")
    return kind({"$ref": f"{name}.json#{part}"}, **options)


@cache
def _library() -> tuple[Any, dict[str, Any]]:
    """Return jsonschema's validator as it is needed here, and what all schemas have in common.

    A whole number is one without a point, no number is infinite, and a pattern is of a whole text.
    """
    # Late: it takes a tenth of the time in which a command starts.
    from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]
    from jsonschema.validators import extend  # type: ignore[import-untyped]
    from referencing import Registry

    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"integer": _is_integer, "number": _is_number}
    )
    kind = extend(Draft202012Validator, {"pattern": _pattern}, type_checker=types)
    formats = FormatChecker(["regex"])
    formats.checks("condition", ValueError)(_is_condition)
    registry: Registry[Any] = Registry(retrieve=_resource)  # type: ignore[call-arg]
    return kind, {"registry": registry, "format_checker": formats}


def _resource(uri: str) -> Any:
    """Return the schema that a reference names, as the library asks for it."""
    from referencing.jsonschema import DRAFT202012

    return DRAFT202012.create_resource(schema_of(uri.removesuffix(".json")))


def _is_integer(_: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_: object, value: object) -> bool:
    # Python reads 1e999 as infinity, and a whole number may be larger than any float.
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max


def _is_condition(text: object) -> bool:
    """Return True. Raises ValueError for a text that is no condition."""
    if isinstance(text, str):
        rules.check(text)
    return True


def _pattern(_: object, pattern: str, value: object, __: object) -> Iterator[Any]:
    """Yield an error for a text that a pattern does not match wholly."""
    from jsonschema import ValidationError

    # `$` alone would take a newline after the text.
    if isinstance(value, str) and not re.fullmatch(pattern, value):
        yield ValidationError("pattern")


def _in_words(error: Any, schema: str) -> str:
    """Return an error with its place: `values.cipher: 1 should be a text`."""
    names = [*map(str, error.absolute_path)]
    value, shape, keyword, wanted = (
        error.instance, error.schema, error.validator, error.validator_value,
    )  # fmt: skip
    if "propertyNames" in error.schema_path:
        names.append(f"{value}")
    at = f"{'.'.join(names)}: " if names else ""
    if keyword == "additionalProperties":
        known = [name for name in shape["properties"] if name != "$schema"]
        key = next(str(name) for name in value if name not in shape["properties"])
        place = ".".join([*names, key])
        return f"{place}: no such key; {near(key, known)}there are {', '.join(known)}"
    if "because" in shape:
        return f"{at}{shape['because']}"
    if keyword == "required":
        key = next(name for name in wanted if name not in value)
        root = schema_of(schema.partition("#")[0])
        right = shape.get("properties", root["properties"])[key]
        return f"{at}{key} is missing: {_right(right, root)}"
    if keyword == "dependentRequired":
        why, key = next(
            (name, needed)
            for name, several in wanted.items()
            for needed in several
            if name in value and needed not in value
        )
        return f"{at}{key} is missing, which {why} needs"
    if keyword == "oneOf":
        choices = [choice["required"][0] for choice in wanted]
        has = " and ".join(name for name in choices if name in value) or "no source"
        return f"{at}has {has}; it needs one of {', '.join(choices)}"
    if keyword == "format":
        notation = {"regex": "; it is a regular expression of Python's"}
        return f"{at}{error.cause}{notation.get(wanted, '')}"
    if keyword == "enum":
        hint = f"; {near(str(value), map(str, wanted))}".rstrip("; ")
        return f"{at}{short(value)} is none of {', '.join(map(str, wanted))}{hint}"
    is_name = "the name " if "propertyNames" in error.schema_path else ""
    return f"{at}{is_name}{short(value)} should be {_right(shape, shape)}"


def _right(shape: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """Return what is right, in words: `a whole number from 68 to 65535 bytes, or null`."""
    for part in shape.get("$ref", "#").split("/")[1:]:
        shape = root = root[part]
    types = shape.get("type", [])
    first, *others = [TYPES[name] for name in ([types] if isinstance(types, str) else types)]
    for key, word in (("minimum", "from"), ("maximum", "to")):
        first += f" {word} {shape[key]:g}" if key in shape else ""
    if "minimum" in shape and "unit" in shape:
        first += f" {shape['unit']}"
    words = ", or ".join([first, *others])
    if "like" in shape or "pattern" in shape:
        words += f" like {shape.get('like', shape.get('pattern'))}"
    return words + (f" with {', '.join(shape['required'])}" if "required" in shape else "")
