# SPDX-License-Identifier: GPL-3.0-or-later
"""Delay and loss of a link from probes: round-trip times that somebody measured.

Each direction gets half of the round-trip time: the median of each bin of ten probes (at most a
second long), or each probe's where they are further apart than a second. Loss is a share of many
probes: of a window with at least 20 lost ones of at least 100. Probes that were lost in a row are
an outage, if chance would not have made so many of such rows; one lost probe never is. With --bin-s
the loss of each bin is the share of its own probes. Where irtt knows in which direction a packet
was lost, that direction has the loss; otherwise a probe survives each direction with the same
probability, the square root of the share that was answered. Probes are sent on the user's side: the
return direction is theirs. Several runs in one file follow each other without the time between.

    ping -D -O -i 0.2 HOST > ping.txt              -D writes the time of each answer
    irtt client -i 100ms -d 10m -o irtt HOST       writes irtt.json.gz
    time_s,rtt_ms                                  an empty rtt_ms is a probe without an answer
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from satlink.measured import LOST, LOST_FORWARD, LOST_RETURN, Numbers, Probes, Series

DELAY_BIN_S, LEAST_BIN_S = 1.0, 0.01
IN_A_BIN = 10
LEAST_PROBES, LEAST_LOST = 100, 20
"""The least probes, and lost probes, of a share that is a rate: with 20 lost probes its standard
error is a fifth of it."""
UNLIKELY = 0.01
"""The probability below which rows of lost probes are not explained by chance."""

Places = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """Rows of probes that were all answered or all lost: first places, lengths, which are lost."""

    starts: Places
    lengths: Places
    lost: npt.NDArray[np.bool_]


def bin_s_of(probes: Probes) -> float:
    """Return the time in s over which probes are one delay by default."""
    # Rounded to a few digits: this is shown to people.
    ten_s = float(f"{IN_A_BIN * probes.period_s:.2g}")
    return max(min(ten_s, DELAY_BIN_S), LEAST_BIN_S, probes.period_s)


def series(probes: Probes, bin_s: float | None) -> tuple[Series, ...]:
    """Return delay and loss over time. Where nothing was answered, the delay before it stays.

    With `bin_s` the loss, too, is that of each bin.
    """
    width_s = bin_s_of(probes) if bin_s is None else bin_s
    starts_s, delays_ms = _delays(probes, width_s)
    losses = _binned_losses(probes, bin_s) if bin_s is not None else _window_losses(probes)
    return (
        Series("delay_ms", "both", starts_s, np.round(delays_ms, 6)),
        Series("loss_pct", "forward", losses[0], np.round(losses[1], 4)),
        Series("loss_pct", "return", losses[0], np.round(losses[2], 4)),
    )


def _bin_numbers(probes: Probes, bin_s: float) -> Places:
    return np.floor(probes.times_s / bin_s).astype(np.int64)


def _delays(probes: Probes, bin_s: float) -> tuple[Numbers, Numbers]:
    """Return the begin of each bin with an answer, and half of the median of its RTTs."""
    answered = np.isfinite(probes.rtts_ms)
    numbers, rtts_ms = _bin_numbers(probes, bin_s)[answered], probes.rtts_ms[answered]
    order = np.lexsort((rtts_ms, numbers))
    rtts_ms = rtts_ms[order]
    bins, firsts, counts = np.unique(numbers[order], return_index=True, return_counts=True)
    middles_ms = (rtts_ms[firsts + (counts - 1) // 2] + rtts_ms[firsts + counts // 2]) / 2
    return np.round(bins * bin_s, 9), middles_ms / 2


Losses = tuple[Numbers, Numbers, Numbers]
"""Times from which on a loss holds, and the losses of both directions in percent."""


def _binned_losses(probes: Probes, bin_s: float) -> Losses:
    numbers = _bin_numbers(probes, bin_s)
    bins, firsts = np.unique(numbers, return_index=True)
    forward, back = _shares_pct(probes, firsts, np.append(firsts[1:], len(probes)))
    return np.round(bins * bin_s, 9), forward, back


def _window_losses(probes: Probes) -> Losses:
    """Return the losses of outages, and between these of windows with enough probes for a rate.

    Too few probes at the end are part of the last window. A window that an outage interrupts goes
    on after it.
    """
    rows = rows_of(probes)
    outage = is_outage(rows)
    in_outage = np.repeat(outage, rows.lengths)
    others = np.flatnonzero(~in_outage)
    lost = probes.lost > 0
    ends = _window_ends(lost[others])
    window_of = np.searchsorted(ends, np.arange(len(others)), side="right")
    forward, back = np.zeros(len(probes)), np.zeros(len(probes))
    bounds = np.concatenate([[0], ends])
    kinds = probes.lost[others]
    by_window = _shares_of(kinds, bounds[:-1], bounds[1:])
    for shares, mine in zip((forward, back), by_window, strict=True):
        shares[others] = mine[window_of]
    starts, lengths = rows.starts[outage], rows.lengths[outage]
    in_outages = _shares_pct(probes, starts, starts + lengths)
    for shares, mine in zip((forward, back), in_outages, strict=True):
        shares[in_outage] = np.repeat(mine, lengths)
    changed = (np.diff(forward) != 0) | (np.diff(back) != 0)
    at = np.concatenate([[0], np.flatnonzero(changed) + 1])
    return np.round(probes.times_s[at], 9), forward[at], back[at]


def _window_ends(lost: npt.NDArray[np.bool_]) -> Places:
    """Return the ends of windows of probes; the last one has all that is left."""
    places = np.flatnonzero(lost)
    ends: list[int] = []
    begin = 0
    while True:
        needed = int(np.searchsorted(places, begin)) + LEAST_LOST - 1
        if needed >= len(places):
            break
        end = max(begin + LEAST_PROBES, int(places[needed]) + 1)
        if end >= len(lost):
            break
        ends.append(end)
        begin = end
    left = len(places) - int(np.searchsorted(places, begin))
    if ends and left < LEAST_LOST:
        ends.pop()
    return np.array([*ends, len(lost)], dtype=np.int64)


def _shares_pct(probes: Probes, starts: Places, ends: Places) -> tuple[Numbers, Numbers]:
    return _shares_of(probes.lost, starts, ends)


def _shares_of(lost: npt.NDArray[np.int8], starts: Places, ends: Places) -> tuple[Numbers, Numbers]:
    """Return the losses in % of both directions, for the probes from each start to its end."""

    def count(kind: int) -> Places:
        sums = np.concatenate([[0], np.cumsum(lost == kind, dtype=np.int64)])
        counted: Places = sums[ends] - sums[starts]
        return counted

    sent = np.maximum(ends - starts, 1)
    unknown, forward, back = count(LOST), count(LOST_FORWARD), count(LOST_RETURN)
    answered = sent - unknown - forward - back
    # A probe survives both directions: with the same probability in each, it is the root.
    each_pct = 100 * (1 - np.sqrt(np.maximum(answered, 0) / sent))
    # Only probes that passed the return direction could be lost in the forward direction.
    forward_pct = 100 * forward / np.maximum(answered + forward, 1)
    return (
        np.where(unknown > 0, each_pct, forward_pct),
        np.where(unknown > 0, each_pct, 100 * back / sent),
    )


def rows_of(probes: Probes) -> Rows:
    """Return the rows of probes that were all answered, or all lost."""
    lost = probes.lost > 0
    starts = np.concatenate([[0], np.flatnonzero(np.diff(lost)) + 1]).astype(np.int64)
    lengths = np.diff(np.append(starts, len(lost)))
    return Rows(starts, lengths, lost[starts])


def is_outage(rows: Rows) -> npt.NDArray[np.bool_]:
    """Return for each row whether it is an outage."""
    least = _least_outage(rows)
    if least < 2:
        return np.zeros(len(rows.starts), dtype=bool)
    outages: npt.NDArray[np.bool_] = rows.lost & (rows.lengths >= least)
    return outages


def _least_outage(rows: Rows) -> int:
    """Return the least length of a row of lost probes that is an outage; 0 if there is no outage.

    There are more rows of this length than chance would make, if it lost only what is no outage.
    """
    probes = int(rows.lengths.sum())
    lengths = rows.lengths[rows.lost]
    # A row that is an outage raises the share of lost probes, and so what chance seems to make. So
    # take the outages found out, and look again, until nothing changes.
    least, best = 0, -1
    while best != least:
        best = least
        by_chance = int(lengths[lengths < best].sum() if best else lengths.sum())
        others = probes - int(lengths.sum()) + by_chance
        share = by_chance / others
        for length in range(2, int(lengths.max(initial=0)) + 1):
            expected = others * (1 - share) * share**length
            if _at_least(int((lengths >= length).sum()), expected) < UNLIKELY:
                least = length
                break
    return least


def _at_least(count: int, expected: float) -> float:
    """Return the probability (Poisson) of at least `count` events where `expected` are expected."""
    if count <= expected:
        return 1.0  # about a half, or more: not unlikely
    if expected == 0:
        return 0.0
    # The terms from `count` on fall faster than a geometric series.
    term = math.exp(count * math.log(expected) - expected - math.lgamma(count + 1))
    total, number = 0.0, count
    while term > 1e-12 and number < count + 10_000:
        total += term
        number += 1
        term *= expected / number
    return min(total, 1.0)
