# SPDX-License-Identifier: GPL-3.0-or-later
"""A web page of a person's own, from a HAR file or a folder: its files by size and type alone.

Neither addresses nor content leave this module, so a HAR file with cookies may be given. A browser
writes it ("Save all as HAR"); the format is W3C's HTTP Archive 1.2.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from openbach_run.errors import InputError
from openbach_run.json_files import read_json

MOST_HAR_BYTES = 64 << 20
MOST_FILES, MOST_BYTES = 1000, 64 << 20
"""Most bytes of a page: it lies in the guest's memory."""
KINDS = {
    "css": re.compile(r"text/css|\.css"),
    "js": re.compile(r"\w+/(x-)?javascript|\.m?js"),
    "font": re.compile(r".*font.*|\.(woff2?|ttf|otf|eot)"),
    "image": re.compile(r"image/.*|\.(png|jpe?g|gif|webp|avif|svg|ico|bmp)"),
}
"""Types of the job web_page, by media type or the end of a file's name; others are `other`."""
HTML = re.compile(r"text/html|application/xhtml\+xml|\.html?")
OK = 200
"""Status of an answer that has the file."""
LEAST_IMAGE_BYTES = 300
"""A smaller image has no room for a bitmap, and counts as `other`."""


def read_page(path: Path) -> str:
    """Return a page as the job web_page takes it (page.json). Raises InputError."""
    listed = list(islice(_of_folder(path) if path.is_dir() else _of_har(path), MOST_FILES + 1))
    sizes = [size for _, size in listed]
    if len(listed) > MOST_FILES or sum(sizes) > MOST_BYTES:
        raise InputError(f"{path}: a page has at most {MOST_FILES} files, {MOST_BYTES >> 20} MiB")
    html = [number for number, (kind, _) in enumerate(listed) if HTML.fullmatch(kind)]
    if not html:
        raise InputError(f"{path}: no HTML is in it, which would be the page")
    return json.dumps(
        {"html_bytes": listed.pop(html[0])[1], "each": [[_type(*file), file[1]] for file in listed]}
    )


def _type(kind: str, size: int) -> str:
    """Return the type of a file, as the job knows it."""
    named = next((name for name, like in KINDS.items() if like.fullmatch(kind)), "other")
    return "other" if named == "image" and size < LEAST_IMAGE_BYTES else named


def _of_har(path: Path) -> Iterator[tuple[str, int]]:
    """Yield media type and bytes on the wire of what a HAR file has. Raises InputError."""
    if not path.is_file() or path.stat().st_size > MOST_HAR_BYTES:
        raise InputError(f"{path}: no folder and no HAR file of {MOST_HAR_BYTES >> 20} MiB at most")
    try:
        for entry in read_json(path)["log"]["entries"]:
            answer = entry["response"]
            content = answer["content"]
            # -1 and 0: not known, as browsers write it of HTTP/2 and of their cache.
            size = content["size"] if answer.get("bodySize", 0) < 1 else answer["bodySize"]
            if answer["status"] == OK and size > 0:
                yield content["mimeType"].partition(";")[0].strip().lower(), int(size)
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{path}: no HAR file, as browsers save it ({error})") from None


def _of_folder(path: Path) -> Iterator[tuple[str, int]]:
    """Yield end of name and bytes of the files in a folder, index.html first. Raises InputError."""
    index = path / "index.html"
    if not index.is_file():
        raise InputError(f"{path}: a page's folder has an index.html")
    yield ".html", index.stat().st_size
    for folder, folders, names in os.walk(path):
        folders.sort()
        for file in (Path(folder, name) for name in sorted(names)):
            if file != index and file.is_file() and not file.is_symlink() and file.stat().st_size:
                yield file.suffix.lower(), file.stat().st_size
