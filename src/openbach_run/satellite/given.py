# SPDX-License-Identifier: GPL-3.0-or-later
"""The satellites and link files that arguments name: checked before any run begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import link_file
import presets
from presets import NONE, PRESET, Preset

from openbach_run.errors import InputError


def read_link_file(path: Path) -> str:
    """The text of a link file without a mistake. Raises InputError with the line of the first one."""
    try:
        link_file.check(path)
    except link_file.LinkFileError as error:
        raise InputError(str(error)) from error
    except ValueError as error:  # a name that no file can have
        raise InputError(f"{str(path)!r}: {error}") from error
    return path.read_text(encoding="utf-8-sig")


ORBIT = "orbit"
"""The argument that names a satellite."""
Presets = Mapping[str, Preset]
"""By the names of the satellites."""


def read_presets(names: Iterable[str], files: Mapping[str, Path]) -> dict[str, Preset]:
    """The presets of those names that have a file. Raises InputError with the line of the first mistake."""
    return {name: read_preset(files[name]) for name in names if name in files}


def read_preset(file: Path) -> Preset:
    """The preset of a file. Raises InputError with the line of the first mistake."""
    try:
        preset = presets.read(file)
        if preset.link_file:
            link_file.check(preset.link_file)
        return preset
    except (presets.PresetError, link_file.LinkFileError) as error:
        raise InputError(str(error)) from error


def in_force(cell: Mapping[str, str], of_orbits: Presets) -> dict[str, str]:
    """The values of a cell with those that are in force on its link in place of `preset`: what its satellite has, or the
    default. Of the two ways to name a buffer one is `none`. Raises InputError."""
    preset = of_orbits.get(cell.get(ORBIT, ""))
    if preset is None or PRESET not in cell.values():
        return dict(cell)
    try:
        texts = presets.in_force(cell, preset)
    except ValueError as error:
        raise InputError(str(error)) from error
    if "buffer_bdp" in cell:
        bdp = texts["buffer"].removesuffix("BDP")
        in_bdp = cell.get("buffer", PRESET) in (PRESET, NONE) and bdp != texts["buffer"]
        texts |= {"buffer": NONE, "buffer_bdp": bdp} if in_bdp else {"buffer_bdp": NONE}
    return {name: texts.get(name, value) for name, value in cell.items()}
