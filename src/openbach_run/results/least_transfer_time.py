# SPDX-License-Identifier: GPL-3.0-or-later
"""The least time that a transfer can take at its rate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from openbach_jobs import presets
from openbach_run.units import number

FRAME_BYTES, SEGMENT_BYTES = 1514, 1448


def least_transfer_time_s(arguments: Mapping[str, str]) -> float | None:
    """Return the time in s that the data of a scenario needs at the rate of its direction.

    `arguments` give the size and the rate. The data is sent in full TCP segments: 1448 bytes of
    data in a frame of 1514. Delays are left out, because where they count depends on whose clock
    measures: the receiver of a download starts it when the sender's first packet is on its way.
    None if there is no size, or no rate of its own: that of a link file, and of one of our
    satellites with steps of the rate, changes with time.
    """
    if _steps(arguments.get("orbit", "")):
        return None
    size, rate_bps = number(arguments.get("size", "")), number(rate_of(arguments))
    return size * 8 / rate_bps * FRAME_BYTES / SEGMENT_BYTES if size and rate_bps else None


@lru_cache
def _steps(orbit: str) -> bool:
    """Return whether one of our satellites has steps of the rate."""
    try:
        return rate_steps(presets.find(orbit))
    except presets.PresetError:
        return False


def rate_steps(preset: presets.Preset) -> bool:
    """Return whether a satellite has steps of the rate."""
    grid = preset.reconfigurations
    return grid is not None and grid.rate_sd_pct > 0


def rate_of(arguments: Mapping[str, str]) -> str:
    """Return the rate, as it was given, of the direction of a transfer; "" if there is none."""
    if arguments.get("link_file", "none") != "none":
        return ""
    if arguments.get("direction") == "upload" and arguments.get("return_rate", "same") != "same":
        return arguments["return_rate"]
    return arguments.get("rate", "")
