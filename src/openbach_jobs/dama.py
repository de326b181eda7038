# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of a return link whose capacity is assigned on demand (`access: dama`).

They are lines of a satellite's file, and `dama.NAME=VALUE`. docs/method/return-link.md says what
they mean; dama_qdisc.py tells the kernel. The host reads this file, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from openbach_jobs import netem
from openbach_jobs.netem import Value, number_from, one_of

NONE = "none"
SYMBOLS = {True: 536, False: 1616}
"""Symbols of a burst, by whether it is a short one."""
SHORT = {3: 38, 4: 59, 5: 85, 6: 96, 7: 108, 8: 115, 9: 130, 10: 144, 11: 175, 12: 194}
LONG = {13: 123, 14: 188, 15: 264, 16: 298, 17: 333, 18: 355, 19: 400, 20: 444, 21: 539, 22: 599}
WAVEFORMS = {**SHORT, **LONG}
"""Bytes that a burst of a waveform of DVB-RCS2 carries."""
ALGORITHMS = ("opensand", "opensand_8_2", "sns3")
RANDOM_ACCESS = ("dedicated", "aloha", "crdsa")
"""Ways in which a terminal sends its first request. Places in both are the kernel's numbers."""
RING = 511
"""Superframes after which the kernel forgets a request or a grant, less one."""
MOST_TERMINALS = 1024
PHASES = 5
"""Number of phases at which the cycle of requests may begin, by the seed of a run."""
HEADER_BYTES = 4
"""Header of RLE of a packet that is cut, without a label, in bytes."""


def _whole(least: int, most: int, right: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = netem.number(text, least, most, f"{right} from {least} to {most}")
        if value != int(value):
            raise ValueError(f"{text!r} is not {right}: it has to be whole")
        return int(value)

    return read


def _waveform(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or float(text) not in WAVEFORMS:
        raise ValueError(f"{text!r} is none of the waveforms 3 to 22")
    return int(text)


_rate = number_from(0, 1e9, "a rate in bit/s")
_superframes = _whole(1, 100_000, "a number of superframes")

VALUES = {
    "algorithm": Value("opensand", one_of(ALGORITHMS), "how capacity is asked for"),
    "superframe_ms": Value(
        "26.5", number_from(1, 1000, "a duration in ms"), "time between two grants"
    ),
    "request_period_ms": Value(
        "1007", number_from(1, 100_000, "a duration in ms"), "time between a terminal's requests"
    ),
    "request_rtt_ms": Value(
        "609.5",
        number_from(1, 100_000, "a duration in ms"),
        "time until a request is answered, as terminals assume it",
    ),
    "processing_ms": Value(
        "0", number_from(0, 10_000, "a duration in ms"), "of a grant, at the terminal"
    ),
    "rbdc_life": Value("39", _superframes, "superframes that a request for a rate counts"),
    "vbdc_life": Value("39", _superframes, "superframes that a request for a volume counts"),
    "symbols": Value("40M", number_from(1000, 1e9, "a symbol rate"), "symbols/s of all terminals"),
    "waveform": Value("4", _waveform, "of DVB-RCS2, 3 to 22"),
    "label_bytes": Value("0", _whole(0, 8, "a number of bytes"), "in the RLE header of a packet"),
    "check_bytes": Value("0", _whole(0, 4, "a number of bytes"), "behind a packet that was cut"),
    "cra": Value("0", _rate, "bit/s that a terminal has without asking"),
    "rbdc": Value("0", _rate, "bit/s that a terminal may ask for"),
    "vbdc_bytes": Value(
        "0", _whole(0, 10**9, "a number of bytes"), "that a terminal may have asked for at once"
    ),
    "fca": Value("0", _rate, "bit/s, at most, that a terminal gets of slots that are left over"),
    "over_request": Value(
        "1", number_from(1, 10, "a factor"), "by which a request is larger than the need"
    ),
    "random_access": Value("dedicated", one_of(RANDOM_ACCESS), "of a terminal's first request"),
    "ra_frame": Value("3", _whole(1, 1000, "a number of superframes"), "between frames of it"),
    "ra_slots": Value("60", _whole(1, 256, "a number of slots"), "in a frame of it"),
    "ra_replicas": Value("3", _whole(2, 5, "a number of replicas"), "of a request by CRDSA"),
    "ra_backoff": Value("10", _superframes, "superframes, at most, after an answer did not come"),
    "simulated": Value(
        "0", _whole(0, MOST_TERMINALS - 1, "a number of terminals"), "terminals that only ask"
    ),
    "simulated_rate": Value("200k", _rate, "bit/s that one sends while it sends, on average"),
    "simulated_deviation": Value("100k", _rate, "standard deviation of that"),
    "simulated_on_s": Value(
        "10", number_from(0.001, 3600, "a duration in s"), "that one sends, on average"
    ),
    "simulated_off_s": Value(
        "10", number_from(0, 3600, "a duration in s"), "that one is silent, on average; 0: never"
    ),
}
"""The values of the access `dama`, in the order in which they are shown."""
checked = partial(netem.checked_value, VALUES, "dama.")
"""Return a value's text if it is right; takes name and text. Raises ValueError."""
SHARE = {
    **{name: VALUES[name] for name in ("cra", "rbdc", "vbdc_bytes")},
    "weight": Value(
        "1",
        _whole(1, 1000, "a weight"),
        "of its requests for a rate where there is too little, and of free capacity",
    ),
}
"""Values that a terminal may have of its own. Where it has none, those of the link count."""
TOGETHER = {"ra_": ("random_access", "dedicated"), "simulated_": ("simulated", "0")}
"""Beginning of names → the value, and the text of it, with which they have no effect."""


class Share(NamedTuple):
    """Rates, volume and weight of one terminal: what it has and may ask for."""

    cra_bps: int
    rbdc_bps: int
    vbdc_bytes: int
    weight: int

    def line(self, number: int, address: str) -> str:
        """Return the line by which the kernel learns a terminal with this link-layer address."""
        words = " ".join(f"{name}={value}" for name, value in self._asdict().items())
        return f"terminal {number} address={int(address.replace(':', ''), 16)} {words}"


class Access:
    """The values of a link, as numbers by name."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    @property
    def superframe_us(self) -> int:
        """Return the length of a superframe."""
        us: int = round(self["superframe_ms"] * 1000)
        return us

    @property
    def burst_bytes(self) -> int:
        """Return the bytes that a burst carries."""
        return WAVEFORMS[self["waveform"]]

    @property
    def slots(self) -> int:
        """Return the number of bursts of a superframe, of all terminals."""
        symbols = SYMBOLS[self["waveform"] in SHORT]
        return int(self["symbols"] * self.superframe_us / 1e6 / symbols + 1e-9)

    @property
    def capacity_bps(self) -> float:
        """Return the rate of all bursts together."""
        return self.slots * self.burst_bytes * 8e6 / self.superframe_us

    @property
    def most_bps(self) -> float:
        """Return the rate that a terminal has at most, if all others are silent."""
        on_request_bps = self.capacity_bps if self["vbdc_bytes"] else self["cra"] + self["rbdc"]
        return float(min(self.capacity_bps, on_request_bps + self["fca"]))

    def superframes(self, name: str) -> int:
        """Return a duration in superframes, rounded up."""
        return int(max(1, math.ceil(self[name] * 1000 / self.superframe_us - 1e-9)))

    def phase_s(self, seed: int) -> float:
        """Return by how much the cycle of requests begins later, one of PHASES times by the seed.

        With seed 1 it is 0. A step that is no multiple of a superframe changes the phase of the
        superframe, too.
        """
        period_s = self.superframes("request_period_ms") * self.superframe_us / 1e6
        return (seed - 1) % PHASES * period_s / PHASES

    def line(
        self, delay_ms: float, terminals: int, queue: Mapping[str, int], seed: int, simulated: int
    ) -> str:
        """Return the line of the access that the kernel reads."""
        numbers = {
            "superframe_us": self.superframe_us,
            "delay_us": round(delay_ms * 1000),
            "processing_us": round(self["processing_ms"] * 1000),
            "request_period": self.superframes("request_period_ms"),
            "request_rtt": self.superframes("request_rtt_ms"),
            "rbdc_life": self["rbdc_life"],
            "vbdc_life": self["vbdc_life"],
            "slots": self.slots,
            "burst_bytes": self.burst_bytes,
            "label_bytes": self["label_bytes"],
            "check_bytes": self["check_bytes"],
            "algorithm": ALGORITHMS.index(self["algorithm"]),
            "over_request_pct": round(100 * self["over_request"]),
            "cra_bps": round(self["cra"]),
            "rbdc_bps": round(self["rbdc"]),
            "vbdc_bytes": self["vbdc_bytes"],
            "fca_bps": round(self["fca"]),
            **queue,
            "random_access": RANDOM_ACCESS.index(self["random_access"]),
            "ra_frame": self["ra_frame"],
            "ra_slots": self["ra_slots"],
            "ra_replicas": self["ra_replicas"],
            "ra_backoff": self["ra_backoff"],
            "terminals": terminals,
            "simulated": simulated,
            "simulated_bps": round(self["simulated_rate"]),
            "simulated_deviation_bps": round(self["simulated_deviation"]),
            "simulated_on_us": round(self["simulated_on_s"] * 1e6),
            "simulated_off_us": round(self["simulated_off_s"] * 1e6),
            "seed": seed,
        }
        return " ".join(f"{name}={number}" for name, number in numbers.items())

    def shares(self, text: str) -> dict[str, Share]:
        """Return the shares of terminals by their addresses. Raises ValueError."""
        return shares(text, self)

    def longest_wait_s(self, delay_ms: float, length: int) -> float:
        """Return the longest time that a packet waits where nobody else sends anything."""
        cells = self.burst_bytes - HEADER_BYTES - self["label_bytes"] - self["check_bytes"]
        bursts = math.ceil(length / cells)
        constant = self["cra"] + (0 if self["rbdc"] or self["vbdc_bytes"] else self["fca"])
        each = self.burst_bytes * 8e6 / self.superframe_us
        # A slot of a constant rate comes each time that its parts make a whole one.
        every = max(1, math.ceil(each / constant)) if constant else 1
        travels = 2 * (math.ceil(delay_ms * 1000 / self.superframe_us) + 1) + math.ceil(
            self["processing_ms"] * 1000 / self.superframe_us
        )
        superframes = self.superframes("request_period_ms") + travels + (bursts + 2) * every
        return float(superframes * self.superframe_us / 1e6)


def share_text(texts: Mapping[str, Any]) -> str:
    """Return the text of a terminal's share in an inventory: cra=50k;rbdc=1M.

    Raises ValueError with the name of the value, and what would be right.
    """
    for name, value in texts.items():
        if name not in SHARE:
            raise ValueError(f"{name}: a share has {', '.join(SHARE)}")
        try:
            SHARE[name].read(str(value))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return ";".join(f"{name}={value}" for name, value in texts.items())


def shares(text: str, access: Access) -> dict[str, Share]:
    """Return the shares of terminals by their addresses; empty for `none`.

    A text is 10.0.0.2:cra=50k;rbdc=1M/10.0.0.3:weight=2. Raises ValueError, also for constant
    capacity of all that is more than there is.
    """
    by_address: dict[str, Share] = {}
    for part in text.split("/") if text != NONE else ():
        address, colon, values = part.partition(":")
        if not colon or address in by_address:
            raise ValueError(f"shares: {part!r} is not like 10.0.0.2:cra=50k, each address once")
        texts: dict[str, str] = {}
        for pair in filter(None, values.split(";")):
            name, _, texts[name] = pair.partition("=")
        try:
            share_text(texts)
        except ValueError as error:
            raise ValueError(f"shares: {address}: {error}") from None
        by_address[address] = _share(texts, access)
        if (
            access["algorithm"] == "sns3"
            and 0 < by_address[address].rbdc_bps <= by_address[address].cra_bps
        ):
            raise ValueError(
                f"shares: {address}: by sns3 rbdc includes cra, and has to be above it"
            )
        if not any((*by_address[address][:3], access["fca"])):
            raise ValueError(f"shares: {address}: one of cra, rbdc and vbdc_bytes is above 0")
    constant = (
        sum(share.cra_bps for share in by_address.values()) + access["simulated"] * access["cra"]
    )
    if constant > access.capacity_bps:
        raise ValueError(
            f"shares: the cra of {len(by_address)} terminals and {access['simulated']} simulated"
            f" ones is {constant:.0f} bit/s, more than the {access.capacity_bps:.0f} bit/s of all"
            " bursts"
        )
    return by_address


def _share(texts: Mapping[str, str], access: Access) -> Share:
    """Return the numbers of a share; what it does not say is the link's."""
    numbers = []
    for name, value in SHARE.items():
        if name in texts:
            numbers.append(round(value.read(texts[name])))
        else:
            numbers.append(1 if name == "weight" else round(access[name]))
    return Share(*numbers)


split = partial(netem.named_texts, VALUES, "dama", "cra=100k;rbdc=2M")
"""Return the texts of `NAME=VALUE;NAME=VALUE` by name. Raises ValueError."""


def in_force(given: Mapping[str, str], of_satellite: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each of VALUES: the given one, else the satellite's, else the default.

    Raises ValueError, also for a given value that has no effect beside the others.
    """
    texts = netem.texts_in_force(VALUES, given, of_satellite)
    for name in given:
        for beginning, (other, silent) in TOGETHER.items():
            if name.startswith(beginning) and texts[other] == silent:
                raise ValueError(f"dama.{name} has no effect with dama.{other}={silent}")
    if "ra_replicas" in given and texts["random_access"] == "aloha":
        raise ValueError("dama.ra_replicas has no effect with dama.random_access=aloha")
    return texts


def read(texts: Mapping[str, str], delay_ms: float | None) -> Access:
    """Return the values as numbers, checked together. Raises ValueError."""
    access = Access({name: VALUES[name].read(checked(name, text)) for name, text in texts.items()})
    if not any(access[name] for name in ("cra", "rbdc", "vbdc_bytes", "fca")):
        raise ValueError("one of dama.cra, dama.rbdc, dama.vbdc_bytes and dama.fca is above 0")
    if not 1 <= access.slots <= 65535:
        raise ValueError(
            f"dama.symbols={texts['symbols']} makes {access.slots} bursts of a superframe: there"
            " have to be 1 to 65535"
        )
    if access["cra"] * (1 + access["simulated"]) > access.capacity_bps:
        raise ValueError(
            f"dama.cra={texts['cra']} of {1 + access['simulated']} terminals is more than the"
            f" {access.capacity_bps:.0f} bit/s of all bursts"
        )
    if access["algorithm"] == "sns3" and 0 < access["rbdc"] <= access["cra"]:
        raise ValueError(
            f"dama.rbdc={texts['rbdc']}: by sns3 it includes dama.cra={texts['cra']}, and has to"
            " be above it"
        )
    if access["random_access"] == "crdsa" and access["ra_replicas"] > access["ra_slots"]:
        raise ValueError("dama.ra_replicas is above dama.ra_slots")
    longest_ms = max((delay_ms or 0) + access["processing_ms"], access["request_rtt_ms"])
    if longest_ms * 1000 / access.superframe_us >= RING - 1:
        raise ValueError(
            f"{longest_ms:g} ms are too many superframes of {texts['superframe_ms']} ms: below"
            f" {RING - 1}"
        )
    return access
