# SPDX-License-Identifier: GPL-3.0-or-later
"""Instructions that read the CPU's own clock, which no engine can make virtual: found, and trapped.

Where their two or three bytes stand in a program they are mostly parts of other instructions. So
the program is decoded around them, as far as the lengths of instructions go. And a program that
has them may never come to them: in a copy they are replaced by one that ends the program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from openbach_run.prompt.programs import EXECUTABLE, LOAD, MAGIC, located_segments

CLOCK = re.compile(rb"\x0f\x31|\x0f\x01\xf9")
"""Instructions that read the clock: RDTSC and RDTSCP."""
TRAP = b"\x0f\x0b"
"""Instruction that ends a program by SIGILL: UD2."""
NOP = b"\x90"
LOADER = "loader"
"""The loader of a copy: glibc's reads the clock for its own statistics, and for nothing else."""
STARTS = range(64, 128)
"""Distances before an instruction at which decoding begins: from most places it soon falls into
step with the program."""

PREFIXES = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3")
_MODRM = (
    *(op for op in range(0x40) if op & 7 < 4),
    *(0x63, 0x69, 0x6B, 0x80, 0x81, 0x83, *range(0x84, 0x90), 0xC0, 0xC1, 0xC6, 0xC7),
    *(*range(0xD0, 0xD4), *range(0xD8, 0xE0), 0xF6, 0xF7, 0xFE, 0xFF),
)
_IMM8 = (
    *(op for op in range(0x40) if op & 7 == 4),
    *(0x6A, 0x6B, *range(0x70, 0x80), 0x80, 0x83, 0xA8, *range(0xB0, 0xB8), 0xC0, 0xC1, 0xC6),
    *(0xCD, *range(0xE0, 0xE8), 0xEB),
)
_IMM32 = (
    *(op for op in range(0x40) if op & 7 == 5),
    *(0x68, 0x69, 0x81, 0xA9, *range(0xB8, 0xC0), 0xC7, 0xE8, 0xE9),
)
_NEAR = (0xE8, 0xE9)
_NONE = (
    *(*range(0x50, 0x60), *range(0x6C, 0x70), *range(0x90, 0x9A), *range(0x9B, 0xA0)),
    *(*range(0xA4, 0xA8), *range(0xAA, 0xB0), 0xC3, 0xC9, 0xCB, 0xCC, 0xCF, 0xD7),
    *(*range(0xEC, 0xF0), 0xF1, 0xF4, 0xF5, *range(0xF8, 0xFE)),
)
_OTHER = {0xC2: 2, 0xCA: 2, 0xC8: 3}
_KNOWN = frozenset((*_MODRM, *_IMM8, *_IMM32, *_NONE, *_OTHER, *range(0xA0, 0xA4)))
MODRM, IMM8, IMM32 = frozenset(_MODRM), frozenset(_IMM8), frozenset(_IMM32)
"""One-byte opcodes by what follows them."""
PLAIN_0F = frozenset((
    *(0x05, 0x06, 0x07, 0x08, 0x09, 0x0B, *range(0x30, 0x36), 0x37, 0x77),
    *(0xA0, 0xA1, 0xA2, 0xA8, 0xA9, 0xAA, *range(0xC8, 0xD0)),
))  # fmt: skip
IMM8_0F = frozenset((0x0F, *range(0x70, 0x74), 0xA4, 0xAC, 0xBA, 0xC2, 0xC4, 0xC5, 0xC6))
NO_0F = frozenset(
    (0x04, 0x0A, 0x0C, *range(0x24, 0x28), 0x36, 0x39, *range(0x3B, 0x40), 0xA6, 0xA7)
)
"""Opcodes behind 0F: those without a ModRM byte, those with a byte of data, those that are none."""


def length(code: bytes, at: int) -> int:
    """Return the length of the x86-64 instruction at a place; 0 if there is none."""
    try:
        end = _end(code, at)
    except IndexError:
        return 0
    return end - at if end else 0


def _end(code: bytes, at: int) -> int:
    """Return the end of the instruction at a place; 0 if there is none."""
    short, wide = False, False
    while (byte := code[at]) in PREFIXES:
        short |= byte == 0x66
        at += 1
    if 0x40 <= byte < 0x50:
        wide, at = bool(byte & 8), at + 1
        byte = code[at]
    if byte in (0xC4, 0xC5, 0x62):
        return _vector(code, at, byte)
    if byte == 0x0F:
        return _two_bytes(code, at + 1, short=short)
    if byte not in _KNOWN:
        return 0
    at += 1
    data = _OTHER.get(byte, 0)
    if byte in IMM8 or (byte == 0xF6 and code[at] & 0x38 < 0x10):
        data = 1
    elif byte in IMM32 or (byte == 0xF7 and code[at] & 0x38 < 0x10):
        data = 2 if short and byte not in _NEAR else 4
    if 0xB8 <= byte < 0xC0 and wide:
        data = 8
    if 0xA0 <= byte < 0xA4:
        data = 8
    if byte in MODRM:
        at = _operand(code, at)
    return at + data


def _two_bytes(code: bytes, at: int, *, short: bool) -> int:
    """Return the end of an instruction whose opcode begins with 0F; 0 if it is none."""
    byte = code[at]
    if byte == 0x38:
        return _operand(code, at + 2)
    if byte == 0x3A:
        return _operand(code, at + 2) + 1
    if byte in NO_0F:
        return 0
    if byte in PLAIN_0F:
        return at + 1
    if 0x80 <= byte < 0x90:
        return at + 1 + 4
    return _operand(code, at + 1) + (byte in IMM8_0F)


def _vector(code: bytes, at: int, byte: int) -> int:
    """Return the end of an instruction with a VEX or EVEX prefix; 0 if it is none."""
    if byte == 0xC5:
        table, at = 1, at + 2
    elif byte == 0xC4:
        table, at = code[at + 1] & 0x1F, at + 3
    else:
        table, at = code[at + 1] & 7, at + 4
    opcode = code[at]
    if table not in (1, 2, 3, 5, 6):
        return 0
    if table == 1 and opcode == 0x77:
        return at + 1
    return _operand(code, at + 1) + (table == 3 or (table == 1 and opcode in IMM8_0F))


def _operand(code: bytes, at: int) -> int:
    """Return the end of a ModRM byte with its SIB byte and displacement."""
    modrm = code[at]
    mode, register = modrm >> 6, modrm & 7
    at += 1
    if mode == 3:
        return at
    if register == 4:
        register = code[at] & 7
        at += 1
        if mode == 0 and register == 5:
            return at + 4
    elif mode == 0 and register == 5:
        return at + 4
    return at + (0, 1, 4)[mode]


def is_instruction(code: bytes, place: int) -> bool:
    """Return whether an instruction begins at a place.

    It does if decoding comes there from nearly everywhere before. In tables of data most ways end
    at bytes that are no instruction.
    """
    meeting = ended = 0
    begins = {max(place - distance, 0) for distance in STARTS}
    for begin in begins:
        at = begin
        while at < place and (step := length(code, at)) > 0:
            at += step
        meeting += at == place
        ended += at < place
    return ended * 2 < len(begins) and meeting * 10 >= (len(begins) - ended) * 9


def places(program: bytes) -> Iterator[tuple[int, int]]:
    """Yield the place and the length of each instruction in a program that reads the clock."""
    for kind, flags, offset, content in located_segments(program):
        if kind == LOAD and flags & EXECUTABLE:
            for match in CLOCK.finditer(content):
                if is_instruction(content, match.start()):
                    yield offset + match.start(), len(match[0])


def set_traps(folder: Path) -> list[str]:
    """Let programs below a folder end where they would read the clock; return their names."""
    names = []
    for file in sorted(folder.rglob("*")):
        if file.name == LOADER or file.is_symlink() or not file.is_file():
            continue
        with file.open("rb") as opened:
            if opened.read(4) != MAGIC:
                continue
        content = bytearray(file.read_bytes())
        clocks = list(places(bytes(content)))
        for place, size in clocks:
            content[place : place + size] = TRAP + NOP * (size - len(TRAP))
        if clocks:
            dates = file.stat()
            file.write_bytes(content)
            os.utime(file, ns=(dates.st_atime_ns, dates.st_mtime_ns))
            names.append(file.name)
    return list(dict.fromkeys(names))
