# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests of kernel/upstream, with our kernel in real time.

What its mails promise holds in the kernel that we use.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from helpers.guest_code import engine_with
from helpers.guest_runs import REPOSITORY

pytestmark = pytest.mark.nightly
TESTS = REPOSITORY / "kernel/upstream/tests"


@pytest.mark.parametrize("name", ["sch_tbf_change", "um_memfd", "hostfs_places", "hostfs_keep"])
def test_it_passes(tmp_path: Path, name: str) -> None:
    engine = engine_with(tmp_path / "code", "pass")
    if name == "um_memfd" and os.geteuid():
        pytest.skip("a mount namespace with a small /dev/shm needs root")
    done = subprocess.run(
        [TESTS / name, engine.kernel.executable],
        check=False,
        env={**os.environ, "ROOT": str(engine.image.root)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
