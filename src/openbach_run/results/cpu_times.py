# SPDX-License-Identifier: GPL-3.0-or-later
"""What packets of a VPN cost a CPU, from runs in real time: a line through the cost of packets of several lengths.

Of each repetition the least squares line is taken, with no negative coefficient; the medians of its two coefficients over the
repetitions are the profile's, half the widths of their 95 % bootstrap intervals (results/intervals.py) the errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, mean, median
from typing import Any

from openbach_run.errors import InputError
from openbach_run.results.intervals import estimate
from openbach_run.results.record import Record, statistics

ENDS = {"encrypt": ("box_1", "tx"), "decrypt": ("box_2", "rx")}
"""Of an upload between the boxes of a LAN: who does it, and which of its tunnel's counters says how many packets."""
PROGRAM_TIMES = "cpu_by_program"
"""The job that the native engine sends CPU times as."""


@dataclass(frozen=True)
class Seen:
    """A run's packets in one direction, and the time of the CPU that one of them took."""

    vpn: str
    direction: str
    payload_bytes: int
    repetition: int
    packet_bytes: float
    ns: float


def seen_in(record: Record, run_dir: Path) -> list[Seen]:
    """Of a run of lan_udp on the native engine. Raises InputError if it has not what is needed."""
    vpn, lines = record.arguments["vpn"], list(statistics(run_dir))
    found = []
    for direction, (host, side) in ENDS.items():
        times_s = [
            line["cpu_s"]
            for line in lines
            if line["_metadata"]["job_name"] == PROGRAM_TIMES and line["_metadata"].get("suffix") == host
        ]
        counted = [
            (line[f"{side}_packets"], line[f"{side}_bytes"])
            for line in lines
            if line["_metadata"]["agent_name"].endswith(host) and f"{side}_packets" in line
        ]
        if not times_s or not counted:
            raise InputError(f"{run_dir}: says nothing of the CPU time of {host} or of the packets of its tunnel")
        packets, length = counted[-1]
        if not packets or not times_s[-1]:
            raise InputError(f"{run_dir}: {vpn}: no program of {host} took time for a packet: the kernel carries them")
        size = int(record.arguments["payload_bytes"])
        found.append(Seen(vpn, direction, size, record.seed, length / packets, times_s[-1] * 1e9 / packets))
    return found


def line_of(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Intercept and slope of the least squares line through points of at least two lengths; none of both is negative."""
    slope, intercept = linear_regression(*zip(*points, strict=True))
    if slope < 0:
        return mean(y for _, y in points), 0.0
    if intercept < 0:
        return 0.0, sum(x * y for x, y in points) / sum(x * x for x, _ in points)
    return intercept, slope


def costs(seen: Sequence[Seen]) -> dict[str, float]:
    """Of one VPN and direction, as profiles of CPUs have it."""
    points: dict[int, list[tuple[float, float]]] = {}
    for one in seen:
        points.setdefault(one.repetition, []).append((one.packet_bytes, one.ns))
    lines = [line_of(of_one) for of_one in points.values()]
    found = {}
    for name, values in zip(("ns_per_packet", "ns_per_byte"), zip(*lines, strict=True), strict=True):
        about = estimate(list(values))
        assert about is not None
        found[name] = round(about.median, 4)
        if about.low is not None and about.high is not None:
            found[f"{name}_error"] = round((about.high - about.low) / 2, 4)
    return found


def off_pct(times: Mapping[str, float], checked: Sequence[Seen]) -> float:
    """By how much the times say too much (or, negative, too little) of packets of a length that they do not come from."""
    says = [times["ns_per_packet"] + times["ns_per_byte"] * one.packet_bytes for one in checked]
    return round(100 * (median(says) / median(one.ns for one in checked) - 1), 2)


def vpns_of(seen: Sequence[Seen], check_bytes: int) -> dict[str, Any]:
    """The key `vpns` of a profile: costs by VPN and direction, with what the packets of `check_bytes`, which are not in them,
    say of them."""
    found: dict[str, Any] = {}
    for vpn in sorted({one.vpn for one in seen}):
        for direction in ENDS:
            of_one = [one for one in seen if (one.vpn, one.direction) == (vpn, direction)]
            times = costs([one for one in of_one if one.payload_bytes != check_bytes])
            checked = [one for one in of_one if one.payload_bytes == check_bytes]
            check = {f"off_pct_at_{check_bytes}_bytes": off_pct(times, checked)} if checked else {}
            found.setdefault(vpn, {})[direction] = {**times, **check}
    return found
