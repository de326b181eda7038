# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job lan_link: random loss and delay on the LAN link of an interface, in both directions, until the job is stopped.

forward (towards the LAN)    interface: netem
return                       interface ──► ingress ──► ifb: netem
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys

import collect_agent
import netem
from command import change, run, undo

CONFIGURATION = "/opt/openbach/agent/jobs/lan_link/lan_link_rstats_filter.conf"
PLACE = "last_mile"
"""Which losses are this link's, of the places that --loss-at can name."""
SAME, PRESET = "same", "preset"
OF_A_LAN = {"loss": "0", "return_loss": SAME, "burst_packets": "1"}
"""What `preset` is here, where there is no satellite: a scenario gives the same values to satcom_link."""
INGRESS = "q_lan"
SIGNALS = {signal.SIGTERM, signal.SIGINT}


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("interface", help="towards the LAN")
    parser.add_argument("--loss", default="0", help="percent of the packets towards the LAN; preset: 0")
    parser.add_argument("--return-loss", default=SAME, help="percent of those from the LAN; same: as --loss")
    parser.add_argument("--burst-packets", default="1", help="mean length of a loss (1: independent)")
    parser.add_argument(
        "--loss-at", choices=netem.PLACES, default=PLACE, help=f"where --loss happens; here only for {PLACE}"
    )
    parser.add_argument("--delay-ms", default="0", help="delay of each direction")
    parser.add_argument("--seed", type=int, default=os.environ.get("OPENBACH_RUN_SEED"), help="of the losses")
    arguments = parser.parse_args(argv)
    texts = vars(arguments)
    texts |= {name: text for name, text in OF_A_LAN.items() if texts[name] == PRESET}
    if arguments.return_loss == SAME:
        arguments.return_loss = arguments.loss
    try:
        arguments.delay_ms = netem.number(arguments.delay_ms, 0, 10_000, "a delay from 0 to 10000 ms")
        arguments.burst_packets = netem.burst(arguments.burst_packets)
        for name in ("loss", "return_loss"):
            setattr(arguments, name, netem.percent(getattr(arguments, name)))
            netem.loss_model(getattr(arguments, name), arguments.burst_packets)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def losses_pct(arguments: argparse.Namespace) -> tuple[float, float]:
    """Of both directions, if they are this link's."""
    return (arguments.loss, arguments.return_loss) if arguments.loss_at == PLACE else (0.0, 0.0)


def devices(interface: str) -> dict[str, str]:
    """Where netem is, by direction."""
    return {"forward": interface, "return": INGRESS}


def apply(arguments: argparse.Namespace) -> None:
    change("ip", lines=[f"link add {INGRESS} type ifb", f"link set {INGRESS} up"])
    lines = [
        f"qdisc add dev {arguments.interface} clsact",
        f"filter add dev {arguments.interface} ingress matchall action mirred egress redirect dev {INGRESS}",
    ]
    both = zip(devices(arguments.interface).values(), losses_pct(arguments), strict=True)
    for number, (device, loss_pct) in enumerate(both):
        delay = netem.delay_options(arguments.delay_ms, 0) if arguments.delay_ms else ""
        loss = netem.loss_model(loss_pct, arguments.burst_packets)
        seed = None if arguments.seed is None else netem.mixed(netem.mixed(2 * arguments.seed + number) + 1)
        options = f"{delay}{loss}{netem.seed_option(seed)}"
        lines.append(f"qdisc replace dev {device} root handle 1: netem limit {netem.LIMIT_PACKETS}{options}")
    change("tc", lines=lines)


def clear(interface: str) -> None:
    undo("tc", lines=[f"qdisc del dev {interface} root", f"qdisc del dev {interface} clsact"])
    undo("ip", lines=[f"link del {INGRESS}"])


def report(interface: str) -> None:
    qdiscs = json.loads(run("tc", "-s", "-j", "qdisc", "show"))
    shown = {one["dev"]: one for one in qdiscs if one["kind"] == "netem"}
    for name, device in devices(interface).items():
        if device not in shown:
            sys.exit(f"{device} has no netem qdisc: something else on this host removed it")
        sent, lost = shown[device]["packets"], shown[device]["drops"]
        collect_agent.send_stat(collect_agent.now(), suffix=name, sent_packets=sent, lost_packets=lost)


def main() -> None:
    arguments = parse()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if not (any(losses_pct(arguments)) or arguments.delay_ms):
        signal.sigwait(SIGNALS)
        return
    try:
        apply(arguments)
        signal.sigwait(SIGNALS)
        report(arguments.interface)
    finally:
        clear(arguments.interface)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
