# SPDX-License-Identifier: GPL-3.0-or-later
"""An experiment of kernel/experiments is a patch of this repository.

It has to fit what it changes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "patch", sorted((REPOSITORY / "kernel/experiments").glob("*.patch")), ids=lambda path: path.stem
)
def test_it_applies(patch: Path) -> None:
    command = [
        "patch",
        "--dry-run",
        "--forward",
        "--force",
        "-p1",
        "-d",
        str(REPOSITORY),
        "-i",
        str(patch),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "fuzz" not in done.stdout
