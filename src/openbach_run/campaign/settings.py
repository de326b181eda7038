# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser of the command line's settings, NAME=VALUE[,VALUE…], and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

from openbach_jobs import presets
from openbach_jobs.netem import MULTIPLIERS
from openbach_run.errors import InputError
from openbach_run.units import number


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of a text: `5` is 1 to 5, `3,7` is those two, `7,` is just 7.

    Raises InputError.
    """
    try:
        plain = text if text.isascii() and "_" not in text else ""
        numbers = [int(part) for part in plain.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if (
        not numbers
        or min(numbers) < (0 if "," in text else 1)
        or max(numbers) >= 2**31
        or len(set(numbers)) < len(numbers)
    ):
        raise InputError(
            f"--seeds {text}: give how many (5), or which ones separated by commas (3,7 or just 7,)"
        )
    if "," in text:
        return tuple(numbers)
    # Somebody who writes 20260101 means one seed, not that many.
    if numbers[0] > 10_000:
        raise InputError(f"--seeds {text} is that many seeds; for this one seed write {text},")
    return tuple(range(1, numbers[0] + 1))


def is_list(value: Any) -> bool:
    """Return whether a value is a list of at least one text or number."""
    return isinstance(value, list) and bool(value) and all(map(is_value, value))


def is_value(value: Any) -> bool:
    """Return whether a value is a text or a number."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def parse_settings(settings: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return name → values of settings NAME=VALUE[,VALUE…]. Raises InputError."""
    by_name: dict[str, tuple[str, ...]] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{text!r}: arguments are given as NAME=VALUE or NAME=VALUE,VALUE,…")
        values = tuple(part.strip() for part in value.split(","))
        if name in by_name:
            raise InputError(
                f"{text}: {name} is given twice; to sweep it:"
                f" {name}={','.join((*by_name[name], *values))}"
            )
        by_name[name] = values
    return by_name


def check_values(name: str, values: Sequence[str]) -> None:
    """Check the values of a name.

    Raises InputError for an empty value, one given twice, and a number in an odd spelling.
    """
    if "" in values or len({*map(meaning, values)}) < len(values):
        raise InputError(f"{name}={','.join(values)}: an empty value or one given twice")
    if odd := next(filter(_is_odd, values), None):
        raise InputError(f"{name}={odd}: a number is written with the digits 0 to 9, like 10000")


@lru_cache
def meaning(text: str) -> object:
    """Return what values are compared by: `1` and `1.0` are one value, so are `1kB` and `1000B`."""
    try:
        return presets.buffer(text)
    except ValueError:
        value = number(text)
        return text if value is None else value


def _is_odd(text: str) -> bool:
    """Return whether Python reads a number where a reader of results.csv may not: `1_0`, `-0`."""
    try:
        value = float(text[:-1] if text[-1:] in MULTIPLIERS else text)
    except ValueError:
        return False
    return isfinite(value) and (number(text) is None or (value == 0 and text[0] == "-"))


def check_references(values: Mapping[str, Sequence[str]]) -> None:
    """Check the values `$name`.

    Raises InputError for a name that is no argument, or is an argument with a `$` value itself.
    """
    for name, listed in values.items():
        for value in listed:
            if value.startswith("$") and any(
                other.startswith("$") for other in values.get(value[1:], ("$",))
            ):
                raise InputError(
                    f"{name}={value}: after $ comes an argument of the scenario that has values of"
                    " its own"
                )
