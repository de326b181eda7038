# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run completion bash`: prints the script with which bash completes the command.

It completes commands, scenarios, campaigns, arguments and options.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from openbach_jobs import dama, dvbs2
from openbach_run.campaign.vpn_config import COMMANDS, CONFIG
from openbach_run.campaign.vpn_folder import vpn_of
from openbach_run.catalog import Catalog
from openbach_run.commands import main as command
from openbach_run.commands.arguments import command_parser
from openbach_run.errors import InputError
from openbach_run.json_files import read_json
from openbach_run.openbach.expand import expand
from openbach_run.openbach.source import SUFFIXES

DESCRIPTION = """\
Prints what bash needs to complete the command. Once:

  openbach-run completion bash > ~/.local/share/bash-completion/completions/openbach-run
"""
SCRIPT = """\
_openbach_run() {{
    local words here=${{COMP_WORDS[COMP_CWORD]}}
    case ${{COMP_WORDS[1]}} in
{cases}
    *) words="{words}" ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$here"; compgen -f -- "$here")
    [[ ${{COMPREPLY[0]}} != *= ]] || compopt -o nospace
}}
complete -o filenames -F _openbach_run openbach-run ./openbach-run
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = command_parser("completion", DESCRIPTION)
    made.add_argument("shell", choices=["bash"])
    return made


def main(argv: list[str]) -> int:
    """Print the script; return the exit code."""
    parser().parse_args(argv)
    print(script(), end="")
    return 0


def script() -> str:
    """Return the script for bash."""
    modules = {name: import_module(module) for name, module in command.COMMANDS.items()}
    cases = "\n".join(
        f'    {name}) words="{" ".join(options(module.parser()))}" ;;'
        for name, module in modules.items()
    )
    catalog = Catalog()
    names = [*catalog.all("scenarios"), *catalog.all("campaigns")]
    words = [*command.COMMANDS, *names, *options(command.parser()), *_arguments(catalog)]
    return SCRIPT.format(cases=cases, words=" ".join(words))


def options(parser: argparse.ArgumentParser) -> Iterable[str]:
    """Return the long options of a parser."""
    texts = chain(*(action.option_strings for action in parser._actions))
    return [text for text in texts if text.startswith("--")]


def _content(file: Path) -> Any:
    """Return the content of a scenario's file; None if it is broken.

    Other scenarios are completed all the same.
    """
    try:
        return expand(file) if file.suffix in SUFFIXES else read_json(file)
    except InputError:
        return None


def _arguments(catalog: Catalog) -> list[str]:
    """Return `NAME=` for all arguments and constants of all scenarios, and all values of VPNs."""
    names: set[str] = set()
    for file in catalog.all("scenarios").values():
        scenario = _content(file)
        if isinstance(scenario, dict):
            names |= {*scenario.get("arguments", ()), *scenario.get("constants", ())}
    if "dama_values" in names:
        names |= {f"dama.{name}" for name in dama.VALUES}
    if "forward_values" in names:
        names |= {f"forward.{name}" for name in dvbs2.VALUES}
    return sorted(f"{name}=" for name in names | _vpn_values(catalog))


def _vpn_values(catalog: Catalog) -> set[str]:
    """Return the values of all VPNs (`vpn.cipher` and so on), without those that a folder fixes."""
    vpns = catalog.all("vpn-configs")
    found = {f"vpn.{name}" for name in (CONFIG, COMMANDS)}
    for name, folder in vpns.items():
        if (folder / "up").exists():
            vpn = vpn_of(name, vpns)
            found |= {f"vpn.{value}" for value in vpn["reads"] if value not in vpn.get("fixed", ())}
    return found
