# SPDX-License-Identifier: GPL-3.0-or-later
"""Round-trip times that somebody measured, as delay and loss of a link: from ping, irtt or a CSV file.

    ping -D -O -i 0.2 HOST > ping.txt              -D writes the time of each answer; without it --interval-s gives the period
    irtt client -i 100ms -d 10m -o irtt HOST       writes irtt.json.gz
    time_s,rtt_ms                                  an empty rtt_ms is a probe without an answer

Each direction gets half of the round-trip time: the median over a bin. Of the probes sent in a bin, the lost ones are its
loss. Where irtt knows in which direction a packet was lost, that direction has the loss; otherwise a probe survives
each direction with the same probability, the square root of the share that was answered. Probes are sent on
the user's side: the return direction is theirs.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median

from link_file import FILE_BYTES, Change, LinkFileError, State, lines

GZIP = b"\x1f\x8b"
ANSWER = re.compile(r"(?:\[([0-9]+\.[0-9]+)\] )?.*icmp_seq[=: ]([0-9]+).* time[=<]([0-9.]+) ?ms(?!.*DUP!)")
SENT = re.compile("([0-9]+) packets transmitted")
SEQUENCE_NUMBERS = 1 << 16
"""An ICMP sequence number has 16 bits; ping begins again at 0."""
PROBES = 10_000_000
IRTT_LOST = {"false": "", "true": "unknown", "true_up": "return", "true_down": "forward"}


@dataclass(frozen=True)
class Probe:
    """A packet sent at `time_s` after the first one. `lost` is "" if it was answered after `rtt_ms`, else the direction in
    which it was lost: "forward", "return" or "unknown"."""

    time_s: float
    rtt_ms: float
    lost: str = ""


def read(path: Path, interval_s: float) -> list[Probe]:
    """The probes of a file in the order of their time, from 0 s on; at least one was answered. `interval_s` is used for
    ping's output without times. Raises LinkFileError."""
    head = _head(path)
    if head.startswith(GZIP) or head.lstrip().startswith(b"{"):
        probes = _irtt(path, compressed=head.startswith(GZIP))
    elif b"rtt_ms" in head:
        probes = _csv(path)
    else:
        probes = _ping(path, interval_s)
    if all(probe.lost for probe in probes):
        raise LinkFileError(
            path, "no round-trip time in it: give the output of ping or irtt, or CSV with time_s,rtt_ms"
        )
    return sorted(probes, key=lambda probe: probe.time_s)


def changes(probes: list[Probe], bin_s: float, rate_bps: float) -> Iterator[Change]:
    """Delay and loss of each bin that has probes; a bin without an answer keeps the delay of the one before."""
    delay_ms = next(probe.rtt_ms for probe in probes if not probe.lost) / 2
    for number, grouped in groupby(probes, key=lambda probe: math.floor(probe.time_s / bin_s)):
        sent = list(grouped)
        if answered := [probe.rtt_ms for probe in sent if not probe.lost]:
            delay_ms = median(answered) / 2
        for direction, loss_pct in _losses_pct(sent).items():
            yield Change(round(number * bin_s, 9), direction, State(rate_bps, round(delay_ms, 6), round(loss_pct, 4)))


def _losses_pct(sent: list[Probe]) -> dict[str, float]:
    lost = [probe.lost for probe in sent if probe.lost]
    answered = len(sent) - len(lost)
    if "unknown" in lost:
        each_pct = 100 * (1 - math.sqrt(answered / len(sent)))
        return {"forward": each_pct, "return": each_pct}
    arrived = answered + lost.count("forward")
    return {
        "forward": 100 * lost.count("forward") / arrived if arrived else 0.0,
        "return": 100 * lost.count("return") / len(sent),
    }


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4096)
    except OSError as error:
        raise LinkFileError(path, error.strerror or str(error)) from error


def _ping(path: Path, interval_s: float) -> list[Probe]:
    """ping counts probes from 1 (iputils) or 0 (BSD). Missing numbers were lost; those before the first and after the last
    answer are known from the summary at its end."""
    answers: dict[int, tuple[float | None, float]] = {}
    wrapped = newest = sent = 0
    for number, text in lines(path):
        if found := SENT.search(text):
            sent = int(found[1])
        if not (answer := ANSWER.match(text)):
            continue
        sequence = int(answer[2])
        if sequence < newest - SEQUENCE_NUMBERS // 2:
            wrapped += SEQUENCE_NUMBERS
        newest = sequence
        rtt_ms = _number(path, answer[3], "time", number)
        replied_s = None if answer[1] is None else float(answer[1])
        answers.setdefault(wrapped + sequence, (replied_s, rtt_ms))
    if not answers:
        return []
    first = (0 if 0 in answers else 1) if sent else min(answers)
    last = max(*answers, first + sent - 1)
    _refuse_too_many(path, last - first)
    period_s = _period_s(answers, interval_s)
    unanswered = None, 0.0
    return [
        Probe((number - first) * period_s, answers.get(number, unanswered)[1], "" if number in answers else "unknown")
        for number in range(first, last + 1)
    ]


def _period_s(answers: dict[int, tuple[float | None, float]], interval_s: float) -> float:
    """Time between two probes: from the times of the first and the last answer, if ping wrote any."""
    dated = [(number, at_s - rtt_ms / 1000) for number, (at_s, rtt_ms) in answers.items() if at_s is not None]
    if len(dated) < 2:
        return interval_s
    (low, low_s), (high, high_s) = min(dated), max(dated)
    return max((high_s - low_s) / (high - low), 1e-6)


def _irtt(path: Path, compressed: bool) -> list[Probe]:
    try:
        with gzip.open(path) if compressed else path.open("rb") as file:
            text = file.read(FILE_BYTES + 1)
        if len(text) > FILE_BYTES:
            raise LinkFileError(path, f"more than {FILE_BYTES >> 20} MiB: measure for a shorter time")
        trips = json.loads(text)["round_trips"]
        sent_ns = [trip["timestamps"]["client"]["send"]["monotonic"] for trip in trips]
        return [
            Probe((at_ns - sent_ns[0]) / 1e9, trip["delay"].get("rtt", 0) / 1e6, IRTT_LOST[trip["lost"]])
            for at_ns, trip in zip(sent_ns, trips, strict=True)
        ]
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        if isinstance(error, LinkFileError):
            raise
        raise LinkFileError(path, f"not the JSON of `irtt client -o`: {type(error).__name__}: {error}") from error


def _csv(path: Path) -> list[Probe]:
    columns: list[str] = []
    probes: list[Probe] = []
    for number, text in lines(path):
        if not text or text.startswith("#"):
            continue
        cells = [cell.strip() for cell in text.split(",")]
        if not columns:
            if sorted(cells) != ["rtt_ms", "time_s"]:
                raise LinkFileError(path, f"the columns are {', '.join(cells)}; they should be time_s,rtt_ms", number)
            columns = cells
            continue
        if len(cells) != len(columns):
            raise LinkFileError(path, f"{len(cells)} cells; the header has {len(columns)}", number)
        row = dict(zip(columns, cells, strict=True))
        time_s = _number(path, row["time_s"], "time_s", number)
        rtt = row["rtt_ms"]
        probes.append(Probe(time_s, _number(path, rtt, "rtt_ms", number) if rtt else 0.0, "" if rtt else "unknown"))
    first_s = min((probe.time_s for probe in probes), default=0.0)
    return [Probe(probe.time_s - first_s, probe.rtt_ms, probe.lost) for probe in probes]


def _number(path: Path, cell: str, column: str, line: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e12:
        raise LinkFileError(path, f"{cell!r} is not a number from 0 on", line, column)
    return value


def _refuse_too_many(path: Path, probes: int) -> None:
    if probes > PROBES:
        raise LinkFileError(path, f"{probes} probes; at most {PROBES} are read")
