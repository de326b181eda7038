# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of this machine that the hosts of a testbed run: with the libraries that they need here.

A program that is linked dynamically may need other libraries, and another C library, than the
guest's. So it is started by its own loader with its own libraries, and by a script of its name.
"""

from __future__ import annotations

import os
import shlex
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from openbach_run.errors import InputError

MAGIC = b"\x7fELF"
X86_64 = 62
LOAD, INTERPRETER = 1, 3
"""PT_LOAD and PT_INTERP of elf(5)."""
EXECUTABLE = 1
TRACE = "LD_TRACE_LOADED_OBJECTS"
"""Makes glibc's loader list what it would load, and start nothing (ld.so(8))."""
SHARED = "/home"
"""Directory where the guest has the files (guest/typed.py)."""


def segments(program: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield kind, flags and content of each segment of a 64-bit ELF file; none of any other."""
    for kind, flags, _, content in located_segments(program):
        yield kind, flags, content


def located_segments(program: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield kind, flags, place and content of each segment of a 64-bit ELF file; none of any other.

    Nothing is yielded of a file that ends too early.
    """
    if program[:4] != MAGIC or len(program) < 64 or program[4] != 2:
        return
    (first,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    for number in range(count):
        at = first + number * size
        if at + 56 > len(program):
            return
        kind, flags, offset, _, _, length = struct.unpack_from("<IIQQQQ", program, at)
        yield kind, flags, offset, program[offset : offset + length]


def loader_of(program: bytes) -> str | None:
    """Return the path of the loader of a program that is linked dynamically; None of any other."""
    for kind, _, content in segments(program):
        if kind == INTERPRETER:
            return content.rstrip(b"\0").decode(errors="replace")
    return None


def check_machine(place: Path) -> None:
    """Raise InputError for a program of another architecture than that of the guest."""
    with place.open("rb") as file:
        head = file.read(20)
    if head[:4] == MAGIC and len(head) == 20:
        (machine,) = struct.unpack_from("<H", head, 18)
        if machine != X86_64 or head[4] != 2:
            raise InputError(f"{place}: no program for x86-64, which the hosts are")


def listed_libraries(place: Path, loader: str) -> tuple[dict[str, Path], list[str]]:
    """Return the shared libraries that a program or library needs, by the names it knows them by.

    And the names of those that are not there. The loader is asked: it loads them, and does not
    start the program. Raises InputError if it fails.
    """
    command, environment = [loader, "--list", str(place.absolute())], dict(os.environ)
    if Path(loader).name.startswith("ld-linux"):
        # As ldd does: --list ends at the first library that is missing.
        command, environment = [loader, str(place.absolute())], {**environment, TRACE: "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    files, missing = {}, []
    for line in done.stdout.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow and rest.startswith("not found"):
            missing.append(name)
        elif arrow:
            files[name] = Path(rest.rpartition(" (")[0])
    if done.returncode and not missing:
        raise InputError(f"{place}: {done.stderr.strip() or 'its loader fails'}")
    return files, missing


def libraries(place: Path, loader: str) -> dict[str, Path]:
    """Return the shared libraries that a program needs. Raises InputError for a missing one."""
    files, missing = listed_libraries(place, loader)
    if missing:
        raise InputError(f"{place}: its library {missing[0]} is not on this machine")
    return files


def copy_program(place: Path, to: Path, where: str = SHARED) -> bool:
    """Copy a program that is linked dynamically, with its libraries; return whether it is one.

    `to` becomes a script that starts it; what it needs is beside it. A host has both in the
    directory `where`. Raises InputError.
    """
    content = place.read_bytes()
    loader = loader_of(content)
    if loader is None:
        return False
    if not Path(loader).exists():
        raise InputError(f"{place}: its loader {loader} is not on this machine")
    folder = to.with_name(f".{to.name}")
    folder.mkdir()
    for name, file in {to.name: place, "loader": Path(loader), **libraries(place, loader)}.items():
        shutil.copyfile(file, folder / name)
        (folder / name).chmod(0o755)
    at = shlex.quote(f"{where}/{folder.name}")
    name = shlex.quote(to.name)
    to.write_text(
        f'#!/bin/sh\nexec {at}/loader --library-path {at} --argv0 "$0" {at}/{name} "$@"\n'
    )
    to.chmod(0o755)
    return True
