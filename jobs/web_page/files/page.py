# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of page.json.

The server makes its files from it, and the client checks what has come.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Mapping
from pathlib import Path

DESCRIPTION = Path(__file__).parent / "page.json"
HTML = "index.html"


def sizes(description: Path = DESCRIPTION) -> dict[str, int]:
    """Return name → bytes of every file, the HTML first.

    The bytes of a type are shared evenly by its objects.
    """
    page = json.loads(description.read_text())
    files = {HTML: int(page["html_bytes"])}
    for group in page["objects"]:
        each, more = divmod(int(group["bytes"]), int(group["count"]))
        for number in range(int(group["count"])):
            files[f"{number}.{group['type']}"] = each + (number < more)
    return files


TAGS = {
    "css": '<link rel="stylesheet" href="{}">',
    "font": '<link rel="preload" as="font" crossorigin href="{}">',
    "js": '<script src="{}"></script>',
    "image": '<img src="{}">',
}
"""Tag that makes a browser ask for an object, by type."""


def html(files: Mapping[str, int]) -> bytes:
    """Return the page's HTML, which asks for all objects: a browser loads it, too.

    `files` is name → bytes, as of `sizes`; where the HTML's size leaves no room, it asks for none.
    """
    names = [name for name in files if name != HTML]
    tags = "".join(TAGS.get(name.partition(".")[2], "").format(name) for name in names)
    text = f"<!doctype html>{tags}<!--".encode()
    rest = files[HTML] - len(text) - len("-->")
    filling = random.Random(HTML).randbytes(max(0, rest)).hex().encode()[: max(0, rest)]
    return text + filling + b"-->" if rest >= 0 else bytes(files[HTML])


def bitmap_head(size: int) -> bytes:
    """Return the head of a bitmap (BMP, 64 pixels wide) of `size` bytes; b"" if that is too small.

    A browser gives up what is no image, and over HTTP/1.1 its connection with it.
    """
    at, width, pixel_bytes = 54, 64, 3
    height = (size - at) // (width * pixel_bytes)
    fields = (b"BM", size, 0, at, 40, width, height, 1, 8 * pixel_bytes, *(0,) * 6)
    return struct.pack("<2sIIIIiiHHIIiiII", *fields) if height > 0 else b""


def write(directory: Path) -> None:
    """Write the files: the same bytes each time, that no compression would make smaller."""
    for name, size in sizes().items():
        head = bitmap_head(size) if name.endswith(".image") else b""
        (directory / name).write_bytes(head + random.Random(name).randbytes(size - len(head)))
    (directory / HTML).write_bytes(html(sizes()))
