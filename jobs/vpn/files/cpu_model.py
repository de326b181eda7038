# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's CPU in virtual time, where a cipher costs nothing.

What goes into the host's tunnels and what comes out of them passes the interface `cpu`, whose queue
(kernel/modules/cpu_model) lets a packet go on when the CPU has had time for it. All tunnels of a
host share it. docs/method/cpu.md says what the model is.

    vpn0 ──► egress, ingress ──► cpu ──► the same way on

A profile is `cpus/NAME.json`: nanoseconds of CPU for each packet and for each byte of it, by VPN
and direction.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from openbach_jobs.command import change, undo
from openbach_jobs.data import data_folder

FOLDER = data_folder("cpus")
STATE = Path("/proc/net/cpu_model")
LOCK = Path("/var/run/cpu_model.lock")
"""Two tunnels of one host may begin at the same time."""
INTERFACE = "cpu"
DIRECTIONS = ("encrypt", "decrypt")
MOST_NS_PER_PACKET, MOST_NS_PER_BYTE = 1e8, 1e5
MOST_NS = 2**32 - 1
LIMIT_PACKETS, MOST_PACKETS = 1000, 10_000
ACK_BYTES = 52
"""Bytes of an acknowledgement of the users who are only costs: IP, TCP with timestamps."""


class Time(NamedTuple):
    """The CPU time that a packet of one direction costs."""

    ns_per_packet: float
    ns_per_byte: float

    def of_ns(self, packet_bytes: float) -> float:
        """Return the CPU time of a packet of that size, in ns."""
        return self.ns_per_packet + self.ns_per_byte * packet_bytes


class Costs(NamedTuple):
    """The CPU time of a VPN's packets, and how many wait for the CPU before others are dropped."""

    encrypt: Time
    decrypt: Time
    queue_packets: int


def find(name: str, kind: str, scale: float, folder: Path = FOLDER) -> Costs:
    """Return the costs of a VPN's packets on the CPU of a profile, `scale` times as slow.

    Raises ValueError that names the file and what is wrong with it.
    """
    try:
        return _costs(name, kind, scale, folder)
    except RecursionError:
        raise ValueError(f"{folder / name}.json: nested too deeply") from None


def _costs(name: str, kind: str, scale: float, folder: Path) -> Costs:
    file = folder / f"{name}.json"
    if not file.exists():
        profiles = ", ".join(sorted(file.stem for file in folder.glob("*.json"))) or "none"
        raise ValueError(f"there is no profile {name} of a CPU; there are {profiles}")
    try:
        profile = json.loads(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    if not isinstance(profile, dict) or not isinstance(profile.get("vpns"), dict):
        raise ValueError(f"{file}: should be a JSON object with vpns, an object of VPNs by name")
    if kind not in profile["vpns"]:
        raise ValueError(
            f"{file}: says nothing of {kind}; it has {', '.join(sorted(profile['vpns']))}"
        )
    queue = profile.get("queue_packets", LIMIT_PACKETS)
    if isinstance(queue, bool) or not isinstance(queue, int) or not 1 <= queue <= MOST_PACKETS:
        raise ValueError(
            f"{file}: queue_packets is {queue!r}: a whole number from 1 to {MOST_PACKETS}"
        )
    encrypt, decrypt = (
        _time(f"{file}: vpns.{kind}.{name}", profile["vpns"][kind], name, scale)
        for name in DIRECTIONS
    )
    return Costs(encrypt, decrypt, queue)


def _time(at: str, vpn: Any, direction: str, scale: float) -> Time:
    values = vpn.get(direction) if isinstance(vpn, dict) else None
    if not isinstance(values, dict):
        raise ValueError(f"{at}: should be an object with ns_per_packet and ns_per_byte")
    times_ns = []
    for name, most in (("ns_per_packet", MOST_NS_PER_PACKET), ("ns_per_byte", MOST_NS_PER_BYTE)):
        value = values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise ValueError(f"{at}.{name} is {value!r}: a number from 0 to {most:g}")
        times_ns.append(value * scale)
    scaled = Time(*times_ns)
    if scaled.ns_per_packet > MOST_NS or scaled.ns_per_byte * 1000 > MOST_NS:
        raise ValueError(f"{at}: {scale:g} times that is more than 4 s a packet, or 4 ms a byte")
    return scaled


class Others(NamedTuple):
    """Users who are no packets here, only costs.

    To each of them packets of that length are sent at that rate, and each of them acknowledges
    every second one. A packet that finds the CPU's queue full halves the rate of one of them; it
    grows again by a packet in each round trip.
    """

    number: int
    rate_bps: float
    packet_bytes: int
    rtt_ms: float

    def mean_ns(self) -> float:
        """Return the mean time from one packet to the next, of all of them, in ns."""
        return self.packet_bytes * 8e9 / (self.number * self.rate_bps)


class Tunnel:
    """The packets of a tunnel's device, from `attach` to `detach`, and this host's CPU.

    `named` is how the CPU is called.
    """

    def __init__(self, device: str, costs: Costs, named: str, others: Others) -> None:
        """Keep what the tunnel's packets cost; nothing is set up yet."""
        self._device = device
        self._costs = costs
        self._named = named
        self._others = others
        self._looked_ns = self._busy_ns = 0

    def attach(self) -> None:
        """End the job if another tunnel of this host has said that its CPU is another one."""
        if not STATE.exists():
            sys.exit(
                f"{STATE} is not there: only the virtual engine has a CPU model; elsewhere give"
                " cpu=free"
            )
        with _locked():
            self._find_cpu()
            line = f"tunnel {self._device}"
            for cost in (self._costs.encrypt, self._costs.decrypt):
                line += f" {cost.ns_per_packet:.0f} {cost.ns_per_byte * 1000:.0f}"
            tell(line)
            redirect = f"matchall action mirred egress redirect dev {INTERFACE}"
            sides = [
                f"filter add dev {self._device} {side} {redirect}" for side in ("egress", "ingress")
            ]
            change("tc", lines=[f"qdisc add dev {self._device} clsact", *sides])
        if self._others.number:
            seed = int(os.environ.get("OPENBACH_RUN_SEED", "0"))
            of_all = (
                f"{self._others.number} {self._others.mean_ns():.0f} {self._others.packet_bytes}"
                f" {ACK_BYTES}"
            )
            tell(f"others {self._device} {of_all} {self._others.rtt_ms * 1e6:.0f} {seed}")
        self._looked_ns, self._busy_ns = time.monotonic_ns(), shown(self._device)["busy_ns"]

    def _find_cpu(self) -> None:
        alias = Path(f"/sys/class/net/{INTERFACE}/ifalias")
        if not alias.exists():
            named = f"link set {INTERFACE} up alias '{self._named}'"
            change("ip", lines=[f"link add {INTERFACE} type ifb", named])
            change("tc", "qdisc", "add", "dev", INTERFACE, "root", "cpu")
            tell(f"limit {self._costs.queue_packets}")
        elif (before := alias.read_text().strip()) != self._named:
            sys.exit(
                f"this host's CPU is {before} for another tunnel, and {self._named} for"
                f" {self._device}: it has one"
            )

    def look(self) -> dict[str, float]:
        """Return statistics of the host's CPU and its work for this tunnel, since the last look."""
        now_ns, counters = time.monotonic_ns(), shown(self._device)
        utilisation = (counters["busy_ns"] - self._busy_ns) / max(now_ns - self._looked_ns, 1)
        self._looked_ns, self._busy_ns = now_ns, counters["busy_ns"]
        return {
            "cpu_busy_s": counters["busy_ns"] / 1e9,
            "cpu_utilisation_pct": min(100 * utilisation, 100.0),
            "cpu_busiest_pct": min(counters["busiest_ns"] / 1e7, 100.0),
            "cpu_longest_ms": counters["longest_ns"] / 1e6,
            "cpu_dropped": counters["dropped"],
            "cpu_others_packets": counters["others"],
            "cpu_others_dropped": counters["others_dropped"],
        }

    def detach(self) -> None:
        """End the tunnel's costs. The last tunnel of the host takes the CPU away."""
        with _locked():
            undo("tc", "qdisc", "del", "dev", self._device, "clsact")
            undo("sh", "-c", f"echo 'remove {self._device}' > {STATE}")
            if not any(line.split()[1] in DIRECTIONS for line in STATE.read_text().splitlines()):
                undo("ip", "link", "del", INTERFACE)


def tell(line: str) -> None:
    """Give the model of the CPU an order."""
    change("sh", "-c", f"echo '{line}' > {STATE}")


@contextmanager
def _locked() -> Iterator[None]:
    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def shown(device: str) -> dict[str, int]:
    """Return the counters of this host's CPU, and those of the device's packets.

    Both directions are together.
    """
    sums = ("packets", "bytes", "dropped", "others", "others_dropped")
    counters = dict.fromkeys((*sums, "longest_ns"), 0)
    for line in STATE.read_text().splitlines():
        name, *rest = line.split()
        if name in ("busy_ns", "busiest_ns"):
            counters[name] = int(rest[0])
        elif name == device:
            packets, length, dropped, longest_ns, *others = map(int, rest[1:])
            for key, number in zip(sums, (packets, length, dropped, *others), strict=True):
                counters[key] += number
            counters["longest_ns"] = max(counters["longest_ns"], longest_ns)
    return counters
