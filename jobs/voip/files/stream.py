# SPDX-License-Identifier: GPL-3.0-or-later
"""The quality of a call, from the packets of one direction that arrived.

That is loss, delay, jitter, playout, R and MOS.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean, quantiles
from typing import Any, NamedTuple

import e_model

PACKET_MS = 20.0
DAY_MS = 24 * 3600 * 1000.0
TIME = r"(\d{1,2}):(\d{1,2}):(\d{1,2}\.?\d{0,9})"
LOG_LINE = re.compile(rf"Seq>\s*(\d{{1,9}}) .*txTime>{TIME}\s+rxTime>{TIME}\s")
SPURT_PACKETS = 50
"""Packets of a talkspurt: 1 s, the mean of ITU-T P.59."""
WINDOW_PACKETS = 2 * SPURT_PACKETS


class Packet(NamedTuple):
    """A packet that has arrived: its number and its delay."""

    number: int
    delay_ms: float


def read_log(text: str) -> list[Packet]:
    """Return the packets of a log that ITGDec -l has written, in the order of arrival.

    Its times are those of a day.
    """
    packets = []
    for line in text.splitlines():
        if logged := LOG_LINE.search(line):
            number, *times = logged.groups()
            packets.append(Packet(int(number), (_ms(*times[3:]) - _ms(*times[:3])) % DAY_MS))
    return packets


def _ms(hours: str, minutes: str, seconds: str) -> float:
    return (int(hours) * 60 + int(minutes)) * 60_000 + float(seconds) * 1000


def jitters_ms(packets: Sequence[Packet]) -> Iterator[float]:
    """Yield the interarrival jitter after each packet: RFC 3550, section 6.4.1."""
    jitter = 0.0
    for last, packet in pairwise(packets):
        jitter += (abs(packet.delay_ms - last.delay_ms) - jitter) / 16
        yield jitter


def playout_delays_ms(packets: Sequence[Packet], buffer_ms: float) -> Iterator[float]:
    """Yield how long after it was sent each packet is played, in ms.

    That is `buffer_ms` after the highest delay of the last packets. Such an adaptive buffer changes
    its delay between talkspurts only (Moon, Kurose, Towsley, Packet audio playout delay adjustment,
    Multimedia Systems 6, 1998): a packet of a spurt that comes later than that is of no use.
    """
    recent = deque([packets[0].delay_ms], maxlen=WINDOW_PACKETS)
    spurt, delay_ms = -1, 0.0
    for packet in packets:
        if packet.number // SPURT_PACKETS > spurt:
            spurt, delay_ms = packet.number // SPURT_PACKETS, max(recent) + buffer_ms
        yield delay_ms
        recent.append(packet.delay_ms)


def measured(packets: Sequence[Packet], sent: int, buffer_ms: float) -> dict[str, Any]:
    """Return the statistics of one direction of a call, of which `sent` packets were sent."""
    if not packets:
        return {"packets": sent, "loss_pct": 100.0, "r_factor": 0.0, "mos": e_model.mos(0)}
    delays = [packet.delay_ms for packet in packets]
    playout = list(playout_delays_ms(packets, buffer_ms))
    late = sum(delay > played for delay, played in zip(delays, playout, strict=True))
    lost = sent - len({packet.number for packet in packets})
    mouth_to_ear_ms = mean(playout) + PACKET_MS
    rating = e_model.rating(mouth_to_ear_ms, 100 * (lost + late) / sent)
    statistics = {
        "loss_pct": 100 * lost / sent,
        "late_pct": 100 * late / sent,
        "delay_ms": mean(delays),
        "delay_p95_ms": (
            quantiles(delays, n=20, method="inclusive")[-1] if len(delays) > 1 else delays[0]
        ),
        "jitter_ms": mean(jitters_ms(packets)) if len(packets) > 1 else 0.0,
        "mouth_to_ear_ms": mouth_to_ear_ms,
        "r_factor": rating,
        "mos": e_model.mos(rating),
    }
    return {"packets": sent, **{name: round(value, 3) for name, value in statistics.items()}}
