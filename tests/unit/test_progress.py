# SPDX-License-Identifier: GPL-3.0-or-later
"""One progress of several things that are made at the same time."""

from __future__ import annotations

import pytest

from openbach_run.progress import Progress, Together


def test_what_all_say_is_told_and_the_part_of_the_slowest() -> None:
    told: list[tuple[str, float]] = []
    together = Together(lambda text, part: told.append((text, part)))

    def tree(progress: Progress) -> str:
        progress("guest: downloading", 0.1)
        return "tree"

    def kernel(progress: Progress) -> str:
        progress("building the kernel", 0.5)
        made = together.make(tree)
        progress("building the kernel", 0.6)
        return f"kernel and {made}"

    assert together.make(kernel) == "kernel and tree"
    assert told == [
        ("building the kernel", 0.5),
        ("building the kernel; guest: downloading", 0.1),
        ("building the kernel", 0.6),
    ]


def test_what_fails_is_told_no_more() -> None:
    told: list[str] = []
    together = Together(lambda text, part: told.append(text))

    def fails(progress: Progress) -> None:
        progress("unpacking", 0.5)
        raise OSError

    with pytest.raises(OSError):
        together.make(fails)
    together.make(lambda progress: progress("building", 0.0))
    assert told == ["unpacking", "building"]
