# SPDX-License-Identifier: GPL-3.0-or-later
"""Two links side by side: measurements, link files or satellites, in the statistics that matter.

A satellite and a link file are measured by pings (pings.py) as often as the other side was, and for
at least half an hour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from openbach_jobs import constellation, link_file, netem, presets, reconfigurations
from openbach_run.drawing import COLOURS, SETTINGS, STYLES, WIDTH_IN
from openbach_run.progress import Progress
from satlink import fit, pings, rtt
from satlink.imported import Part, first_probes
from satlink.measured import Measured, Numbers, Probes
from satlink.plot import kind_of, save

LEAST_S = 1800.0
USUAL_PERIOD_S = 0.02
AROUND_S = 1.5
"""Time in s after a reconfiguration that is around it, as is half a second before."""
BEFORE_S = 0.5
QUANTILES = (5, 25, 50, 75, 95, 99)
LAGS_S = (0.1, 1.0, 5.0, 15.0, 30.0)
FOLD_S = 0.1
DRAWS, LEAST_DRAWS, DRAWN_PROBES = 40, 10, 400_000
"""Numbers of draws of a satellite that tell what chance does, and of probes in all of them."""
CHANCE_PCT = 90


@dataclass(frozen=True)
class Side:
    """One of the two: its probes, rates over time (if it has any), and its reconfigurations."""

    name: str
    probes: Probes
    ways: int
    rates: dict[str, tuple[Numbers, Numbers]]
    boundaries_s: Numbers

    def since_s(self) -> Numbers:
        """Return the time of each probe since the reconfiguration before.

        Just before one it is the time until then, below 0.
        """
        if not len(self.boundaries_s):
            return np.full(len(self.probes), math.inf)
        next_one = np.searchsorted(self.boundaries_s, self.probes.times_s + BEFORE_S, side="right")
        since = self.probes.times_s - self.boundaries_s[np.maximum(next_one - 1, 0)]
        return np.asarray(np.where(next_one == 0, math.inf, since), dtype=np.float64)

    def is_around(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return for each probe whether a reconfiguration is near."""
        return np.asarray(self.since_s() < AROUND_S, dtype=np.bool_)


def measured_side(name: str, parts: list[Part]) -> Side:
    """Return a measurement as a side. Raises ValueError if it has no delay."""
    probes = first_probes(parts)
    ways = 2
    fitted = fit.Fitted()
    with suppress(ValueError):  # too short for a grid: everything is within
        fitted = fit.fit(parts)
    rates = {}
    for part in parts:
        for curve in part.measured.series:
            if curve.quantity == "rate_bps":
                direction = part.direction if part.direction != "both" else curve.direction
                for each in ("forward", "return") if direction == "both" else (direction,):
                    rates[each] = (curve.times_s, curve.values)
            elif curve.quantity == "delay_ms" and probes is None:
                lost = np.zeros(len(curve.values), dtype=np.int8)
                probes, ways = Probes(curve.times_s, curve.values, lost), 1
    if probes is None:
        raise ValueError(f"{name}: no delay in it")
    return Side(name, probes, ways, rates, fitted.boundaries_s)


def link_file_side(name: str, path: Path, like: Side | None, seed: int) -> Side:
    """Return a link file as a side: what pings would meet on it."""
    summary = link_file.check(path)
    until_s = max(LEAST_S, summary.duration_s) if summary.repeats else summary.duration_s
    if until_s <= 0:
        raise ValueError(f"{path}: one state, for no time: nothing to compare")
    if not summary.has_delay:
        raise ValueError(f"{path}: rates only, no delay to compare")
    return _pinged(name, link_file.read(path), until_s, like, seed, None, {})


def satellite_side(
    name: str, preset: presets.Preset, like: Side | None, seed: int, until_s: float | None = None
) -> Side:
    """Return a satellite as a side: what pings would meet on it.

    They go on for `until_s`; without it for as long as `like`, and at least for LEAST_S.
    """
    if preset.link_file:
        return link_file_side(name, preset.link_file, like, seed)
    texts = presets.in_force({}, preset)
    if texts["access"] == presets.DAMA or texts["forward"] == presets.DVBS2:
        raise ValueError(
            f"{name}: only links of rates are compared, not a return link that has to be asked for"
            " (access: dama) or a forward link in frames (forward: dvbs2)"
        )
    rates_bps, loss_pct = {}, {}
    for direction, prefix in (("forward", ""), ("return", "return_")):
        rate, loss = texts[f"{prefix}rate"], texts[f"{prefix}loss"]
        rates_bps[direction] = presets.rate_bps(texts["rate"] if rate == presets.SAME else rate)
        loss_pct[direction] = netem.percent(texts["loss"] if loss == presets.SAME else loss)
    if until_s is None:
        until_s = max(LEAST_S, float(like.probes.times_s[-1]) if like else 0.0)
    grid = preset.reconfigurations
    boundaries_s = np.zeros(0)
    if grid is not None:
        delay_ms = preset.constellation or presets.delay_ms(texts["delay_ms"])
        played = reconfigurations.changes(grid, seed, rates_bps, delay_ms)
        first_s = reconfigurations.first_s(grid, seed) or grid.grid_s
        boundaries_s = np.arange(first_s, until_s, grid.grid_s)
    elif preset.constellation is not None:
        played = (
            change._replace(state=change.state._replace(rate_bps=rates_bps[change.direction]))
            if change.state.rate_bps
            else change
            for change in constellation.changes(preset.constellation)
        )
        handover_s = preset.constellation.handover_s
        boundaries_s = np.arange(handover_s, until_s, handover_s)
    else:
        raise ValueError(f"{name} does not change with time: nothing to compare")
    return _pinged(name, played, until_s, like, seed, boundaries_s, loss_pct)


def _pinged(
    name: str,
    played: Iterator[link_file.Change],
    until_s: float,
    like: Side | None,
    seed: int,
    boundaries_s: Numbers | None,
    loss_pct: dict[str, float],
) -> Side:
    period_s = max(like.probes.period_s if like else USUAL_PERIOD_S, until_s / 1e6)
    times_s = np.arange(0, until_s, period_s)
    states = pings.states(played, until_s + pings.TAIL_S)
    ways = like.ways if like else 2
    if ways == 2:
        probes = pings.sent(states, times_s, seed, loss_pct)
    else:
        probes = pings.sent_one_way(states["forward"], times_s)
    if boundaries_s is None:
        part = Part(name, "both", Measured(probes, (), probes.end_s, [], None, "pings"))
        boundaries_s = measured_side(name, [part]).boundaries_s
    rates = {way: (of_way.times_s, of_way.rates_bps) for way, of_way in states.items()}
    return Side(name, probes, ways, rates, boundaries_s)


class Row(NamedTuple):
    """A line of the table: a statistic of both sides."""

    name: str
    unit: str
    values: tuple[float, float]
    chance: tuple[float, float] | None = None
    """Interval of its values on the second side in a time as short as that of the first one."""

    @property
    def is_chance(self) -> bool:
        """Return whether the first side lies where chance alone puts it."""
        return self.chance is not None and self.chance[0] <= self.values[0] <= self.chance[1]

    @property
    def off_pct(self) -> float:
        """Return by how much the second side differs; nan where the first is 0 or not known."""
        first, other = self.values
        return 100 * (other - first) / first if first and math.isfinite(first) else math.nan


def table(
    first: Side, other: Side, chance: dict[str, tuple[float, float]] | None = None
) -> list[Row]:
    """Return the statistics that both sides have. `chance` is what by_chance() returned."""
    statistics, others = _statistics(first), _statistics(other)
    rows = []
    for name, (unit, value) in statistics.items():
        if name in others:
            rows.append(Row(name, unit, (value, others[name][1]), (chance or {}).get(name)))
    return rows


def by_chance(
    name: str, preset: presets.Preset, like: Side, seed: int, progress: Progress
) -> dict[str, tuple[float, float]]:
    """Return the interval that each statistic of a satellite has in a time as short as `like`.

    A measurement of a few intervals of the grid differs from the satellite that made it. The
    interval has CHANCE_PCT of the draws in it. A statistic that not every draw has is left out, as
    are all of a measurement too long to be drawn LEAST_DRAWS times.
    """
    draws = min(DRAWS, DRAWN_PROBES // max(len(like.probes), 1))
    if preset.reconfigurations is None or draws < LEAST_DRAWS:
        return {}
    end_s = float(like.probes.times_s[-1])
    drawn: dict[str, list[float]] = {}
    for number in range(draws):
        progress(f"draw {number + 1} of {draws} of {name}", number / draws)
        side = satellite_side(name, preset, like, seed + number, end_s)
        for statistic, (_, value) in _statistics(side).items():
            drawn.setdefault(statistic, []).append(value)
    outside_pct = (100 - CHANCE_PCT) / 2
    by_statistic = {}
    for statistic, values in drawn.items():
        if len(values) == draws and all(math.isfinite(value) for value in values):
            low, high = np.percentile(values, [outside_pct, 100 - outside_pct])
            by_statistic[statistic] = (float(low), float(high))
    return by_statistic


def _statistics(side: Side) -> dict[str, tuple[str, float]]:
    probes, around = side.probes, side.is_around()
    word = "RTT" if side.ways == 2 else "delay"
    lost = probes.lost > 0
    statistics: dict[str, tuple[str, float]] = {}
    for place, mine in (("within intervals", ~around), ("around reconfigurations", around)):
        values = probes.rtts_ms[mine & ~lost]
        if not len(values):
            continue
        for quantile in QUANTILES:
            if quantile in (5, 50, 95, 99) or mine is not around:
                value = float(np.percentile(values, quantile))
                statistics[f"{word} {place}, {quantile} %"] = "ms", value
        statistics[f"{word} {place}, highest"] = "ms", float(values.max())
        if side.ways == 2:
            statistics[f"loss {place}"] = "%", 100 * float(lost[mine].mean())
    if side.ways == 2:
        statistics |= _bursts(side)
    for direction, (times_s, rates_bps) in side.rates.items():
        statistics |= _rates(side, direction, times_s, rates_bps)
    for lag_s, value in zip(LAGS_S, autocorrelation(side), strict=True):
        statistics[f"autocorrelation of the {word} after {lag_s:g} s"] = "", value
    return statistics


def burst_lengths_s(side: Side) -> Numbers:
    """Return the lengths in s of the bursts of loss that are no chance."""
    rows = rtt.rows_of(side.probes)
    outage = rtt.is_outage(rows)
    times_s = np.append(side.probes.times_s, side.probes.end_s)
    starts = rows.starts[outage]
    return np.asarray(times_s[starts + rows.lengths[outage]] - times_s[starts], dtype=np.float64)


def _bursts(side: Side) -> dict[str, tuple[str, float]]:
    lengths_s = burst_lengths_s(side)
    in_an_hour = 3600 * len(lengths_s) / float(side.probes.end_s)
    bursts = {"bursts of loss in an hour": ("", in_an_hour)}
    if len(lengths_s):
        bursts["burst of loss, 50 %"] = "ms", 1000 * float(np.median(lengths_s))
        bursts["burst of loss, 90 %"] = "ms", 1000 * float(np.percentile(lengths_s, 90))
    return bursts


def interval_rates_bps(side: Side, direction: str) -> Numbers:
    """Return the mean rate of each whole interval between two reconfigurations."""
    times_s, rates_bps = side.rates[direction]
    edges_s = side.boundaries_s
    if len(edges_s) < 2:
        end_s = float(side.probes.times_s[-1])
        edges_s = np.arange(0, end_s, fit.USUAL_GRID_S)
    # The integral of the rate at each edge, of a rate that holds until the next one.
    ends_s = np.append(times_s[1:], max(times_s[-1], edges_s[-1] if len(edges_s) else 0.0))
    bits = np.concatenate([[0.0], np.cumsum(rates_bps * (ends_s - times_s))])
    knots_s = np.append(times_s, ends_s[-1])
    at_edges = np.interp(edges_s, knots_s, bits)
    means = np.diff(at_edges) / np.diff(edges_s)
    return np.asarray(means[edges_s[1:] <= knots_s[-1]], dtype=np.float64)


def _rates(
    side: Side, direction: str, times_s: Numbers, rates_bps: Numbers
) -> dict[str, tuple[str, float]]:
    means = interval_rates_bps(side, direction) / 1e6
    if len(means) < 2 or not np.any(rates_bps > 0):
        return {}
    rates = {}
    for quantile in (5, 50, 95):
        value = float(np.percentile(means, quantile))
        rates[f"rate of an interval, {direction}, {quantile} %"] = "Mbit/s", value
    steps = float(np.abs(np.diff(means)).mean())
    rates[f"step of the rate, {direction}, mean"] = "Mbit/s", steps
    return rates


def autocorrelation(side: Side, lags_s: tuple[float, ...] = LAGS_S) -> list[float]:
    """Return the autocorrelation of the delays at some lags; nan where there is none.

    Delays far above the others count as the 99 % quantile: a few of them would be all of it.
    """
    probes = side.probes
    known = ~np.isnan(probes.rtts_ms)
    period_s = probes.period_s
    times_s = np.arange(0, probes.times_s[-1], period_s)
    values = np.interp(times_s, probes.times_s[known], probes.rtts_ms[known])
    values = np.minimum(values, np.percentile(values, 99))
    rest = values - values.mean()
    variance = float((rest * rest).mean())
    correlations = []
    for lag_s in lags_s:
        lag = round(lag_s / period_s)
        is_known = 0 < lag < len(rest) / 2 and variance
        covariance = float((rest[lag:] * rest[:-lag]).mean()) if is_known else math.nan
        correlations.append(covariance / variance if is_known else math.nan)
    return correlations


def lines(rows: list[Row], names: tuple[str, str]) -> list[str]:
    """Return the table as text."""
    width = max(len(row.name) for row in rows)
    heads = [name if len(name) <= 16 else name[:15] + "…" for name in names]
    is_drawn = any(row.chance for row in rows)
    head = f"{'':{width}}  {heads[0]:>16}  {heads[1]:>16}  difference"
    shown = [head + (f"  {'by chance':>20}" if is_drawn else "")]
    for row in rows:
        texts = [f"{value:.4g} {row.unit}".strip() for value in row.values]
        cells = ["-" if text.startswith("nan") else text for text in texts]
        off = "" if math.isnan(row.off_pct) else f"{row.off_pct:+.1f} %"
        line = f"{row.name:{width}}  {cells[0]:>16}  {cells[1]:>16}  {off:>10}"
        if row.chance:
            low, high = row.chance
            line += f"  {f'{low:.4g} to {high:.4g}':>20}" + ("" if row.is_chance else "  beyond")
        shown.append(line.rstrip())
    return shown


def draw(first: Side, other: Side, output: Path) -> None:
    """Draw both sides in one picture. Raises ValueError for a figure of unknown kind."""
    kind_of(output)
    word = "RTT" if first.ways == 2 else "one-way delay"
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, 5.2), layout="constrained")
        (delays, folded), (bursts, lags) = figure.subplots(2, 2)
        for number, side in enumerate((first, other)):
            look = {"color": COLOURS[number + 1], "linestyle": STYLES[number], "label": side.name}
            answered = np.sort(side.probes.rtts_ms[side.probes.lost == 0])
            delays.plot(answered, np.arange(1, len(answered) + 1) / len(answered), **look)
            folded.plot(*_folded(side), **look)
            _draw_last(bursts, side, look)
            steps_s = tuple(np.arange(0.5, 31, 0.5).tolist())
            lags.plot(steps_s, autocorrelation(side, steps_s), **look)
        high_ms = max(float(np.nanpercentile(side.probes.rtts_ms, 99.5)) for side in (first, other))
        delays.set(xlabel=f"{word} (ms)", ylabel="share", xlim=(None, high_ms), ylim=(0, 1))
        folded.set(xlabel="time from a reconfiguration (s)", ylabel=f"{word}, 90 % (ms)")
        lags.set(xlabel="lag (s)", ylabel="autocorrelation")
        delays.legend()
        save(figure, output)


def _folded(side: Side) -> tuple[Numbers, Numbers]:
    """Return times since a reconfiguration, and the 90 % quantile of the delays there."""
    since_s = side.since_s()
    edges_s = np.arange(-BEFORE_S, 2.5, FOLD_S)
    values = []
    for start_s in edges_s:
        mine = (since_s >= start_s) & (since_s < start_s + FOLD_S) & (side.probes.lost == 0)
        values.append(float(np.percentile(side.probes.rtts_ms[mine], 90)) if mine.any() else np.nan)
    return edges_s + FOLD_S / 2, np.array(values)


def _draw_last(axes: Axes, side: Side, look: dict[str, Any]) -> None:
    """Draw the bursts of loss, or the rates of the intervals where there is no loss."""
    lengths_s = np.sort(burst_lengths_s(side)) if side.ways == 2 else np.zeros(0)
    values, label = lengths_s * 1000, "burst of loss (ms)"
    if side.ways == 1 and "forward" in side.rates:
        values, label = np.sort(interval_rates_bps(side, "forward")) / 1e6, "rate (Mbit/s)"
    if len(values):
        axes.step(values, np.arange(1, len(values) + 1) / len(values), where="post", **look)
    axes.set(xlabel=label, ylabel="share", ylim=(0, 1))
