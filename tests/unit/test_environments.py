# SPDX-License-Identifier: GPL-3.0-or-later
"""Python environments for hosts: which are refused, and what a copy of one has."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from openbach_run.errors import InputError
from openbach_run.prompt.environments import (
    ASK,
    base_of,
    copy_environment,
    environment_of,
    is_environment,
)
from openbach_run.prompt.trial import programs_of

PACKAGES = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
NEEDS = "int gone(void); int here(void) { return gone(); }\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    venv.create(tmp_path / "mine", with_pip=False)
    return tmp_path / "mine"


def test_a_program_of_an_environment_is_known(place: Path) -> None:
    assert is_environment(place) and not is_environment(place.parent)
    assert environment_of(place / "bin/python") == place
    assert environment_of(place / "lib/python") is None
    assert environment_of(place.parent / "python") is None


def test_a_copy_starts_with_its_own_loader_and_library(place: Path, tmp_path: Path) -> None:
    script = place / "bin/tool"
    script.write_text(f"#!{place}/bin/python -I\nprint(1)\n")
    script.chmod(0o755)
    (place / "bin/other").write_text("#!/bin/sh\n")
    copy_environment(place, tmp_path / "to")
    base, to = base_of(place), tmp_path / "to"
    start = (to / "bin/python").read_text()
    assert start.startswith("#!/bin/sh\n") and "/home/to/.base/loader" in start
    assert (to / "bin/tool").read_text() == "#!/home/to/bin/python -I\nprint(1)\n"
    assert (to / "bin/other").read_text() == "#!/bin/sh\n"
    lines = (to / "pyvenv.cfg").read_text().splitlines()
    assert lines[0] == "home = /home/to/.base/bin"
    assert len([line for line in lines if line.startswith(("home", "executable"))]) == 1
    own = to / f".base/lib/python{base.version}"
    # Debian has _socket in the program itself, and these beside it.
    assert (own / "os.py").exists() and [*own.glob("lib-dynload/_ssl*.so")]
    assert not (own / "test").exists() and not [*to.rglob("__pycache__")]
    assert (to / ".base/libraries/libc.so.6").exists()
    # The copy does not lead out of itself.
    assert not [one for one in to.rglob("*") if one.is_symlink() and not one.exists()]


def asks(kind: str) -> Callable[[Path], object]:
    """The environment's Python is a program that answers as another one would."""

    def change(place: Path) -> None:
        told = json.dumps({"kind": kind, "version": "3.11", "path": [], "executable": "/bin/sh"})
        (place / "bin/python").unlink()
        (place / "bin/python").write_text(f"#!/bin/sh\necho '{told}'\n")
        (place / "bin/python").chmod(0o755)

    return change


def fails(place: Path) -> None:
    (place / "bin/python").unlink()
    (place / "bin/python").write_text("#!/bin/sh\necho no such thing >&2; exit 1\n")
    (place / "bin/python").chmod(0o755)


def gone(place: Path) -> None:
    (place / "bin/python").unlink()
    (place / "bin/python").symlink_to("/no/where/python3")


def with_system(place: Path) -> None:
    file = place / "pyvenv.cfg"
    text = file.read_text().replace("packages = false", "packages = true")
    file.write_text(text)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_system, "uses this machine's own packages"),
        (gone, "no such file here"),
        (fails, "does not run: no such thing"),
        (asks("pypy"), "does not run"),
    ],
)
def test_a_python_that_cannot_be_copied_is_refused(
    place: Path, change: Callable[[Path], object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(place)
    monkeypatch.chdir(place.parent)
    with pytest.raises(InputError, match=said):
        programs_of("./mine/bin/python serve.py")


def test_another_implementation_is_refused(place: Path) -> None:
    library = place / "library"
    library.mkdir()
    (library / "os.py").touch()
    told = {"kind": "pypy", "version": "3.11", "path": [str(library)], "executable": "/bin/sh"}
    (place / "bin/python").unlink()
    (place / "bin/python").write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
    (place / "bin/python").chmod(0o755)
    with pytest.raises(InputError, match="is of pypy"):
        base_of(place)
    assert "sys.implementation" in ASK


@pytest.mark.parametrize("name", ["mine.pth", "__editable__.mine-1.0.pth"])
def test_a_package_that_is_elsewhere_is_refused(place: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "source").mkdir()
    (place / PACKAGES / name).write_text(f"{tmp_path / 'source'}\n")
    with pytest.raises(InputError, match="without --editable"):
        copy_environment(place, tmp_path / "to")


def test_a_module_whose_library_is_nowhere_is_refused(place: Path, tmp_path: Path) -> None:
    """Unless the environment has it: packages load some of their libraries themselves."""
    (tmp_path / "gone.c").write_text("int gone(void) { return 1; }\n")
    (tmp_path / "here.c").write_text(NEEDS)
    gcc = ["gcc", "-shared", "-fPIC", "-o"]
    subprocess.run([*gcc, "libgone.so", "gone.c"], check=True, cwd=tmp_path)
    module = str(place / PACKAGES / "here.so")
    subprocess.run([*gcc, module, "here.c", "-L.", "-lgone"], check=True, cwd=tmp_path)
    with pytest.raises(InputError, match=r"here\.so: its library libgone\.so is not on this"):
        copy_environment(place, tmp_path / "to")
    (tmp_path / "libgone.so").rename(place / PACKAGES / "libgone.so")
    copy_environment(place, tmp_path / "again")
    assert (tmp_path / "again" / PACKAGES / "here.so").exists()


def test_a_script_for_an_interpreter_of_this_machine_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.parent)
    for line, said in (
        (f"#!{place}/bin/python", r"write './mine/bin/python serve' with --file serve"),
        ("#! /opt/python/bin/python3 -u", "they have #!/usr/bin/env python3"),
    ):
        Path("serve").write_text(f"{line}\n")
        Path("serve").chmod(0o755)
        with pytest.raises(InputError, match=said):
            programs_of("./serve")
    for line in ("#!/usr/bin/env python3", "#!/bin/sh"):
        Path("serve").write_text(f"{line}\n")
        assert programs_of("./serve") == ["./serve"]
    assert programs_of("./mine/bin/python serve") == ["./mine"]
