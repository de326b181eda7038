# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual-time kernel: User Mode Linux from Debian's source, with what is in kernel/.

That is its configuration, patches and sources.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from openbach_run import semantic_hash
from openbach_run.engine.virtual import series
from openbach_run.engine.virtual.cache import cached_text, content_hash, made_once
from openbach_run.engine.virtual.debian import Apt, Package, ensure_tools, run
from openbach_run.engine.virtual.lock import (
    ARCHIVES,
    KERNEL,
    NOT_LOCKED,
    Entry,
    Locked,
    PackageSet,
    by_place,
    fetch_current,
    in_words,
    obtain,
    read_lock,
    refuse,
)
from openbach_run.errors import SetupError
from openbach_run.paths import DEBIAN_LOCK
from openbach_run.progress import Progress
from openbach_run.semantic_hash import acting

SUITES = ("trixie-backports", "trixie", "sid")
SOURCES = ("linux-source-7.2", "linux-source-7.3")
"""Source packages that our patches apply to, the preferred first."""

RENAMED = {"CONFIG_PROC_SYSCTL": "CONFIG_SYSCTL"}
"""Symbols of kernel/config that the later of these versions have as another one."""
DRIVERS = "arch/um/drivers"
"""The folder of the kernel source where the files of kernel/src are built; its Makefile is in
kernel/patches."""
HEADERS = (
    *("Makefile", "scripts", "arch/um", "arch/x86/Makefile.um", "arch/x86/include", "arch/x86/um"),
    *(
        "include/asm-generic",
        "include/crypto",
        "include/linux",
        "include/net",
        "include/trace",
        "include/uapi",
    ),
    "include/vdso",
)
MADE_HEADERS = (
    ".config", "Module.symvers", "scripts", "arch/um", "arch/x86", "include/config",
    "include/generated",
)  # fmt: skip
"""Files that modules are built with, of the source and of what was made from it."""
HEADERS_FILE = "headers.tar.gz"
OBJECTS = ("*.o", "*.a", "*.so*", "*.cmd")
# What is not unpacked: nine tenths of the source are for machines that the guest is not. Of a
# folder it is the files with these endings only, since Kconfig reads the Kconfig files of all
# folders. Where the guest gets something new (kernel/config), take its folder out.
UNUSED_ENDINGS = (".[chSs]", ".dts*", ".json", ".py", ".rs", ".rst", ".sh", ".txt", ".yaml")
UNUSED_FOLDERS = (
    # all architectures but um and x86
    *("arch/[a-tv-wyz]*", "arch/xtensa"),
    # all drivers but base, char, net and tty; of net all but its own files, ovpn and wireguard
    *("drivers/[!bcnt]*", "drivers/b[!a]*", "drivers/c[!h]*", "drivers/n[!e]*", "drivers/t[!t]*"),
    *("drivers/net/[a-np-v]*", "drivers/net/w[!i]*", "drivers/net/wireless"),
    # file systems that need a disk or a server
    *("fs/[a-cfgijlqt-z]*", "fs/e[!x]*", "fs/exfat", "fs/ext*", "fs/hfs*", "fs/nfs*", "fs/ntfs*"),
    *("fs/ocfs2", "fs/smb"),
    # all tools but include and lib
    "tools/[!il]*",
    *("Documentation", "rust", "samples", "sound"),
)
UNUSED = (
    # whole: many small files with other endings
    *("*/Documentation/ABI/*", "*/tools/perf/*", "*/tools/testing/*"),
    *(f"*/{folder}/*{ending}" for folder in UNUSED_FOLDERS for ending in UNUSED_ENDINGS),
)

DOWNLOADING = "downloading the kernel's source"
BUILD_STEPS = 1480  # lines that make prints for one build; only the progress bar depends on it
KERNEL_FILE = "kernel.json"
PACKAGE = "openbach_run_kernel"
"""The Python package that has a built kernel (kernel/wheel.py)."""
BUILT = "built.sha256"
"""The file of kernel/ with the hashes of what the package has, as sha256sum writes them."""
FIXED_BUILD = {
    "KBUILD_BUILD_VERSION": "1",
    "KBUILD_BUILD_TIMESTAMP": "2026-01-01",
    "KBUILD_BUILD_USER": "openbach-run",
    "KBUILD_BUILD_HOST": "guest",
}


@dataclass(frozen=True)
class Kernel:
    """A built kernel.

    `identity` names source version, and what acts of configuration and patches: it is a part of
    every run's name.
    """

    executable: Path
    headers: Path
    """Archive of what modules are built with."""
    identity: str
    differing: str = ""
    """Difference of the source from debian.lock, in words."""


class KernelBuild:
    """The kernel for the content of a `kernel_dir` (kernel/ of the repository)."""

    def __init__(self, cache: Path, kernel_dir: Path, lock: Path, *, only_locked: bool) -> None:
        self._cache = cache
        self._only_locked = only_locked
        self._kernel_dir = kernel_dir
        self._lines = [line for line in read_lock(lock) if line.place == KERNEL]
        made_of = (
            *SOURCES,
            *HEADERS,
            *MADE_HEADERS,
            HEADERS_FILE,
            *(line.line for line in self._lines),
        )
        made_from = [*_inputs(kernel_dir), *kernel_dir.glob("build/*")]

        def place(*more: str) -> Path:
            return cache / f"kernel-{content_hash(made_from, kernel_dir, *made_of, *more)}"

        self.entry = Entry(place(), place(NOT_LOCKED), self._fetch, only_locked=only_locked)

    def take(self) -> None:
        """Take the kernel from the installed PACKAGE, if it is this one and not there yet.

        Raises SetupError if its files are not those that BUILT names.
        """
        spec, named = importlib.util.find_spec(PACKAGE), self._kernel_dir / BUILT
        if self.entry.place or spec is None or not spec.origin or not named.exists():
            return
        lines = [line.split() for line in named.read_text().splitlines()]
        place, package = self.entry.locked, Path(spec.origin).parent
        hashes = {name: digest for digest, name in lines if Path(name).parent.name == place.name}

        def copy(directory: Path) -> None:
            for name, digest in hashes.items():
                content = (package / name).read_bytes()
                if hashlib.sha256(content).hexdigest() != digest:
                    raise SetupError(f"{package / name} is not the file that {named} names")
                (directory / Path(name).name).write_bytes(content)
            (directory / "linux").chmod(0o755)

        if hashes and all((package / name).exists() for name in hashes):
            made_once(place, copy)

    def ensure(self, progress: Progress) -> Kernel:
        """The kernel, built into the cache if it is not there."""
        kernel_dir = self._kernel_dir
        place = self.entry.ensure(
            lambda directory, packages: _build(directory, packages, kernel_dir, progress), progress
        )
        described = json.loads((place / KERNEL_FILE).read_text())
        source = described["identity"].rpartition(" ")[0]
        acts = cached_text(
            self._cache,
            "acting",
            (semantic_hash.way(), place.name),
            lambda: _acting_hash(kernel_dir),
        )
        return Kernel(
            place / "linux",
            place / HEADERS_FILE,
            f"{source} {acts}",
            in_words(described["differing"].values()),
        )

    def _fetch(self, progress: Progress) -> PackageSet:
        """Download the locked source; the mirror's, where it cannot be had."""
        if re.search(r"[\s:$#\"'`\\]", f"{self._cache}"):
            raise SetupError(f"{self._cache}: make takes no such path; set XDG_CACHE_HOME")
        archives = self._cache / ARCHIVES
        missing = obtain(self._lines, archives, progress, DOWNLOADING)
        if self._only_locked:
            refuse(missing)
        if self._lines and not missing:
            return PackageSet(by_place(self._lines), archives)
        return self.current(progress, missing)

    def current(self, progress: Progress, reasons: Sequence[str] = ()) -> PackageSet:
        """The source that the mirror has now, downloaded; `reasons` say why not the locked one."""
        progress("fetching Debian's package lists", 0)
        archives = self._cache / ARCHIVES
        package = current_source(self._cache / "apt-kernel")
        fetch_current([package], archives, progress, DOWNLOADING)
        return PackageSet(
            {KERNEL: [package]}, archives, source_differs(self._lines, package), reasons
        )


def ensure_kernel(cache: Path, kernel_dir: Path, progress: Progress) -> Kernel:
    """The kernel of the checkout that `kernel_dir` is in, built into `cache` if it is not there."""
    return KernelBuild(cache, kernel_dir, DEBIAN_LOCK, only_locked=False).ensure(progress)


def source_differs(lines: Sequence[Locked], package: Package) -> dict[str, str]:
    """Return how the kernel's source differs from the lock; {} if it does not.

    The lock may have the source under another name.
    """
    if package.sha256 in [line.package.sha256 for line in lines]:
        return {}
    locked = " ".join(f"{line.package.name} {line.package.version}" for line in lines) or "none"
    return {package.name: f"{package.name} {package.version} (locked: {locked})"}


def _build(place: Path, packages: PackageSet, kernel_dir: Path, progress: Progress) -> None:
    ensure_tools()
    (package,) = packages.places[KERNEL]
    name, version = package.name, package.version
    work = place / "build"
    archive = packages.archives / package.file_name
    source = _unpack(archive, name, work, progress)
    _patch(source, kernel_dir)
    out = work / "out"
    _configure(source, out, kernel_dir / "config")
    for step in _make(source, out, kernel_dir / "build"):
        progress(f"building the kernel ({name} {version})", 0.1 + 0.9 * min(step / BUILD_STEPS, 1))
    shutil.copy2(out / "linux", place / "linux")
    shutil.copy2(out / ".config", place / "config")
    _keep_headers(source, out, place / HEADERS_FILE)
    shutil.rmtree(work)
    described = {
        "identity": f"{name} {version} {content_hash(_inputs(kernel_dir), kernel_dir)}",
        "source_sha256": package.sha256,
        "source": package.path,
        "differing": packages.differing,
    }
    (place / KERNEL_FILE).write_text(json.dumps(described) + "\n")
    archive.unlink()


def _inputs(kernel_dir: Path) -> list[Path]:
    series_file = kernel_dir / series.FILE
    return [
        kernel_dir / "config",
        series_file,
        *series.patches(kernel_dir),
        *series.sources(kernel_dir),
    ]


def _acting_hash(kernel_dir: Path) -> str:
    """Return a hash of what is built, without the words for people.

    Of kernel/series, the order of the patches counts.
    """
    digest = hashlib.sha256()
    for file in _inputs(kernel_dir):
        if file.name == series.FILE:
            continue
        digest.update(
            f"{file.relative_to(kernel_dir)} {hashlib.sha256(acting(file)).hexdigest()}\n".encode()
        )
    return digest.hexdigest()[:16]


def current_source(directory: Path) -> Package:
    """The kernel's source of the first suite that has one now; `directory` is for an apt."""
    # Backports first: its kernel is newer than that of the suite, and older than that of sid.
    for suite in SUITES:
        apt = Apt(directory, (suite,), {})
        apt.prepare()
        for name in SOURCES:
            if apt.candidate(name):
                return apt.package(name)
    raise SetupError(f"the Debian mirror has none of {', '.join(SOURCES)} in {', '.join(SUITES)}")


def _unpack(package: Path, name: str, work: Path, progress: Progress) -> Path:
    progress(f"unpacking {package.name}", 0.05)
    run(["dpkg-deb", "-x", str(package), str(work)], f"unpacking {package.name}")
    archive = str(work / "usr/src" / f"{name}.tar.xz")
    untar = [
        "tar",
        "-C",
        str(work),
        "--use-compress-program=xz -T0",
        *_without(UNUSED),
        "-xf",
        archive,
    ]
    run(untar, f"unpacking {name}.tar.xz")
    return work / name


def _without(patterns: Iterable[str]) -> list[str]:
    return [f"--exclude={pattern}" for pattern in patterns]


def _patch(source: Path, kernel_dir: Path) -> None:
    for patch in series.patches(kernel_dir):
        series.apply(patch, source)
    for file in series.sources(kernel_dir):
        shutil.copy2(file, source / DRIVERS)


def _configure(source: Path, out: Path, fragment: Path) -> None:
    out.mkdir()
    command = [
        *_make_command(source, out),
        f"KCONFIG_ALLCONFIG={fragment.resolve()}",
        "allnoconfig",
    ]
    run(command, "configuring the kernel", **FIXED_BUILD)
    wanted = re.findall(r"^CONFIG_\w+=[^n].*$", fragment.read_text(), re.MULTILINE)
    # Kconfig drops what depends on something that is off, and says nothing.
    if lost := not_taken(wanted, (out / ".config").read_text()):
        raise SetupError(f"this kernel source does not take from {fragment}: {', '.join(lost)}")


def not_taken(wanted: Iterable[str], configuration: str) -> list[str]:
    """Return the lines that a configuration lacks, even by their new names."""
    lines = configuration.splitlines()

    def is_taken(line: str) -> bool:
        symbol, _, value = line.partition("=")
        if symbol in RENAMED and f"# {symbol} is not set" not in lines:
            return line in lines or f"{RENAMED[symbol]}={value}" in lines
        return line in lines

    return [line for line in wanted if not is_taken(line)]


def _keep_headers(source: Path, out: Path, archive: Path) -> None:
    """Pack what `make -C TREE ARCH=um M=FOLDER modules` needs, wherever it is unpacked."""
    same = [
        "--sort=name",
        "--mtime=@0",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ]  # the archive, whenever it is made
    files = [*("-C", str(source), *HEADERS), *("-C", str(out), *MADE_HEADERS)]
    pack = [
        "tar",
        *same,
        "--use-compress-program=gzip -n",
        *_without(OBJECTS),
        "-cf",
        str(archive),
        *files,
    ]
    run(pack, "packing the kernel's headers")


def _make(source: Path, out: Path, tools: Path) -> Iterator[int]:
    """Build the kernel; yield the number of steps done.

    `tools` has a compiler that reads the headers once (build/cc).
    """
    shutil.copy2(tools / "precompiled.h", out)
    compiler = f"CC={(tools / 'cc').resolve()}"
    # By itself: all other files wait for the headers that it compiles.
    yield from _steps([*_make_command(source, out), compiler, "init/main.o"])
    # There are no modules; that target makes Module.symvers and scripts/module.lds.
    yield from _steps(
        [*_make_command(source, out), compiler, f"-j{os.cpu_count() or 1}", "linux", "modules"]
    )


def _steps(command: list[str]) -> Iterator[int]:
    """Run make; yield the number of steps done. SetupError carries the last lines."""
    printed: list[str] = []
    environment = {**os.environ, **FIXED_BUILD, "LC_ALL": "C"}
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as make:
        assert make.stdout is not None
        try:
            for line in make.stdout:
                printed.append(line)
                # Kbuild's short form of a command: "  CC      init/main.o".
                if line.startswith("  "):
                    yield len(printed)
        except BaseException:
            # Ctrl-C, or an error elsewhere: make would build on for minutes.
            make.terminate()
            raise
    if make.returncode:
        raise SetupError(
            f"building the kernel failed ({' '.join(command)}):\n{''.join(printed[-30:])}"
        )


def _make_command(source: Path, out: Path) -> list[str]:
    return ["make", "-C", str(source.resolve()), "ARCH=um", f"O={out.resolve()}"]
