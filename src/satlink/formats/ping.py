# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of ping: of Linux, busybox, macOS and BSD, Windows; and fping.

A probe whose number is missing was lost. Lines that are known and say nothing of a probe are
skipped; what is not known is counted and said; what looks like half an answer is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from openbach_jobs.link_file import LinkFileError
from satlink.formats.columns import is_heading
from satlink.measured import (
    USUAL_INTERVAL_S,
    Measured,
    Options,
    Probes,
    number_of,
    one_after_the_other,
    probes_of,
    several,
    shown,
)

SEQUENCE_NUMBERS = 1 << 16
"""The number of ICMP sequence numbers, which have 16 bits; ping begins again at 0."""
OUT_OF_ORDER = 50
"""The most probes that an answer may be late; a later one belongs to another run."""
PROBES = 10_000_000
WINDOWS_TIMEOUT_S = 4.0
"""Time that ping of Windows waits for an answer (-w)."""

ANSWER = re.compile(
    r"(?:\[(\d+\.\d+)\] )?.*?\b(?:icmp_)?seq[=: ](\d{1,999})\b.*?"
    r" (?:time|temps|Zeit)[=<]([\d.,]{1,30}) ?ms"
)
LIKE_AN_ANSWER = re.compile(r"(bytes|octets|Bytes) (from|de|von) .*seq|\bseq=\d+ ttl=")
UNANSWERED = re.compile(
    r"(?:\[[\d.]+\] )?(?:no answer yet for|Request timeout for|From .*) icmp_seq[=: ]?(\d{1,9})\b"
)
BEGIN = re.compile(r"(?:PING|Pinging|Ping wird ausg|Envoi d.une requ|Haciendo ping) ?")
SENT = re.compile(r"\b([0-9]{1,9}) packets transmitted(?:.*, time ([0-9]{1,12}) ?ms)?")
KNOWN = re.compile(
    r"--- .* ping statistics ---|rtt |round-trip |\d+ packets |ping: |PATTERN|\^C|pipe \d|$"
    r"|.*\(DUP!\)|.*duplicate|Ping statistics for |Ping-Statistik|Statistiques Ping"
    r"|\s*(Packets|Pakete|Paquets)\s?:|\s*\(\d+% |\s*(Approximate|Minimum|Ca\. Zeit|Dur.e approx)"
    r"|\s*(Durée|Control-C|STRG-C|Ctrl-C)|.* : xmt/rcv/%loss|ICMP |\[\d\d:\d\d:\d\d\]$|\d+% "
)

WINDOWS_ANSWER = re.compile(
    r"(?:Reply from|Antwort von|R.ponse de|Respuesta desde) \S+?\s?: "
    r".*(?:time|Zeit|temps|tiempo)[ =<]+(\d{1,9}) ?ms"
)
WINDOWS_LOST = re.compile(
    r"Request timed out|Zeit.berschreitung|D.lai d.attente|Tiempo de espera|General failure"
    r"|Allgemeiner Fehler|D.faillance g.n.rale|(Reply from|Antwort von|R.ponse de) .*:"
    r".*(unreachable|nicht erreichbar|inaccessible|impossible|TTL expired|berschritten)"
    r"|PING: transmit failed"
)
WINDOWS_HALF = re.compile(r"Reply from|Antwort von|R.ponse de|Respuesta desde")

FPING = re.compile(
    r"(?:\[(\d+\.\d+)\] )?(\S+)\s+: \[(\d{1,9})\], (?:\d+ bytes, ([\d.e+]+) ms|timed out)"
)
FPING_HALF = re.compile(r"\S+\s+: \[\d+\]")
FPING_ROW = re.compile(r"(\S+)\s+: ((?:[\d.]+|-)(?: (?:[\d.]+|-))+)$")
"""Line that `fping -C` writes at its end: all round-trip times in a row."""

HINTS = {
    "ping": re.compile(r"bytes from \S+:? .*seq|\bseq=\d+ ttl=|^PING |icmp_seq[=: ]", re.M),
    "windows": re.compile(f"^(?:{WINDOWS_HALF.pattern})|^Pinging ", re.M),
    "fping": re.compile(r"^(?:\[[\d.]+\] )?\S+\s+: (?:\[\d+\], |(?:[\d.]+|-)(?: |$))", re.M),
}


@dataclass
class Run:
    """One run of ping: a list for each column, and what its summary says."""

    numbers: list[int] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    """When an answer came; nan if ping did not write it."""
    rtts_ms: list[float] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    newest: int = -1
    wrapped: int = 0
    unanswered: int = -1
    """The greatest number that ping says had no answer."""
    sent: int = 0
    sending_s: float | None = None

    def add(self, number: int, at_s: float, rtt_ms: float) -> None:
        """Add an answer."""
        self.numbers.append(number)
        self.at_s.append(at_s)
        self.rtts_ms.append(rtt_ms)
        self.seen.add(number)

    @property
    def is_dated(self) -> bool:
        """Return whether ping wrote when two of the answers or more came."""
        return int(np.isfinite(self.at_s).sum()) > 1

    def period_s(self) -> float | None:
        """Return the time between two probes as the summary says it."""
        if self.sending_s and self.sent > 1:
            return self.sending_s / (self.sent - 1)
        return None

    def start_unix_s(self) -> float | None:
        """Return when the first probe that was answered was sent."""
        if not self.is_dated:
            return None
        return float(np.nanmin(np.array(self.at_s) - np.array(self.rtts_ms) / 1000))


def read(path: Path, text: str, options: Options) -> Measured:
    """Return the probes of ping of Linux, busybox, macOS or BSD. Raises LinkFileError."""
    runs, assumed = _runs(path, text)
    _refuse_overlaps(path, runs)
    return _measured(path, runs, options, assumed)


def _measured(path: Path, runs: list[Run], options: Options, assumed: list[str]) -> Measured:
    runs = [run for run in runs if run.numbers or run.sent]
    if not any(run.numbers for run in runs):
        raise LinkFileError(path, "no answer in it, so no round-trip time")
    assumed += several(runs, "runs of ping")
    if not options.interval_s and any(not run.is_dated and not run.period_s() for run in runs):
        assumed.append(
            f"ping has not written when it sent: a probe each {USUAL_INTERVAL_S:g} s (--interval-s)"
        )
    probes = one_after_the_other([sent_by(path, run, options.interval_s) for run in runs])
    start = runs[0].start_unix_s() if len(runs) == 1 else None
    return Measured(probes, (), probes.end_s, assumed, start)


def sent_by(path: Path, run: Run, interval_s: float | None) -> Probes:
    """Return the probes of one run, lost ones among them."""
    # ping of Linux counts from 1, the others from 0.
    first = (0 if 0 in run.seen else 1) if run.sent else min(run.numbers)
    greatest = max(run.numbers, default=first)
    last = max(greatest, run.unanswered, first + run.sent - 1)
    if last - first >= PROBES:
        raise LinkFileError(path, f"{last - first} probes; at most {PROBES} are read")
    rtts_ms = np.full(last - first + 1, np.nan)
    places = np.array(run.numbers, dtype=np.int64) - first
    rtts_ms[places] = run.rtts_ms
    numbers = np.arange(last - first + 1, dtype=np.float64)
    if not run.is_dated:
        return probes_of(numbers * (interval_s or run.period_s() or USUAL_INTERVAL_S), rtts_ms)
    at_s, answered_ms = np.array(run.at_s), np.array(run.rtts_ms)
    dated = np.isfinite(at_s)
    order = np.argsort(places[dated])
    known = places[dated][order].astype(np.float64)
    sent_s = np.maximum.accumulate((at_s - answered_ms / 1000)[dated][order])
    period_s = max((sent_s[-1] - sent_s[0]) / (known[-1] - known[0]), 1e-6)
    # What was lost was sent between its neighbours; at both ends, at the usual pace.
    times_s = np.interp(numbers, known, sent_s)
    times_s += np.minimum(numbers - known[0], 0.0) * period_s
    times_s += np.maximum(numbers - known[-1], 0.0) * period_s
    return probes_of(np.round(times_s - times_s[0], 9), rtts_ms)


def _numbered(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the number of a line, the line, and whether it is the last one and may be cut off."""
    lines = text.split("\n")
    last = len(lines)
    for number, line in enumerate(lines, 1):
        yield number, line.strip("\r \t"), number == last and bool(line)


class _Unknown:
    """The lines that no pattern knows: how many, and the first."""

    def __init__(self) -> None:
        self.count, self.first = 0, ""
        self.cut = 0

    def add(self, line: str, number: int) -> None:
        self.first = self.first or f"line {number}: {shown(line)}"
        self.count += 1

    def said(self) -> list[str]:
        """Return what the user is told of them."""
        lines = []
        if self.cut:
            lines.append(f"line {self.cut}, the last one, is cut off: it is left out")
        if self.count:
            what = "lines say nothing of a probe and are skipped"
            lines.append(f"{self.count} {what} ({self.first})")
        return lines


def _runs(path: Path, text: str) -> tuple[list[Run], list[str]]:
    """Return the runs in a text, and what is said of it.

    One begins with a line `PING …`, or where the numbers begin again without a reason.
    """
    run = Run()
    runs = [run]
    unknown = _Unknown()
    answer_of = ANSWER.match
    for line_number, line, is_last in _numbered(text):
        if not line:
            continue
        answer = answer_of(line)
        if answer is None:
            if LIKE_AN_ANSWER.search(line):
                if is_last:
                    unknown.cut = line_number
                    continue
                reason = f"{shown(line)} is no answer that is understood: icmp_seq=N … time=T ms"
                raise LinkFileError(path, reason, line_number)
            run = _other_line(path, line, line_number, runs, unknown)
            continue
        if "DUP!" in line:
            continue
        at_text, sequence_text, rtt_text = answer.groups()
        sequence = int(sequence_text)
        if sequence >= SEQUENCE_NUMBERS:
            reason = f"icmp_seq={sequence}: it has 16 bits, up to {SEQUENCE_NUMBERS - 1}"
            raise LinkFileError(path, reason, line_number)
        try:
            rtt_ms = float(rtt_text)
        except ValueError:
            rtt_ms = number_of(path, rtt_text.replace(",", "."), "time", line_number)
        at_s = float(at_text) if at_text else np.nan
        if run.sent:
            run = Run()
            runs.append(run)
        elif sequence <= run.newest:
            # A number far below the newest: the 16 bits began again at 0.
            if sequence < run.newest - SEQUENCE_NUMBERS // 2:
                run.wrapped += SEQUENCE_NUMBERS
                run.newest = sequence
            elif run.wrapped + sequence in run.seen or sequence < run.newest - OUT_OF_ORDER:
                run = Run()
                runs.append(run)
        run.newest = max(run.newest, sequence)
        run.add(run.wrapped + sequence, at_s, rtt_ms)
    return runs, unknown.said()


def _other_line(path: Path, line: str, line_number: int, runs: list[Run], unknown: _Unknown) -> Run:
    """Take what a line without an answer says, and return the run that is read."""
    run = runs[-1]
    if BEGIN.match(line):
        if run.numbers or run.sent:
            runs.append(Run())
    elif match := SENT.search(line):
        run.sent, run.sending_s = int(match[1]), int(match[2]) / 1000 if match[2] else None
    elif match := UNANSWERED.match(line):
        if not run.sent:
            number = int(match[1])
            is_again = number < run.newest - SEQUENCE_NUMBERS // 2
            run.unanswered = max(run.unanswered, number + run.wrapped + SEQUENCE_NUMBERS * is_again)
    elif not KNOWN.match(line):
        _refuse_foreign(path, line, line_number, "ping")
        unknown.add(line, line_number)
    return runs[-1]


def _refuse_foreign(path: Path, line: str, line_number: int, own: str) -> None:
    """Raise LinkFileError for a line that another program wrote."""
    others = [hint for name, hint in HINTS.items() if name != own]
    is_of_another = any(hint.search(line) for hint in others) and not HINTS[own].search(line)
    if is_of_another or line[0] in "{[" or is_heading(line):
        reason = (
            f"{shown(line)} is not of the program that wrote the lines before: give each"
            " program's output in a file of its own"
        )
        raise LinkFileError(path, reason, line_number)


def _refuse_overlaps(path: Path, runs: list[Run]) -> None:
    for before, after in pairwise(run for run in runs if run.is_dated):
        if np.nanmin(after.at_s) < np.nanmax(before.at_s):
            reason = "two runs of ping were at the same time: give a file with one of them"
            raise LinkFileError(path, reason)


def read_windows(path: Path, text: str, options: Options) -> Measured:
    """Return the probes of ping of Windows, in English, German, French or Spanish.

    Raises LinkFileError.
    """
    runs: list[list[float]] = [[]]
    unknown = _Unknown()
    for line_number, line, is_last in _numbered(text):
        if answer := WINDOWS_ANSWER.match(line):
            runs[-1].append(float(answer[1]))
        elif WINDOWS_LOST.match(line):
            runs[-1].append(np.nan)
        elif BEGIN.match(line):
            runs.append([])
        elif WINDOWS_HALF.match(line):
            if not is_last:
                reason = f"{shown(line)} is no answer that is understood: it has no time=…ms"
                raise LinkFileError(path, reason, line_number)
            unknown.cut = line_number
        elif line and not KNOWN.match(line):
            _refuse_foreign(path, line, line_number, "windows")
            unknown.add(line, line_number)
    runs = [run for run in runs if run]
    if not runs or all(np.isnan(run).all() for run in runs):
        raise LinkFileError(path, "no answer in it, so no round-trip time")
    interval_s = options.interval_s or USUAL_INTERVAL_S
    any_lost = any(np.isnan(run).any() for run in runs)
    assumed = unknown.said()
    if not options.interval_s:
        waits = f", and {WINDOWS_TIMEOUT_S:g} s after one that was lost" if any_lost else ""
        assumed.append(
            f"ping of Windows does not write when it sent: a probe each {interval_s:g} s{waits}"
            " (--interval-s)"
        )
    assumed += several(runs, "runs of ping")
    parts = []
    for run in runs:
        rtts_ms = np.array(run)
        waits_s = np.full(len(run), interval_s)
        if not options.interval_s:
            waits_s[np.isnan(rtts_ms)] = WINDOWS_TIMEOUT_S
        parts.append(probes_of(np.cumsum(waits_s) - waits_s, rtts_ms))
    probes = one_after_the_other(parts)
    return Measured(probes, (), probes.end_s, assumed)


def read_fping(path: Path, text: str, options: Options) -> Measured:
    """Return the probes of fping with -c, -l or -C, of one target. Raises LinkFileError."""
    of_target: dict[str, Run] = {}
    rows: dict[str, list[float]] = {}
    unknown = _Unknown()
    wanted = dict(options.only).get("target")
    for line_number, line, is_last in _numbered(text):
        if match := FPING.match(line):
            at_text, target, number, rtt_text = match.groups()
            run = of_target.setdefault(target, Run())
            if int(number) in run.seen or int(number) < run.newest - OUT_OF_ORDER:
                reason = f"probe {number} of {target} is there twice: give a file with one run"
                raise LinkFileError(path, reason, line_number)
            run.newest = max(run.newest, int(number))
            if rtt_text is None:
                run.unanswered = max(run.unanswered, int(number))
            else:
                at_s = float(at_text) if at_text else np.nan
                run.add(int(number), at_s, number_of(path, rtt_text, "time", line_number))
        elif match := FPING_ROW.match(line):
            rows[match[1]] = [
                np.nan if cell == "-" else number_of(path, cell, "time", line_number)
                for cell in match[2].split()
            ]
        elif FPING_HALF.match(line) and not KNOWN.match(line):
            if not is_last:
                reason = f"{shown(line)} is no answer that is understood"
                raise LinkFileError(path, reason, line_number)
            unknown.cut = line_number
        elif line and not KNOWN.match(line):
            _refuse_foreign(path, line, line_number, "fping")
            unknown.add(line, line_number)
    targets = list(of_target or rows)
    if wanted is None and len(targets) > 1:
        reason = f"{len(targets)} targets: give one with --only target={targets[0]}"
        raise LinkFileError(path, reason)
    target = wanted or (targets or [""])[0]
    if target not in targets:
        reason = f"no answer of {target or 'a target'} in it; there are {', '.join(targets)}"
        raise LinkFileError(path, reason)
    if target not in of_target:
        run = of_target[target] = Run()
        for number, rtt_ms in enumerate(rows[target]):
            run.unanswered = number
            if not np.isnan(rtt_ms):
                run.add(number, np.nan, rtt_ms)
    return _measured(path, [of_target[target]], options, unknown.said())
