# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario as a person writes it: a short YAML file.

It says what runs, what is swept and drawn, and what it inherits from another one.
docs/scenarios.md explains the keys.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from openbach_run.errors import InputError
from openbach_run.openbach.shapes import check, schema_of
from openbach_run.paths import SCENARIOS
from openbach_run.topology.mappings import listed
from openbach_run.yaml_files import read_texts

SUFFIXES = (".yml", ".yaml")
MATRIX = "matrix"
"""The measure by VPN, PEP position, transport and loss, as the published report has it."""
FIGURES = (MATRIX, "measures")
"""Figures that the report draws of a scenario; with the second one a table of all measures."""


def file_of(path: Path) -> Path:
    """Return a scenario's file: of JSON that is not there the YAML that it is made from."""
    source = path.with_suffix(".yml")
    is_made = path.suffix == ".json" and not path.exists() and source.exists()
    return source if is_made else path


def is_labels(value: Any) -> bool:
    """Return whether a value is a label of a function, or a list of them."""
    several = value if isinstance(value, list) else [value]
    return all(isinstance(label, str) for label in several)


KEYS: Mapping[str, Mapping[str, Any]] = schema_of("scenario")["properties"]
"""Keys of a scenario, with the schema of what is below each."""
BY_NAME = (
    "arguments", "constants", "addresses", "values", "idle", "instead", "measures", "groups",
    "functions",
)  # fmt: skip
"""Keys whose content is inherited name by name."""
DECLARED = ("arguments", "constants", "addresses")


class Source(NamedTuple):
    """A file with what it inherits; `files` says where each key and name below a key is from."""

    content: dict[str, Any]
    files: dict[tuple[str, ...], Path]

    def wrong(self, text: str, *place: str) -> InputError:
        """Return the error for a place of the file."""
        # What is inherited is wrong in the file that says it, not in the heir.
        file = self.files.get(place[:2]) or self.files[place[:1]]
        return InputError(f"{file}: {'.'.join(place)}: {text}")


def is_source(path: Path) -> bool:
    """Return whether a YAML file is a scenario rather than a campaign.

    Raises InputError for a file that cannot be read.
    """
    content = read_texts(path)
    return (
        isinstance(content, dict)
        and "scenarios" not in content
        and bool(KEYS.keys() & content.keys())
    )


def read_source(path: Path, heirs: tuple[Path, ...] = ()) -> Source:
    """Return a file with what it inherits. Raises InputError.

    `heirs` are the files that inherit it, so that one which inherits itself is found.
    """
    content = read_texts(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: a scenario is an object with the keys {listed(KEYS)}")
    check(f"{path}", content, "scenario")
    if path.resolve() in heirs:
        raise InputError(f"{path}: inherits: the file inherits itself")
    parent = Source({}, {})
    if "inherits" in content:
        parent = read_source(find(path, "inherits", content["inherits"]), (*heirs, path.resolve()))
    below = _without(parent.content, content)
    both = {
        key: {**below.get(key, {}), **value} if key in BY_NAME else value
        for key, value in content.items()
    }
    own = {
        (key, name): path
        for key, value in content.items()
        if isinstance(value, dict)
        for name in value
    }
    return Source(below | both, parent.files | own | {(key,): path for key in content})


def _without(inherited: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is inherited, without names that the file declares as something else.

    An argument may become a constant, say.
    """
    moved: dict[str, set[str]] = {"values": set(content.get("constants", {}))}
    for key in DECLARED:
        moved[key] = set()
        for other in DECLARED:
            if other != key:
                moved[key] |= content.get(other, {}).keys()
    left = dict(inherited)
    for key in moved.keys() & left.keys():
        left[key] = {name: entry for name, entry in left[key].items() if name not in moved[key]}
    return left


def find(path: Path, key: str, named: str) -> Path:
    """Return the file that a file names: a path from that file, or from the checkout's scenarios/.

    Raises InputError if it is in neither place.
    """
    for folder in (path.parent, SCENARIOS):
        # Unlike Path.is_file() this answers for a name that is too long for any file, too.
        if os.path.isfile(folder / named):
            return folder / named
    raise InputError(f"{path}: {key}: {named}: no such file, from here or from {SCENARIOS}")
