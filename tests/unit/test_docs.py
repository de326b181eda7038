# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands and the facts that the documentation names are those of the code."""

from __future__ import annotations

import json
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from openbach_run.campaign import parse_seeds, plan
from openbach_run.cli import COMMANDS as SUBCOMMANDS
from openbach_run.cli import parser
from openbach_run.job_packages import load_packages

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PACKAGES = load_packages([ROOT / "jobs"])
COMMANDS = sorted(
    {
        line.split("  #")[0].strip()
        for page in PAGES
        for line in re.findall(r"^\./openbach-run .*$", page.read_text(), re.M)
    }
)


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_are_understood(line: str) -> None:
    words = shlex.split(line)[1:]
    if words[0] in SUBCOMMANDS:
        import_module(SUBCOMMANDS[words[0]]).parser().parse_args(words[1:])
        return
    arguments = parser().parse_intermixed_args(words) if "--help" not in line else None
    if arguments and not arguments.check:
        name = Path(arguments.scenario).stem
        assert plan(ROOT / f"scenarios/{name}.json", arguments.settings, parse_seeds(arguments.seeds), PACKAGES).cells


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_guide_names_every_argument_of_the_scenarios() -> None:
    guide = (ROOT / "docs/guide.md").read_text()
    for file in (ROOT / "scenarios").glob("*.json"):
        for name in json.loads(file.read_text())["arguments"]:
            assert f"| `{name}` |" in guide
