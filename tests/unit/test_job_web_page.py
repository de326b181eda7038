# SPDX-License-Identifier: GPL-3.0-or-later
"""The page that web_page serves and loads, and the program's arguments."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.job_code import load

page, web_page = load("web_page", "page"), load("web_page")
FILES = Path(str(page.__file__)).parent


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


def test_the_html_asks_for_every_object_and_keeps_its_size() -> None:
    text = page.html(page.sizes())
    assert len(text) == page.sizes()[page.HTML]
    for name in list(page.sizes())[1:]:
        assert f'="{name}"'.encode() in text
    assert len(page.html({page.HTML: 5, "0.js": 4})) == 5


def test_images_are_bitmaps_of_their_size(tmp_path: Path) -> None:
    page.write(tmp_path)
    image = (tmp_path / "0.image").read_bytes()
    mark, size, _, at, _, width, height = struct.unpack_from("<2sIIIIii", image)
    assert (mark, size) == (b"BM", len(image))
    assert at + 3 * width * height <= len(image) < at + 3 * width * (height + 1)


def test_an_nginx_without_http_3_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "nginx version: nginx/1.22.1\nconfigure arguments: --with-http_v2_module"
    (tmp_path / "nginx").write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    (tmp_path / "nginx").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(
        SystemExit,
        match=r"http=3: nginx/1\.22\.1 of this host has no HTTP/3; Debian's .*nginx 1\.26",
    ):
        web_page.nginx.check_quic()
    (tmp_path / "nginx").write_text("#!/bin/sh\necho --with-http_v3_module >&2\n")
    web_page.nginx.check_quic()


def test_a_libcurl_without_http_3_says_so(tmp_path: Path) -> None:
    names = [f"CURL_HTTP_VERSION_{version}" for version in ("1_1", "2TLS", "2_0")]
    (tmp_path / "pycurl.py").write_text(
        f"version = 'libcurl/7.88.1 nghttp2/1.52.0'\n{' = '.join(names)} = 0\n"
    )
    asked = [sys.executable, str(FILES / "page_load.py"), "wait", "https://10.0.0.1:8443", "3"]
    ended = subprocess.run(
        asked, check=False, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)}
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("http=3: this host's libcurl has no HTTP/3")
