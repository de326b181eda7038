# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a page of docs/ tells its reader to write.

A line with the name, `mine.yml`:, and a block of code below.
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def write(page: str | Path, place: Path) -> list[Path]:
    """Writes the files of `page`, a path or a name in docs/, below `place`."""
    written = []
    for name, content in re.findall(
        r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S
    ):
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        written.append(file)
    return written


def commands(page: str | Path, but: str = "\n") -> list[str]:
    """Return the lines of a page that begin with ./openbach-run, without their comments.

    `page` is a path, or a name in docs/. Lines with `but` are left out.
    """
    lines = re.findall(r"^\./openbach-run .*$", (DOCS / page).read_text(), re.M)
    return [line.split("  #")[0].strip() for line in lines if but not in line]
