# SPDX-License-Identifier: GPL-3.0-or-later
"""ping_series: what ping prints, and which requests are lost."""

from __future__ import annotations

import pytest
from helpers.job_code import load
from hypothesis import given
from hypothesis import strategies as st

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
    assert ping_series.old_requests(1.0, 10.0 - ping_series.ANSWER_LIMIT_S) == 9
    assert ping_series.old_requests(1.0, 1.9 - ping_series.ANSWER_LIMIT_S) == 0
    assert ping_series.lost_pct({1, 2, 3, 4, 5, 6, 7, 8}, 9) == pytest.approx(100 / 9)
    assert ping_series.lost_pct(range(1, 10), 9) == 0
    assert ping_series.lost_pct((), 9) == 100


@given(st.sets(st.integers(1, 1000)), st.integers(1, 1000))
def test_lost_is_a_percentage(answered: set[int], requests: int) -> None:
    assert 0 <= ping_series.lost_pct(answered, requests) <= 100


@pytest.mark.parametrize(
    ("answers_s", "gap_s"),
    [
        ([1, 2, 3, 4, 5], 1),
        ([1, 2, 5, 6], 3),
        ([4, 5], 4),
        ([1, 2], 4),
        ([], 6),
        ([1, 2, 3, 4, 5, 7], 2),
    ],
)
def test_the_longest_gap_may_be_at_either_end(answers_s: list[float], gap_s: float) -> None:
    """From 0 s to 6 s; an answer may come later."""
    assert ping_series.longest_gap_s(answers_s, 0, 6) == gap_s


def test_of_a_count_every_request_counts() -> None:
    assert ping_series.lost_pct({1, 2, 4}, 4) == 25
    command = ping_series.command_of(
        ping_series.parse(["0.2", "10.0.0.1", "--count", "4", "--payload-bytes", "1000"])
    )
    assert command == ["ping", "-n", "-i", "0.2", "-s", "1000", "-c", "4", "-W", "40", "10.0.0.1"]
    assert ping_series.command_of(ping_series.parse(["1", "10.0.0.1"])) == [
        "ping",
        "-n",
        "-i",
        "1",
        "10.0.0.1",
    ]
