# SPDX-License-Identifier: GPL-3.0-or-later
"""Bursts of loss that last for a time, whatever is sent: a Gilbert-Elliott process over time.

Two states have exponential sojourn times, and the bad one loses every packet. With mean times of
B in the bad and G in the good state the share of the time in the bad one is

    A = B / (B + G)                                                                        (1)

which is the satellite channel of Lutz, Cygan, Dippold, Dolainsky and Papke, The land mobile
satellite communication channel: recording, statistics, and channel model, IEEE Trans. Vehicular
Technology 40(2), 1991, with nothing but losses in its bad state. A packet that is sent t after a
lost one is lost with

    P(lost after t | lost) = A + (1 - A) exp(-t (1/B + 1/G))                               (2)

(Golubchik et al., Multi-path continuous media streaming: what are the benefits?, Performance
Evaluation 49, 2002). So packets every t are lost as Gilbert's model of packets has it (netem.py),
in bursts of 1/(1 - P) on average.

Times are whole microseconds. They follow from a seed by splitmix64 and a logarithm, and are the
same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from openbach_jobs import netem

OWN_NUMBERS = 0x6275727374  # "burst"
"""Salt of the seeds of bursts, so that they differ from the seeds that netem gets."""


def changes(loss_pct: float, mean_ms: float, seed: int) -> Iterator[tuple[float, bool]]:
    """Yield the times, in s from 0 on, at which bursts of loss begin and end.

    With each comes whether every packet is lost from then on (True), or none (False). Endless.
    """
    share = loss_pct / 100
    means_ms = {True: mean_ms, False: mean_ms * (1 - share) / share}
    begin = netem.mixed(seed ^ OWN_NUMBERS)
    is_bad = chance(begin, 0) <= share
    time_us = draw = 0
    while True:
        yield time_us / 1e6, is_bad
        draw += 1
        time_us += round(-math.log(chance(begin, draw)) * means_ms[is_bad] * 1000)
        is_bad = not is_bad


def chance(begin: int, draw: int) -> float:
    """Return a number of a sequence: above 0, at most 1, each as likely."""
    return (netem.mixed(begin + draw) + 1) / 2**64


def loss_after(time_ms: float, loss_pct: float, mean_ms: float) -> float:
    """Return the share of packets that are lost of those sent `time_ms` after a lost one: (2)."""
    share = loss_pct / 100
    good_ms = mean_ms * (1 - share) / share
    return share + (1 - share) * math.exp(-time_ms * (1 / mean_ms + 1 / good_ms))
