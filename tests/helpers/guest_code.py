# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests that run lines of a test in place of the director."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

from openbach_run.engine.local import SILENCE_LIMIT_S
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.paths import REPOSITORY

FINISH = """
    import json, time
    with open("/run/openbach/result.json", "w") as file:
        json.dump({"status": "Finished Ok", "virtual_s": time.monotonic(), "failed": []}, file)
"""
"""The lines that end a run as the director does."""


def engine_with(
    folder: Path, *parts: str, silence_limit_s: float = SILENCE_LIMIT_S
) -> VirtualEngine:
    """An engine whose guests run the lines of `parts` in place of the director."""
    guest = folder / "openbach_run/guest"
    guest.mkdir(parents=True)
    (guest.parent / "__init__.py").touch()
    (guest / "__init__.py").touch()
    (guest / "main.py").write_text(
        "def main():\n" + "".join(indent(dedent(part), "    ") for part in parts)
    )
    (folder / "jobs").mkdir()
    (folder / "jobs/empty").touch()
    engine = VirtualEngine(
        REPOSITORY, {"src": folder, "jobs": folder / "jobs"}, silence_limit_s=silence_limit_s
    )
    engine.prepare(lambda text, part: None)
    return engine
