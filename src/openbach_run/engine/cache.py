# SPDX-License-Identifier: GPL-3.0-or-later
"""The user's cache: directories named by the hash of what they were made from, made whole or not at all.

Each has a lock file beside it, whose date says when it was used last. What has not been used for a month goes when
something new is made.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Progress = Callable[[str, float], None]
"""Told what is being made, and which part of it is done (0 to 1)."""
KEPT_UNUSED_DAYS = 30


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/openbach-run`, by default `~/.cache/openbach-run`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openbach-run"


def content_hash(files: Iterable[Path], root: Path, *more: str) -> str:
    """Hash of the files' names (relative to `root`), contents and of further strings; 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for file in sorted(files):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(root)} {content}\n".encode())
    for text in more:
        digest.update(f"{text}\n".encode())
    return digest.hexdigest()[:16]


def made_once(place: Path, make: Callable[[Path], None]) -> Path:
    """`place`, made by `make(directory)` if it is not there yet; another process that makes the same is waited for."""
    lock = place.with_name(place.name + ".lock")
    if place.exists():
        with suppress(OSError):  # another user's cache
            lock.touch()
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with _locked(lock):
        if not place.exists():
            unfinished = place.with_name(place.name + ".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(place)
    _forget_unused(place.parent)
    return place


def _forget_unused(cache: Path) -> None:
    oldest = time.time() - KEPT_UNUSED_DAYS * 24 * 3600
    for lock in cache.glob("*.lock"):
        with suppress(OSError):  # gone meanwhile, or another user's
            if not re.search(r"-[0-9a-f]{16}$", lock.stem) or lock.stat().st_mtime > oldest:
                continue
            for left in (lock.with_suffix(""), lock.with_suffix(".unfinished")):
                shutil.rmtree(left, ignore_errors=True)
            lock.unlink()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
