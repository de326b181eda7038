# SPDX-License-Identifier: GPL-3.0-or-later
"""Some inputs of tests/fuzz.py: nothing but errors for a person from any parser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


INPUTS = 20
"""For each parser; `make fuzz` tries more for an hour."""


def test_mutated_inputs_find_nothing() -> None:
    """The same inputs each time, on any machine.

    A process of its own has limits of its own.
    """
    words = ["--inputs", str(INPUTS), "--seed", "39"]
    command = [sys.executable, str(ROOT / "tests/fuzz.py"), *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["inputs"] == INPUTS * told["parsers"] > 0
