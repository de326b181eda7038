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
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import ensure_tools, run
from openbach_run.errors import SetupError
from openbach_run.progress import Progress

DIRECTORY = "bin"
"""Where they stand in the guest's code; the guest tree has links to them on its PATH."""
FLAGS = ("CFLAGS=-O2", "LDFLAGS=-static")


def ensure_programs(cache: Path, code: Mapping[str, Path], progress: Progress) -> dict[str, Path]:
    """The programs of all folders of the guest's `code`, by their place in it. Raises SetupError."""
    makefiles = sorted(makefile for folder in code.values() for makefile in folder.glob("*/Makefile"))
    return {f"{DIRECTORY}/{file.parent.name}": _built(cache, file.parent, progress) for file in makefiles}


def _built(cache: Path, folder: Path, progress: Progress) -> Path:
    sources = [file for file in folder.glob("**/*") if file.is_file()]
    sources += [file for link in folder.iterdir() if link.is_dir() for file in link.iterdir()]
    name = folder.name

    def make(place: Path) -> None:
        ensure_tools()
        progress(f"building {name}", 0)
        run(["make", "-C", str(folder), f"OUT={place}", *FLAGS, name], f"building {name}")

    return made_once(cache / f"{name}-{content_hash(sources, folder, *FLAGS)}", make) / name


def vpns_named(value: Any, configs: Path) -> set[str]:
    """The VPNs (folders of `configs`) that are a text anywhere in `value`: the arguments or functions of a scenario."""
    if isinstance(value, str):
        return {value} if value.isidentifier() and (configs / value / "vpn.json").exists() else set()
    parts: Iterable[Any] = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    )
    return {name for part in parts for name in vpns_named(part, configs)}


def ensure_vpn_programs(cache: Path, job: Path, vpns: Iterable[str], progress: Progress) -> dict[str, Path]:
    """The programs of these VPNs, by their place in the guest's code; `job` is the vpn job's `files`. Raises SetupError."""
    found: dict[str, Path] = {}
    for vpn in sorted(vpns):
        described = json.loads((job / "vpn-configs" / vpn / "vpn.json").read_text())
        folder = job / "vpn-configs" / described.get("base", vpn)
        for program, recipe in json.loads((folder / "vpn.json").read_text()).get("programs", {}).items():
            sources = [job / "vpn_program.py", *(job / "vpn-configs" / folder.name).glob("*.patch")]
            place = cache / f"{program}-{content_hash(sources, job, json.dumps(recipe))}"
            command = [sys.executable, str(job / "vpn_program.py"), folder.name, program]
            title = f"building {program} {recipe['version']}"
            made = made_once(place, partial(_run_told, command, title, progress))
            found[f"{DIRECTORY}/{program}"] = made / program
    return found


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
