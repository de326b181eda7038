# SPDX-License-Identifier: GPL-3.0-or-later
"""Shares of flows, from made-up series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.results.flows import flow_measures


def sent(flow: str, first_s: int, rates_mbps: Sequence[float]) -> list[dict[str, Any]]:
    return [
        {
            "interval_goodput_bps": rate * 1e6,
            "_metadata": {"time": (first_s + number) * 1000, "suffix": flow},
        }
        for number, rate in enumerate(rates_mbps, 1)
    ]


def test_one_flow_shares_with_nobody() -> None:
    assert flow_measures(sent("flow_1", 0, [10.0] * 5)) == {}


def test_only_the_time_when_both_send_counts_for_the_share() -> None:
    """The first alone for 10 s at 10 Mbit/s, then 6 and 4 for 5 s, then it is alone again for 5 s."""
    measured = flow_measures(sent("flow_1", 0, [10] * 10 + [6] * 5 + [10] * 5) + sent("flow_2", 10, [4.0] * 5))
    assert measured == {
        "total_goodput_mbps": 10,
        "share_pct": 60,
        "fairness_index": pytest.approx(100 / (2 * (36 + 16)), abs=1e-6),
    }


def test_part_of_an_interval_counts_by_its_part() -> None:
    late = [{**one, "_metadata": {"time": 2500 + 1000 * n}} for n, one in enumerate(sent("flow_2", 1, [10.0, 10.0]))]
    measured = flow_measures(sent("flow_1", 0, [30, 10, 30]) + late)
    assert measured["fairness_index"] == pytest.approx(50**2 / (2 * (35**2 + 15**2)), abs=1e-6)


def test_flows_that_never_met_have_no_share() -> None:
    assert flow_measures(sent("flow_1", 0, [4.0, 4.0]) + sent("flow_2", 4, [4.0, 4.0])) == {
        "total_goodput_mbps": pytest.approx(16 / 6, abs=1e-6)
    }


@given(st.lists(st.lists(st.floats(0.001, 1e4), min_size=5, max_size=5), min_size=2, max_size=5))
def test_jains_index_lies_between_one_flow_only_and_fair(rates: list[list[float]]) -> None:
    measured = flow_measures([one for flow, listed in enumerate(rates) for one in sent(f"flow_{flow}", 0, listed)])
    assert 1 / len(rates) - 1e-6 <= measured["fairness_index"] <= 1 + 1e-6
    assert 0 <= measured["share_pct"] <= 100
