# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements of a link: probes (round trips), and series of rates, delays and losses."""

from __future__ import annotations

import gzip
import math
import os
import stat
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openbach_jobs.link_file import LinkFileError

Numbers = npt.NDArray[np.float64]
ANSWERED, LOST, LOST_FORWARD, LOST_RETURN = range(4)
"""Fates of a probe. The direction in which it was lost may not be known."""
USUAL_INTERVAL_S = 1.0
"""The time between two probes of ping and fping by default."""
FILE_BYTES = 512 << 20
LONG_GAP = 20.0
"""A gap of so many usual intervals (and above LONG_GAP_S) is no measurement: it is left out."""
LONG_GAP_S = 60.0
GAP_INTERVALS = 5.0
"""A gap of more usual intervals than these may be probes that were lost and not written."""
GZIP = b"\x1f\x8b"
BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
OLD_ENCODING = "cp1252"
"""Encoding of texts that are not UTF-8: an older Windows writes it."""


class Probe(NamedTuple):
    """A packet sent at `time_s` after the first one, answered after `rtt_ms` (nan: lost)."""

    time_s: float
    rtt_ms: float
    lost: int


@dataclass(frozen=True)
class Probes:
    """Packets and their answers, in the order of their sending."""

    times_s: Numbers
    rtts_ms: Numbers
    """nan where there was no answer."""
    lost: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.times_s)

    def rows(self) -> list[Probe]:
        """Return the probes one by one."""
        columns = (self.times_s.tolist(), self.rtts_ms.tolist(), self.lost.tolist())
        return [Probe(*row) for row in zip(*columns, strict=True)]

    @property
    def period_s(self) -> float:
        """Return the usual time between two probes in s."""
        gaps_s = np.diff(self.times_s)
        gaps_s = gaps_s[gaps_s > 0]
        return float(np.median(gaps_s)) if len(gaps_s) else USUAL_INTERVAL_S

    @property
    def end_s(self) -> float:
        """Return the time in s at which the next probe would have been sent."""
        return round(float(self.times_s[-1]) + self.period_s, 9)


@dataclass(frozen=True)
class Series:
    """Values of one quantity over time; each holds until the next one."""

    quantity: str
    """rate_bps, delay_ms (one way) or loss_pct."""
    direction: str
    """forward, return or both."""
    times_s: Numbers
    values: Numbers


@dataclass(frozen=True)
class Measured:
    """The link as a file has it, from 0 s to `end_s`, and what was assumed of it."""

    probes: Probes | None = None
    series: tuple[Series, ...] = ()
    end_s: float = 0.0
    assumed: list[str] = field(default_factory=list)
    start_unix_s: float | None = None
    """The time of day at 0 s, if the file says it."""
    format: str = ""


@dataclass(frozen=True)
class Options:
    """Facts of a file that the user gives, as the file does not."""

    interval_s: float | None = None
    bin_ms: int = 100
    refresh_period_ms: int = 1000
    delay_period_ms: float = 10.0
    only: tuple[tuple[str, str], ...] = ()
    """Pairs of a name and its value, of several measurements in a file."""
    take_throughput: bool = False
    gaps_are_lost: bool = False
    times_of_answers: bool = False
    """The times of a CSV file are those of the answers, not of the sending."""
    whole_minutes: bool = False
    """Gaps are shortened by whole minutes, so that a grid in the minute stays where it is."""


def content(path: Path) -> bytes:
    """Return what is in a file, unpacked if it is gzip. Raises LinkFileError."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise LinkFileError(path, "not a regular file")
        packed = path.open("rb").read(2) == GZIP
        with gzip.open(path) if packed else path.open("rb") as file:
            data = file.read(FILE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise LinkFileError(path, text) from error
    if len(data) > FILE_BYTES:
        raise LinkFileError(path, f"more than {FILE_BYTES >> 20} MiB: measure for a shorter time")
    return data


def text_of(raw: bytes) -> str:
    """Return the text of a file.

    It is UTF-8 or UTF-16 with a byte-order mark, else UTF-8, else the encoding of an older Windows.
    """
    for mark, encoding in BOMS:
        if raw.startswith(mark):
            return raw.decode(encoding, errors="replace")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode(OLD_ENCODING, errors="replace")


def shown(text: str) -> str:
    """Return a line as an error shows it: quoted, and not too long."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


def number_of(path: Path, text: str, name: str, line: int = 0) -> float:
    """Return a number from 0 on. Raises LinkFileError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e12:
        raise LinkFileError(path, f"{shown(text)} is not a number from 0 on", line, name)
    return value


def probes_of(times_s: Any, rtts_ms: Any, lost: Any = None) -> Probes:
    """Return probes sorted by their time, from 0 s on; `lost` is by default what has no RTT."""
    times = np.asarray(times_s, dtype=np.float64)
    rtts = np.asarray(rtts_ms, dtype=np.float64)
    kinds = np.isnan(rtts) * LOST if lost is None else np.asarray(lost)
    order = np.argsort(times, kind="stable")
    begin_s = times[order[0]] if len(order) else 0.0
    return Probes(
        times[order] - begin_s, np.where(kinds > 0, np.nan, rtts)[order], kinds[order].astype("i1")
    )


def one_after_the_other(runs: Sequence[Probes]) -> Probes:
    """Return the probes of several measurements, each begun when the one before has ended."""
    start_s = 0.0
    times_s = []
    for run in runs:
        times_s.append(start_s + run.times_s)
        start_s += run.end_s
    return Probes(
        np.concatenate(times_s),
        np.concatenate([run.rtts_ms for run in runs]),
        np.concatenate([run.lost for run in runs]),
    )


def several(runs: Sequence[Any], what: str) -> list[str]:
    """Return what is assumed of a file with several runs; [] for one run."""
    text = "are in the file: one follows the other, without the time between them"
    return [f"{len(runs)} {what} {text}"] if len(runs) > 1 else []


def with_gaps_lost(probes: Probes) -> tuple[Probes, int, float]:
    """Return probes with a lost one for each usual interval of each gap.

    The others are the number of gaps, and how long they are together in s.
    """
    gaps_s = np.diff(probes.times_s)
    period_s = probes.period_s
    missing = np.where(
        gaps_s > GAP_INTERVALS * period_s, np.round(gaps_s / period_s).astype(np.int64) - 1, 0
    )
    count = int((missing > 0).sum())
    if missing.sum() > len(probes) * GAP_INTERVALS:
        return probes, count, float(gaps_s[missing > 0].sum())
    times_s = [probes.times_s]
    for place in np.flatnonzero(missing):
        steps = np.arange(1, missing[place] + 1) / (missing[place] + 1)
        times_s.append(probes.times_s[place] + steps * gaps_s[place])
    added = sum(map(len, times_s[1:]))
    filled = probes_of(
        np.concatenate(times_s),
        np.concatenate([probes.rtts_ms, np.full(added, np.nan)]),
        np.concatenate([probes.lost, np.full(added, LOST, dtype=np.int8)]),
    )
    return filled, count, float(gaps_s[missing > 0].sum())


def without_gaps(times_s: Numbers, whole_minutes: bool = False) -> tuple[Numbers, list[str]]:
    """Return times without the gaps in which nothing was measured, and a text on these."""
    gaps_s = np.diff(times_s)
    if not len(gaps_s) or not np.any(gaps_s > 0):
        return times_s, []
    usual_s = float(np.median(gaps_s[gaps_s > 0]))
    long = gaps_s > max(LONG_GAP * usual_s, LONG_GAP_S)
    if not np.any(long):
        return times_s, []
    shorter_by_s = gaps_s - usual_s
    if whole_minutes:
        shorter_by_s = np.floor(shorter_by_s / 60) * 60
    cut_s = np.where(long, shorter_by_s, 0.0)
    shorter = times_s - np.concatenate([[0.0], np.cumsum(cut_s)])
    return shorter, [
        f"{int(long.sum())} gaps without a measurement, {cut_s.sum():.0f} s together, are left out"
    ]
