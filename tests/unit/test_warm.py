# SPDX-License-Identifier: GPL-3.0-or-later
"""What the director has in its memory is copied for each of two dozen jobs.

Modules that are large are not among it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from openbach_run.guest.warm import IMPORTED_BEFOREHAND

ROOT = Path(__file__).resolve().parents[2]
LARGE = {"dataclasses", "inspect", "traceback"}
"""The first imports the second: 1.5 MB."""
OF_FEW_VALUES = {"datetime"}
"""A quarter of a megabyte, for arguments that are dates."""
OF_EVERY_RUN = (
    "file_transfer",
    "lan_link",
    "path_ready",
    "satpep",
    "satcom_link",
    "tcp_series",
    "transport_profile",
    "vpn",
)
DIRECTOR = (
    "import openbach_run.guest.main, openbach_run.guest.director, openbach_run.guest.agent,"
    " openbach_run.openbach.values"
)


def modules(imports: str, *path: str) -> set[str]:
    """What is imported in the end, site-packages left out."""
    program = f"import sys; sys.path[:0] = {path!r}; {imports}; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", program]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_the_director_has_no_large_modules() -> None:
    imported = modules(f"import {', '.join(IMPORTED_BEFOREHAND)}; {DIRECTOR}", str(ROOT / "src"))
    assert not (LARGE | OF_FEW_VALUES) & imported


@pytest.mark.parametrize("job", OF_EVERY_RUN)
def test_the_jobs_of_every_run_import_no_large_modules(job: str) -> None:
    folders = (f"jobs/{job}/files", "src", "src/openbach_run/guest/agent_library")
    assert not LARGE & modules(f"import {job}", *(str(ROOT / folder) for folder in folders))
