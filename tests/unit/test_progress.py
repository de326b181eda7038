# SPDX-License-Identifier: GPL-3.0-or-later
"""One progress of several things that are made at the same time."""

from __future__ import annotations

import io

import pytest

from openbach_run.progress import Progress, Reporter, Together, beside


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


def test_a_notebook_has_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr("sys.stderr", cell)
    monkeypatch.setattr("openbach_run.progress.NOTEBOOK_EVERY_S", 0)
    with Reporter(quiet=False) as reporter:
        reporter.show("9 of 10 runs", 0.9)
        reporter.show("all", 1.0)
        reporter.say("failed: one")
    assert cell.getvalue() == "\r 90%  9 of 10 runs\r100%  all         \nfailed: one\n\n"


def test_nothing_to_do_takes_no_thread() -> None:
    """Another command may have made what was missing while this one waited for its turn."""
    assert beside(lambda text, part: None) == []
