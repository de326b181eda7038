# SPDX-License-Identifier: GPL-3.0-or-later
"""kernel/build/cc, on files that are made up.

Which it compiles behind the precompiled headers, and which as they are.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

COMPILER = Path(__file__).resolve().parents[2] / "kernel/build/cc"
HEADER = """#ifndef COMMON
#define COMMON
#ifdef WITH_TRACE
int trace;
#endif
#define own_name() KBUILD_MODNAME
static inline int twice(int number) { return 2 * number; }
#endif
"""
Compile = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Compile a file as Kbuild does: `compiled(name, content)`.

    The headers are precompiled, and have gone since.
    """
    for name in ("init", "include", "out"):
        (tmp_path / name).mkdir()
    header = tmp_path / "include/common.h"
    header.write_text(HEADER)
    (tmp_path / "out/precompiled.h").write_text("#include <common.h>\n")

    def compile_(name: str, content: str, *more: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / f"{name}.c").write_text(content)
        module = Path(name).name
        arguments = [
            "-Wp,-MMD,this.d",
            "-nostdinc",
            f"-I{tmp_path}/include",
            "-include",
            f"{tmp_path}/include/common.h",
            "-D__KERNEL__",
            "-O2",
            "-Wall",
            *more,
            f'-DKBUILD_MODFILE="{name}"',
            f'-DKBUILD_MODNAME="{module}"',
            f"-D__KBUILD_MODNAME={module}",
            "-c",
            "-o",
            "this.o",
            f"{tmp_path}/{name}.c",
        ]
        return subprocess.run(
            [COMPILER, *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path / "out",
        )

    assert compile_("init/main", "int main_c;\n").returncode == 0
    header.unlink()
    return compile_


def test_a_file_is_compiled_behind_the_headers_with_what_kbuild_defines_for_it(
    compiled: Compile, tmp_path: Path
) -> None:
    done = compiled(
        "other",
        "#include <common.h>\nconst char *name(void) { return own_name(); }\nint four = 4;\n",
    )
    assert done.returncode == 1, "the headers have gone: what includes them itself finds none"
    (tmp_path / "include/common.h").write_text(HEADER.replace("2 * number", "3 * number"))
    done = compiled(
        "other",
        "#include <common.h>\nconst char *name(void) { return own_name(); }\n"
        "int value(void) { return twice(21); }\n",
    )
    assert (done.returncode, done.stderr) == (0, "")
    content = (tmp_path / "out/this.o").read_bytes()
    assert b"other\0" in content, "KBUILD_MODNAME of this file, in a macro of the headers"
    code = subprocess.run(
        ["objdump", "-d", tmp_path / "out/this.o"], check=True, capture_output=True, text=True
    ).stdout
    assert "$0x2a" in code, "42: the headers as they were precompiled"
    assert (tmp_path / "out/this.d").read_text() == f"this.o: {tmp_path}/other.c\n"


@pytest.mark.parametrize(
    ("content", "more"),
    [
        ("#define WITH_TRACE\n#include <common.h>\nint value(void) { return NOW; }\n", ()),
        ("#include <common.h>\nint value(void) { return 1; }\n", ("-D__UM_HOST__",)),
        ("#include <common.h>\nint value(void) { return 1; }\n", ("-DMODULE",)),
        (
            (
                "#include <common.h>\nint twice_(int twice) { return own_name()[0]; }\nint"
                " common_now = NOW;\n"
            ),
            ("-m32",),
        ),
    ],
    ids=["defines for its headers", "a program of the host", "a module", "other options"],
)
def test_others_are_compiled_as_they_are(
    content: str, more: tuple[str, ...], compiled: Compile, tmp_path: Path
) -> None:
    (tmp_path / "include/common.h").write_text(
        HEADER.replace("#define COMMON", "#define COMMON\n#define NOW 1")
    )
    assert compiled("other", content, *more).returncode == 0
    assert "include/common.h" in (tmp_path / "out/this.d").read_text()


def test_a_fault_is_told_once_as_gcc_tells_it(compiled: Compile, tmp_path: Path) -> None:
    (tmp_path / "include/common.h").write_text(HEADER)
    done = compiled("other", "int value(void) { return unknown; }\n")
    assert done.returncode == 1
    assert done.stderr.count("error:") == 1 and f"{tmp_path}/other.c:1:" in done.stderr


def test_what_make_asks_the_compiler_is_answered_by_gcc() -> None:
    asked = [["--version"], ["-dumpmachine"], ["-print-file-name=plugin"]]
    for arguments in asked:
        answers = [
            subprocess.run(
                [program, *arguments], check=True, capture_output=True, text=True
            ).stdout.split("\n", 1)[0]
            for program in (COMPILER, "gcc")
        ]
        assert answers[0].split(" ")[1:] == answers[1].split(" ")[1:]
