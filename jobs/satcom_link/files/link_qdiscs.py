# SPDX-License-Identifier: GPL-3.0-or-later
"""The interfaces, queueing disciplines and rules of a link, and their counters.

What tc, ip and nft are told; satcom_link.py has a drawing of each direction.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from openbach_jobs import netem, presets
from openbach_jobs.command import change, interface_mtu, run, undo
from openbach_jobs.link_file import Change, State
from openbach_jobs.presets import NONE, Buffer

FRAME_BYTES = 1514
HELD_RATE = "8bit"
"""Rate of tbf in place of 0, which it does not know: a packet takes 25 minutes."""
CODEL_TARGET = 0.05
"""CoDel's target as a share of the RTT: RFC 8289, section 4.2, which has the interval at one RTT
(section 4.3)."""
MOST_QUEUE_BYTES, MOST_QUEUE_PACKETS = 4_000_000_000, 1_000_000
"""Limits of a class of a terminal, where the buffer is in the other unit."""
SEPARATE_LOSS, DELAY = "1:", "2:"
"""Handles of the two netems."""
LEAF, LEAF_LOSS = "1:11", "10:"
"""htb's class, and the handle of the netem with the losses where both are before the rate."""
HTB_BURST = "1000b"
"""htb's burst in OpenBACH's job tc_configure_link."""
HOLD, UNHELD_RATE = "3:", "1gbit"
"""Handle of a tbf that holds packets in an outage, where htb is the rate; its rate at other
times."""
GRO_NS = 50_000
"""Time for which a network card that interrupts 20 000 times a second collects packets."""
TABLE = "table inet satcom_link"
NO_TOO_BIG = (
    "icmp type destination-unreachable icmp code frag-needed drop",
    "icmpv6 type packet-too-big drop",
)
NO_FRAGMENTS = ("ip frag-off & 0x3fff != 0 drop", "meta nfproto ipv6 exthdr frag exists drop")
WOULD_BE_CUT = "ip frag-off & 0x4000 == 0 ip length > {least_mtu} drop"
"""Rule of nft against packets of which a later network would make fragments."""
CLAMPED = "meta nfproto {family} tcp flags & (syn | rst) == syn tcp option maxseg size set {size}"
"""Rule of nft, which lowers a segment size and never raises one."""
HEADERS_BYTES = {"ipv4": 40, "ipv6": 60}
"""Bytes of the headers of IP and TCP, by the family."""
ETHERNET_MTU = 1500
SO_ATTACH_FILTER = 26
ETH_P_IP = 0x0800
SOL_PACKET, PACKET_STATISTICS = 263, 6
"""linux/if_packet.h"""
MORE_OR_OFFSET = 0x3FFF
"""Bits of an IPv4 header's bytes 7 and 8: the flag that more fragments follow, and the offset."""
FRAGMENTS = [(0x28, 0, 0, 6), (0x45, 0, 1, MORE_OR_OFFSET), (0x06, 0, 0, 1), (0x06, 0, 0, 0)]
"""Packet filter that takes one byte of each fragment."""


class Direction(NamedTuple):
    """A direction of the link.

    Packets come in on `arrives`, wait in `queue` (an ifb) and leave by `leaves`.
    """

    name: str
    arrives: str
    leaves: str
    rate_bps: float
    """Rate by which the buffer is measured."""
    rtt_ms: float
    loss_pct: float
    """Losses of the separate netem; those of a link file come on top."""
    seed: int | None

    @property
    def queue(self) -> str:
        """Return the name of the interface whose queue is before the bottleneck."""
        return f"q_{self.name}"

    def seed_of(self, step: int) -> int | None:
        """Return the seed of a netem's change number `step`.

        Each change needs a seed of its own: with the old one netem would begin the same losses
        again, and without one the kernel draws one by chance.
        """
        return None if self.seed is None else netem.mixed(netem.mixed(self.seed) + step)


Both = tuple[Direction, Direction]


def place_of(direction: Direction, queue: str) -> tuple[str, str, str]:
    """Return where the netems are: interface, tc's words for its place, handle of the losses."""
    if queue in presets.BEFORE_RATE:
        return direction.queue, f"parent {LEAF}", LEAF_LOSS
    return direction.leaves, "root", SEPARATE_LOSS


def buffer_bytes(direction: Direction, buffer: Buffer) -> int:
    """Return the bottleneck's buffer in bytes: at least two full packets.

    A buffer of packets counts as if all were full.
    """
    unit_bytes = {
        "bytes": 1.0,
        "packets": FRAME_BYTES,
        "BDP": direction.rate_bps * direction.rtt_ms / 8000,
    }[buffer.unit]
    return max(round(buffer.size * unit_bytes), presets.LEAST_BUFFER_BYTES)


def packets_of(direction: Direction, buffer: Buffer) -> int:
    """Return the bottleneck's buffer in full packets."""
    return -(-buffer_bytes(direction, buffer) // FRAME_BYTES)


def queue_options(kind: str, buffer: Buffer, limit_bytes: int, rtt_ms: float) -> str:
    """Return the options of the queue before the bottleneck.

    They are its limit, and what it has to know of the path (an RTT below 100 ms counts as that, as
    in the queues' own defaults). FIFO and CoDel count the packets of a buffer in packets, of any
    size; FQ-CoDel counts packets and bytes, CAKE bytes.
    """
    packets = -(-limit_bytes // FRAME_BYTES)
    interval_ms = max(rtt_ms, 100.0)
    codel = f"target {CODEL_TARGET * interval_ms:.3f}ms interval {interval_ms:.3f}ms noecn"
    return {
        "fifo": (
            f"pfifo limit {packets}" if buffer.unit == "packets" else f"bfifo limit {limit_bytes}"
        ),
        "codel": f"codel limit {packets} {codel}",
        "fq_codel": f"fq_codel limit {packets} memory_limit {limit_bytes} {codel}",
        "cake": f"cake unlimited memlimit {limit_bytes} rtt {interval_ms:.0f}ms",
    }[kind]


def rate_line(direction: Direction, state: State, limit_bytes: int) -> str:
    """Return tc's line for a direction's rate."""
    rate = f"{round(state.rate_bps)}bit" if state.rate_bps else HELD_RATE
    return (
        f"dev {direction.queue} root handle 1: tbf rate {rate} burst {netem.bucket_bytes()} limit"
        f" {limit_bytes}"
    )


def rate_lines(
    direction: Direction, arguments: argparse.Namespace, state: State, verb: str
) -> list[str]:
    """Return the lines of a tc batch for a direction's rate; `verb` is add or change.

    htb cannot hold packets: what it has let through at a rate near 0 it remembers for a minute. An
    outage is behind it then.
    """
    if arguments.queue not in presets.BEFORE_RATE:
        limit = buffer_bytes(direction, arguments.buffer)
        return [f"qdisc {verb} {rate_line(direction, state, limit)}"]
    of_class = f"dev {direction.queue} parent 1: classid {LEAF} htb"
    rate = [f"class {verb} {of_class} rate {round(state.rate_bps)}bit burst {HTB_BURST}"]
    held = HELD_RATE if not state.rate_bps else UNHELD_RATE
    hold = [
        f"qdisc {verb} dev {direction.leaves} root handle {HOLD} tbf rate {held} burst"
        f" {netem.bucket_bytes()} limit {MOST_QUEUE_BYTES}"
    ]
    return rate * bool(state.rate_bps) + hold * varies(arguments)


def delay_line(direction: Direction, arguments: argparse.Namespace, state: State, step: int) -> str:
    """Return tc's line for a direction's delay, with the seed of this step."""
    interface, place, loss_handle = place_of(direction, arguments.queue)
    place = f"parent {loss_handle}1" if direction.loss_pct else place
    is_queue = arguments.queue in presets.BEFORE_RATE
    limit = packets_of(direction, arguments.buffer) if is_queue else netem.LIMIT_PACKETS
    options = netem.delay_options(state.delay_ms, arguments.jitter_ms)
    options += netem.loss_model(state.loss_pct, 1)
    order = netem.IN_ORDER if arguments.reorder == "no" and varies(arguments) else ""
    seed = netem.seed_option(direction.seed_of(step))
    return f"dev {interface} {place} handle {DELAY} netem limit {limit}{options}{order}{seed}"


def varies(arguments: argparse.Namespace) -> bool:
    """Return whether the link changes with time."""
    return bool(
        arguments.constellation
        or arguments.reconfigurations
        or arguments.jitter_ms
        or arguments.link_file != NONE
    )


def bursts_of(direction: Direction, arguments: argparse.Namespace) -> float | None:
    """Return the mean duration of this direction's bursts in ms, if they have one."""
    mean_ms: float | None = arguments.burst_ms
    return mean_ms if 0 < direction.loss_pct < 100 else None


def loss_line(direction: Direction, arguments: argparse.Namespace) -> str:
    """Return the line of a tc batch with a direction's losses at the beginning.

    Bursts that last for a time are played later, so they are not in it.
    """
    in_packets = netem.loss_model(direction.loss_pct, arguments.burst_packets)
    loss = "" if bursts_of(direction, arguments) else in_packets
    return loss_line_of(direction, arguments.queue, loss)


def loss_line_of(direction: Direction, queue: str, loss: str) -> str:
    """Return tc's line for a direction's loss, where that is a queueing discipline of its own."""
    seed = netem.seed_option(direction.seed_of(0))
    interface, place, handle = place_of(direction, queue)
    return f"dev {interface} {place} handle {handle} netem limit {netem.LIMIT_PACKETS}{loss}{seed}"


def apply(both: Both, arguments: argparse.Namespace, states: dict[str, State]) -> None:
    """Set up the link's interfaces and queueing disciplines in both directions."""
    queues = [direction.queue for direction in both]
    added = [(f"link add {name} type ifb", f"link set {name} up") for name in queues]
    change("ip", lines=[*chain.from_iterable(added)])
    lines = []
    for direction in both:
        arrives, state = direction.arrives, states[direction.name]
        lines += [
            f"qdisc add dev {arrives} clsact",
            f"filter add dev {arrives} ingress matchall action mirred egress redirect dev"
            f" {direction.queue}",
            *queue_lines(direction, arguments, state),
        ]
        if direction.loss_pct:
            lines.append(f"qdisc replace {loss_line(direction, arguments)}")
        lines.append(f"qdisc replace {delay_line(direction, arguments, state, step=1)}")
        if arguments.queue == presets.NETEM_GRO:
            collect_packets(arrives, GRO_NS)
    change("tc", lines=lines)


def queue_lines(direction: Direction, arguments: argparse.Namespace, state: State) -> list[str]:
    """Return the lines of a tc batch for a direction's rate and the queue before it."""
    rate = rate_lines(direction, arguments, state, "add")
    if arguments.queue in presets.BEFORE_RATE:
        return [f"qdisc add dev {direction.queue} root handle 1: htb default 11", *rate]
    limit_bytes = buffer_bytes(direction, arguments.buffer)
    options = queue_options(arguments.queue, arguments.buffer, limit_bytes, direction.rtt_ms)
    return [*rate, f"qdisc add dev {direction.queue} parent 1:1 handle 10: {options}"]


def collect_packets(interface: str, time_ns: int) -> None:
    """Let an interface put together what comes of a TCP connection in that time; 0 ends it.

    veth's own GRO sees one packet at a time: unlike a network card's driver it waits for no others.
    """
    change("ethtool", "-K", interface, "gro", "on" if time_ns else "off")
    for name, value in (("napi_defer_hard_irqs", int(time_ns > 0)), ("gro_flush_timeout", time_ns)):
        change("tee", f"/sys/class/net/{interface}/{name}", text=str(value))


def filter_path(rules: Sequence[str]) -> None:
    """Let nft do to packets what the path does beyond carrying them."""
    if rules:
        path = ["chain path {", "type filter hook forward priority filter", *rules, "}"]
        change("nft", "-f", "-", text="\n".join([TABLE + " {", *path, "}", ""]))


def least_mtu(both: Both, arguments: argparse.Namespace) -> int:
    """Return the smallest MTU of the path in bytes: of this host's interfaces, or as told."""
    own = [interface_mtu(direction.arrives) for direction in both]
    # Of inventory/1500 the number counts.
    numbers = [re.search(r"\d+", network) for network in arguments.path_mtus.split(",")]
    return min([*own, *(int(number[0]) for number in numbers if number)])


def forwarding_rules(arguments: argparse.Namespace, least_mtu: int) -> list[str]:
    """Return nft's rules for what the path does to packets, beyond carrying them."""
    rules = list(NO_TOO_BIG) if arguments.icmp_too_big == "drop" else []
    if arguments.fragments == "drop":
        rules += [*NO_FRAGMENTS, WOULD_BE_CUT.format(least_mtu=least_mtu)]
    if arguments.mss_clamp == "terminal" and least_mtu < ETHERNET_MTU:
        for family, headers in HEADERS_BYTES.items():
            rules.append(CLAMPED.format(family=family, size=least_mtu - headers))
    return rules


def clear(both: Both, arguments: argparse.Namespace) -> None:
    """Remove the link, as far as it has been set up."""
    if arguments.rules:
        undo("nft", "delete", *TABLE.split())
    lines = []
    for direction in both:
        lines += [f"qdisc del dev {direction.leaves} root"]
        lines += [f"qdisc del dev {direction.arrives} clsact"]
    undo("tc", lines=lines)
    undo("ip", lines=[f"link del {direction.queue}" for direction in both])
    if arguments.queue == presets.NETEM_GRO:
        for direction in both:
            collect_packets(direction.arrives, 0)


def queue_limits(direction: Direction, buffer: Buffer) -> dict[str, int]:
    """Return the limits of the queue of a class of a terminal."""
    in_packets = buffer.unit == "packets"
    return {
        "queue_bytes": MOST_QUEUE_BYTES if in_packets else buffer_bytes(direction, buffer),
        "queue_packets": int(buffer.size) if in_packets else MOST_QUEUE_PACKETS,
    }


def state_lines(
    both: Both, arguments: argparse.Namespace, states: dict[str, State]
) -> Iterator[str]:
    """Yield tc's lines for rate and delay of both directions."""
    for direction in both:
        state = states[direction.name]
        yield from rate_lines(direction, arguments, state, "change")
        yield f"qdisc change {delay_line(direction, arguments, state, step=1)}"


class Burst(NamedTuple):
    """A change of a direction at `time_s`: from then on it loses every packet, or none."""

    time_s: float
    direction: str
    is_bad: bool


class BurstTimes:
    """The number and durations of a direction's bursts that have ended."""

    def __init__(self) -> None:
        """Begin with no burst."""
        self.count = 0
        self.total_s = 0.0
        self._since_s: float | None = None

    def take(self, burst: Burst) -> None:
        """Count a burst that begins or ends."""
        if burst.is_bad:
            self._since_s = burst.time_s
        elif self._since_s is not None:
            self.count += 1
            self.total_s += burst.time_s - self._since_s


class Player:
    """The one that carries out the changes of the link as they are due."""

    def __init__(self, both: Both, arguments: argparse.Namespace, states: dict[str, State]) -> None:
        """Change nothing yet; `states` are those that the link has now."""
        self._both = {direction.name: direction for direction in both}
        self._arguments = arguments
        self.states = states
        lasting = [direction for direction in both if bursts_of(direction, arguments)]
        self.bursts = {direction.name: BurstTimes() for direction in lasting}
        self._step = 2

    def change(self, change: Change | Burst) -> None:
        """Carry out one change. Ends the job if tc fails."""
        direction = self._both[change.direction]
        if isinstance(change, Burst):
            self.bursts[direction.name].take(change)
            loss = netem.loss_model(100 if change.is_bad else 0, 1)
            line = loss_line_of(direction, self._arguments.queue, loss)
            run("tc", lines=[f"qdisc change {line}"])
            return
        old, new = self.states[direction.name], change.state
        lines = []
        if new.rate_bps != old.rate_bps:
            lines += rate_lines(direction, self._arguments, new, "change")
        if (new.delay_ms, new.loss_pct) != (old.delay_ms, old.loss_pct):
            lines.append(f"qdisc change {delay_line(direction, self._arguments, new, self._step)}")
            self._step += 1
        self.states[direction.name] = new
        if lines:
            run("tc", lines=lines)


class Counters(NamedTuple):
    """The counters of one direction, since its qdiscs were made."""

    sent_packets: int
    sent_bytes: int
    lost_packets: int
    dropped_packets: int
    queue_packets: int | None
    """Packets that wait; None where those under way are in the same queue."""
    queue_bytes: int | None


Qdiscs = dict[tuple[str, str], dict[str, Any]]
"""Queueing disciplines as `tc -s -j` shows them, by interface and handle."""


def counters(both: Both) -> dict[str, Counters]:
    """Return the counters by direction. Ends the job if a qdisc is no longer there."""
    qdiscs: Qdiscs = {}
    for qdisc in json.loads(run("tc", "-s", "-j", "qdisc", "show")):
        qdiscs[qdisc["dev"], qdisc["handle"]] = qdisc
    return {direction.name: counters_of(direction, qdiscs) for direction in both}


def counters_of(direction: Direction, qdiscs: Qdiscs) -> Counters:
    """Return the counters of one direction. Ends the job if a qdisc is no longer there."""
    kind = qdiscs.get((direction.queue, "1:"), {}).get("kind")
    if kind == "htb":
        return counters_before_rate(direction, qdiscs)
    keys = [(direction.leaves, DELAY), (direction.queue, "1:"), (direction.queue, "10:")]
    # The queue of a link that has to be asked for, or of one in frames, is its own.
    if kind in (presets.DAMA, presets.DVBS2):
        del keys[2]
    for interface, handle in keys:
        if (interface, handle) not in qdiscs:
            sys.exit(f"{interface} has no qdisc {handle}: something else on this host removed it")
    delay, queue, waiting = qdiscs[keys[0]], qdiscs[keys[1]], qdiscs[keys[-1]]
    lost = delay["drops"] + qdiscs.get((direction.leaves, SEPARATE_LOSS), {"drops": 0})["drops"]
    passed = delay["packets"], delay["bytes"]
    return Counters(*passed, lost, queue["drops"], waiting["qlen"], waiting["backlog"])


def counters_before_rate(direction: Direction, qdiscs: Qdiscs) -> Counters:
    """Return the counters of a direction whose delay and loss come before its rate.

    The netem with the losses counts what finds no place in the other one, too.
    """
    delay, rate = qdiscs[direction.queue, DELAY], qdiscs[direction.queue, "1:"]
    dropped = delay["drops"]
    lost = qdiscs.get((direction.queue, LEAF_LOSS), {"drops": dropped})["drops"] - dropped
    return Counters(rate["packets"], rate["bytes"], lost, dropped, None, None)


def attach_filter(taker: socket.socket, program: Sequence[tuple[int, int, int, int]]) -> None:
    """Let a packet socket take only packets that a classic BPF program lets through."""
    code = ctypes.create_string_buffer(
        b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    )
    loaded = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    taker.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, loaded)


class FragmentCounter:
    """A counter of the fragments of IPv4 packets that an interface receives, from now on.

    A packet socket takes them and nobody reads it, so that a packet costs no more than a filter of
    three instructions. Fragments that find the socket's buffer full are counted all the same.
    """

    def __init__(self, interface: str) -> None:
        """Begin to count on an interface."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
        attach_filter(self._socket, FRAGMENTS)
        self._socket.bind((interface, ETH_P_IP))

    def count(self) -> int:
        """Return how many fragments have come since the last call."""
        packets, _ = struct.unpack("=II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        return int(packets)
