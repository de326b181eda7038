# SPDX-License-Identifier: GPL-3.0-or-later
"""Low-orbit links as they were measured: what the model plays."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest
from helpers.known_link import DELAY_MS, KNOWN, RATES, model, played

from openbach_jobs import link_file, presets, reconfigurations


def test_without_parameters_the_link_is_constant() -> None:
    states = {(one.direction, one.state) for one in played(model(), 60)}
    assert states == {
        ("forward", link_file.State(50e6, DELAY_MS, 0.0)),
        ("return", link_file.State(10e6, DELAY_MS, 0.0)),
    }
    assert not model().is_random and model(held_sd_ms=1).is_random


def test_packets_are_lost_then_held_on_the_grid() -> None:
    """From 4.2 s on 400 ms without a packet, then 150 ms in which they wait; every 15 s."""
    grid = model(grid_phase_s=4.2, lossy_pct=100, lossy_ms=400, held_ms=150)
    forward = [one for one in played(grid, 40) if one.direction == "forward"]
    news = [
        (after.time_s, after.state.loss_pct, after.state.rate_bps > 0)
        for before, after in pairwise(forward)
        if before.state != after.state
    ]
    assert news == [
        (4.2, 100, True),
        (4.6, 0, False),
        (4.75, 0, True),
        (19.2, 100, True),
        (19.6, 0, False),
        (19.75, 0, True),
        (34.2, 100, True),
        (34.6, 0, False),
        (34.75, 0, True),
    ]


def test_the_link_begins_without_a_loss_at_any_phase() -> None:
    for phase_s in (0.0, 0.1, 14.99):
        first = played(model(grid_phase_s=phase_s, lossy_pct=100, lossy_ms=400), 0)
        assert [(one.time_s, one.direction, one.state.loss_pct) for one in first] == [
            (0, "forward", 0),
            (0, "return", 0),
        ]


def test_seeds_begin_at_phases_of_the_grid() -> None:
    grid = model(grid_phases=5)
    found = [reconfigurations.first_s(grid, seed) for seed in range(1, 7)]
    assert found == [3, 6, 9, 12, 0, 3]


def test_the_same_seed_plays_the_same_and_another_one_does_not() -> None:
    grid = model(**KNOWN, rate_sd_pct=20)
    assert played(grid, 40, seed=3) == played(grid, 40, seed=3) != played(grid, 40, seed=4)
    assert played(grid, 40, seed=3) == [one for one in played(grid, 70, seed=3) if one.time_s <= 40]


def test_the_numbers_of_a_seed_are_these() -> None:
    """They are part of what packets are: another machine, another version, the same numbers."""
    grid = model(**KNOWN, rate_sd_pct=20)
    drawn = [reconfigurations.interval(grid, 1, number) for number in range(3)]
    assert [(one.lossy_s, one.held_s, round(one.step_ms, 6)) for one in drawn] == EXPECTED


EXPECTED = [
    (0.415413, 0.114471, -7.090234),
    (0.0, 0.123596, -5.125222),
    (0.40099, 0.116207, 3.392163),
]


def test_a_delay_is_drawn_anew_each_10_ms_with_its_mean() -> None:
    grid = model(return_spread_ms=6, spread_hold_ms=20)
    back = [one for one in played(grid, 300) if one.direction == "return"]
    assert {round(one.time_s * 1000) % 10 for one in back} == {0}
    extra_ms = np.array([one.state.delay_ms - DELAY_MS for one in back])
    assert extra_ms.mean() == pytest.approx(6, rel=0.05)
    assert np.percentile(extra_ms, 95) == pytest.approx(6 * np.log(20), rel=0.07)
    changed = np.diff(extra_ms) != 0
    assert changed.mean() == pytest.approx(0.5, abs=0.02)
    assert {one.state.delay_ms for one in played(grid, 1) if one.direction == "forward"} == {60}


def test_a_constellation_has_its_own_delay_below_the_steps() -> None:
    preset = presets.find("starlink")
    orbit, grid = preset.constellation, preset.reconfigurations
    assert orbit is not None and grid is not None
    quiet = reconfigurations.Reconfigurations(grid_s=15)
    ours = reconfigurations.changes(quiet, 1, RATES, orbit)
    from openbach_jobs import constellation

    theirs = constellation.changes(orbit)
    mine = [(one.time_s, one.state.delay_ms) for one in islice(ours, 200)]
    assert mine == [(one.time_s, one.state.delay_ms) for one in islice(theirs, 200)]
