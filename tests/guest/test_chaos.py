# SPDX-License-Identifier: GPL-3.0-or-later
"""The short form of tests/chaos.py: every blow once, on the smallest campaign."""

from __future__ import annotations

import subprocess
import sys

import pytest
from helpers.guest_runs import REPOSITORY

pytestmark = pytest.mark.nightly


def test_nothing_is_lost_and_nothing_is_left() -> None:
    words = [sys.executable, "tests/chaos.py", "--runs", "1", "--campaigns", "1"]
    done = subprocess.run(words, cwd=REPOSITORY, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
