# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run expand`: writes scenarios given as YAML as the JSON files that OpenBACH imports."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from openbach_run.commands.arguments import command_parser
from openbach_run.json_files import folded
from openbach_run.openbach.expand import expand

DESCRIPTION = """\
Writes the scenario of each FILE (docs/scenarios.md) as the JSON that OpenBACH imports.
Running a scenario needs no JSON: `openbach-run my_scenario.yml` runs it as it is.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("expand", DESCRIPTION)
    add = cli.add_argument
    add("files", nargs="+", type=Path, metavar="FILE", help="a scenario written as YAML")
    text = "where NAME.json of each NAME.yml goes (default: printed)"
    add("-o", "--output", type=Path, metavar="DIR", help=text)
    return cli


def main(argv: list[str]) -> int:
    """Write the JSON of the scenarios; return the exit code. Raises InputError."""
    arguments = parser().parse_args(argv)
    # All are made before one is written: a mistake in one leaves the others as they were.
    texts = {file.stem: as_text(expand(file)) for file in arguments.files}
    for name, text in texts.items():
        if arguments.output is None:
            print(text, end="")
        else:
            arguments.output.mkdir(parents=True, exist_ok=True)
            (arguments.output / f"{name}.json").write_text(text)
    return 0


def as_text(scenario: dict[str, Any]) -> str:
    """Return the content of the JSON file."""
    return folded(scenario) + "\n"
