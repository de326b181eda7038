# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of this machine that the hosts of a testbed run: with the libraries that they need here.

A program that is linked dynamically may need other libraries, and another C library, than the
guest's. So it is started by its own loader with its own libraries, and by a script of its name.
"""

from __future__ import annotations

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
CLOCK_OR_CHANCE = {
    b"\x0f\x31": "RDTSC",
    b"\x0f\x01\xf9": "RDTSCP",
}
"""Instructions that read the CPU's own clock, which no engine can make virtual."""
SHARED = "/home"
"""Where the guest has the files (guest/typed.py)."""


def segments(program: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield kind, flags and content of each segment of a 64-bit ELF file; none of any other.

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
        yield kind, flags, program[offset : offset + length]


def loader_of(program: bytes) -> str | None:
    """Return the path of the loader of a program that is linked dynamically; None of any other."""
    for kind, _, content in segments(program):
        if kind == INTERPRETER:
            return content.rstrip(b"\0").decode(errors="replace")
    return None


def reads_clock(program: bytes) -> list[str]:
    """Return the instructions in a program that read the CPU's own clock.

    A program may have them and never come to them; bytes in it may look like them.
    """
    code = b"".join(
        content for kind, flags, content in segments(program) if kind == LOAD and flags & EXECUTABLE
    )
    return [name for pattern, name in CLOCK_OR_CHANCE.items() if pattern in code]


def check_machine(place: Path) -> None:
    """Raise InputError for a program of another architecture than that of the guest."""
    with place.open("rb") as file:
        head = file.read(20)
    if head[:4] == MAGIC and len(head) == 20:
        (machine,) = struct.unpack_from("<H", head, 18)
        if machine != X86_64 or head[4] != 2:
            raise InputError(f"{place}: no program for x86-64, which the hosts are")


def libraries(place: Path, loader: str) -> dict[str, Path]:
    """Return the shared libraries that a program needs, by the names that it knows them by.

    The loader is asked: it loads them, and does not start the program. Raises InputError for one
    that is not there.
    """
    done = subprocess.run(
        [loader, "--list", str(place.absolute())], check=False, capture_output=True, text=True
    )
    found = {}
    for line in done.stdout.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow and rest.startswith("not found"):
            raise InputError(f"{place}: its library {name} is not on this machine")
        if arrow:
            found[name] = Path(rest.rpartition(" (")[0])
    if done.returncode:
        raise InputError(f"{place}: {done.stderr.strip() or 'its loader fails'}")
    return found


def copy_program(place: Path, to: Path) -> bool:
    """Copy a program that is linked dynamically, with its libraries; return whether it is one.

    `to` becomes a script that starts it; what it needs is beside it. Raises InputError.
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
    at = shlex.quote(f"{SHARED}/{folder.name}")
    name = shlex.quote(to.name)
    to.write_text(
        f'#!/bin/sh\nexec {at}/loader --library-path {at} --argv0 "$0" {at}/{name} "$@"\n'
    )
    to.chmod(0o755)
    return True
