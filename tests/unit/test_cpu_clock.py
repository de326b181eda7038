# SPDX-License-Identifier: GPL-3.0-or-later
"""RDTSC is found where it is an instruction, and trapped in copies."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.prompt.cpu_clock import is_instruction, length, places, set_traps
from openbach_run.prompt.programs import libraries, loader_of

PYTHON = Path(sys.executable).resolve()
LISTED = re.compile(r"^\s*[0-9a-f]+:\t((?:[0-9a-f]{2} )+)\s*(.*)$", re.MULTILINE)
CODE = """\
#include <x86intrin.h>
#include <stdlib.h>

int main(int count, char **words)
{
	volatile unsigned long constant = 0xf9010f31310f0fUL;
	unsigned aux;

	(void)words;
	if (count > 2)
		return __rdtscp(&aux) > 0;
	if (count > 1)
		return __rdtsc() > 0;
	return constant == 0;
}
"""


def disassembled(file: Path) -> str:
    listing = ["objdump", "--disassemble", "--wide", str(file)]
    return subprocess.run(listing, check=True, capture_output=True, text=True).stdout


def c_library() -> Path:
    loader = loader_of(PYTHON.read_bytes())
    assert loader is not None
    return libraries(PYTHON, loader)["libc.so.6"]


def test_lengths_are_those_of_binutils() -> None:
    """Of every instruction of the C library, which has most that compilers and people write."""
    checked = 0
    for found in LISTED.finditer(disassembled(c_library())):
        code = bytes.fromhex(found[1])
        if "(bad)" not in found[2]:
            assert length(code + bytes(16), 0) == len(code), found[0]
            checked += 1
    assert checked > 100_000


def test_what_is_no_instruction_has_no_length_wherever_it_is() -> None:
    """Its end was 0, and the length of one at byte 3 was −3."""
    for none in ("6200000000", "c40000", "0f04"):
        code = bytes.fromhex(none)
        assert length(code, 0) == length(b"\0\0\0" + code, 3) == 0, none


@given(st.binary(max_size=40), st.integers(0, 40))
def test_any_bytes_are_decoded(code: bytes, at: int) -> None:
    found = length(code, at)
    assert found == 0 or 1 <= found <= 40
    assert is_instruction(code, at) in (True, False)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reads")
    (place / "reads.c").write_text(CODE)
    subprocess.run(["gcc", "-O1", "-static", "reads.c", "-o", "reads"], check=True, cwd=place)
    return place / "reads"


@pytest.mark.parametrize("which", ["program", "C library", "Python"])
def test_the_places_are_those_of_binutils(which: str, program: Path) -> None:
    file = {"program": program, "C library": c_library(), "Python": PYTHON}[which]
    content = file.read_bytes()
    found = [content[at : at + size] for at, size in places(content)]
    listing = disassembled(file)
    for code, name in ((b"\x0f\x31", "rdtsc"), (b"\x0f\x01\xf9", "rdtscp")):
        assert found.count(code) == len(re.findall(rf"\t{name}\s*$", listing, re.MULTILINE)), name
    if which == "program":
        assert b"\x0f\x31" in found and b"\x0f\x01\xf9" in found
        assert content.count(b"\x0f\x31") > found.count(b"\x0f\x31"), "nothing was told apart"


def test_a_trap_ends_a_program_that_comes_to_it_and_no_other(program: Path, tmp_path: Path) -> None:
    copy = tmp_path / "reads"
    copy.write_bytes(program.read_bytes())
    copy.chmod(0o755)
    (tmp_path / "text").write_text("no program")
    (tmp_path / "loader").write_bytes(program.read_bytes())
    dates = copy.stat().st_mtime_ns
    assert set_traps(tmp_path) == ["reads"]
    assert copy.stat().st_mtime_ns == dates
    assert (tmp_path / "loader").read_bytes() == program.read_bytes()
    codes = [subprocess.run([copy, *words], check=False).returncode for words in ((), "a", "ab")]
    assert codes == [0, -4, -4]
    assert set_traps(tmp_path) == []
