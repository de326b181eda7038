# SPDX-License-Identifier: GPL-3.0-or-later
"""What a program in the guest sees of a system call that the kernel has replaced (kernel/src/direct_calls.c): nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY
from test_engine import engine_with

from openbach_run.engine.virtual.engine import VirtualEngine

PROGRAM = REPOSITORY / "tests/guest/programs/calls.c"
REPORT = """
    import json, subprocess, sys, time
    done = subprocess.run(["/opt/openbach-run/jobs/calls"], stdout=subprocess.PIPE, text=True)
    with open("/run/openbach/said", "w") as file:
        json.dump([done.stdout, done.returncode], file)
    with open("/run/openbach/result.json", "w") as file:
        json.dump({"status": "Finished Ok", "virtual_s": time.monotonic(), "failed": []}, file)
"""


@pytest.fixture
def engine(tmp_path: Path) -> VirtualEngine:
    """Its guests run the program."""
    engine = engine_with(tmp_path / "code", REPORT)
    program = tmp_path / "code/jobs/calls"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(PROGRAM)], check=True)
    engine.prepare(lambda text, part: None)
    return engine


def test_registers_signals_and_steps_are_as_without(engine: VirtualEngine, tmp_path: Path) -> None:
    record = tmp_path / "record"
    record.mkdir()
    outcome = engine.run({"seed": 1}, record, 0, lambda event: None)
    assert outcome.error is None
    assert json.loads((record / "said").read_text()) == ["", 0]
    shutil.rmtree(record)
