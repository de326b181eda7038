# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job satcom_link: an emulated satellite link between the two interfaces of this host.

Each direction, in this order:

    arrives ──► ingress ──► ifb: tbf (rate) of a queue (buffer)
            ──► forwarding ──► netem (loss) ──► netem (delay) ──► leaves

The bottleneck and its finite buffer come before the delay, as on a satellite link. Losses that the
link itself has (--loss) are in a netem of their own, because netem forgets where it was in a burst
whenever it is changed. With --queue netem, or netem_gro, it is as OpenBACH's own job
tc_configure_link has it:

    arrives ──► ingress ──► ifb: htb (rate) of netem (loss) of netem (delay, limit) ──► leaves

There what waits for the rate has its delay behind it, and what was lost takes none of the rate.
Before the link counts as up it proves itself: rate, delay and loss are measured with packets of the
job's own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import sys
import syslog
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import collect_agent
import fragments
import link_proof

from openbach_jobs import command, constellation, link_file, netem, presets
from openbach_jobs.command import LINKS, change, interface_mtu, run, undo, wait_for
from openbach_jobs.link_file import Change, State
from openbach_jobs.presets import NONE, PRESET, SAME, Buffer

if TYPE_CHECKING:
    import dama_qdisc
    import dvbs2_qdisc

RUNS_AS_THREAD = True
"""As openbach_run/guest/threads.py has it; an agent starts a process."""
CONFIGURATION = "/opt/openbach/agent/jobs/satcom_link/satcom_link_rstats_filter.conf"
FRAME_BYTES = 1514
HELD_RATE = "8bit"
"""What tbf gets for a rate of 0, which it does not know: a packet takes 25 minutes."""
PLACE = "satellite"
"""Which losses are this link's, of the places that --loss-at can name."""
CODEL_TARGET = 0.05
"""Of the RTT: RFC 8289, section 4.2, which has the interval at one RTT (section 4.3)."""
TABLE = "table inet satcom_link"
NO_TOO_BIG = (
    "icmp type destination-unreachable icmp code frag-needed drop",
    "icmpv6 type packet-too-big drop",
)
NO_FRAGMENTS = ("ip frag-off & 0x3fff != 0 drop", "meta nfproto ipv6 exthdr frag exists drop")
WOULD_BE_CUT = "ip frag-off & 0x4000 == 0 ip length > {least_mtu} drop"
"""Packets of which a later network would make fragments."""
CLAMPED = "meta nfproto {family} tcp flags & (syn | rst) == syn tcp option maxseg size set {size}"
"""Rules for nft, which lowers a segment size and never raises one."""
HEADERS_BYTES = {"ipv4": 40, "ipv6": 60}
"""Of IP and TCP, by the family."""
ETHERNET_MTU = 1500
PATH_MTUS = re.compile(r"(inventory|\d+)(/\d+)?(,(inventory|\d+)(/\d+)?)*")
UP = "measured"
"""Alias of the queues' interfaces when the link has proved itself."""
WAIT_LIMIT_S = 600.0
"""A link of 10 s and 32 kbit/s takes over a minute to measure itself; one that fails ends its own
job before."""
PROOF_BPS = 1e6
"""The rate of a link without one, at least, while its delay and loss are proved."""
MOST_QUEUE_BYTES, MOST_QUEUE_PACKETS = 4_000_000_000, 1_000_000
"""Of a class of a terminal, where the buffer is in the other unit."""
SHARES = re.compile(r"[\d.]+:[\w.;=]*(/[\d.]+:[\w.;=]*)*")
SIGNALS = {signal.SIGTERM, signal.SIGINT}
VALUES = {
    "--rate": "bit/s of the forward direction, e.g. 10M",
    "--return-rate": "bit/s of the return direction; same: as forward",
    "--delay-ms": "one-way delay, of a link without a constellation",
    "--jitter-ms": "standard deviation of the delay",
    "--reorder": "whether jitter may change the order, no or yes",
    "--loss": "percent of the packets of the forward direction",
    "--return-loss": "percent of those of the return direction; same: as forward",
    "--burst-packets": "mean length of a loss; 1: independent",
    "--buffer": "1BDP (rate times mean RTT), 150kB, 9000B or 100p (packets)",
    "--buffer-bdp": "buffer in BDP",
    "--queue": "fifo, codel, fq_codel or cake; netem: loss and delay come before the rate;"
    " netem_gro: and network cards put packets of TCP together",
}
"""Options that a preset has values for."""
SEPARATE_LOSS, DELAY = "1:", "2:"
"""Handles of the two netems."""
LEAF, LEAF_LOSS = "1:11", "10:"
"""htb's class, and the handle of the netem with the losses where both are before the rate."""
HTB_BURST = "1000b"
"""That of tc_configure_link."""
HOLD, UNHELD_RATE = "3:", "1gbit"
"""Of a tbf that holds packets in an outage, where htb is the rate."""
GRO_NS = 50_000
"""For which a network card that interrupts 20 000 times a second collects packets."""


class Direction(NamedTuple):
    """A direction of the link.

    Packets come in on `arrives`, wait in `queue` (an ifb) and leave by `leaves`.
    """

    name: str
    arrives: str
    leaves: str
    rate_bps: float
    """What the buffer is measured by."""
    rtt_ms: float
    loss_pct: float
    """Of the separate netem; what a link file says comes on top."""
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


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments, with the values in force of `presets.DEFAULTS`, and `constellation`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "orbit", help="name of a satellite: geo, leo, … (files in the folder satellites)"
    )
    parser.add_argument("forward_interface", help="towards the satellite terminal")
    parser.add_argument("return_interface", help="towards the gateway")
    for option, text in VALUES.items():
        parser.add_argument(
            option, default=PRESET, metavar="VALUE", help=f"{text} (default: the satellite's)"
        )
    lasting = parser.add_argument_group("bursts of loss that last for a time")
    lasting.add_argument(
        "--burst-ms",
        default=PRESET,
        metavar="VALUE",
        help="mean duration of one; none: by --burst-packets",
    )
    access = parser.add_argument_group("access to the return link")
    access.add_argument(
        "--access",
        default=PRESET,
        metavar="VALUE",
        help="assigned: a rate of its own; dama: capacity that a terminal asks for",
    )
    access.add_argument(
        "--dama-values",
        default=PRESET,
        metavar="VALUES",
        help="of that, in place of the satellite's: cra=100k;rbdc=2M; none: its own",
    )
    frames = parser.add_argument_group("frames of the forward link")
    frames.add_argument(
        "--forward",
        default=PRESET,
        metavar="VALUE",
        help="rate: a rate that all terminals share; dvbs2: frames with a MODCOD for each terminal",
    )
    frames.add_argument(
        "--forward-values",
        default=PRESET,
        metavar="VALUES",
        help="of that, in place of the satellite's: symbols=20M;es_n0_db=14.5/2; none: its own",
    )
    frames.add_argument(
        "--es-n0-file", default=NONE, help="CSV with Es/N0 over time; none: as the values say"
    )
    access.add_argument(
        "--shares",
        default=NONE,
        metavar="SHARES",
        help="of terminals with their own, by address: 10.0.0.2:cra=50k;rbdc=1M/10.0.0.3:weight=2",
    )
    parser.add_argument(
        "--buffer-bytes", default="0", metavar="VALUE", help="buffer in bytes; 0: by the other two"
    )
    parser.add_argument(
        "--loss-at",
        choices=netem.PLACES,
        default=PLACE,
        help=f"where the losses happen; here only for {PLACE}",
    )
    parser.add_argument(
        "--link-file", default=NONE, help="CSV with rate, delay and loss over time; none: by orbit"
    )
    parser.add_argument(
        "--link-start",
        default=link_file.AUTO,
        metavar="S",
        help="where in that file the link begins: seconds, or seed; auto: seed, of more than 60 s",
    )
    parser.add_argument(
        "--icmp-too-big",
        choices=["pass", "drop"],
        default="pass",
        help="messages that a packet is too big for a network",
    )
    path = parser.add_argument_group("what networks beside the link do")  # of a group: as in vpn
    path.add_argument(
        "--fragments",
        choices=["pass", "drop"],
        default="pass",
        help="of IP packets, and packets of which a later network would make some",
    )
    path.add_argument(
        "--mss-clamp",
        choices=["terminal", "none"],
        default="terminal",
        help="TCP's segment size fits networks below 1500 bytes, as a terminal sees to it",
    )
    path.add_argument(
        "--path-mtus",
        default="inventory",
        help="MTUs of the path's other networks: 1492,1500; inventory/1500: what stands second",
    )
    parser.add_argument(
        "--series-s", type=float, default=0.0, help="seconds between looks at the queues; 0: none"
    )
    parser.add_argument(
        "--seed", type=int, default=os.environ.get("OPENBACH_RUN_SEED"), help="of the losses"
    )
    parser.add_argument(
        "mode",
        choices=["run", "wait", "listen"],
        help="wait: ends when the link that another one runs is up; listen: lets a PEP at the"
        " terminal ask for return capacity of that link",
    )
    arguments = parser.parse_args(argv)
    if arguments.series_s and not 0.01 <= arguments.series_s <= 3600:
        parser.error(f"series_s is {arguments.series_s:g}: 0, or from 0.01 to 3600 s")
    if arguments.shares != NONE and not SHARES.fullmatch(arguments.shares):
        parser.error(f"shares: {arguments.shares!r} is not like 10.0.0.2:cra=50k/10.0.0.3:weight=2")
    if not PATH_MTUS.fullmatch(arguments.path_mtus):
        parser.error(f"path_mtus: {arguments.path_mtus!r} is not like 1492,inventory/1500")
    try:
        preset = presets.find(arguments.orbit)
        texts = presets.in_force(vars(arguments), preset)
        for name, text in texts.items():
            leader = presets.FORWARD.get(name, name) if text == SAME else name
            setattr(arguments, name, presets.value(leader, texts[leader]))
        arguments.dama = None
        if arguments.access == presets.DAMA:
            arguments.dama = presets.access_of(texts, preset)
            arguments.own_shares = arguments.dama.shares(arguments.shares)
            arguments.return_rate = arguments.dama.most_bps
        arguments.dvbs2 = None
        if arguments.forward == presets.DVBS2:
            arguments.dvbs2 = presets.forward_of(texts, preset)
            arguments.rate = arguments.dvbs2.most_bps
        if arguments.link_start not in (link_file.AUTO, link_file.BY_SEED):
            start_s = netem.number(arguments.link_start, 0, 1e9, "auto, seed, or a time in s")
            arguments.link_start = repr(start_s)
        if arguments.loss_at != PLACE:
            arguments.loss = arguments.return_loss = 0.0
        arguments.burst_packets = arguments.burst_packets or 1.0
        for loss_pct in (arguments.loss, arguments.return_loss):
            netem.loss_model(loss_pct, arguments.burst_packets)
    except ValueError as error:
        parser.error(str(error))
    arguments.constellation = None if arguments.delay_ms else preset.constellation
    arguments.reconfigurations = preset.reconfigurations
    if arguments.link_file == NONE and preset.link_file:
        arguments.link_file = str(preset.link_file)
    if arguments.queue in presets.BEFORE_RATE and arguments.link_file != NONE:
        parser.error("queue: netem: the losses of a link file could not be told from a full queue")
    return arguments


# What is played


class Burst(NamedTuple):
    """A change of a direction at `time_s`: from then on it loses every packet, or none."""

    time_s: float
    direction: str
    is_bad: bool


def bursts_of(direction: Direction, arguments: argparse.Namespace) -> float | None:
    """Return the mean duration of this direction's bursts in ms, if they have one."""
    mean_ms: float | None = arguments.burst_ms
    return mean_ms if 0 < direction.loss_pct < 100 else None


def with_bursts(
    played: Iterator[Change], both: Both, arguments: argparse.Namespace
) -> Iterator[Change | Burst]:
    """Return the changes, and between them the bursts of both directions that last for a time."""
    lasting = []
    for direction in both:
        if mean_ms := bursts_of(direction, arguments):
            lasting.append((direction, mean_ms))
    if not lasting:
        return played
    import heapq  # not above: other runs need not read it

    played_bursts = [bursts_over_time(one, mean_ms) for one, mean_ms in lasting]
    return heapq.merge(played, *played_bursts, key=lambda one: one.time_s)


def bursts_over_time(direction: Direction, mean_ms: float) -> Iterator[Burst]:
    """Yield the begins and ends of a direction's bursts of loss, drawn from the run's seed."""
    from openbach_jobs import bursts

    seed = int.from_bytes(os.urandom(8)) if direction.seed is None else direction.seed
    for time_s, is_bad in bursts.changes(direction.loss_pct, mean_ms, seed):
        yield Burst(time_s, direction.name, is_bad)


def changes(arguments: argparse.Namespace) -> Iterator[Change]:
    """Return the link's state over time, from 0 s on."""
    if arguments.link_file != NONE:
        read = link_file.read(arguments.link_file, arguments.link_start_s)
        return (
            read if not arguments.delay_ms else (at_delay(one, arguments.delay_ms) for one in read)
        )
    rates_bps = {"forward": arguments.rate, "return": arguments.return_rate}
    # For the proof of delay and loss, before the rate is what is granted, or that of frames.
    for name, has_none in (("forward", arguments.dvbs2), ("return", arguments.dama)):
        if has_none:
            rates_bps[name] = min(max(rates_bps[name], PROOF_BPS), presets.MOST_BPS)
    if arguments.reconfigurations:
        from openbach_jobs import reconfigurations  # not above: other links have no use for it

        seed = int.from_bytes(os.urandom(8)) if arguments.seed is None else arguments.seed
        return reconfigurations.changes(
            arguments.reconfigurations,
            seed,
            rates_bps,
            arguments.constellation or arguments.delay_ms,
        )
    if arguments.constellation:
        played = constellation.changes(arguments.constellation)
        return (at_rate(change, rates_bps[change.direction]) for change in played)
    return (
        Change(0.0, name, State(rate, arguments.delay_ms, 0.0)) for name, rate in rates_bps.items()
    )


def start_of(arguments: argparse.Namespace) -> float:
    """Return the time of the link file at which the link begins, in s. Raises LinkFileError."""
    summary = link_file.check(arguments.link_file)
    if summary.begins_by_seed(arguments.link_start):
        seed = int.from_bytes(os.urandom(8)) if arguments.seed is None else arguments.seed
        return netem.mixed(seed) % max(1, round(summary.duration_s * 1000)) / 1000
    start_s = 0.0 if arguments.link_start == link_file.AUTO else float(arguments.link_start)
    if start_s and start_s >= summary.duration_s:
        text = f"link_start is {start_s:g} s, and the file lasts {summary.duration_s:g} s"
        raise link_file.LinkFileError(arguments.link_file, text)
    return start_s


def at_delay(change: Change, delay_ms: float) -> Change:
    """Return the change with this delay."""
    return change._replace(state=change.state._replace(delay_ms=delay_ms))


def at_rate(change: Change, rate: float) -> Change:
    """Return the change with this rate, unless it is an outage."""
    return (
        change._replace(state=change.state._replace(rate_bps=rate))
        if change.state.rate_bps
        else change
    )


def directions(arguments: argparse.Namespace) -> Both:
    """Return both directions. Buffers follow from the first rate above 0 and the mean RTT."""
    if arguments.link_file != NONE:
        summary = link_file.check(arguments.link_file)
        rates_bps, rtt_ms = (
            (summary.forward.first_rate_bps, summary.back.first_rate_bps),
            summary.mean_rtt_ms if summary.has_delay else 2 * arguments.delay_ms,
        )
    else:
        rates_bps = (arguments.rate, arguments.return_rate)
        orbit = arguments.constellation
        rtt_ms = constellation.mean_rtt_ms(orbit) if orbit else 2 * arguments.delay_ms
        if arguments.reconfigurations:
            rtt_ms += arguments.reconfigurations.mean_rtt_ms
    forward, back = arguments.forward_interface, arguments.return_interface
    seeds = (None, None) if arguments.seed is None else (2 * arguments.seed, 2 * arguments.seed + 1)
    return (
        Direction("forward", back, forward, rates_bps[0], rtt_ms, arguments.loss, seeds[0]),
        Direction("return", forward, back, rates_bps[1], rtt_ms, arguments.return_loss, seeds[1]),
    )


def first(played: Iterator[Change]) -> list[Change]:
    """Return the state of each direction at 0 s."""
    return [next(played), next(played)]


# What tc is told


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
    return max(round(buffer.size * unit_bytes), 2 * FRAME_BYTES)


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
    options = netem.delay_options(state.delay_ms, arguments.jitter_ms) + netem.loss_model(
        state.loss_pct, 1
    )
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
    change(
        "ip",
        lines=[
            line
            for one in both
            for line in (f"link add {one.queue} type ifb", f"link set {one.queue} up")
        ],
    )
    lines = []
    for one in both:
        limit = buffer_bytes(one, arguments.buffer)
        rate = rate_lines(one, arguments, states[one.name], "add")
        if arguments.queue in presets.BEFORE_RATE:
            queue = [f"qdisc add dev {one.queue} root handle 1: htb default 11", *rate]
        else:
            options = queue_options(arguments.queue, arguments.buffer, limit, one.rtt_ms)
            queue = [*rate, f"qdisc add dev {one.queue} parent 1:1 handle 10: {options}"]
        lines += [
            f"qdisc add dev {one.arrives} clsact",
            (
                f"filter add dev {one.arrives} ingress matchall action mirred egress redirect dev"
                f" {one.queue}"
            ),
            *queue,
            *([f"qdisc replace {loss_line(one, arguments)}"] if one.loss_pct else []),
            f"qdisc replace {delay_line(one, arguments, states[one.name], step=1)}",
        ]
        if arguments.queue == presets.NETEM_GRO:
            collect_packets(one.arrives, GRO_NS)
    change("tc", lines=lines)


def collect_packets(interface: str, time_ns: int) -> None:
    """Let an interface put together what comes of a TCP connection in that time; 0 ends it.

    veth's own GRO sees one packet at a time: unlike a network card's driver it waits for no others.
    """
    change("ethtool", "-K", interface, "gro", "on" if time_ns else "off")
    for name, value in (("napi_defer_hard_irqs", int(time_ns > 0)), ("gro_flush_timeout", time_ns)):
        change("tee", f"/sys/class/net/{interface}/{name}", text=str(value))


def filter_path(rules: Sequence[str]) -> None:
    """Let nft do what the path does to packets beyond carrying them."""
    if rules:
        chain = ["type filter hook forward priority filter", *rules]
        change(
            "nft", "-f", "-", text="\n".join([TABLE + " {", "chain path {", *chain, "}", "}", ""])
        )


def least_mtu(both: Both, arguments: argparse.Namespace) -> int:
    """Return the smallest MTU of the path in bytes: of this host's interfaces, or as told."""
    own = [interface_mtu(one.arrives) for one in both]
    told = [re.search(r"\d+", of_network) for of_network in arguments.path_mtus.split(",")]
    return min([*own, *(int(number[0]) for number in told if number)])


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
    """Remove what `apply` made, as far as it is there."""
    if arguments.rules:
        undo("nft", "delete", *TABLE.split())
    lines = [
        line
        for one in both
        for line in (f"qdisc del dev {one.leaves} root", f"qdisc del dev {one.arrives} clsact")
    ]
    undo("tc", lines=lines)
    undo("ip", lines=[f"link del {one.queue}" for one in both])
    if arguments.queue == presets.NETEM_GRO:
        for one in both:
            collect_packets(one.arrives, 0)


def ask_for_the_return_link(direction: Direction, arguments: argparse.Namespace) -> dama_qdisc.Link:
    """Puts a queue that has to ask for capacity in place of the return link's rate, and proves it.

    Ends the job if a packet waits for longer than it should.
    """
    import dama_qdisc

    terminals = dama_qdisc.terminals_beyond(
        direction.arrives, Path("/proc/thread-self/net/route").read_text()
    )
    link = dama_qdisc.Link(
        arguments.dama,
        direction.queue,
        arguments.delay_ms,
        terminals,
        queue_limits(direction, arguments.buffer),
        arguments.seed,
        dama_qdisc.with_link_addresses(arguments.own_shares, direction.arrives),
    )
    link.attach()
    measured_ms, longest_ms = link.prove(partial(link_proof.send_one, direction))
    collect_agent.send_stat(
        collect_agent.now(),
        suffix=direction.name,
        measured_access_ms=measured_ms,
        longest_access_ms=longest_ms,
    )
    return link


def queue_limits(direction: Direction, buffer: Buffer) -> dict[str, int]:
    """Return the limits of the queue of a class of a terminal."""
    in_packets = buffer.unit == "packets"
    return {
        "queue_bytes": MOST_QUEUE_BYTES if in_packets else buffer_bytes(direction, buffer),
        "queue_packets": int(buffer.size) if in_packets else MOST_QUEUE_PACKETS,
    }


def frame_the_forward_link(direction: Direction, arguments: argparse.Namespace) -> dvbs2_qdisc.Link:
    """Put frames in place of the forward link's rate, and prove them. Return the link of them.

    Ends the job if a packet does not wait for as long as it should.
    """
    import dvbs2_qdisc

    from openbach_jobs import dvbs2

    routes = Path("/proc/thread-self/net/route").read_text()
    terminals = dvbs2_qdisc.terminals_beyond(direction.leaves, routes)
    if not terminals:
        sys.exit(
            f"{direction.leaves}: no route over it has a gateway, so there is no terminal for the"
            " frames of the forward link"
        )
    rows = [] if arguments.es_n0_file == NONE else dvbs2.read_series(arguments.es_n0_file)
    link = dvbs2_qdisc.Link(
        arguments.dvbs2,
        direction.queue,
        arguments.delay_ms,
        terminals,
        queue_limits(direction, arguments.buffer),
        rows,
    )
    link.attach()
    measured_ms, asked_ms = link.prove(partial(link_proof.send_one, direction))
    collect_agent.send_stat(
        collect_agent.now(),
        suffix=direction.name,
        measured_frame_ms=measured_ms,
        asked_frame_ms=asked_ms,
    )
    return link


# What comes of it


class Counters(NamedTuple):
    """The counters of one direction, since its qdiscs were made."""

    sent_packets: int
    sent_bytes: int
    lost_packets: int
    dropped_packets: int
    queue_packets: int | None
    """None where those under way are in the same queue."""
    queue_bytes: int | None


def counters(both: Both) -> dict[str, Counters]:
    """Return the counters by direction. Ends the job if a qdisc is no longer there."""
    shown = {
        (one["dev"], one["handle"]): one
        for one in json.loads(run("tc", "-s", "-j", "qdisc", "show"))
    }
    found = {}
    for one in both:
        if shown.get((one.queue, "1:"), {}).get("kind") == "htb":
            found[one.name] = counters_before_rate(one, shown)
            continue
        keys = [(one.leaves, DELAY), (one.queue, "1:"), (one.queue, "10:")]
        # The queue of a link that has to be asked for, or of one in frames, is its own.
        if shown.get(keys[1], {}).get("kind") in (presets.DAMA, presets.DVBS2):
            del keys[2]
        if missing := [key for key in keys if key not in shown]:
            sys.exit(
                f"{missing[0][0]} has no qdisc {missing[0][1]}: something else on this host"
                " removed it"
            )
        delay, queue, waiting = shown[keys[0]], shown[keys[1]], shown[keys[-1]]
        lost = delay["drops"] + shown.get((one.leaves, SEPARATE_LOSS), {"drops": 0})["drops"]
        found[one.name] = Counters(
            delay["packets"],
            delay["bytes"],
            lost,
            queue["drops"],
            waiting["qlen"],
            waiting["backlog"],
        )
    return found


def counters_before_rate(
    direction: Direction, shown: dict[tuple[str, str], dict[str, Any]]
) -> Counters:
    """Return the counters of a direction whose delay and loss come before its rate.

    The netem with the losses counts what finds no place in the other one, too.
    """
    delay, rate = shown[direction.queue, DELAY], shown[direction.queue, "1:"]
    dropped = delay["drops"]
    lost = shown.get((direction.queue, LEAF_LOSS), {"drops": dropped})["drops"] - dropped
    return Counters(rate["packets"], rate["bytes"], lost, dropped, None, None)


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
        self._both = {one.name: one for one in both}
        self._arguments = arguments
        self.states = states
        self.bursts = {one.name: BurstTimes() for one in both if bursts_of(one, arguments)}
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


def play(
    player: Player,
    played: Iterator[Change | Burst],
    both: Both,
    series_s: float,
    framed: dvbs2_qdisc.Link | None = None,
) -> None:
    """Change the link and look at its queues, each when it is due, until a signal comes."""
    start_s = time.monotonic()
    upcoming = next(played, None)
    look_s = series_s or math.inf
    while True:
        due_s = min(upcoming.time_s if upcoming else math.inf, look_s)
        if due_s == math.inf:
            signal.sigwait(SIGNALS)
            return
        if signal.sigtimedwait(SIGNALS, max(start_s + due_s - time.monotonic(), 0)):
            return
        while upcoming and upcoming.time_s <= due_s:
            player.change(upcoming)
            upcoming = next(played, None)
        if look_s <= due_s:
            look(both, player.states)
            for suffix, found in framed.now().items() if framed else ():
                collect_agent.send_stat(collect_agent.now(), suffix=suffix, **found)
            look_s += series_s


def look(both: Both, states: dict[str, State]) -> None:
    """Send how full the queues are.

    A packet that comes now waits for those in the queue, at the rate of now; for ever in an outage.
    """
    now_ms = collect_agent.now()
    for name, seen in counters(both).items():
        rate = states[name].rate_bps
        collect_agent.send_stat(
            now_ms,
            suffix=name,
            queue_bytes=seen.queue_bytes,
            queue_packets=seen.queue_packets,
            queue_delay_ms=(
                seen.queue_bytes * 8000 / rate if rate and seen.queue_bytes is not None else None
            ),
        )


def without_outage(direction: Direction, state: State) -> State:
    """Return the state; of an outage the one without it, as nothing can be measured in one."""
    if state.rate_bps and state.loss_pct < 100:
        return state
    return state._replace(rate_bps=direction.rate_bps, loss_pct=0.0)


def state_lines(
    both: Both, arguments: argparse.Namespace, states: dict[str, State]
) -> Iterator[str]:
    """Yield tc's lines for rate and delay of both directions."""
    for one in both:
        yield from rate_lines(one, arguments, states[one.name], "change")
        yield f"qdisc change {delay_line(one, arguments, states[one.name], step=1)}"


def asked(direction: Direction, arguments: argparse.Namespace, state: State) -> link_proof.Asked:
    """Return the properties that the proof should find in a direction."""
    limit = buffer_bytes(direction, arguments.buffer)
    in_packets = (
        arguments.queue in ("codel", "fq_codel", *presets.BEFORE_RATE)
        or arguments.buffer.unit == "packets"
    )
    own_pct = 0 if bursts_of(direction, arguments) else direction.loss_pct
    kept = (1 - own_pct / 100) * (1 - state.loss_pct / 100)
    return link_proof.Asked(
        state.rate_bps,
        state.delay_ms,
        100 * (1 - kept),
        arguments.jitter_ms,
        arguments.burst_packets,
        limit,
        limit // FRAME_BYTES if in_packets else None,
        netem.bucket_bytes(),
        arguments.queue in presets.BEFORE_RATE,
    )


def counters_of(both: Both, name: str) -> Counters:
    """Return the counters of one direction."""
    return counters(both)[name]


def report(
    both: Both,
    before: dict[str, Counters],
    counted: dict[str, fragments.Counter],
    bursts: dict[str, BurstTimes],
) -> None:
    """Send what has passed, been dropped and lost in each direction since `before`."""
    for name, after in counters(both).items():
        lasting = bursts.get(name)
        in_time: dict[str, Any] = (
            {"bursts": lasting.count, "bursts_s": lasting.total_s} if lasting else {}
        )
        collect_agent.send_stat(
            collect_agent.now(),
            suffix=name,
            sent_packets=after.sent_packets - before[name].sent_packets,
            lost_packets=after.lost_packets - before[name].lost_packets,
            sent_bytes=after.sent_bytes - before[name].sent_bytes,
            dropped_packets=after.dropped_packets - before[name].dropped_packets,
            fragments=counted[name].count(),
            **in_time,
        )


def wait() -> None:
    """Wait until the link of this host is up. Ends the job if it does not come up."""

    def alias(interface: str) -> str:
        try:
            return Path(f"/sys/class/net/{interface}/ifalias").read_text().strip()
        except OSError:
            return ""  # it has gone meanwhile

    def is_up() -> bool:
        return UP in map(alias, os.listdir("/sys/class/net"))

    wait_for("no satellite link is up on this host", is_up, WAIT_LIMIT_S, told_by=LINKS)


def emulate(arguments: argparse.Namespace) -> None:
    """Play the link until the job is stopped."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        both = directions(arguments)
        arguments.link_start_s = start_of(arguments) if arguments.link_file != NONE else 0.0
    except link_file.LinkFileError as error:
        sys.exit(str(error))
    if arguments.dama:
        import dama_qdisc

        dama_qdisc.check_kernel()
    if arguments.dvbs2:
        import dvbs2_qdisc

        dvbs2_qdisc.check_kernel()
    arguments.rules = forwarding_rules(arguments, least_mtu(both, arguments))
    if netem.CLOCK not in os.environ:  # else an engine has looked before the run
        from openbach_jobs import kernel

        own = ["nft"] * bool(arguments.rules) + [kernel.SEED] * (arguments.seed is not None)
        shaper = "htb" if arguments.queue in presets.BEFORE_RATE else "tbf"
        kernel.check([*kernel.LINK, shaper, arguments.queue, *own])
    played = changes(arguments)
    states = {change.direction: change.state for change in first(played)}
    proven = {one.name: without_outage(one, states[one.name]) for one in both}
    try:
        apply(both, arguments, proven)
        for one in both:
            link_proof.prove(
                one, asked(one, arguments, proven[one.name]), partial(counters_of, both, one.name)
            )
        if proven != states:
            change("tc", lines=[*state_lines(both, arguments, states)])
        asked_for = None
        if arguments.dama:
            asked_for = ask_for_the_return_link(both[1], arguments)
            states[both[1].name] = states[both[1].name]._replace(rate_bps=0)
        framed = None
        if arguments.dvbs2:
            framed = frame_the_forward_link(both[0], arguments)
            states[both[0].name] = states[both[0].name]._replace(rate_bps=0)
        # After the proofs: their packets are full ones, which a path may drop.
        filter_path(arguments.rules)
        change("ip", lines=[f"link set {one.queue} alias {UP}" for one in both])
        collect_agent.send_log(syslog.LOG_INFO, "the link is up")
        if arguments.link_file != NONE:
            collect_agent.send_stat(collect_agent.now(), link_start_s=arguments.link_start_s)
        before = counters(both)
        counted = {one.name: fragments.Counter(one.arrives) for one in both}
        player = Player(both, arguments, states)
        play(player, with_bursts(played, both, arguments), both, arguments.series_s, framed)
        report(both, before, counted, player.bursts)
        for link in (asked_for, framed):
            for suffix, found in link.statistics().items() if link else ():
                collect_agent.send_stat(collect_agent.now(), suffix=suffix, **found)
    finally:
        clear(both, arguments)


def main() -> None:
    """Run the job."""
    arguments = parse()
    if arguments.mode == "listen":
        command.need_process()
        import dama_qdisc

        wait()
        dama_qdisc.listen(arguments.forward_interface)
    elif arguments.mode == "wait":
        wait()
    else:
        emulate(arguments)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
