# SPDX-License-Identifier: GPL-3.0-or-later
"""The format of a bundle: the program of start.c, a compressed tar, and a line that identifies it.

The tar is compressed by zstd. The same content makes the same bytes: entries are sorted, without
dates and owners.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from openbach_run.engine.virtual.debian import BUILD_TOOLS, ensure_tools, run
from openbach_run.errors import SetupError
from openbach_run.progress import Progress

SOURCE = Path(__file__).with_name("start.c")
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-s")
TOOLS = {
    "gcc": "gcc",
    "zstd": "zstd",
    **{file: package for file, package in BUILD_TOOLS.items() if package == "libc6-dev"},
    "/usr/include/zstd.h": "libzstd-dev",
}
END = "\nopenbach-run bundle {identity:16} {size:020}\n"
"""The last line of the file, which start.c reads."""
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Member:
    """A file, by its path or with its content, or a link."""

    file: Path | None = None
    content: bytes = b""
    link: str | None = None
    mode: int = 0o644

    @staticmethod
    def of(path: Path) -> Member:
        """Return the member for a file or link of this machine."""
        if path.is_symlink():
            return Member(link=os.readlink(path))
        return Member(path, mode=path.stat().st_mode & 0o777)


Content = Mapping[str, Member]
"""Path in the bundle → member. Directories are those that files need, and those whose path ends in
a slash."""


def build_start(place: Path) -> Path:
    """Build the program at the beginning of a bundle, which is its Python, too; return `place`.

    Raises SetupError.
    """
    ensure_tools(TOOLS)
    run(["gcc", *FLAGS, str(SOURCE), "-lzstd", "-o", str(place)], f"building {SOURCE.name}")
    return place


def write(output: Path, start: Path, content: Content, level: int, progress: Progress) -> str:
    """Write the bundle; return its identity, the hash of its content.

    Raises SetupError, OSError.
    """
    # In the output's directory, so that it can be renamed to the output when it is whole.
    with tempfile.NamedTemporaryFile(
        dir=output.parent, prefix=f".{output.name}-", delete=False
    ) as file:
        try:
            file.write(start.read_bytes())
            begin = file.tell()
            file.flush()
            identity = _compress(content, file, level, progress)
            file.seek(0, os.SEEK_END)
            file.write(END.format(identity=identity, size=file.tell() - begin).encode())
            file.flush()
            # Temporary files are for their owner only; a bundle is a program.
            os.fchmod(file.fileno(), 0o755)
            os.replace(file.name, output)
        except BaseException:
            os.unlink(file.name)
            raise
    return identity


def _compress(content: Content, output: IO[bytes], level: int, progress: Progress) -> str:
    """Write the compressed tar; return the first 16 digits of its SHA-256 before compression.

    Raises SetupError.
    """
    # The program rather than a Python package: it uses all CPUs, and building a bundle needs it
    # anyway.
    command = ["zstd", f"-{level}", "-T0", "--check", "-q", "-c"]
    digest = hashlib.sha256()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output) as zstd:
        assert zstd.stdin is not None
        # The hash is that of the tar: the level of compression does not change the identity.
        sink = cast(IO[bytes], _Both(digest.update, zstd.stdin.write))
        with tarfile.open(
            # "w|": the tar is a stream, which is never as a whole in memory or on the disk.
            fileobj=sink,
            mode="w|",
            format=tarfile.GNU_FORMAT,
            bufsize=CHUNK_BYTES,
        ) as tar:
            for number, (name, member) in enumerate(_with_directories(content)):
                _add(tar, name, member)
                progress(f"packing {name}", number / len(content))
        zstd.stdin.close()
        if zstd.wait() != 0:
            raise SetupError(f"zstd failed with exit code {zstd.returncode}")
    return digest.hexdigest()[:16]


class _Both:
    """A file that passes on what is written to it to several functions."""

    def __init__(self, *takers: Callable[[bytes], object]) -> None:
        self._takers = takers

    def write(self, data: bytes) -> int:
        for take in self._takers:
            take(data)
        return len(data)


def _with_directories(content: Content) -> Iterator[tuple[str, Member | None]]:
    """Yield the content, sorted; a directory (whose member is None) comes before its content."""
    parents: set[str] = set()
    for name in content:
        parents |= {str(parent) for parent in Path(name).parents} - {"."}
    empty = {name.rstrip("/") for name in content if name.endswith("/")}
    everything: dict[str, Member | None] = dict.fromkeys(parents | empty)
    everything |= {name: member for name, member in content.items() if not name.endswith("/")}
    yield from sorted(everything.items(), key=lambda item: item[0])


def _add(tar: tarfile.TarFile, name: str, member: Member | None) -> None:
    """Add a member to the tar; None is a directory."""
    # A new TarInfo has no date and no owner: the same content makes the same bytes.
    entry = tarfile.TarInfo(name)
    if member is None:
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(entry)
    elif member.link is not None:
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, member.link, 0o777
        tar.addfile(entry)
    else:
        entry.mode = member.mode
        data = member.content if member.file is None else member.file.read_bytes()
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
