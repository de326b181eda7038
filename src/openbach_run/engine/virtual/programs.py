# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that no Debian package has: linked statically, as the guest's C library is not this machine's.

Those that jobs bring as source: `files/<program>/Makefile` in a job's folder builds <program>, as on a real agent. Those of
VPNs: `programs` of a vpn.json names them, and the vpn job's own vpn_program.py builds them from their crates; that
takes minutes, so it is done for the runs that need them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from openbach_run.additions import description
from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import ensure_tools, run
from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Progress

DIRECTORY = "bin"
"""Where they stand in the guest's code; it is on the PATH of jobs."""
BUILDER = REPOSITORY / "jobs/vpn/files/vpn_program.py"
FLAGS = ("CFLAGS=-O2", "LDFLAGS=-static")


def ensure_programs(cache: Path, code: Mapping[str, Path], progress: Progress) -> dict[str, Path]:
    """The programs of all folders of the guest's `code`, by their place in it. Raises SetupError."""
    found: dict[str, Path] = {}
    for folder in code.values():
        for makefile in sorted(folder.glob("*/Makefile")):
            found[f"{DIRECTORY}/{makefile.parent.name}"] = _built(cache, makefile.parent, progress)
        for program, recipe in description(folder).get("programs", {}).items():
            found[f"{DIRECTORY}/{program}"] = _from_crate(cache, folder, program, recipe, progress)
    return found


def _built(cache: Path, folder: Path, progress: Progress) -> Path:
    sources = [file for file in folder.glob("**/*") if file.is_file()]
    sources += [file for link in folder.iterdir() if link.is_dir() for file in link.iterdir()]
    name = folder.name

    def make(place: Path) -> None:
        ensure_tools()
        progress(f"building {name}", 0)
        run(["make", "-C", str(folder), f"OUT={place}", *FLAGS, name], f"building {name}")

    return made_once(cache / f"{name}-{content_hash(sources, folder, *FLAGS)}", make) / name


def _from_crate(cache: Path, folder: Path, program: str, recipe: Mapping[str, Any], progress: Progress) -> Path:
    sources = [file for file in (*folder.glob("*.patch"), BUILDER) if file.exists()]
    place = cache / f"{program}-{content_hash(sources, Path('/'), json.dumps(recipe))}"
    command = [sys.executable, str(BUILDER), str(folder), program]
    title = f"building {program} {recipe['version']}"
    return made_once(place, partial(_run_told, command, title, progress)) / program


def _run_told(command: list[str], title: str, progress: Progress, place: Path) -> None:
    """Runs a program that makes `place` and prints lines `<part done> <what>`. SetupError carries what it says at its end."""
    with subprocess.Popen(
        [*command, str(place)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as building:
        assert building.stdout is not None and building.stderr is not None
        for line in building.stdout:
            part, _, what = line.strip().partition(" ")
            progress(f"{title}: {what}", float(part))
        said = building.stderr.read()
    if building.returncode:
        raise SetupError(f"{title} failed: {said.strip()}")
