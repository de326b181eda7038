# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job satcom_link: an emulated satellite link between the two interfaces of this host.

Each direction, in this order:

    arrives ──► ingress ──► ifb: tbf (rate) of a queue (buffer) ──► forwarding ──► netem (loss) ──► netem (delay) ──► leaves

The bottleneck and its finite buffer come before the delay, as on a satellite link. Losses that the link itself has (--loss)
are in a netem of their own, because netem forgets where it was in a burst whenever it is changed. Before the link counts
as up it proves itself: rate, delay and loss are measured with packets of the job's own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import syslog
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import collect_agent
import constellation
import link_file
import link_proof
import netem
from command import LINKS, change, run, undo, wait_for
from link_file import Change, State

CONFIGURATION = "/opt/openbach/agent/jobs/satcom_link/satcom_link_rstats_filter.conf"
GEO_DELAY_MS = 250.0
FRAME_BYTES = 1514
BURST_BYTES = 1540
"""One packet, and what a tunnel or a VLAN may add to it."""
LEAST_BPS, MOST_BPS = 32e3, 1e9
"""What can be proved: below, what the bucket lets wait is more delay than is tolerated; above, tbf is not exact enough."""
LIMITS = {
    "delay_ms": (0.001, 10_000),
    "jitter_ms": (0, 10_000),
    "buffer_bdp": (0.001, 1000),
    "buffer_bytes": (0, 4 * 10**9),
}
HELD_RATE = "8bit"
"""What tbf gets for a rate of 0, which it does not know: a packet takes 25 minutes."""
PLACE = "satellite"
"""Which losses are this link's, of the places that --loss-at can name."""
CODEL_TARGET = 0.05
"""Of the RTT: RFC 8289, section 4.2, which has the interval at one RTT (section 4.3)."""
UP = "measured"
"""Alias of the queues' interfaces when the link has proved itself."""
SIGNALS = {signal.SIGTERM, signal.SIGINT}
MULTIPLIERS = {"k": 1e3, "M": 1e6, "G": 1e9}
SEPARATE_LOSS, DELAY = "1:", "2:"
"""Handles of the two netems."""


@dataclass(frozen=True)
class Direction:
    """One way over the link: packets come in on `arrives`, wait in `queue` (an ifb) and leave by `leaves`."""

    name: str
    arrives: str
    leaves: str
    rate_bps: float
    """What the buffer is measured by."""
    rtt_ms: float
    seed: int | None

    @property
    def queue(self) -> str:
        return f"q_{self.name}"

    def seed_of(self, step: int) -> int | None:
        """Each change of a netem needs a seed of its own: with the old one it would begin the same losses anew, with none
        the kernel draws one by chance."""
        return None if self.seed is None else netem.mixed(netem.mixed(self.seed) + step)


Both = tuple[Direction, Direction]


def rate_bps(text: str) -> float:
    """A rate with a decimal suffix: `10M` is 10 000 000 bit/s."""
    number, factor = (text[:-1], MULTIPLIERS[text[-1]]) if text[-1:] in MULTIPLIERS else (text, 1.0)
    rate = float(number) * factor
    if not LEAST_BPS <= rate <= MOST_BPS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate from 32k to 1G")
    return rate


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("orbit", choices=["geo", "leo"])
    parser.add_argument("forward_interface", help="towards the satellite terminal")
    parser.add_argument("return_interface", help="towards the gateway")
    parser.add_argument("--rate", type=rate_bps, default=10e6, help="bit/s of the forward direction (default 10M)")
    parser.add_argument("--return-rate", type=rate_bps, help="bit/s of the return direction (default: as forward)")
    parser.add_argument("--delay-ms", type=float, default=GEO_DELAY_MS, help="one-way delay, geo (250)")
    parser.add_argument("--jitter-ms", type=float, default=0.0, help="standard deviation of the delay (default 0)")
    parser.add_argument("--reorder", choices=["no", "yes"], default="no", help="whether jitter may change the order")
    parser.add_argument("--loss", type=netem.percent, default=0.0, help="percent of each direction's packets")
    parser.add_argument("--burst-packets", type=netem.burst, default=1.0, help="mean length of a loss (1: independent)")
    parser.add_argument(
        "--loss-at", choices=netem.PLACES, default=PLACE, help=f"where --loss happens; here only for {PLACE}"
    )
    parser.add_argument("--buffer-bdp", type=float, default=1.0, help="buffer in rate times mean RTT")
    parser.add_argument("--buffer-bytes", type=int, default=0, help="buffer in bytes; 0: by --buffer-bdp")
    parser.add_argument("--queue", choices=["fifo", "codel", "fq_codel", "cake"], default="fifo")
    parser.add_argument("--link-file", default="none", help="CSV with rate, delay and loss over time; none: by orbit")
    parser.add_argument("--series-s", type=float, default=0.0, help="seconds between looks at the queues; 0: none")
    parser.add_argument("--seed", type=int, default=os.environ.get("OPENBACH_RUN_SEED"), help="of the losses")
    parser.add_argument("mode", choices=["run", "wait"], help="wait: ends when the link that another one runs is up")
    arguments = parser.parse_args(argv)
    for name, (least, most) in LIMITS.items():
        if not least <= getattr(arguments, name) <= most:
            parser.error(f"{name} is {getattr(arguments, name)}: from {least} to {most}")
    if arguments.series_s and not 0.01 <= arguments.series_s <= 3600:
        parser.error(f"series_s is {arguments.series_s:g}: 0, or from 0.01 to 3600 s")
    if arguments.loss_at != PLACE:
        arguments.loss = 0.0
    try:
        netem.loss_model(arguments.loss, arguments.burst_packets)
    except ValueError as error:
        parser.error(str(error))
    return arguments


# What is played


def changes(arguments: argparse.Namespace) -> Iterator[Change]:
    """The link's state over time, from 0 s on."""
    if arguments.link_file != "none":
        return link_file.read(arguments.link_file)
    rates_bps = {"forward": arguments.rate, "return": arguments.return_rate or arguments.rate}
    if arguments.orbit == "leo":
        return (at_rate(change, rates_bps[change.direction]) for change in constellation.changes())
    return (Change(0.0, name, State(rate, arguments.delay_ms, 0.0)) for name, rate in rates_bps.items())


def at_rate(change: Change, rate: float) -> Change:
    """The change with this rate, unless it is an outage."""
    return replace(change, state=replace(change.state, rate_bps=rate)) if change.state.rate_bps else change


def directions(arguments: argparse.Namespace) -> Both:
    """The buffers are measured by the first rate of their direction above 0, and the mean RTT."""
    rates_bps = (arguments.rate, arguments.return_rate or arguments.rate)
    rtt_ms = 2 * arguments.delay_ms
    if arguments.link_file != "none":
        summary = link_file.check(arguments.link_file)
        rates_bps, rtt_ms = (summary.forward.first_rate_bps, summary.back.first_rate_bps), summary.mean_rtt_ms
    elif arguments.orbit == "leo":
        rtt_ms = constellation.mean_rtt_ms()
    forward, back = arguments.forward_interface, arguments.return_interface
    seeds = (None, None) if arguments.seed is None else (2 * arguments.seed, 2 * arguments.seed + 1)
    return (
        Direction("forward", back, forward, rates_bps[0], rtt_ms, seeds[0]),
        Direction("return", forward, back, rates_bps[1], rtt_ms, seeds[1]),
    )


def first(played: Iterator[Change]) -> list[Change]:
    """The state of each direction at 0 s."""
    return [next(played), next(played)]


# What tc is told


def buffer_bytes(direction: Direction, arguments: argparse.Namespace) -> int:
    """The bottleneck's buffer: at least two full packets."""
    by_bdp = round(arguments.buffer_bdp * direction.rate_bps * direction.rtt_ms / 8000)
    return max(int(arguments.buffer_bytes) or by_bdp, 2 * FRAME_BYTES)


def queue_options(kind: str, limit_bytes: int, rtt_ms: float) -> str:
    """The queue before the bottleneck: its limit, and what it has to know of the path (an RTT below 100 ms counts as that,
    as in the queues' own defaults)."""
    packets = -(-limit_bytes // FRAME_BYTES)
    interval_ms = max(rtt_ms, 100.0)
    codel = f"target {CODEL_TARGET * interval_ms:.3f}ms interval {interval_ms:.3f}ms noecn"
    return {
        "fifo": f"bfifo limit {limit_bytes}",
        "codel": f"codel limit {packets} {codel}",
        "fq_codel": f"fq_codel limit {packets} memory_limit {limit_bytes} {codel}",
        "cake": f"cake unlimited memlimit {limit_bytes} rtt {interval_ms:.0f}ms",
    }[kind]


def rate_line(direction: Direction, state: State, limit_bytes: int) -> str:
    rate = f"{round(state.rate_bps)}bit" if state.rate_bps else HELD_RATE
    return f"dev {direction.queue} root handle 1: tbf rate {rate} burst {BURST_BYTES} limit {limit_bytes}"


def delay_line(direction: Direction, arguments: argparse.Namespace, state: State, step: int) -> str:
    place = f"parent {SEPARATE_LOSS}1" if arguments.loss else "root"
    options = netem.delay_options(state.delay_ms, arguments.jitter_ms) + netem.loss_model(state.loss_pct, 1)
    order = netem.IN_ORDER if arguments.reorder == "no" and varies(arguments) else ""
    seed = netem.seed_option(direction.seed_of(step))
    return f"dev {direction.leaves} {place} handle {DELAY} netem limit {netem.LIMIT_PACKETS}{options}{order}{seed}"


def varies(arguments: argparse.Namespace) -> bool:
    return bool(arguments.orbit == "leo" or arguments.jitter_ms or arguments.link_file != "none")


def loss_line(direction: Direction, arguments: argparse.Namespace) -> str:
    loss = netem.loss_model(arguments.loss, arguments.burst_packets)
    seed = netem.seed_option(direction.seed_of(0))
    return f"dev {direction.leaves} root handle {SEPARATE_LOSS} netem limit {netem.LIMIT_PACKETS}{loss}{seed}"


def apply(both: Both, arguments: argparse.Namespace, states: dict[str, State]) -> None:
    change(
        "ip", lines=[line for one in both for line in (f"link add {one.queue} type ifb", f"link set {one.queue} up")]
    )
    lines = []
    for one in both:
        limit, state = buffer_bytes(one, arguments), states[one.name]
        lines += [
            f"qdisc add dev {one.arrives} clsact",
            f"filter add dev {one.arrives} ingress matchall action mirred egress redirect dev {one.queue}",
            f"qdisc add {rate_line(one, state, limit)}",
            f"qdisc add dev {one.queue} parent 1:1 handle 10: {queue_options(arguments.queue, limit, one.rtt_ms)}",
            *([f"qdisc replace {loss_line(one, arguments)}"] if arguments.loss else []),
            f"qdisc replace {delay_line(one, arguments, state, step=1)}",
        ]
    change("tc", lines=lines)


def clear(both: Both) -> None:
    """Removes what `apply` made, as far as it is there."""
    lines = [
        line for one in both for line in (f"qdisc del dev {one.leaves} root", f"qdisc del dev {one.arrives} clsact")
    ]
    undo("tc", lines=lines)
    undo("ip", lines=[f"link del {one.queue}" for one in both])


# What comes of it


@dataclass(frozen=True)
class Counters:
    """Of one direction, since its qdiscs were made."""

    sent_packets: int
    sent_bytes: int
    lost_packets: int
    dropped_packets: int
    queue_packets: int
    queue_bytes: int


def counters(both: Both) -> dict[str, Counters]:
    """By direction; ends the job if a qdisc is no longer there."""
    shown = {(one["dev"], one["handle"]): one for one in json.loads(run("tc", "-s", "-j", "qdisc", "show"))}
    found = {}
    for one in both:
        if missing := [key for key in ((one.leaves, DELAY), (one.queue, "1:"), (one.queue, "10:")) if key not in shown]:
            sys.exit(f"{missing[0][0]} has no qdisc {missing[0][1]}: something else on this host removed it")
        delay, queue, waiting = shown[one.leaves, DELAY], shown[one.queue, "1:"], shown[one.queue, "10:"]
        lost = delay["drops"] + shown.get((one.leaves, SEPARATE_LOSS), {"drops": 0})["drops"]
        found[one.name] = Counters(
            delay["packets"], delay["bytes"], lost, queue["drops"], waiting["qlen"], waiting["backlog"]
        )
    return found


def unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


class Player:
    """Has one tc carry out the changes as they are due: starting a program for each would cost most of a run's time."""

    def __init__(self, both: Both, arguments: argparse.Namespace, states: dict[str, State]) -> None:
        self._both = {one.name: one for one in both}
        self._arguments = arguments
        self.states = states
        self._step = 2
        self._tc = subprocess.Popen(
            ["tc", "-batch", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=unblock_signals
        )

    def change(self, change: Change) -> None:
        direction, old, new = self._both[change.direction], self.states[change.direction], change.state
        lines = []
        if new.rate_bps != old.rate_bps:
            lines.append(f"qdisc change {rate_line(direction, new, buffer_bytes(direction, self._arguments))}")
        if (new.delay_ms, new.loss_pct) != (old.delay_ms, old.loss_pct):
            lines.append(f"qdisc change {delay_line(direction, self._arguments, new, self._step)}")
            self._step += 1
        self.states[change.direction] = new
        assert self._tc.stdin
        try:
            self._tc.stdin.write("".join(f"{line}\n" for line in lines))
            self._tc.stdin.flush()
        except BrokenPipeError:
            self.end()

    def end(self) -> None:
        """An agent that stops a job ends its children first: that is no failure."""
        _, said = self._tc.communicate()
        if self._tc.returncode not in (0, -signal.SIGTERM):
            sys.exit(f"tc: {said.strip()}")


def play(player: Player, played: Iterator[Change], both: Both, series_s: float) -> None:
    """Changes the link and looks at its queues, each when it is due, until a signal comes."""
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
            look_s += series_s


def look(both: Both, states: dict[str, State]) -> None:
    """A packet that comes now waits for those in the queue, at the rate of now; for ever in an outage."""
    now_ms = collect_agent.now()
    for name, seen in counters(both).items():
        rate = states[name].rate_bps
        collect_agent.send_stat(
            now_ms,
            suffix=name,
            queue_bytes=seen.queue_bytes,
            queue_packets=seen.queue_packets,
            queue_delay_ms=seen.queue_bytes * 8000 / rate if rate else None,
        )


def asked(direction: Direction, arguments: argparse.Namespace, state: State) -> link_proof.Asked:
    """What the proof is to find."""
    kept = (1 - arguments.loss / 100) * (1 - state.loss_pct / 100)
    return link_proof.Asked(
        state.rate_bps,
        state.delay_ms,
        100 * (1 - kept),
        arguments.jitter_ms,
        arguments.burst_packets,
        buffer_bytes(direction, arguments),
    )


def counters_of(both: Both, name: str) -> Counters:
    return counters(both)[name]


def report(both: Both, before: dict[str, Counters]) -> None:
    for name, after in counters(both).items():
        collect_agent.send_stat(
            collect_agent.now(),
            suffix=name,
            sent_packets=after.sent_packets - before[name].sent_packets,
            lost_packets=after.lost_packets - before[name].lost_packets,
            sent_bytes=after.sent_bytes - before[name].sent_bytes,
            dropped_packets=after.dropped_packets - before[name].dropped_packets,
        )


def wait() -> None:
    """Returns when the link of this host is up. Ends the job if it does not come up."""

    def is_up() -> bool:
        return UP in (link.get("ifalias") for link in json.loads(run("ip", "-j", "link", "show")))

    wait_for("no satellite link is up on this host", is_up, told_by=LINKS)


def emulate(arguments: argparse.Namespace) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        both = directions(arguments)
    except link_file.LinkFileError as error:
        sys.exit(str(error))
    played = changes(arguments)
    states = {change.direction: change.state for change in first(played)}
    try:
        apply(both, arguments, states)
        for one in both:
            link_proof.prove(one, asked(one, arguments, states[one.name]), partial(counters_of, both, one.name))
        change("ip", lines=[f"link set {one.queue} alias {UP}" for one in both])
        collect_agent.send_log(syslog.LOG_INFO, "the link is up")
        before = counters(both)
        player = Player(both, arguments, states)
        play(player, played, both, arguments.series_s)
        player.end()
        report(both, before)
    finally:
        clear(both)


def main() -> None:
    arguments = parse()
    if arguments.mode == "wait":
        wait()
    else:
        emulate(arguments)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
