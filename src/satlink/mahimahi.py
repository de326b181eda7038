# SPDX-License-Identifier: GPL-3.0-or-later
"""Mahimahi's packet-delivery traces (mm-link) as the rates of a link.

A line is a time in ms at which one packet of 1500 bytes may pass; a trace begins again after its
last line's time (Netravali et al., Mahimahi, USENIX ATC 2015; the manual page of mm-link). Here a
direction's rate is what may pass within a bin, so what a trace does within a bin is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openbach_jobs.link_file import Change, LinkFileError, State, lines

TIME = re.compile("[0-9]{1,9}")
PACKET_BITS = 1500 * 8


def read_trace(path: Path) -> list[int]:
    """Return the times of a trace in ms, ascending, the last above 0. Raises LinkFileError."""
    times_ms: list[int] = []
    for number, text in lines(path):
        if not TIME.fullmatch(text):
            raise LinkFileError(path, f"{text!r} is not a whole number of milliseconds", number)
        times_ms.append(int(text))
        if times_ms[-1] < times_ms[max(len(times_ms) - 2, 0)]:
            raise LinkFileError(
                path, f"{text} after {times_ms[-2]}: times must not go back", number
            )
    if not times_ms or not times_ms[-1]:
        raise LinkFileError(path, "no packet after 0 ms: a trace needs a length")
    return times_ms


def changes(
    up_ms: Sequence[int], down_ms: Sequence[int], bin_ms: int, delay_ms: float
) -> Iterator[Change]:
    """Yield one period: that of the longer trace, in which the shorter one repeats."""
    period_ms = max(up_ms[-1], down_ms[-1])
    rates = {
        "forward": rates_bps(down_ms, bin_ms, period_ms),
        "return": rates_bps(up_ms, bin_ms, period_ms),
    }
    for number in range(-(-period_ms // bin_ms)):
        for direction, all_bps in rates.items():
            yield Change(number * bin_ms / 1000, direction, State(all_bps[number], delay_ms, 0.0))


def rates_bps(times_ms: Sequence[int], bin_ms: int, period_ms: int) -> list[float]:
    """Return the rate in bit/s of each bin in `period_ms`; the last bin may be shorter.

    A packet at t belongs to the millisecond that ends at t.
    """
    packets = [0] * -(-period_ms // bin_ms)
    # The shorter of two traces repeats until the longer one ends.
    for begun_ms in range(0, period_ms, times_ms[-1]):
        for time_ms in times_ms:
            passed_ms = begun_ms + max(time_ms - 1, 0)
            if passed_ms < period_ms:
                packets[passed_ms // bin_ms] += 1
    widths_ms = [min(bin_ms, period_ms - number * bin_ms) for number in range(len(packets))]
    return [
        count * PACKET_BITS * 1000 / width_ms
        for count, width_ms in zip(packets, widths_ms, strict=True)
    ]


def binned_bps(times_ms: npt.NDArray[np.int64], bin_ms: int) -> npt.NDArray[np.float64]:
    """Return the rate in bit/s of each bin of one period of a trace."""
    period_ms = int(times_ms[-1])
    bins = -(-period_ms // bin_ms)
    packets = np.bincount(np.maximum(times_ms - 1, 0) // bin_ms, minlength=bins)
    widths_ms = np.minimum(bin_ms, period_ms - np.arange(bins) * bin_ms)
    rates_bps: npt.NDArray[np.float64] = packets * (PACKET_BITS * 1000) / widths_ms
    return rates_bps
