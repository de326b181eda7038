# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of page.json.

The server makes its files from it, and the client checks what has come.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

DESCRIPTION = Path(__file__).parent / "page.json"
HTML = "index.html"


def sizes(description: Path = DESCRIPTION) -> dict[str, int]:
    """Name → bytes of every file, the HTML first.

    The bytes of a type are shared evenly by its objects.
    """
    page = json.loads(description.read_text())
    found = {HTML: int(page["html_bytes"])}
    for group in page["objects"]:
        each, more = divmod(int(group["bytes"]), int(group["count"]))
        found |= {
            f"{number}.{group['type']}": each + (number < more)
            for number in range(int(group["count"]))
        }
    return found


def write(directory: Path) -> None:
    """Write the files: the same bytes each time, that no compression would make smaller."""
    for name, size in sizes().items():
        (directory / name).write_bytes(random.Random(name).randbytes(size))
