# SPDX-License-Identifier: GPL-3.0-or-later
"""Bursts of loss that last for a time are those of the published formulas.

They are the same on every machine.
"""

from __future__ import annotations

from itertools import islice, pairwise
from math import sqrt

import pytest

from openbach_jobs import bursts

COUNT = 40_000
"""Changes that are drawn: half as many bursts."""
DRAWN = [(0.0, False), (0.241819, True), (0.247215, False), (1.28304, True), (1.284196, False)]
"""Of 1 %, 10 ms and seed 2."""


def times_s(
    loss_pct: float, mean_ms: float, seed: int, count: int = COUNT
) -> dict[bool, list[float]]:
    """How long each state lasts."""
    found: dict[bool, list[float]] = {True: [], False: []}
    drawn = islice(bursts.changes(loss_pct, mean_ms, seed), count + 1)
    for (begin_s, is_bad), (end_s, _) in pairwise(drawn):
        found[is_bad].append(end_s - begin_s)
    return found


@pytest.mark.parametrize(("loss_pct", "mean_ms"), [(1, 10), (0.1, 300), (30, 50), (90, 20)])
def test_share_and_duration_are_those_asked_for(loss_pct: float, mean_ms: float) -> None:
    """Formula (1) of bursts.py, within four standard deviations; both times are exponential."""
    lasted = times_s(loss_pct, mean_ms, seed=3)
    for is_bad, share in ((True, loss_pct / 100), (False, 1 - loss_pct / 100)):
        wanted_s = mean_ms / 1000 * share / (loss_pct / 100)
        times, count = lasted[is_bad], len(lasted[is_bad])
        mean_s = sum(times) / count
        assert mean_s == pytest.approx(wanted_s, rel=4 / sqrt(count))
        squares = sum(time**2 for time in times) / count
        assert squares / mean_s**2 == pytest.approx(2, rel=4 * sqrt(20) / 2 / sqrt(count))
    bad_s, good_s = (sum(lasted[is_bad]) for is_bad in (True, False))
    share = bad_s / (bad_s + good_s)
    spread = sqrt(2 / (COUNT / 2)) * (1 - loss_pct / 100)
    assert share == pytest.approx(loss_pct / 100, rel=4 * spread)


@pytest.mark.parametrize("after_ms", [1, 10, 40])
def test_a_packet_after_a_lost_one_is_lost_as_published(after_ms: float) -> None:
    """Formula (2): the share of the time in bursts after which there is one again.

    The other one is `after_ms` later.
    """
    loss_pct, mean_ms = 20, 10
    changes = list(islice(bursts.changes(loss_pct, mean_ms, seed=5), COUNT))
    ends = [*changes[1:], (changes[-1][0], False)]
    step_s, time_s, at, ahead, both, lost = 0.0005, 0.0, 0, 0, 0, 0
    while time_s + after_ms / 1000 < changes[-1][0]:
        while ends[at][0] <= time_s:
            at += 1
        while ends[ahead][0] <= time_s + after_ms / 1000:
            ahead += 1
        lost += changes[at][1]
        both += changes[at][1] and changes[ahead][1]
        time_s += step_s
    assert both / lost == pytest.approx(bursts.loss_after(after_ms, loss_pct, mean_ms), rel=0.02)


def test_long_after_a_lost_packet_the_loss_is_that_asked_for() -> None:
    assert bursts.loss_after(0, 5, 10) == 1
    assert bursts.loss_after(10_000, 5, 10) == pytest.approx(0.05)


def test_the_times_of_a_seed_never_change() -> None:
    """As they were drawn when this was written: other times are other packets."""
    drawn = list(islice(bursts.changes(1, 10, seed=2), 5))
    assert drawn == DRAWN
    assert drawn != list(islice(bursts.changes(1, 10, seed=3), 5)), (
        "each direction has its own seed"
    )


def test_it_begins_in_a_burst_as_often_as_there_is_one() -> None:
    begins = sum(next(bursts.changes(10, 10, seed))[1] for seed in range(4000))
    assert begins / 4000 == pytest.approx(0.1, abs=4 * sqrt(0.1 * 0.9 / 4000))
