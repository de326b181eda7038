# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables have the field's nouns: a cell, a run, a link; none is called by a pronoun."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from openbach_run.paths import REPOSITORY

FORBIDDEN = {"one", "found", "made"}
TO_DO = {
    "src/openbach_jobs",
    "src/openbach_run/guest",
    "src/openbach_run/report/words.py",
}
"""Rooms, and a file, that still have such names; it may only shrink."""


def place_of(file: Path) -> str:
    """Return the room of a file; the file itself if it is one that TO_DO names."""
    parts = file.relative_to(REPOSITORY).parts
    room = "/".join(parts[: {"jobs": 1}.get(parts[0], 3 if len(parts) > 3 else 2)])
    return "/".join(parts) if "/".join(parts) in TO_DO else room


def bound(program: str) -> Iterator[str]:
    """Yield the forbidden names that a program gives to a variable, an argument or a field."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        else:
            continue
        if name in FORBIDDEN:
            yield name


@pytest.mark.parametrize("program", [
    "for one in cells: pass", "[one for one in cells]",
    "found = cell", "found: list[str] = []",
    "def f(made): pass",
    "lambda one: 1",
    "if found := f(): pass",
])  # fmt: skip
def test_a_pronoun_is_seen(program: str) -> None:
    assert len(list(bound(program))) == 1


def test_no_variable_is_a_pronoun() -> None:
    """A room that has become clean leaves TO_DO."""
    counts: Counter[str] = Counter()
    for folder in ("src", "jobs"):
        for file in (REPOSITORY / folder).rglob("*.py"):
            counts[place_of(file)] += len(list(bound(file.read_text(encoding="utf-8"))))
    assert {place for place, count in counts.items() if count} == TO_DO, counts
