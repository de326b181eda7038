# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables have the field's nouns: a cell, a run, a link; none is called by a pronoun."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from openbach_run.paths import REPOSITORY

FORBIDDEN = {"one", "found", "made"}
BUILDERS = {"vpn_program.py", "vpn_go_program.py"}
"""A change of them, even of a name, builds some fifteen programs anew: names go with the next one."""


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
    shown = []
    for folder in ("src", "jobs"):
        files = (REPOSITORY / folder).rglob("*.py")
        for file in (file for file in files if file.name not in BUILDERS):
            shown += [f"{file}: {name}" for name in bound(file.read_text(encoding="utf-8"))]
    assert not shown
