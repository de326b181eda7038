# SPDX-License-Identifier: GPL-3.0-or-later
"""The qdisc of a return link that has to be asked for: kernel/modules/dama, in virtual time.

tc cannot set what a qdisc takes that it does not know, so the values go through /proc/net/dama.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import syslog
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import collect_agent
from link_proof import ClassCounters, gateways

from openbach_jobs import netem
from openbach_jobs.command import change, figures_are_wrong, run, undo, wait_for
from openbach_jobs.dama import Access, Share

STATE = Path("/proc/thread-self/net/dama")
LATE_S = 1.0
"""Time after which a packet counts as not sent, from when it should have left."""
PORT = 5997
"""UDP port for a PEP's wishes: the job satpep sends the wanted rate in bit/s there."""
WISH = re.compile(rb"[0-9]{1,10}")


class Counters(NamedTuple):
    """The counters of a terminal, or of all simulated ones together."""

    granted_slots: int
    used_slots: int
    used_bytes: int
    header_bytes: int
    padded_bytes: int
    queued_bytes: int
    requests: int
    collisions: int


class Shown(NamedTuple):
    """The counters of a link."""

    strangers: int
    superframes: int
    most_slots: int
    terminals: dict[str, Counters]
    """Counters by the terminal's number; of all simulated ones together, `simulated`."""
    classes: dict[tuple[str, str], ClassCounters]
    """Counters by the terminal's number and the class."""


def shown(text: str) -> Shown:
    """Return the counters in a text of /proc/net/dama."""
    single: dict[str, int] = {}
    terminals: dict[str, Counters] = {}
    classes: dict[tuple[str, str], ClassCounters] = {}
    for line in text.splitlines():
        word, *rest = line.split()
        if word == "terminal":
            terminals[rest[0]] = Counters(*map(int, rest[1:]))
        elif word == "simulated":
            terminals[word] = Counters(*map(int, rest))
        elif word == "class":
            classes[rest[0], rest[1]] = ClassCounters(*map(int, rest[2:]))
        else:
            single[word] = int(rest[0])
    return Shown(
        single["strangers"], single["superframes"], single["most_slots"], terminals, classes
    )


def look() -> Shown:
    """Return the counters of now."""
    return shown(STATE.read_text())


def terminals_beyond(interface: str, routes: str) -> int:
    """Return the number of gateways of routes over the interface, at least 1.

    The routes are those of /proc/net/route.
    """
    return max(len(gateways(interface, routes)), 1)


def with_link_addresses(shares: Mapping[str, Share], interface: str) -> list[tuple[str, Share]]:
    """Return the link-layer addresses of terminals beyond an interface, with their shares.

    Ends the job for an address that no neighbour has.
    """
    if not shares:
        return []
    shown = json.loads(run("ip", "-j", "neighbour", "show", "dev", interface))
    known = {entry["dst"]: entry["lladdr"] for entry in shown if "lladdr" in entry}
    if missing := [address for address in shares if address not in known]:
        sys.exit(f"shares: {missing[0]} is no neighbour on {interface}; there are {sorted(known)}")
    return [(known[address], share) for address, share in shares.items()]


def check_kernel() -> None:
    """End the job where the kernel has no such qdisc."""
    if not STATE.exists():
        sys.exit(
            f"{STATE} is not there: only the virtual engine has a return link that has to be asked"
            " for (access: dama). netem cannot do it; on a real platform use OpenSAND, or give"
            " access=assigned"
        )


def listen(interface: str) -> None:
    """Pass a PEP's wishes on to the terminal beyond an interface, until the job is stopped.

    A wish does not wait for return capacity itself: in the field PEP and terminal are one box, or
    on one LAN.
    """
    if not STATE.exists() or not STATE.read_text():
        collect_agent.send_log(syslog.LOG_INFO, "nothing is asked for on this link")
        stops = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, stops)
        signal.sigwait(stops)
        return
    if (count := terminals_beyond(interface, Path("/proc/thread-self/net/route").read_text())) > 1:
        sys.exit(f"{count} terminals are beyond {interface}: a PEP's wishes are for one")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    place = f"dev {interface} ingress pref 1"
    # A match without an action ends the search: the packet goes on to this host, past the queue.
    chosen = f"protocol ip flower ip_proto udp dst_port {PORT} classid 1:1"
    change("tc", "filter", "add", *place.split(), *chosen.split())
    count = 0
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wishes:
            wishes.bind(("", PORT))
            while True:
                wish, sender = wishes.recvfrom(64)
                if not WISH.fullmatch(wish) or int(wish) > netem.MULTIPLIERS["G"]:
                    sys.exit(f"{sender[0]} wishes {wish!r}: not a rate in bit/s up to 1G")
                STATE.write_text(f"wish 0 {int(wish)}\n")
                count += 1
    finally:
        collect_agent.send_stat(collect_agent.now(), suffix="pep", wishes=count)
        undo("tc", "filter", "del", *place.split())


def tell(line: str) -> None:
    """Write a line to the kernel's file; the command is recorded."""
    change("sh", "-c", f"echo '{line}' > {STATE}")


class Link:
    """The return link of this host: its qdisc is the root of an interface."""

    def __init__(
        self,
        access: Access,
        interface: str,
        delay_ms: float,
        terminals: int,
        queue: Mapping[str, int],
        seed: int | None,
        shares: Sequence[tuple[str, Share]] = (),
    ) -> None:
        self.access = access
        self._interface = interface
        self._delay_ms = delay_ms
        self._terminals = terminals
        self._queue = queue
        self._shares = shares
        self._phase_s = 0.0 if seed is None else access.phase_s(seed)
        self._seed = int.from_bytes(os.urandom(8)) if seed is None else netem.mixed(seed)
        if access["cra"] * (terminals + access["simulated"]) > access.capacity_bps:
            sys.exit(
                f"dama.cra of {terminals} terminals and {access['simulated']} simulated ones is"
                f" more than the {access.capacity_bps:.0f} bit/s of all bursts"
            )

    def attach(self) -> None:
        """Take the place of the interface's qdisc."""
        change("tc", "qdisc", "del", "dev", self._interface, "root")
        change("tc", "qdisc", "add", "dev", self._interface, "root", "handle", "1:", "dama")
        self._begin(0)

    def _begin(self, simulated: int) -> None:
        line = self.access.line(self._delay_ms, self._terminals, self._queue, self._seed, simulated)
        tell(line)

    def prove(self, send: Callable[[], int]) -> tuple[float, float]:
        """Return the access delay of a packet, and the longest that it may be, in ms.

        `send` sends the packet and returns its length without the link layer's header. Ends the
        job if the packet waits for longer. Then the link begins anew, with its simulated terminals.
        """
        length = send()
        longest_s = self.access.longest_wait_s(self._delay_ms, length)

        def out() -> ClassCounters | None:
            counters = look().classes.get(("0", "BE"))
            return counters if counters and counters.packets_out else None

        counters = wait_for("a packet is not sent by the return link", out, longest_s + LATE_S)
        measured_ms, longest_ms = counters.p95_us / 1000, longest_s * 1000
        if measured_ms > longest_ms * 1.03:
            sys.exit(
                f"the return link sends a packet after {measured_ms:g} ms, and should after"
                f" {longest_ms:g} at most"
            )
        # In the field a transfer begins at any time of the cycle of requests. Here what comes next
        # begins at times of its own, so the cycle begins at one that follows from the seed.
        if self._phase_s:
            time.sleep(self._phase_s)
        self._begin(self.access["simulated"])
        for number, (address, share) in enumerate(self._shares):
            tell(share.line(number, address))
        return measured_ms, longest_ms

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Return what has been done, by suffix: `return` for all, and each terminal and class."""
        state = look()
        if state.strangers:
            figures_are_wrong(
                f"{state.strangers} packets came from more than {self._terminals} terminals: each"
                " has to be a gateway of a route of this host"
            )
        statistics: dict[str, dict[str, Any]] = {}
        for name, terminal in state.terminals.items():
            granted = terminal.granted_slots * self.access.burst_bytes
            statistics[_suffix(name)] = {
                "granted_bytes": granted,
                "used_bytes": terminal.used_bytes,
                "header_bytes": terminal.header_bytes,
                "padded_bytes": terminal.padded_bytes,
                "unused_bytes": granted - terminal.used_slots * self.access.burst_bytes,
                "requests": terminal.requests,
                "collisions": terminal.collisions,
            }
        for (name, kind), counted in state.classes.items():
            counted.check("return link", f"{_suffix(name)}_{kind}")
            if not counted.packets_out:
                continue
            statistics[f"{_suffix(name)}_{kind}"] = {
                "used_bytes": counted.bytes_out,
                "class_packets": counted.packets_out,
                "class_dropped": counted.packets_dropped,
                "access_delay_ms": counted.median_us / 1000,
                "access_delay_p95_ms": counted.p95_us / 1000,
            }
        return statistics


def _suffix(name: str) -> str:
    return name if name == "simulated" else f"terminal_{name}"
