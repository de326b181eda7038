# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of tc for delay and loss, and the seeds of netem's random numbers."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

PLACES = ("satellite", "last_mile")
"""Links of a scenario that may lose packets: each loses them or leaves it to the other."""
LIMIT_PACKETS = 100_000
"""Length of netem's own queue in packets, in which those under way wait: it never drops."""
IN_ORDER = " rate 10gbit"
"""Option with which netem keeps packets in order: with a rate, none overtakes another when the
delay falls. It costs a full packet 1.2 µs."""
PACKET_BYTES = 1540
"""Bytes of a full packet with what a tunnel or a VLAN may add."""
REAL_TIME_PACKETS = 10
CLOCK = "OPENBACH_RUN_CLOCK"
MASK64 = 2**64 - 1
MULTIPLIERS = {"k": 1e3, "M": 1e6, "G": 1e9}
NONE = "none"
TEXTS = re.compile(r"\w+=[\w./-]+(;\w+=[\w./-]+)*")
DIGITS = frozenset("0123456789.+-eE")
"""Characters of a number: Python takes digits of other scripts, underscores and blanks, too."""


class Value(NamedTuple):
    """A value: its default, the reader of its text, and what it says."""

    default: str
    read: Callable[[str], Any]
    meaning: str


def percent(text: str) -> float:
    """Return the percentage that a text says. Raises ValueError."""
    return number(text, 0, 100, "a percentage from 0 to 100")


def burst(text: str) -> float:
    """Return the mean length of a burst in packets.

    Raises ValueError.
    """
    return number(text, 1, 1e6, "a number of packets from 1 to 1000000")


def burst_ms(text: str) -> float:
    """Return the mean duration of a burst (bursts.py)."""
    return number(text, 1, 100_000, "a duration from 1 to 100000 ms")


def number(text: str, least: float, most: float, right: str) -> float:
    """Return a number with a decimal suffix or none (`10M` is 10 000 000).

    Raises ValueError, which says what would be right.
    """
    digits, factor = (text[:-1], MULTIPLIERS[text[-1]]) if text[-1:] in MULTIPLIERS else (text, 1.0)
    try:
        value = float(digits) * factor if DIGITS.issuperset(digits) else math.nan
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise ValueError(f"{text!r} is not {right}")
    return value


def named_texts(known: Collection[str], kind: str, like: str, text: str) -> dict[str, str]:
    """Return the texts of `NAME=VALUE;NAME=VALUE` by name; {} for `none`.

    The text is the value of `KIND_values`. Raises ValueError for another text than one `like` this,
    and for a name that is not known or there twice.
    """
    if text == NONE:
        return {}
    if not TEXTS.fullmatch(text):
        raise ValueError(f"{kind}_values: {text!r} is not like {like}, or none")
    texts: dict[str, str] = {}
    for part in text.split(";"):
        name, _, value = part.partition("=")
        if name not in known:
            has = f"there are {', '.join(known)}"
            raise ValueError(f"{kind}.{name}: there is no such value; {has}")
        if name in texts:
            raise ValueError(f"{kind}.{name} is given twice")
        texts[name] = value
    return texts


def number_from(least: float, most: float, right: str) -> Callable[[str], float]:
    """Return the reader of a number from `least` to `most`."""

    def read(text: str) -> float:
        return number(text, least, most, f"{right} from {least:g} to {most:g}")

    return read


def one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    """Return the reader of one of these names."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"{text!r} is none of {', '.join(names)}")
        return text

    return read


def checked_value(known: Mapping[str, Value], prefix: str, name: str, text: str) -> str:
    """Return the text of a value that is right. Raises ValueError, with `prefix` and name."""
    try:
        known[name].read(text)
    except ValueError as error:
        raise ValueError(f"{prefix}{name}: {error}") from None
    return text


def texts_in_force(
    known: Mapping[str, Value], given: Mapping[str, str], of_satellite: Mapping[str, str]
) -> dict[str, str]:
    """Return the text of each value: the given one, else the satellite's, else the default."""
    texts = {**of_satellite, **given}
    return {name: texts.get(name, value.default) for name, value in known.items()}


def bucket_bytes() -> int:
    """Return the size of a token bucket (tbf) in bytes: what it lets through at once.

    In virtual time the timers are exact, and a bucket of one packet is enough. In real time they
    come late, and tokens that do not fit the bucket meanwhile are lost: with one packet the link is
    up to 15 % too slow. On a clock that is N times slower (real/N) they come as much less late, but
    still late: two packets at least.
    """
    clock = os.environ.get(CLOCK, "")
    if clock == "virtual":
        return PACKET_BYTES
    slower = clock.removeprefix("real/")
    packets = REAL_TIME_PACKETS // int(slower) if slower.isdecimal() else REAL_TIME_PACKETS
    return max(packets, 2) * PACKET_BYTES


def mixed(number: int) -> int:
    """Return 64 bits without visible relation to those of the next number (splitmix64).

    netem's generator does not warm up: seeds as small as 1, 2, 3 lose three times too many of the
    first packets.
    """
    number = (number + 0x9E3779B97F4A7C15) & MASK64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK64
    return number ^ number >> 31


def loss_model(loss_pct: float, burst_packets: float) -> str:
    """Return netem's option for a loss.

    It is independent losses for bursts of 1 packet, otherwise Gilbert's model: in its bad state
    every packet is lost. The mean burst of 1/r packets and the share p/(p+r) of lost packets give
    both probabilities (Gilbert, Capacity of a burst-noise channel, 1960). Raises ValueError for
    what no such model has.
    """
    if not loss_pct:
        return ""
    if burst_packets == 1:
        return f" loss random {loss_pct:g}%"
    share, leave = loss_pct / 100, 1 / burst_packets
    enter = share * leave / (1 - share) if share < 1 else 2.0
    if enter > 1:
        raise ValueError(
            f"{loss_pct:g} % of loss in bursts of {burst_packets:g} packets: there is no such model"
        )
    return f" loss gemodel {enter * 100:.7f}% {leave * 100:.7f}%"


def delay_options(delay_ms: float, jitter_ms: float) -> str:
    """Return netem's options for a delay; jitter is its standard deviation (tc's normal table)."""
    varies = f" {round(jitter_ms * 1000)}us distribution normal" if jitter_ms else ""
    return f" delay {round(delay_ms * 1000)}us{varies}"


def seed_option(seed: int | None) -> str:
    """Return netem's option for a seed, "" without one."""
    return "" if seed is None else f" seed {seed}"
