# SPDX-License-Identifier: GPL-3.0-or-later
"""A satellite's file from measurements: the parameters of its reconfigurations.

Each comes with the interval in which it lies with 99 % confidence. The grid is found from events:
outages, and delays that rise and fall by 1 ms each ms. Without four of them it is found from the
intervals' delays or rates: at the right phase they differ least within an interval. A round trip
does not tell its directions: each has half of the delay; the spread, and the loss between
reconfigurations, are the return direction's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from satlink import rtt
from satlink.estimates import (
    Estimate,
    deviation_of_steps,
    distance_and_median,
    mean_and_deviation,
    mean_of,
    share_pct,
    student,
)
from satlink.imported import Part, aligned, first_probes
from satlink.measured import LOST, LOST_FORWARD, LOST_RETURN, Numbers, Probes, Series

USUAL_GRID_S = 15.0
LEAST_GRID_S, GREATEST_GRID_S, GRID_STEP_S = 5.0, 60.0, 0.01
LEAST_EVENTS = 4
NEAR_S = 1.5
"""Time in s from a reconfiguration within which an event is its own, and that it may last."""
WINDOW_S = 0.8
"""The greatest distance in s between events of one grid."""
APART_S = 1.0
"""The least time between two events."""
SPIKE_FACTOR, TAIL_FACTOR, SPIKE_MS = 5.0, 1.2, 3.0
"""A delay is a spike so many times the usual spread above the usual one, and so many ms more; away
from the grid, so many times above the highest delay that the spread makes in the measurement.
"""
MEDIAN_DEVIATION = 0.4812
"""The median distance from the median of an exponential distribution with the mean 1."""
FIRST_HELD = 5
GUARD_S = 0.3
"""Time in s left out of an interval at both ends, besides what was lost and held."""
LEAST_INTERVALS = 3
LEAST_VALUES = 10
"""Values of an interval that tell its delay."""


@dataclass
class Fitted:
    """The values of a satellite by name, and remarks on them."""

    values: dict[str, Estimate] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    boundaries_s: Numbers = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class Delays:
    """Delays over time, of round trips or of one way (`ways` 2 or 1); nan where one was lost."""

    times_s: Numbers
    values_ms: Numbers
    ways: int
    outages: list[tuple[int, int]]
    """The places of the first and after the last value of each outage."""
    lost: npt.NDArray[np.int8]
    """Fate of each probe: answered, or lost in a direction if that is known."""

    @property
    def period_s(self) -> float:
        """Return the usual time between two values."""
        return float(np.median(np.diff(self.times_s))) if len(self.times_s) > 1 else 1.0


def fit(parts: Sequence[Part], grid_s: float | None = None) -> Fitted:
    """Return the parameters that the measurements have. Raises ValueError if they tell none."""
    parts, remarks = aligned(parts)
    fitted = Fitted(remarks=remarks)
    probes = first_probes(parts)
    series: dict[tuple[str, str], Series] = {}
    for part in parts:
        fitted.sources.append(f"{part.name} ({part.measured.format})")
        for curve in part.measured.series:
            direction = part.direction if part.direction != "both" else curve.direction
            series[curve.quantity, direction] = curve
    end_s = min(part.measured.end_s for part in parts)
    delays = _delays(probes, series)
    rates = {way: curve for (quantity, way), curve in series.items() if quantity == "rate_bps"}
    if delays is None and not rates:
        raise ValueError("neither a delay nor a rate in it")
    grid, phase = _grid(fitted, delays, rates, end_s, grid_s)
    _say_the_minute(fitted, parts, grid, phase)
    if delays is not None:
        _fit_delays(fitted, delays, grid.value, phase.value, end_s)
    for direction, rate in rates.items():
        _fit_rates(fitted, direction, rate, grid.value, phase.value, end_s)
    return fitted


def _delays(probes: Probes | None, series: dict[tuple[str, str], Series]) -> Delays | None:
    """Return the delays that tell most: of probes, else of one way."""
    if probes is not None:
        rows = rtt.rows_of(probes)
        outage = rtt.is_outage(rows)
        spans = []
        for start, length in zip(rows.starts[outage], rows.lengths[outage], strict=True):
            spans.append((int(start), int(start + length)))
        return Delays(probes.times_s, probes.rtts_ms, 2, spans, probes.lost)
    for direction in ("both", "forward", "return"):
        if ("delay_ms", direction) in series:
            delays = series["delay_ms", direction]
            none = np.zeros(len(delays.values), dtype=np.int8)
            return Delays(delays.times_s, delays.values, 1, [], none)
    return None


# The grid


def _grid(
    fitted: Fitted,
    delays: Delays | None,
    rates: dict[str, Series],
    end_s: float,
    given_s: float | None,
) -> tuple[Estimate, Estimate]:
    """Return period and phase of the grid, and put them among the values."""
    events_s = _events_s(delays) if delays is not None else np.zeros(0)
    grid = Estimate(given_s or USUAL_GRID_S)
    enough = len(events_s) >= LEAST_EVENTS
    by_events = _grid_of_events(events_s, given_s) if enough else None
    if by_events is not None:
        grid, phase, used = by_events
        # Before a reconfiguration packets are under way, which it loses or holds; and the first
        # probe that it meets is sent half an interval later.
        assert delays is not None
        shift_s = _one_way_s(delays) * (delays.ways == 2) - delays.period_s / 2
        # The time between two probes, and how long a packet is under way, are not known better.
        spread_ms = _usual_spread_ms(delays, _levels_by_second(delays))
        off_s = delays.period_s / 2 + 2 * spread_ms / 1000
        begin_s = (phase.value + shift_s) % grid.value
        low_s, high_s = phase.low - off_s - phase.value, phase.high + off_s - phase.value
        phase = Estimate(begin_s, begin_s + low_s, begin_s + high_s)
        fitted.remarks.append(f"the grid is that of {used} of {len(events_s)} events")
    else:
        phase = _phase_of_levels(delays, rates, grid.value, end_s)
        fitted.remarks.append(
            f"{len(events_s)} events are too few, or have no grid: a grid of {grid.value:g} s is"
            " assumed (--grid-s), its phase is that at which an interval's values differ least"
        )
    fitted.values["grid_s"] = grid
    fitted.values["grid_phase_s"] = phase
    return grid, phase


def _one_way_s(delays: Delays) -> float:
    return float(np.nanmedian(delays.values_ms)) / 1000 / delays.ways


def _events_s(delays: Delays) -> Numbers:
    """Return the begins of outages and of spikes, one for each event."""
    times_s = delays.times_s
    starts = [times_s[first] for first, _ in delays.outages]
    starts += times_s[_is_spike(delays)].tolist()
    starts.sort()
    events: list[float] = []
    last_s = -math.inf
    for start_s in starts:
        if start_s - last_s > APART_S:
            events.append(start_s)
        last_s = start_s
    return np.array(events)


def _levels_by_second(delays: Delays) -> Numbers:
    """Return the median of the values of each second; nan for one without."""
    known = np.isfinite(delays.values_ms)
    seconds = np.floor(delays.times_s).astype(np.int64)
    levels = np.full(int(seconds[-1]) + 1, np.nan)
    bins, firsts = np.unique(seconds[known], return_index=True)
    groups = np.split(delays.values_ms[known], firsts[1:])
    for number, group in zip(bins, groups, strict=True):
        levels[number] = np.median(group)
    return levels


def _usual_spread_ms(delays: Delays, levels: Numbers) -> float:
    """Return the mean of an exponential distribution with the median deviation of the delays."""
    own = levels[np.floor(delays.times_s).astype(np.int64)]
    deviations = np.abs(delays.values_ms - own)
    deviations = deviations[np.isfinite(deviations)]
    return float(np.median(deviations)) / MEDIAN_DEVIATION if len(deviations) else 0.0


def _is_spike(delays: Delays) -> npt.NDArray[np.bool_]:
    """Return for each value whether it is higher than any would be by chance."""
    levels = _levels_by_second(delays)
    around = np.array([levels, np.roll(levels, 1), np.roll(levels, -1), np.roll(levels, 2)])
    around[1, 0] = around[2, -1] = np.nan
    around[3, :2] = np.nan
    around[:, np.isnan(around).all(axis=0)] = np.inf
    # The highest of the seconds around: a step of the level is no spike.
    level = np.nanmax(around, axis=0)[np.floor(delays.times_s).astype(np.int64)]
    highest_ms = _usual_spread_ms(delays, levels) * math.log(len(delays.times_s) + 1)
    is_high = delays.values_ms > level + TAIL_FACTOR * highest_ms + SPIKE_MS
    return np.asarray(is_high, dtype=np.bool_)


def _grid_of_events(
    events_s: Numbers, given_s: float | None
) -> tuple[Estimate, Estimate, int] | None:
    """Return period and phase of events, and how many fit; None if they have no grid."""
    periods_s = (
        np.array([given_s]) if given_s else np.arange(LEAST_GRID_S, GREATEST_GRID_S, GRID_STEP_S)
    )
    counts, begins_s = _in_a_window(events_s, periods_s)
    # Parts of a period fit as well: the longest one that fits is the period.
    beyond_chance = counts - len(events_s) * WINDOW_S / periods_s
    fits = np.flatnonzero(beyond_chance > 0.9 * beyond_chance.max())
    groups = np.split(fits, np.flatnonzero(np.diff(fits) > 1) + 1)
    group = groups[-1]
    best = int(group[np.argmax(beyond_chance[group])])
    period_s = float(periods_s[best])
    expected = len(events_s) * WINDOW_S / period_s
    slots = (events_s[-1] - events_s[0]) / period_s + 1
    if counts[best] < max(LEAST_EVENTS, 3 * expected, 0.4 * slots):
        return None
    phase_s = float(begins_s[best]) + WINDOW_S / 2
    for _ in range(3):
        numbers = np.round((events_s - phase_s) / period_s)
        off_s = events_s - phase_s - numbers * period_s
        near = np.abs(off_s) < WINDOW_S / 2
        if near.sum() < LEAST_EVENTS or len(np.unique(numbers[near])) < 3:
            return None
        line = np.polyfit(numbers[near], events_s[near], 1)
        if given_s:
            line = np.array([given_s, (events_s - numbers * given_s)[near].mean()])
        period_s, phase_s = float(line[0]), float(line[1])
    kept, at = numbers[near], events_s[near]
    count = int(near.sum())
    rest_s = at - np.polyval(line, kept)
    deviation_s = max(float(np.sqrt((rest_s**2).sum() / max(count - 2, 1))), 1e-3)
    t = student(count - 2)
    spread = float(np.sqrt(((kept - kept.mean()) ** 2).sum()))
    off = t * deviation_s / spread
    rounded_s = round(period_s)
    if not given_s and abs(period_s - rounded_s) <= off and rounded_s >= LEAST_GRID_S:
        # A whole number of seconds, which the events do not contradict.
        period_s = float(rounded_s)
        rest_s = at - kept * period_s
        phase_s = float(rest_s.mean())
        deviation_s = max(float(rest_s.std(ddof=1)), 1e-3)
        phase_off_s = t * deviation_s / math.sqrt(count)
    else:
        phase_off_s = t * deviation_s * math.sqrt(1 / count + (kept.mean() / spread) ** 2)
    phase = Estimate(phase_s, phase_s - phase_off_s, phase_s + phase_off_s)
    return Estimate(period_s, period_s - off, period_s + off), phase, count


def _in_a_window(events_s: Numbers, periods_s: Numbers) -> tuple[Numbers, Numbers]:
    """Return for each period the most events in one window of it, and where the window begins."""
    counts, begins_s = np.zeros(len(periods_s)), np.zeros(len(periods_s))
    for number, period_s in enumerate(periods_s):
        phases_s = np.sort(events_s % period_s)
        twice_s = np.concatenate([phases_s, phases_s + period_s])
        ends = np.searchsorted(twice_s, phases_s + WINDOW_S, side="right")
        inside = ends - np.arange(len(phases_s))
        best = int(np.argmax(inside))
        counts[number] = inside[best]
        # In the middle of the events that are in it.
        last_s = twice_s[ends[best] - 1]
        begins_s[number] = (phases_s[best] + last_s - WINDOW_S) / 2
    return counts, begins_s


def _phase_of_levels(
    delays: Delays | None, rates: dict[str, Series], grid_s: float, end_s: float
) -> Estimate:
    """Return the phase at which the values within an interval differ least."""
    if rates:
        rate = next(iter(rates.values()))
        times_s, values = rate.times_s, rate.values
    else:
        assert delays is not None
        known = np.isfinite(delays.values_ms)
        times_s, values = delays.times_s[known], delays.values_ms[known]
        low, high = np.percentile(values, [1, 95])
        values = np.clip(values, low, high)
    step_s = max(float(np.median(np.diff(times_s))) if len(times_s) > 1 else 1.0, 0.1)
    phases_s = np.arange(0, grid_s, step_s)
    within = []
    for phase_s in phases_s:
        numbers = np.floor((times_s - phase_s) / grid_s).astype(np.int64)
        numbers -= numbers.min()
        counts = np.maximum(np.bincount(numbers), 1)
        means = np.bincount(numbers, weights=values) / counts
        within.append(float(((values - means[numbers]) ** 2).sum()))
    best = int(np.argmin(within))
    # Phases whose rest is hardly greater are as good.
    freedom = max(len(values) - int(end_s / grid_s) - 1, 1)
    limit = within[best] * (1 + 10.0 / freedom)
    good = phases_s[np.array(within) <= limit]
    off_s = (good - phases_s[best] + grid_s / 2) % grid_s - grid_s / 2
    return Estimate(
        float(phases_s[best]),
        float(phases_s[best] + off_s.min() - step_s),
        float(phases_s[best] + off_s.max() + step_s),
    )


def _say_the_minute(fitted: Fitted, parts: Sequence[Part], grid: Estimate, phase: Estimate) -> None:
    start_s = parts[0].measured.start_unix_s
    if start_s is None or 60 % grid.value:
        return
    first_s = (start_s + phase.value) % grid.value
    seconds = [f"{first_s + number * grid.value:.2f}" for number in range(int(60 / grid.value))]
    fitted.remarks.append(f"reconfigurations at seconds {', '.join(seconds)} of a minute (UTC)")


# Delays


class Boundary(NamedTuple):
    """A reconfiguration as it was seen: how long packets were lost, and held; when all was over."""

    lossy_s: float
    held_s: float
    over_s: float


def _fit_delays(
    fitted: Fitted, delays: Delays, grid_s: float, phase_s: float, end_s: float
) -> None:
    boundaries_s = np.arange(phase_s, end_s, grid_s)
    fitted.boundaries_s = boundaries_s
    one_way_s = _one_way_s(delays) * (delays.ways == 2)
    edges_s = np.concatenate([[phase_s - grid_s], boundaries_s, [boundaries_s[-1] + grid_s]])
    levels = _levels_ms(delays, edges_s)
    usual_ms = _usual_spread_ms(delays, _levels_by_second(delays))
    seen = []
    for number, boundary_s in enumerate(boundaries_s):
        whole = boundary_s - one_way_s > delays.period_s and boundary_s + NEAR_S < end_s
        if whole:
            seen.append(_boundary(delays, boundary_s, one_way_s, levels[number + 1], usual_ms))
    if not seen:
        raise ValueError("no reconfiguration is whole in it: measure for a longer time")
    over_s = max(event.over_s for event in seen)
    _fit_losses(fitted, delays, seen, boundaries_s, one_way_s, over_s)
    held_ms = np.array([1000 * event.held_s for event in seen])
    if (held_ms > 0).any():
        fitted.values["held_ms"], fitted.values["held_sd_ms"] = mean_and_deviation(held_ms)
    _fit_levels(fitted, delays, edges_s, one_way_s, over_s)


def _inside(
    delays: Delays, edges_s: Numbers, before_s: float, over_s: float
) -> list[npt.NDArray[np.int64]]:
    """Return the places of the values of each interval, without those near its ends."""
    groups = []
    for start_s, stop_s in pairwise(edges_s):
        ends_s = [start_s + over_s + GUARD_S, stop_s - before_s - GUARD_S]
        first, last = np.searchsorted(delays.times_s, ends_s)
        groups.append(np.arange(first, max(first, last)))
    return groups


def _levels_ms(delays: Delays, edges_s: Numbers) -> Numbers:
    """Return the median of each interval; nan without values."""
    levels_ms = []
    for places in _inside(delays, edges_s, 0.5, NEAR_S):
        values = delays.values_ms[places]
        values = values[np.isfinite(values)]
        levels_ms.append(float(np.median(values)) if len(values) else math.nan)
    return np.array(levels_ms)


def _boundary(
    delays: Delays, boundary_s: float, one_way_s: float, level_ms: float, usual_ms: float
) -> Boundary:
    """Return what a reconfiguration lost and held."""
    period_s, times_s = delays.period_s, delays.times_s
    before_s = boundary_s - one_way_s - GUARD_S
    lossy_s, lost_until_s = 0.0, boundary_s
    for first, after in delays.outages:
        if times_s[first] < boundary_s + NEAR_S / 2 and times_s[after - 1] > before_s:
            ends_s = times_s[min(after, len(times_s) - 1)] - period_s / 2
            began_s = times_s[first] - period_s / 2
            if not lossy_s:
                lossy_s = max(ends_s - began_s - one_way_s, period_s / 2)
                lost_until_s = ends_s
    first, last = np.searchsorted(times_s, [before_s, boundary_s + NEAR_S + lossy_s])
    places = np.arange(first, last)
    values = delays.values_ms[places]
    high = values > level_ms + SPIKE_FACTOR * usual_ms + SPIKE_MS
    if lossy_s:
        high &= times_s[places] > lost_until_s - period_s
    if not high.any() or math.isnan(level_ms):
        return Boundary(lossy_s, 0.0, lossy_s)
    # All that was held comes at one moment: time and delay together are that moment. The forward
    # direction holds others, to another moment: those of the highest delay are looked at.
    at_s, highest = times_s[places][high], int(np.argmax(values[high]))
    moments_s = at_s + (values[high] - level_ms) / 1000
    same = np.abs(moments_s - moments_s[highest]) < (1.5 * usual_ms + SPIKE_MS) / 1000
    # A single high delay without a loss before it may be chance.
    is_seen_often = 2000 * period_s < SPIKE_FACTOR * usual_ms + SPIKE_MS
    enough = 2 if is_seen_often and not lossy_s else 1
    over_s = max(float(at_s[-1]) - boundary_s, lossy_s)
    if same.sum() < enough:
        return Boundary(lossy_s, 0.0, over_s)
    moment_s = float(np.median(moments_s[same][:FIRST_HELD]))
    held_s = max(moment_s - float(at_s[same][0]) + period_s / 2, 0.0)
    return Boundary(lossy_s, held_s, over_s)


def _fit_losses(
    fitted: Fitted,
    delays: Delays,
    seen: Sequence[Boundary],
    boundaries_s: Numbers,
    one_way_s: float,
    over_s: float,
) -> None:
    if delays.ways == 1:
        fitted.remarks.append("delays of one way say nothing of a loss")
        return
    lossy_ms = np.array([1000 * event.lossy_s for event in seen if event.lossy_s])
    if len(lossy_ms):
        fitted.values["lossy_pct"] = share_pct(len(lossy_ms), len(seen))
        fitted.values["lossy_ms"], fitted.values["lossy_sd_ms"] = mean_and_deviation(lossy_ms)
    numbers = np.searchsorted(boundaries_s, delays.times_s + one_way_s + GUARD_S, side="right") - 1
    since_s = delays.times_s - boundaries_s[np.maximum(numbers, 0)]
    away = (numbers < 0) | (since_s > over_s + GUARD_S)
    in_outage = np.zeros(len(delays.times_s), dtype=bool)
    others = 0
    for first, after in delays.outages:
        in_outage[first:after] = True
        others += bool(away[first])
    away &= ~in_outage
    kinds, sent = delays.lost[away], int(away.sum())
    if LOST in kinds or not kinds.any():
        fitted.values["return_loss"] = share_pct(int((kinds > 0).sum()), sent)
    else:
        # Only what passed the return direction could be lost in the forward direction.
        back = int((kinds == LOST_RETURN).sum())
        fitted.values["return_loss"] = share_pct(back, sent)
        fitted.values["loss"] = share_pct(int((kinds == LOST_FORWARD).sum()), sent - back)
    if others:
        fitted.remarks.append(f"{others} outages away from the grid are in no value")


def _fit_levels(
    fitted: Fitted, delays: Delays, edges_s: Numbers, one_way_s: float, over_s: float
) -> None:
    """Put delay, its steps and its spread among the values."""
    bases_ms, spreads_ms, kept = [], [], []
    for places in _inside(delays, edges_s, one_way_s, over_s):
        values = delays.values_ms[places]
        values = values[np.isfinite(values)]
        if len(values) < LEAST_VALUES:
            continue
        low, middle, high = np.percentile(values, [10, 50, 90])
        # Of an exponential distribution: the quantiles are ln(1/0.9), ln 2 and ln 10 of its mean.
        spread_ms = (high - low) / math.log(9)
        spreads_ms.append(spread_ms)
        bases_ms.append(middle - math.log(2) * spread_ms)
        # A delay is kept or drawn anew, so that any function of it has the same correlation. The
        # high ones are cut: no packet overtakes another, so those after a high one are too high.
        kept.append(_correlation(np.minimum(values, middle)))
    if len(bases_ms) < LEAST_INTERVALS:
        text = f"{len(bases_ms)} intervals have enough values, {LEAST_INTERVALS} are the least"
        raise ValueError(f"{text}: measure for a longer time, or more often")
    bases = np.array(bases_ms) / delays.ways
    step, delay = distance_and_median(bases)
    fitted.values["delay_ms"], fitted.values["delay_step_ms"] = delay, step
    spread = mean_of(np.array(spreads_ms))
    names = ("return_spread_ms",) if delays.ways == 2 else ("forward_spread_ms", "return_spread_ms")
    for name in names:
        fitted.values[name] = Estimate(*(max(share, 0.0) for share in spread))
    if delays.period_s <= 0.05 and spread.value > 0:
        shares = [min(max(share, 0.0), 0.999) for share in mean_of(np.array(kept))]
        held_ms = [_hold_ms(share, delays.period_s) for share in shares]
        fitted.values["spread_hold_ms"] = Estimate(*held_ms)
    fitted.remarks.append(f"{len(bases_ms)} intervals")


def _correlation(values: Numbers) -> float:
    rest = values - values.mean()
    variance = float((rest * rest).mean())
    return float((rest[1:] * rest[:-1]).mean()) / variance if variance else 0.0


def _hold_ms(correlation: float, period_s: float) -> float:
    """Return how long a delay stays on average, from the correlation of two probes in a row.

    It is drawn anew each 10 ms with a probability: after n times 10 ms the correlation is the
    probability that it was not, to the power of n.
    """
    steps = period_s / 0.01
    whole = math.floor(steps)
    part = steps - whole
    low, high = 0.0, 1.0
    for _ in range(50):
        kept = (low + high) / 2
        if (1 - part) * kept**whole + part * kept ** (whole + 1) < correlation:
            low = kept
        else:
            high = kept
    return min(10 / (1 - low), 10_000.0)


def _fit_rates(
    fitted: Fitted, direction: str, rate: Series, grid_s: float, phase_s: float, end_s: float
) -> None:
    edges_s = np.arange(phase_s - grid_s, end_s + grid_s, grid_s)
    widths_s = np.diff(np.append(rate.times_s, end_s))
    # A value before a gap does not hold for it.
    widths_s = np.minimum(widths_s, 2 * float(np.median(widths_s)))
    numbers = np.searchsorted(edges_s, rate.times_s, side="right") - 1
    means, kept = [], []
    for number in np.unique(numbers):
        mine = numbers == number
        since_s = rate.times_s[mine] - edges_s[number]
        inside = (since_s >= NEAR_S / 2) & (since_s + widths_s[mine] <= grid_s)
        if (widths_s[mine][inside]).sum() > grid_s / 2:
            means.append(np.average(rate.values[mine][inside], weights=widths_s[mine][inside]))
            kept.append(number)
    if len(means) < 3:
        fitted.remarks.append(f"{len(means)} intervals are too few for a rate")
        return
    mean = mean_of(np.array(means))
    follows = np.diff(kept) == 1
    if not follows.any():
        text = "no two intervals with a rate follow each other: no step of it is known"
        fitted.remarks.append(text)
        return
    deviation = deviation_of_steps(np.diff(means)[follows])
    share = Estimate(*(min(100 * value / mean.value, 100.0) for value in deviation))
    names = (
        ("rate", "return_rate")
        if direction == "both"
        else (("rate",) if direction == "forward" else ("return_rate",))
    )
    for name in names:
        fitted.values[name] = mean
    if direction != "return" or "rate_sd_pct" not in fitted.values:
        fitted.values["rate_sd_pct"] = share
    fitted.remarks.append(f"{len(means)} intervals have a rate ({direction})")
