# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and values in people's words.

These are arguments, values with units, and figures with as many digits as mean something.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

from openbach_run.catalog import DESCRIBED, Catalog, description
from openbach_run.openbach.measures import Measure, from_name, measure_of
from openbach_run.openbach.scenario import SAME
from openbach_run.openbach.titles import Title, Titles, titles_of_ours
from openbach_run.results.intervals import Estimate, in_text
from openbach_run.units import number

NAMES = {
    "fifo": "FIFO",
    "codel": "CoDel",
    "fq_codel": "FQ-CoDel",
    "cake": "CAKE",
    "last_mile": "last mile",
}
"""Values that are not written as they are given, with a space for `_`. Those of VPNs and congestion
controls are the `title` of their folders."""

ACCESS = ("access", "dama_values", "return_rate")
"""The way to return capacity, and other arguments that say with it which link it is."""
CAPACITY = {"cra": "CRA", "rbdc": "RBDC", "vbdc_bytes": "VBDC", "fca": "FCA"}
"""Kinds of return capacity, as DVB-RCS2 calls them."""
OPERATORS = {"oneweb": "OneWeb"}
"""Names that have a capital letter inside."""
FREE = "free"
"""The value of a CPU for which nothing takes time."""
BY_FILE = ("rate", "return_rate", "link_file")
"""The arguments that a link file replaces, and its own name."""
IDLE_ON_FILE = {
    ("delay_ms", "none"), ("loss", "0"), ("return_loss", "same"), ("return_loss", "0"),
    ("burst_packets", "1"), ("burst_packets", "none"), ("burst_ms", "none"), ("jitter_ms", "0"),
}  # fmt: skip
"""Arguments and values that change nothing on a link with a file."""
LEADERS = {
    "return_": "that of the forward link", "cpu_": "that of the box", "_pep": "at the end hosts",
    "_tunnel": "at the end hosts", "_2": "that of the first",
}  # fmt: skip
"""The beginning or end of an argument's name → whose value `same` then is."""
USUAL = {"jitter_ms": "0", "direction": "download", "http": "none", "vpn_values": "none"}
"""Values that go without saying where others differ."""
SUFFIXES = {"forward": "forward link", "return": "return link"}
_OWN_TITLES: ContextVar[Titles] = ContextVar("own titles", default=MappingProxyType({}))
"""Titles of the arguments of users' scenarios, of what is being written."""


def file_of(values: Mapping[str, str]) -> str:
    """Return the name of the file that a link follows, of `link_file` or its satellite; else "".

    A link without a forward rate has a file, or frames (`forward=dvbs2`).
    """
    file = values.get("link_file", "none")
    if file == "none" and values.get("rate") == "none":
        # A scenario without `forward` may have a satellite with frames, whose delay is known.
        is_file = values.get("forward", values.get("delay_ms")) in ("rate", "none")
        file = f"{values.get('orbit', '')}.csv" if is_file else file
    return "" if file == "none" else Path(file).name


def satellite(name: str) -> str:
    """Return a satellite's name as it is written: `GEO RCS2`, `Starlink ISL`, `GEO+LEO`."""
    if "+" in name:
        return "+".join(map(satellite, name.split("+")))
    first, *rest = name.split("_")
    words = [first.upper() if len(first) < 4 else OPERATORS.get(first, first.capitalize())]
    words += [word.upper() if re.search(r"\d", word) or len(word) < 4 else word for word in rest]
    return " ".join(words)


def named(value: str) -> str:
    """Return a value in words.

    It may have settings behind it, as page 1 tells apart: `cubic http=2` is `CUBIC, HTTP/2`,
    `quic_split vpn.cc=bbr` is `QUIC split (ends TCP), vpn.cc=bbr`.
    """
    first, *more = value.split(" ")
    if more and all("=" in setting for setting in more):
        return named(first) + "".join(map(_setting, more))
    as_given = value.replace("_", " ") if re.fullmatch(r"\w+", value) else value
    return NAMES.get(value) or _titles().get(value, as_given)


def _setting(text: str) -> str:
    name, _, value = text.partition("=")
    whose = "as the hosts" if value == SAME else named(value)
    known = {
        "http": f", HTTP/{value}", "cc_tunnel": f" (own TCP: {whose})",
        "pep_profile": f" (profile {value})", "cc_pep": f" with {whose}",
        "initcwnd_pep": f" with an initial window of {value}",
    }  # fmt: skip
    return known.get(name, f", {text}")


def unusual(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values that a heading has to tell: without usual ones, unless these are all."""
    kept = {name: value for name, value in values.items() if USUAL.get(name) != value}
    if kept.get("http") != "3":
        kept.pop("quic", None)
    return kept or dict(values)


@cache
def _titles() -> dict[str, str]:
    """Return the titles of the VPNs and congestion controls, by name."""
    titles = {}
    for kind in DESCRIBED:
        for name, folder in Catalog.beside_ours([]).all(kind).items():
            title = description(folder).get("title")
            if isinstance(title, str):
                titles[name] = title
    return titles


@contextmanager
def with_titles(titles: Titles) -> Iterator[None]:
    """Have arguments called by these titles in the block, before those of the checkout."""
    token = _OWN_TITLES.set(titles)
    try:
        yield
    finally:
        _OWN_TITLES.reset(token)


def _title(name: str) -> Title:
    """Return title and unit of an argument: its own, else the checkout's, else by its name."""
    by_name = from_name(name)
    known = [titles[name] for titles in (_OWN_TITLES.get(), titles_of_ours()) if name in titles]
    known.append(Title(by_name.title.replace("_", " "), by_name.unit))
    return Title(*(next(filter(None, texts), "") for texts in zip(*known, strict=True)))


def argument(name: str) -> str:
    """Return an argument's name in words: `congestion control of the PEP`."""
    return _title(name).title


def heading(name: str) -> str:
    """Return an argument as the head of a column or axis of its values: `random loss (%)`."""
    title, unit = _title(name)
    return title + (f" ({unit})" if unit and unit not in ("bytes", "bit/s") else "")


def value_of(name: str, value: str) -> str:
    """Return a value with its unit: `30 MB`, `10 Mbit/s`, `250 ms`, `OpenVPN UDP`."""
    known = number(value)
    if name == "orbit":
        return satellite(value)
    if name in ("buffer", "buffer_bdp"):
        return _buffer(value)
    if known is not None and (unit := _title(name).unit):
        if unit in ("bytes", "bit/s"):
            return _large(known, {"bytes": "B"}.get(unit, unit))
        return f"{value} {unit}"
    return named(value)


def _buffer(value: str) -> str:
    """Return the size of a buffer in words: `2 bandwidth-delay products`, `64 kB`."""
    parts = re.fullmatch(r"([0-9.]+)(BDP|kB|MB|B|p)?", value)
    if parts is None:
        return named(value)
    words = {"BDP": "bandwidth-delay product", "p": "packet", None: "bandwidth-delay product"}.get(
        parts[2], parts[2]
    )
    return f"{parts[1]} {words}" + (
        "s" if parts[2] in ("BDP", "p", None) and float(parts[1]) > 1 else ""
    )


def _large(value: float, unit: str) -> str:
    """Return a value with a prefix of its unit: `10 Mbit/s`."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.4g} {letter}{unit}"
    return f"{value:.4g} {unit}"


def phrase(name: str, value: str) -> str:
    """Return an argument's value for a sentence.

    Examples are `no VPN`, `PEP B`, `0.1 % loss` and `buffer 2 bandwidth-delay products`.
    """
    if value == SAME:
        whose = [
            whose for mark, whose in LEADERS.items() if name.startswith(mark) or name.endswith(mark)
        ]
        return f"{argument(name)} as {whose[0]}" if whose else f"{argument(name)}: the same"
    match name:
        case "vpn":
            return "no VPN" if value == "none" else named(value)
        case "pep":
            first, *own = value.split(" ")
            position = (
                f"PEP at {first.replace('_', ' ')}" if own else f"PEP {value.replace('_', ' ')}"
            )
            return "no PEP" if value == "none" else position + "".join(map(_setting, own))
        case "loss":
            return f"{value} % loss" if number(value) is not None else f"loss {named(value)}"
        case "cc" | "orbit" | "scenario":
            return value_of(name, value)
        case "http":
            return "transfer by iperf3" if value == "none" else f"transfer by HTTP/{value}"
        case "burst_packets":
            return (
                "losses one by one" if value == "1" else f"burst loss of {value} packets on average"
            )
        case "burst_ms":
            return f"every packet is lost for {value} ms on average"
        case "cpu" if value == FREE:
            return "programs and encryption take no time"
        case "delay_ms" if value == "none":
            return "one-way delay that changes with time"
        case "rate" | "return_rate" if value == "none":
            return f"no fixed {argument(name)}"
        case "direction":
            return named(value)
        case "streams":
            return f"{value} connection{'s' if value != '1' else ''}"
        case "buffer" | "buffer_bdp":
            return f"buffer {value_of(name, value)}"
        case _:
            return (
                f"no {argument(name)}"
                if value == "none"
                else f"{argument(name)} {value_of(name, value)}"
            )


def access_in_words(values: Mapping[str, str]) -> str:
    """Return the way to return capacity: `an assigned return link`, or the kinds on demand.

    An example is `a return link on demand (CRA 100 kbit/s and RBDC 5.12 Mbit/s)`.
    """
    if values.get("access") == "assigned":
        return "an assigned return link"
    kinds = kinds_of_capacity(values)
    return f"a return link on demand{f' ({kinds})' if kinds else ''}"


def kinds_of_capacity(values: Mapping[str, str]) -> str:
    """Return what may be asked for in words, as far as a cell has values of its own for it."""
    parts = []
    text = values.get("dama_values", "none")
    for part in text.split(";") if text not in ("none", "") else ():
        name, _, value = part.partition("=")
        size = number(value)
        if name not in CAPACITY or size is None:
            parts.append(part)
        elif size == 0:
            parts.append(f"no {CAPACITY[name]}")
        else:
            unit = "B" if name == "vbdc_bytes" else "bit/s"
            parts.append(f"{CAPACITY[name]} {_large(size, unit)}")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def title_of(column: str, declared: Iterable[Measure]) -> str:
    """Return a column of results.csv in words, without its unit.

    An example is `dropped by the full buffer, forward link`.
    """
    suffix, measure = measure_of(column, declared)
    return f"{measure.title}, {suffix_in_words(suffix)}" if suffix else measure.title


def suffix_in_words(suffix: str) -> str:
    """Return the suffix of a statistic in words."""
    return SUFFIXES.get(suffix, suffix.replace("_", " "))


AS_IT_IS = 1e4
"""Values below this are easy to read without a prefix: an MTU of 1420 bytes."""


def in_good_units(measure: Measure, values: Sequence[float]) -> Measure:
    """Return the measure with the unit in which its greatest value is easy to read.

    Its `factor` is from the measure's own unit to that one.
    """
    greatest = max(map(abs, values), default=0.0)
    steps: Mapping[str, Sequence[tuple[float, str]]] = {
        "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")),
        "bit/s": ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")),
    }
    for size, unit in steps.get(measure.unit, ()):
        if greatest >= max(size, AS_IT_IS):
            return replace(measure, unit=unit, factor=1 / size, type="float")
    return replace(measure, factor=1.0)


def decimals(value: float) -> int:
    """Return the number of decimals with which a measured value has four digits.

    There are at most two decimals for a value above 1 and at most three below.
    """
    if not value:
        return 0
    return min(2 if abs(value) >= 1 else 3, max(0, 3 - math.floor(math.log10(abs(value)))))


def figure(
    measured: Estimate | None, places: int | None = None, factor: float = 1.0, *, tail: bool = False
) -> str:
    """Return median and interval, with four digits or so many places: `28.50 [28.41–28.77]`."""
    digits = decimals(measured.median * factor) if measured and places is None else places or 0
    return in_text(measured, lambda value: _plain(value * factor, digits), tail=tail)


def _plain(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def places_of(measure: Measure) -> int | None:
    """Return the number of decimals: 0 for what is counted, None for what is measured.

    None is by the value.
    """
    return 0 if measure.type == "int" else None
