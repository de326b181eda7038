# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job satcom_link: an emulated satellite link between the two interfaces of this host.

Each direction, in this order:

    arrives ──► ingress ──► ifb: tbf (rate, FIFO of buffer_bdp BDP) ──► forwarding ──► netem (delay, loss) ──► leaves

The bottleneck and its finite buffer come before the delay, as on a satellite link, and netem's own queue (its
`limit` counts packets in flight too) never drops.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import syslog
import time
from dataclasses import dataclass
from typing import Any

import collect_agent
import leo

CONFIGURATION = "/opt/openbach/agent/jobs/satcom_link/satcom_link_rstats_filter.conf"
GEO_DELAY_MS = 250.0
FRAME_BYTES = 1514
BURST_BYTES = 1540
"""One packet, and what a tunnel or a VLAN may add to it."""
NETEM_LIMIT_PACKETS = 100_000
LEO_STEP_S = 1.0
"""How often the delay of a leo link is set anew. Within a pass it moves by less than 0.05 ms in a step."""
IN_ORDER = " rate 10gbit"
"""With a rate, netem sends no packet before those that came earlier: when the delay falls at a handover, the packets after
it wait for the ones under way. It costs a full packet 1.2 µs."""
MASK64 = 2**64 - 1
SIGNALS = {signal.SIGTERM, signal.SIGINT}
MULTIPLIERS = {"k": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Direction:
    """One way over the link: packets come in on `arrives`, wait in `queue` (an ifb) and leave by `leaves`."""

    name: str
    arrives: str
    leaves: str

    @property
    def queue(self) -> str:
        return f"q_{self.name}"


def rate_bps(text: str) -> float:
    """A rate with a decimal suffix: `10M` is 10 000 000 bit/s."""
    number, factor = (text[:-1], MULTIPLIERS[text[-1]]) if text[-1:] in MULTIPLIERS else (text, 1.0)
    rate = float(number) * factor
    if rate <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate above 0")
    return rate


def percent(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 0 to 100")
    return value


def positive(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return value


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("orbit", choices=["geo", "leo"])
    parser.add_argument("forward_interface", help="towards the satellite terminal")
    parser.add_argument("return_interface", help="towards the gateway")
    parser.add_argument("--rate", type=rate_bps, default=10e6, help="bit/s of each direction (default 10M)")
    parser.add_argument("--delay-ms", type=positive, default=GEO_DELAY_MS, help="one-way delay of a geo link")
    parser.add_argument("--loss", type=percent, default=0.0, help="percent of each direction's packets")
    parser.add_argument("--buffer-bdp", type=positive, default=1.0, help="buffer in bandwidth-delay products")
    parser.add_argument("--seed", type=int, default=os.environ.get("OPENBACH_RUN_SEED"), help="of the losses")
    return parser.parse_args(argv)


Both = tuple[Direction, Direction]


def directions(arguments: argparse.Namespace) -> Both:
    forward, back = arguments.forward_interface, arguments.return_interface
    return Direction("forward", back, forward), Direction("return", forward, back)


def buffer_bytes(rate: float, rtt_ms: float, buffer_bdp: float) -> int:
    """The bottleneck's buffer: at least two full packets."""
    return max(round(buffer_bdp * rate * rtt_ms / 8000), 2 * FRAME_BYTES)


def run(program: str, *options: str, lines: list[str] | None = None) -> str:
    """Runs ip or tc, on one command or on a batch of them; ends the job with what it said if it fails."""
    command = [program, *options] if lines is None else [program, *options, "-batch", "-"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, input="\n".join(lines or ()))
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}\n" + "\n".join(lines or ()))
    return done.stdout


def mixed(number: int) -> int:
    """splitmix64: 64 bits without visible relation to those of the next number."""
    number = (number + 0x9E3779B97F4A7C15) & MASK64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK64
    return number ^ number >> 31


def netem_seed(run_seed: int, direction: Direction, step: int) -> int:
    """Seed of netem's losses from a step of the delay on.

    Mixed, because netem's generator does not warm up: seeds as small as 1, 2, 3 lose three times too many of the first
    packets. Each change of the delay has its own: a kernel from 6.6 on may draw a new one by chance when it gets none, and
    would begin the same losses anew when it gets the old one.
    """
    first = 2 * run_seed + (direction.name == "return")
    return mixed(mixed(first) + step)


def netem(direction: Direction, arguments: argparse.Namespace, delay_ms: float, step: int = 0) -> str:
    delay = f"delay {round(delay_ms * 1000)}us"
    loss = f" loss random {arguments.loss:g}%" if arguments.loss else ""
    order = IN_ORDER if arguments.orbit == "leo" else ""
    seed = "" if arguments.seed is None else f" seed {netem_seed(arguments.seed, direction, step)}"
    return f"dev {direction.leaves} root handle 1: netem limit {NETEM_LIMIT_PACKETS} {delay}{loss}{order}{seed}"


def apply(both: Both, arguments: argparse.Namespace, delay_ms: float, limit: int) -> None:
    run("ip", lines=[line for one in both for line in (f"link add {one.queue} type ifb", f"link set {one.queue} up")])
    lines = []
    for one in both:
        lines += [
            f"qdisc add dev {one.arrives} clsact",
            f"filter add dev {one.arrives} ingress matchall action mirred egress redirect dev {one.queue}",
            f"qdisc add dev {one.queue} root handle 1: tbf rate {round(arguments.rate)}bit burst {BURST_BYTES} limit {limit}",
            f"qdisc replace {netem(one, arguments, delay_ms)}",
        ]
    run("tc", lines=lines)
    qdiscs(both)


def clear(both: Both) -> None:
    """Removes what `apply` made, as far as it is there."""
    lines = [
        line for one in both for line in (f"qdisc del dev {one.leaves} root", f"qdisc del dev {one.arrives} clsact")
    ]
    for program, batch in (("tc", lines), ("ip", [f"link del {one.queue}" for one in both])):
        command = [program, "-force", "-batch", "-"]
        subprocess.run(command, check=False, capture_output=True, text=True, input="\n".join(batch))


def qdiscs(both: Both) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """netem and tbf of each direction with their counters; ends the job if one is no longer there."""
    shown = {(one["dev"], one["kind"]): one for one in json.loads(run("tc", "-s", "-j", "qdisc", "show"))}
    wanted = [((one.leaves, "netem"), (one.queue, "tbf")) for one in both]
    for device, kind in (pair for pairs in wanted for pair in pairs):
        if (device, kind) not in shown:
            sys.exit(f"{device} has no {kind} qdisc: something else on this host removed it")
    return [(shown[link], shown[queue]) for link, queue in wanted]


def play_leo(both: Both, arguments: argparse.Namespace) -> None:
    """Sets the delay anew every LEO_STEP_S until a signal comes."""
    start_s = time.monotonic()
    step = 1
    while not signal.sigtimedwait(SIGNALS, max(start_s + step * LEO_STEP_S - time.monotonic(), 0)):
        delay_ms = leo.one_way_delay_ms(step * LEO_STEP_S)
        run("tc", lines=[f"qdisc change {netem(one, arguments, delay_ms, step)}" for one in both])
        step += 1


def report(both: Both) -> None:
    for direction, (link, queue) in zip(both, qdiscs(both), strict=True):
        collect_agent.send_stat(
            collect_agent.now(),
            suffix=direction.name,
            sent_packets=link["packets"],
            lost_packets=link["drops"],
            sent_bytes=link["bytes"],
            dropped_packets=queue["drops"],
        )


def main() -> None:
    arguments = parse()
    both = directions(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    delay_ms = leo.one_way_delay_ms(0) if arguments.orbit == "leo" else arguments.delay_ms
    rtt_ms = 2 * (leo.mean_delay_ms() if arguments.orbit == "leo" else arguments.delay_ms)
    limit = buffer_bytes(arguments.rate, rtt_ms, arguments.buffer_bdp)
    try:
        apply(both, arguments, delay_ms, limit)
        collect_agent.send_log(syslog.LOG_INFO, f"link is up: {arguments.orbit}, {limit} bytes of buffer")
        collect_agent.send_stat(collect_agent.now(), buffer_bytes=limit)
        if arguments.orbit == "leo":
            play_leo(both, arguments)
        else:
            signal.sigwait(SIGNALS)
        report(both)
    finally:
        clear(both)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
