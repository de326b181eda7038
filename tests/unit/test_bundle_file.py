# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle's file: it unpacks itself, once, whatever is in it.

The same content makes the same bytes; damage is told.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from openbach_run.bundle.file import END, Content, Member, build_start, write
from openbach_run.commands.bundle import main
from openbach_run.errors import InputError

LONG = "/".join(["a-directory-with-a-long-name"] * 8)
PYTHON = (
    '#!/bin/sh\necho started: "$@"; echo cache: $XDG_CACHE_HOME; echo from: $OPENBACH_RUN_BUNDLE;'
    " pwd\n"
)
CONTENT: Content = {
    "guest/usr/lib64/ld-linux-x86-64.so.2": Member(content=PYTHON.encode(), mode=0o755),
    "empty/": Member(),
    f"{LONG}/file": Member(content=b"x" * 100_000, mode=0o640),
    "nothing": Member(),
    "link": Member(link=f"{LONG}/file"),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_start(tmp_path_factory.mktemp("start") / "start")


@pytest.fixture(scope="module")
def bundle(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bundle") / "bundle"
    write(file, start, CONTENT, 1, lambda what, part: None)
    return file


def run(
    bundle: Path, cache: Path, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [bundle, *words],
        env={"XDG_CACHE_HOME": str(cache), **environment},
        cwd=bundle.parent,
        check=False,
        capture_output=True,
        text=True,
    )


def test_it_unpacks_itself_once_and_starts_python(
    bundle: Path, start: Path, tmp_path: Path
) -> None:
    first, second = (
        run(bundle, tmp_path, "geo", "a b"),
        run(bundle, tmp_path, PYTHONPATH="/elsewhere"),
    )
    (place,) = (tmp_path / "openbach-run").glob("bundle-????????????????")
    assert "unpacking this bundle" in first.stderr and second.stderr == ""
    started, cache, origin, here = first.stdout.splitlines()
    python = f"--argv0 {place}/bin/python3 {place}/guest/usr/bin/python3 -s -P"
    assert started.endswith(f"{python} -m openbach_run geo a b")
    assert (cache, origin, here) == (f"cache: {place}", f"from: {bundle}", str(bundle.parent))
    assert (place / "link").read_bytes() == b"x" * 100_000
    assert (place / LONG / "file").stat().st_mode & 0o777 == 0o640
    assert list((place / "empty").iterdir()) == [] and (place / "nothing").read_bytes() == b""
    (place / "bin").mkdir()
    (place / "bin/python3").write_bytes(start.read_bytes())
    (place / "bin/python3").chmod(0o755)
    started_itself = subprocess.run(
        [place / "bin/python3", "-c", "1"], check=True, capture_output=True, text=True
    )
    assert started_itself.stdout.splitlines()[0].endswith(f"{place}/guest/usr/bin/python3 -s -c 1")


def test_the_same_content_makes_the_same_bytes(bundle: Path, start: Path, tmp_path: Path) -> None:
    write(
        tmp_path / "again", start, dict(reversed(list(CONTENT.items()))), 1, lambda what, part: None
    )
    assert (tmp_path / "again").read_bytes() == bundle.read_bytes()
    write(
        tmp_path / "other",
        start,
        {**CONTENT, "nothing": Member(content=b"!")},
        1,
        lambda what, part: None,
    )
    assert (tmp_path / "other").read_bytes()[-len(END) :] != bundle.read_bytes()[-len(END) :]


def test_what_an_interrupted_start_left_is_replaced(bundle: Path, tmp_path: Path) -> None:
    run(bundle, tmp_path)
    (place,) = (tmp_path / "openbach-run").glob("bundle-????????????????")
    place.rename(f"{place}.unfinished")
    (place.with_name(f"{place.name}.unfinished") / "nothing").write_text("half")
    assert run(bundle, tmp_path).returncode == 0
    assert (place / "nothing").read_text() == ""
    assert not place.with_name(f"{place.name}.unfinished").exists()


def test_damage_is_told_and_leaves_nothing_behind(bundle: Path, tmp_path: Path) -> None:
    content = bytearray(bundle.read_bytes())
    content[-200] ^= 0xFF
    damaged = tmp_path / "damaged"
    damaged.write_bytes(content)
    damaged.chmod(0o755)
    done = run(damaged, tmp_path)
    assert done.returncode == 1 and "this bundle is damaged" in done.stderr
    assert not list((tmp_path / "openbach-run").glob("bundle-????????????????"))


@pytest.mark.parametrize("what", ["c", "c/openbach-run", "c/openbach-run/bundle-????????????????"])
def test_a_cache_that_others_can_write_is_not_executed(
    what: str, bundle: Path, tmp_path: Path
) -> None:
    assert run(bundle, tmp_path / "c").returncode == 0
    (place,) = tmp_path.glob(what)
    place.chmod(0o777)
    done = run(bundle, tmp_path / "c")
    assert done.returncode == 1 and done.stdout == ""
    assert f"another user owns {place} or can write to it" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a link of another user")
def test_a_link_of_another_user_to_a_cache_is_not_followed(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "openbach-run").symlink_to("mine")
    assert run(bundle, tmp_path).returncode == 0
    os.lchown(tmp_path / "openbach-run", 12345, 12345)
    done = run(bundle, tmp_path)
    assert (done.returncode, done.stdout) == (1, "") and "another user owns" in done.stderr


def test_a_cache_that_cannot_be_written_is_told(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(bundle, tmp_path / "file")
    assert done.returncode == 1 and "XDG_CACHE_HOME names another place" in done.stderr
    done = subprocess.run([bundle], env={}, check=False, capture_output=True, text=True)
    assert done.returncode == 1 and "HOME is not set" in done.stderr


def test_a_file_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for output in (tmp_path, tmp_path / "no/such"):
        with pytest.raises(InputError, match="should be a file in a directory that exists"):
            main(["-o", os.fspath(output)])
