# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job lan_link: rate, delay, loss and impairment of the LAN link of an interface.

They hold in both directions, until the job is stopped. Loss is random; an impairment is a profile.

forward (towards the LAN)    interface: netem, in it tbf if there is a rate
return                       interface ──► ingress ──► ifb: the same
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import collect_agent
import impairment

from openbach_jobs import netem
from openbach_jobs.command import change, run, undo

RUNS_AS_THREAD = True
"""Sign for the guest, which needs no process for this job (openbach_run/guest/threads.py)."""
CONFIGURATION = "/opt/openbach/agent/jobs/lan_link/lan_link_rstats_filter.conf"
PLACE = "last_mile"
"""Place of this link's losses, of those that --loss-at can name."""
SAME, PRESET, NONE = "same", "preset", "none"
OF_A_LAN = {"loss": "0", "return_loss": SAME, "burst_packets": "1", "burst_ms": NONE}
"""Values for `preset` here, where there is no satellite: a scenario gives the same values to
satcom_link."""
INGRESS = "q_lan"
UNLIMITED = "unlimited"
LEAST_BPS, MOST_BPS = 32e3, 1e9
FRAME_BYTES = 1514
SIGNALS = {signal.SIGTERM, signal.SIGINT}
OPTIONS: dict[str, tuple[Any, str]] = {
    "--loss": ("0", "percent of the packets towards the LAN; preset: 0"),
    "--return-loss": (SAME, "percent of those from the LAN; same: as --loss"),
    "--burst-packets": ("1", "mean length of a loss (1: independent)"),
    "--delay-ms": ("0", "delay of each direction"),
    "--rate": (UNLIMITED, "bit/s of each direction on Ethernet frames, e.g. 100M"),
    "--queue-packets": (1000, "full packets that wait for the rate"),
    "--impairment": (impairment.NONE, "profile of the folder impairments"),
}
"""An option's default, by which its type is known, and its help."""


def command_line() -> argparse.ArgumentParser:
    """Return the parser of this job's command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("interface", help="towards the LAN")
    for name, (default, text) in OPTIONS.items():
        parser.add_argument(name, type=type(default), default=default, help=text)
    parser.add_argument(
        "--loss-at",
        choices=netem.PLACES,
        default=PLACE,
        help=f"where --loss happens; here only for {PLACE}",
    )
    seed = os.environ.get("OPENBACH_RUN_SEED")
    parser.add_argument("--seed", type=int, default=seed, help="of the losses")
    # In a group, as in the job vpn.
    parser.add_argument_group("bursts that last for a time").add_argument(
        "--burst-ms", default=NONE, help="mean duration of one; none: by --burst-packets"
    )
    return parser


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line, as numbers."""
    parser = command_line()
    arguments = parser.parse_args(argv)
    texts = vars(arguments)
    texts |= {name: text for name, text in OF_A_LAN.items() if texts[name] == PRESET}
    if arguments.return_loss == SAME:
        arguments.return_loss = arguments.loss
    try:
        read(arguments)
    except ValueError as error:
        parser.error(str(error))
    if not 1 <= arguments.queue_packets <= netem.LIMIT_PACKETS:
        parser.error(f"queue_packets is {arguments.queue_packets}: from 1 to {netem.LIMIT_PACKETS}")
    if any(losses_pct(arguments)) and arguments.impairment.loss_pct:
        parser.error(
            "the losses are given, and the profile of impairment has its own: give one of the two"
        )
    return arguments


def read(arguments: argparse.Namespace) -> None:
    """Put numbers, and the profile of impairment, in the place of texts. Raises ValueError."""
    packets, lasts_ms = arguments.burst_packets, arguments.burst_ms
    arguments.delay_ms = netem.number(arguments.delay_ms, 0, 10_000, "a delay from 0 to 10000 ms")
    if NONE not in (packets, lasts_ms) and packets != "1":
        raise ValueError("burst_packets and burst_ms: give one of them")
    arguments.burst_packets = 1.0 if packets == NONE else netem.burst(packets)
    arguments.burst_ms = None if lasts_ms == NONE else netem.burst_ms(lasts_ms)
    for name in ("loss", "return_loss"):
        setattr(arguments, name, netem.percent(getattr(arguments, name)))
        netem.loss_model(getattr(arguments, name), arguments.burst_packets)
    if arguments.rate != UNLIMITED:
        right = f"a rate from 32k to 1G bit/s, or {UNLIMITED}"
        arguments.rate = netem.number(arguments.rate, LEAST_BPS, MOST_BPS, right)
    arguments.impairment = impairment.find(arguments.impairment)


def losses_pct(arguments: argparse.Namespace) -> tuple[float, float]:
    """Return the losses of both directions in percent; 0 where they belong to another link."""
    return (arguments.loss, arguments.return_loss) if arguments.loss_at == PLACE else (0.0, 0.0)


def devices(interface: str) -> dict[str, str]:
    """Return the device with netem, by direction."""
    return {"forward": interface, "return": INGRESS}


def profile_options(arguments: argparse.Namespace) -> str:
    """Return netem's options for the delay and the profile of impairment.

    The profile's delay comes on top of the link's.
    """
    profile = arguments.impairment
    delay_ms = arguments.delay_ms + profile.delay_ms
    has_delay = delay_ms or profile.jitter_ms
    delay = netem.delay_options(delay_ms, profile.jitter_ms) if has_delay else ""
    loss = netem.loss_model(profile.loss_pct, 1)
    reorder = f" reorder {profile.reorder_pct:g}%" if profile.reorder_pct else ""
    duplicate = f" duplicate {profile.duplicate_pct:g}%" if profile.duplicate_pct else ""
    return f"{delay}{reorder}{duplicate}{loss}"


def changes_nothing(arguments: argparse.Namespace) -> bool:
    """Return whether the link is to stay as it is."""
    impairments = (*losses_pct(arguments), arguments.delay_ms, *arguments.impairment)
    return arguments.rate == UNLIMITED and not any(impairments)


def lasts(arguments: argparse.Namespace, loss_pct: float) -> bool:
    """Return whether the losses are bursts that last for a time, not for a number of packets."""
    return bool(arguments.burst_ms) and 0 < loss_pct < 100


def netem_line(
    arguments: argparse.Namespace, number: int, device: str, loss: str, step: int
) -> str:
    """Return the line of a tc batch that sets netem for direction `number`.

    Each change has a seed of its own: with the old one the same random numbers would begin again.
    """
    run_seed = arguments.seed
    seed = None if run_seed is None else netem.mixed(netem.mixed(2 * run_seed + number) + step)
    options = f"{profile_options(arguments)}{loss}{netem.seed_option(seed)}"
    return f"dev {device} root handle 1: netem limit {netem.LIMIT_PACKETS}{options}"


def apply(arguments: argparse.Namespace) -> None:
    """Set up queueing disciplines in both directions."""
    change("ip", lines=[f"link add {INGRESS} type ifb", f"link set {INGRESS} up"])
    lines = [
        f"qdisc add dev {arguments.interface} clsact",
        f"filter add dev {arguments.interface} ingress matchall action mirred egress redirect"
        f" dev {INGRESS}",
    ]
    both = zip(devices(arguments.interface).values(), losses_pct(arguments), strict=True)
    for number, (device, loss_pct) in enumerate(both):
        in_packets = netem.loss_model(loss_pct, arguments.burst_packets)
        loss = "" if lasts(arguments, loss_pct) else in_packets
        lines.append(f"qdisc replace {netem_line(arguments, number, device, loss, 1)}")
        if arguments.rate != UNLIMITED:
            waits = arguments.queue_packets * FRAME_BYTES
            lines.append(
                f"qdisc add dev {device} parent 1: tbf rate {arguments.rate:.0f}bit burst"
                f" {netem.bucket_bytes()} limit {waits}"
            )
    change("tc", lines=lines)


def clear(interface: str) -> None:
    """Remove what `apply` has set up."""
    undo("tc", lines=[f"qdisc del dev {interface} root", f"qdisc del dev {interface} clsact"])
    undo("ip", lines=[f"link del {INGRESS}"])


def play(arguments: argparse.Namespace) -> None:
    """Play the bursts of loss that last for a time, until a signal comes."""
    both = list(zip(devices(arguments.interface).values(), losses_pct(arguments), strict=True))
    lasting = [number for number, (_, loss_pct) in enumerate(both) if lasts(arguments, loss_pct)]
    if not lasting:
        signal.sigwait(SIGNALS)
        return
    import heapq  # not above: other runs need neither

    from openbach_jobs import bursts

    def drawn(number: int) -> Iterator[tuple[float, int, bool]]:
        run_seed = arguments.seed
        seed = int.from_bytes(os.urandom(8)) if run_seed is None else 2 * run_seed + number
        for time_s, is_bad in bursts.changes(both[number][1], arguments.burst_ms, seed):
            yield time_s, number, is_bad

    start_s = time.monotonic()
    for step, (time_s, number, is_bad) in enumerate(heapq.merge(*map(drawn, lasting)), start=2):
        if signal.sigtimedwait(SIGNALS, max(start_s + time_s - time.monotonic(), 0)):
            return
        loss = netem.loss_model(100 if is_bad else 0, 1)
        line = netem_line(arguments, number, both[number][0], loss, step)
        run("tc", lines=[f"qdisc change {line}"])


def report(interface: str) -> None:
    """Send how many packets have passed and been lost in each direction."""
    qdiscs = json.loads(run("tc", "-s", "-j", "qdisc", "show"))
    shown = {qdisc["dev"]: qdisc for qdisc in qdiscs if qdisc["kind"] == "netem"}
    for name, device in devices(interface).items():
        if device not in shown:
            sys.exit(f"{device} has no netem qdisc: something else on this host removed it")
        sent, lost = shown[device]["packets"], shown[device]["drops"]
        collect_agent.send_stat(
            collect_agent.now(), suffix=name, sent_packets=sent, lost_packets=lost
        )


def main() -> None:
    """Run the job."""
    arguments = parse()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if changes_nothing(arguments):
        signal.sigwait(SIGNALS)
        return
    if netem.CLOCK not in os.environ:  # else an engine has looked before the run
        from openbach_jobs import kernel

        seeded = [] if arguments.seed is None else [kernel.SEED]
        kernel.check([*kernel.LINK, *seeded, *([] if arguments.rate == UNLIMITED else ["tbf"])])
    try:
        apply(arguments)
        play(arguments)
        report(arguments.interface)
    finally:
        clear(arguments.interface)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
