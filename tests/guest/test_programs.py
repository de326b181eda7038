# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that check what the guest's kernel shows them.

Of a system call that it has replaced (kernel/src/speed/direct_calls.c), and of memory after forks
(kernel/patches/speed/fork-copies.patch).
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.guest_code import engine_with
from helpers.guest_runs import REPOSITORY

PROGRAMS = REPOSITORY / "tests/guest/programs"
REPORT = """
    import json, subprocess, sys, time
    done = subprocess.run(["/opt/openbach-run/jobs/program"], stdout=subprocess.PIPE, text=True)
    with open("/run/openbach/said", "w") as file:
        json.dump([done.stdout, done.returncode], file)
    with open("/run/openbach/result.json", "w") as file:
        json.dump({"status": "Finished Ok", "virtual_s": time.monotonic(), "failed": []}, file)
"""


@pytest.mark.parametrize("name", ["calls", "forks"])
def test_a_program_sees_nothing_wrong(tmp_path: Path, name: str) -> None:
    engine = engine_with(tmp_path / "code", REPORT)
    gcc = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(tmp_path / "code/jobs/program")]
    subprocess.run([*gcc, str(PROGRAMS / f"{name}.c")], check=True)
    engine.prepare(lambda text, part: None)
    record = tmp_path / "record"
    record.mkdir()
    outcome = engine.run({"seed": 1}, record, 0, lambda event: None)
    assert outcome.error is None
    assert json.loads((record / "said").read_text()) == ["", 0]
    shutil.rmtree(record)
