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
    """End the job if an argument lies outside its limits: name → the least and the most.

    An argument that this mode of the job does not have, or that is not given, is left out.
    """
    for name, (least, most) in limits.items():
        value = getattr(arguments, name, None)
        if value is not None and not least <= value <= most:
            parser.error(f"{name} is {value:.15g}: from {least:.15g} to {most:.15g}")
