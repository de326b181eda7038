# SPDX-License-Identifier: GPL-3.0-or-later
"""Text output of iperf3, iperf and nuttcp: a rate for each interval, and losses of UDP."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from openbach_jobs.link_file import LinkFileError
from satlink.measured import Measured, Options, Series, number_of, shown

IPERF = re.compile(
    r"\[ *(\d+|SUM)\](?:\[(TX|RX)-\w\])? +([\d.]+) *- *([\d.]+) +sec +[\d.]+ +[KMGT]?i?Bytes"
    r" +([\d.]+) +([KMGT]?)(bits|Bytes)/sec(.*)"
)
IPERF_LOST = re.compile(r" (\d{1,12})/ *(\d{1,12}) +\(")
IPERF_LIKE = re.compile(r"\[ *(?:\d+|SUM)\].* sec .*/sec")
NUTTCP = re.compile(r" *([\d.]+) +MB +/ +([\d.]+) +sec += +([\d.]+) +Mbps(.*)")
NUTTCP_LOST = re.compile(r" (\d{1,12}) +/ +(\d{1,12}) +~?drop/pkt")
FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
MOST_BPS = 1e12
ONE_RUN = re.compile(r"(?:Connecting to host|Client connecting to|Accepted connection from) ")
REVERSE = re.compile(r"Reverse mode")
SERVER = re.compile(r"(?:Server listening on|Accepted connection from) ")
QUEUE = "the rate of the link is what {} got through in each interval"
LOSSES = (
    "what UDP lost is the link's loss; if it sent more than the link carries, it is the queue's"
    " loss: measure with less (-b)"
)
ANY_SIDE = (
    "on which side it ran is not known: both directions have this rate (--forward FILE,"
    " --return FILE)"
)
HINTS = {
    "iperf": re.compile(rf"^{IPERF.pattern}", re.M),
    "nuttcp": re.compile(rf"^{NUTTCP.pattern}", re.M),
}


@dataclass
class Rates:
    """Rates and losses of each direction, with the times from which they hold."""

    rates: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    losses: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    end_s: float = 0.0

    def add(self, direction: str, at_s: float, end_s: float, rate_bps: float) -> None:
        """Take the rate of an interval."""
        self.rates.setdefault(direction, []).append((at_s, rate_bps))
        self.end_s = max(self.end_s, end_s)

    def add_loss(self, direction: str, at_s: float, lost: float, sent: float) -> None:
        """Take how many packets of an interval were lost, and sent."""
        if sent:
            lost_pct = min(max(100 * lost / sent, 0.0), 100.0)
            self.losses.setdefault(direction, []).append((at_s, lost_pct))

    def measured(self, path: Path, assumed: list[str]) -> Measured:
        """Return all as series. Raises LinkFileError if there is none."""
        if not self.rates:
            raise LinkFileError(path, "no interval with a rate in it (-i 1 prints them)")
        series = []
        for quantity, values in (("rate_bps", self.rates), ("loss_pct", self.losses)):
            for direction, rows in values.items():
                table = np.array(sorted(rows), dtype=np.float64)
                series.append(Series(quantity, direction, table[:, 0], table[:, 1]))
        if any(loss_pct for rows in self.losses.values() for _, loss_pct in rows):
            assumed = [*assumed, LOSSES]
        return Measured(None, tuple(series), self.end_s, assumed)


class _Interval(NamedTuple):
    """A line of iperf with a rate: of one stream, or of all (SUM)."""

    stream: str
    direction: str
    start_s: float
    end_s: float
    rate_bps: float
    rest: str


@dataclass
class _Runs:
    """The runs of iperf in a file: all intervals, one run after the other."""

    intervals: list[_Interval] = field(default_factory=list)
    count: int = 0
    is_server: bool = False
    begin_s: float = 0.0
    last_s: float = 0.0
    direction: str = "return"
    ends_s: dict[tuple[str, str], float] = field(default_factory=dict)
    """Ends of the newest interval of each stream of this run."""

    def begin(self) -> None:
        """Begin with another run, where the one before ended."""
        self.count += 1
        self.begin_s, self.direction, self.ends_s = self.last_s, "return", {}

    def add(self, path: Path, number: int, match: re.Match[str]) -> None:
        """Take a line with a rate. Raises LinkFileError."""
        stream, role, start, end, rate, unit, of, rest = match.groups()
        start_s = number_of(path, start, "interval", number)
        end_s = number_of(path, end, "interval", number)
        bits = FACTORS[unit] * (8 if of == "Bytes" else 1)
        rate_bps = number_of(path, rate, "rate", number) * bits
        if not start_s < end_s:
            raise LinkFileError(path, f"the interval {start} to {end} s has no length", number)
        if rate_bps > MOST_BPS:
            raise LinkFileError(path, f"{rate} {unit}{of}/sec is too large", number)
        key = (stream, role or "")
        # The summary at the end begins again at 0: it repeats what the intervals said.
        if "(omitted)" in rest or start_s < self.ends_s.get(key, 0.0):
            return
        self.ends_s[key] = end_s
        self.last_s = max(self.last_s, self.begin_s + end_s)
        direction = {"TX": "return", "RX": "forward"}.get(role or "", self.direction)
        begin_s = self.begin_s + start_s
        self.intervals.append(
            _Interval(stream, direction, begin_s, self.begin_s + end_s, rate_bps, rest)
        )

    def of_the_link(self, path: Path) -> list[_Interval]:
        """Return the intervals of all streams together. Raises LinkFileError."""
        sums = [interval for interval in self.intervals if interval.stream == "SUM"]
        if sums:
            return sums
        begins = {(interval.direction, interval.start_s) for interval in self.intervals}
        if len(begins) < len(self.intervals):
            streams = len({interval.stream for interval in self.intervals})
            raise LinkFileError(path, f"{streams} streams without their sum ([SUM])")
        return self.intervals


def read_iperf(path: Path, text: str, options: Options) -> Measured:
    """Return the rate of each interval that iperf or iperf3 printed. Raises LinkFileError.

    Of several streams their sum counts. What the client sends is the return direction.
    """
    runs = _Runs()
    for number, untrimmed in enumerate(text.split("\n"), 1):
        line = untrimmed.strip("\r ")
        if SERVER.match(line):
            runs.is_server = True
        if ONE_RUN.match(line):
            runs.begin()
        elif REVERSE.match(line):
            runs.direction = "forward"
        elif match := IPERF.match(line):
            runs.add(path, number, match)
        elif IPERF_LIKE.match(line):
            raise LinkFileError(path, f"{shown(line)} is no interval of iperf", number)
    rates = Rates()
    for interval in runs.of_the_link(path):
        direction = "both" if runs.is_server else interval.direction
        rates.add(direction, interval.start_s, interval.end_s, interval.rate_bps)
        if lost := IPERF_LOST.search(interval.rest):
            rates.add_loss(direction, interval.start_s, int(lost[1]), int(lost[2]))
    user_side = "iperf's client is on the user's side: what it sends is the return direction"
    assumed = [QUEUE.format("iperf"), ANY_SIDE if runs.is_server else user_side]
    if runs.count > 1:
        assumed.append(f"{runs.count} runs of iperf are in the file: one follows the other")
    return rates.measured(path, assumed)


def read_nuttcp(path: Path, text: str, options: Options) -> Measured:
    """Return the rate of each interval that nuttcp printed. Raises LinkFileError.

    Its lines say whether the side that printed them receives (nuttcp-r) or transmits (nuttcp-t).
    """
    direction = "both"
    if side := re.search(r"^nuttcp-([rt]):", text, re.M):
        direction = {"r": "forward", "t": "return"}[side[1]]
    rates = Rates()
    at_s = 0.0
    for number, line in enumerate(text.split("\n"), 1):
        match = NUTTCP.match(line.strip("\r "))
        # The summary at the end says how busy both ends were.
        if match is None or "%TX" in match[4]:
            continue
        length_s = number_of(path, match[2], "interval", number)
        rate_bps = number_of(path, match[3], "rate", number) * 1e6
        if not length_s > 0 or rate_bps > MOST_BPS:
            raise LinkFileError(path, f"{shown(line)} is no interval of nuttcp", number)
        end_s = round(at_s + length_s, 6)
        rates.add(direction, at_s, end_s, rate_bps)
        if lost := NUTTCP_LOST.search(match[4]):
            rates.add_loss(direction, at_s, int(lost[1]), int(lost[2]))
        at_s = end_s
    user_side = "nuttcp ran on the user's side: what it receives is the forward direction"
    assumed = [QUEUE.format("nuttcp"), ANY_SIDE if direction == "both" else user_side]
    return rates.measured(path, assumed)
