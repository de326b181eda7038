# SPDX-License-Identifier: GPL-3.0-or-later
"""kernel/tcp_bbr2 is an ordinary module: DKMS builds it, without a warning, for Debian's kernels with their compilers.

Headers, compiler and DKMS are unpacked into trees of their own in the cache and run in a guest: nothing is installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY

from openbach_run.engine.cache import Progress, cache_directory, content_hash, made_once
from openbach_run.engine.debian import Apt, ensure_tools, unpack
from openbach_run.engine.kernel import ensure_kernel
from openbach_run.engine.virtual import GUEST_MEMORY_MB

MODULE = REPOSITORY / "kernel/tcp_bbr2"
SUITES: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]]]] = {
    "bookworm": (("bookworm",), {}),
    "trixie": (("trixie",), {}),
    "trixie-backports": (("trixie", "trixie-backports"), {"trixie-backports": ("linux-*",)}),
}
"""Whose kernel → Debian's suites, and the packages that come from another one than the first."""
PACKAGES = (
    *("linux-headers-amd64", "dkms", "base-files", "bash", "busybox", "coreutils", "dash", "debianutils", "diffutils"),
    *("findutils", "grep", "gzip", "hostname", "mawk", "sed", "tar", "util-linux", "xz-utils"),
)  # fmt: skip
BUILD = """\
busybox mount -t proc proc /proc
busybox mount -t tmpfs tmpfs /tmp
busybox mount -t hostfs -o "$PLACE" place /root
headers=$(echo /usr/src/linux-headers-*-amd64)
exec > /root/log 2>&1
KCFLAGS=-Werror dkms build --sourcetree /root --dkmstree /root/built tcp_bbr2/1.0 -k "${headers#*headers-}"
echo $? > /root/exit_code
cat /root/built/tcp_bbr2/1.0/build/make.log
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
        needed = [package for package in apt.resolve(PACKAGES) if not package.file_name.startswith("linux-image-")]
        archives = apt.download(PACKAGES)
        for _ in unpack(needed, archives, place):
            progress(f"{suite}: unpacking them", 0)
        shutil.rmtree(archives)
        (place / "usr/bin/awk").symlink_to("mawk")
        (place / "build.sh").write_text(BUILD)

    return made_once(cache_directory() / f"headers-{suite}-{content_hash([], MODULE, *PACKAGES, BUILD)}", make)


def built(suite: str, progress: Progress) -> Path:
    """The module as built for the kernel of `suite`."""
    root = tree(suite, progress)
    kernel = ensure_kernel(cache_directory(), REPOSITORY / "kernel", progress).executable

    def make(place: Path) -> None:
        progress(f"{suite}: building tcp_bbr2", 0)
        shutil.copytree(MODULE, place / "tcp_bbr2-1.0")
        (place / "built").mkdir()
        command = [
            str(kernel), f"mem={GUEST_MEMORY_MB}M", "quiet", "panic=-1", "root=/dev/root", "rootfstype=hostfs",
            f"rootflags={root}", "rw", "seccomp=on", "con=null", "con0=null,fd:1", f"PLACE={place}",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "init=/bin/sh", "--", "/build.sh",
        ]  # fmt: skip
        console = subprocess.run(
            command, check=False, timeout=LIMIT_S, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ).stdout  # fmt: skip
        log = place / "log"
        assert (place / "exit_code").exists(), console
        assert (place / "exit_code").read_text() == "0\n", log.read_text(errors="replace")

    sources = [file for file in MODULE.iterdir() if file.is_file()]
    place = made_once(cache_directory() / f"tcp_bbr2-{content_hash(sources, MODULE, root.name)}", make)
    (module,) = place.glob("built/tcp_bbr2/1.0/*/x86_64/module/tcp_bbr2.ko")
    return module


@pytest.mark.parametrize("suite", SUITES)
def test_dkms_builds_it_for_debians_kernels(suite: str, progress: Progress) -> None:
    (headers,) = tree(suite, progress).glob("usr/src/linux-headers-*-amd64")
    module = built(suite, progress).read_bytes()
    release = headers.name.removeprefix("linux-headers-")
    assert f"vermagic={release} ".encode() in module
    assert re.search(rb"\bbbr2\0", module)
