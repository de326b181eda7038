# SPDX-License-Identifier: GPL-3.0-or-later
"""Traces of emulators: mahimahi's packets, delays at even times, OpenSAND's delay files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from openbach_jobs.link_file import LinkFileError
from satlink import mahimahi, opensand
from satlink.measured import Measured, Numbers, Options, Series, shown

FEW = 0.001
"""The share of steps back, below which times that go back are a mistake in a mahimahi trace."""
OPENSAND_ROW = re.compile(r"\s*\d{1,7}\s+\d{1,7}\s*")


def is_trace(lines: list[str]) -> bool:
    """Return whether these first lines may be numbers, one in a line."""
    shown_lines = [line for line in lines if line]
    return bool(shown_lines) and sum(map(_is_number, shown_lines)) > len(shown_lines) / 2


def is_opensand(lines: list[str]) -> bool:
    """Return whether these first lines may be a delay file of OpenSAND."""
    rows = [line for line in lines if line and not line.startswith("#")]
    return bool(rows) and all(OPENSAND_ROW.fullmatch(line) for line in rows)


def _is_number(line: str) -> bool:
    try:
        float(line)
    except ValueError:
        return False
    return True


def read(path: Path, text: str, options: Options) -> Measured:
    """Return a trace of one number in a line: of mahimahi if the numbers only rise, else delays.

    Raises LinkFileError.
    """
    values = _numbers(path, text)
    steps = np.diff(values)
    falls = int((steps < 0).sum())
    is_whole = bool(np.all(values == np.floor(values)))
    rises = bool(np.any(steps > 0)) or len(values) == 1
    if is_whole and rises and falls <= FEW * len(values):
        if falls:
            place = int(np.argmax(steps < 0)) + 1
            line = _line_of(text, place)
            raise LinkFileError(
                path,
                f"{values[place]:g} after {values[place - 1]:g}: times must not go back"
                " (a trace of mahimahi)",
                line,
            )
        return _mahimahi(path, values, options)
    return _delays(values, options)


def _numbers(path: Path, text: str) -> Numbers:
    cells = text.split()
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        values = np.array([])
    good = len(values) == len(cells) and bool(np.all((values >= 0) & (values < 1e9)))
    if good and len(cells) > 0:
        return values
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped and not (_is_number(stripped) and 0 <= float(stripped) < 1e9):
            raise LinkFileError(path, f"{shown(stripped)} is not a number of milliseconds", number)
    raise LinkFileError(path, "no number in it")


def _line_of(text: str, place: int) -> int:
    """Return the number of the line that has number `place` of a text."""
    seen = -1
    for number, line in enumerate(text.split("\n"), 1):
        seen += bool(line.strip())
        if seen == place:
            return number
    return 0


def _mahimahi(path: Path, values: Numbers, options: Options) -> Measured:
    """Return the rates of a trace of mahimahi."""
    if values[-1] < 1:
        raise LinkFileError(path, "no packet after 0 ms: a trace needs a length")
    period_ms = int(values[-1])
    if period_ms / options.bin_ms > 1e7:
        raise LinkFileError(path, f"{period_ms} ms: too long for bins of {options.bin_ms} ms")
    rates_bps = mahimahi.binned_bps(values.astype(np.int64), options.bin_ms)
    times_s = np.arange(len(rates_bps)) * options.bin_ms / 1000
    assumed = [
        f"a rate is what may pass in {options.bin_ms} ms (--bin-ms), a packet being 1500 bytes"
    ]
    series = (Series("rate_bps", "both", times_s, rates_bps),)
    return Measured(None, series, period_ms / 1000, assumed, format="a trace of mahimahi")


def _delays(values: Numbers, options: Options) -> Measured:
    """Return delays of one way at even times."""
    period_s = options.delay_period_ms / 1000
    times_s = np.round(np.arange(len(values)) * period_s, 9)
    assumed = [
        f"a line is the delay of one way in ms, a line for each {options.delay_period_ms:g} ms"
        " (--delay-period-ms)"
    ]
    series = (Series("delay_ms", "both", times_s, values),)
    return Measured(None, series, len(values) * period_s, assumed, format="a trace of delays")


def read_opensand(path: Path, text: str, options: Options) -> Measured:
    """Return the delays of one delay file of OpenSAND: from a ground entity to the satellite.

    The other hop is taken to be the same. Raises LinkFileError.
    """
    delays = opensand.parsed(path, text)
    period_s = options.refresh_period_ms / 1000
    count = delays[-1][0] + 1
    if count > 1_000_000:
        raise LinkFileError(path, f"{count} refresh periods: at most 1000000 are read")
    values = np.array([2.0 * opensand.delay_ms(delays, time) for time in range(count)])
    times_s = np.round(np.arange(count) * period_s, 9)
    assumed = [
        f"a refresh period is {options.refresh_period_ms} ms (--refresh-period-ms)",
        "the hop between gateway and satellite has the same delay (`link opensand` takes two"
        " files)",
    ]
    return Measured(None, (Series("delay_ms", "both", times_s, values),), count * period_s, assumed)
