# SPDX-License-Identifier: GPL-3.0-or-later
"""The page that web_page serves and loads, and the program's arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_job_code import load

page, web_page = load("web_page", "page"), load("web_page")


def test_the_page_has_the_medians_that_it_names() -> None:
    sizes = page.sizes()
    assert next(iter(sizes)) == page.HTML
    assert len(sizes) == 1 + 8 + 4 + 24 + 18
    assert sum(sizes.values()) == (18 + 78 + 131 + 613 + 1054) * 1024


def test_the_bytes_of_a_type_are_all_there(tmp_path: Path) -> None:
    file = tmp_path / "page.json"
    file.write_text('{"html_bytes": 5, "objects": [{"type": "js", "count": 3, "bytes": 10}]}')
    assert page.sizes(file) == {"index.html": 5, "0.js": 4, "1.js": 3, "2.js": 3}


def test_the_files_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        page.write(tmp_path / name)
    for name, size in page.sizes().items():
        first, second = ((tmp_path / folder / name).read_bytes() for folder in ("first", "second"))
        assert first == second and len(first) == size


@pytest.mark.parametrize(
    "words", [[], ["client"], *(["client", "10.0.0.1", *more] for more in (["--loads", "0"], ["--http", "3"]))]
)
def test_what_web_page_refuses(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        web_page.parse(words)
