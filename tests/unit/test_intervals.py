# SPDX-License-Identifier: GPL-3.0-or-later
"""Medians, intervals and paired comparisons, against what is known of them."""

from __future__ import annotations

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.results.intervals import Estimate, difference, estimate, ratio

TIMES = st.lists(st.floats(0.1, 1e4), min_size=2, max_size=12)


def interval(found: Estimate | None) -> tuple[float, float]:
    assert found is not None and found.low is not None and found.high is not None
    return found.low, found.high


def test_no_value_has_no_estimate_and_one_no_interval() -> None:
    assert estimate([]) is None
    assert estimate([28.5]) == Estimate(28.5, None, None, 1)


@given(TIMES)
def test_the_interval_holds_the_median_and_lies_within_the_values(times: list[float]) -> None:
    found = estimate(times)
    low, high = interval(found)
    assert found is not None
    assert min(times) <= low <= found.median <= high <= max(times)
    assert found.median == pytest.approx(median(times))


@given(TIMES)
def test_the_same_values_give_the_same_interval(times: list[float]) -> None:
    assert estimate(times) == estimate(list(times))


@pytest.mark.parametrize(("count", "least_coverage"), [(5, 0.90), (9, 0.90), (25, 0.90)])
def test_the_interval_covers_the_true_median(count: int, least_coverage: float) -> None:
    """About 95 % of 400 samples of a distribution with median 1 have 1 in their interval.

    The distribution is skewed. (94 % can be had of 5.)
    """
    generator = random.Random(1)
    held = 0
    for _ in range(400):
        low, high = interval(estimate([2 ** generator.gauss(0, 1) for _ in range(count)]))
        held += low <= 1 <= high
    assert held / 400 > least_coverage


@given(st.dictionaries(st.integers(1, 9), st.floats(1, 1e3), min_size=2), st.floats(0.5, 2))
def test_pairs_take_the_loss_process_out(baseline: dict[int, float], factor: float) -> None:
    """Times that differ tenfold between seeds compare exactly if cells differ by a factor."""
    cell = {seed: time_s * factor for seed, time_s in baseline.items()}
    assert interval(ratio(cell, baseline)) == pytest.approx((factor, factor))
    assert interval(difference(cell, cell)) == (0, 0)


def test_only_seeds_of_both_cells_are_compared() -> None:
    found = difference({1: 30.0, 2: 31.0, 3: 99.0}, {1: 28.0, 2: 29.0, 4: 1.0})
    assert found == Estimate(2.0, 2.0, 2.0, 2)
    assert difference({1: 30.0}, {2: 28.0}) is None
    assert ratio({1: 30.0, 2: 5.0}, {1: 15.0, 2: 0.0}) == Estimate(2.0, None, None, 1)


@pytest.mark.parametrize(
    ("low", "high", "decision"),
    [
        (0.9, 1.1, True),
        (0.8, 1.0, None),
        (1.0, 1.3, None),
        (0.5, 0.7, False),
        (1.3, 1.4, False),
        (None, None, None),
    ],
)
def test_what_an_interval_decides(
    low: float | None, high: float | None, decision: bool | None
) -> None:
    assert Estimate(1.0, low, high, 5).lies_within(0.85, 1.15) is decision
