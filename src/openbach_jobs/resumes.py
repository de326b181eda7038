# SPDX-License-Identifier: GPL-3.0-or-later
"""Careful Resume (RFC 9959): the counts of the modules of congestion controls that have it.

They are in /proc/net/MODULE.
"""

from __future__ import annotations

from pathlib import Path

COUNTS = Path("/proc/net")


def count() -> int | None:
    """Return how many connections of this host have used what an earlier one has saved.

    It is None if no such module is loaded.
    """
    files = list(COUNTS.glob("tcp_*"))
    resumed = [
        line
        for file in files
        for line in file.read_text().splitlines()
        if line.startswith("resumed ")
    ]
    return sum(int(line.split()[1]) for line in resumed) if files else None
