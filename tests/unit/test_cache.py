# SPDX-License-Identifier: GPL-3.0-or-later
"""The user's cache: made whole or not at all, kept while it is used."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from openbach_run.engine.cache import KEPT_UNUSED_DAYS, made_once

DAY_S = 24 * 3600


def make(directory: Path) -> None:
    (directory / "made").touch()


def last_used(cache: Path, name: str, days_ago: float) -> None:
    date_s = time.time() - days_ago * DAY_S
    os.utime(cache / f"{name}.lock", (date_s, date_s))


def test_what_fails_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        make(directory)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        made_once(tmp_path / "kernel-0", fail)
    assert not (tmp_path / "kernel-0").exists()
    assert (made_once(tmp_path / "kernel-0", make) / "made").exists()


def test_what_was_not_used_for_long_goes_when_something_is_made(tmp_path: Path) -> None:
    old, again, new, other = "image-00000000000000aa", "venv-00000000000000bb", "kernel-00000000000000cc", "apt-bookworm"
    for name in (old, again, other):
        made_once(tmp_path / name, make)
    (tmp_path / f"{old}.unfinished").mkdir()
    for name in (old, again, other):  # the last has no hash in its name: not ours to judge
        last_used(tmp_path, name, KEPT_UNUSED_DAYS + 1)
    made_once(tmp_path / again, make)
    made_once(tmp_path / new, make)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".lock") == sorted([again, new, other])
    assert not (tmp_path / f"{old}.lock").exists()
