# SPDX-License-Identifier: GPL-3.0-or-later
"""The least time that a transfer can take at its rate."""

from __future__ import annotations

from collections.abc import Mapping

from openbach_run.units import number

FRAME_BYTES, SEGMENT_BYTES = 1514, 1448


def least_transfer_time_s(arguments: Mapping[str, str]) -> float | None:
    """Return the time in s that the data of a scenario needs at the rate of its direction.

    `arguments` give the size and the rate. The data is sent in full TCP segments: 1448 bytes of
    data in a frame of 1514. Delays are left out, because where they count depends on whose clock
    measures: the receiver of a download starts it when the sender's first packet is on its way.
    None if there is no size, or no rate of its own (a link file).
    """
    size, rate_bps = number(arguments.get("size", "")), number(rate_of(arguments))
    return size * 8 / rate_bps * FRAME_BYTES / SEGMENT_BYTES if size and rate_bps else None


def rate_of(arguments: Mapping[str, str]) -> str:
    """Return the rate, as it was given, of the direction of a transfer; "" if there is none."""
    if arguments.get("link_file", "none") != "none":
        return ""
    if arguments.get("direction") == "upload" and arguments.get("return_rate", "same") != "same":
        return arguments["return_rate"]
    return arguments.get("rate", "")
