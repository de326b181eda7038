# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run python …`: Python in the command's environment.

It has openbach_run, pandas, pyarrow and matplotlib. What follows is Python's own: a file with its
arguments, -c CODE, -m MODULE, or nothing for a prompt.

  openbach-run python figure.py results/geo
  openbach-run python -c 'import openbach_run; print(openbach_run.load("results/geo").cells())'
"""

from __future__ import annotations

import argparse
import os
import sys

from openbach_run.commands.arguments import command_parser


def parser() -> argparse.ArgumentParser:
    """Return the parser of --help."""
    return command_parser("python", __doc__, usage="openbach-run python [WORD…]")


def main(argv: list[str]) -> int:
    """Become Python with these words. Raises OSError."""
    if argv == ["--help"]:
        parser().parse_args(argv)
    os.execv(sys.executable, [sys.executable, *argv])
