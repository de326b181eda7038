# SPDX-License-Identifier: GPL-3.0-or-later
"""Pings over a link that changes, without a kernel: probes of a model, to compare and to test.

A probe passes the return direction, then the forward one: it waits while the rate is 0, is lost or
not, and has the delay of that moment. No probe overtakes another one. Queues are empty: a ping is
small, and alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from openbach_jobs.link_file import Change
from satlink.measured import ANSWERED, LOST_FORWARD, LOST_RETURN, Numbers, Probes

TAIL_S = 30.0
"""Time in s that the link is looked at after the last probe was sent."""
HELD_FOR_EVER_S = 1e9


class States(NamedTuple):
    """The states of one direction, each from its time on."""

    times_s: Numbers
    rates_bps: Numbers
    delays_ms: Numbers
    losses_pct: Numbers

    def at(self, times_s: Numbers) -> npt.NDArray[np.int64]:
        """Return the place of the state at each time."""
        places = np.searchsorted(self.times_s, times_s, side="right") - 1
        return np.asarray(np.maximum(places, 0), dtype=np.int64)

    def open_s(self) -> Numbers:
        """Return for each state when packets pass: at once, or when the rate is back."""
        open_at_s = np.where(self.rates_bps > 0, self.times_s, HELD_FOR_EVER_S)
        return np.asarray(np.minimum.accumulate(open_at_s[::-1])[::-1], dtype=np.float64)


def states(changes: Iterator[Change], until_s: float) -> dict[str, States]:
    """Return the states of both directions until a time."""
    rows: dict[str, list[tuple[float, ...]]] = {"forward": [], "return": []}
    for change in takewhile(lambda change: change.time_s <= until_s, changes):
        rows[change.direction].append((change.time_s, *change.state))
    states = {}
    for name, all_rows in rows.items():
        columns = np.array(all_rows, dtype=np.float64).T
        states[name] = States(*columns)
    return states


def sent(
    of_link: dict[str, States],
    times_s: Numbers,
    seed: int,
    extra_loss_pct: dict[str, float] | None = None,
) -> Probes:
    """Return the probes that are sent at these times."""
    random = np.random.default_rng(seed)
    at_s = times_s.copy()
    lost = np.full(len(times_s), ANSWERED, dtype=np.int8)
    for direction, kind in (("return", LOST_RETURN), ("forward", LOST_FORWARD)):
        states = of_link[direction]
        begun = states.at(at_s)
        at_s = np.maximum(at_s, states.open_s()[begun])
        places = states.at(at_s)
        chance_pct = 100 * random.random(len(times_s))
        extra_pct = 100 * random.random(len(times_s))
        loses = chance_pct < states.losses_pct[places]
        loses |= extra_pct < (extra_loss_pct or {}).get(direction, 0.0)
        loses |= at_s >= HELD_FOR_EVER_S
        lost[(lost == ANSWERED) & loses] = kind
        at_s = np.maximum.accumulate(at_s + states.delays_ms[places] / 1000)
    rtts_ms = np.round((at_s - times_s) * 1000, 3)
    rtts_ms[lost != ANSWERED] = np.nan
    return Probes(times_s, rtts_ms, lost)


def sent_one_way(states: States, times_s: Numbers) -> Probes:
    """Return delays of one way as probes; a packet that is lost has none."""
    begun = states.at(times_s)
    at_s = np.maximum(times_s, states.open_s()[begun])
    places = states.at(at_s)
    lost = ((states.losses_pct[places] >= 100) | (at_s >= HELD_FOR_EVER_S)).astype(np.int8)
    arrived_s = np.maximum.accumulate(at_s + states.delays_ms[places] / 1000)
    return Probes(times_s, np.where(lost > 0, np.nan, (arrived_s - times_s) * 1000), lost)
