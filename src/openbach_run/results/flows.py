# SPDX-License-Identifier: GPL-3.0-or-later
"""Several flows at the same time, each with the rates at which it went: how much they transfer together, and how they share
the link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Rates = Sequence[tuple[float, float]]
"""Of a flow: the end of each interval in s, and the rate in it in bit/s."""


class Interval(NamedTuple):
    start_s: float
    end_s: float
    bytes: float


def total_rate_bps(flows: Mapping[str, Rates]) -> float | None:
    """Bytes of all flows times 8 over the time from the first one's start to the last one's end. As with the others, None
    unless there are several flows with several intervals, and time between them."""
    if not (found := _several(flows)):
        return None
    starts_s = [interval.start_s for flow in found.values() for interval in flow]
    ends_s = [interval.end_s for flow in found.values() for interval in flow]
    duration_s = max(ends_s) - min(starts_s)
    return sum(interval.bytes for flow in found.values() for interval in flow) * 8 / duration_s if duration_s else None


def first_share_pct(flows: Mapping[str, Rates]) -> float | None:
    """The first flow's part of the bytes that arrived while all flows went on."""
    common = _while_all_went_on(flows)
    return 100 * common[min(common)] / sum(common.values()) if common else None


def fairness(flows: Mapping[str, Rates]) -> float | None:
    """Of the bytes that arrived then (Jain, Chiu and Hawe, 1984): 1 is fair, 1/flows is one flow only."""
    common = _while_all_went_on(flows)
    squares = sum(value**2 for value in common.values())
    return sum(common.values()) ** 2 / (len(common) * squares) if common else None


def _while_all_went_on(flows: Mapping[str, Rates]) -> dict[str, float]:
    """Bytes by flow; nothing if there was no such time, or nothing arrived in it."""
    if not (found := _several(flows)):
        return {}
    from_s = max(min(interval.start_s for interval in flow) for flow in found.values())
    to_s = min(max(interval.end_s for interval in flow) for flow in found.values())
    common = {name: _bytes(flow, from_s, to_s) for name, flow in found.items()}
    return common if any(common.values()) else {}


def _several(flows: Mapping[str, Rates]) -> dict[str, list[Interval]]:
    found = {name: _intervals(rates) for name, rates in flows.items() if len(rates) > 1}
    return found if len(found) > 1 else {}


def _intervals(rates_bps: Rates) -> list[Interval]:
    """From the ends of intervals without gaps and their rates; the first is as long as the second."""
    ends_s = [end_s for end_s, _ in rates_bps]
    starts_s = [2 * ends_s[0] - ends_s[1], *ends_s]
    return [
        Interval(start_s, end_s, rate_bps * (end_s - start_s) / 8)
        for start_s, (end_s, rate_bps) in zip(starts_s, rates_bps, strict=False)
    ]


def _bytes(flow: Iterable[Interval], from_s: float, to_s: float) -> float:
    """What arrived in a time; an interval that is only partly in it counts by its part."""
    total = 0.0
    for start_s, end_s, size in flow:
        inside_s = min(end_s, to_s) - max(start_s, from_s)
        if inside_s > 0:
            total += size * inside_s / (end_s - start_s)
    return total
