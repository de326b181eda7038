# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of groups of things, by the values that they have in common and others have not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations, islice
from typing import TypeVar

Value = TypeVar("Value", bound=tuple[object, ...])
"""The values are of one kind, so that they can be sorted."""
LONGEST = 3
"""The most values that name a group, unless that is not enough."""


def groups(
    some: Sequence[frozenset[Value]], rest: Sequence[frozenset[Value]]
) -> list[tuple[frozenset[Value], list[int]]]:
    """Return values, and the numbers of the things in `some` that they name.

    Each time these are the values that most of the things left have in common and none of the
    `rest` has. Values that all things have tell nothing and are left out.
    """
    common = frozenset.intersection(*some, *rest) if some else frozenset()
    others = [own - common for own in rest]
    left, chosen = {number: own - common for number, own in enumerate(some)}, []
    while left:
        # Short names first; longer ones are tried only if no short one tells them apart.
        longest = max(map(len, left.values()))
        of_size = (_telling(set(left.values()), others, size) for size in range(longest + 1))
        short = list(chain.from_iterable(islice(of_size, LONGEST + 1)))
        choices = short or next(filter(None, of_size), [next(iter(left.values()))])
        best = min(
            choices,
            key=lambda group: (
                -sum(group <= own for own in left.values()),
                len(group),
                sorted(group),
            ),
        )
        chosen.append((best, [number for number, own in left.items() if best <= own]))
        left = {number: own for number, own in left.items() if not best <= own}
    return chosen


def _telling(
    some: Iterable[frozenset[Value]], others: Sequence[frozenset[Value]], size: int
) -> list[frozenset[Value]]:
    """Return every choice of `size` values from one of `some` that none of the `others` has."""
    choices: set[frozenset[Value]] = set()
    for own in some:
        choices.update(map(frozenset, combinations(sorted(own), size)))

    def tells(choice: frozenset[Value]) -> bool:
        return not any(choice <= own for own in others)

    return list(filter(tells, choices))
