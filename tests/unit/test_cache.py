# SPDX-License-Identifier: GPL-3.0-or-later
"""The user's cache: made whole or not at all, kept while it is used."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from openbach_run.engine.virtual import cache
from openbach_run.engine.virtual.cache import KEPT_UNUSED_DAYS, made_once
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY, cache_directory

DAY_S = 24 * 3600


def make(directory: Path) -> None:
    (directory / "made").touch()


def last_used(directory: Path, name: str, days_ago: float) -> None:
    date_s = time.time() - days_ago * DAY_S
    os.utime(directory / f"{name}.lock", (date_s, date_s))


def test_what_fails_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        make(directory)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        made_once(tmp_path / "kernel-0", fail)
    assert not (tmp_path / "kernel-0").exists()
    assert (made_once(tmp_path / "kernel-0", make) / "made").exists()


def test_what_was_not_used_for_long_goes_when_something_is_made(tmp_path: Path) -> None:
    old, again, new, other = (
        "image-00000000000000aa",
        "venv-00000000000000bb",
        "kernel-00000000000000cc",
        "apt-bookworm",
    )
    for name in (old, again, other):
        made_once(tmp_path / name, make)
    (tmp_path / f"{old}.unfinished").mkdir()
    for name in (old, again, other):  # the last has no hash in its name: not ours to judge
        last_used(tmp_path, name, KEPT_UNUSED_DAYS + 1)
    made_once(tmp_path / again, make)
    made_once(tmp_path / new, make)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == sorted(
        [again, new, other]
    )
    assert not (tmp_path / f"{old}.lock").exists() and not (tmp_path / f"{old}.manifest").exists()


def make_some(directory: Path) -> None:
    (directory / "bin").mkdir()
    (directory / "bin/linux").write_bytes(bytes(range(256)) * 64)
    (directory / "bin/linux").chmod(0o755)
    (directory / "kernel.json").write_text('{"identity": "made-up"}')
    (directory / "link").symlink_to("bin/linux")


def not_again(directory: Path) -> None:
    pytest.fail(f"{directory} was made or hashed again")


def empty(place: Path) -> None:
    shutil.rmtree(place)
    place.mkdir()


def truncate(place: Path) -> None:
    os.truncate(place / "bin/linux", 100)


def edit_with_old_dates(place: Path) -> None:
    seen = (place / "kernel.json").stat()
    (place / "kernel.json").write_text('{"identity": "edited!"}')
    os.utime(place / "kernel.json", ns=(seen.st_atime_ns, seen.st_mtime_ns))


def relink(place: Path) -> None:
    (place / "link").unlink()
    (place / "link").symlink_to("/etc/passwd")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (truncate, "bin/linux has changed"),
    "edited, with the same size and date": (edit_with_old_dates, "kernel.json has changed"),
    "missing": (lambda place: (place / "kernel.json").unlink(), "kernel.json is missing"),
    "one more": (
        lambda place: (place / "sitecustomize.py").touch(),
        "sitecustomize.py is not of it",
    ),
    "not executable": (lambda place: (place / "bin/linux").chmod(0o644), "bin/linux has changed"),
    "another link": (relink, "link has changed"),
    "all gone": (empty, "is missing, kernel.json is missing, link is missing"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_named_and_made_again(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, words = DAMAGES[name]
    place = made_once(tmp_path / "kernel-0", make_some)
    change(place)
    made_once(place, make_some)
    said = capsys.readouterr().err
    assert str(place) in said and words in said and "making it again" in said
    assert (place / "kernel.json").read_text() == '{"identity": "made-up"}' and os.access(
        place / "bin/linux", os.X_OK
    )
    made_once(place, not_again)
    assert capsys.readouterr().err == ""


def test_a_copied_cache_is_good_and_hashed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_once(tmp_path / "a/kernel-0", make_some)
    shutil.copytree(tmp_path / "a", tmp_path / "b", symlinks=True)
    made_once(tmp_path / "b/kernel-0", not_again)
    monkeypatch.setattr(cache, "_hashes", not_again)
    made_once(tmp_path / "b/kernel-0", not_again)


def test_what_an_earlier_version_made_gets_a_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = made_once(tmp_path / "kernel-0", make_some)
    (tmp_path / "kernel-0.manifest").unlink()
    made_once(place, not_again)
    truncate(place)
    made_once(place, make_some)
    assert "bin/linux has changed" in capsys.readouterr().err


def test_what_an_earlier_version_made_is_made_again_if_it_cannot_be_read(tmp_path: Path) -> None:
    place = made_once(tmp_path / "kernel-0", make_some)
    (tmp_path / "kernel-0.manifest").unlink()
    (place / "kernel.json").write_text("{")
    made_once(place, make_some)
    assert (place / "kernel.json").read_text() == '{"identity": "made-up"}'


@pytest.mark.parametrize("left", ["", "1.0\n", '1.0\n{"bin/linux": "0'])
def test_a_damaged_manifest_vouches_for_nothing(
    tmp_path: Path, left: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = made_once(tmp_path / "kernel-0", make_some)
    truncate(place)
    (tmp_path / "kernel-0.manifest").write_text(left)
    made_once(place, make_some)
    assert "its manifest is no JSON" in capsys.readouterr().err


def test_two_commands_make_it_again_once(tmp_path: Path) -> None:
    place = made_once(tmp_path / "kernel-0", make_some)
    truncate(place)
    made = []

    def make_slowly(directory: Path) -> None:
        made.append(directory)
        make_some(directory)

    both = [threading.Thread(target=made_once, args=(place, make_slowly)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(20)
    assert len(made) == 1 and not cache.damage(place)


def test_what_another_command_removes_to_make_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = made_once(tmp_path / "kernel-0", make_some)
    truncate(place)
    looked_at = cache._hashes

    def removed_meanwhile(directory: Path) -> dict[str, str]:
        monkeypatch.setattr(cache, "_hashes", looked_at)
        shutil.rmtree(directory)
        return looked_at(directory)

    monkeypatch.setattr(cache, "_hashes", removed_meanwhile)
    assert made_once(place, make_some) == place
    assert not cache.damage(place)


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        SetupError, match=r"the cache .*file cannot be used: .*; XDG_CACHE_HOME names another place"
    ):
        made_once(tmp_path / "file/kernel-0", make)


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(SetupError, match="XDG_CACHE_HOME"):
        cache_directory()


def test_an_empty_home_is_no_place_for_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "")
    with pytest.raises(SetupError, match="XDG_CACHE_HOME"):
        cache_directory()


def test_a_cache_that_others_can_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tmp_path.chmod(0o1777)  # as /tmp
    place = cache_directory()
    for directory, mode in ((place, 0o1777), (tmp_path, 0o777)):
        directory.chmod(mode)
        with pytest.raises(SetupError, match=f"{directory}: another user owns it or can write"):
            cache_directory()
        directory.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a link of another user")
def test_a_link_of_another_user_to_a_cache_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In /tmp it is theirs, and leads elsewhere once it has been looked at."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "mine").mkdir()
    tmp_path.chmod(0o1777)
    (tmp_path / "openbach-run").symlink_to("mine")
    assert cache_directory() == tmp_path / "openbach-run"
    os.lchown(tmp_path / "openbach-run", 12345, 12345)
    with pytest.raises(SetupError, match="another user owns it"):
        cache_directory()


def test_an_entry_that_others_can_write_is_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = made_once(tmp_path / "kernel-0", make_some)
    place.chmod(0o777)
    (place / "bin/linux").write_text("theirs")
    cache._write_manifest(place, place)
    before = os.umask(0)
    made_once(place, make_some)
    os.umask(before)
    assert "another user owns it or can write to it" in capsys.readouterr().err
    assert made_once(place, not_again).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["kernel-0.lock", "kernel-0.unfinished", "kernel-0"])
def test_a_link_that_is_there_first_changes_nothing_elsewhere(name: str, tmp_path: Path) -> None:
    """A lock file was opened through a link, which emptied what the link led to, or made it."""
    place, target = tmp_path / "cache", tmp_path / "elsewhere"
    place.mkdir()
    (place / name).symlink_to(target)
    with pytest.raises((SetupError, NotADirectoryError)):
        made_once(place / "kernel-0", make)
    assert not target.exists()
    target.write_text("precious")
    with pytest.raises((SetupError, NotADirectoryError)):
        made_once(place / "kernel-0", make)
    assert target.read_text() == "precious"


def test_where_nothing_may_be_made_nothing_is(tmp_path: Path) -> None:
    with cache.looking_only(), pytest.raises(cache.NotMade, match=r"^kernel$"):
        cache.made_once(tmp_path / "kernel-0123", lambda place: None)
    assert not list(tmp_path.iterdir())
    made = cache.made_once(tmp_path / "kernel-0123", lambda place: None)
    with cache.looking_only():
        assert cache.made_once(made, lambda place: None) == made


def test_an_engine_that_looks_makes_nothing(tmp_path: Path) -> None:
    """At commit 94585d7 --dry-run built a kernel, and compiled crates for half an hour."""
    engine = VirtualEngine(REPOSITORY, {}, cache=tmp_path / "cache")
    assert engine.first_missing() == "jail"
    assert not (tmp_path / "cache").exists()
