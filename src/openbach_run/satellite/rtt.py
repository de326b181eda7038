# SPDX-License-Identifier: GPL-3.0-or-later
"""Round-trip times that somebody measured, as delay and loss of a link.

They come from ping, irtt or a CSV file:

    ping -D -O -i 0.2 HOST > ping.txt              -D writes the time of each answer
    irtt client -i 100ms -d 10m -o irtt HOST       writes irtt.json.gz
    time_s,rtt_ms                                  an empty rtt_ms is a probe without an answer

Each direction gets half of the round-trip time: the median of each second, or each probe's where
they are further apart.

Loss is a share of many probes: of a window with at least 20 lost ones of at least 100. Probes that
were lost in a row are an outage, if chance would not have made so many of such rows; one lost probe
never is. With --bin-s the loss of each bin is the share of its own probes.

Where irtt knows in which direction a packet was lost, that direction has the loss; otherwise a
probe survives each direction with the same probability, the square root of the share that was
answered. Probes are sent on the user's side: the return direction is theirs.

Several runs of ping in one file follow each other without the time between.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from openbach_jobs.link_file import FILE_BYTES, Change, LinkFileError, State, lines

GZIP = b"\x1f\x8b"
ANSWER = re.compile(r"(?:\[([0-9]+\.[0-9]+)\] )?.*icmp_seq[=: ]([0-9]+).* time[=<]([0-9.,]+) ?ms")
DUPLICATE = "DUP!"
LIKE_AN_ANSWER = re.compile(r"bytes from .*icmp_seq")
BEGIN = re.compile("PING ")
SENT = re.compile("([0-9]+) packets transmitted(?:.*, time ([0-9]+) ?ms)?")
SEQUENCE_NUMBERS = 1 << 16
"""The number of ICMP sequence numbers, which have 16 bits; ping begins again at 0."""
OUT_OF_ORDER = 50
"""The most probes that an answer may be late; a later one belongs to another run of ping."""
# More is no measurement of a link but a mistake in the file, and would fill the memory.
PROBES = 10_000_000
IRTT_LOST = {"false": "", "true": "unknown", "true_up": "return", "true_down": "forward"}
USUAL_INTERVAL_S = 1.0
"""The time between two probes of ping by default."""
DELAY_BIN_S = 1.0
LEAST_PROBES, LEAST_LOST = 100, 20
"""The least probes, and lost probes, of a share that is a rate: with 20 lost probes its standard
error is a fifth of it."""
UNLIKELY = 0.01
"""The probability below which rows of lost probes are not explained by chance."""


@dataclass(frozen=True)
class Probe:
    """A packet sent at `time_s` after the first one.

    `lost` is "" if it was answered after `rtt_ms`, else the direction in which it was lost:
    "forward", "return" or "unknown".
    """

    time_s: float
    rtt_ms: float
    lost: str = ""


class Measured(NamedTuple):
    """Probes in the order of their time, from 0 s on, and what was assumed of them.

    At least one was answered.
    """

    probes: list[Probe]
    assumed: list[str]

    @property
    def end_s(self) -> float:
        """Return the time in s at which the next probe would have been sent."""
        return round(self.probes[-1].time_s + _period_s(self.probes), 9)


def read(path: Path, interval_s: float | None) -> Measured:
    """Return the probes of a file. Raises LinkFileError.

    `interval_s` is the time between two probes of ping. Without it ping's own times count, or a
    second if ping wrote none.
    """
    head = _head(path)
    if head.startswith(GZIP) or head.removeprefix(BOM_UTF8).lstrip().startswith(b"{"):
        measured = Measured(_irtt(path, compressed=head.startswith(GZIP)), [])
    elif b"rtt_ms" in head:
        measured = _csv(path)
    else:
        measured = _ping(path, interval_s)
    if all(probe.lost for probe in measured.probes):
        raise LinkFileError(
            path,
            "no round-trip time in it: give the output of ping or irtt, or CSV with time_s,rtt_ms",
        )
    if any(probe.lost == "unknown" for probe in measured.probes):
        measured.assumed.append(
            "in which direction a probe was lost is not known: both lose the same"
        )
    return measured._replace(probes=sorted(measured.probes, key=lambda probe: probe.time_s))


def changes(probes: list[Probe], bin_s: float | None, rate_bps: float) -> Iterator[Change]:
    """Yield delay and loss over time. Where nothing was answered, the delay before it stays.

    With `bin_s` the loss, too, is that of each bin.
    """
    if bin_s is not None:
        delays = losses = _bins(probes, bin_s)
    else:
        delays, losses = _bins(probes, max(DELAY_BIN_S, _period_s(probes))), _loss_windows(probes)
    starts = dict(delays)
    windows = {time_s: _losses_pct(sent) for time_s, sent in losses}
    # Probes that were lost before the first answer have its delay: there is no other.
    delay_ms = next(probe.rtt_ms for probe in probes if not probe.lost) / 2
    loss_pct: dict[str, float] = {}
    for time_s in sorted({*starts, *windows}):
        if answered := [probe.rtt_ms for probe in starts.get(time_s, ()) if not probe.lost]:
            delay_ms = median(answered) / 2
        loss_pct = windows.get(time_s, loss_pct)
        for direction, share_pct in loss_pct.items():
            yield Change(
                time_s, direction, State(rate_bps, round(delay_ms, 6), round(share_pct, 4))
            )


Groups = list[tuple[float, list[Probe]]]
"""Pairs of a time in s and the probes from then on."""


def _bins(probes: list[Probe], bin_s: float) -> Groups:
    """Return the probes of each bin that has any."""
    grouped = groupby(probes, key=lambda probe: math.floor(probe.time_s / bin_s))
    return [(round(number * bin_s, 9), list(sent)) for number, sent in grouped]


def _loss_windows(probes: list[Probe]) -> Groups:
    """Return the probes by outages, and between these by windows with enough probes for a rate.

    Too few probes at the end are part of the last window. A window that an outage interrupts goes
    on after it.
    """
    rows = _rows(probes)
    least = _least_outage(rows)
    others: list[Probe] = []
    for row in rows:
        if not _is_outage(row, least):
            others += row
    windows: list[list[Probe]] = [[]]
    for probe in others:
        whole = (
            len(windows[-1]) >= LEAST_PROBES
            and sum(bool(one.lost) for one in windows[-1]) >= LEAST_LOST
        )
        if whole:
            windows.append([])
        windows[-1].append(probe)
    # The rest at the end has too few losses for a rate of its own.
    if len(windows) > 1 and sum(bool(one.lost) for one in windows[-1]) < LEAST_LOST:
        last = windows.pop()
        windows[-1] += last
    # By identity: two probes may have the same values.
    window_of = {id(probe): window for window in windows for probe in window}
    groups: Groups = []
    for row in rows:
        for probe in row[:1] if _is_outage(row, least) else row:
            group = row if _is_outage(row, least) else window_of[id(probe)]
            if not groups or groups[-1][1] is not group:
                groups.append((0.0 if not groups else round(probe.time_s, 9), group))
    return groups


def outages(probes: list[Probe]) -> list[list[Probe]]:
    """Return the rows of lost probes that are outages."""
    rows = _rows(probes)
    least = _least_outage(rows)
    return [row for row in rows if _is_outage(row, least)]


def _rows(probes: list[Probe]) -> list[list[Probe]]:
    """Return the probes in rows that were all answered, or all lost."""
    return [list(row) for _, row in groupby(probes, key=lambda probe: bool(probe.lost))]


def _is_outage(row: Sequence[Probe], least: int) -> bool:
    """Return whether a row of probes is an outage.

    `least` is the least length of one; 0 if there is none.
    """
    return bool(row[0].lost) and len(row) >= least > 1


def _least_outage(rows: list[list[Probe]]) -> int:
    """Return the least length of a row of lost probes that is an outage; 0 if there is no outage.

    There are more rows of this length than chance would make, if it lost only what is no outage.
    """
    probes = sum(map(len, rows))
    lengths = [len(row) for row in rows if row[0].lost]
    # A row that is an outage raises the share of lost probes, and so what chance seems to make. So
    # take the outages found out, and look again, until nothing changes.
    least, found = 0, -1
    while found != least:
        found = least
        by_chance = [length for length in lengths if not found or length < found]
        others = probes - sum(lengths) + sum(by_chance)
        share = sum(by_chance) / others
        for length in range(2, max(lengths, default=0) + 1):
            expected = others * (1 - share) * share**length
            if _at_least(sum(one >= length for one in lengths), expected) < UNLIKELY:
                least = length
                break
    return least


def _at_least(count: int, expected: float) -> float:
    """Return the probability (Poisson) of at least `count` events where `expected` are expected."""
    if count == 0:
        return 1.0
    term = total = math.exp(-expected)
    for number in range(1, count):
        term *= expected / number
        total += term
    return max(0.0, 1.0 - total)


def _losses_pct(sent: list[Probe]) -> dict[str, float]:
    """Return the loss in % by direction, from the probes that were sent."""
    lost = [probe.lost for probe in sent if probe.lost]
    answered = len(sent) - len(lost)
    # A probe survives both directions: with the same probability in each, it is the root of the
    # share.
    if "unknown" in lost:
        each_pct = 100 * (1 - math.sqrt(answered / len(sent)))
        return {"forward": each_pct, "return": each_pct}
    # Only probes that passed the return direction could be lost in the forward direction.
    arrived = answered + lost.count("forward")
    return {
        "forward": 100 * lost.count("forward") / arrived if arrived else 0.0,
        "return": 100 * lost.count("return") / len(sent),
    }


def _head(path: Path) -> bytes:
    """Return the first 4096 bytes of a file. Raises LinkFileError."""
    try:
        with path.open("rb") as file:
            return file.read(4096)
    except OSError as error:
        raise LinkFileError(path, error.strerror or str(error)) from error


@dataclass
class _Run:
    """A run of ping.

    `answers` has, by sequence number, when an answer came (None if ping did not write it) and after
    how many ms. `sent` and `sending_s` are from the summary at its end.
    """

    answers: dict[int, tuple[float | None, float]] = field(default_factory=dict)
    newest: int = 0
    wrapped: int = 0
    sent: int = 0
    sending_s: float | None = None

    def is_of_another(self, sequence: int) -> bool:
        """Return whether an answer belongs to another run of ping.

        Its number is there already, or it is later than an answer of this run can be.
        """
        if sequence < self.newest - SEQUENCE_NUMBERS // 2:
            return False  # the numbers begin again
        return self.wrapped + sequence in self.answers or sequence < self.newest - OUT_OF_ORDER

    def add(self, sequence: int, replied_s: float | None, rtt_ms: float) -> None:
        """Add an answer."""
        # A number far below the newest: the 16 bits began again at 0.
        if sequence < self.newest - SEQUENCE_NUMBERS // 2:
            self.wrapped += SEQUENCE_NUMBERS
        self.newest = sequence
        self.answers[self.wrapped + sequence] = replied_s, rtt_ms

    def span(self) -> tuple[int, int]:
        """Return the numbers of the first and the last probe.

        ping counts them from 1 (iputils) or from 0 (BSD).
        """
        first = (0 if 0 in self.answers else 1) if self.sent else min(self.answers)
        return first, max(*self.answers, first + self.sent - 1)

    def dated(self) -> list[tuple[int, float]]:
        """Return number and time of sending of the probes whose answers have a time (ping -D)."""
        return [
            (number, at_s - rtt_ms / 1000)
            for number, (at_s, rtt_ms) in self.answers.items()
            if at_s is not None
        ]

    def period_s(self) -> float | None:
        """Return the time between two probes in s; None if ping does not tell.

        It is taken from the first and the last answer, or else from the summary.
        """
        if len(dated := self.dated()) > 1:
            (low, low_s), (high, high_s) = min(dated), max(dated)
            # A clock that was set back between two answers must not make time stand still.
            return max((high_s - low_s) / (high - low), 1e-6)
        if self.sending_s and self.sent > 1:
            return self.sending_s / (self.sent - 1)
        return None


def _ping(path: Path, interval_s: float | None) -> Measured:
    """Return the probes of ping's output. Missing numbers were lost.

    The summary at the end tells how many were lost before the first answer and after the last.
    """
    runs = [run for run in _runs(path) if run.answers or run.sent]
    if not any(run.answers for run in runs):
        return Measured([], [])
    _refuse_overlaps(path, runs)
    assumed = []
    if len(runs) > 1:
        assumed.append(
            f"{len(runs)} runs of ping are in the file: one follows the other, without the time"
            " between them"
        )
    if any(run.period_s() is None for run in runs) and interval_s is None:
        assumed.append(
            f"ping has not written when it sent: a probe each {USUAL_INTERVAL_S:g} s (--interval-s)"
        )
    probes: list[Probe] = []
    start_s = 0.0
    for run in runs:
        period_s = (
            (run.period_s() if run.dated() else interval_s or run.period_s())
            or interval_s
            or USUAL_INTERVAL_S
        )
        first, last = run.span() if run.answers else (1, run.sent)
        _refuse_too_many(path, last - first + len(probes))
        for number in range(first, last + 1):
            _, rtt_ms = run.answers.get(number, (None, 0.0))
            lost = "" if number in run.answers else "unknown"
            probes.append(Probe(start_s + (number - first) * period_s, rtt_ms, lost))
        start_s += (last - first + 1) * period_s
    return Measured(probes, assumed)


def _runs(path: Path) -> list[_Run]:
    """Return the runs of ping in a file.

    One begins with a line `PING …`, or where the numbers begin again without a reason.
    """
    runs = [_Run()]
    for number, text in lines(path):
        if BEGIN.match(text) and runs[-1].answers:
            runs.append(_Run())
        if found := SENT.search(text):
            runs[-1].sent = int(found[1])
            runs[-1].sending_s = int(found[2]) / 1000 if found[2] else None
        answer = ANSWER.match(text)
        if not answer:
            if LIKE_AN_ANSWER.search(text):
                raise LinkFileError(
                    path, f"{text!r} is no answer that is understood: it has no time=… ms", number
                )
            continue
        # A second answer to one probe says nothing about the way of the first.
        if DUPLICATE in text:
            continue
        if (sequence := int(answer[2])) >= SEQUENCE_NUMBERS:
            raise LinkFileError(
                path, f"icmp_seq={sequence}: it has 16 bits, up to {SEQUENCE_NUMBERS - 1}", number
            )
        rtt_ms = _number(path, answer[3].replace(",", "."), "time", number)
        if runs[-1].sent or runs[-1].is_of_another(sequence):
            runs.append(_Run())
        runs[-1].add(sequence, None if answer[1] is None else float(answer[1]), rtt_ms)
    return runs


def _refuse_overlaps(path: Path, runs: list[_Run]) -> None:
    """Refuse a file with two runs of ping at the same time. Raises LinkFileError."""
    times_s = []
    for run in runs:
        times_s.append([at_s for _, at_s in run.dated()])
    for before, after in pairwise(filter(None, times_s)):
        if min(after) < max(before):
            raise LinkFileError(
                path, "two runs of ping were at the same time: give a file with one of them"
            )


def _period_s(probes: Sequence[Probe]) -> float:
    """Return the usual time between two probes in s."""
    gaps_s = [
        after.time_s - before.time_s
        for before, after in pairwise(probes)
        if after.time_s > before.time_s
    ]
    return median(gaps_s) if gaps_s else USUAL_INTERVAL_S


def _irtt(path: Path, compressed: bool) -> list[Probe]:
    """Return the probes of irtt's JSON. Raises LinkFileError."""
    try:
        with gzip.open(path) if compressed else path.open("rb") as file:
            text = file.read(FILE_BYTES + 1)
        if len(text) > FILE_BYTES:
            raise LinkFileError(
                path, f"more than {FILE_BYTES >> 20} MiB: measure for a shorter time"
            )
        trips = json.loads(text)["round_trips"]
        sent_ns = [trip["timestamps"]["client"]["send"]["monotonic"] for trip in trips]
        return [
            Probe(
                (at_ns - sent_ns[0]) / 1e9,
                trip["delay"].get("rtt", 0) / 1e6,
                IRTT_LOST[trip["lost"]],
            )
            for at_ns, trip in zip(sent_ns, trips, strict=True)
        ]
    except (
        OSError,
        EOFError,
        # Whatever the JSON holds in place of irtt's numbers and mappings is the file's fault, not
        # ours.
        ArithmeticError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        if isinstance(error, LinkFileError):
            raise
        raise LinkFileError(
            path, f"not the JSON of `irtt client -o`: {type(error).__name__}: {error}"
        ) from error


def _csv(path: Path) -> Measured:
    """Return the probes of a CSV file. Raises LinkFileError."""
    columns: list[str] = []
    runs: list[list[Probe]] = [[]]
    assumed: list[str] = []
    for number, text in lines(path):
        if not text or text.startswith("#"):
            continue
        cells = [cell.strip() for cell in text.split(",")]
        if not columns:
            if sorted(cells) != ["rtt_ms", "time_s"]:
                raise LinkFileError(
                    path,
                    f"the columns are {', '.join(cells)}; they should be time_s,rtt_ms",
                    number,
                )
            columns = cells
            continue
        if cells == columns:
            runs.append([])
            continue
        if len(cells) != len(columns):
            raise LinkFileError(path, f"{len(cells)} cells; the header has {len(columns)}", number)
        row = dict(zip(columns, cells, strict=True))
        time_s = _number(path, row["time_s"], "time_s", number)
        # A time that is back at the start begins another measurement; one that goes back a little
        # is a row out of order.
        if runs[-1] and time_s <= runs[-1][0].time_s < runs[-1][-1].time_s:
            runs.append([])
        elif runs[-1] and time_s < runs[-1][-1].time_s and not assumed:
            assumed.append(
                f"times go back (first in line {number}): the probes are in the order of their"
                " times"
            )
        rtt = row["rtt_ms"]
        lost = "" if rtt else "unknown"
        runs[-1].append(Probe(time_s, _number(path, rtt, "rtt_ms", number) if rtt else 0.0, lost))
    if len(runs := [run for run in runs if run]) > 1:
        assumed.append(
            f"{len(runs)} measurements are in the file: one follows the other, without the time"
            " between them"
        )
    return Measured(_appended(runs), assumed)


def _appended(runs: list[list[Probe]]) -> list[Probe]:
    """Return the probes of several measurements one after the other, from 0 s on."""
    probes: list[Probe] = []
    start_s = 0.0
    for run in runs:
        run.sort(key=lambda probe: probe.time_s)
        probes += [replace(probe, time_s=start_s + probe.time_s - run[0].time_s) for probe in run]
        start_s = probes[-1].time_s + _period_s(run)
    return probes


def _number(path: Path, cell: str, column: str, line: int) -> float:
    """Return the number of a cell. Raises LinkFileError with its line and column."""
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e12:
        raise LinkFileError(path, f"{cell!r} is not a number from 0 on", line, column)
    return value


def _refuse_too_many(path: Path, probes: int) -> None:
    """Refuse more probes than a measurement has. Raises LinkFileError."""
    if probes > PROBES:
        raise LinkFileError(path, f"{probes} probes; at most {PROBES} are read")
