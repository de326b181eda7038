# SPDX-License-Identifier: GPL-3.0-or-later
"""A second reader of results.parquet, which checks what page 1 says, sentence by sentence.

It has its own way from the rows to medians and intervals, and its own names of what it finds; only
the words for arguments of a link are the report's. What it cannot read is a fault, too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import comb
from pathlib import Path
from typing import Any

import pyarrow.parquet

from openbach_run.paths import LIBRARY, REPOSITORY
from openbach_run.report.words import access_in_words, phrase, value_of

LEAST = 5
OWN_TCP = ("TCP", "MPTCP", "TLS")
NO_LINK = {
    "scenario", "seed", "status", "vpn", "vpn_values", "cc", "http", "quic", "cc_tunnel", "pep",
    "virtual_s", "wall_s", "run_id", "capture_hash",
}  # fmt: skip
COLUMNS: dict[str, Callable[[dict[str, Any]], float | None]] = {
    "transfer time": lambda row: row.get("transfer_time_s"),
    "transfer time of the slowest": lambda row: (
        _of(row, r"\w+_transfer_time_s", max) if row.get("size", "any") else None
    ),
    "time of all downloads": lambda row: row.get("cache_time_s"),
    "page load time": lambda row: row.get("page_load_time_s"),
    "MOS of the worse direction": lambda row: _of(row, r"to_\w+_mos", min),
    "MOS": lambda row: _of(row, r"to_\w+_mos", min),
    "video packets in time": lambda row: row.get("video_quality_pct"),
    "TCP throughput": lambda row: row.get("tcp_mbps"),
    "UDP received": lambda row: row.get("udp_mbps"),
    "ping RTT": lambda row: row.get("ping_rtt_ms"),
    "longest time between two answers": lambda row: row.get("ping_gap_s"),
    "goodput of all flows": lambda row: row.get("total_goodput_mbps"),
    "goodput of the worse flow": lambda row: _of(row, r"flow_\d_goodput_mbps", min),
    "UDP loss": lambda row: row.get("udp_loss_pct"),
}
DIMENSIONS = ("transport", "vpn", "pep")
MORE = ("MOS", "video packets in time", "TCP throughput", "UDP received", "goodput of ")
"""How the measures begin of which more is better."""
Ratio = tuple[float, float, float]
"""A median, and the ends of its interval."""
SPAN = r"(−?[\d.]+(?:e[+-]\d+)?)(?: to (−?[\d.]+(?:e[+-]\d+)?))?"


def _of(row: dict[str, Any], pattern: str, take: Callable[[list[float]], float]) -> float | None:
    found = [v for k, v in row.items() if re.fullmatch(pattern, k) and v is not None]
    return take(found) if len(found) > 1 else None


@cache
def title(name: str) -> str:
    """Return a VPN's or control's name as its folder has it."""
    for at in (f"vpn-configs/{name}/vpn.json", f"library/congestion-controls/{name}/profile.json"):
        if (REPOSITORY / at).exists():
            found = json.loads((REPOSITORY / at).read_text()).get("title")
            return str(found or name.replace("_", " "))
    return name.replace("_", " ")


@cache
def carrier(vpn: str) -> str:
    """Return what carries a VPN, as its folder or the one that it is made from says."""
    file = REPOSITORY / f"vpn-configs/{vpn}/vpn.json"
    described = json.loads(file.read_text()) if file.exists() else {}
    base = described.get("base")
    return str(described.get("carrier") or (carrier(base) if base else ""))


@dataclass
class Configuration:
    """What was run with one set of values: its names, and the values of each measure by seed."""

    names: dict[str, set[str]]
    """transport, vpn, pep, loss, link: what a sentence may call it."""
    key: tuple[str, str, str, frozenset[tuple[str, str]]]
    values: dict[str, dict[int, float]] = field(default_factory=dict)
    planned: int = 0
    leased: bool = False

    @cached_property
    def called(self) -> set[str]:
        return {name.lower() for names in self.names.values() for name in names}

    def is_called(self, tokens: Iterable[str]) -> bool:
        return all(token.lower().strip() in self.called for token in tokens if token)

    def but_for(self, place: int) -> tuple[Any, ...]:
        """Return all of the key but for one thing that is chosen."""
        return self.key[:place] + self.key[place + 1 :]

    def median(self, measure: str) -> float:
        return middle(list(self.values[measure].values()))


def middle(values: Sequence[float]) -> float:
    """Return the median."""
    taken = sorted(values)
    return (taken[(len(taken) - 1) // 2] + taken[len(taken) // 2]) / 2


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median, of fewer than six values the ends."""
    taken, rank = sorted(values), 0
    while sum(comb(len(taken), below) for below in range(rank + 1)) <= 0.025 * 2 ** len(taken):
        rank += 1
    return taken[max(rank, 1) - 1], taken[-max(rank, 1)]


class Reader:
    """The runs of a results.parquet."""

    def __init__(self, file: Path) -> None:
        rows = pyarrow.parquet.read_table(file).to_pylist()
        names = list(rows[0])
        self.arguments = names[names.index("scenario") + 1 : names.index("seed")]
        about = pyarrow.parquet.ParquetFile(file).metadata.metadata
        orbits = self._orbits(about, len(rows))
        self.found: dict[tuple[Any, ...], Configuration] = {}
        by_cell: dict[tuple[Any, ...], list[tuple[dict[str, Any], str]]] = {}
        for row, orbit in zip(rows, orbits, strict=True):
            cell = (row["scenario"], orbit, *(row[name] for name in self.arguments))
            by_cell.setdefault(cell, []).append((row, orbit))
        for of_cell in by_cell.values():
            made = self._configuration([row for row, _ in of_cell], of_cell[0][1])
            for measure in made.values:
                key = (measure, made.key)
                if key not in self.found or self.found[key].planned < made.planned:
                    self.found[key] = made
        self.measures = list(dict.fromkeys(measure for measure, _ in self.found))

    @staticmethod
    def _orbits(about: dict[bytes, bytes], number: int) -> list[str]:
        for text in about.values():
            with suppress(ValueError, KeyError, TypeError):
                kept = json.loads(text)["rows"]["orbit"]
                return [kept["values"][at] for at, often in kept["in_a_row"] for _ in range(often)]
        return [""] * number

    def _configuration(self, rows: list[dict[str, Any]], orbit: str) -> Configuration:
        first = {k: v for k, v in rows[0].items() if v is not None and k in self.arguments}
        orbit = orbit or first.get("orbit", "")
        names: dict[str, set[str]] = {}
        transport = self._transport(first)
        plain = transport if transport.startswith("QUIC") else transport.partition(",")[0]
        names["transport"] = {transport, plain, f"with {transport}", f"with {plain}"}
        vpn, names["vpn"] = self._vpn(first)
        pep, names["pep"] = self._pep(first)
        loss = first.get("loss", "")
        own = first.get("link_file", "none") != "none" or not re.fullmatch(r"[\d.]+", loss)
        lost = [row.get("forward_lost_packets") for row in rows]
        names["loss"] = {
            "with its own loss" if own else f"at {loss} % loss" if float(loss) else "without loss"
        }
        if not own and not float(loss):
            names["loss"].add("without random loss")
        if any(lost) and "without loss" in names["loss"]:
            names["loss"].remove("without loss")
        link = {
            name: value
            for name, value in first.items()
            if name not in NO_LINK and not name.endswith("_pep") and not name.startswith("pep_")
            and value not in ("", "same") and name != "orbit"
        }  # fmt: skip
        followers = {k for k in link if k.endswith(("_tunnel", "_pop"))}
        link = {k: v for k, v in link.items() if k not in followers or v != first.get(k[:-4])}
        if own:
            link["loss"] = "own"
        names["link"] = self._link(first, orbit)
        key = (transport, vpn, pep, frozenset([*link.items(), ("orbit", orbit)]))
        made = Configuration(names, key, planned=len(rows), leased="fixed:" in str(first))
        for row in rows:
            for measure, column in COLUMNS.items():
                value = column(row) if row["status"] == "Finished Ok" else None
                if value is not None:
                    made.values.setdefault(measure, {})[row["seed"]] = value
        return made

    @staticmethod
    def _transport(first: dict[str, str]) -> str:
        cc = first.get("cc", "")
        if first.get("http") == "3":
            quic = first["quic"]
            stack = json.loads((LIBRARY / f"quic-stacks/{quic}/stack.json").read_text())
            of_stack = stack["congestion_controls"]
            control = title(cc if cc in of_stack else of_stack[0])
            return f"QUIC ({quic.replace('_', ' ')}, {control})"
        http = first.get("http", "none")
        return f"TCP {title(cc)}" + (f", HTTP/{http}" if http != "none" else "")

    @staticmethod
    def _vpn(first: dict[str, str]) -> tuple[str, set[str]]:
        vpn = first.get("vpn", "none")
        if vpn == "none":
            return vpn, {"no VPN", "without VPN"}
        words, control = title(vpn), first.get("cc_tunnel", "same")
        values = first.get("vpn_values", "none")
        own = "".join(f", vpn.{one}" for one in values.split(";") if values != "none")
        called = {words + own}
        if carrier(vpn) in OWN_TCP:
            same = control in ("same", first.get("cc"))
            words += f" (own TCP {'as the hosts' if same else title(control)})"
        called |= {words + own, words} if not own else {words + own}
        return words + own, called | {f"with {one}" for one in called}

    @staticmethod
    def _pep(first: dict[str, str]) -> tuple[str, set[str]]:
        pep = first.get("pep", "none")
        if pep == "none":
            return "no PEP", {"no PEP", "without PEP"}
        control = first.get("cc_pep", "same")
        position = pep.replace("_", " ")
        words = f"PEP {position}"
        if control not in ("same", first.get("cc")):
            words = f"PEP at {position} with {title(control)}"
        if first.get("pep_profile", "plain") != "plain":
            words = f"PEP at {position} (profile {first['pep_profile']})"
        return words, {words, f"with {words}", words.removeprefix("PEP ").removeprefix("at ")}

    @staticmethod
    def _link(first: dict[str, str], orbit: str) -> set[str]:
        found = set()
        file = first.get("link_file", "none")
        if file != "none":
            found.add(Path(file).stem)
        else:
            delays = [first.get(name, "") for name in ("delay_ms", "terrestrial_ms")]
            parts = [float(one) if re.fullmatch(r"[\d.]+", one) else 0 for one in delays]
            rtt = f" ({2 * sum(parts):g} ms)" if parts[0] else ""
            found.add(orbit.lower().replace("_", " ").replace("+", " + ") + rtt)
        for name, value in first.items():
            found |= {phrase(name, value), value_of(name, value)}
            found.add(f"event {value}" if name == "event" else "")
        if "access" in first:
            found.add(access_in_words(first))
        rates = [first.get(name, "") for name in ("rate", "return_rate")]
        if all(re.fullmatch(r"\d+M", one) for one in rates):
            found.add(f"{rates[0][:-1]}/{rates[1][:-1]} Mbit/s")
        return found | {f"over {one}" for one in found} | {f"with {one}" for one in found}

    def of(self, measure: str) -> list[Configuration]:
        """Return what has a measure."""
        return [one for (of, _), one in self.found.items() if of == measure]

    def called(self, measure: str, tokens: Iterable[str]) -> list[Configuration]:
        """Return what has a measure and all these names."""
        wanted = [*tokens]
        return [one for one in self.of(measure) if one.is_called(wanted)]

    def pairs(
        self, measure: str, place: int, here: str, there: str
    ) -> Iterator[tuple[Configuration, Configuration]]:
        """Yield what differs in one thing that is chosen: 0 the transport, 1 the VPN, 2 the PEP."""
        rests: dict[tuple[Any, ...], list[Configuration]] = {}
        every = self.of(measure)
        for other in every:
            if there in {*other.names[DIMENSIONS[place]], other.key[place]}:
                rests.setdefault(other.but_for(place), []).append(other)
        for one in every:
            if here in one.names[DIMENSIONS[place]]:
                for other in rests.get(one.but_for(place), ()):
                    yield one, other

    def ratio(self, measure: str, one: Configuration, other: Configuration) -> Ratio | None:
        """Return the median of the ratios by seed with its interval; None for too few seeds."""
        here, b = one.values[measure], other.values[measure]
        # Nothing lost by either is no difference.
        found = [a / b[s] if b[s] else 1.0 for s, a in here.items() if b.get(s) or b.get(s) == a]
        return (middle(found), *interval(found)) if len(found) >= LEAST else None


def tokens_of(text: str) -> list[str]:
    """Return the parts of a context, which commas divide unless they are in brackets."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    made: list[str] = []
    for one in filter(None, map(str.strip, found)):
        if re.match(r"(HTTP/|vpn\.)", one) and made:
            made[-1] += f", {one}"
        else:
            made.append(one)
    return made


def fits(told: str, value: float, *, percent: bool = False) -> bool:
    """Return whether a number in a sentence is this value, as far as it has digits.

    Numbers below 1 have two digits that count, and percents one decimal.
    """
    number = float(told.replace("−", "-").replace("+", ""))
    if percent or abs(number) >= 1:
        step = 10.0 ** -len(told.partition(".")[2])
    else:
        step = 10.0 ** (math.floor(math.log10(abs(number))) - 1) if number else 0.01
    return abs(number - value) <= 0.501 * step + 1e-9


class Faults(list[str]):
    """What page 1 says and the data deny, and how many sentences and rows were tried."""

    tried = 0


def ends(span: str) -> tuple[str, str]:
    """Return the two ends of a SPAN, which may be one number."""
    found = re.fullmatch(SPAN, span)
    assert found
    return found[1], found[2] or found[1]


def names_in(text: str) -> list[str]:
    """Return the names of a list: `A, B and C`, `A, B or 3 others`."""
    text = re.sub(r",? (?:and|or) \d+ others?$", "", text)
    return [one for one in re.split(r", (?!vpn\.)| and | or ", text) if one]
