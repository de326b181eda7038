# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel and guest tree in the cache, built from packages and by a make that are made up.

What is damaged is noticed, named and made again, and a build that fails says why.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from openbach_run.engine.virtual import image, kernel
from openbach_run.engine.virtual.debian import Package
from openbach_run.engine.virtual.image import Image, Tree
from openbach_run.engine.virtual.kernel import Kernel, KernelBuild
from openbach_run.engine.virtual.lock import FILE, KERNEL, ROOT, Locked, write_lock
from openbach_run.errors import SetupError

REPOSITORY = Path(__file__).resolve().parents[2]
GUEST = REPOSITORY / "src/openbach_run/guest"
WHEEL = REPOSITORY / "kernel/wheel.py"
MAKE = """#!/bin/sh
for word; do case "$word" in O=*) out=${word#O=};; KCONFIG_ALLCONFIG=*) config=${word#*=};; esac; done
echo "build $KBUILD_BUILD_VERSION: $@" >> "$MAKE_LOG"
echo "  CC      a.o"
case "$*" in
*allnoconfig) cp "$config" "$out/.config";;
*) [ -z "$MAKE_FAILS" ] || { echo "a.c:1: error: $MAKE_FAILS"; exit 2; }
   printf '#!/bin/sh\\n' > "$out/linux"; chmod 755 "$out/linux";;
esac
"""


SOURCE = Package("linux-source-7.2", "7.2.1-1", "all", "pool/linux.deb", "a" * 64, 1)


def source_package(directory: Path) -> None:
    """A Debian package with a kernel's source, without any file that acts."""
    tree, packed = directory / "tree", directory / "package"
    (tree / SOURCE.name / kernel.DRIVERS).mkdir(parents=True)
    (packed / "usr/src").mkdir(parents=True)
    archive = packed / "usr/src" / f"{SOURCE.name}.tar.xz"
    subprocess.run(["tar", "-C", str(tree), "-cJf", str(archive), SOURCE.name], check=True)
    (packed / "DEBIAN").mkdir()
    control = f"Package: {SOURCE.name}\nVersion: {SOURCE.version}\nArchitecture: all\n"
    (packed / "DEBIAN/control").write_text(f"{control}Maintainer: a\nDescription: b\n")
    build = ["dpkg-deb", "--build", str(packed), str(directory / SOURCE.file_name)]
    subprocess.run(build, check=True, capture_output=True)


WANTED = json.loads((GUEST / "packages.json").read_text())
PACKAGES = sorted({*WANTED["packages"], *WANTED["prompt"], "openvpn"})


def locked(name: str) -> Locked:
    return Locked(ROOT, Package(name, "1", "all", f"pool/{name}.deb", "a" * 64, 0), "b" * 40)


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
    source_package(tmp_path)

    def obtain(lines: Sequence[Locked], archives: Path, *_: object) -> dict[str, str]:
        archives.mkdir(parents=True, exist_ok=True)
        for one in lines:
            file = archives / one.package.file_name
            if one.place == KERNEL:
                shutil.copy(tmp_path / file.name, file)
            else:
                file.touch()
        return {}

    for room in (kernel, image):
        monkeypatch.setattr(room, "obtain", obtain)
        monkeypatch.setattr(room, "ensure_tools", lambda: None)
    monkeypatch.setattr(kernel, "HEADERS", ())
    monkeypatch.setattr(kernel, "MADE_HEADERS", (".config",))
    monkeypatch.setattr(image, "unpack", unpacked)
    monkeypatch.setattr(image, "needs_among", lambda archives: {})
    monkeypatch.setattr(image, "postinst", lambda archive: "")
    monkeypatch.setattr(Package, "source", lambda package, archives: "")
    monkeypatch.setattr(image, "compile_python", lambda *_: None)
    beside = Package("openvpn", "2", "all", "pool/openvpn.deb", "a" * 64, 0)
    lines = [Locked("/opt/openvpn-2.7", beside, "b" * 40), *map(locked, PACKAGES)]
    write_lock(tmp_path / FILE, [Locked(KERNEL, SOURCE, "b" * 40), *lines])
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
    build = KernelBuild(
        tmp_path / "cache", kernel_dir(tmp_path, config), tmp_path / FILE, only_locked=False
    )
    return build.ensure(lambda text, part: None)


def tree(tmp_path: Path) -> Image:
    made = Tree(tmp_path / "cache", GUEST, tmp_path / FILE, ["openvpn"], only_locked=False)
    return made.ensure(lambda text, part: None)


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


def test_a_cache_whose_path_make_would_expand_is_refused(tmp_path: Path, make_log: Path) -> None:
    made = KernelBuild(
        tmp_path / "$(shell id)", kernel_dir(tmp_path, ""), tmp_path / FILE, only_locked=False
    )
    with pytest.raises(SetupError, match="make takes no such path; set XDG_CACHE_HOME"):
        made.ensure(lambda text, part: None)
    assert not make_log.exists()


def test_every_make_is_told_the_same_number(tmp_path: Path, make_log: Path) -> None:
    """Else Kbuild counts (.version), and the kernel's random numbers follow from its version."""
    built(tmp_path)
    assert [line.partition(":")[0] for line in make_log.read_text().splitlines()] == ["build 1"] * 3


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_guest_tree_is_named_and_made_again(
    tmp_path: Path, make_log: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tree(tmp_path)
    program = program_of(first.root)
    DAMAGES[damage](program)
    assert tree(tmp_path) == first and program.read_text() == "program"
    assert (
        f"{first.root.parent} is damaged (root/usr/bin/{program.name} " in capsys.readouterr().err
    )


def test_a_kernel_that_does_not_build_says_why_and_is_none(
    tmp_path: Path, make_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAKE_FAILS", "made up")
    with pytest.raises(
        SetupError,
        match=(
            r"building the kernel failed \(make -C .*init/main.o\):\n(.*\n)*a.c:1: error: made up"
        ),
    ):
        built(tmp_path)
    monkeypatch.delenv("MAKE_FAILS")
    assert built(tmp_path).executable.exists()


def test_a_source_that_does_not_take_our_configuration_is_named(
    tmp_path: Path, make_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tmp_path / "programs/make"
    make.write_text(
        make.read_text().replace('cp "$config" "$out/.config"', 'echo > "$out/.config"')
    )
    with pytest.raises(
        SetupError, match=r"this kernel source does not take from .*config: CONFIG_MODULES=y"
    ):
        built(tmp_path)


@pytest.mark.parametrize(
    ("configuration", "lost"),
    [
        ("CONFIG_PROC_SYSCTL=y\nCONFIG_SYSCTL=y\n", []),
        ("CONFIG_SYSCTL=y\n", []),
        ("# CONFIG_PROC_SYSCTL is not set\nCONFIG_SYSCTL=y\n", ["CONFIG_PROC_SYSCTL=y"]),
        ("# CONFIG_SYSCTL is not set\n", ["CONFIG_PROC_SYSCTL=y", "CONFIG_SYSCTL=y"]),
    ],
)
def test_a_symbol_with_a_new_name_is_taken_under_it(configuration: str, lost: list[str]) -> None:
    assert kernel.not_taken(["CONFIG_PROC_SYSCTL=y", "CONFIG_SYSCTL=y"], configuration) == lost


def test_no_suite_is_read_after_the_first_that_has_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, ...]] = []

    class SecondSuite:
        """An apt that has a source in the second suite that is read."""

        def __init__(self, directory: Path, suites: tuple[str, ...], pins: object) -> None:
            read.append(suites)

        def prepare(self) -> None:
            pass

        def candidate(self, name: str) -> str | None:
            return "7.2.1-1" if len(read) == 2 and name == SOURCE.name else None

        def package(self, name: str) -> Package:
            return SOURCE

    monkeypatch.setattr(kernel, "Apt", SecondSuite)
    assert kernel.current_source(tmp_path) == SOURCE
    assert read == [(suite,) for suite in kernel.SUITES[:2]]


# The built kernel as a Python package


def test_a_kernel_from_a_wheel_is_taken_in_place_of_a_build(
    tmp_path: Path, make_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = built(tmp_path)
    installed(first, tmp_path, monkeypatch)
    build = KernelBuild(tmp_path / "other", kernel_dir(tmp_path), tmp_path / FILE, only_locked=True)
    build.take()
    taken = build.ensure(lambda text, part: None)
    assert taken.identity == first.identity and os.access(taken.executable, os.X_OK)
    assert taken.headers.read_bytes() == first.headers.read_bytes()
    assert len(make_log.read_text().splitlines()) == 3, "built once"


def test_a_kernel_from_a_wheel_that_nobody_has_named_is_not_taken(
    tmp_path: Path, make_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = installed(built(tmp_path), tmp_path, monkeypatch)
    build = KernelBuild(tmp_path / "other", kernel_dir(tmp_path), tmp_path / FILE, only_locked=True)
    with (package / "linux").open("ab") as file:
        file.write(b"#")
    with pytest.raises(SetupError, match=r"linux is not the file that .*built.sha256 names"):
        build.take()
    assert build.entry.place is None
    for named in ("", f"{'0' * 64}  kernel-of-before/linux\n"):
        (tmp_path / "kernel" / kernel.BUILT).write_text(named)
        build.take()
        assert build.entry.place is None


def installed(made: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the wheel of a kernel; return where the kernel lies in it."""
    found = importlib.util.spec_from_file_location("wheel_of_kernel", WHEEL)
    assert found and found.loader
    wheel = importlib.util.module_from_spec(found)
    found.loader.exec_module(wheel)
    entry = made.executable.parent
    wheels = [wheel.build(entry, "1.2", tmp_path / name) for name in ("dist", "again")]
    assert wheels[0][0].read_bytes() == wheels[1][0].read_bytes()
    words = ["install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path / "site")]
    pip = [sys.executable, "-m", "pip", *words, str(wheels[0][0])]
    subprocess.run(pip, check=True, capture_output=True)
    (metadata,) = (tmp_path / "site").glob("*.dist-info/METADATA")
    source = f"{SOURCE.path} of Debian, SHA-256 {SOURCE.sha256}"
    assert source in metadata.read_text()
    (tmp_path / "kernel" / kernel.BUILT).write_text(wheels[0][1])
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site" / kernel.PACKAGE / entry.name


def test_no_outer_link_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = [sys.executable]
    monkeypatch.setattr(image, "run_python", lambda _, w, __: subprocess.check_call([*python, *w]))
    (tmp_path / "tree").mkdir()
    for file in ("machine.py", "tree/own.py"):
        (tmp_path / file).touch()
    (tmp_path / "tree/sitecustomize.py").symlink_to(tmp_path / "machine.py")
    image.compile_python(tmp_path, tmp_path / "tree", "/")
    compiled = [file.name.partition(".")[0] for file in (tmp_path / "tree").rglob("*.pyc")]
    assert compiled == ["own"]
