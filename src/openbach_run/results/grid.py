# SPDX-License-Identifier: GPL-3.0-or-later
"""Lay cells out as a grid: a row and a column for each combination of their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
Key = tuple[str, ...]
"""Values of the arguments that make the rows, or the columns."""


@dataclass(frozen=True)
class Grid(Generic[T]):
    """Cells by their row and column, each in the order in which the cells came."""

    rows: list[Key]
    columns: list[Key]
    cells: dict[tuple[Key, Key], T]


def grid_of(
    cells: Iterable[tuple[T, Mapping[str, str]]],
    down: Sequence[str],
    across: Sequence[str],
    lacking: str = "",
) -> Grid[T]:
    """Return the grid of cells that have these values.

    `down` are the arguments of the rows, `across` those of the columns. Of several cells at one
    place it has the first. A row says `lacking` for an argument that its cells do not have.
    """
    places: dict[tuple[Key, Key], T] = {}
    for cell, values in cells:
        row = tuple(str(values.get(name, lacking)) for name in down)
        column = tuple(str(values.get(name, "")) for name in across)
        places.setdefault((row, column), cell)
    rows = list(dict.fromkeys(row for row, _ in places))
    columns = list(dict.fromkeys(column for _, column in places))
    return Grid(rows, columns, places)


def rank_of(values: Mapping[str, str], orders: Mapping[str, Sequence[str]]) -> list[int]:
    """Return a key by which cells sort as the values of each argument in `orders` do."""
    ranks = []
    for name, order in orders.items():
        value = values.get(name, "")
        ranks.append(order.index(value) if value in order else len(order))
    return ranks
