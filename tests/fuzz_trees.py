# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutations of what a JSON or YAML file says, for tests/fuzz.py.

A changed byte makes a file no JSON nearly always. These stay what they are, and say something else.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from openbach_run import yaml_loaders

JSON, YAML, LINES = "JSON", "YAML", "a JSON document in each line"
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, -(10**30)),
    *(0.5, -0.0, 1e308, 1e-320),
    *(float("nan"), float("inf"), float("-inf")),
    *("", " ", "\0", "\x1b[2J", "\n", "\u202e", "\ud800", "💡"),
    *("a" * 5000, "9" * 5000, "é" * 300),
    *("-1", "1e999", "nan", "0x10", "2026-02-31", "10M", "none"),
    *("same", "true", "[]", "{}", "null"),
    *("$vpn", "${", "$$", "$", "..", "/", "../../etc/passwd", "/dev/zero", "/dev/stdin"),
    *("a/b", "a b", "'", '"', "-x", "(a+)+$"),
    *([], {}, [[]], [None], ["a", "a"], [1, "1"], {"": None}, {"a": {"a": {}}}, [0] * 100),
)
DEEP = (1, 2, 40, 300)
DEEPEST = 50_000
"""Calls in calls, for what writes nested nodes."""
LARGEST_TREE = 100_000
"""Characters of a seed, at most, and of what is doubled in it."""


class Twice(dict[str, Any]):
    """An object that has a key twice when it is written."""

    def __init__(self, content: dict[str, Any], more: list[tuple[str, Any]]) -> None:
        super().__init__(content)
        self._more = more

    def items(self) -> Any:
        return [*super().items(), *self._more]


yaml.SafeDumper.add_representer(
    Twice,
    lambda dumper, one: dumper.represent_mapping(
        "tag:yaml.org,2002:map", list(one.items()), flow_style=True
    ),
)


class Tree:
    """What a seed says, and how it is written."""

    def __init__(self, seed: bytes, form: str) -> None:
        self._form = form
        text = seed.decode()
        if form == LINES:
            self._content: Any = [json.loads(line) for line in text.splitlines() if line]
        else:
            self._content = json.loads(text) if form == JSON else yaml_loaders.load(text)

    def mutated(self, chance: random.Random, others: list[Tree]) -> bytes:
        """The seed with up to six nodes changed, or put in from others."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(DEEPEST)
        try:
            tree = copy.deepcopy(self._content)
            for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
                tree = _changed(chance, tree, chance.choice(others))
            return _written(tree, self._form)
        finally:
            sys.setrecursionlimit(limit)

    def any_node(self, chance: random.Random) -> Any:
        """A copy of something in it."""
        return copy.deepcopy(_at(self._content, chance.choice(list(_paths(self._content)))))


def trees(seeds: Iterable[bytes], form: str) -> list[Tree]:
    """Those of the seeds that are not too large to be changed often."""
    return [Tree(seed, form) for seed in seeds if len(seed) <= LARGEST_TREE]


def _paths(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    entries: Iterable[tuple[Any, Any]] = ()
    if isinstance(tree, dict):
        entries = dict.items(tree)  # not what Twice has besides
    elif isinstance(tree, list):
        entries = enumerate(tree)
    for key, value in entries if len(at) < 30 else ():
        yield from _paths(value, (*at, key))


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _changed(chance: random.Random, tree: Any, other: Tree) -> Any:
    """The tree with one node replaced, removed, doubled, renamed, of another type, or nested."""
    path = chance.choice(list(_paths(tree)))
    if not path:
        path = chance.choice(list(_paths(tree)))  # the root is one of many: seldom the whole
    old = _at(tree, path)
    if not path:
        return _replaced(chance, old, other)
    parent, key = _at(tree, path[:-1]), path[-1]
    match chance.randrange(6):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, list):
            parent.insert(chance.randrange(len(parent) + 1), copy.deepcopy(old))
        case 1 if len(path) > 1:
            more = [(key, chance.choice((old, chance.choice(ODD))))]
            _put(tree, path[:-1], Twice(parent, more))
        case 2 if isinstance(parent, dict):
            del parent[key]
            parent[_name(chance, key, other)] = old
        case 3 if isinstance(parent, dict):
            parent[_name(chance, key, other)] = copy.deepcopy(old)
        case _:
            parent[key] = _replaced(chance, old, other)
    return tree


def _put(tree: Any, path: tuple[Any, ...], value: Any) -> None:
    _at(tree, path[:-1])[path[-1]] = value


def _name(chance: random.Random, name: Any, other: Tree) -> Any:
    """Another key: one of another place, one that is nearly the same, or an odd one."""
    found = chance.choice((other.any_node(chance), f"{name}x", str(name)[:-1], chance.choice(ODD)))
    return found if isinstance(found, str) else str(name).upper()


def _replaced(chance: random.Random, old: Any, other: Tree) -> Any:
    match chance.randrange(4):
        case 0:
            return other.any_node(chance)
        case 1:
            return _retyped(chance, old)
        case 2:
            nested = old
            for _ in range(chance.choice(DEEP)):
                nested = chance.choice(([nested], {"a": nested}, {str(type(old).__name__): nested}))
            return nested
        case _:
            return copy.deepcopy(chance.choice(ODD))


def _retyped(chance: random.Random, old: Any) -> Any:
    """The same in another type: a number as a text, a list as its first item, for example."""
    match old:
        case bool() | None:
            return str(old)
        case int() | float():
            return chance.choice((str(old), [old], -old, old * 10**6, bool(old)))
        case str():
            return chance.choice(
                ([old], {old: None}, len(old), old * 50, list(old[:50]), old[: len(old) // 2])
            )
        case list():
            return chance.choice(
                (
                    old[0] if old else "",
                    {str(at): one for at, one in enumerate(old)},
                    old * 2,
                    str(old)[:500],
                )
            )
        case dict():
            return chance.choice(
                (list(old), list(old.values()), str(old)[:500], next(iter(old), None))
            )
    return str(old)


def _written(tree: Any, form: str) -> bytes:
    if form == YAML:
        text = yaml.dump(tree, Dumper=yaml.SafeDumper, allow_unicode=False, sort_keys=False)
        return text.encode(errors="surrogatepass")
    if form == JSON or not isinstance(tree, list):
        return _dumped(tree)
    return b"".join(_dumped(one) + b"\n" for one in tree)


def _dumped(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False).encode(errors="surrogatepass")
