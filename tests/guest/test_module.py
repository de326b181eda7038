# SPDX-License-Identifier: GPL-3.0-or-later
"""Congestion controls of ours are ordinary modules.

DKMS builds them, without a warning, for Debian's kernels and compilers, and checkpatch has nothing
to say of our kernel code.

tools/moved.txt has the command that runs these tests alone.

Headers, compiler and DKMS are unpacked into trees of their own in the cache and run in a guest:
nothing is installed. checkpatch is that of the virtual kernel's source.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from helpers.guest_runs import REPOSITORY

from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import Apt, ensure_tools, run, unpack
from openbach_run.engine.virtual.engine import GUEST_MEMORY_MB
from openbach_run.engine.virtual.kernel import ensure_kernel
from openbach_run.engine.virtual.lock import fetch_current
from openbach_run.paths import cache_directory
from openbach_run.progress import Progress

NIGHTLY = pytest.mark.nightly
PROFILES = ("bbr2", "bbr3", "bbr3_resume", "cubic_resume")
SUITES: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]]]] = {
    "bookworm": (("bookworm",), {}),
    "trixie": (("trixie",), {}),
    "trixie-backports": (("trixie", "trixie-backports"), {"trixie-backports": ("linux-*",)}),
}
"""Whose kernel → Debian's suites, and the packages that come from another one than the first."""
PACKAGES = (
    *(
        "linux-headers-amd64",
        "dkms",
        "base-files",
        "bash",
        "busybox",
        "coreutils",
        "dash",
        "debianutils",
        "diffutils",
    ),
    *("findutils", "grep", "gzip", "hostname", "mawk", "sed", "tar", "util-linux", "xz-utils"),
)
BUILD = """\
busybox mount -t proc proc /proc
busybox mount -t tmpfs tmpfs /tmp
busybox mount -t hostfs -o "$PLACE" place /root
cd /root
headers=$(echo /usr/src/linux-headers-*-amd64)
exec > /root/log 2>&1
for package in tcp_*; do
    KCFLAGS=-Werror dkms build --sourcetree /root --dkmstree /root/built "${package%-*}/${package#*-}" -k "${headers#*headers-}"
    echo $? > "/root/exit_code_$package"
    cat "/root/built/${package%-*}/${package#*-}/build/make.log"
done
busybox poweroff -f
"""
LIMIT_S = 300


@pytest.fixture
def progress(capsys: pytest.CaptureFixture[str]) -> Progress:
    told: set[str] = set()

    def show(text: str, part: float) -> None:
        if text not in told:
            told.add(text)
            with capsys.disabled():
                print(f"\n{text} ...", end="", flush=True)

    return show


def tree(suite: str, progress: Progress) -> Path:
    """A Debian with the kernel headers of `suite`."""

    def make(place: Path) -> None:
        ensure_tools()
        apt = Apt(cache_directory() / f"apt-{suite}", *SUITES[suite])
        progress(f"{suite}: downloading kernel headers and their compiler", 0)
        apt.prepare()
        needed = [
            package
            for package in apt.resolve(PACKAGES)
            if not package.name.startswith("linux-image-")
        ]
        archives = apt.directory / "archives"
        fetch_current(needed, archives, progress, f"{suite}: downloading")
        for _ in unpack(needed, archives, place):
            progress(f"{suite}: unpacking them", 0)
        shutil.rmtree(archives)
        (place / "usr/bin/awk").symlink_to("mawk")
        (place / "build.sh").write_text(BUILD)

    return made_once(
        cache_directory() / f"headers-{suite}-{content_hash([], REPOSITORY, *PACKAGES, BUILD)}",
        make,
    )


def built(suite: str, progress: Progress) -> dict[str, bytes]:
    """The modules as built for the kernel of `suite`."""
    root = tree(suite, progress)
    kernel = ensure_kernel(cache_directory(), REPOSITORY / "kernel", progress).executable

    def make(place: Path) -> None:
        progress(f"{suite}: building {', '.join(PROFILES)}", 0)
        packages = [installer.add_source(name, place) for name in PROFILES]
        (place / "built").mkdir()
        command = [
            str(kernel),
            f"mem={GUEST_MEMORY_MB}M",
            "quiet",
            "panic=-1",
            "root=/dev/root",
            "rootfstype=hostfs",
            f"rootflags={root}",
            "rw",
            "seccomp=on",
            "con=null",
            "con0=null,fd:1",
            f"PLACE={place}",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "init=/bin/sh",
            "--",
            "/build.sh",
        ]
        console = subprocess.run(
            command,
            check=False,
            timeout=LIMIT_S,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ).stdout
        for package in packages:
            exit_code = place / f"exit_code_{package.replace('/', '-')}"
            assert exit_code.exists(), console
            assert exit_code.read_text() == "0\n", (place / "log").read_text(errors="replace")

    installer: Any = importlib.import_module("install_modules")
    versions = [installer.package(name)[1] for name in PROFILES]
    name = hashlib.sha256("\n".join([root.name, *versions]).encode()).hexdigest()[:16]
    place = made_once(cache_directory() / f"dkms-{name}", make)
    return {file.stem: file.read_bytes() for file in place.glob("built/*/*/*/x86_64/module/*.ko")}


@pytest.mark.parametrize(
    "suite", [pytest.param(name, marks=NIGHTLY if name != "bookworm" else ()) for name in SUITES]
)
def test_dkms_builds_them_for_debians_kernels(suite: str, progress: Progress) -> None:
    (headers,) = tree(suite, progress).glob("usr/src/linux-headers-*-amd64")
    modules = built(suite, progress)
    release = headers.name.removeprefix("linux-headers-")
    assert sorted(modules) == [f"tcp_{name}" for name in PROFILES]
    for name, module in modules.items():
        assert f"vermagic={release} ".encode() in module
        assert re.search(rb"\b%s\0" % name.removeprefix("tcp_").encode(), module)


CHECKPATCH = ("checkpatch.pl", "const_structs.checkpatch", "spelling.txt")
CHECKED = {
    "library/congestion-controls": ("*/*.c", "*/*.h", "*/Kbuild"),
    "kernel/src": ("**/*.c", "**/*.h", "**/*.S"),
    "tests/guest/controls": ("*.c",),
}
IGNORED = {
    "library/congestion-controls": (),
    "kernel/src": ("BIT_MACRO", "UNDOCUMENTED_SETUP"),
    "tests/guest/controls": (),
}
"""A size that is a power of two is no bit; a parameter of our kernel is described in
docs/reference.md."""


@pytest.mark.parametrize("folder", CHECKED)
def test_checkpatch_has_nothing_to_say(folder: str, tmp_path: Path, progress: Progress) -> None:
    headers = ensure_kernel(cache_directory(), REPOSITORY / "kernel", progress).headers
    scripts = [f"scripts/{name}" for name in CHECKPATCH]
    run(["tar", "-C", str(tmp_path), "-xf", str(headers), *scripts], "unpacking checkpatch")
    ensure_tools({"perl": "perl"})
    files = [
        str(file)
        for pattern in CHECKED[folder]
        for file in sorted((REPOSITORY / folder).glob(pattern))
    ]
    assert files
    options = [
        "--strict",
        "--no-tree",
        "--terse",
        "--no-summary",
        *(f"--ignore={one}" for one in IGNORED[folder]),
    ]
    run(["perl", str(tmp_path / scripts[0]), *options, "--file", *files], "checkpatch")
