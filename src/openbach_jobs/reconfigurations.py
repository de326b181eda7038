# SPDX-License-Identifier: GPL-3.0-or-later
"""A low-orbit link as it was measured: reconfigurations on a grid, drawn from the run's seed.

A constellation's scheduler gives every terminal a satellite anew on a grid of seconds (15 s on
Starlink). Public traces show at such a reconfiguration, in this order:

    every packet is lost for a while          lossy_ms, at lossy_pct of the reconfigurations
    packets wait, then all of them come       held_ms: an RTT that begins high and falls by 1 ms
                                              each ms, as that of packets which wait for one moment
    another delay and another rate until the  delay_step_ms, rate_sd_pct
    next one

Steps of the delay are Laplace's: most are small, few are large. At any time there is a delay that
changes from one packet to the next (forward_spread_ms, return_spread_ms): exponentially
distributed, anew each 10 ms or later (spread_hold_ms). All of this comes on top of a delay, or of a
constellation's (constellation.py). docs/leo.md has the traces and the values that were found.

Every number follows from the seed by splitmix64, a logarithm and a cosine. Intervals have numbers
of their own, so a longer run begins as a shorter one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

from openbach_jobs import constellation, netem
from openbach_jobs.bursts import chance
from openbach_jobs.constellation import Model, parameter
from openbach_jobs.link_file import Change, State

OWN_NUMBERS = 0x7265636F6E66  # "reconf"
"""Salt of the seeds of reconfigurations: netem and the bursts get others."""
LEAST_SHARE, GREATEST_SHARE = 0.1, 3.0
"""Bounds of an interval's rate, as parts of the mean rate."""
GREATEST_STEP = 5.0
"""Greatest step of the delay, as a multiple of its mean."""
LEAST_DELAY_MS = 0.1
ROUNDED = 3
"""Decimals of a delay in ms: whole microseconds."""


class Reconfigurations(Model):
    """Parameters of the reconfigurations of a link; all defaults together change nothing."""

    grid_s: float = parameter(15.0, 1, 3600, "time between two reconfigurations")
    grid_phase_s: float = parameter(0.0, 0, 3600, "time of the first one, below grid_s")
    grid_phases: int = parameter(
        1, 1, 1000, "a run's seed begins at one of so many phases, each as far from the next"
    )
    lossy_pct: float = parameter(0.0, 0, 100, "reconfigurations at which packets are lost")
    lossy_ms: float = parameter(0.0, 0, 10_000, "how long every packet is lost then, on average")
    lossy_sd_ms: float = parameter(0.0, 0, 10_000, "standard deviation of this")
    held_ms: float = parameter(0.0, 0, 10_000, "how long packets wait after that, on average")
    held_sd_ms: float = parameter(0.0, 0, 10_000, "standard deviation of this")
    delay_step_ms: float = parameter(
        0.0, 0, 1000, "an interval's delay differs by this on average, one way, to both sides"
    )
    forward_spread_ms: float = parameter(
        0.0, 0, 1000, "mean of an exponentially distributed delay on top, towards the user"
    )
    return_spread_ms: float = parameter(0.0, 0, 1000, "the same from the user")
    spread_hold_ms: float = parameter(10.0, 10, 10_000, "how long such a delay stays, on average")
    rate_sd_pct: float = parameter(0.0, 0, 100, "standard deviation of an interval's rate")

    def __init__(self, **values: float) -> None:
        super().__init__(**values)
        if self.grid_phase_s >= self.grid_s:
            raise ValueError(
                f"grid_phase_s is {self.grid_phase_s:g}: it must be below grid_s, {self.grid_s:g}"
            )
        if bool(self.lossy_pct) != bool(self.lossy_ms):
            raise ValueError("lossy_pct and lossy_ms belong together: one without the other")
        longest_ms = sum(
            mean + 4 * deviation
            for mean, deviation in (
                (self.lossy_ms, self.lossy_sd_ms),
                (self.held_ms, self.held_sd_ms),
            )
        )
        if longest_ms >= 1000 * self.grid_s:
            raise ValueError(
                f"lossy_ms and held_ms may be {longest_ms:g} ms together: they must be below grid_s"
            )

    @property
    def is_random(self) -> bool:
        """Return whether the seed matters."""
        return self.grid_phases > 1 or any(
            (
                0 < self.lossy_pct < 100,
                self.lossy_sd_ms,
                self.held_sd_ms,
                self.delay_step_ms,
                self.forward_spread_ms,
                self.return_spread_ms,
                self.rate_sd_pct,
            )
        )

    @property
    def mean_rtt_ms(self) -> float:
        """Return their part of the mean RTT, without what is lost or held."""
        return self.forward_spread_ms + self.return_spread_ms


class Delays(NamedTuple):
    """The delay in an interval: a function of the time in it, and how often it changes."""

    at: Callable[[float], float]
    step_s: float


Base = float | constellation.Constellation | Callable[[int], Delays]
"""A delay: a constant one, a constellation's, or a function of the number of an interval."""
UPDATE_MS = 10
"""Time between two changes of the delay in whole ms."""


class Numbers(NamedTuple):
    """A sequence of numbers that are as good as random."""

    begin: int

    def of(self, name: str, interval: int) -> Numbers:
        """Return the sequence of a purpose in an interval."""
        place = int.from_bytes(name.encode()[:6]) << 32 | (interval + 1 & 0xFFFFFFFF)
        return Numbers(netem.mixed(self.begin ^ netem.mixed(place)))

    def even(self, draw: int) -> float:
        """Return a number above 0, at most 1, each as likely."""
        return chance(self.begin, draw)

    def normal(self) -> float:
        """Return a normally distributed number (Box and Muller)."""
        return math.sqrt(-2 * math.log(self.even(0))) * math.cos(math.tau * self.even(1))

    def two_sided(self) -> float:
        """Return a number of Laplace's distribution, whose mean distance from 0 is 1."""
        distance = min(-math.log(self.even(0)), GREATEST_STEP)
        return distance if self.even(1) > 0.5 else -distance


class Interval(NamedTuple):
    """Draws of the seed for the time between two reconfigurations."""

    lossy_s: float
    held_s: float
    step_ms: float
    rate_share: dict[str, float]


def first_s(parameters: Reconfigurations, seed: int) -> float:
    """Return the time of the first reconfiguration, from 0 s to below grid_s."""
    begin_s = parameters.grid_phase_s
    if parameters.grid_phases > 1:
        begin_s += seed % parameters.grid_phases * parameters.grid_s / parameters.grid_phases
    return round(begin_s % parameters.grid_s, 6)


def interval(parameters: Reconfigurations, seed: int, number: int) -> Interval:
    """Return the draws of the seed for an interval; number 0 is that at 0 s."""
    numbers = Numbers(netem.mixed(seed ^ OWN_NUMBERS))

    def length_ms(name: str, mean_ms: float, deviation_ms: float) -> float:
        drawn_ms = mean_ms + deviation_ms * numbers.of(name, number).normal()
        return min(max(drawn_ms, 0.0), mean_ms + 4 * deviation_ms)

    loses = numbers.of("loses", number).even(0) <= parameters.lossy_pct / 100
    shares = {}
    for direction in ("forward", "return"):
        drawn = 1 + parameters.rate_sd_pct / 100 * numbers.of("r" + direction, number).normal()
        shares[direction] = min(max(drawn, LEAST_SHARE), GREATEST_SHARE)
    lossy_ms = length_ms("lossy", parameters.lossy_ms, parameters.lossy_sd_ms) if loses else 0.0
    held_ms = length_ms("held", parameters.held_ms, parameters.held_sd_ms)
    return Interval(
        round(lossy_ms / 1000, 6),
        round(held_ms / 1000, 6),
        parameters.delay_step_ms * numbers.of("step", number).two_sided(),
        shares,
    )


def changes(
    parameters: Reconfigurations,
    seed: int,
    rates_bps: dict[str, float],
    delay_ms: Base,
) -> Iterator[Change]:
    """Yield the link's state over time, from 0 s on, both directions at each time; endless.

    The delay is `delay_ms`, or that of a constellation, and the parameters' on top of it. The link
    begins within an interval: it does not lose what the reconfiguration before would have lost.
    Raises ValueError at a time when no satellite is seen by both places.
    """
    begin_s = first_s(parameters, seed)
    first = 0 if begin_s else 1
    spreads = {
        name: Spread(mean_ms, parameters.spread_hold_ms, Numbers(netem.mixed(seed)).of(name, -1))
        for name, mean_ms in (
            ("forward", parameters.forward_spread_ms),
            ("return", parameters.return_spread_ms),
        )
    }
    for number in count(first):
        start_s = begin_s + (number - 1) * parameters.grid_s
        drawn = interval(parameters, seed, number)
        if number == first:
            drawn = drawn._replace(lossy_s=0.0, held_s=0.0)
        base_ms = _delays(delay_ms, number - first)
        held_until_s = round(drawn.lossy_s + drawn.held_s, 6)
        events = {max(-start_s, 0.0), drawn.lossy_s, held_until_s}
        for in_s in _times(parameters, events, base_ms.step_s):
            time_s = round(start_s + in_s, 6)
            if time_s < 0:
                continue
            is_lossy = in_s < drawn.lossy_s
            is_held = not is_lossy and in_s < held_until_s
            base = max(base_ms.at(in_s) + drawn.step_ms, LEAST_DELAY_MS)
            for direction, rate_bps in rates_bps.items():
                extra_ms = spreads[direction].at(round(time_s * 1000) // UPDATE_MS)
                rate = 0.0 if is_held else round(rate_bps * drawn.rate_share[direction], 3)
                delay = round(base + extra_ms, ROUNDED)
                yield Change(time_s, direction, State(rate, delay, 100.0 if is_lossy else 0.0))


def _times(parameters: Reconfigurations, events: set[float], step_s: float) -> list[float]:
    """Return the times within an interval at which something may change."""
    steps = {round(step * step_s, 6) for step in range(math.ceil(parameters.grid_s / step_s))}
    if parameters.forward_spread_ms or parameters.return_spread_ms:
        updates = round(parameters.grid_s * 1000) // UPDATE_MS
        steps |= {round(number * UPDATE_MS / 1000, 6) for number in range(updates)}
    return sorted(steps | events)


class Spread:
    """The exponentially distributed delay of one direction, by the number of the update."""

    def __init__(self, mean_ms: float, hold_ms: float, numbers: Numbers) -> None:
        self.mean_ms = mean_ms
        self.kept = 1 - UPDATE_MS / hold_ms
        self.numbers = numbers
        self.update = -1
        self.value_ms = self._drawn(0)

    def at(self, update: int) -> float:
        """Return the delay in ms; the updates must not go back."""
        if not self.mean_ms:
            return 0.0
        while self.update < update:
            self.update += 1
            if self.numbers.even(2 * self.update + 1) > self.kept:
                self.value_ms = self._drawn(self.update)
        return self.value_ms

    def _drawn(self, update: int) -> float:
        return -math.log(self.numbers.even(2 * update)) * self.mean_ms if self.mean_ms else 0.0


def _delays(delay_ms: Base, number: int) -> Delays:
    """Return the delay in an interval; number 0 is that at 0 s."""
    if callable(delay_ms):
        return delay_ms(number)
    if not isinstance(delay_ms, constellation.Constellation):
        fixed_ms = delay_ms
        return Delays(lambda in_s: fixed_ms, 3600.0)
    orbit = delay_ms
    satellite = constellation.chosen(orbit, number)

    def at(in_s: float) -> float:
        # The geometry moves by microseconds in 10 ms: it is looked at as often as without a grid.
        looked_s = math.floor(in_s / orbit.step_s + 1e-9) * orbit.step_s
        time_s = round(number * orbit.handover_s + looked_s, 6)
        return constellation.one_way_delay_ms(orbit, satellite, time_s)

    return Delays(at, orbit.step_s)


def mean_rtt_ms(
    parameters: Reconfigurations, delay_ms: float | constellation.Constellation
) -> float:
    """Return the mean RTT, without queues and without what is lost or held."""
    if isinstance(delay_ms, constellation.Constellation):
        return constellation.mean_rtt_ms(delay_ms) + parameters.mean_rtt_ms
    return 2 * delay_ms + parameters.mean_rtt_ms
