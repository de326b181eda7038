# SPDX-License-Identifier: GPL-3.0-or-later
"""What packets of a VPN cost a CPU, from runs in real time: a line through the cost of packets of several lengths.

It is the least squares line, with no negative coefficient, through the least of the repetitions at each length: what else the
machine does only adds to it (caches, pauses), and a program that always has something to do, as where the CPU is the
bottleneck, pays least. The errors are half the widths of 95 % bootstrap intervals of its coefficients: the repetitions at each
length are drawn anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import linear_regression, mean, quantiles
from typing import Any

from openbach_run.errors import InputError
from openbach_run.results.intervals import BOOTSTRAP_SEED
from openbach_run.results.record import Record, statistics

ENDS = {"encrypt": ("box_1", "tx"), "decrypt": ("box_2", "rx")}
"""Of an upload between the boxes of a LAN: who does it, and which of its tunnel's counters says how many packets."""
RESAMPLES = 2000
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
    """Of a run of lan_udp on the native engine. A program may hand several packets over as one, without the headers between
    them; what is sent has never more than one. Raises InputError if the run has not what is needed."""
    vpn, payload_bytes = record.arguments["vpn"], int(record.arguments["payload_bytes"])
    lines, header_bytes = list(statistics(run_dir)), 0.0
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
        counts, counted_bytes = counted[-1]
        if not counts or not times_s[-1]:
            raise InputError(f"{run_dir}: {vpn}: no program of {host} took time for a packet: the kernel carries them")
        header_bytes = header_bytes or counted_bytes / counts - payload_bytes
        packets = (counted_bytes - header_bytes * counts) / payload_bytes
        ns = times_s[-1] * 1e9 / packets
        found.append(Seen(vpn, direction, payload_bytes, record.seed, payload_bytes + header_bytes, ns))
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
    by_length: dict[int, list[Seen]] = {}
    for one in seen:
        by_length.setdefault(one.payload_bytes, []).append(one)
    groups, random = list(by_length.values()), Random(BOOTSTRAP_SEED)

    def line(drawn: Sequence[Sequence[Seen]]) -> tuple[float, float]:
        return line_of([(mean(one.packet_bytes for one in of), min(one.ns for one in of)) for of in drawn])

    drawn = [line([random.choices(of, k=len(of)) for of in groups]) for _ in range(RESAMPLES)]
    found = {}
    for number, name in enumerate(("ns_per_packet", "ns_per_byte")):
        found[name] = round(line(groups)[number], 4)
        if min(map(len, groups)) > 1:
            cuts = quantiles([one[number] for one in drawn], n=40)
            found[f"{name}_error"] = round((cuts[-1] - cuts[0]) / 2, 4)
    return found


def off_pct(times: Mapping[str, float], checked: Sequence[Seen]) -> float:
    """By how much the times say too much (or, negative, too little) of packets of a length that they do not come from."""
    length = mean(one.packet_bytes for one in checked)
    says_ns = times["ns_per_packet"] + times["ns_per_byte"] * length
    return round(100 * (says_ns / min(one.ns for one in checked) - 1), 2)


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
