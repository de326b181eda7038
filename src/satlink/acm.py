# SPDX-License-Identifier: GPL-3.0-or-later
"""A DVB-S2 forward link in the rain: adaptive coding and modulation (ACM) follows a fade.

The attenuation is that of Maseng and Bakken (A stochastic dynamic model of rain attenuation, IEEE
Trans. Commun. 29, 1981), which ITU-R P.1853 has for its time series: log-normal, driven by a
Gauss-Markov process,

    A(t) = median · exp(σ X(t)),   X(t + Δ) = ρ X(t) + √(1 - ρ²) N,   ρ = exp(-Δ / correlation time)

with N normal, drawn from the seed; P.1853 has 5000 s (β = 2·10⁻⁴ /s). Es/N0 is that of the clear
sky less A. The symbol rate is constant: it is the one at which the MODCOD of the clear sky carries
`rate_bps`.

A MODCOD is used while Es/N0 is `margin_db` above what it needs; a more efficient one is taken when
Es/N0 is another `hysteresis_db` above. Where even QPSK 1/4 does not get through, the rate is 0:
packets wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from random import Random
from statistics import NormalDist

from openbach_jobs.constellation import Model, parameter
from openbach_jobs.dvbs2 import MODCODS, Modcod, best, following
from openbach_jobs.link_file import Change, State


class Acm(Model):
    """The parameters of the link.

    Raises ValueError for what is out of range, and for a clear sky in which nothing gets through.
    """

    clear_sky_es_n0_db: float = parameter(14.5, -20, 40, "Es/N0 without rain")
    rate_bps: float = parameter(10e6, 10e3, 1e12, "of the forward direction in clear sky")
    return_rate_bps: float = parameter(10e6, 1000, 1e12, "of the return direction, which stays")
    delay_ms: float = parameter(250.0, 0, 60e3, "one way, both directions")
    median_db: float = parameter(2.0, 0, 40, "median of the attenuation")
    sigma: float = parameter(1.0, 0, 3, "standard deviation of the attenuation's natural logarithm")
    correlation_s: float = parameter(5000.0, 1, 1e6, "correlation time of the attenuation")
    margin_db: float = parameter(0.5, 0, 10, "what a MODCOD has in hand")
    hysteresis_db: float = parameter(
        0.5, 0, 10, "more than that before a more efficient one is taken"
    )
    step_s: float = parameter(1.0, 0.01, 3600, "time between two choices")
    seed: int = parameter(1, 0, 2**63, "of the rain")

    def __init__(self, **values: float) -> None:
        super().__init__(**values)
        if best(self.clear_sky_es_n0_db - self.margin_db) is None:
            raise ValueError(
                f"clear_sky_es_n0_db is {self.clear_sky_es_n0_db}: with a margin of"
                f" {self.margin_db} dB not even {MODCODS[0].name} gets through, which needs"
                f" {MODCODS[0].es_n0_db} dB"
            )


def fades_db(parameters: Acm) -> Iterator[float]:
    """Yield the attenuation in dB, every `step_s`; endless.

    The process begins anywhere in its distribution.
    """
    # Python's random() has the same numbers for a seed in every version; numpy's generators promise
    # no such thing.
    random = Random(parameters.seed)
    kept = math.exp(-parameters.step_s / parameters.correlation_s)

    def normal() -> float:
        """Return a number of the standard normal distribution."""
        # inv_cdf is not defined for 0.
        return NormalDist().inv_cdf(random.random() or 0.5)

    x = normal()
    while True:
        yield parameters.median_db * math.exp(parameters.sigma * x)
        # The second factor keeps the variance at 1, whatever the step is.
        x = kept * x + math.sqrt(1 - kept**2) * normal()


def es_n0s_db(parameters: Acm, until_s: float) -> Iterator[tuple[float, float]]:
    """Yield time in s and Es/N0 in dB, every `step_s` before `until_s`."""
    steps = math.ceil(until_s / parameters.step_s)
    for step, fade_db in zip(range(steps), fades_db(parameters), strict=False):
        yield round(step * parameters.step_s, 6), parameters.clear_sky_es_n0_db - fade_db


def modcods(parameters: Acm) -> Iterator[Modcod | None]:
    """Yield the MODCOD in use, every `step_s`; endless. None means that nothing gets through."""
    used: Modcod | None = None
    for fade_db in fades_db(parameters):
        usable_db = parameters.clear_sky_es_n0_db - fade_db - parameters.margin_db
        used = following(used, usable_db, parameters.hysteresis_db)
        yield used


def changes(parameters: Acm) -> Iterator[Change]:
    """Yield the link's state at 0 s, then whenever the MODCOD changes; endless."""
    clear_sky = best(parameters.clear_sky_es_n0_db - parameters.margin_db)
    # Acm has refused a clear sky in which nothing gets through.
    assert clear_sky
    symbols_per_s = parameters.rate_bps / clear_sky.efficiency
    before: float | None = None
    for step, modcod in zip(count(), modcods(parameters), strict=False):
        rate_bps = round(symbols_per_s * modcod.efficiency, 3) if modcod else 0.0
        if rate_bps != before:
            yield Change(
                round(step * parameters.step_s, 6),
                "forward",
                State(rate_bps, parameters.delay_ms, 0.0),
            )
        if before is None:
            yield Change(0.0, "return", State(parameters.return_rate_bps, parameters.delay_ms, 0.0))
        before = rate_bps
