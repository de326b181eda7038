# SPDX-License-Identifier: GPL-3.0-or-later
"""The least time that a transfer can take."""

from __future__ import annotations

from collections.abc import Mapping

FRAME_BYTES, SEGMENT_BYTES = 1514, 1448
MULTIPLIERS = {"k": 10**3, "M": 10**6, "G": 10**9}


def least_transfer_time_s(arguments: Mapping[str, str]) -> float | None:
    """Time in s that the size of a scenario's arguments takes at their rate: full TCP segments, 1448 bytes of data in a
    frame of 1514. None for what has no size, or no rate of its own (a link file)."""
    if arguments.get("link_file", "none") != "none":
        return None
    try:
        return _number(arguments["size"]) * 8 / _number(arguments["rate"]) * FRAME_BYTES / SEGMENT_BYTES
    except (KeyError, ValueError):
        return None


def _number(text: str) -> float:
    return float(text[:-1]) * MULTIPLIERS[text[-1]] if text[-1:] in MULTIPLIERS else float(text)
