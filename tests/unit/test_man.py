# SPDX-License-Identifier: GPL-3.0-or-later
"""The manual pages say what --help says."""

from __future__ import annotations

from pathlib import Path

import pytest

from openbach_run.commands import main

PLACE = Path(__file__).resolve().parents[2] / "docs/man"
import manual  # noqa: E402

MADE = manual.pages()


@pytest.mark.parametrize("file", MADE)
def test_a_page_is_as_the_command_helps(file: str) -> None:
    assert (PLACE / file).read_text() == MADE[file], "run docs/man/manual.py"


def test_each_command_has_a_page_and_no_other_is_there() -> None:
    expected = {"openbach-run.1", *(f"openbach-run-{name}.1" for name in main.COMMANDS)}
    assert {file.name for file in PLACE.glob("*.1")} == set(MADE) == expected


def test_a_page_has_each_option_with_its_text() -> None:
    page = MADE["openbach-run.1"].replace("\\-", "-")
    for action in main.parser()._actions:
        assert all(option in page for option in action.option_strings)
        assert action.dest == "help" or str(action.help).split("%")[0].strip() in page
