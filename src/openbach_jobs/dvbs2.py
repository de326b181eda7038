# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of a forward link in frames (`forward: dvbs2`), and what its terminals receive when.

They are lines `forward_NAME` of a satellite's file, and `forward.NAME=VALUE`.
docs/method/forward-link.md says what they mean; dvbs2_qdisc.py tells the kernel. The host reads
this file, too.

What a terminal receives over time is a file of Es/N0:

    # Comment: where it comes from.
    time_s,terminal,es_n0_db
    0,0,14.5
    30,0,2

From `time_s` on the terminal (a number from 0 on, or `all`; without this column all) has this
Es/N0, until its next row; before its first row it has that of the satellite.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from openbach_jobs import netem
from openbach_jobs.netem import Value, number_from, one_of

NONE = "none"
ACM = "acm"
ALL = "all"
FAIR = ("bytes", "time")
"""Measures of fairness among terminals of a class; their places are the kernel's numbers."""
LABELS = ("0", "3", "6")
MOST_TERMINALS = 1024
MOST_ROWS = 400_000
"""Limit of a file's rows: each makes at most two changes, and the kernel takes a million."""
BBHEADER_BYTES, PLHEADER_SYMBOLS = 10, 90
FECFRAME_BITS = 64_800
BITS = {"QPSK": 2, "8PSK": 3, "16APSK": 4, "32APSK": 5}
"""Bits of a symbol, by modulation."""
BCH_BITS = {
    "1/4": 16_008, "1/3": 21_408, "2/5": 25_728, "1/2": 32_208, "3/5": 38_688, "2/3": 43_040,
    "3/4": 48_408, "4/5": 51_648, "5/6": 53_840, "8/9": 57_472, "9/10": 58_192,
}  # fmt: skip
"""Bits of a BBFRAME, by code rate: ETSI EN 302 307-1, table 5a."""
WHOLE_BYTES, START_BYTES, END_BYTES = 4, 7, 7
"""Bytes that GSE adds without a label: to a whole packet, to the first part of a cut one, and to
the last part with the check."""
RECEIVES, SENDS = 0, 1
"""Kinds of changes: the kernel's numbers."""


@dataclass(frozen=True)
class Modcod:
    """A modulation and code rate.

    `efficiency` is in bit per symbol; `es_n0_db` is in dB, for quasi error-free reception without
    implementation losses.
    """

    name: str
    efficiency: float
    es_n0_db: float

    @property
    def slug(self) -> str:
        """Return the name as a value and in columns: `qpsk_1_4`."""
        return self.name.lower().replace(" ", "_").replace("/", "_")

    @property
    def frame_bytes(self) -> int:
        """Return the bytes of a frame's data field."""
        return BCH_BITS[self.name.split()[1]] // 8 - BBHEADER_BYTES

    @property
    def frame_symbols(self) -> int:
        """Return the symbols of a frame with its header."""
        return FECFRAME_BITS // BITS[self.name.split()[0]] + PLHEADER_SYMBOLS


MODCODS = (
    Modcod("QPSK 1/4", 0.490243, -2.35),
    Modcod("QPSK 1/3", 0.656448, -1.24),
    Modcod("QPSK 2/5", 0.789412, -0.30),
    Modcod("QPSK 1/2", 0.988858, 1.00),
    Modcod("QPSK 3/5", 1.188304, 2.23),
    Modcod("QPSK 2/3", 1.322253, 3.10),
    Modcod("QPSK 3/4", 1.487473, 4.03),
    Modcod("QPSK 4/5", 1.587196, 4.68),
    Modcod("QPSK 5/6", 1.654663, 5.18),
    Modcod("QPSK 8/9", 1.766451, 6.20),
    Modcod("QPSK 9/10", 1.788612, 6.42),
    Modcod("8PSK 3/5", 1.779991, 5.50),
    Modcod("8PSK 2/3", 1.980636, 6.62),
    Modcod("8PSK 3/4", 2.228124, 7.91),
    Modcod("8PSK 5/6", 2.478562, 9.35),
    Modcod("8PSK 8/9", 2.646012, 10.69),
    Modcod("8PSK 9/10", 2.679207, 10.98),
    Modcod("16APSK 2/3", 2.637201, 8.97),
    Modcod("16APSK 3/4", 2.966728, 10.21),
    Modcod("16APSK 4/5", 3.165623, 11.03),
    Modcod("16APSK 5/6", 3.300184, 11.61),
    Modcod("16APSK 8/9", 3.523143, 12.89),
    Modcod("16APSK 9/10", 3.567342, 13.13),
    Modcod("32APSK 3/4", 3.703295, 12.73),
    Modcod("32APSK 4/5", 3.951571, 13.64),
    Modcod("32APSK 5/6", 4.119540, 14.28),
    Modcod("32APSK 8/9", 4.397854, 15.69),
    Modcod("32APSK 9/10", 4.453027, 16.05),
)
"""The MODCODs of ETSI EN 302 307-1, table 13 (FECFRAME of 64800 bits, no pilots). The places are
the kernel's numbers."""
SLUGS = {modcod.slug: modcod for modcod in MODCODS}
SILENT = len(MODCODS)
"""Number in place of a MODCOD's where nothing is sent to the terminal."""


def best(es_n0_db: float) -> Modcod | None:
    """Return the most efficient MODCOD that needs no more than this Es/N0; None for none."""
    return max(
        (modcod for modcod in MODCODS if modcod.es_n0_db <= es_n0_db),
        key=lambda modcod: modcod.efficiency,
        default=None,
    )


def following(used: Modcod | None, usable_db: float, hysteresis_db: float) -> Modcod | None:
    """Return the MODCOD after this one, where the Es/N0 less the margin is `usable_db`.

    Down at once, as nothing would get through; up only with the hysteresis, so as not to flap.
    """
    up = best(usable_db - hysteresis_db)
    if used and used.es_n0_db > usable_db:
        return best(usable_db)
    if up and (used is None or up.efficiency > used.efficiency):
        return up
    return used


# Values


_es_n0 = number_from(-20, 40, "an Es/N0 in dB")
_db = number_from(0, 10, "a ratio in dB")


def _es_n0s(text: str) -> tuple[float, ...]:
    return tuple(map(_es_n0, text.split("/")))


def _modcods(text: str) -> tuple[Modcod, ...] | None:
    """Return the MODCODs of the terminals; None: as ACM chooses them."""
    if text == ACM:
        return None
    for name in text.split("/"):
        if name not in SLUGS:
            raise ValueError(f"{name!r} is neither {ACM} nor one of {', '.join(SLUGS)}")
    return tuple(SLUGS[name] for name in text.split("/"))


VALUES = {
    "symbols": Value("10M", number_from(1000, 1e9, "a symbol rate"), "symbols/s of the carrier"),
    "es_n0_db": Value(
        "14.5",
        _es_n0s,
        "Es/N0 of the terminals in clear sky; 14.5/2: 14.5 for terminal 0, 2 for all others",
    ),
    "modcod": Value(
        ACM,
        _modcods,
        "acm: by Es/N0; or fixed, like 16apsk_3_4/qpsk_1_2: the first for terminal 0, the second"
        " for all others",
    ),
    "loop_ms": Value(
        "1000",
        number_from(0, 100_000, "a duration in ms"),
        "from a change of Es/N0 until frames in the MODCOD for it arrive",
    ),
    "margin_db": Value("0.5", _db, "that a MODCOD has in hand"),
    "hysteresis_db": Value("0.5", _db, "more than that before a more efficient one is taken"),
    "label_bytes": Value("3", one_of(LABELS), "in the GSE header of a packet"),
    "fair": Value(
        "bytes", one_of(FAIR), "terminals of a class get the same bytes, or the same air time"
    ),
}
"""The values of the forward link, in the order in which they are shown."""
checked = partial(netem.checked_value, VALUES, "forward.")
"""Return a value's text if it is right; takes name and text. Raises ValueError."""
OF_ACM = ("loop_ms", "margin_db", "hysteresis_db")
IN_FILE = "forward_"
"""Prefix of these values' names in a satellite's file."""


class Change(NamedTuple):
    """A change at the gateway, in the order in which the kernel takes them."""

    time_us: int
    terminal: int
    kind: int
    """Kind of the change: RECEIVES or SENDS."""
    value: int
    """The MODCODs that the terminal receives, as bits, or the number of the one that is sent."""


Rows = Sequence[tuple[float, str, float]]
"""Rows of a file of Es/N0: time in s, terminal or ALL, Es/N0 in dB."""


class Forward:
    """The values of a link, as numbers by name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Take the values' numbers."""
        self._values = values

    def __getitem__(self, name: str) -> Any:
        """Return the value of this name."""
        return self._values[name]

    def es_n0_db(self, terminal: int) -> float:
        """Return the Es/N0 of a terminal in clear sky."""
        listed: tuple[float, ...] = self["es_n0_db"]
        return listed[min(terminal, len(listed) - 1)]

    def given_modcod(self, terminal: int) -> Modcod | None:
        """Return the MODCOD that a terminal always has; None if ACM chooses it."""
        listed: tuple[Modcod, ...] | None = self["modcod"]
        return listed[min(terminal, len(listed) - 1)] if listed else None

    def in_clear_sky(self, terminal: int) -> Modcod | None:
        """Return the MODCOD of a terminal at the beginning; None: nothing is sent to it."""
        usable_db = self.es_n0_db(terminal) - self["margin_db"]
        return self.given_modcod(terminal) or best(usable_db)

    @property
    def listed(self) -> int:
        """Return for how many terminals there are values of their own."""
        return max(len(self["es_n0_db"]), len(self["modcod"] or ()))

    def check_terminals(self, count: int, rows: Rows, own: Iterable[str] = ()) -> None:
        """Raise ValueError for values of more terminals than there are.

        So it does for an Es/N0 in `own` that a file replaces for each terminal at once: only a
        buffer in BDP would change. A fixed MODCOD is checked against it, so it stays.
        """
        listed = {
            "forward.es_n0_db": len(self["es_n0_db"]),
            "forward.modcod": len(self["modcod"] or ()),
            "es_n0_file": most_terminal(rows) + 1,
        }
        for name, terminals in listed.items():
            if terminals > count:
                raise ValueError(
                    f"{name} is of {terminals} terminals, and there {_are(count)}: gateways of"
                    " routes of the satellite to the user's side, numbered from 0 in the order of"
                    " their addresses"
                )
        at_once = all(series and not series[0][0] for series in _by_terminal(rows, count))
        if at_once and "es_n0_db" in own and not self["modcod"]:
            raise ValueError(
                "forward.es_n0_db has no effect beside es_n0_file, which has the Es/N0 of each"
                " terminal from 0 s on: leave it out (buffer=150kB is a buffer of another size)"
            )

    @property
    def most_bps(self) -> float:
        """Return the rate of frames of the most efficient MODCOD in clear sky."""
        modcods = [self.in_clear_sky(terminal) for terminal in range(self.listed)]
        return float(self["symbols"] * max(modcod.efficiency for modcod in modcods if modcod))

    def frame_ms(self, modcod: Modcod) -> float:
        """Return how long a frame takes."""
        return float(modcod.frame_symbols / self["symbols"] * 1000)

    def changes(self, terminals: int, delay_ms: float, rows: Rows = ()) -> list[Change]:
        """Return all changes at the gateway, from its time 0 on, in their order.

        A frame that is sent at a time arrives `delay_ms` later. So what a terminal receives from a
        time on are the frames sent from `delay_ms` before it, and the loop of ACM ends with frames
        that are sent `delay_ms` before its end.
        """
        changes: list[Change] = []
        own = _by_terminal(rows, terminals)
        for terminal in range(terminals):
            changes += self._changes_of(terminal, delay_ms, own[terminal])
        return sorted(changes, key=lambda change: (change.time_us, change.terminal, change.kind))

    def _changes_of(
        self, terminal: int, delay_ms: float, rows: Iterable[tuple[float, float]]
    ) -> list[Change]:
        fixed = self.given_modcod(terminal)
        series = _from_the_beginning(self.es_n0_db(terminal), rows)
        received: dict[int, int] = {}
        sent: dict[int, int] = {}
        used = fixed or best(series[0][1] - self["margin_db"])
        sent[0] = _number_of(used)
        for time_s, es_n0_db in series:
            at_us = round(time_s * 1e6 - delay_ms * 1e3)
            # Of several before the first frame the last one counts.
            received[max(at_us, 0)] = _received(es_n0_db)
            if fixed or not time_s:
                continue
            used = following(used, es_n0_db - self["margin_db"], self["hysteresis_db"])
            sent[at_us + round(self["loop_ms"] * 1e3)] = _number_of(used)
        return [
            *(Change(time, terminal, RECEIVES, bits) for time, bits in _without_repeats(received)),
            *(Change(time, terminal, SENDS, number) for time, number in _without_repeats(sent)),
        ]

    def line(self, terminals: int, queue: Mapping[str, int], changes: int) -> str:
        """Return the line of the link's values that the kernel reads."""
        numbers = {
            "symbol_rate": round(self["symbols"]),
            "label_bytes": int(self["label_bytes"]),
            "fair_by_time": FAIR.index(self["fair"]),
            **queue,
            "terminals": terminals,
            "changes": changes,
        }
        return " ".join(f"{name}={number}" for name, number in numbers.items())


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"


def _number_of(modcod: Modcod | None) -> int:
    return MODCODS.index(modcod) if modcod else SILENT


def _received(es_n0_db: float) -> int:
    """Return the MODCODs that need no more than this Es/N0, as bits."""
    return sum(1 << n for n, modcod in enumerate(MODCODS) if modcod.es_n0_db <= es_n0_db)


def _without_repeats(changes: Mapping[int, int]) -> Iterable[tuple[int, int]]:
    before: int | None = None
    for time_us in sorted(changes):
        if changes[time_us] != before:
            yield time_us, changes[time_us]
        before = changes[time_us]


def _by_terminal(rows: Rows, terminals: int) -> list[list[tuple[float, float]]]:
    """Return time and Es/N0 of each terminal's rows, in their order."""
    by_terminal: list[list[tuple[float, float]]] = [[] for _ in range(terminals)]
    for time_s, terminal, es_n0_db in sorted(rows, key=lambda row: row[0]):
        for number in range(terminals) if terminal == ALL else [int(terminal)]:
            if number < terminals:
                by_terminal[number].append((time_s, es_n0_db))
    return by_terminal


def _from_the_beginning(
    clear_sky_db: float, rows: Iterable[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return the Es/N0 over time; of several at the same time the last one counts."""
    return list({0.0: clear_sky_db, **dict(rows)}.items())


# Texts


split = partial(netem.named_texts, VALUES, "forward", "symbols=20M;es_n0_db=14.5/2")
"""Return the texts of `NAME=VALUE;NAME=VALUE` by name. Raises ValueError."""


def in_force(given: Mapping[str, str], of_satellite: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each of VALUES: the given one, else the satellite's, else the default.

    Raises ValueError for a given value that has no effect beside the others.
    """
    texts = netem.texts_in_force(VALUES, given, of_satellite)
    for name in OF_ACM:
        if name in given and texts["modcod"] != ACM:
            raise ValueError(f"forward.{name} has no effect with forward.modcod={texts['modcod']}")
    return texts


def read(texts: Mapping[str, str], delay_ms: float | None) -> Forward:
    """Return the values as numbers, checked together. Raises ValueError."""
    forward = Forward(
        {name: VALUES[name].read(checked(name, text)) for name, text in texts.items()}
    )
    for terminal in range(forward.listed):
        es_n0_db, modcod = forward.es_n0_db(terminal), forward.in_clear_sky(terminal)
        if modcod is None:
            raise ValueError(
                f"forward.es_n0_db={texts['es_n0_db']}: with a margin of {texts['margin_db']} dB"
                f" nothing reaches terminal {terminal}, as {MODCODS[0].name} needs"
                f" {MODCODS[0].es_n0_db:g} dB"
            )
        if modcod.es_n0_db > es_n0_db:
            raise ValueError(
                f"forward.modcod={texts['modcod']}: {modcod.slug} needs {modcod.es_n0_db:g} dB, and"
                f" terminal {terminal} has {es_n0_db:g} dB (forward.es_n0_db)"
            )
    if texts["modcod"] == ACM and forward["loop_ms"] < 2 * (delay_ms or 0):
        raise ValueError(
            f"forward.loop_ms={texts['loop_ms']} is less than a report and a frame take: twice the"
            f" delay of {delay_ms:g} ms"
        )
    return forward


# Files


class SeriesError(ValueError):
    """An error in a file of Es/N0: its line, what is wrong, and what would be right."""


COLUMNS = ("time_s", "terminal", "es_n0_db")


def read_series(path: str | os.PathLike[str]) -> list[tuple[float, str, float]]:
    """Return the rows of a file of Es/N0. Raises SeriesError."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return rows_of(os.fspath(path), file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise SeriesError(f"{os.fspath(path)}: {reason}") from error


def rows_of(path: str, lines: Iterable[str]) -> list[tuple[float, str, float]]:
    """Return the rows of a file's lines. Raises SeriesError, with the path and the line."""
    heading: list[str] | None = None
    rows: list[tuple[float, str, float]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        (cells,) = csv.reader([line])
        cells = [cell.strip() for cell in cells]
        place = f"{path}, line {number}"
        if heading is None:
            heading = cells
            if not {"time_s", "es_n0_db"} <= {*heading} <= {*COLUMNS}:
                raise SeriesError(f"{place}: the first line is {','.join(COLUMNS)}")
            continue
        if len(cells) != len(heading):
            raise SeriesError(f"{place}: {len(cells)} cells under {len(heading)} columns")
        rows.append(_row(place, dict(zip(heading, cells, strict=True))))
        if len(rows) > MOST_ROWS:
            raise SeriesError(f"{place}: there are more than {MOST_ROWS} rows")
    if not rows:
        raise SeriesError(f"{path}: there is no row; the first line is {','.join(COLUMNS)}")
    return rows


def _row(place: str, cells: Mapping[str, str]) -> tuple[float, str, float]:
    terminal = cells.get("terminal", ALL)
    if terminal != ALL and not is_terminal(terminal):
        raise SeriesError(f"{place}: terminal {terminal!r} is no number from 0 to 1023, or all")
    try:
        time_s, es_n0_db = (
            float(cell) if cell.isascii() and "_" not in cell else math.nan
            for cell in (cells["time_s"], cells["es_n0_db"])
        )
    except ValueError as error:
        raise SeriesError(f"{place}: {error}") from None
    if not 0 <= time_s <= 1e9:
        raise SeriesError(f"{place}: time_s is from 0 to 1e9, not {time_s:g}")
    if not (math.isfinite(es_n0_db) and -100 <= es_n0_db <= 100):
        raise SeriesError(f"{place}: es_n0_db is from -100 to 100, not {es_n0_db:g}")
    return time_s, terminal, es_n0_db


def is_terminal(text: str) -> bool:
    """Return whether a text is the number of a terminal."""
    return text.isascii() and text.isdecimal() and len(text) < 5 and int(text) < MOST_TERMINALS


def most_terminal(rows: Rows) -> int:
    """Return the greatest number of a terminal in a file; -1 if it has rows of all only."""
    return max((int(terminal) for _, terminal, _ in rows if terminal != ALL), default=-1)
