# SPDX-License-Identifier: GPL-3.0-or-later
"""One link from several measurements: rate, delay and loss of both directions over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from openbach_jobs.link_file import LEAST_RATE_BPS, Change, State
from satlink import rtt
from satlink.measured import LOST, Measured, Numbers, Probes, Series

RATE_BPS, DELAY_MS = 10e6, 250.0
"""The rate and the delay of a link of which no file says them."""
DIRECTIONS = ("forward", "return")
OTHER = {"forward": "return", "return": "forward"}
QUANTITIES = ("rate_bps", "delay_ms", "loss_pct")
WORDS = {"rate_bps": "a rate", "delay_ms": "a delay", "loss_pct": "a loss"}
ENDS_APART = 0.01
"""The share by which the lengths of files may differ without a word."""


class Part(NamedTuple):
    """A file's name, the direction that the user gave for it, and what it says."""

    name: str
    direction: str
    measured: Measured
    is_rate_only: bool = False
    """True if its delay and loss are left out."""


class Options(NamedTuple):
    """Values of the link that the user gives; None where there is none."""

    bin_s: float | None = None
    rate_bps: float | None = None
    delay_ms: float | None = None


class Link(NamedTuple):
    """A link: the changes of its directions, until when, and what was assumed."""

    series: dict[tuple[str, str], Series]
    """Series by quantity and direction."""
    end_s: float
    assumed: list[str]


def link_of(parts: Sequence[Part], options: Options) -> Link:
    """Return the link of some measurements. Raises ValueError for what contradicts itself."""
    parts, assumed = aligned(parts)
    end_s = min(part.measured.end_s for part in parts)
    longest_s = max(part.measured.end_s for part in parts)
    if options.bin_s is not None and all(part.measured.probes is not None for part in parts):
        # The last bin is whole; rounded, as multiples of 0.1 have an error in binary.
        end_s = min(_whole_bins_s(part.measured, options.bin_s) for part in parts)
    elif longest_s > end_s * (1 + ENDS_APART):
        shortest = min(parts, key=lambda part: part.measured.end_s)
        assumed.append(
            f"the link ends with {shortest.name}, at {end_s:g} s: the rest of the others is left"
            " out"
        )
    known: dict[tuple[str, str], Series] = {}
    names: dict[tuple[str, str], str] = {}
    for part in parts:
        for curve in _series_of(part, options, assumed):
            for direction in DIRECTIONS if curve.direction == "both" else (curve.direction,):
                place = curve.quantity, direction
                if place in known and names[place] != part.name:
                    raise ValueError(
                        f"{names[place]} and {part.name} both have {WORDS[curve.quantity]} of the"
                        f" direction {direction}: give one, or say whose direction each is"
                        " (--forward FILE, --return FILE)"
                    )
                if place not in known or curve.direction != "both":
                    known[place], names[place] = curve, part.name
    _complete(known, options, assumed)
    return Link(known, end_s, assumed)


def _whole_bins_s(measured: Measured, bin_s: float) -> float:
    assert measured.probes is not None
    last_s = float(measured.probes.times_s[-1])
    return round((int(last_s / bin_s + 1e-12) + 1) * bin_s, 9)


def first_probes(parts: Sequence[Part]) -> Probes | None:
    """Return the probes of the first measurement that has any."""
    every = (part.measured.probes for part in parts)
    return next((probes for probes in every if probes is not None), None)


def aligned(parts: Sequence[Part]) -> tuple[list[Part], list[str]]:
    """Return the measurements on one clock: by the time of day if all say it, else from 0 on."""
    begun_s = [part.measured.start_unix_s for part in parts]
    if len(parts) == 1:
        return list(parts), []
    known = [time_s for time_s in begun_s if time_s is not None]
    if len(known) < len(parts):
        return list(parts), ["all files begin at the same time"]
    begin_s = max(known)
    aligned = []
    for part, start_s in zip(parts, known, strict=True):
        ahead_s = begin_s - start_s
        if ahead_s >= part.measured.end_s:
            raise ValueError(f"{part.name} ends before another file begins: no time is in all")
        aligned.append(part._replace(measured=_later(part.measured, ahead_s)))
    return aligned, ["the files are aligned by the time of day that they have"]


def cut(measured: Measured, from_s: float, to_s: float | None) -> Measured:
    """Return the part of a measurement between two times. Raises ValueError if nothing is left."""
    if from_s >= measured.end_s or (to_s is not None and to_s <= from_s):
        raise ValueError(
            f"nothing is measured from {from_s:g} s on: it ends at {measured.end_s:g} s"
            if from_s >= measured.end_s
            else f"--to-s {to_s:g} is not after --from-s {from_s:g}"
        )
    part = _later(measured, from_s) if from_s else measured
    if part.start_unix_s is not None:
        part = replace(part, start_unix_s=part.start_unix_s + from_s)
    if to_s is None or to_s >= measured.end_s:
        return part
    end_s = to_s - from_s
    series = []
    for curve in part.series:
        keep = curve.times_s < end_s
        series.append(replace(curve, times_s=curve.times_s[keep], values=curve.values[keep]))
    probes = part.probes
    if probes is not None:
        keep = probes.times_s < end_s
        probes = Probes(probes.times_s[keep], probes.rtts_ms[keep], probes.lost[keep])
    return replace(part, series=tuple(series), probes=probes, end_s=end_s)


def _later(measured: Measured, ahead_s: float) -> Measured:
    """Return a measurement from `ahead_s` on."""
    series = []
    for curve in measured.series:
        first = max(int(np.searchsorted(curve.times_s, ahead_s, side="right")) - 1, 0)
        times_s = np.maximum(curve.times_s[first:] - ahead_s, 0.0)
        series.append(replace(curve, times_s=times_s, values=curve.values[first:]))
    probes = measured.probes
    if probes is not None:
        keep = probes.times_s >= ahead_s
        probes = replace(
            probes,
            times_s=probes.times_s[keep] - ahead_s,
            rtts_ms=probes.rtts_ms[keep],
            lost=probes.lost[keep],
        )
    return replace(measured, series=tuple(series), probes=probes, end_s=measured.end_s - ahead_s)


def _series_of(part: Part, options: Options, assumed: list[str]) -> list[Series]:
    """Return the series of a file, its probes made into delay and loss."""
    measured = part.measured
    every = list(measured.series)
    if measured.probes is not None and not part.is_rate_only:
        has_delay = any(curve.quantity == "delay_ms" for curve in every)
        for curve in rtt.series(measured.probes, options.bin_s):
            if curve.quantity != "delay_ms" or not has_delay:
                every.append(curve)
        if bool((measured.probes.lost == LOST).any()):
            assumed.append("in which direction a probe was lost is not known: both lose the same")
        if options.bin_s is None and not has_delay:
            assumed.append(
                f"a delay is half of the median RTT of {rtt.bin_s_of(measured.probes):g} s"
                " (--bin-s)"
            )
    if part.is_rate_only:
        every = [curve for curve in every if curve.quantity == "rate_bps"]
    if part.direction != "both":
        every = [replace(curve, direction=part.direction) for curve in every]
    return every


def _complete(known: dict[tuple[str, str], Series], options: Options, assumed: list[str]) -> None:
    """Add what no file says: from the other direction, or what is assumed of any link."""
    defaults = {"rate_bps": options.rate_bps, "delay_ms": options.delay_ms}
    names = {"rate_bps": "--rate-bps", "delay_ms": "--delay-ms"}
    for quantity, value in defaults.items():
        directions = [direction for direction in DIRECTIONS if (quantity, direction) in known]
        if value is not None and len(directions) == 2:
            raise ValueError(
                f"{names[quantity]}: the files have {WORDS[quantity]} of both directions; leave"
                " this out"
            )
        for direction in DIRECTIONS:
            if direction in directions:
                continue
            if value is not None:
                known[quantity, direction] = _constant(quantity, direction, value)
            elif directions:
                known[quantity, direction] = known[quantity, OTHER[direction]]
                assumed.append(
                    f"the {direction} direction has {WORDS[quantity]} like the other"
                    f" ({names[quantity]})"
                )
        if not directions and value is None and quantity == "rate_bps":
            assumed.append(f"a rate of {RATE_BPS / 1e6:g} Mbit/s in each direction (--rate-bps)")
        if not directions and value is None and quantity == "delay_ms":
            assumed.append(
                f"a delay of {DELAY_MS:g} ms in each direction: no file has one (--delay-ms)"
            )
    for direction in DIRECTIONS:
        for quantity, usual in (("rate_bps", RATE_BPS), ("delay_ms", DELAY_MS), ("loss_pct", 0.0)):
            if (quantity, direction) not in known:
                known[quantity, direction] = _constant(quantity, direction, usual)


def _constant(quantity: str, direction: str, value: float) -> Series:
    return Series(quantity, direction, np.zeros(1), np.array([value]))


def changes(link: Link) -> Iterator[Change]:
    """Yield the changes of a link in the order of time, forward before return."""
    merged: list[tuple[Numbers, list[list[float]]]] = []
    for direction in DIRECTIONS:
        series = [link.series[quantity, direction] for quantity in QUANTITIES]
        times_s = np.unique(np.concatenate([[0.0], *(curve.times_s for curve in series)]))
        times_s = times_s[times_s < link.end_s]
        rows = []
        for curve in series:
            places = np.maximum(np.searchsorted(curve.times_s, times_s, side="right") - 1, 0)
            rows.append(curve.values[places])
        rows[0] = np.where(rows[0] < LEAST_RATE_BPS, 0.0, rows[0])
        changed = np.ones(len(times_s), dtype=bool)
        changed[1:] = np.any([np.diff(row) != 0 for row in rows], axis=0)
        merged.append((times_s[changed], [row[changed].tolist() for row in rows]))
    yield from _by_time(merged)


def _by_time(merged: list[tuple[Numbers, list[list[float]]]]) -> Iterator[Change]:
    columns = []
    for direction, (times_s, rows) in zip(DIRECTIONS, merged, strict=True):
        states = [State(*row) for row in zip(*rows, strict=True)]
        columns.append(
            [
                Change(at_s, direction, state)
                for at_s, state in zip(times_s.tolist(), states, strict=True)
            ]
        )
    forward, back = columns
    place = 0
    for change in forward:
        while place < len(back) and back[place].time_s < change.time_s:
            yield back[place]
            place += 1
        yield change
        if place < len(back) and back[place].time_s == change.time_s:
            yield back[place]
            place += 1
    yield from back[place:]
