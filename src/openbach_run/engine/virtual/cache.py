# SPDX-License-Identifier: GPL-3.0-or-later
"""The user's cache: directories named by the hash of their sources, made whole or not at all.

Each has two files beside it. The date of NAME.lock says when it was used last. Entries unused for a
month are deleted when a new one is made. NAME.manifest has the hash of every file in it, and what
stat(2) said of them all when they were hashed. As long as that is the same, nothing has been
written since (a file's ctime cannot be set back); otherwise the contents are compared, and a
directory that is not as it was made is made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from openbach_run.errors import SetupError
from openbach_run.paths import FOREIGN, foreign, make_own

KEPT_UNUSED_DAYS = 30
KEEPS_ALL = "keeps-all"
"""A cache with a file of this name deletes nothing: a bundle's, which could not make it again."""


def content_hash(files: Iterable[Path], root: Path, *more: str) -> str:
    """Return a hash (16 hexadecimal digits) of files' names and contents and of further strings.

    The names are relative to `root`.
    """
    digest = hashlib.sha256()
    # Sorted, since a directory lists its files in any order.
    for file in sorted(files):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(root)} {content}\n".encode())
    for text in more:
        digest.update(f"{text}\n".encode())
    return digest.hexdigest()[:16]


class NotMade(Exception):
    """Something is not in the cache, and nothing is to be made now; the text is its name."""


_LOOKS_ONLY = ContextVar("looks only", default=False)


@contextmanager
def looking_only() -> Iterator[None]:
    """Make `made_once` and `refuse_to_make` raise NotMade where anything would have to be made."""
    # A context variable holds for this thread's calls only: `serve` looks in one and makes in
    # another.
    before = _LOOKS_ONLY.set(True)
    try:
        yield
    finally:
        _LOOKS_ONLY.reset(before)


def refuse_to_make(name: str) -> None:
    """Raise NotMade if nothing is to be made now."""
    if _LOOKS_ONLY.get():
        raise NotMade(name)


def made_once(place: Path, make: Callable[[Path], None]) -> Path:
    """Return `place`, made by `make(directory)` if it is not there, or not as it was made.

    Another process that makes the same is waited for. Raises SetupError for a cache that this user
    cannot read or write.
    """
    return _once(place, make, lambda: refuse_to_make(place.name.rpartition("-")[0]))


def _once(
    place: Path, make: Callable[[Path], None], missing: Callable[[], None] = lambda: None
) -> Path:
    """Make an entry once, like `made_once`; call `missing` before anything is made."""
    lock, unfinished = (place.with_name(place.name + suffix) for suffix in (".lock", ".unfinished"))
    with _explained(place.parent):
        if place.exists() and _is_whole(place):
            with suppress(OSError):  # another user's cache
                os.close(_opened(lock))
            return place
        missing()
        make_own(place.parent)
        os.close(_opened(lock))
    # A lock file beside the entry: the entry itself is renamed into its place only when it is
    # whole.
    with exclusively(lock):
        # Another process may have made it again meanwhile.
        if place.exists() and (damaged := damage(place)):
            print(
                f"openbach-run: {place} is damaged ({damaged}): making it again",
                file=sys.stderr,
                flush=True,
            )
            with _explained(place.parent):
                _remove(place)
        if not place.exists():
            with _explained(place.parent):
                # Left behind by a process that was killed.
                _remove(unfinished)
                make_own(unfinished)
            make(unfinished)
            # Before the rename: an entry that is there has its manifest.
            _write_manifest(place, unfinished)
            unfinished.rename(place)
    _forget_unused(place.parent)
    return place


def cached_text(cache: Path, name: str, made_of: Iterable[str], make: Callable[[], str]) -> str:
    """Return the text that `make` makes, from the cache if it was made of the same before."""

    def write(place: Path) -> None:
        (place / "text").write_text(make(), encoding="utf-8")

    return (_once(cache / f"{name}-{content_hash([], cache, *made_of)}", write) / "text").read_text(
        encoding="utf-8"
    )


def _is_whole(place: Path) -> bool:
    try:
        return not damage(place)
    except FileNotFoundError:  # another process, which has the lock, is making it again
        return False


def damage(place: Path) -> str:
    """Return what is not as it was made, in words; "" if all is.

    An entry that an earlier version made without a manifest gets one if it can be read.
    """
    if foreign(place):  # who wrote in it could write its manifest, too
        return FOREIGN
    looked = _looked(place)
    try:
        with _manifest(place).open(encoding="utf-8") as manifest:
            # The quick answer of nearly every command: no file was touched, so none is read.
            if manifest.readline().rstrip() == looked:
                return ""
            recorded = json.load(manifest)
    except ValueError:
        return "its manifest is no JSON"
    except FileNotFoundError:
        for file in place.glob("*.json"):
            try:
                json.loads(file.read_bytes())
            except ValueError:
                return f"{file.name} is no JSON"
        with suppress(OSError):  # another user's cache
            _write_manifest(place, place)
        return ""
    present = _hashes(place)
    wrong = [
        *(f"{name} is missing" for name in recorded.keys() - present.keys()),
        *(f"{name} is not of it" for name in present.keys() - recorded.keys()),
        *(
            f"{name} has changed"
            for name in recorded.keys() & present.keys()
            if recorded[name] != present[name]
        ),
    ]
    if not wrong:  # copied, say
        with suppress(OSError):
            _write_manifest(place, place)
        return ""
    return ", ".join(sorted(wrong)[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")


def _manifest(place: Path) -> Path:
    return place.with_name(place.name + ".manifest")


def _write_manifest(place: Path, directory: Path) -> None:
    """Write the manifest of `place`, from the content of `directory`, which is to become it."""
    hashes, new = _hashes(directory), place.with_name(place.name + ".manifest.new")
    new.write_text(
        f"{_looked(directory)}\n{json.dumps(hashes, indent=0, sort_keys=True)}\n", encoding="utf-8"
    )
    # Renamed over the old one, so that nobody reads half a manifest.
    new.replace(_manifest(place))


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    """Return everything below it but directories."""
    entries, waiting = [], [str(directory)]
    while waiting:
        # scandir rather than glob: the guest tree has some ten thousand files, at every command.
        with os.scandir(waiting.pop()) as listed:
            for entry in listed:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    entries.append(entry)
    return entries


def _looked(place: Path) -> str:
    """Return a hash of what stat(2) says of every file.

    It changes whenever a file is written, replaced, added or removed.
    """
    root, seen = len(str(place)), []
    for entry in _entries(place):
        stat = entry.stat(follow_symlinks=False)
        seen.append((entry.path[root:], stat.st_size, stat.st_ctime_ns, stat.st_mode, stat.st_ino))
    return hashlib.sha256(repr(sorted(seen)).encode()).hexdigest()


def _hashes(place: Path) -> dict[str, str]:
    """Hash of type, permissions and content, by name."""
    hashes = {}
    for entry in _entries(place):
        content = (
            os.readlink(entry.path).encode()
            if entry.is_symlink()
            else Path(entry.path).read_bytes()
        )
        mode = f"{entry.stat(follow_symlinks=False).st_mode:o} ".encode()
        hashes[os.path.relpath(entry.path, place)] = hashlib.sha256(mode + content).hexdigest()
    return hashes


def _remove(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)


@contextmanager
def _explained(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SetupError(
            f"the cache {cache} cannot be used: {error.filename}: {error.strerror}; XDG_CACHE_HOME"
            " names another place"
        ) from error


def _forget_unused(cache: Path) -> None:
    if (cache / KEEPS_ALL).exists():
        return
    oldest = time.time() - KEPT_UNUSED_DAYS * 24 * 3600
    for lock in cache.glob("*.lock"):
        with suppress(OSError):  # gone meanwhile, or another user's
            # Only entries named by a hash: other locks are not of this kind.
            if not re.search(r"-[0-9a-f]{16}$", lock.stem) or lock.stat().st_mtime > oldest:
                continue
            for left in (lock.with_suffix(""), lock.with_suffix(".unfinished")):
                shutil.rmtree(left, ignore_errors=True)
            lock.with_suffix(".manifest").unlink(missing_ok=True)
            lock.unlink()


def _opened(lock: Path) -> int:
    """Return a lock file's descriptor; it is used now. Where it leads elsewhere, OSError."""
    opened = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    os.utime(opened)
    return opened


@contextmanager
def exclusively(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; another process that holds it is waited for."""
    make_own(path.parent)
    with open(_opened(path)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
