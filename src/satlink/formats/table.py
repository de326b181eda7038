# SPDX-License-Identifier: GPL-3.0-or-later
"""All formats of measurements, and how each is recognised by what is in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from openbach_jobs.link_file import LinkFileError
from satlink.formats import columns, ping, rates, stamped, structured, traces
from satlink.measured import Measured, Options, content, text_of

HEAD_LINES = 50
JSON = re.compile(r"\s*[{\[]\s*(?:[\"{}\[\]]|-?[\d.]+\s*,|$)")
"""The begin of JSON; `[1700000000.1] 64 bytes` is none."""


QLOG = re.compile(r'"(?:qlog_version|qlog_format|file_schema)"\s*:')


class Head(NamedTuple):
    """The beginning of a file: its text, and its first lines without the spaces around."""

    text: str
    lines: list[str]


class Format(NamedTuple):
    """A format: its name for people, whether a file's beginning is of it, and what reads it."""

    name: str
    is_it: Callable[[Head], bool]
    read: Callable[[Path, str, Options], Measured]


def _is_json(head: Head) -> bool:
    return bool(JSON.match(head.text))


def _is_csv(head: Head) -> bool:
    rows = [line for line in head.lines if line and not line.startswith("#")]
    return bool(rows) and columns.is_heading(rows[0])


TEXTS = (
    Format("iperf", lambda head: bool(rates.HINTS["iperf"].search(head.text)), rates.read_iperf),
    Format("nuttcp", lambda head: bool(rates.HINTS["nuttcp"].search(head.text)), rates.read_nuttcp),
    Format("fping", lambda head: bool(ping.HINTS["fping"].search(head.text)), ping.read_fping),
    Format(
        "ping of Windows",
        lambda head: bool(ping.HINTS["windows"].search(head.text)),
        ping.read_windows,
    ),
    Format("ping", lambda head: bool(ping.HINTS["ping"].search(head.text)), ping.read),
)
"""Formats that programs print for people. Another program may have put a time before each line."""
FORMATS = (
    Format("JSON", _is_json, structured.read),
    Format("CSV", _is_csv, columns.read),
    Format("a trace", lambda head: traces.is_trace(head.lines), traces.read),
    Format("OpenSAND", lambda head: traces.is_opensand(head.lines), traces.read_opensand),
    *TEXTS,
    Format("CSV", lambda head: columns.is_table(head.lines), columns.read),
)
"""Formats in the order in which they are tried; the last one is refused, and its columns named."""
KNOWN = (
    "ping (Linux, busybox, macOS, Windows), fping, irtt, iperf3 (text or --json), iperf, nuttcp,"
    " RIPE Atlas, the Starlink dish's history, flent, CSV with a header, traces of mahimahi with or"
    " without a trace of delays, delay files of OpenSAND"
)


def read(path: Path, options: Options) -> Measured:
    """Return what a file of any known format says. Raises LinkFileError."""
    text = text_of(content(path))
    if not text.strip():
        raise LinkFileError(path, f"empty: no round-trip time in it; known are {KNOWN}")
    if "\0" in text[:4096]:
        raise LinkFileError(path, f"not a text; known are {KNOWN}")
    head = _head(text)
    if QLOG.search(head.text):
        raise LinkFileError(
            path,
            "a qlog: it has the delays and losses of one QUIC connection with its own queue, and is"
            f" not read as a link; known are {KNOWN}",
        )
    if stamped.is_stamped(head.lines):
        without = stamped.without(text, _is_answer)
        format_ = _format(_head(without.bare), TEXTS)
        if format_ is not None:
            is_dated = format_.read in (ping.read, ping.read_fping)
            measured = format_.read(path, without.dated if is_dated else without.bare, options)
            _refuse_nothing(path, measured)
            assumed = [*measured.assumed, *(without.assumed if is_dated else [])]
            return replace(measured, format=format_.name, assumed=assumed)
    format_ = _format(head, FORMATS)
    if format_ is None:
        raise LinkFileError(path, f"no round-trip time in it that is understood; known are {KNOWN}")
    measured = format_.read(path, text, options)
    _refuse_nothing(path, measured)
    return replace(measured, format=measured.format or format_.name)


def _head(text: str) -> Head:
    beginning = text[:16_384]
    lines = [line.strip() for line in beginning.split("\n")[:HEAD_LINES]]
    if len(text) > len(beginning) and len(lines) < HEAD_LINES:
        lines.pop()  # it may be cut
    return Head(beginning, lines)


def _is_answer(line: str) -> bool:
    """Return whether a line is an answer to ping or fping."""
    return bool(ping.ANSWER.match(line) or ping.FPING.match(line))


def _format(head: Head, formats: Sequence[Format]) -> Format | None:
    """Return the format of a file's beginning, None if it is of no known one."""
    return next((format_ for format_ in formats if format_.is_it(head)), None)


def _refuse_nothing(path: Path, measured: Measured) -> None:
    if measured.probes is None and not measured.series:
        raise LinkFileError(path, "nothing of a link in it")
    if measured.probes is not None and bool(measured.probes.lost.all()):
        raise LinkFileError(path, "no round-trip time in it: every probe was lost")
