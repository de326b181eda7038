# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run list [KIND]`: what there is to name on a command line, each with a line of text.

Lists what a command line can name, each with a line of text:

  openbach-run list            the kinds, and how many there are of each
  openbach-run list vpns       the VPNs, for vpn=NAME
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from openbach_run.catalog import Catalog, description
from openbach_run.commands.arguments import add_with, command_parser
from openbach_run.errors import InputError
from openbach_run.json_files import read_json, read_text
from openbach_run.openbach.expand import expand
from openbach_run.openbach.source import SUFFIXES, is_source
from openbach_run.yaml_files import read_texts

KINDS = {
    "scenarios": ("scenarios", "openbach-run NAME --help has its arguments"),
    "campaigns": ("campaigns", "openbach-run NAME --dry-run says how long it takes"),
    "topologies": ("topologies", "openbach-run NAME runs the scenario beside each"),
    "vpns": ("vpn-configs", "vpn=NAME"),
    "satellites": ("satellites", "orbit=NAME"),
    "controls": ("congestion-controls", "cc=NAME, beside those of Linux"),
    "platforms": ("platforms", "platform=NAME"),
    "impairments": ("impairments", "impairment=NAME"),
    "peps": ("peps", "pep_program=NAME"),
    "cpus": ("cpus", "cpu=NAME"),
}
"""Word of the command → kind of the catalog, and how its entries are named."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("list", __doc__)
    cli.add_argument("kind", nargs="?", choices=[*KINDS], metavar="KIND", help=", ".join(KINDS))
    add_with(cli, "list what is in this directory, too (docs/additions.md)")
    return cli


def main(argv: list[str]) -> int:
    """Print a list; return the exit code. Raises InputError."""
    arguments = parser().parse_args(argv)
    catalog = Catalog.beside_ours(arguments.with_dirs)
    # As wide as the terminal; whole lines where a program reads them.
    columns = shutil.get_terminal_size((10_000, 0)).columns
    if arguments.kind is None:
        lines = {word: f"{len(catalog.all(kind)):3}  {use}" for word, (kind, use) in KINDS.items()}
    else:
        entries = catalog.all(KINDS[arguments.kind][0])
        lines = {name: text_of(entries[name]) for name in sorted(entries)}
    width = max(map(len, lines), default=0)
    for name, text in lines.items():
        line = f"{name:{width}}  {text}"
        print(line if len(line) <= columns else f"{line[: columns - 1]}…")
    return 0


def text_of(place: Path) -> str:
    """Return what the folder or file of an entry says of itself, on one line."""
    try:
        if place.is_dir():
            content: Any = description(place)
        elif place.suffix not in SUFFIXES:
            content = read_json(place)
        else:
            content = read_texts(place)
            if "description" not in content and is_source(place):
                content = expand(place)
        text = content.get("description") if isinstance(content, dict) else None
        return " ".join(str(text or first_comment(place)).split())
    except InputError as error:  # the others are listed all the same
        return f"cannot be read: {error}"


def first_comment(file: Path) -> str:
    """Return the first sentence of a file's first comment, without its licence. Raises InputError.

    Sentences end at a line's end, too, where the next one is empty.
    """
    words: list[str] = []
    for line in read_text(file).splitlines() if file.is_file() else ():
        text = line.strip("# ")
        if not line.startswith("#") or (words and not text):
            break
        if "SPDX-License-Identifier" not in line:
            words.append(text)
    return " ".join(words).strip().partition(". ")[0]
