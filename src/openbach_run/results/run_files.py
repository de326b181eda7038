# SPDX-License-Identifier: GPL-3.0-or-later
"""Read safely what a run has left.

A guest wrote it, perhaps somebody else's. It may hold links to files of the host, FIFOs that block,
files without end, and text that is no JSON. So only regular files with a single name are read
(another name may be outside the run's directory), no link is followed on the way to them, nothing
blocks, and sizes are bounded.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import math
import os
import shutil
import stat
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from openbach_run.errors import InputError
from openbach_run.results import packed_runs

FILE_LIMIT_BYTES = 64 << 20
"""The largest file that is read as a whole."""
DEEPEST = 40
"""The number of directories within one another that a run may have."""
SERIES = ("statistics.jsonl", "events.jsonl")
PACKED = "files.tar.gz"
"""The archive of the other files of a finished run."""
COMPRESSION = 3
LONGEST_PACKED = 100
"""The most bytes in the name of a file that goes into PACKED."""


class DamagedRecord(InputError):
    """Something that a run has left is not as it should be. The text names file, line and fault."""


def within(damage: DamagedRecord, run_dir: Path) -> str:
    """Return the fault's text with files named relative to the run's directory.

    That directory will be renamed when the run's record is complete.
    """
    return str(damage).replace(f"{run_dir}/", "")


@contextmanager
def opened(run_dir: Path, name: str) -> Iterator[BinaryIO]:
    """Open a regular file in `run_dir`; `name` may contain directories.

    If `run_dir` is not there, the file is one of a packed run. Raises FileNotFoundError, and
    DamagedRecord for anything but a regular file with one name.
    """
    place = run_dir / name
    *folders, last = Path(name).parts
    # Not to follow a link to a file of the host, nor to wait for a FIFO's other end.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        at = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Directory by directory, since O_NOFOLLOW regards the last part of a path only.
            for folder in folders:
                inner = os.open(folder, flags | os.O_DIRECTORY, dir_fd=at)
                os.close(at)
                at = inner
            fd = os.open(last, flags, dir_fd=at)
        finally:
            os.close(at)
    except FileNotFoundError:
        if os.path.lexists(run_dir) or (data := _packed(run_dir).get(name)) is None:
            raise
        yield io.BytesIO(data)
        return
    except OSError as error:  # a link is ELOOP or ENOTDIR, a socket ENXIO
        raise DamagedRecord(
            f"{place}: {_kind(place) or error.strerror}; a regular file was expected"
        ) from error
    # Of the open file: what the path names may change between a check and the opening.
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(fd)
        raise DamagedRecord(
            f"{place}: {_kind(place) or 'a hard link'}; a regular file was expected"
        )
    with open(fd, "rb") as file:
        yield file


def _packed(run_dir: Path) -> dict[str, bytes]:
    """Return the files of a packed run by name; {} if it is none. Raises DamagedRecord."""
    try:
        return packed_runs.files(run_dir)
    except FileNotFoundError:
        return {}
    except (OSError, tarfile.TarError) as error:
        raise DamagedRecord(f"{run_dir}: {error}") from error


def is_there(run_dir: Path) -> bool:
    """Return whether a run has left something, packed or not. Raises DamagedRecord."""
    return run_dir.is_dir() or bool(_packed(run_dir))


def sizes(run_dir: Path) -> dict[str, int]:
    """Return the size in bytes of each file of a run, directories left out.

    Raises DamagedRecord.
    """
    try:
        with os.scandir(run_dir) as entries:
            return {file.name: file.stat().st_size for file in entries if file.is_file()}
    except (FileNotFoundError, NotADirectoryError):
        return {name: len(data) for name, data in _packed(run_dir).items()}


def copy(run_dir: Path, target: Path) -> None:
    """Copy what a run has left into a directory, where it is not packed. Raises DamagedRecord."""
    if run_dir.is_dir():
        shutil.copytree(run_dir, target, dirs_exist_ok=True)
        return
    target.mkdir(0o700, parents=True, exist_ok=True)
    for name, data in _packed(run_dir).items():
        _write_bytes(target, name, data, 0o600)


def _kind(place: Path) -> str:
    """Return what kind of file it is, in words; "" for a regular or unknown one."""
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a directory",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    with suppress(OSError):
        return kinds.get(stat.S_IFMT(place.lstat().st_mode), "")
    return ""


def content(run_dir: Path, name: str) -> bytes:
    """Return the content of a file as the run left it, or as `pack` has stored it.

    Raises FileNotFoundError, and DamagedRecord for a file that cannot be read or is too large.
    """
    try:
        with opened(run_dir, name) as file:
            # Room is made for so many.
            data = file.read(min(_size_bytes(file), FILE_LIMIT_BYTES) + 1)
    except FileNotFoundError:
        data = _packed_content(run_dir, name)
    if len(data) > FILE_LIMIT_BYTES:
        raise DamagedRecord(f"{run_dir / name}: larger than {FILE_LIMIT_BYTES >> 20} MiB")
    return data


def _size_bytes(file: BinaryIO) -> int:
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size_bytes


def _packed_content(run_dir: Path, name: str) -> bytes:
    """Return the content of a file that `pack` has stored; at most FILE_LIMIT_BYTES + 1 bytes."""
    archive = f"{name}.gz" if name in SERIES else PACKED
    try:
        with opened(run_dir, archive) as packed, gzip.GzipFile(fileobj=packed) as unpacked:
            if name in SERIES:
                if data := unpacked.read(FILE_LIMIT_BYTES + 1):
                    return data
                raise OSError("it is empty")  # `pack` makes none for an empty file
            with tarfile.open(
                fileobj=unpacked, mode="r|"
            ) as members:  # "r|gz" takes half an archive for a whole one
                for member in members:
                    if member.name == name and member.isreg():
                        file = members.extractfile(member)
                        assert file is not None
                        return file.read(FILE_LIMIT_BYTES + 1)
    except FileNotFoundError:
        pass
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DamagedRecord(f"{run_dir / archive}: {error or 'it ends too early'}") from error
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(run_dir / name))


def tail(run_dir: Path, name: str, count: int) -> list[str]:
    """Return the last lines of a file of any size; [] if it is missing or cannot be read."""
    with suppress(FileNotFoundError, DamagedRecord), opened(run_dir, name) as file:
        # A console may be large; its last lines are in its last 64 KiB.
        file.seek(max(0, _size_bytes(file) - (1 << 16)))
        return file.read(1 << 16).decode(errors="replace").splitlines()[-count:]
    return []


def document(run_dir: Path, name: str) -> Any:
    """Return the content of a JSON file. Raises FileNotFoundError, DamagedRecord."""
    return parsed(content(run_dir, name), str(run_dir / name))


def lines(run_dir: Path, name: str, check: Callable[[Any], str | None]) -> list[Any]:
    """Return the JSON documents of a file with one on each line; [] if it does not exist.

    `check` says what is wrong with a document. An incomplete last line, left by a guest that was
    killed, is left out. Raises DamagedRecord.
    """
    try:
        data = content(run_dir, name)
    except FileNotFoundError:
        return []
    return checked(data, str(run_dir / name), 1, check)


def checked(data: bytes, place: str, first: int, check: Callable[[Any], str | None]) -> list[Any]:
    """Return the documents in the complete lines of a file; the first line has the number `first`.

    Raises DamagedRecord.
    """
    documents = []
    # A line without its end was being written when the guest was ended.
    whole = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
    for number, line in enumerate(whole, first):
        value = parsed(line, place, number)
        if wrong := check(value):
            raise DamagedRecord(f"{place}, line {number}: {wrong}")
        documents.append(value)
    return documents


def parsed(text: bytes, place: str, line: int = 0) -> Any:
    """Return a JSON document of the standard: UTF-8, finite numbers, not nested without end.

    Raises DamagedRecord, with the number of the line if it is not 0.
    """
    try:
        # Only a long text can have a whole number that no float holds.
        document = (DECODER if len(text) <= SAFE_DIGITS else EXACT_DECODER).decode(text.decode())
        if b"\\u" in text:
            # Half of a surrogate pair is no text: no file can hold it. To encode it fails.
            json.dumps(document, ensure_ascii=False).encode()
        return document
    except RecursionError:
        wrong = "nested too deeply"
    except ValueError as error:  # of JSON, of UTF-8, or of a number
        wrong = str(error)
    raise DamagedRecord(f"{place}, line {line}: {wrong}" if line else f"{place}: {wrong}")


def _finite(text: str) -> float:
    """Return a number. Raises ValueError if it is not finite."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:80]} is not a finite number")
    return number


def _whole(text: str) -> int:
    """Return a whole number. Raises ValueError if no float can hold it."""
    _finite(text)
    return int(text)


SAFE_DIGITS = 308
"""A whole number of this many digits fits a float, in which everything is calculated. Nearly every
line is shorter than that, so its numbers need no check: one in Python for each number takes as long
as the rest of reading the line."""
DECODER = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)
EXACT_DECODER = json.JSONDecoder(parse_constant=_finite, parse_float=_finite, parse_int=_whole)


def is_number(value: Any) -> bool:
    """Return whether a value is a number; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def fields(document: Any, types: Mapping[str, Any]) -> str | None:
    """Return what is wrong with an object that must have fields of these types, or None.

    A type may be a tuple of several. `float` allows whole numbers, too.
    """
    if not isinstance(document, dict):
        return f"{short(document)} is no JSON object"
    for name, kind in types.items():
        value = document.get(name)
        if type(value) is kind:  # the quick way for nearly all
            continue
        if name not in document:
            return f'has no "{name}"'
        if not _is_of(value, kind):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            wanted = " or ".join(kind.__name__ for kind in kinds)
            return f'"{name}" is {short(value)}; {wanted} was expected'
    return None


def _is_of(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type as `fields` has it: a boolean is no number."""
    if kind is float:
        return is_number(value)
    if kind is int and not is_number(value):
        return False
    return isinstance(value, kind)


def short(value: Any) -> str:
    """Return a value as a message shows it, in at most 80 letters.

    A guest's value may be as long as a file.
    """
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def excess(run_dir: Path, limit_bytes: int, limit_files: int, ignored: str) -> str | None:
    """Return which limit a run has passed, in words, or None.

    The limits are the bytes of its files (a sparse file counts with the size it claims), their
    number, and how deep they lie. The file `ignored` does not count. Afterwards this user may read
    and write every directory.
    """
    total = 0
    # Counted on the way, so that a tree without end is not walked to its end.
    for count, (depth, name, size_bytes) in enumerate(_walk(run_dir, None, 0), 1):
        total += 0 if name == ignored else size_bytes
        if depth > DEEPEST:
            return f"made directories {DEEPEST} deep"
        if count > limit_files:
            return f"made more than {limit_files} files and directories"
        if total > limit_bytes:
            return f"wrote more than {limit_bytes >> 20} MiB"
    return None


def _walk(folder: Path | str, parent: int | None, depth: int) -> Iterator[tuple[int, str, int]]:
    """Yield depth, name and size in bytes of everything in a directory.

    Descriptors are used, since a path may be too long. What disappears meanwhile is left out.
    """
    try:
        at = _entered(folder, parent)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        with os.scandir(at) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    is_folder = entry.is_dir(follow_symlinks=False)
                    yield (
                        depth,
                        entry.name,
                        0 if is_folder else entry.stat(follow_symlinks=False).st_size,
                    )
                    # Deeper ones would be recursion without a bound.
                    if is_folder and depth <= DEEPEST:
                        yield from _walk(entry.name, at, depth + 1)
    finally:
        os.close(at)


def _entered(folder: Path | str, parent: int | None) -> int:
    """Return a descriptor of a directory, and allow this user to read and write it.

    A run may have given it any mode. Root needs none, but another user could neither look into a
    directory of mode 0 nor remove it.
    """
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    # O_PATH opens a directory of any mode, to change the mode first.
    place = os.open(folder, os.O_PATH | flags, dir_fd=parent)
    try:
        if os.fstat(place).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(
                f"/proc/self/fd/{place}", stat.S_IRWXU
            )  # this very directory, also if a link has its name now
        return os.open(".", os.O_RDONLY | flags, dir_fd=place)
    finally:
        os.close(place)


def restrict(folder: Path | str, parent: int | None = None, depth: int = 0) -> None:
    """Set every directory of an ended run to mode 0700 and every file to 0600."""
    at = _entered(folder, parent)
    try:
        os.fchmod(at, stat.S_IRWXU)
        with os.scandir(at) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and depth <= DEEPEST:
                    restrict(entry.name, at, depth + 1)
                elif entry.is_file(follow_symlinks=False):
                    os.chmod(entry.name, 0o600, dir_fd=at)
    finally:
        os.close(at)


def pack(run_dir: Path, kept: Collection[str]) -> None:
    """Put what a run has left into few files; the same content makes the same bytes.

    Each file of SERIES is compressed by itself, all others that are not empty go into PACKED. The
    files in `kept` stay as they are. A run that left anything but regular files and directories, or
    something that cannot be read, stays as it is; so does one that was packed where it was
    executed.
    """
    # It is packed already: run.json is in the archive.
    if os.path.lexists(run_dir / PACKED) and not os.path.lexists(run_dir / "run.json"):
        return
    folder = str(run_dir)
    try:
        left = _left(folder, "", kept)
    except DamagedRecord:
        return
    files = {name: data for name, data in sorted(left) if data}
    for name in SERIES:
        if data := files.pop(name, b""):
            _write_bytes(run_dir, f"{name}.gz", gzip.compress(data, COMPRESSION, mtime=0))
    _write_bytes(run_dir, PACKED, gzip.compress(_tar(files), COMPRESSION, mtime=0))
    # A directory's name ends with "/" and comes after its content, so it is empty by then.
    for name, _ in left:
        (os.rmdir if name.endswith("/") else os.unlink)(f"{folder}/{name}")


def _tar(files: Mapping[str, bytes]) -> bytes:
    """Return a tar archive of the files, without times and owners: it is always the same."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return archive.getvalue()


def _left(folder: str, at: str, ignored: Collection[str]) -> list[tuple[str, bytes]]:
    """Return names and contents of all files; a directory (`jobs/`) comes after what is in it.

    Raises DamagedRecord for anything that cannot be packed.
    """
    left = []
    try:
        with os.scandir(f"{folder}/{at}") as entries:
            for entry in entries:
                name = f"{at}{entry.name}"
                if name in ignored:
                    continue
                if entry.is_dir(follow_symlinks=False) and at.count("/") < DEEPEST:
                    left += [*_left(folder, f"{name}/", ()), (f"{name}/", b"")]
                elif (
                    entry.is_file(follow_symlinks=False)
                    and len(os.fsencode(name)) <= LONGEST_PACKED
                ):
                    left.append((name, _content_of(entry)))
                else:
                    raise DamagedRecord(
                        f"{folder}/{name}: no regular file, or with too long a name"
                    )
    except OSError as error:
        raise DamagedRecord(f"{folder}/{at}: {error}") from error
    return left


def _content_of(file: os.DirEntry[str]) -> bytes:
    """Return a file's content. Raises DamagedRecord if it is too large."""
    size = file.stat(follow_symlinks=False).st_size
    if not size:
        return b""
    if size > FILE_LIMIT_BYTES:
        raise DamagedRecord(f"{file.path}: too large")
    fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


def remove(tree: Path) -> None:
    """Remove a directory, however deep it is and whatever modes a run gave it.

    What cannot be removed stays.
    """
    if not os.path.lexists(tree):
        return
    # A link or a file is removed here; a directory raises OSError.
    with suppress(OSError):
        tree.unlink()
    with suppress(RecursionError):
        shutil.rmtree(tree, ignore_errors=True)
    # What is left was too deep for Python, or has a mode that forbids to remove it.
    # rm(1) walks by descriptors, without a limit of depth.
    for command in (["rm", "-rf"], ["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
        if os.path.lexists(tree):
            subprocess.run([*command, "--", str(tree)], check=False, stderr=subprocess.DEVNULL)


def keep_only(run_dir: Path, names: Collection[str]) -> None:
    """Remove everything but the regular files with these names."""
    for place in list(run_dir.iterdir()):
        if place.name not in names or not stat.S_ISREG(place.lstat().st_mode):
            remove(place)


def write_new(run_dir: Path, name: str, text: str) -> None:
    """Write a file in place of whatever a guest has left under its name."""
    _write_bytes(run_dir, name, text.encode())


def write_secret(run_dir: Path, name: str, content: bytes) -> None:
    """Write a file like `write_new`, which only this user can read."""
    _write_bytes(run_dir, name, content, 0o600)


def _write_bytes(run_dir: Path, name: str, content: bytes, mode: int = 0o644) -> None:
    place, flags = (
        run_dir / name,
        # O_EXCL: a guest may have left a link of this name, through which a write would go
        # elsewhere.
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
    )
    try:
        fd = os.open(place, flags, mode)
    except FileExistsError:
        remove(place)
        fd = os.open(place, flags, mode)
    with open(fd, "wb") as file:
        file.write(content)
