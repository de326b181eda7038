# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that no Debian package has: linked statically, as the guest's C library is not this machine's.

Those that jobs bring as source: `files/<program>/Makefile` in a job's folder builds <program>, as on a real agent. Those of
VPNs: `programs` of a vpn.json names them, and the vpn job's own BUILDERS build them from their crates and Go modules; that
takes minutes, so it is done for the runs that need them. What no registry has either is this machine's own program, and
part of the folder in the guest: `<folder>/bin/<program>`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openbach_run.additions import description
from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import ensure_tools, run
from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Progress
from openbach_run.prose import acting

DIRECTORY = "bin"
"""Where they stand in the guest's code; it is on the PATH of jobs."""
BUILDERS = {
    "crate": REPOSITORY / "jobs/vpn/files/vpn_program.py",
    "go": REPOSITORY / "jobs/vpn/files/vpn_go_program.py",
}
"""By the key of a recipe that names where its source is."""
FLAGS = ("CFLAGS=-O2", "LDFLAGS=-static")
HOST_VARIABLE = "OPENBACH_RUN_PROGRAMS"
"""Names directories with programs of this machine, parted by colons; they count before its PATH."""


def ensure_programs(cache: Path, code: Mapping[str, Path], progress: Progress) -> dict[str, Path]:
    """The programs of all folders of the guest's `code`, by their place in it. Raises SetupError."""
    found: dict[str, Path] = {}
    for folder in code.values():
        for makefile in sorted(folder.glob("*/Makefile")):
            found[f"{DIRECTORY}/{makefile.parent.name}"] = _built(cache, makefile.parent, progress)
        for program, recipe in description(folder).get("programs", {}).items():
            for builder in (BUILDERS[kind] for kind in BUILDERS if kind in recipe):
                place = _from_registry(cache, folder, program, recipe, builder, progress)
                found |= {f"{DIRECTORY}/{one}": place / one for one in (program, *recipe.get("also", ()))}
    return found


def host_programs(code: Mapping[str, Path], root: Path) -> dict[str, Path]:
    """This machine's programs that folders of the guest's `code` name, by their place in it. They run there with the
    libraries of the guest tree `root`. Raises SetupError for those that are missing, or need what is not in the tree."""
    directories = os.pathsep.join(filter(None, (os.environ.get(HOST_VARIABLE), os.environ.get("PATH"))))
    named: dict[str, tuple[Path, str]] = {}
    missing = []
    for place, folder in code.items():
        for program, recipe in description(folder).get("programs", {}).items():
            if "host" not in recipe:
                continue
            if file := shutil.which(program, path=directories):
                named[f"{place}/{DIRECTORY}/{program}"] = folder, file
            else:
                missing.append(f"{folder.name} needs {program} (get it from {recipe['host']})")
    if missing:
        raise SetupError(
            f"{'; '.join(missing)}: no Debian package or registry has it, and on this machine it is neither in a directory "
            f"that {HOST_VARIABLE} names nor on the PATH. With {HOST_VARIABLE}=DIRECTORY it is found"
        )
    return {place: _of_this_machine(*one, root) for place, one in named.items()}


def _of_this_machine(folder: Path, named: str, root: Path) -> Path:
    file = Path(named).resolve()
    if lacking := _lacking(file, root):
        raise SetupError(
            f"{file} does not run in the guest: {'; '.join(lacking)}. Link it statically, or add the Debian packages (trixie) "
            f"of what is missing to `packages` in {folder / 'vpn.json'}"
        )
    return file


def _lacking(file: Path, root: Path) -> list[str]:
    """What a program wants that the guest tree has not, as the tree's own loader says, which only loads: nothing of it runs."""
    with file.open("rb") as opened:
        if opened.read(4) != b"\x7fELF":
            return []  # a script
    loader, libraries = root / "usr/lib64/ld-linux-x86-64.so.2", root / "usr/lib/x86_64-linux-gnu"
    command = [str(loader), "--library-path", str(libraries), "--list", str(file)]
    listed = subprocess.run(command, check=False, capture_output=True, text=True)
    lines = [line.strip() for line in (listed.stdout + listed.stderr).splitlines()]
    found = [re.search(r"(?:=> )?(/\S+) \(0x", line) for line in lines]
    elsewhere = [one[1] for one in found if one and not Path(one[1]).is_relative_to(root)]
    failed = [listed.stderr.strip()] if listed.returncode and listed.stderr.strip() else []
    return [*(line for line in lines if "not found" in line), *elsewhere] or failed


def _built(cache: Path, folder: Path, progress: Progress) -> Path:
    sources = [file for file in folder.glob("**/*") if file.is_file()]
    sources += [file for link in folder.iterdir() if link.is_dir() for file in link.iterdir()]
    name = folder.name

    def make(place: Path) -> None:
        ensure_tools()
        progress(f"building {name}", 0)
        run(["make", "-C", str(folder), f"OUT={place}", *FLAGS, name], f"building {name}")

    return made_once(cache / f"{name}-{content_hash(sources, folder, *FLAGS)}", make) / name


def _from_registry(
    cache: Path, folder: Path, program: str, recipe: Mapping[str, Any], builder: Path, progress: Progress
) -> Path:
    """The directory of the program, and of those that are built with it."""
    how = hashlib.sha256(acting(builder)).hexdigest()
    place = cache / f"{program}-{content_hash(folder.glob('*.patch'), folder, json.dumps(recipe), how)}"

    def make(place: Path) -> None:
        ensure_tools(recipe.get("tools", {}))
        command = [sys.executable, str(builder), str(folder), program, str(place)]
        _run_told(command, f"building {program} {recipe['version']}", progress)

    return made_once(place, make)


def _run_told(command: list[str], title: str, progress: Progress) -> None:
    """Runs a program that prints lines `<part done> <what>`. SetupError carries what it says at its end."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as building:
        assert building.stdout is not None and building.stderr is not None
        for line in building.stdout:
            part, _, what = line.strip().partition(" ")
            progress(f"{title}: {what}", float(part))
        said = building.stderr.read()
    if building.returncode:
        raise SetupError(f"{title} failed: {said.strip()}")
