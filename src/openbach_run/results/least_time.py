# SPDX-License-Identifier: GPL-3.0-or-later
"""The least time that a transfer can take."""

from __future__ import annotations

from collections.abc import Mapping

from openbach_run.units import number

FRAME_BYTES, SEGMENT_BYTES = 1514, 1448


def least_transfer_time_s(arguments: Mapping[str, str]) -> float | None:
    """Time in s that the size of a scenario's arguments takes at their rate: full TCP segments, 1448 bytes of data in a
    frame of 1514. None for what has no size, or no rate of its own (a link file)."""
    if arguments.get("link_file", "none") != "none":
        return None
    size, rate_bps = (number(arguments.get(name, "")) for name in ("size", "rate"))
    return size * 8 / rate_bps * FRAME_BYTES / SEGMENT_BYTES if size and rate_bps else None
