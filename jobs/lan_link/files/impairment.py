# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles of impairment: `impairments/NAME.json`, a number by name, as `Impairment` has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from openbach_jobs.data import data_folder

FOLDER = data_folder("impairments")
NONE = "none"
FOR_PEOPLE = ("description", "source")
MOST_MS = 10_000.0


class Impairment(NamedTuple):
    """The impairment of each direction's packets, besides that of the link itself.

    Jitter is the standard deviation of the delay, and may change the order of packets; packets of
    `reorder_pct` are not delayed at all.
    """

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss_pct: float = 0.0
    reorder_pct: float = 0.0
    duplicate_pct: float = 0.0


def find(name: str, folder: Path = FOLDER) -> Impairment:
    """Return the profile of that name; `none` has nothing.

    Raises ValueError: which file, what is wrong with it.
    """
    if name == NONE:
        return Impairment()
    file = folder / f"{name}.json"
    if not file.exists():
        profiles = ", ".join(sorted(file.stem for file in folder.glob("*.json")))
        raise ValueError(f"there is no profile {name}; there are {profiles}")
    try:
        return read(file)
    except RecursionError:
        raise ValueError(f"{file}: nested too deeply") from None


def read(file: Path) -> Impairment:
    """Return the profile of a file. Raises ValueError."""
    try:
        profile = json.loads(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    if not isinstance(profile, dict):
        raise ValueError(f"{file}: should be a JSON object")
    numbers = {name: value for name, value in profile.items() if name not in FOR_PEOPLE}
    for name, value in numbers.items():
        if name not in Impairment._fields:
            raise ValueError(
                f"{file}: {name}: a profile has {', '.join([*Impairment._fields, *FOR_PEOPLE])}"
            )
        most = 100.0 if name.endswith("_pct") else MOST_MS
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise ValueError(f"{file}: {name} is {value!r}: a number from 0 to {most:g}")
    impairment = Impairment(**{name: float(value) for name, value in numbers.items()})
    if impairment.reorder_pct and not impairment.delay_ms:
        raise ValueError(
            f"{file}: reorder_pct: packets overtake others only where there is a delay_ms"
        )
    return impairment
