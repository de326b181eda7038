# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that jobs bring as source: `files/<program>/Makefile` in a job's folder builds <program>, as on a real agent.

For the guest they are built here and linked statically: its C library is not this machine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from openbach_run.engine.cache import Progress, content_hash, made_once
from openbach_run.engine.debian import ensure_tools, run

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
