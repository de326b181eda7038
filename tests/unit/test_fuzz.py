# SPDX-License-Identifier: GPL-3.0-or-later
"""A minute of tests/fuzz.py: nothing but errors for a person from any parser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_minute_of_mutated_inputs_finds_nothing() -> None:
    """The same inputs each time, as many as a minute has.

    A process of its own has limits of its own.
    """
    command = [sys.executable, str(ROOT / "tests/fuzz.py"), "--seconds", "60", "--seed", "39"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["inputs"] > 0
