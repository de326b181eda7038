# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser of the command line's settings, NAME=VALUE[,VALUE…], and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openbach_run.errors import InputError


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of a text: `5` is 1 to 5, `3,7` is those two, `7,` is just 7.

    Raises InputError.
    """
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
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
    given: dict[str, tuple[str, ...]] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{text!r}: arguments are given as NAME=VALUE or NAME=VALUE,VALUE,…")
        values = distinct(name, tuple(part.strip() for part in value.split(",")))
        if name in given:
            raise InputError(
                f"{text}: {name} is given twice; to sweep it:"
                f" {name}={','.join((*given[name], *values))}"
            )
        given[name] = values
    return given


def distinct(name: str, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a name. Raises InputError for an empty value or one given twice."""
    if "" in values or len(set(values)) < len(values):
        raise InputError(f"{name}={','.join(values)}: an empty value or one given twice")
    return values
