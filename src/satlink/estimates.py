# SPDX-License-Identifier: GPL-3.0-or-later
"""Estimates of a satellite's parameters, each with the interval in which it lies."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from satlink.measured import Numbers

CONFIDENCE = 0.99
"""Probability with which a parameter lies in its interval."""


class Estimate(NamedTuple):
    """A parameter, and the interval in which it lies; nan at both ends if that is not known."""

    value: float
    low: float = math.nan
    high: float = math.nan


def distance_and_median(bases_ms: Numbers) -> tuple[Estimate, Estimate]:
    """Return mean distance from the median, and median, of values of Laplace's distribution."""
    count = len(bases_ms)
    middle = float(np.median(bases_ms))
    distance = float(np.abs(bases_ms - middle).sum()) / (count - 0.5)
    # Distances are exponentially distributed: twice their sum is of chi square.
    low, high = _chi2_shares(2 * count - 2)
    off = student(count - 1) * 1.2 * distance / math.sqrt(count)
    step = Estimate(distance, distance * low**2, distance * high**2)
    return step, Estimate(max(middle, 0.001), max(middle - off, 0.001), middle + off)


def mean_of(values: Numbers) -> Estimate:
    """Return the mean, by Student's distribution."""
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean)
    off = student(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Estimate(mean, mean - off, mean + off)


def mean_and_deviation(values: Numbers) -> tuple[Estimate, Estimate]:
    """Return mean and standard deviation of normally distributed values."""
    mean = mean_of(values)
    if len(values) < 2:
        return mean, Estimate(0.0)
    deviation = float(values.std(ddof=1))
    low, high = _chi2_shares(len(values) - 1)
    return mean, Estimate(deviation, deviation * low, deviation * high)


def deviation_of_steps(steps: Numbers) -> Estimate:
    """Return the standard deviation of values by the steps from each to the next.

    What changes slowly, from hour to hour, is not in it.
    """
    deviation = math.sqrt(float((steps**2).mean()) / 2)
    # Steps that follow each other have a value in common: two thirds of them count.
    low, high = _chi2_shares(max(round(2 * len(steps) / 3), 1))
    return Estimate(deviation, deviation * low, deviation * high)


def share_pct(count: int, of: int) -> Estimate:
    """Return a share in percent (Wilson's interval)."""
    if not of:
        return Estimate(0.0)
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share = count / of
    centre = (share + z * z / (2 * of)) / (1 + z * z / of)
    off = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    low = max(centre - off, 0.0) if count else 0.0
    high = min(centre + off, 1.0) if count < of else 1.0
    return Estimate(100 * share, 100 * low, 100 * high)


def student(freedom: int) -> float:
    """Return the quantile of Student's distribution for CONFIDENCE (Cornish and Fisher)."""
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    n = max(freedom, 1)
    if n == 1:
        return math.tan(math.pi * CONFIDENCE / 2)
    if n == 2:
        p = (1 + CONFIDENCE) / 2
        return (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )


def _chi2_shares(freedom: int) -> tuple[float, float]:
    """Return what a standard deviation is multiplied by for both ends (Wilson and Hilferty)."""
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    n = freedom

    def quantile(at: float) -> float:
        return n * max(1 - 2 / (9 * n) + at * math.sqrt(2 / (9 * n)), 0.01) ** 3

    return math.sqrt(n / quantile(z)), math.sqrt(n / quantile(-z))
