# SPDX-License-Identifier: GPL-3.0-or-later
"""ping_series: what ping prints, and which requests are lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_job_code import load

ping_series = load("ping_series")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("64 bytes from 192.168.20.2: icmp_seq=3 ttl=59 time=500 ms\n", (3, 500.0)),
        ("64 bytes from 10.0.0.1: icmp_seq=70000 ttl=64 time=0.031 ms\n", (70000, 0.031)),
        ("From 10.10.1.1 icmp_seq=2 Destination Net Unreachable\n", None),
        ("PING 192.168.20.2 (192.168.20.2) 56(84) bytes of data.\n", None),
        ("\n", None),
    ],
)
def test_answers(line: str, answer: tuple[int, float] | None) -> None:
    assert ping_series.answer(line) == answer


def test_requests_of_the_last_two_seconds_do_not_count() -> None:
    """Requests 1 to 11 at 0 s to 10 s; 9 is the last of at least 2 s ago."""
    assert ping_series.lost_pct({1, 2, 3, 4, 5, 6, 7, 8}, 1.0, 10.0) == pytest.approx(100 / 9)
    assert ping_series.lost_pct(range(1, 10), 1.0, 10.0) == 0
    assert ping_series.lost_pct((), 1.0, 10.0) == 100
    assert ping_series.lost_pct((), 1.0, 1.9) is None


@given(st.sets(st.integers(1, 1000)), st.floats(0.01, 100), st.floats(2, 100))
def test_lost_is_a_percentage(answered: set[int], interval_s: float, lasted_s: float) -> None:
    assert 0 <= ping_series.lost_pct(answered, interval_s, lasted_s) <= 100


@pytest.mark.parametrize("words", [[], ["1"], ["-1", "10.0.0.1"], ["0.001", "10.0.0.1"], ["nan", "10.0.0.1"]])
def test_what_ping_series_refuses(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        ping_series.parse(words)
