# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of mappings and lists of a YAML file, with errors that name the file and the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.errors import InputError
from openbach_run.json_files import short

WORDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    object: "a value",
}
Keys = Mapping[str, type]
"""Keys of a mapping, and the types of their values."""


class MappingReader:
    """A reader of a file's mappings and lists, whatever they are about."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def error(self, key: str, message: str) -> InputError:
        """Return an error for a key of the file, to be raised."""
        return InputError(f"{self.path}: {key}: {message}")

    def mapping(self, value: object, key: str) -> dict[str, Any]:
        """Return a value that is a mapping with names as keys; empty for None.

        Raises InputError.
        """
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise self.error(
                key, f"a mapping with names as keys is expected here, not {short(value)}"
            )
        return value

    def entry(self, value: object, key: str, keys: Keys, required: Iterable[str]) -> dict[str, Any]:
        """Return a mapping with all keys `required`, and none but `keys`, of their types.

        Raises InputError.
        """
        entry = self.mapping(value, key)
        for name, item in entry.items():
            # Unknown keys are refused: a misspelled one would silently be the default.
            if name not in keys:
                raise self.error(
                    f"{key}.{name}", f"no such key; {near(name, keys)}there are {listed(keys)}"
                )
            kind = keys[name]
            if (
                not isinstance(item, kind)
                or item == ""
                # In Python a bool is an int.
                or (isinstance(item, bool) and kind is int)
            ):
                raise self.error(
                    f"{key}.{name}", f"{WORDS[kind]} is expected here, not {short(item)}"
                )
        for name in required:
            if name not in entry:
                raise self.error(key, f"has the keys {listed(entry)}; it needs {listed(required)}")
        return entry

    def entries(
        self, value: object, key: str, keys: Keys, required: tuple[str, ...]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the place and the content of each entry of a list. Raises InputError."""
        if value is None:
            return
        if not isinstance(value, list):
            raise self.error(key, f"a list is expected here, not {short(value)}")
        for index, item in enumerate(value):
            yield f"{key}[{index}]", self.entry(item, f"{key}[{index}]", keys, required)

    def within(self, number: int | None, key: str, low: int, high: int) -> None:
        """Check the range of a number. Raises InputError if it is out of range."""
        if number is not None and not low <= number <= high:
            raise self.error(key, f"{number} is out of range: {low} to {high}")


def listed(names: Iterable[str]) -> str:
    """Return names as text; "none" if there are none."""
    return ", ".join(names) or "none"
