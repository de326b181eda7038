# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel and guest tree in the cache, built from packages that are made up and by a make that is made up: what is damaged is
noticed, named and made again, and a build that fails says why."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from openbach_run.engine.virtual import image, kernel
from openbach_run.engine.virtual.debian import Package
from openbach_run.engine.virtual.image import Image, ensure_image
from openbach_run.engine.virtual.kernel import Kernel, ensure_kernel
from openbach_run.errors import SetupError

GUEST = Path(__file__).resolve().parents[2] / "src/openbach_run/guest"
MAKE = """#!/bin/sh
for word; do case "$word" in O=*) out=${word#O=};; KCONFIG_ALLCONFIG=*) config=${word#*=};; esac; done
echo "$@" >> "$MAKE_LOG"
echo "  CC      a.o"
case "$*" in
*allnoconfig) cp "$config" "$out/.config";;
*) [ -z "$MAKE_FAILS" ] || { echo "a.c:1: error: $MAKE_FAILS"; exit 2; }
   printf '#!/bin/sh\\n' > "$out/linux"; chmod 755 "$out/linux";;
esac
"""


class Apt:
    """Has one kernel source, and no package for the guest."""

    def __init__(self, directory: Path, *_: object) -> None:
        self.directory = directory

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)

    def candidate(self, name: str) -> str | None:
        return "7.2.1-1" if name == kernel.SOURCES[0] else None

    def fetch(self, name: str) -> Path:
        if name not in kernel.SOURCES:
            return self.directory / f"{name.partition('/')[0]}_2_all.deb"
        tree, archive = self.directory / name, self.directory / f"{name}_7.2.1-1_all.deb"
        (tree / name / kernel.DRIVERS).mkdir(parents=True, exist_ok=True)
        packed = self.directory / "package/usr/src"
        packed.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-C", tree, "-cJf", packed / f"{name}.tar.xz", name], check=True)
        (packed.parents[1] / "DEBIAN").mkdir(exist_ok=True)
        control = f"Package: {name}\nVersion: 7.2.1-1\nArchitecture: all\nMaintainer: a\nDescription: b\n"
        (packed.parents[1] / "DEBIAN/control").write_text(control)
        subprocess.run(["dpkg-deb", "--build", packed.parents[1], archive], check=True, capture_output=True)
        return archive

    def resolve(self, names: Sequence[str]) -> list[Package]:
        return [Package(f"{name}_1_all.deb") for name in names]

    def download(self, names: Sequence[str]) -> Path:
        (self.directory / "archives").mkdir()
        return self.directory / "archives"


def unpacked(packages: Iterable[Package], archives: Path, root: Path) -> Iterator[Package]:
    for folder in ("etc", "usr/bin", "var"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for package in packages:
        (root / "usr/bin" / package.identity).write_text("program")
        yield package


@pytest.fixture
def make_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The made-up tools are in place; what make was called with."""
    programs, log = tmp_path / "programs", tmp_path / "make.log"
    programs.mkdir()
    (programs / "make").write_text(MAKE)
    (programs / "make").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("MAKE_LOG", str(log))
    for room in (kernel, image):
        monkeypatch.setattr(room, "Apt", Apt)
        monkeypatch.setattr(room, "ensure_tools", lambda: None)
    monkeypatch.setattr(kernel, "HEADERS", ())
    monkeypatch.setattr(kernel, "MADE_HEADERS", (".config",))
    monkeypatch.setattr(image, "unpack", unpacked)
    monkeypatch.setattr(image, "needs_among", lambda archives: {})
    monkeypatch.setattr(Package, "origin", lambda package, archives: {})
    monkeypatch.setattr(image, "compile_python", lambda *_: None)
    return log


def kernel_dir(tmp_path: Path, config: str = "CONFIG_MODULES=y\n") -> Path:
    place = tmp_path / "kernel"
    (place / "src").mkdir(parents=True, exist_ok=True)
    (place / "src/ours.c").write_text("int ours;\n")
    (place / "build").mkdir(exist_ok=True)
    for name in ("cc", "precompiled.h"):
        (place / "build" / name).touch()
    (place / "config").write_text(config)
    (place / "series").touch()
    return place


def built(tmp_path: Path, config: str = "CONFIG_MODULES=y\n") -> Kernel:
    return ensure_kernel(tmp_path / "cache", kernel_dir(tmp_path, config), lambda text, part: None)


def tree(tmp_path: Path) -> Image:
    return ensure_image(tmp_path / "cache", GUEST, ["openvpn"], lambda text, part: None)


def program_of(root: Path) -> Path:
    return min(one for one in (root / "usr/bin").iterdir() if one.name.startswith("openvpn"))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": lambda file: os.truncate(file, 3),
    "missing": lambda file: file.unlink(),
    "not executable": lambda file: file.chmod(0o600),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_kernel_is_named_and_built_again(
    tmp_path: Path, make_log: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = built(tmp_path)
    assert built(tmp_path) == first and len(make_log.read_text().splitlines()) == 3, "built once"
    DAMAGES[damage](first.executable)
    assert built(tmp_path) == first
    assert len(make_log.read_text().splitlines()) == 6 and os.access(first.executable, os.X_OK)
    said = capsys.readouterr().err
    assert f"{first.executable.parent} is damaged (linux " in said and "making it again" in said


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_guest_tree_is_named_and_made_again(
    tmp_path: Path, make_log: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tree(tmp_path)
    program = program_of(first.root)
    DAMAGES[damage](program)
    assert tree(tmp_path) == first and program.read_text() == "program"
    assert f"{first.root.parent} is damaged (root/usr/bin/{program.name} " in capsys.readouterr().err


def test_a_kernel_that_does_not_build_says_why_and_is_none(
    tmp_path: Path, make_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAKE_FAILS", "made up")
    with pytest.raises(
        SetupError, match=r"building the kernel failed \(make -C .*init/main.o\):\n(.*\n)*a.c:1: error: made up"
    ):
        built(tmp_path)
    monkeypatch.delenv("MAKE_FAILS")
    assert built(tmp_path).executable.exists()


def test_a_source_that_does_not_take_our_configuration_is_named(
    tmp_path: Path, make_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tmp_path / "programs/make"
    make.write_text(make.read_text().replace('cp "$config" "$out/.config"', 'echo > "$out/.config"'))
    with pytest.raises(SetupError, match=r"this kernel source does not take from .*config: CONFIG_MODULES=y"):
        built(tmp_path)


def test_no_suite_is_read_after_the_first_that_has_a_source(
    tmp_path: Path, make_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []

    class OneSuite(Apt):
        def __init__(self, directory: Path, *more: object) -> None:
            super().__init__(directory)
            read.append(more[0])

        def candidate(self, name: str) -> str | None:
            return super().candidate(name) if len(read) == 2 else None

    monkeypatch.setattr(kernel, "Apt", OneSuite)
    assert built(tmp_path).executable.exists()
    assert read == [(suite,) for suite in kernel.SUITES[:2]]
