# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual-time kernel: User Mode Linux from a Debian kernel source, with kernel/'s configuration, patches and sources."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import Apt, ensure_tools, run
from openbach_run.errors import SetupError
from openbach_run.progress import Progress
from openbach_run.prose import acting

SUITES = ("trixie-backports", "trixie", "sid")
SOURCES = ("linux-source-7.2", "linux-source-7.3")
"""Source packages that our patches apply to, the preferred first."""

SOURCES_OF_OURS = {"src": "arch/um/drivers", "bbr": "net/ipv4"}
"""Folders of kernel/ with C files, and where in the kernel source they are built (kernel/patches have the Makefiles)."""

BUILD_STEPS = 1480  # lines that make prints for one build; only the progress bar depends on it
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
    identity: str


def ensure_kernel(cache: Path, kernel_dir: Path, progress: Progress) -> Kernel:
    """The kernel for the content of `kernel_dir` (kernel/ of the repository), built into `cache` if it is not there."""
    place = cache / f"kernel-{content_hash(_inputs(kernel_dir), kernel_dir, *SOURCES)}"
    made_once(place, lambda directory: _build(directory, cache, kernel_dir, progress))
    source = json.loads((place / "kernel.json").read_text())["identity"].rpartition(" ")[0]
    return Kernel(place / "linux", f"{source} {_acting_hash(kernel_dir)}")


def _build(place: Path, cache: Path, kernel_dir: Path, progress: Progress) -> None:
    ensure_tools()
    apt = Apt(cache / "apt-kernel", SUITES, {})
    progress("fetching Debian's package lists", 0)
    apt.prepare()
    name, version = _source_package(apt)
    progress(f"downloading {name} {version}", 0.02)
    work = place / "build"
    source = _unpack(apt.fetch(name), name, work, progress)
    _patch(source, kernel_dir)
    out = work / "out"
    _configure(source, out, kernel_dir / "config")
    for step in _make(source, out):
        progress(f"building the kernel ({name} {version})", 0.1 + 0.9 * min(step / BUILD_STEPS, 1))
    shutil.copy2(out / "linux", place / "linux")
    shutil.copy2(out / ".config", place / "config")
    shutil.rmtree(work)
    shutil.rmtree(apt.directory / "archives", ignore_errors=True)
    identity = f"{name} {version} {content_hash(_inputs(kernel_dir), kernel_dir)}"
    (place / "kernel.json").write_text(json.dumps({"identity": identity}) + "\n")


def _inputs(kernel_dir: Path) -> list[Path]:
    sources = [file for folder in SOURCES_OF_OURS for file in kernel_dir.glob(f"{folder}/*.[ch]")]
    return [kernel_dir / "config", *kernel_dir.glob("patches/*.patch"), *sources]


def _acting_hash(kernel_dir: Path) -> str:
    """Of what is built, without the words for people."""
    digest = hashlib.sha256()
    for file in sorted(_inputs(kernel_dir)):
        digest.update(f"{file.relative_to(kernel_dir)} {hashlib.sha256(acting(file)).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def _source_package(apt: Apt) -> tuple[str, str]:
    for name in SOURCES:
        if version := apt.candidate(name):
            return name, version
    raise SetupError(f"the Debian mirror has none of {', '.join(SOURCES)} in {', '.join(SUITES)}")


def _unpack(package: Path, name: str, work: Path, progress: Progress) -> Path:
    progress(f"unpacking {package.name}", 0.05)
    run(["dpkg-deb", "-x", str(package), str(work)], f"unpacking {package.name}")
    run(["tar", "-C", str(work), "-xf", str(work / "usr/src" / f"{name}.tar.xz")], f"unpacking {name}.tar.xz")
    return work / name


def _patch(source: Path, kernel_dir: Path) -> None:
    for patch in sorted(kernel_dir.glob("patches/*.patch")):
        run(["patch", "-d", str(source), "-p1", "--forward", "-i", str(patch.resolve())], f"applying {patch.name}")
    for folder, place in SOURCES_OF_OURS.items():
        for file in kernel_dir.glob(f"{folder}/*.[ch]"):
            shutil.copy2(file, source / place / file.name)


def _configure(source: Path, out: Path, fragment: Path) -> None:
    out.mkdir()
    command = [*_make_command(source, out), f"KCONFIG_ALLCONFIG={fragment.resolve()}", "allnoconfig"]
    run(command, "configuring the kernel", **FIXED_BUILD)
    configured = (out / ".config").read_text().splitlines()
    wanted = re.findall(r"^CONFIG_\w+=[^n].*$", fragment.read_text(), re.MULTILINE)
    if lost := [line for line in wanted if line not in configured]:
        raise SetupError(f"this kernel source does not take from {fragment}: {', '.join(lost)}")


def _make(source: Path, out: Path) -> Iterator[int]:
    """Runs make; yields the number of steps done. SetupError carries the last lines."""
    command = [*_make_command(source, out), f"-j{os.cpu_count() or 1}", "linux"]
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
