# SPDX-License-Identifier: GPL-3.0-or-later
"""The patches of the virtual-time kernel, in the order of kernel/series, with their sources.

A group of patches is a folder of kernel/patches; a folder of kernel/src with the same name has its
sources.
"""

from __future__ import annotations

import os
from pathlib import Path

from openbach_run.engine.virtual.debian import run
from openbach_run.errors import SetupError

FILE = "series"
WITHOUT_VARIABLE = "OPENBACH_RUN_KERNEL_WITHOUT"
"""Names the group that a kernel is built without. For developers: a test compares the packets."""
CAN_BE_LEFT_OUT = ("speed",)


def left_out() -> str:
    """The group that is left out, or "" if none is.

    Raises SetupError for one that has to be there.
    """
    group = os.environ.get(WITHOUT_VARIABLE, "")
    if group and group not in CAN_BE_LEFT_OUT:
        raise SetupError(
            f"{WITHOUT_VARIABLE}={group}: only {' or '.join(CAN_BE_LEFT_OUT)} can be left out"
        )
    return group


def names(kernel_dir: Path) -> list[str]:
    """Return the lines of kernel/series that name patches: GROUP/NAME.patch."""
    try:
        lines = (kernel_dir / FILE).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise SetupError(f"kernel/{FILE}: not UTF-8 text (byte {error.start})") from error
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def patches(kernel_dir: Path) -> list[Path]:
    """Return the patches that are applied, in their order.

    Raises SetupError if a file and the series differ.
    """
    folder = kernel_dir / "patches"
    listed = names(kernel_dir)
    present = {str(file.relative_to(folder)) for file in folder.glob("**/*.patch")}
    # One that nobody has listed would be forgotten silently.
    if wrong := present.symmetric_difference(listed):
        raise SetupError(f"kernel/{FILE} and kernel/patches differ: {', '.join(sorted(wrong))}")
    return [folder / name for name in listed if name.partition("/")[0] != left_out()]


def sources(kernel_dir: Path) -> list[Path]:
    """Return the C and assembler files that are built with the patches, sorted by name."""
    files = sorted(kernel_dir.glob("src/**/*.[chS]"))
    return [file for file in files if file.parent.name != left_out()]


def apply(patch: Path, source: Path) -> None:
    """Apply one patch to a kernel source.

    Raises SetupError, with its name, unless every hunk fits to the letter.

    A hunk may have moved (an offset). One whose surroundings have changed may be wrong where it
    still fits.
    """
    name = f"{patch.parent.name}/{patch.name}"
    command = [
        "patch",
        "-d",
        str(source),
        "-p1",
        "--forward",
        "--fuzz=0",
        "--no-backup-if-mismatch",
    ]
    run([*command, "-i", str(patch.resolve())], f"applying kernel/patches/{name} without fuzz")
