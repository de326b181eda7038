# SPDX-License-Identifier: GPL-3.0-or-later
"""The least time that a transfer can take."""

from __future__ import annotations

from collections.abc import Mapping

FRAME_BYTES, SEGMENT_BYTES = 1514, 1448
MULTIPLIERS = {"k": 10**3, "M": 10**6, "G": 10**9}


def least_transfer_time_s(arguments: Mapping[str, str]) -> float | None:
    """Time in s that the size of a scenario's arguments takes at the rate of its direction: full TCP segments, 1448 bytes of
    data in a frame of 1514. Delays are left out: where they count depends on whose clock measures (the receiver of a download
    starts it when the sender's first packet is on its way). None for what has no size, or no rate of its own (a link file)."""
    try:
        return _number(arguments["size"]) * 8 / _number(rate_of(arguments)) * FRAME_BYTES / SEGMENT_BYTES
    except (KeyError, ValueError):
        return None


def rate_of(arguments: Mapping[str, str]) -> str:
    """The rate, as it was given, of the direction in which a transfer goes. Raises KeyError if there is none."""
    if arguments.get("link_file", "none") != "none":
        raise KeyError("rate")
    if arguments.get("direction") == "upload" and arguments.get("return_rate", "same") != "same":
        return arguments["return_rate"]
    return arguments["rate"]


def _number(text: str) -> float:
    return float(text[:-1]) * MULTIPLIERS[text[-1]] if text[-1:] in MULTIPLIERS else float(text)
