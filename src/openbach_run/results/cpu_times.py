# SPDX-License-Identifier: GPL-3.0-or-later
"""Estimate the CPU time that a VPN needs per packet and per byte, from runs in real time.

The costs are a line through the CPU times of packets of several lengths. The line is the least
squares line without a negative coefficient. At each length it uses the least time of the
repetitions, for two reasons: other work of the machine (caches, pauses) only adds to the time, and
a program that is always busy, as where the CPU is the bottleneck, needs the least time per packet.
The errors are half the widths of 95 % bootstrap intervals of the coefficients, for which the
repetitions at each length are drawn anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import linear_regression, mean, quantiles
from typing import Any

from openbach_run.errors import InputError
from openbach_run.results.record import Record, statistics

BOOTSTRAP_SEED = 1
ENDS = {"encrypt": ("box_1", "tx"), "decrypt": ("box_2", "rx")}
"""The ends of an upload between the boxes of a LAN, by direction: the host that does the work, and
the side of its tunnel whose counter says how many packets there were."""
RESAMPLES = 2000
PROGRAM_TIMES = "cpu_by_program"
"""The name of the job under which the native engine sends CPU times."""


@dataclass(frozen=True)
class Seen:
    """The packets of one run in one direction, and the CPU time in ns that one of them took."""

    vpn: str
    direction: str
    payload_bytes: int
    repetition: int
    packet_bytes: float
    ns: float


def seen_in(record: Record, run_dir: Path) -> list[Seen]:
    """Return the packets of a run of lan_udp on the native engine, one entry per direction.

    The header length is taken from the packets that are sent, each of which has exactly one header.
    A receiving program may hand over several packets as one, without the headers between them.
    Raises InputError if the run lacks the CPU times or the packet counts.
    """
    vpn, payload_bytes = record.arguments["vpn"], int(record.arguments["payload_bytes"])
    lines, header_bytes = list(statistics(run_dir)), 0.0
    costs_seen = []
    for direction, (host, side) in ENDS.items():
        times_s = [
            line["cpu_s"]
            for line in lines
            if line["_metadata"]["job_name"] == PROGRAM_TIMES
            and line["_metadata"].get("suffix") == host
        ]
        counted = [
            (line[f"{side}_packets"], line[f"{side}_bytes"])
            for line in lines
            if line["_metadata"]["agent_name"].endswith(host) and f"{side}_packets" in line
        ]
        if not times_s or not counted:
            raise InputError(
                f"{run_dir}: says nothing of the CPU time of {host} or of the packets of its tunnel"
            )
        counts, counted_bytes = counted[-1]
        if not counts or not times_s[-1]:
            raise InputError(
                f"{run_dir}: {vpn}: no program of {host} took time for a packet: the kernel carries"
                " them"
            )
        # Only the first direction (encrypt) sets it: what is sent has one header per packet.
        header_bytes = header_bytes or counted_bytes / counts - payload_bytes
        packets = (counted_bytes - header_bytes * counts) / payload_bytes
        ns = times_s[-1] * 1e9 / packets
        costs_seen.append(
            Seen(vpn, direction, payload_bytes, record.seed, payload_bytes + header_bytes, ns)
        )
    return costs_seen


def line_of(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return intercept and slope of the least squares line, neither of them negative.

    The points are (x, y), of at least two different lengths x.
    """
    slope, intercept = linear_regression(*zip(*points, strict=True))
    if slope < 0:
        # The best line without a negative slope is flat, without a negative intercept through 0.
        return mean(y for _, y in points), 0.0
    if intercept < 0:
        return 0.0, sum(x * y for x, y in points) / sum(x * x for x, _ in points)
    return intercept, slope


def costs(seen: Sequence[Seen]) -> dict[str, float]:
    """Return the costs of one VPN in one direction, with the keys of a CPU profile.

    The keys are ns_per_packet and ns_per_byte, each with its error if every length was measured
    more than once.
    """
    by_length: dict[int, list[Seen]] = {}
    for cost in seen:
        by_length.setdefault(cost.payload_bytes, []).append(cost)
    groups, random = list(by_length.values()), Random(BOOTSTRAP_SEED)

    def line(drawn: Sequence[Sequence[Seen]]) -> tuple[float, float]:
        points = []
        for group in drawn:
            packet_bytes = mean(cost.packet_bytes for cost in group)
            points.append((packet_bytes, min(cost.ns for cost in group)))
        return line_of(points)

    drawn = []
    for _ in range(RESAMPLES):
        resample = [random.choices(group, k=len(group)) for group in groups]
        drawn.append(line(resample))
    profile = {}
    for number, name in enumerate(("ns_per_packet", "ns_per_byte")):
        profile[name] = round(line(groups)[number], 4)
        if min(map(len, groups)) > 1:
            # The outer two of 39 cuts are the 2.5 % and 97.5 % quantiles.
            cuts = quantiles([fitted[number] for fitted in drawn], n=40)
            profile[f"{name}_error"] = round((cuts[-1] - cuts[0]) / 2, 4)
    return profile


def off_pct(times: Mapping[str, float], checked: Sequence[Seen]) -> float:
    """Return by how many percent the fitted times exceed the measured ones (negative: fall short).

    `checked` are packets of a length that was not used for the fit.
    """
    length = mean(cost.packet_bytes for cost in checked)
    says_ns = times["ns_per_packet"] + times["ns_per_byte"] * length
    return round(100 * (says_ns / min(cost.ns for cost in checked) - 1), 2)


def vpns_of(seen: Sequence[Seen], check_bytes: int) -> dict[str, Any]:
    """Return the value of a profile's key `vpns`: costs by VPN and direction.

    Packets with a payload of `check_bytes` are left out of the fit. If there are any, the result
    says how far the fit is off for them.
    """
    vpns: dict[str, Any] = {}
    for vpn in sorted({cost.vpn for cost in seen}):
        for direction in ENDS:
            of_one = [cost for cost in seen if (cost.vpn, cost.direction) == (vpn, direction)]
            times = costs([cost for cost in of_one if cost.payload_bytes != check_bytes])
            checked = [cost for cost in of_one if cost.payload_bytes == check_bytes]
            check = {f"off_pct_at_{check_bytes}_bytes": off_pct(times, checked)} if checked else {}
            vpns.setdefault(vpn, {})[direction] = {**times, **check}
    return vpns
