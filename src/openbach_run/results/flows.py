# SPDX-License-Identifier: GPL-3.0-or-later
"""Sum and share of several flows that go on at the same time, from the rates of each one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

Rates = Sequence[tuple[float, float]]
"""The rates of a flow: the end of each interval in s, and the rate in it in bit/s."""


class Interval(NamedTuple):
    """The bytes of a flow that arrived in an interval of time."""

    start_s: float
    end_s: float
    bytes: float


def total_rate_bps(flows: Mapping[str, Rates]) -> float | None:
    """Return the rate in bit/s of all flows together, from the first start to the last end.

    Return None unless there are several flows with several intervals each, and time between their
    start and end. The other functions do the same.
    """
    if not (several := _several(flows)):
        return None
    intervals = list(chain.from_iterable(several.values()))
    start_s = min(interval.start_s for interval in intervals)
    duration_s = max(interval.end_s for interval in intervals) - start_s
    total_bytes = sum(interval.bytes for interval in intervals)
    return total_bytes * 8 / duration_s if duration_s else None


def first_share_pct(flows: Mapping[str, Rates]) -> float | None:
    """Return the first flow's percentage of the bytes that arrived while all flows went on."""
    common = _while_all_went_on(flows)
    return 100 * common[min(common)] / sum(common.values()) if common else None


def fairness(flows: Mapping[str, Rates]) -> float | None:
    """Return the fairness index (Jain, Chiu and Hawe, 1984) of the bytes while all flows went on.

    1 is fair; 1/flows means that one flow got everything.
    """
    common = _while_all_went_on(flows)
    squares = sum(value**2 for value in common.values())
    return sum(common.values()) ** 2 / (len(common) * squares) if common else None


def _while_all_went_on(flows: Mapping[str, Rates]) -> dict[str, float]:
    """Return the bytes by flow in the time when all flows went on; {} if there were none."""
    if not (several := _several(flows)):
        return {}
    starts_s, ends_s = [], []
    for flow in several.values():
        starts_s.append(min(interval.start_s for interval in flow))
        ends_s.append(max(interval.end_s for interval in flow))
    from_s, to_s = max(starts_s), min(ends_s)
    common = {name: _bytes(flow, from_s, to_s) for name, flow in several.items()}
    return common if any(common.values()) else {}


def _several(flows: Mapping[str, Rates]) -> dict[str, list[Interval]]:
    """Return the intervals of flows that have several; {} unless there are several such flows."""
    several = {name: _intervals(rates) for name, rates in flows.items() if len(rates) > 1}
    return several if len(several) > 1 else {}


def _intervals(rates_bps: Rates) -> list[Interval]:
    """Return a flow's intervals, made from their ends and rates; there are no gaps between them.

    The first interval is taken to be as long as the second.
    """
    ends_s = [end_s for end_s, _ in rates_bps]
    starts_s = [2 * ends_s[0] - ends_s[1], *ends_s]
    return [
        Interval(start_s, end_s, rate_bps * (end_s - start_s) / 8)
        for start_s, (end_s, rate_bps) in zip(starts_s, rates_bps, strict=False)
    ]


def _bytes(flow: Iterable[Interval], from_s: float, to_s: float) -> float:
    """Return the bytes that arrived between two times; an interval partly in it counts in part."""
    total = 0.0
    for start_s, end_s, size in flow:
        inside_s = min(end_s, to_s) - max(start_s, from_s)
        if inside_s > 0:
            total += size * inside_s / (end_s - start_s)
    return total
