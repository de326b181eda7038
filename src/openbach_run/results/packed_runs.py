# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of many runs in few files: runs/packed/<hash>.tar.

An archive is written under another name, is on the disk before the directories of its runs go, and
is never changed. Its members are <run_id>/<file>, those of a run one after the other, its
record.json last: `tar -xf FILE -C runs` makes the directories again. A directory runs/<run_id>
counts before all archives. Of two archives with the same run the one counts whose record is the
later one. So archives of several results directories may lie side by side.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import struct
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

FOLDER, ENDING, NEW = "packed", ".tar", "new"
"""The directory of the archives in runs, how their names end, and an archive's while it is made."""
RECORD = "record.json"
NAME = re.compile(rb"(\w{1,64})/(\w[\w.]{,31})")
"""The name of a member: run_id and file."""
BLOCK = tarfile.BLOCKSIZE
HEADER = struct.Struct("100s24x12s12s8sc355x")
"""A member's header: name, size, time, sum of the header's bytes, kind. An index of 100 000 runs
reads some 400 000: TarInfo.frombuf takes 12 µs for each, this 3."""
LONGEST_END = 1 << 20
"""The most zeros, in bytes, with which an archive may end."""
SETTLED_NS = 50_000_000
"""A directory that was changed less than this before a look may have been changed again since: time
stamps are that coarse."""


class Place(NamedTuple):
    """The place of a run's files: from `begin` to `end`, in bytes, of an archive."""

    archive: str
    begin: int
    end: int
    time_s: int
    """When its record was written, in s since 1970."""


@dataclass
class Index:
    """An index of the archives of a directory. It is made anew by reading them."""

    seen_ns: int = -1
    archives: dict[str, dict[str, Place]] = field(default_factory=dict)
    """Archive → its runs by run_id."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Archive → what is wrong with it. The runs before that place are among its runs."""
    runs: dict[str, Place] = field(default_factory=dict)
    """The runs of all archives by run_id."""


_known: dict[tuple[int, int], Index] = {}
"""Directory by device and inode → its index."""
_lock = threading.Lock()


def index_of(runs: Path) -> Index:
    """Return what is in the archives of a directory; each archive is read once."""
    folder = runs / FOLDER
    try:
        status = folder.stat()
    except OSError:
        return Index()
    with _lock:
        index = _known.get(key := (status.st_dev, status.st_ino), Index())
        if index.seen_ns == status.st_mtime_ns:
            return index
        looked_ns, before = time.time_ns(), index.archives
        names = sorted(name for name in os.listdir(folder) if name.endswith(ENDING))
        if not before.keys() <= set(names):
            index = Index(
                damaged={name: index.damaged[name] for name in names if name in index.damaged}
            )
        for name in names:
            if name not in index.archives:
                index.archives[name] = before.get(name) or _read(folder / name, index)
                for run_id, place in index.archives[name].items():
                    if run_id not in index.runs or index.runs[run_id].time_s < place.time_s:
                        index.runs[run_id] = place
        is_settled = looked_ns - status.st_mtime_ns > SETTLED_NS
        index.seen_ns = status.st_mtime_ns if is_settled else -1
        _known[key] = index
        return index


def files(run_dir: Path) -> dict[str, bytes]:
    """Return the files of a run by name.

    Raises FileNotFoundError if it is in no archive, ReadError if it may be in a part of one that
    cannot be read.
    """
    index = index_of(run_dir.parent)
    if (place := index.runs.get(run_dir.name)) is None:
        if index.damaged:
            raise tarfile.ReadError("; ".join(index.damaged.values()))
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(run_dir))
    try:
        data = _bytes_of(run_dir.parent, place)
    except FileNotFoundError:  # another process has just put a later archive in its place
        _known.clear()
        return files(run_dir)
    members = _members(lambda at: data[at : at + BLOCK], len(data))
    return {name: data[at : at + size] for _, name, at, size, _ in members}


def write(runs: Path, contents: Iterable[bytes]) -> str:
    """Write an archive of runs (`as_members`), and return its name; then it is on the disk."""
    (folder := runs / FOLDER).mkdir(0o700, exist_ok=True)
    digest = hashlib.sha256()
    fd = os.open(folder / NEW, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(fd, "wb") as file:
        for data in chain(contents, [bytes(2 * BLOCK)]):
            digest.update(data)
            file.write(data)
        file.flush()
        os.fsync(fd)
    (folder / NEW).rename(folder / (name := f"{digest.hexdigest()[:16]}{ENDING}"))
    at = os.open(folder, os.O_RDONLY)
    os.fsync(at)
    os.close(at)
    return name


def as_members(run_id: str, contents: Mapping[str, bytes], time_s: int) -> bytes:
    """Return the files of a run as members of an archive."""
    parts = []
    for name in sorted(contents, key=lambda name: (name == RECORD, name)):
        member = tarfile.TarInfo(f"{run_id}/{name}")
        member.size, member.mtime, member.mode = len(contents[name]), time_s, 0o600
        padding = bytes(-member.size % BLOCK)
        parts += [member.tobuf(tarfile.USTAR_FORMAT), contents[name], padding]
    return b"".join(parts)


def remove(runs: Path, run_id: str) -> None:
    """Remove a run: each archive that has it is written again without it."""
    for name, held in list(index_of(runs).archives.items()):
        if run_id in held:
            places = [place for held_id, place in held.items() if held_id != run_id]
            if places:
                write(runs, (_bytes_of(runs, place) for place in places))
            (runs / FOLDER / name).unlink()


def remove_dead(runs: Path) -> None:
    """Remove the archives whose every run is in a later one, too."""
    index = index_of(runs)
    live = {place.archive for place in index.runs.values()}
    for name, held in index.archives.items():
        if held and name not in live and name not in index.damaged:
            (runs / FOLDER / name).unlink()


@contextmanager
def _opened(archive: Path) -> Iterator[int]:
    """Open an archive, which must be a regular file. Raises OSError, ReadError."""
    fd = os.open(archive, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise tarfile.ReadError("no regular file")
        yield fd
    finally:
        os.close(fd)


def _bytes_of(runs: Path, place: Place) -> bytes:
    with _opened(runs / FOLDER / place.archive) as fd:
        return os.pread(fd, place.end - place.begin, place.begin)


def _read(archive: Path, index: Index) -> dict[str, Place]:
    """Return the runs of an archive, and note in the index what is wrong with it."""
    held: dict[str, Place] = {}
    begin, end, before = 0, 0, ""
    try:
        with _opened(archive) as fd:
            whole = os.fstat(fd).st_size
            for run_id, name, at, size, time_s in _members(
                lambda at: os.pread(fd, BLOCK, at), whole
            ):
                begin, end = at - BLOCK if run_id != before else begin, at + size + -size % BLOCK
                if name == RECORD:
                    held[run_id] = Place(archive.name, begin, end, time_s)
                before = run_id
            rest = os.pread(fd, LONGEST_END, end)
            if not rest or any(rest) or end + len(rest) != whole:
                raise tarfile.ReadError(f"it ends at byte {end}, without the end of an archive")
    except (OSError, tarfile.ReadError) as error:
        index.damaged[archive.name] = f"{archive}: {error}: what follows is not read"
    return held


def _members(
    header_at: Callable[[int], bytes], end: int
) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield of each member before `end` its run, file, first byte, size, and time in s since 1970.

    Raises ReadError.
    """
    at = 0
    while at < end and any(header := header_at(at)):  # zeros end an archive
        try:
            name, size, time_s, checksum, kind = HEADER.unpack(header)
            named = NAME.fullmatch(name.rstrip(b"\0"))
            size_bytes = int(size.rstrip(b"\0 "), 8)
            is_whole = int(checksum.rstrip(b"\0 "), 8) == sum(header) - sum(checksum) + sum(
                8 * b" "
            )
            if named is None or kind != tarfile.REGTYPE or not is_whole or size_bytes < 0:
                raise ValueError
            seconds = int(time_s.rstrip(b"\0 "), 8)
        except (struct.error, ValueError):
            raise tarfile.ReadError(f"no file begins at byte {at}") from None
        at += BLOCK
        if at + size_bytes > end:
            raise tarfile.ReadError(f"the file at byte {at} is not whole")
        yield named[1].decode(), named[2].decode(), at, size_bytes, seconds
        at += size_bytes + -size_bytes % BLOCK
