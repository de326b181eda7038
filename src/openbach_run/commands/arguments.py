# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that several commands have, and how a command line is read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from openbach_run.errors import InputError
from openbach_run.paths import PROJECT


class Parser(argparse.ArgumentParser):
    """A parser that says which form a number has to have."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit with 2."""
        form = r"\1 should be a number alone, without a unit"
        super().error(re.sub(r"invalid (?:float|int) value: (.*)", form, message))


def command_parser(
    name: str, description: str | None, epilog: str | None = None, usage: str | None = None
) -> argparse.ArgumentParser:
    """Return the parser of a command, without a name that of a scenario; texts keep their lines."""
    return Parser(
        f"openbach-run {name}".rstrip(),
        usage=usage,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_results(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the results directories that a command reads; `text` is their help."""
    parser.add_argument("results", metavar="RESULTS", nargs="+", type=Path, help=text)


def add_file(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --file, what goes to the hosts; `text` is its help."""
    parser.add_argument(
        "--file", action="append", default=[], metavar="PATH[:NAME]", dest="files", help=text
    )


def add_controller(parser: argparse.ArgumentParser) -> None:
    """Add --controller and --project, which say where on which OpenBACH platform."""
    add = parser.add_argument
    text = (
        "address of the OpenBACH platform: HOST, HOST:PORT or a URL (default: the file"
        " 'controller' of this directory, which also has login and password)"
    )
    add("--controller", metavar="HOST", help=text)
    text = f"project of the controller in which scenarios run (default {PROJECT})"
    add("--project", metavar="NAME", default=PROJECT, help=text)


def add_with(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --with, the user's directories beside the checkout; `text` is its help."""
    add = parser.add_argument
    add(
        "--with", type=Path, action="append", default=[], metavar="DIR", dest="with_dirs", help=text
    )


def add_jobs(
    parser: argparse.ArgumentParser,
    text: str = "more jobs: a folder of packages, or a JSON file of argument trees",
) -> None:
    """Add --jobs, the user's jobs beside those of the checkout; `text` is its help."""
    parser.add_argument("--jobs", type=Path, action="append", default=[], metavar="PATH", help=text)


def parsed(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Return what a command line with a scenario's NAME=VALUE says.

    Raises InputError for an option that there is not.
    """
    arguments, unknown = parser.parse_known_intermixed_args(words)
    if unknown:
        option = unknown[0].partition("=")[0]
        name = option.removeprefix("--").replace("-", "_")
        right = f"{parser.prog} --help lists them"
        if option.startswith("--") and name.isidentifier():
            right = f"a scenario's values are written {name}=…; {right}"
        raise InputError(f"{option}: no such option; {right}")
    return arguments
