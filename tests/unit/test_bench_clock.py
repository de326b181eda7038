# SPDX-License-Identifier: GPL-3.0-or-later
"""bench/clock.py: virtual time with the token bucket of real time."""

from __future__ import annotations

import runpy
from pathlib import Path

CLOCK = Path(__file__).parents[2] / "bench/clock.py"


def test_its_copy_of_the_link_has_the_bucket_of_real_time(tmp_path: Path) -> None:
    bench = runpy.run_path(str(CLOCK))
    assert bench["options_of"](bench["SAME_BUCKET"], None, tmp_path) == [
        "--jobs",
        str(tmp_path / "satcom_link"),
    ]
    assert "netem.CLOCK =" in (tmp_path / "satcom_link/files/fragments.py").read_text()
