# SPDX-License-Identifier: GPL-3.0-or-later
"""Some of many things in few words: by the values that they have in common and the others have not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations, islice
from typing import TypeVar

Value = TypeVar("Value", bound=tuple[object, ...])
"""Of one kind, so that they have an order."""
LONGEST = 3
"""So many values name a group, or more where that is not enough."""


def groups(
    some: Sequence[frozenset[Value]], rest: Sequence[frozenset[Value]]
) -> list[tuple[frozenset[Value], list[int]]]:
    """Values, and the numbers of those of `some` that they name: each time the values that most of those left have in common
    and no one of the `rest` has. What all things have in common tells nothing and is left out."""
    common = frozenset.intersection(*some, *rest) if some else frozenset()
    others = [own - common for own in rest]
    left, found = {number: own - common for number, own in enumerate(some)}, []
    while left:
        longest = max(map(len, left.values()))
        of_size = (_telling(set(left.values()), others, size) for size in range(longest + 1))
        short = list(chain.from_iterable(islice(of_size, LONGEST + 1)))
        choices = short or next(filter(None, of_size), [next(iter(left.values()))])
        best = min(choices, key=lambda one: (-sum(one <= own for own in left.values()), len(one), sorted(one)))
        found.append((best, [number for number, own in left.items() if best <= own]))
        left = {number: own for number, own in left.items() if not best <= own}
    return found


def _telling(some: Iterable[frozenset[Value]], others: Sequence[frozenset[Value]], size: int) -> list[frozenset[Value]]:
    """Every choice of so many values of one of `some` that no one of the others has."""
    choices = {frozenset(choice) for own in some for choice in combinations(sorted(own), size)}
    return [choice for choice in choices if not any(choice <= own for own in others)]
