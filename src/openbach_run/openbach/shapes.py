# SPDX-License-Identifier: GPL-3.0-or-later
"""The shapes of files that users write, as data, and what is wrong with a file of another shape.

A shape is JSON Schema, as far as it is needed here:

    type                    one name, or a list of them
    enum, minimum, maximum  of a value; `unit` of the number, for people
    pattern                 of a text, the whole of it; `like` are examples, for people
    items                   of a list
    properties, required    of an object, whose other keys have `additionalProperties`, or are
                            unknown; `propertyNames` is the shape of these

No library: jsonschema's errors are for programmers, and these are for people.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from openbach_run.errors import InputError
from openbach_run.openbach.refusals import near

Shape = Mapping[str, Any]
TYPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "string": (lambda value: isinstance(value, str), "a text"),
    "integer": (
        lambda value: isinstance(value, int) and not isinstance(value, bool),
        "a whole number",
    ),
    "number": (
        lambda value: (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            # Python reads 1e999 as infinity, and a whole number may be larger than any float.
            and abs(value) <= sys.float_info.max
        ),
        "a number",
    ),
    "boolean": (lambda value: isinstance(value, bool), "true or false"),
    "null": (lambda value: value is None, "null"),
    "array": (lambda value: isinstance(value, list), "a list"),
    "object": (lambda value: isinstance(value, dict), "an object"),
}
"""Whether a value has a type, and what it is called."""


def check(at: str, value: Any, shape: Shape) -> None:
    """Check that a value has a shape.

    Raises InputError, with the place below `at`, for the first thing in it that has another.
    """
    for wrong in faults(value, shape):
        raise InputError(f"{at}: {wrong}")


def faults(value: Any, shape: Shape, place: str = "") -> Iterator[str]:
    """Yield what is wrong with the value, with its place: `values.cipher: 1 should be a text`."""
    at = f"{place}: " if place else ""
    if "enum" in shape and value not in shape["enum"]:
        known = list(map(str, shape["enum"]))
        yield f"{at}{short(value)} is none of {', '.join(known)}{_asked(str(value), known)}"
    elif not _fits(value, shape):
        yield f"{at}{short(value)} should be {_in_words(shape)}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from faults(item, shape.get("items", {}), f"{place}.{index}".lstrip("."))
    elif isinstance(value, dict) and shape:
        yield from _faults_of_keys(value, shape, place, at)


def _faults_of_keys(value: dict[str, Any], shape: Shape, place: str, at: str) -> Iterator[str]:
    """Yield what is wrong with the keys of an object, and with their values."""
    own: Mapping[str, Shape] = shape.get("properties", {})
    for key, inner in value.items():
        here = f"{place}.{key}".lstrip(".")
        if key not in own and "additionalProperties" not in shape:
            yield f"{here}: no such key; {near(key, own)}there are {', '.join(own)}"
            continue
        for wrong in faults(key, shape.get("propertyNames", {})) if key not in own else ():
            yield f"{here}: the name {wrong}"
        yield from faults(inner, own[key] if key in own else shape["additionalProperties"], here)
    for key in shape.get("required", ()):
        if key not in value:
            yield f"{at}{key} is missing: {_in_words(own[key])}"


def _fits(value: Any, shape: Shape) -> bool:
    """Return whether a value alone, without what is in it, has a shape."""
    types = _types(shape)
    if types and not any(TYPES[one][0](value) for one in types):
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        return bool(shape.get("minimum", -math.inf) <= value <= shape.get("maximum", math.inf))
    return (
        not isinstance(value, str)
        or re.fullmatch(shape.get("pattern", r"(?s:.*)"), value) is not None
    )


def _types(shape: Shape) -> list[str]:
    """Return the types that a shape allows; none if it allows all."""
    types = shape.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def _in_words(shape: Shape) -> str:
    """Return what is right, in words: `a whole number from 68 to 65535 bytes, or null`."""
    if "enum" in shape:
        return f"one of {', '.join(map(str, shape['enum']))}"
    words = ", or ".join(TYPES[one][1] for one in _types(shape))
    limits = [
        f"{word} {shape[key]:g}"
        for key, word in (("minimum", "from"), ("maximum", "to"))
        if key in shape
    ]
    if limits:
        first, *others = words.split(", or ")
        words = ", or ".join(
            [" ".join([first, *limits, *([shape["unit"]] if "unit" in shape else [])]), *others]
        )
    if "like" in shape or "pattern" in shape:
        words += f" like {shape.get('like', shape.get('pattern'))}"
    if "required" in shape:
        words += f" with {', '.join(shape['required'])}"
    return words


def _asked(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean x?` for the name that is most alike; "" if none is."""
    return f"; {near(name, known)}".rstrip("; ")


def short(value: object) -> str:
    """Return the value as JSON, cut off after 60 characters."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
