# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of openbach-run, which a tag vX.Y.Z gives."""

from __future__ import annotations

import re
import subprocess
from importlib import metadata
from pathlib import Path

from openbach_run.paths import REPOSITORY

NAME = "openbach-run"
UNKNOWN = "0"
DESCRIBED = re.compile(
    r"(?:v(?P<tagged>[0-9][\w.]*)-(?P<after>[0-9]+)-g)?(?P<commit>[0-9a-f]{4,40})(?P<dirty>-dirty)?"
)
"""The output of `git describe`."""
DIRTY = ".dirty"
"""The end of the version of a checkout whose files are not all committed."""


def version() -> str:
    """Return the version of this checkout.

    Without one (a wheel, a bundle) it comes from the metadata.
    """
    if (REPOSITORY / ".git").exists():
        return version_of(REPOSITORY)
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def version_of(checkout: Path) -> str:
    """Return the version of a checkout in the form of Python's packages (PEP 440).

    It is X.Y.Z at the tag vX.Y.Z, X.Y.Z.post5+g0123abc five commits later, and 0+g0123abc without a
    tag. The last two have .dirty at the end if files have changed since. It is UNKNOWN if git says
    nothing.
    """
    command = [
        "git",
        "-C",
        str(checkout),
        "describe",
        "--tags",
        "--long",
        "--dirty",
        "--always",
        "--match",
        "v[0-9]*",
    ]
    try:
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN
    if (found := DESCRIBED.fullmatch(told)) is None:
        return UNKNOWN
    tagged, after, commit, dirty = found.groups()
    if tagged and after == "0" and not dirty:
        return tagged
    release = f"{tagged}.post{after}" if tagged else UNKNOWN
    return f"{release}+g{commit}{DIRTY if dirty else ''}"
