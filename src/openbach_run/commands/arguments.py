# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that several commands have."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_with(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --with, the user's directories beside the checkout; `text` is its help."""
    parser.add_argument(
        "--with",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        dest="with_dirs",
        help=text,
    )


def add_jobs(
    parser: argparse.ArgumentParser,
    text: str = "more jobs: a folder of packages, or a JSON file of argument trees",
) -> None:
    """Add --jobs, the user's jobs beside those of the checkout; `text` is its help."""
    parser.add_argument("--jobs", type=Path, action="append", default=[], metavar="PATH", help=text)
