# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of a job's arguments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping


def check(
    parser: argparse.ArgumentParser,
    arguments: argparse.Namespace,
    limits: Mapping[str, tuple[float, float]],
) -> None:
    """`limits` are the least and the most by the argument's name; what this mode of the job does
    not have is left out.

    Ends the job if one lies outside.
    """
    for name, (least, most) in limits.items():
        value = getattr(arguments, name, least)
        if not least <= value <= most:
            parser.error(f"{name} is {value:.15g}: from {least:.15g} to {most:.15g}")
