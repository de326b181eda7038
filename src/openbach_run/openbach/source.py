# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario as a person writes it: a short YAML file.

It says what runs, what is swept and drawn, and what it inherits from another one.
docs/scenarios.md explains the keys.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from openbach_run.errors import InputError
from openbach_run.openbach import rules
from openbach_run.openbach.refusals import near
from openbach_run.paths import SCENARIOS
from openbach_run.topology.references import listed
from openbach_run.yaml_files import read_texts

SUFFIXES = (".yml", ".yaml")
MATRIX = "matrix"
"""The measure by VPN, PEP position, transport and loss, as the published report has it."""
FIGURES = (MATRIX, "measures")
"""What the report draws of a scenario; with the second one a table of all measures."""


def file_of(path: Path) -> Path:
    """Return a scenario's file: of JSON that is not there the YAML that it is made from."""
    source = path.with_suffix(".yml")
    is_made = path.suffix == ".json" and not path.exists() and source.exists()
    return source if is_made else path


def _is_text(value: Any) -> bool:
    """Return whether a value is a text."""
    return isinstance(value, str)


def is_labels(value: Any) -> bool:
    """Return whether a value is a label of a function, or a list of them."""
    return isinstance(value, str) or (isinstance(value, list) and all(map(_is_text, value)))


def _by_name(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check of an object whose values all pass another check."""
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _with_keys(allowed: Mapping[str, Callable[[Any], bool]], *needed: str) -> Callable[[Any], bool]:
    """Return a check of an object with these keys, whose values pass the keys' checks."""
    return lambda value: (
        isinstance(value, dict)
        and value.keys() <= allowed.keys()
        and value.keys() >= set(needed)
        and all(allowed[key](one) for key, one in value.items())
    )


def _list_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check of a list whose entries all pass another check."""
    return lambda value: isinstance(value, list) and all(map(check, value))


def _is_condition(value: Any) -> bool:
    """Return whether a value is a condition of rules.py."""
    try:
        rules.check(value)
    except (TypeError, ValueError):
        return False
    return True


Shape = tuple[Callable[[Any], bool], str]
TEXTS: Shape = (_by_name(_is_text), "texts by name")
CONDITION = {"if": _is_condition, "because": _is_text, "refused": _is_text}
MEASURE = dict.fromkeys(("find", "step", "unit", "title", "better", "take", "absent"), _is_text)
NAMED: dict[str, Shape] = {
    "arguments": TEXTS,
    "constants": (
        _by_name(
            _with_keys({"value": _is_text, "text": _is_text, "file": _is_text}, "value", "text")
        ),
        "by name, {value: …, text: …}; file: yes if the value names a file",
    ),
    "addresses": TEXTS,
    "values": TEXTS,
    "idle": (
        _by_name(_list_of(_with_keys(CONDITION, "if", "because"))),
        (
            "by name, a list of {if: CONDITION, because: TEXT}: with which other values it has no"
            " effect; refused: yes if that is an error"
        ),
    ),
    "instead": (
        _by_name(_with_keys({"values": _by_name(_is_text), "measure": _is_text}, "values")),
        (
            "by name, {values: texts by name, measure: …}: what takes the place of a default where"
            " it has another value"
        ),
    ),
    "measures": (
        _by_name(lambda value: _is_text(value) or _with_keys(MEASURE, "find")(value)),
        f"regular expressions by name, or {{find: REGEX}} with {listed(MEASURE)}",
    ),
    "groups": (_by_name(is_labels), "lists of functions by name"),
    "functions": (_by_name(lambda value: isinstance(value, dict)), "functions by label"),
}
"""Keys whose content is inherited name by name."""
WHOLE: dict[str, Shape] = {
    "inherits": (_is_text, "a file: a path from this one, or from scenarios/"),
    "table_of": (_is_text, "a file: a path from this one, or from scenarios/"),
    "description": (_is_text, "a text"),
    "steps": (_is_text, "lines HOST COMMAND, as `exec --script` has them"),
    "inventory": (_is_text, "a file: a path from this one"),
    "end": (
        _with_keys({"finished": is_labels, "stop": is_labels}, "finished", "stop"),
        "{finished: …, stop: […]}",
    ),
    "sweep": (
        _by_name(lambda value: isinstance(value, list) and all(map(_is_text, value))),
        "lists of texts by name",
    ),
    "plot": (
        _with_keys({"measure": _is_text, "figure": lambda value: value in FIGURES}),
        f"{{measure: …, figure: {' or '.join(FIGURES)}}}",
    ),
}
SHAPES = NAMED | WHOLE
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
        and bool(SHAPES.keys() & content.keys())
    )


def read_source(path: Path, heirs: tuple[Path, ...] = ()) -> Source:
    """Return a file with what it inherits. Raises InputError.

    `heirs` are the files that inherit it, so that one which inherits itself is found.
    """
    content = read_texts(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: a scenario is an object with the keys {listed(SHAPES)}")
    for key, value in content.items():
        if key not in SHAPES:
            raise InputError(
                f"{path}: {key}: no such key; {near(key, SHAPES)}there are {listed(SHAPES)}"
            )
        fits, shape = SHAPES[key]
        if not fits(value):
            raise InputError(f"{path}: {key}: should be {shape}")
    if path.resolve() in heirs:
        raise InputError(f"{path}: inherits: the file inherits itself")
    parent = Source({}, {})
    if "inherits" in content:
        parent = read_source(found(path, "inherits", content["inherits"]), (*heirs, path.resolve()))
    below = _without(parent.content, content)
    both = {
        key: {**below.get(key, {}), **value} if key in NAMED else value
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
        left[key] = {name: one for name, one in left[key].items() if name not in moved[key]}
    return left


def found(path: Path, key: str, named: str) -> Path:
    """Return the file that a file names: a path from that file, or from the checkout's scenarios/.

    Raises InputError if it is in neither place.
    """
    for folder in (path.parent, SCENARIOS):
        # Unlike Path.is_file() this answers for a name that is too long for any file, too.
        if os.path.isfile(folder / named):
            return folder / named
    raise InputError(f"{path}: {key}: {named}: no such file, from here or from {SCENARIOS}")
