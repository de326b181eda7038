# SPDX-License-Identifier: GPL-3.0-or-later
"""Several transfers at the same time: how much they carry together, and how they share the link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

MEASURES = ("total_goodput_mbps", "share_pct", "fairness_index")


class Interval(NamedTuple):
    start_s: float
    end_s: float
    bytes: float


def flow_measures(sent: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """From the statistics of file_transfer, by column of results.csv; nothing unless there are several flows with series.

    total_goodput_mbps   bytes of all flows over the time from the first one's start to the last one's end
    share_pct            the first flow's part of the bytes that arrived while all flows went on
    fairness_index       of the bytes that arrived then (Jain, Chiu and Hawe, 1984): 1 is fair, 1/flows is one flow only
    """
    rates: dict[str, list[tuple[float, float]]] = {}
    for one in sent:
        if "interval_goodput_bps" in one:
            end_s, flow = one["_metadata"]["time"] / 1000, one["_metadata"].get("suffix") or ""
            rates.setdefault(flow, []).append((end_s, one["interval_goodput_bps"]))
    flows = {name: _intervals(ends) for name, ends in rates.items() if len(ends) > 1}
    if len(flows) < 2:
        return {}
    starts_s = [min(interval.start_s for interval in flow) for flow in flows.values()]
    ends_s = [max(interval.end_s for interval in flow) for flow in flows.values()]
    whole_s = max(ends_s) - min(starts_s)
    total = sum(interval.bytes for flow in flows.values() for interval in flow)
    common = {name: _bytes(flow, max(starts_s), min(ends_s)) for name, flow in flows.items()}
    together = sum(common.values())
    if not together:
        return {"total_goodput_mbps": round(total * 8e-6 / whole_s, 6)}
    squares = sum(value**2 for value in common.values())
    return {
        "total_goodput_mbps": round(total * 8e-6 / whole_s, 6),
        "share_pct": round(100 * common[min(common)] / together, 6),
        "fairness_index": round(together**2 / (len(common) * squares), 6),
    }


def _intervals(rates_bps: Sequence[tuple[float, float]]) -> list[Interval]:
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
