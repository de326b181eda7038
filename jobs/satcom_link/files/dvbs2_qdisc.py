# SPDX-License-Identifier: GPL-3.0-or-later
"""The qdisc of a forward link in frames: kernel/modules/dvbs2, in virtual time.

tc cannot set what a qdisc takes that it does not know, so the values go through /proc/net/dvbs2.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from link_proof import ClassCounters, gateways

from openbach_jobs.command import change, figures_are_wrong, wait_for
from openbach_jobs.dvbs2 import MODCODS, RECEIVES, SENDS, SILENT, Change, Forward, Rows

STATE = Path("/proc/thread-self/net/dvbs2")
LATE_S = 1.0
"""Time after which a packet counts as not sent, from when it should have left."""
WRITE_BYTES = 4000
"""Bytes that are written at once: the kernel takes a page."""
TOLERANCE = 0.03
"""Share by which a measured delay may be off: the kernel counts delays within 2 %."""


class ModcodCounters(NamedTuple):
    """The counters of a MODCOD."""

    frames: int
    lost_frames: int
    used_bytes: int
    header_bytes: int
    padded_bytes: int


class TerminalCounters(NamedTuple):
    """The counters of a terminal."""

    modcod: int
    frames: int
    lost_frames: int
    used_bytes: int
    header_bytes: int
    queued_bytes: int


class Shown(NamedTuple):
    """The counters of a link."""

    strangers: int
    modcods: dict[str, ModcodCounters]
    """Counters by the MODCOD's name in columns, of those that were sent."""
    terminals: dict[str, TerminalCounters]
    """Counters by the terminal's number."""
    classes: dict[tuple[str, str], ClassCounters]
    """Counters by the terminal's number and the class."""


def shown(text: str) -> Shown:
    """Return the counters in a text of /proc/net/dvbs2."""
    counters = Shown(0, {}, {}, {})
    for line in text.splitlines():
        word, *rest = line.split()
        if word == "strangers":
            counters = counters._replace(strangers=int(rest[0]))
        elif word == "modcod":
            counters.modcods[MODCODS[int(rest[0])].slug] = ModcodCounters(*map(int, rest[1:]))
        elif word == "terminal":
            counters.terminals[rest[0]] = TerminalCounters(*map(int, rest[1:]))
        elif word == "class":
            counters.classes[rest[0], rest[1]] = ClassCounters(*map(int, rest[2:]))
    return counters


def look() -> Shown:
    """Return the counters of now."""
    return shown(STATE.read_text())


def terminals_beyond(interface: str, routes: str) -> list[str]:
    """Return the gateways of routes over the interface, in the order of their addresses.

    The text is that of /proc/net/route. Without a gateway the list is empty.
    """
    return sorted(gateways(interface, routes), key=socket.inet_aton)


def check_kernel() -> None:
    """End the job where the kernel has no such qdisc."""
    if not STATE.exists():
        sys.exit(
            f"{STATE} is not there: only the virtual engine has a forward link in frames (forward:"
            " dvbs2). netem cannot do it; on a real platform use OpenSAND, or give forward=rate"
        )


def pieces(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines in texts that are short enough to be written at once."""
    text = ""
    for line in lines:
        if len(text) + len(line) >= WRITE_BYTES:
            yield text
            text = ""
        text += f"{line}\n"
    yield text


class Link:
    """The forward link of this host: its qdisc is the root of an interface."""

    def __init__(
        self,
        forward: Forward,
        interface: str,
        delay_ms: float,
        terminals: Sequence[str],
        queue: Mapping[str, int],
        rows: Rows,
    ) -> None:
        """Take the terminals by their addresses. Ends the job for values that none of them has."""
        self.forward = forward
        self._interface = interface
        self._delay_ms = delay_ms
        self._terminals = terminals
        self._queue = queue
        self._rows = rows
        try:
            forward.check_terminals(len(terminals), rows)
        except ValueError as error:
            sys.exit(str(error))

    def attach(self) -> None:
        """Take the place of the interface's qdisc."""
        change("tc", "qdisc", "del", "dev", self._interface, "root")
        change("tc", "qdisc", "add", "dev", self._interface, "root", "handle", "1:", "dvbs2")

    def _begin(self, changes: Sequence[Change]) -> None:
        """Tell the kernel the link; what has happened so far is forgotten."""
        line = self.forward.line(len(self._terminals), self._queue, len(changes))
        addresses = [int.from_bytes(socket.inet_aton(address)) for address in self._terminals]
        lines = [
            f"begin {line}",
            *(
                f"modcod {n} {modcod.frame_bytes} {modcod.frame_symbols}"
                for n, modcod in enumerate(MODCODS)
            ),
            *(f"terminal {number} {address}" for number, address in enumerate(addresses)),
            *(f"change {' '.join(map(str, change))}" for change in changes),
            "go",
        ]
        state = os.open(STATE, os.O_WRONLY)
        try:
            for text in pieces(lines):
                os.write(state, text.encode())
        finally:
            os.close(state)

    def _in_clear_sky(self) -> list[Change]:
        """Return changes at the beginning after which each terminal receives what it is sent."""
        changes = []
        for number in range(len(self._terminals)):
            modcod = self.forward.in_clear_sky(number)
            if modcod:
                sent = MODCODS.index(modcod)
                changes += [Change(0, number, RECEIVES, 1 << sent), Change(0, number, SENDS, sent)]
        return changes

    def prove(self, send: Callable[[], int]) -> tuple[float, float]:
        """Return the delay of a packet by a frame, and what it should be, in ms.

        `send` sends the packet. Ends the job if the two differ. Then the link begins anew, with
        its changes over time.
        """
        self._begin(self._in_clear_sky())
        send()

        def out() -> tuple[str, ClassCounters] | None:
            for (number, _), counters in look().classes.items():
                if counters.packets_out:
                    return number, counters
            return None

        number, counters = wait_for("a packet is not sent by the forward link", out, LATE_S)
        modcod = self.forward.in_clear_sky(int(number))
        assert modcod  # a packet has been sent in it
        measured_ms, right_ms = counters.p95_us / 1000, self.forward.frame_ms(modcod)
        if abs(measured_ms - right_ms) > TOLERANCE * right_ms + 0.001:
            sys.exit(
                f"the forward link sends a packet after {measured_ms:g} ms, and should after"
                f" {right_ms:g}: a frame of {modcod.name}"
            )
        self._begin(self.forward.changes(len(self._terminals), self._delay_ms, self._rows))
        return measured_ms, right_ms

    def now(self) -> dict[str, dict[str, Any]]:
        """Return the queue and the MODCOD of each terminal, by suffix."""
        return {
            f"forward_terminal_{number}": {
                "queue_bytes": terminal.queued_bytes,
                "efficiency": (
                    0.0 if terminal.modcod == SILENT else MODCODS[terminal.modcod].efficiency
                ),
            }
            for number, terminal in look().terminals.items()
        }

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Return what has been done, by suffix: each MODCOD, terminal and class."""
        state = look()
        if state.strangers:
            figures_are_wrong(
                f"{state.strangers} packets of the forward link were for none of"
                f" {', '.join(self._terminals)}: each terminal has to be a gateway of a route of"
                " this host, and only IPv4 is known there"
            )
        statistics: dict[str, dict[str, Any]] = {}
        for name, sent in state.modcods.items():
            symbols = next(modcod.frame_symbols for modcod in MODCODS if modcod.slug == name)
            statistics[f"forward_{name}"] = {
                "frames": sent.frames,
                "lost_frames": sent.lost_frames,
                "air_s": sent.frames * symbols / self.forward["symbols"],
                "used_bytes": sent.used_bytes,
                "header_bytes": sent.header_bytes,
                "padded_bytes": sent.padded_bytes,
            }
        for number, terminal in state.terminals.items():
            own = [kinds for (whose, _), kinds in state.classes.items() if whose == number]
            statistics[f"forward_terminal_{number}"] = {
                "frames": terminal.frames,
                "lost_frames": terminal.lost_frames,
                "used_bytes": terminal.used_bytes,
                "header_bytes": terminal.header_bytes,
                "lost_bytes": sum(kinds.bytes_lost for kinds in own),
            }
        for (number, kind), counted in state.classes.items():
            called = f"forward_terminal_{number}_{kind}"
            counted.check("forward link", called)
            statistics[called] = {
                "class_packets": counted.packets_out,
                "class_dropped": counted.packets_dropped,
                "class_lost": counted.packets_lost,
                "used_bytes": counted.bytes_out,
                "lost_bytes": counted.bytes_lost,
            }
            if counted.packets_out:
                statistics[called] |= {
                    "frame_delay_ms": counted.median_us / 1000,
                    "frame_delay_p95_ms": counted.p95_us / 1000,
                }
        return statistics
