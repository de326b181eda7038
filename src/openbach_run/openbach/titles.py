# SPDX-License-Identifier: GPL-3.0-or-later
"""Titles and units of arguments, as the scenarios' files declare them.

An argument is `rate: {title: forward rate, unit: bit/s, text: Rate of the link in bit/s}`. OpenBACH
has no place for them: the JSON of a scenario has the text alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from openbach_run.openbach.source import SUFFIXES, file_of, find, read_source
from openbach_run.paths import SCENARIOS
from openbach_run.yaml_files import read_texts


class Title(NamedTuple):
    """An argument in people's words; "" where its name says them."""

    title: str = ""
    unit: str = ""


Titles = Mapping[str, Title]
"""Titles by the names of arguments and constants."""


def titles_of(path: Path) -> dict[str, Title]:
    """Return the titles that a scenario's file declares or inherits.

    JSON has none. Raises InputError.
    """
    if (file := file_of(path)).suffix not in SUFFIXES:
        return {}
    content = read_source(file).content
    if "table_of" in content:
        return titles_of(find(path, "table_of", content["table_of"]))
    return _declared(content)


def own_titles(path: Path) -> dict[str, Title]:
    """Return those of a scenario's titles that no scenario of the checkout has.

    Raises InputError.
    """
    ours = titles_of_ours()
    return {name: title for name, title in titles_of(path).items() if ours.get(name) != title}


@cache
def titles_of_ours() -> Titles:
    """Return the titles that the checkout's scenarios declare: a name has one in all of them."""
    titles: dict[str, Title] = {}
    for file in sorted(SCENARIOS.rglob("*.yml")):
        titles |= _declared(read_texts(file))
    return titles


def _declared(content: Mapping[str, Any]) -> dict[str, Title]:
    titles = {}
    for key in ("constants", "arguments"):
        for name, entry in content.get(key, {}).items():
            if isinstance(entry, dict) and entry.keys() & {*Title._fields}:
                titles[name] = Title(*(entry.get(field, "") for field in Title._fields))
    return titles
