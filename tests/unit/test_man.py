# SPDX-License-Identifier: GPL-3.0-or-later
"""The manual pages say what --help says."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from openbach_run.commands import main

PLACE = Path(__file__).resolve().parents[2] / "docs/man"
import manual  # noqa: E402

MADE = manual.pages()


def test_each_command_has_a_page() -> None:
    assert set(MADE) == {"openbach-run.1", *(f"openbach-run-{name}.1" for name in main.COMMANDS)}


def test_pages_are_written_anew_and_old_ones_go(tmp_path: Path) -> None:
    (tmp_path / "openbach-run-gone.1").touch()
    manual.write(tmp_path)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == MADE


PARSERS = {
    "openbach-run": main.parser(),
    **{
        f"openbach-run-{name}": import_module(module).parser()
        for name, module in main.COMMANDS.items()
    },
}


@pytest.mark.parametrize("name", PARSERS)
def test_a_page_has_each_option_with_its_text(name: str) -> None:
    page = MADE[f"{name}.1"].replace("\\-", "-")
    for action in PARSERS[name]._actions:
        if action.dest not in ("help", "command"):
            assert all(option in page for option in action.option_strings)
            assert (action.help or "").split("%")[0].strip() in page
