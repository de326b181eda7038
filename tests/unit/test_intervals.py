# SPDX-License-Identifier: GPL-3.0-or-later
"""Medians, intervals and paired comparisons, against what is known of them."""

from __future__ import annotations

import random
from statistics import median

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from openbach_run.results.intervals import (
    BOUND_SEEDS,
    INTERVAL_SEEDS,
    Estimate,
    difference,
    ends,
    estimate,
    notes,
    ratio,
)

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


@given(st.lists(st.floats(0.001, 1000), min_size=2, max_size=5))
def test_few_seeds_have_the_ends_that_a_bootstrap_gave_them(times: list[float]) -> None:
    """So no figure, and no verdict, of five seeds has moved since 1.0."""
    drawn = numpy.random.default_rng(1).integers(len(times), size=(10_000, len(times)))
    ends_of_before = numpy.quantile(numpy.median(numpy.array(times)[drawn], axis=1), [0.025, 0.975])
    assert interval(estimate(times)) == pytest.approx(tuple(ends_of_before))


@given(TIMES, st.randoms())
def test_the_order_of_the_seeds_says_nothing(times: list[float], luck: random.Random) -> None:
    shuffled = list(times)
    luck.shuffle(shuffled)
    assert estimate(times) == estimate(shuffled)


@given(st.integers(2, 300))
def test_the_interval_is_the_narrowest_with_its_confidence(count: int) -> None:
    """Of order statistics with as many values below as above; checked by scipy's binomial sums."""
    low, high = interval(estimate(list(range(1, count + 1))))
    below = int(low) - 1
    assert high == count - below
    assert below == 0 or 2 * binom.cdf(below, count, 0.5) <= 0.05
    assert 2 * binom.cdf(below + 1, count, 0.5) > 0.05
    assert (binom.cdf(0, count, 0.5) * 2 <= 0.05) == (count >= INTERVAL_SEEDS)


@given(st.integers(10, 300))
def test_the_bound_of_the_90th_percentile_is_the_least_with_its_confidence(count: int) -> None:
    found = estimate(list(range(1, count + 1)))
    assert found is not None and found.p90 is not None and found.p90_high is not None
    # One in ten, and no more, is above.
    assert (count - found.p90) * 10 <= count < (count - found.p90 + 1) * 10
    # The k-th value is above the percentile unless all of the first k lie below it.
    assert binom.cdf(found.p90_high - 2, count, 0.9) <= 0.95
    has_bound = binom.cdf(count - 1, count, 0.9) >= 0.95
    assert has_bound == (count >= BOUND_SEEDS)
    assert binom.cdf(found.p90_high - 1, count, 0.9) >= 0.95 if has_bound else count


def test_five_seeds_have_least_and_greatest_and_no_tail() -> None:
    """Five seeds of BBRv2 printed 32.4 to 35.0 as 95 %; of 38 seeds one took 81 s."""
    found = estimate([35.0, 32.4, 33.3, 33.1, 34.2])
    assert found == Estimate(33.3, 32.4, 35.0, 5, span=(32.4, 35.0))
    assert ends([5]) == "least to greatest" and ends([20]) == "95 % interval"
    assert notes([5, 5], tail=True) == ["median [least to greatest] of 5 seeds"]


def test_twenty_seeds_show_the_tail_that_their_median_hides() -> None:
    found = estimate([33.0] * 17 + [81.0, 82.0, 128.5])
    assert found == Estimate(33.0, 33.0, 33.0, 20, 81.0, 128.5, (33.0, 128.5))
    assert notes([1, 5, 20, 18], tail=True) == [
        "median [least to greatest] of 5 seeds",
        "median [95 % interval], p90: one in ten is above (to: greatest, above p90 with 85 %), of 18"
        " seeds",
        "median [95 % interval], p90: one in ten is above (to: greatest, above p90 with 88 %), of 20"
        " seeds",
    ]
    assert notes([29, 40], tail=True) == [
        "median [95 % interval], p90: one in ten is above (to: 95 % upper bound), of up to 40 seeds"
    ]
    assert notes([20, 5]) == [
        "median [least to greatest] of 5 seeds",
        "median [95 % interval] of 20 seeds",
    ]


@pytest.mark.parametrize(("count", "least_coverage"), [(5, 0.90), (9, 0.93), (25, 0.93)])
def test_the_interval_covers_the_true_median(count: int, least_coverage: float) -> None:
    """At least 95 % of many samples of a distribution with median 1 have 1 in their interval.

    The distribution is skewed, and there are 400 samples. (94 % can be had of 5.)
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
    assert found == Estimate(2.0, 2.0, 2.0, 2, span=(2.0, 2.0))
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
