# SPDX-License-Identifier: GPL-3.0-or-later
"""voip: the E-model against the values of its recommendation, and what is made of D-ITG's log."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.job_code import load
from hypothesis import example, given
from hypothesis import strategies as st

e_model, stream, voip = load("voip", "e_model"), load("voip", "stream"), load("voip")

DELAYS = st.lists(st.floats(min_value=0, max_value=5000), min_size=2, max_size=300)
LINE = (
    "Flow>0001 Seq> {number:>6} Src> 10.0.0.1/5 Dest> 10.0.0.2/9500 txTime>{sent} rxTime>{received}"
    " Size>  172\n"
)


def packets(*delays_ms: float) -> list[Any]:
    return [stream.Packet(number, delay_ms) for number, delay_ms in enumerate(delays_ms, 1)]


def test_default_values_give_the_rating_of_g107() -> None:
    """Clause 7.7: all defaults, R = 93.2; MOS 4.41."""
    assert e_model.rating(0, 0) == pytest.approx(93.2, abs=0.05)
    assert e_model.mos(e_model.rating(0, 0)) == pytest.approx(4.41, abs=0.005)


@pytest.mark.parametrize(
    ("r", "mos"), [(90, 4.34), (80, 4.03), (70, 3.60), (60, 3.10), (50, 2.58), (0, 1), (100, 4.5)]
)
def test_mos_of_annex_b(r: float, mos: float) -> None:
    """Table B.1 of G.107: lower limits of the categories of satisfaction."""
    assert e_model.mos(r) == pytest.approx(mos, abs=0.01)


def test_impairments_by_hand() -> None:
    """Idd of clause 7.4 at 200 ms (X = 1), and Ie-eff of clause 7.5 where half of Bpl is lost."""
    assert e_model.absolute_delay(100) == 0
    assert e_model.absolute_delay(200) == pytest.approx(
        25 * (2 ** (1 / 6) - 3 * (1 + 1 / 729) ** (1 / 6) + 2)
    )
    assert e_model.effective_ie(25.1 / 2) == pytest.approx(95 / 3)


@given(st.floats(min_value=0, max_value=20_000), st.floats(min_value=0, max_value=100))
@example(0, 0)
@example(20_000, 100)
def test_no_call_is_better_than_one_without_delay_and_loss(
    delay_ms: float, loss_pct: float
) -> None:
    mos = e_model.mos(e_model.rating(delay_ms, loss_pct))
    assert (
        1 <= mos <= e_model.mos(e_model.rating(0, 0)) + 0.01
    )  # the echo terms favour 1 ms a little


def test_a_log_is_read_in_the_order_of_arrival_and_over_midnight() -> None:
    log = (
        LINE.format(number=2, sent="0:0:9.185844", received="0:0:9.435845")
        + "-----\n"
        + LINE.format(number=1, sent="23:59:59.900000", received="0:0:0.150000")
    )
    assert [(packet.number, round(packet.delay_ms, 3)) for packet in stream.read_log(log)] == [
        (2, 250.001),
        (1, 250.0),
    ]


@given(st.text())
def test_other_lines_are_no_packets(text: str) -> None:
    assert stream.read_log(text) == []


def test_jitter_of_rfc_3550() -> None:
    """One packet 16 ms later than the others.

    A sixteenth of each of the two differences, the first one decayed.
    """
    assert list(stream.jitters_ms(packets(100, 116, 100))) == [1.0, 1 + 15 / 16]


def test_a_steady_delay_needs_only_the_buffer() -> None:
    found = stream.measured(packets(*[250.0] * 3000), 3000, 40)
    assert (found["loss_pct"], found["late_pct"], found["delay_ms"], found["jitter_ms"]) == (
        0,
        0,
        250,
        0,
    )
    assert found["mouth_to_ear_ms"] == 20 + 250 + 40
    assert found["mos"] == pytest.approx(e_model.mos(e_model.rating(310, 0)), abs=0.001)


def test_a_step_of_the_delay_is_late_until_the_next_talkspurt() -> None:
    delays = [100.0] * 74 + [200.0] * 76
    found = stream.measured(packets(*delays), 150, 40)
    assert found["late_pct"] == pytest.approx(100 * 25 / 150, abs=0.001)
    assert list(stream.playout_delays_ms(packets(*delays), 40))[-1] == 240


def test_what_does_not_arrive_is_lost() -> None:
    half = [packet for packet in packets(*[100.0] * 1000) if packet.number % 2]
    found = stream.measured(half, 1000, 40)
    assert found["loss_pct"] == 50
    assert stream.measured([], 1000, 40)["mos"] == 1


@given(DELAYS)
def test_late_and_lost_packets_are_at_most_all(delays: list[float]) -> None:
    found = stream.measured(packets(*delays), len(delays) + 1, 40)
    assert 0 < found["loss_pct"] + found["late_pct"] <= 100
    assert found["mouth_to_ear_ms"] >= min(delays) + 60 - 1e-3
