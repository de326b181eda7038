# SPDX-License-Identifier: GPL-3.0-or-later
"""Shares of flows, from made-up series."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.results import flows


def rates(first_s: float, rates_mbps: Sequence[float]) -> list[tuple[float, float]]:
    """Ends of intervals of a second, and the rate in each."""
    return [(first_s + number, rate * 1e6) for number, rate in enumerate(rates_mbps, 1)]


def test_one_flow_shares_with_nobody() -> None:
    alone = {"flow_1": rates(0, [10.0] * 5)}
    assert (flows.total_rate_bps(alone), flows.first_share_pct(alone), flows.fairness(alone)) == (
        None,
        None,
        None,
    )


def test_only_the_time_when_both_send_counts_for_the_share() -> None:
    """The first alone for 10 s at 10 Mbit/s, then 6 and 4 for 5 s, then alone again for 5 s."""
    both = {"flow_1": rates(0, [10] * 10 + [6] * 5 + [10] * 5), "flow_2": rates(10, [4.0] * 5)}
    assert flows.total_rate_bps(both) == 10e6
    assert flows.first_share_pct(both) == 60
    assert flows.fairness(both) == pytest.approx(100 / (2 * (36 + 16)))


def test_part_of_an_interval_counts_by_its_part() -> None:
    both = {"flow_1": rates(0, [30, 10, 30]), "": rates(1.5, [10.0, 10.0])}
    assert flows.fairness(both) == pytest.approx(50**2 / (2 * (35**2 + 15**2)))


def test_flows_that_never_met_have_no_share() -> None:
    apart = {"flow_1": rates(0, [4.0, 4.0]), "flow_2": rates(4, [4.0, 4.0])}
    assert flows.total_rate_bps(apart) == pytest.approx(16e6 / 6)
    assert (flows.first_share_pct(apart), flows.fairness(apart)) == (None, None)


@given(st.lists(st.lists(st.floats(0.001, 1e4), min_size=5, max_size=5), min_size=2, max_size=5))
def test_jains_index_lies_between_one_flow_only_and_fair(listed: list[list[float]]) -> None:
    several = {f"flow_{number}": rates(0, one) for number, one in enumerate(listed)}
    fairness, share_pct = flows.fairness(several), flows.first_share_pct(several)
    assert fairness is not None and 1 / len(listed) - 1e-6 <= fairness <= 1 + 1e-6
    assert share_pct is not None and 0 <= share_pct <= 100
