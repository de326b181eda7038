# SPDX-License-Identifier: GPL-3.0-or-later
"""Link files: how the rate, delay and loss of a link change with time.

They are CSV that people and programs write.

    # Comment: where the link comes from. `# repeat_s: 60` makes it begin again after 60 s.
    time_s,direction,rate_bps,delay_ms,loss_pct
    0,forward,10000000,250,0
    0,return,2000000,250,0
    12.5,both,,251.5,

A row is the state of one direction (`forward`: towards the terminal, `return`, or `both`) from
`time_s` on until that direction's next row; the last one holds. Columns come in any order;
`direction` (both) and `loss_pct` (0) may be absent. An empty cell is the value of the row before.
`rate_bps` 0 holds packets back, `loss_pct` 100 loses them. A file without the column `delay_ms` has
rates only: the delay is the scenario's.

Everything is read line by line: memory does not grow with the file.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple, NoReturn, TextIO

DIRECTIONS = {"forward": ("forward",), "return": ("return",), "both": ("forward", "return")}
VALUES = ("rate_bps", "delay_ms", "loss_pct")
COLUMNS = ("time_s", "direction", *VALUES)
REQUIRED = {"time_s", "rate_bps"}
AUTO, BY_SEED = "auto", "seed"
"""Values of link_start beside seconds: by the file's length, and by the run's seed."""
BY_SEED_ABOVE_S = 60.0
"""A file that lasts longer begins by the seed with `auto`: a run would see its begin alone."""
OTHER_UNITS = {
    "time": "time_s, seconds from the start of the link",
    "time_ms": "time_s: divide by 1000",
    "time_us": "time_s: divide by 1000000",
    "timestamp": "time_s, seconds from the start of the link",
    "rate": "rate_bps, bit/s",
    "rate_kbps": "rate_bps: multiply by 1000",
    "rate_mbps": "rate_bps: multiply by 1000000",
    "rate_gbps": "rate_bps: multiply by 1000000000",
    "delay": "delay_ms, one way",
    "delay_s": "delay_ms: multiply by 1000",
    "delay_us": "delay_ms: divide by 1000",
    "rtt_ms": "delay_ms, one way: halve it",
    "loss": "loss_pct: 1 is one packet in a hundred",
    "loss_ratio": "loss_pct: multiply by 100",
}
"""Headings in other units, in lower case → the right heading, and how to convert their numbers."""
UNITS = {"s", "ms", "us", "bps", "kbps", "mbps", "gbps", "pct", "ratio", "bytes"}
"""The last parts of names that are units."""
MOST_RATE_BPS = 1e9
GREATEST = {
    "time_s": (1e9, "count seconds from the start of the link"),
    "rate_bps": (MOST_RATE_BPS, "no run takes more than 1 Gbit/s; rate_bps is in bit/s"),
    "delay_ms": (10e3, "are these microseconds? delay_ms is at most 10000"),
    "loss_pct": (100.0, "loss_pct is a percentage, 0 to 100"),
}
LEAST_RATE_BPS = 1000.0
REPEAT = re.compile(r"#\s*repeat_s\s*:(.*)")
LINE_BYTES = 4096
FILE_BYTES = 64 << 20


class LinkFileError(ValueError):
    """An error in a link file: line and column, what is wrong there, and what would be right."""

    def __init__(
        self, path: str | os.PathLike[str], text: str, line: int = 0, column: str = ""
    ) -> None:
        """Make the text of the error: file, line and column if there is one, and what is wrong."""
        place = (f", line {line}" if line else "") + (f", column {column}" if column else "")
        super().__init__(f"{os.fspath(path)}{place}: {text}")


class State(NamedTuple):
    """The rate, delay and loss of one direction."""

    rate_bps: float
    delay_ms: float
    loss_pct: float


class Change(NamedTuple):
    """The state of `direction` ("forward" or "return") from `time_s` on."""

    time_s: float
    direction: str
    state: State


class Range(NamedTuple):
    """The least, the mean and the greatest value over a time."""

    least: float
    mean: float
    greatest: float


class Direction(NamedTuple):
    """One direction over the file's duration.

    Means are over time; an outage is a rate of 0 or a loss of 100 %.
    """

    rate_bps: Range
    delay_ms: Range
    loss_pct: Range
    first_rate_bps: float
    outages: int
    outage_s: float
    ends_in_outage: bool


class Summary(NamedTuple):
    """Sums over a whole link file.

    `duration_s` is the time of the last row, or after how long the link begins again (`repeats`).
    """

    duration_s: float
    repeats: bool
    rows: int
    forward: Direction
    back: Direction
    is_random: bool
    """True if it has a loss that some packets survive."""
    has_delay: bool
    """True if it has delays of its own."""

    def begins_by_seed(self, start: str) -> bool:
        """Return whether a link with this link_start begins at another time for each seed."""
        return start == BY_SEED or (start == AUTO and self.duration_s > BY_SEED_ABOVE_S)

    @property
    def mean_rtt_ms(self) -> float:
        """Return the mean round-trip time, without queues."""
        return self.forward.delay_ms.mean + self.back.delay_ms.mean

    @property
    def first_rate_bps(self) -> float:
        """Return the first rate above 0 of the forward direction; 0 if it has none."""
        return self.forward.first_rate_bps


def read(path: str | os.PathLike[str], start_s: float = 0.0) -> Iterator[Change]:
    """Yield the changes of a link file in the order of time.

    `forward` comes before `return` where a row is for both. Lazy; endless if the file repeats, or
    begins at another time than 0: then it goes on from its beginning. What changes nothing is left
    out. Raises LinkFileError when it comes to what is wrong.
    """
    states: dict[str, State] = {}
    period_s = check(path).duration_s if start_s else None
    offset_s = -start_s
    while True:
        one_pass = _Pass(path)
        changed = False
        for change in _news(_from_0(one_pass, offset_s), states):
            changed = True
            yield change
        period_s = period_s or one_pass.repeat_s
        if period_s is None or not changed:
            return
        offset_s += period_s


def _from_0(changes: Iterable[Change], offset_s: float) -> Iterator[Change]:
    """Yield changes at later times, those before 0 as the state that they have led to by then."""
    begun: dict[str, Change] = {}
    for change in changes:
        moved = change._replace(time_s=offset_s + change.time_s)
        if moved.time_s <= 0 and offset_s < 0:
            begun[change.direction] = moved._replace(time_s=0.0)
            continue
        yield from (begun.pop(name) for name in DIRECTIONS["both"] if name in begun)
        yield moved
    yield from (begun[name] for name in DIRECTIONS["both"] if name in begun)


def _news(changes: Iterable[Change], states: dict[str, State]) -> Iterator[Change]:
    """Yield the changes that change something.

    `states` has the state of each direction, and is updated.
    """
    for change in changes:
        if states.get(change.direction) != change.state:
            states[change.direction] = change.state
            yield change


def check(path: str | os.PathLike[str]) -> Summary:
    """Read a link file once, whole. Raises LinkFileError."""
    one_pass = _Pass(path)
    directions: dict[str, _Totals] = {}
    last_s = 0.0
    is_random = False
    for change in one_pass:
        last_s = change.time_s
        is_random = is_random or 0 < change.state.loss_pct < 100
        directions.setdefault(change.direction, _Totals(change.state)).enter(
            change.state, change.time_s
        )
    duration_s = last_s if one_pass.repeat_s is None else one_pass.repeat_s
    for name, totals in directions.items():
        # Nothing could be measured in it, and no run would end.
        if not totals.first_rate_bps:
            text = f"0 in every row of direction {name}: give a rate from {LEAST_RATE_BPS:g} on"
            raise LinkFileError(path, f"{text} in one of them", column="rate_bps")
    forward, back = (directions[name].after(duration_s) for name in ("forward", "return"))
    has_delay = "delay_ms" in one_pass.columns
    repeats = one_pass.repeat_s is not None
    return Summary(duration_s, repeats, one_pass.rows, forward, back, is_random, has_delay)


def has_delay(path: str | os.PathLike[str]) -> bool:
    """Return whether a link file has delays of its own; True if it cannot be read."""
    try:
        heading = next((text for _, text in lines(path) if text and text[0] != "#"), "delay_ms")
    except (LinkFileError, ValueError):
        return True
    return "delay_ms" in heading


def write(changes: Iterable[Change], until_s: float, comments: Iterable[str], out: TextIO) -> None:
    """Write a link file: the comments, then what changes before `until_s`.

    What both directions have in common is one row. A last row, at `until_s`, changes nothing but
    says how long the file is. A file that repeats needs none: `until_s` inf.
    """
    for comment in comments:
        out.writelines(f"# {line}\n" for line in comment.splitlines())
    out.write(",".join(COLUMNS) + "\n")
    held: Change | None = None
    for change in _news(takewhile(lambda change: change.time_s < until_s, changes), {}):
        if (
            held is not None
            and held.direction == "forward"
            and change == held._replace(direction="return")
        ):
            out.write(_row(held._replace(direction="both")))
            held = None
            continue
        if held is not None:
            out.write(_row(held))
        held = change
    if held is not None:
        out.write(_row(held))
    if until_s < math.inf:
        out.write(f"{_plain(until_s)},both,,,\n")


def lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers from 1 on, stripped.

    Raises LinkFileError for what is none, or too long.
    """
    number = 0
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise LinkFileError(path, "not a regular file")
        if status.st_size > FILE_BYTES:
            raise LinkFileError(
                path,
                f"{status.st_size >> 20} MiB: {FILE_BYTES >> 20} MiB are the most that is read",
            )
        with open(path, "rb") as file:
            while line := file.readline(LINE_BYTES + 1):
                number += 1
                if len(line) > LINE_BYTES:
                    raise LinkFileError(
                        path,
                        f"a line of more than {LINE_BYTES} bytes: this is no link file",
                        number,
                    )
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
    except UnicodeDecodeError:
        raise LinkFileError(path, "not UTF-8: a link file is text", number) from None
    except OSError as error:
        raise LinkFileError(path, error.strerror or str(error)) from error


def _row(change: Change) -> str:
    return ",".join((_plain(change.time_s), change.direction, *map(_plain, change.state))) + "\n"


def _plain(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


class _Totals:
    """The sums over time of one direction, up to its newest change."""

    def __init__(self, first: State) -> None:
        """Begin at time 0 with the first state."""
        self.since_s = 0.0
        self.state = self.least = self.greatest = first
        self.bits = self.delay_sum = self.loss_sum = 0.0
        self.first_rate_bps = 0.0
        self.outages = 0
        self.outage_s = 0.0
        self.down = False

    def enter(self, state: State, time_s: float) -> None:
        """Take another state from a time on."""
        self.hold_until(time_s)
        self.state = state
        self.least = _each(min, self.least, state)
        self.greatest = _each(max, self.greatest, state)
        self.first_rate_bps = self.first_rate_bps or state.rate_bps
        down = state.rate_bps == 0 or state.loss_pct == 100
        self.outages += down and not self.down
        self.down = down

    def hold_until(self, time_s: float) -> None:
        """Add what the present state comes to, up to a time."""
        held_s = time_s - self.since_s
        self.since_s = time_s
        self.bits += held_s * self.state.rate_bps
        self.delay_sum += held_s * self.state.delay_ms
        self.loss_sum += held_s * self.state.loss_pct
        self.outage_s += held_s * self.down

    def after(self, duration_s: float) -> Direction:
        """Return the ranges of rate, delay and loss after a duration."""
        self.hold_until(duration_s)
        rate_bps = self.bits / duration_s if duration_s else self.state.rate_bps
        delay_ms = self.delay_sum / duration_s if duration_s else self.state.delay_ms
        loss_pct = self.loss_sum / duration_s if duration_s else self.state.loss_pct
        return Direction(
            rate_bps=Range(self.least.rate_bps, rate_bps, self.greatest.rate_bps),
            delay_ms=Range(self.least.delay_ms, delay_ms, self.greatest.delay_ms),
            loss_pct=Range(self.least.loss_pct, loss_pct, self.greatest.loss_pct),
            first_rate_bps=self.first_rate_bps,
            outages=self.outages,
            outage_s=self.outage_s,
            ends_in_outage=self.down,
        )


def _each(choose: Callable[[float, float], float], state: State, other: State) -> State:
    return State(
        choose(state.rate_bps, other.rate_bps),
        choose(state.delay_ms, other.delay_ms),
        choose(state.loss_pct, other.loss_pct),
    )


def near(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return `did you mean x? `, or ""; with its unit where the name has another one, or none."""
    from difflib import get_close_matches  # not above: most runs have no use for it

    if not (close := get_close_matches(name, list(known), 1, likeness)):
        return ""
    suffix, meant = (word.lower().rpartition("_")[2] for word in (name, close[0]))
    unit = f" (in {meant})" if meant in UNITS else " (with its own unit)" * (suffix in UNITS)
    return f"did you mean {close[0]}{unit if suffix != meant else ''}? "


class _Pass:
    """One reading of a link file, from its first line to its last.

    `repeat_s` is known when it has ended.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Begin to read a file."""
        self.path = path
        self.line = 0
        self.rows = 0
        self.repeat_s: float | None = None
        self.columns: list[str] = []
        self.newest: dict[str, Change] = {}
        self.last_s = 0.0

    def __iter__(self) -> Iterator[Change]:
        """Yield the changes of the file once."""
        for number, text in lines(self.path):
            self.line = number
            if text.startswith("#"):
                self._comment(text)
            elif text and not self.columns:
                self._heading(text)
            elif text:
                yield from self._changes(text)
        self._end()

    def fail(self, text: str, column: str = "") -> NoReturn:
        """Raise LinkFileError for the present line."""
        raise LinkFileError(self.path, text, self.line, column)

    def _comment(self, text: str) -> None:
        if repeat := REPEAT.fullmatch(text):
            if self.repeat_s is not None:
                self.fail("a second repeat_s: give one")
            self.repeat_s = self._number("repeat_s", repeat[1].strip())

    def _heading(self, text: str) -> None:
        self.columns = [name.strip() for name in text.split(",")]
        for name in self.columns:
            if name not in COLUMNS:
                wanted = OTHER_UNITS.get(re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower())
                right = (
                    f"give {wanted}"
                    if wanted
                    else f"{near(name, COLUMNS)}known are {', '.join(COLUMNS)}"
                )
                self.fail(f"unknown column {name!r}: {right}")
        if len(set(self.columns)) < len(self.columns):
            self.fail("a column is there twice")
        if missing := REQUIRED.difference(self.columns):
            self.fail(
                f"no column {' and no column '.join(sorted(missing))}; the header is"
                f" {','.join(COLUMNS)}"
            )

    def _changes(self, text: str) -> Iterator[Change]:
        cells = [cell.strip() for cell in text.split(",")]
        if len(cells) != len(self.columns):
            self.fail(
                f"{len(cells)} cells; the header has {len(self.columns)}: {','.join(self.columns)}"
            )
        row = dict(zip(self.columns, cells, strict=True))
        self.rows += 1
        time_s = self._number("time_s", row["time_s"])
        if time_s < self.last_s:
            self.fail(
                f"time_s is {_plain(time_s)} after {_plain(self.last_s)}: times must not go back"
            )
        self.last_s = time_s
        both = row.get("direction", "both")
        if both not in DIRECTIONS:
            self.fail(f"{both!r} is none of {', '.join(DIRECTIONS)}", "direction")
        for direction in DIRECTIONS[both]:
            yield self._change(time_s, direction, row)

    def _change(self, time_s: float, direction: str, row: dict[str, str]) -> Change:
        before = self.newest.get(direction)
        if before is None and time_s > 0:
            self.fail(
                f"the first row of direction {direction} is at {_plain(time_s)} s: it must be at 0"
            )
        if before is not None and time_s == before.time_s:
            self.fail(f"a second row of direction {direction} at {_plain(time_s)} s: give one")
        values = {}
        for name in VALUES:
            if cell := row.get(name, "0" if before is None else ""):
                values[name] = self._number(name, cell)
            elif before is None:
                self.fail(
                    f"empty, but there is no row of direction {direction} before it to keep the"
                    " value of",
                    name,
                )
        state = State(**values) if before is None else before.state._replace(**values)
        self.newest[direction] = Change(time_s, direction, state)
        return self.newest[direction]

    def _number(self, name: str, cell: str) -> float:
        try:
            # Python takes underscores and digits of other scripts, too.
            value = float(cell) if cell.isascii() and "_" not in cell else math.nan
        except ValueError:
            self.fail(f"{cell!r} is not a number", name)
        greatest, advice = GREATEST["time_s" if name == "repeat_s" else name]
        if not math.isfinite(value) or value < 0:
            self.fail(f"{cell} is not a finite number from 0 on", name)
        if value > greatest:
            self.fail(f"{cell}: {advice}", name)
        if name == "rate_bps" and 0 < value < LEAST_RATE_BPS:
            self.fail(
                f"{cell}: is this Mbit/s? rate_bps is in bit/s, at least {LEAST_RATE_BPS:g}, or 0"
                " for an outage",
                name,
            )
        return value

    def _end(self) -> None:
        self.line = 0
        if not self.columns:
            self.fail(f"empty: a link file begins with the header {','.join(COLUMNS)}")
        for direction in DIRECTIONS["both"]:
            if direction not in self.newest:
                self.fail(f"no row of direction {direction}: its first row must be at time_s 0")
        if self.repeat_s is not None and self.repeat_s <= self.last_s:
            self.fail(
                f"repeat_s is {_plain(self.repeat_s)}, but the last row is at"
                f" {_plain(self.last_s)}: it must be later"
            )
