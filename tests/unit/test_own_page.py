# SPDX-License-Identifier: GPL-3.0-or-later
"""A page of a person's own: of a HAR file and of a folder, as files of sizes and types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.job_code import load

from openbach_run.errors import InputError
from openbach_run.link_checks import read_file_of
from openbach_run.own_page import MOST_FILES

page = load("web_page", "page")


def entry(kind: str, size: Any, body: int = -1, status: int = 200) -> dict[str, Any]:
    content = {"mimeType": kind, "size": size, "text": "SECRET"}
    return {
        "request": {"url": "https://SECRET/"},
        "response": {"status": status, "bodySize": body, "content": content},
    }


ENTRIES = [
    entry("application/json", 70),
    entry("text/html; charset=utf-8", 5000, 2000),
    entry("text/html", 10, status=302),
    entry("text/css", 3000, 0),
    entry("application/javascript", 4000),
    entry("font/woff2", 6000),
    entry("image/png", 8000, 7000),
    entry("image/gif", 43),
    entry("text/plain", 0),
]
SAME = [["other", 70], ["css", 3000], ["js", 4000], ["font", 6000], ["image", 7000], ["other", 43]]


def har(folder: Path, content: Any) -> Path:
    file = folder / "mine.har"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_a_har_file_becomes_sizes_and_types(tmp_path: Path) -> None:
    text = read_file_of("page", har(tmp_path, {"log": {"entries": ENTRIES}}))
    assert json.loads(text) == {"html_bytes": 2000, "each": SAME}
    assert "SECRET" not in text


def test_a_folder_becomes_sizes_and_types(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    files = {"index.html": 900, "a/x.JS": 10, "b.woff2": 20, "c.png": 500, "d": 30, "e.css": 0}
    for name, size in files.items():
        (tmp_path / name).write_bytes(bytes(size))
    (tmp_path / "outside").symlink_to("/etc/passwd")
    found = json.loads(read_file_of("page", tmp_path))
    assert found["html_bytes"] == 900
    assert sorted(found["each"]) == [["font", 20], ["image", 500], ["js", 10], ["other", 30]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "broken JSON"),
        ("[]", "no HAR file"),
        ({"log": {"entries": 3}}, "no HAR file"),
        ({"log": {"entries": [{"response": None}]}}, "no HAR file"),
        ({"log": {"entries": [entry("text/html", "many")]}}, "no HAR file"),
        ({"log": {"entries": [entry("image/png", 9)]}}, "no HTML is in it"),
        ({"log": {"entries": [entry("text/html", 9)] * (MOST_FILES + 1)}}, "at most 1000 files"),
        ({"log": {"entries": [entry("text/html", 1 << 27)]}}, "at most 1000 files, 64 MiB"),
    ],
)
def test_what_is_no_page_is_refused(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_file_of("page", har(tmp_path, content))


def test_a_file_or_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    for place, words in ((tmp_path, "index.html"), (Path("/dev/zero"), "no HAR file")):
        with pytest.raises(InputError, match=words):
            read_file_of("page", place)


def test_the_job_serves_it_and_its_html_asks_for_all(tmp_path: Path) -> None:
    text = read_file_of("page", har(tmp_path, {"log": {"entries": ENTRIES}}))
    file = tmp_path / "page"
    for html_bytes in (2000, 10):
        file.write_text(text.replace("2000", str(html_bytes), 1))
        sizes = page.sizes(file)
        assert list(sizes) == [
            "index.html",
            "0.other",
            "1.css",
            "2.js",
            "3.font",
            "4.image",
            "5.other",
        ]
        page.write(tmp_path, file)
        for name, size in sizes.items():
            assert (tmp_path / name).stat().st_size == size
            assert name == page.HTML or f'="{name}"' in (tmp_path / page.HTML).read_text("latin-1")
        assert sizes[page.HTML] == max(html_bytes, len(page.asking(sizes)))
