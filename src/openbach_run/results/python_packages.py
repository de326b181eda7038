# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python packages that compute measures, and the lock that they are to be of."""

from __future__ import annotations

import hashlib
import re
import sys
from functools import cache
from pathlib import Path

from openbach_run.paths import LOCK


@cache
def python_packages() -> dict[str, str]:
    """Return the lock of the Python packages, by its hash, and those that are not its, in words."""
    lock = LOCK.read_text(encoding="utf-8")
    locked = {*re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE)}
    # Names of directories: importlib.metadata would read each package's description.
    folders = (file.stem for place in sys.path for file in Path(place).glob("*.dist-info"))
    parts = (name.lower().replace("_", "-").rpartition("-") for name in folders)
    installed = {(name, number) for name, _, number in parts}
    others = sorted(package for package in installed - locked if package[0] in dict(locked))
    known = {"python_lock": hashlib.sha256(lock.encode()).hexdigest()[:16]}
    return {**known, **({"python_not_locked": ", ".join(map(" ".join, others))} if others else {})}
