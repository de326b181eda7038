# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements as CSV: a line has a time and what was measured then.

The columns say by their names what they are (COLUMNS). A header in the middle of a file, or times
that begin again, begin another run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from openbach_jobs.link_file import LinkFileError, near
from satlink.measured import (
    GAP_INTERVALS,
    Measured,
    Numbers,
    Options,
    Probes,
    Series,
    one_after_the_other,
    probes_of,
    several,
    shown,
    with_gaps_lost,
    without_gaps,
)


class Column(NamedTuple):
    """The meaning of a column.

    A quantity is time, rtt_ms (of a probe), mean_rtt_ms (of a while), delay_ms (one way), rate_bps
    or loss_pct; its numbers are multiplied by `factor`.
    """

    quantity: str
    direction: str = "both"
    factor: float = 1.0
    has_unit: bool = True
    is_used: bool = False
    """It is what was used of a rate, not what there was."""


TIMES = {
    "time_s": 1.0, "seconds": 1.0, "time_ms": 1e-3, "timestamp_ms": 1e-3, "time_us": 1e-6,
    "timestamp_us": 1e-6, "timestamp_ns": 1e-9, "timestamp_s": 1.0, "unix_s": 1.0,
}  # fmt: skip
TIMES_BY_SIZE = (
    "timestamp", "timestamp_utc", "datetimestamp_utc", "timestamp_start", "time", "date",
    "datetime", "unix", "t",
)  # fmt: skip
"""Times whose unit their size tells: ISO 8601, or ns, µs, ms, s since 1970, or s."""
UNIT_OF_SIZE = ((1e17, 1e-9, "ns"), (1e14, 1e-6, "µs"), (1e11, 1e-3, "ms"), (0.0, 1.0, "s"))
SINCE_1970_S = 1e8
COLUMNS = {
    "rtt_ms": Column("rtt_ms"),
    "rtt_us": Column("rtt_ms", factor=1e-3),
    "rtt_s": Column("rtt_ms", factor=1e3),
    "rtt": Column("rtt_ms", has_unit=False),
    "latency_ms": Column("rtt_ms"),
    "latency": Column("rtt_ms", has_unit=False),
    "ping_ms": Column("rtt_ms"),
    "ping": Column("rtt_ms", has_unit=False),
    "ping_avg": Column("mean_rtt_ms", has_unit=False),
    "rtt_avg": Column("mean_rtt_ms", has_unit=False),
    "mean_rtt_ms": Column("mean_rtt_ms"),
    "delay_ms": Column("delay_ms"),
    "owd_ms": Column("delay_ms"),
    "uplink_ms": Column("delay_ms", "return"),
    "uplink_delay_ms": Column("delay_ms", "return"),
    "owd_up_ms": Column("delay_ms", "return"),
    "uplink": Column("delay_ms", "return", has_unit=False),
    "downlink_ms": Column("delay_ms", "forward"),
    "downlink_delay_ms": Column("delay_ms", "forward"),
    "owd_down_ms": Column("delay_ms", "forward"),
    "downlink": Column("delay_ms", "forward", has_unit=False),
    "download_mbps": Column("rate_bps", "forward", 1e6),
    "downlink_mbps": Column("rate_bps", "forward", 1e6),
    "download_bps": Column("rate_bps", "forward"),
    "downlink_bps": Column("rate_bps", "forward"),
    "upload_mbps": Column("rate_bps", "return", 1e6),
    "uplink_mbps": Column("rate_bps", "return", 1e6),
    "upload_bps": Column("rate_bps", "return"),
    "uplink_bps": Column("rate_bps", "return"),
    "rate_mbps": Column("rate_bps", "both", 1e6),
    "rate_bps": Column("rate_bps"),
    "throughput_mbps": Column("rate_bps", "both", 1e6),
    "bandwidth_bps": Column("rate_bps"),
    "loss_pct": Column("loss_pct"),
    "packet_loss": Column("loss_pct", has_unit=False),
    "packet_loss_pct": Column("loss_pct"),
    "loss_ratio": Column("loss_pct", factor=100.0),
    # Of the Starlink dish, as common tools call them; in JSON popPingLatencyMs and so on.
    "pop_ping_latency_ms": Column("mean_rtt_ms"),
    "pop_ping_drop_rate": Column("loss_pct", factor=100.0),
    "downlink_throughput_bps": Column("rate_bps", "forward", is_used=True),
    "uplink_throughput_bps": Column("rate_bps", "return", is_used=True),
}
JOINED = {name.replace("_", ""): column for name, column in COLUMNS.items()}
"""Names of columns as JSON has them, in lower case."""
BYTES = "byte_s"
"""The end of a name with bytes as its unit; in lower case `MBps` and `Mbps` would be equal."""
BYTES_PER_S = re.compile("([KMG]|(?<![A-Za-z])k?)B(?:ytes?)?(?:ps|/s)")
"""A unit of bytes as people write it; the one of `downlinkBps` is not: its B begins a word."""


def column_of(name: str) -> Column | None:
    """Return the meaning of a column's name, in lower case: `rtt (ms)` is rtt_ms."""
    plain = re.sub("[^a-z0-9]+", "_", name).strip("_")
    in_bits = plain.replace(BYTES, "bps")
    column = COLUMNS.get(in_bits) or JOINED.get(in_bits)
    return column._replace(factor=8 * column.factor) if column and BYTES in plain else column


NOT_ANSWERED = {"", "nan", "null", "none", "-", "*", "timeout", "lost"}
"""Cells of a probe that was not answered, in lower case."""
TOLERANCE_MS = 2.0
"""The greatest distance of two one-way delays from their round trip, besides a tenth of it."""
DELIMITERS = (",", ";", "\t")
NAME = re.compile(r'(?:"?[A-Za-z_][\w .()/%\[\]-]*"?)?')


@dataclass
class _Table:
    """Cells by column, and the number of the line of each row."""

    columns: list[str]
    cells: dict[str, list[str]]
    lines: list[int]
    starts: list[int]
    """The rows before which a header was again."""
    assumed: list[str]


def is_heading(line: str) -> bool:
    """Return whether a line may be the header of such a file."""
    for delimiter in DELIMITERS:
        names = _names(line, delimiter)
        if len(names) > 1 and any(_is_time(name) for name in names):
            return True
        if len(names) > 1 and any(map(column_of, names)):
            return True
    return False


def is_table(lines: Sequence[str]) -> bool:
    """Return whether lines are a header of unknown names, and a row of as many cells."""
    rows = [line for line in lines if line and not line.startswith("#")][:2]
    cells = [row.split(max(DELIMITERS, key=rows[0].count)) for row in rows]
    return (
        len(cells) == 2
        and len(cells[0]) == len(cells[1]) > 1
        and all(NAME.fullmatch(cell.strip()) for cell in cells[0])
        and any(cell.strip(' "')[:1].isdigit() for cell in cells[1])
    )


def read(path: Path, text: str, options: Options) -> Measured:
    """Return what a CSV file says. Raises LinkFileError."""
    table = _table(path, text)
    table = _only(path, table, options)
    time, known = _roles(path, table.columns)
    times_s, start_unix_s, assumed = _times_s(path, table, time)
    assumed = table.assumed + assumed
    used = [name for name, column in known.items() if column.is_used]
    if used and options.take_throughput:
        assumed.append("the rate of the link is the throughput that was used")
    elif used:
        known = {name: column for name, column in known.items() if not column.is_used}
        remark = f"{' and '.join(used)}: what was used, not what the link could carry"
        if not known:
            raise LinkFileError(path, f"{remark}; --take-throughput takes it")
        assumed.append(f"{remark}, left out (--take-throughput)")
    left_out = [name for name in table.columns if name not in (*known, *used, time)]
    if left_out:
        assumed.append(f"left out: {', '.join(left_out)}")
    for name, column in known.items():
        if not column.has_unit:
            unit = "percent" if column.quantity == "loss_pct" else "milliseconds"
            assumed.append(f"{name} is in {unit}")
    assumed += [f"{name} is in bytes, of 8 bits each" for name in known if BYTES in name]
    kinds = {column.quantity for column in known.values()}
    values = {name: _values(path, table, name, column) for name, column in known.items()}
    if "rtt_ms" in kinds and "loss_pct" not in kinds:
        return _of_probes(path, table, known, values, times_s, start_unix_s, assumed, options)
    return _of_whiles(path, known, values, times_s, start_unix_s, assumed, options)


def _of_whiles(
    path: Path,
    known: dict[str, Column],
    values: dict[str, Numbers],
    times_s: Numbers,
    start_unix_s: float | None,
    assumed: list[str],
    options: Options,
) -> Measured:
    """Return series: a row holds until the next one."""
    order = np.argsort(times_s, kind="stable")
    if np.any(np.diff(times_s) < 0):
        assumed.append("times go back: the rows are in the order of their times")
    shorter_s, gaps = without_gaps(times_s[order], options.whole_minutes)
    assumed += gaps
    shorter_s = shorter_s - shorter_s[0]
    series = []
    for name, column in known.items():
        row = values[name][order]
        quantity = column.quantity
        # A mean of 0 ms is that of a while without an answer.
        is_known = np.isfinite(row) & ((row > 0) | (quantity != "mean_rtt_ms"))
        if not is_known.any():
            raise LinkFileError(path, "no value in it", column=name)
        if quantity in ("mean_rtt_ms", "rtt_ms"):
            quantity, row = "delay_ms", row / 2
        if quantity == "loss_pct" and np.nanmax(row) > 100:
            raise LinkFileError(path, "above 100 percent", column=name)
        if quantity == "loss_pct" and column.direction == "both":
            # A loss of round trips: each direction survives with the root.
            row = np.round(100 * (1 - np.sqrt(1 - row / 100)), 6)
        series.append(Series(quantity, column.direction, shorter_s[is_known], row[is_known]))
    kinds = {column.quantity for column in known.values()}
    if "delay_ms" not in kinds and kinds & {"mean_rtt_ms", "rtt_ms"}:
        assumed.append("each direction has half of the round-trip time, and loses the same")
    steps_s = np.diff(shorter_s)
    step_s = float(np.median(steps_s[steps_s > 0])) if np.any(steps_s > 0) else 1.0
    start = None if gaps and not options.whole_minutes else start_unix_s
    end_s = float(shorter_s[-1]) + step_s
    return Measured(None, _checked_twice(path, series), end_s, assumed, start)


def _checked_twice(path: Path, series: list[Series]) -> tuple[Series, ...]:
    names = [(curve.quantity, curve.direction) for curve in series]
    if len(set(names)) < len(names):
        raise LinkFileError(path, "two columns say the same: leave one out")
    return tuple(series)


def _of_probes(
    path: Path,
    table: _Table,
    known: dict[str, Column],
    values: dict[str, Numbers],
    times_s: Numbers,
    start_unix_s: float | None,
    assumed: list[str],
    options: Options,
) -> Measured:
    """Return probes, and one-way delays if the file has these."""
    rtts = [name for name, column in known.items() if column.quantity == "rtt_ms"]
    if len(rtts) > 1:
        raise LinkFileError(path, f"{' and '.join(rtts)} say the same: leave one out")
    rtts_ms = values[rtts[0]]
    if not np.isfinite(rtts_ms).any():
        raise LinkFileError(path, "no round-trip time in it: every probe was lost")
    if np.isnan(rtts_ms).any():
        assumed.append(f"an empty {rtts[0]} is a probe that was lost")
    if options.times_of_answers:
        times_s = times_s - np.nan_to_num(rtts_ms) / 1000
        start_unix_s = None if start_unix_s is None else start_unix_s + float(times_s.min())
        assumed.append("a probe was sent one round-trip time before its time")
    else:
        assumed.append("a time is when the probe was sent (--times-of-answers)")
    starts = _runs(times_s, table.starts)
    ends = [*starts[1:], len(times_s)]
    backwards = False
    parts: list[Probes] = []
    shifted_s = np.empty(len(times_s))
    begin_s = 0.0
    for start, end in zip(starts, ends, strict=True):
        mine_s = times_s[start:end]
        backwards = backwards or bool(np.any(np.diff(mine_s) < 0))
        part = probes_of(mine_s, rtts_ms[start:end])
        if not np.isnan(rtts_ms).any():
            part = _with_gaps(part, options, assumed)
        shifted_s[start:end] = mine_s - mine_s.min() + begin_s
        begin_s += part.end_s
        parts.append(part)
    if backwards:
        back = int(np.argmax(np.diff(times_s) < 0)) + 1
        what = "the probes are in the order of their times"
        assumed.append(f"times go back (first in line {table.lines[back]}): {what}")
    assumed += several(parts, "measurements")
    start_unix_s = start_unix_s if len(parts) == 1 else None
    probes = one_after_the_other(parts)
    series = _one_ways(path, known, values, shifted_s, rtts_ms)
    if series:
        assumed.append("the delays are those of one way, which need clocks that agree")
    series += [
        Series(column.quantity, column.direction, *_known(shifted_s, values[name]))
        for name, column in known.items()
        if column.quantity == "rate_bps"
    ]
    return Measured(probes, _checked_twice(path, series), probes.end_s, assumed, start_unix_s)


def _with_gaps(probes: Probes, options: Options, assumed: list[str]) -> Probes:
    """Return probes of a file in which none is lost, its gaps filled if the user wants that."""
    filled, gaps, gaps_s = with_gaps_lost(probes)
    if not gaps:
        return probes
    what = "lost probes" if options.gaps_are_lost else "no loss (--gaps-are-lost)"
    assumed.append(
        f"no probe is marked as lost; {gaps} gaps of more than {GAP_INTERVALS:g} intervals,"
        f" {gaps_s:.3g} s together, are taken for {what}"
    )
    return filled if options.gaps_are_lost else probes


def _known(times_s: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """Return the times and the values of those that are there, in the order of time."""
    is_known = np.isfinite(values)
    order = np.argsort(times_s[is_known], kind="stable")
    return times_s[is_known][order], values[is_known][order]


def _one_ways(
    path: Path,
    known: dict[str, Column],
    values: dict[str, Numbers],
    times_s: Numbers,
    rtts_ms: Numbers,
) -> list[Series]:
    """Return the one-way delays beside an RTT; a direction that is missing has the rest of it."""
    of_direction: dict[str, Numbers] = {}
    for name, column in known.items():
        if column.quantity == "delay_ms":
            if column.direction == "both":
                reason = "a delay of one way beside a round trip: which way?"
                hint = "Name it uplink_ms or downlink_ms"
                raise LinkFileError(path, f"{reason} {hint}", column=name)
            of_direction[column.direction] = values[name]
    if not of_direction:
        return []
    for direction, other in (("forward", "return"), ("return", "forward")):
        if direction not in of_direction:
            of_direction[direction] = rtts_ms - of_direction[other]
    sums_ms = of_direction["forward"] + of_direction["return"]
    off_ms = float(np.nanmedian(np.abs(sums_ms - rtts_ms)))
    if off_ms > TOLERANCE_MS + 0.1 * float(np.nanmedian(rtts_ms)):
        raise LinkFileError(
            path,
            f"uplink and downlink together differ from rtt by {off_ms:.3g} ms (median): are"
            " these delays of one way, in milliseconds?",
        )
    if min(float(np.nanmin(row)) for row in of_direction.values()) < 0:
        raise LinkFileError(path, "a one-way delay is below 0: the two clocks did not agree")
    rows = sorted(of_direction.items())
    return [Series("delay_ms", direction, *_known(times_s, row)) for direction, row in rows]


def _runs(times_s: Numbers, headings: Sequence[int]) -> list[int]:
    """Return the rows at which a run begins: after a header, or where the times begin again."""
    starts = [0]
    falls = np.flatnonzero(np.diff(times_s) < 0) + 1
    for row in sorted({*headings, *falls.tolist()}):
        if row >= len(times_s) or row == starts[-1]:
            continue
        first_s = times_s[starts[-1]]
        if row in headings or times_s[row] <= first_s < times_s[row - 1]:
            starts.append(row)
    return starts


# Cells


def _names(line: str, delimiter: str) -> list[str]:
    line = BYTES_PER_S.sub(rf"\1{BYTES}", line)
    return [name.strip().strip('"').strip().lower() for name in line.split(delimiter)]


def _is_time(name: str) -> bool:
    return name in TIMES or name in TIMES_BY_SIZE


def _rows(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip("\r ")
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def _table(path: Path, text: str) -> _Table:
    rows = _rows(text)
    number, heading = next(rows, (0, ""))
    delimiter = max(DELIMITERS, key=heading.count)
    columns = _names(heading, delimiter)
    if len(set(columns)) < len(columns):
        raise LinkFileError(path, "a column is there twice", number)
    _roles(path, columns, number)
    lines: list[int] = []
    split: list[list[str]] = []
    starts: list[int] = []
    assumed = [f"{name} is in bits" for name in re.findall(r"\w*BPS\b", heading)]
    quoted = '"' in text
    last = text.count("\n") + 1
    for number, line in rows:
        cells = line.split(delimiter)
        if len(cells) != len(columns):
            if number == last:
                assumed.append(f"line {number}, the last one, is cut off: it is left out")
                continue
            raise LinkFileError(path, f"{len(cells)} cells; the header has {len(columns)}", number)
        if line == heading or (
            cells[0].strip(' "').lower() == columns[0] and _names(line, delimiter) == columns
        ):
            starts.append(len(split))
            continue
        lines.append(number)
        split.append(cells)
    if not split:
        raise LinkFileError(path, "no row after the header: nothing was measured")
    by_column = dict(zip(columns, map(list, zip(*split, strict=True)), strict=True))
    for row in by_column.values():
        if quoted:
            row[:] = [cell.strip(' "') for cell in row]
        if delimiter == ";":
            # Where the decimal sign is a comma, the delimiter is a semicolon.
            row[:] = [cell.replace(",", ".") for cell in row]
    return _Table(columns, by_column, lines, starts, assumed)


def _only(path: Path, table: _Table, options: Options) -> _Table:
    """Return the rows in which the columns have the values that the user wants."""
    keep = np.ones(len(table.lines), dtype=bool)
    for name, wanted in options.only:
        if name not in table.cells:
            reason = f"no such column; there are {', '.join(table.columns)}"
            raise LinkFileError(path, f"--only {name}: {reason}")
        rows = np.array([cell.strip() == wanted for cell in table.cells[name]])
        if not rows.any():
            values = sorted({cell.strip() for cell in table.cells[name]})
            reason = f"no row has it; there are {', '.join(values[:10])}"
            raise LinkFileError(path, f"--only {name}={wanted}: {reason}")
        keep &= rows
    if not options.only:
        return table
    if not keep.any():
        raise LinkFileError(path, "no row has all the values of --only")
    places = np.flatnonzero(keep).tolist()
    cells = {name: list(compress(row, keep)) for name, row in table.cells.items()}
    assumed = [*table.assumed, f"{len(places)} of {len(keep)} rows, by --only"]
    starts = sorted({int(keep[:start].sum()) for start in table.starts})
    return _Table(table.columns, cells, [table.lines[place] for place in places], starts, assumed)


def _roles(path: Path, columns: list[str], line: int = 0) -> tuple[str, dict[str, Column]]:
    """Return the name of the column of times, and what the columns are that are taken."""
    times = [name for name in columns if _is_time(name)]
    meanings = {name: column_of(name) for name in columns}
    known = {name: column for name, column in meanings.items() if column}
    has_rtt = any(column.quantity == "rtt_ms" for column in known.values())
    if not has_rtt:
        for name in ("uplink", "downlink"):
            if name in known:
                hint = f"Name it {name}_ms or {name}_mbps"
                reason = f"no rtt beside it, so is it a delay or a rate? {hint}"
                raise LinkFileError(path, reason, column=name)
    if not times or not known:
        missing = "time" if not times else "value"
        right = "time_s" if not times else "rtt_ms"
        hints = [near(name, COLUMNS) for name in columns if name not in known]
        raise LinkFileError(
            path,
            f"the columns are {', '.join(columns)}; they have no {missing}, they should be"
            f" like time_s,rtt_ms ({right} is missing). {''.join(dict.fromkeys(hints))}known are"
            f" {', '.join((*TIMES, *TIMES_BY_SIZE, *COLUMNS))}",
            line,
        )
    return times[0], known


def _times_s(path: Path, table: _Table, name: str) -> tuple[Numbers, float | None, list[str]]:
    """Return the times in s, the time of day of 0 s if they tell it, and what was assumed."""
    cells = table.cells[name]
    try:
        raw = np.array(cells, dtype=np.float64)
    except ValueError:
        raw, has_no_zone = _dates_s(path, table, name)
        remarks = ["times without a zone are UTC"] if has_no_zone else []
        return raw, float(raw.min()), remarks
    bad = ~(np.isfinite(raw) & (raw >= 0))
    if bad.any():
        place = int(np.argmax(bad))
        reason = f"{shown(cells[place])} is not a number from 0 on"
        raise LinkFileError(path, reason, table.lines[place], name)
    if name in TIMES:
        factor, remarks = TIMES[name], []
    else:
        size = float(np.median(raw))
        factor, unit = next((unit[1], unit[2]) for unit in UNIT_OF_SIZE if size >= unit[0])
        remarks = [f"{name} is in {unit}, by its size"]
    # Seconds since 1970 in whole units would lose digits: subtract first.
    times_s = raw if factor == 1.0 else (raw - raw.min()) * factor + raw.min() * factor
    begin_s = float(raw.min() * factor)
    is_day = begin_s > SINCE_1970_S
    return (times_s - begin_s if is_day else times_s), begin_s if is_day else None, remarks


def _dates_s(path: Path, table: _Table, name: str) -> tuple[Numbers, bool]:
    """Return dates (ISO 8601) in s since 1970, and whether one has no zone."""
    has_no_zone = False
    times_s = np.empty(len(table.lines))
    for row, cell in enumerate(table.cells[name]):
        try:
            moment = datetime.fromisoformat(cell.strip().replace("Z", "+00:00"))
        except ValueError:
            reason = f"{shown(cell)} is neither a number nor a date like 2024-01-31 12:00:00"
            raise LinkFileError(path, reason, table.lines[row], name) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
            has_no_zone = True
        times_s[row] = moment.timestamp()
    return times_s, has_no_zone


def _values(path: Path, table: _Table, name: str, column: Column) -> Numbers:
    """Return the numbers of a column, nan where a cell is empty or a probe was lost."""
    cells = table.cells[name]
    try:
        raw = np.array(cells, dtype=np.float64)
    except ValueError:
        raw = np.empty(len(cells))
        for row, cell in enumerate(cells):
            if (stripped := cell.strip()).lower() in NOT_ANSWERED:
                raw[row] = math.nan
                continue
            try:
                raw[row] = float(stripped)
            except ValueError:
                raw[row] = -1.0
    bad = (raw < 0) | (raw * column.factor >= 1e12)
    if bad.any():
        place = int(np.argmax(bad))
        what = "is not a number from 0 on" if raw[place] < 0 else "is too large"
        reason = f"{shown(cells[place].strip())} {what}"
        raise LinkFileError(path, reason, table.lines[place], name)
    scaled: Numbers = raw * column.factor
    return scaled
