# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual-time kernel: User Mode Linux from a Debian kernel source, with kernel/'s configuration, patches and sources."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from openbach_run import prose
from openbach_run.engine.virtual import series
from openbach_run.engine.virtual.cache import content_hash, kept, made_once
from openbach_run.engine.virtual.debian import Apt, ensure_tools, run
from openbach_run.errors import SetupError
from openbach_run.progress import Progress
from openbach_run.prose import acting

SUITES = ("trixie-backports", "trixie", "sid")
SOURCES = ("linux-source-7.2", "linux-source-7.3")
"""Source packages that our patches apply to, the preferred first."""

DRIVERS = "arch/um/drivers"
"""Where in the kernel source the files of kernel/src are built (kernel/patches have the Makefile)."""
HEADERS = (
    *("Makefile", "scripts", "arch/um", "arch/x86/Makefile.um", "arch/x86/include", "arch/x86/um"),
    *("include/asm-generic", "include/crypto", "include/linux", "include/net", "include/trace", "include/uapi"),
    "include/vdso",
)
MADE_HEADERS = (".config", "Module.symvers", "scripts", "arch/um", "arch/x86", "include/config", "include/generated")
"""What modules are built with, of the source and of what was made from it."""
HEADERS_FILE = "headers.tar.gz"
OBJECTS = ("*.o", "*.a", "*.so*", "*.cmd")
UNUSED = (
    *("*/Documentation/ABI/*", "*/tools/perf/*", "*/tools/testing/*"),
    *(
        f"*/{folder}/*{ending}"
        for folder in (
            *("Documentation", "arch/[a-tv-wyz]*", "arch/xtensa", "rust", "samples", "sound"),
            *("drivers/[!bcnt]*", "drivers/b[!a]*", "drivers/c[!h]*", "drivers/n[!e]*", "drivers/t[!t]*"),
            *("drivers/net/[a-np-v]*", "drivers/net/w[!i]*", "drivers/net/wireless"),
            *("fs/[a-cfgijlqt-z]*", "fs/e[!x]*", "fs/exfat", "fs/ext*", "fs/hfs*", "fs/nfs*", "fs/ntfs*"),
            *("fs/ocfs2", "fs/smb", "tools/[!il]*"),
        )
        for ending in (".[chSs]", ".dts*", ".json", ".py", ".rs", ".rst", ".sh", ".txt", ".yaml")
    ),
)
"""What is not unpacked: nine tenths of the source are for machines that the guest is not. Kconfig reads of all of it. Where
the guest gets something new (kernel/config), take its folder out."""

BUILD_STEPS = 1480  # lines that make prints for one build; only the progress bar depends on it
KERNEL_FILE = "kernel.json"
FIXED_BUILD = {
    "KBUILD_BUILD_TIMESTAMP": "2026-01-01",
    "KBUILD_BUILD_USER": "openbach-run",
    "KBUILD_BUILD_HOST": "guest",
}


@dataclass(frozen=True)
class Kernel:
    """A built kernel. `identity` names source version, and what acts of configuration and patches: it is a part of every
    run's name."""

    executable: Path
    headers: Path
    """Archive of what modules are built with."""
    identity: str


def ensure_kernel(cache: Path, kernel_dir: Path, progress: Progress) -> Kernel:
    """The kernel for the content of `kernel_dir` (kernel/ of the repository), built into `cache` if it is not there."""
    place = kernel_place(cache, kernel_dir)
    made_once(place, lambda directory: _build(directory, cache, kernel_dir, progress))
    source = json.loads((place / KERNEL_FILE).read_text())["identity"].rpartition(" ")[0]
    acts = kept(cache, "acting", (prose.way(), place.name), lambda: _acting_hash(kernel_dir))
    return Kernel(place / "linux", place / HEADERS_FILE, f"{source} {acts}")


def kernel_place(cache: Path, kernel_dir: Path) -> Path:
    """Where it is, or is to be."""
    made_from = [*_inputs(kernel_dir), *kernel_dir.glob("build/*")]
    return cache / f"kernel-{content_hash(made_from, kernel_dir, *SOURCES, *HEADERS, *MADE_HEADERS, HEADERS_FILE)}"


def _build(place: Path, cache: Path, kernel_dir: Path, progress: Progress) -> None:
    ensure_tools()
    progress("fetching Debian's package lists", 0)
    apt, name, version = source_package(cache / "apt-kernel")
    progress(f"downloading {name} {version}", 0.02)
    work = place / "build"
    archive = apt.fetch(name)
    source_sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
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
    shutil.rmtree(apt.directory / "archives", ignore_errors=True)
    identity = f"{name} {version} {content_hash(_inputs(kernel_dir), kernel_dir)}"
    (place / KERNEL_FILE).write_text(json.dumps({"identity": identity, "source_sha256": source_sha256}) + "\n")


def _inputs(kernel_dir: Path) -> list[Path]:
    series_file = kernel_dir / series.FILE
    return [kernel_dir / "config", series_file, *series.patches(kernel_dir), *series.sources(kernel_dir)]


def _acting_hash(kernel_dir: Path) -> str:
    """Hash of what is built, without the words for people; of kernel/series, the order of the patches."""
    digest = hashlib.sha256()
    for file in _inputs(kernel_dir):
        if file.name == series.FILE:
            continue
        digest.update(f"{file.relative_to(kernel_dir)} {hashlib.sha256(acting(file)).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def source_package(directory: Path) -> tuple[Apt, str, str]:
    """Of the first suite that has one: an apt for it, the package's name and version."""
    for suite in SUITES:
        apt = Apt(directory, (suite,), {})
        apt.prepare()
        for name in SOURCES:
            if version := apt.candidate(name):
                return apt, name, version
    raise SetupError(f"the Debian mirror has none of {', '.join(SOURCES)} in {', '.join(SUITES)}")


def _unpack(package: Path, name: str, work: Path, progress: Progress) -> Path:
    progress(f"unpacking {package.name}", 0.05)
    run(["dpkg-deb", "-x", str(package), str(work)], f"unpacking {package.name}")
    archive = str(work / "usr/src" / f"{name}.tar.xz")
    untar = ["tar", "-C", str(work), "--use-compress-program=xz -T0", *_without(UNUSED), "-xf", archive]
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
    command = [*_make_command(source, out), f"KCONFIG_ALLCONFIG={fragment.resolve()}", "allnoconfig"]
    run(command, "configuring the kernel", **FIXED_BUILD)
    configured = (out / ".config").read_text().splitlines()
    wanted = re.findall(r"^CONFIG_\w+=[^n].*$", fragment.read_text(), re.MULTILINE)
    if lost := [line for line in wanted if line not in configured]:
        raise SetupError(f"this kernel source does not take from {fragment}: {', '.join(lost)}")


def _keep_headers(source: Path, out: Path, archive: Path) -> None:
    """Packs what `make -C TREE ARCH=um M=FOLDER modules` needs: one tree, wherever it is unpacked."""
    same = [
        "--sort=name",
        "--mtime=@0",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ]  # the archive, whenever it is made
    found = [*("-C", str(source), *HEADERS), *("-C", str(out), *MADE_HEADERS)]
    pack = ["tar", *same, "--use-compress-program=gzip -n", *_without(OBJECTS), "-cf", str(archive), *found]
    run(pack, "packing the kernel's headers")


def _make(source: Path, out: Path, tools: Path) -> Iterator[int]:
    """Builds the kernel; yields the number of steps done. `tools` has a compiler that reads the headers once (build/cc)."""
    shutil.copy2(tools / "precompiled.h", out)
    compiler = f"CC={(tools / 'cc').resolve()}"
    yield from _steps([*_make_command(source, out), compiler, "init/main.o"])
    # There are no modules; that target makes Module.symvers and scripts/module.lds.
    yield from _steps([*_make_command(source, out), compiler, f"-j{os.cpu_count() or 1}", "linux", "modules"])


def _steps(command: list[str]) -> Iterator[int]:
    """Runs make; yields the number of steps done. SetupError carries the last lines."""
    printed: list[str] = []
    environment = {**os.environ, **FIXED_BUILD, "LC_ALL": "C"}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as make:
        assert make.stdout is not None
        try:
            for line in make.stdout:
                printed.append(line)
                if line.startswith("  "):
                    yield len(printed)
        except BaseException:
            make.terminate()
            raise
    if make.returncode:
        raise SetupError(f"building the kernel failed ({' '.join(command)}):\n{''.join(printed[-30:])}")


def _make_command(source: Path, out: Path) -> list[str]:
    return ["make", "-C", str(source.resolve()), "ARCH=um", f"O={out.resolve()}"]
