# SPDX-License-Identifier: GPL-3.0-or-later
"""Parameters of a link's model: fields of a dataclass that know their range and what they mean."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any


def parameter(default: Any, least: float, greatest: float, text: str) -> Any:
    return field(default=default, metadata={"least": least, "greatest": greatest, "help": text})


def refuse_out_of_range(parameters: Any) -> None:
    """Raises ValueError, with the parameter's name and range."""
    for one in fields(parameters):
        value, least, greatest = getattr(parameters, one.name), one.metadata["least"], one.metadata["greatest"]
        if not least <= value <= greatest:
            raise ValueError(f"{one.name} is {value}: it must be from {least} to {greatest}")
