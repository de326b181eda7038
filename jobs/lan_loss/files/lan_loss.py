# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job lan_loss: random loss on the LAN link of an interface, in both directions, until the job is stopped.

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

CONFIGURATION = "/opt/openbach/agent/jobs/lan_loss/lan_loss_rstats_filter.conf"
PLACE = "last_mile"
"""Which losses are this link's, of the places that --loss-at can name."""
INGRESS = "q_lan"
SIGNALS = {signal.SIGTERM, signal.SIGINT}


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("interface", help="towards the LAN")
    parser.add_argument("--loss", type=netem.percent, default=0.0, help="percent of each direction's packets")
    parser.add_argument("--burst-packets", type=netem.burst, default=1.0, help="mean length of a loss (1: independent)")
    parser.add_argument(
        "--loss-at", choices=netem.PLACES, default=PLACE, help=f"where --loss happens; here only for {PLACE}"
    )
    parser.add_argument("--seed", type=int, default=os.environ.get("OPENBACH_RUN_SEED"), help="of the losses")
    arguments = parser.parse_args(argv)
    try:
        netem.loss_model(arguments.loss, arguments.burst_packets)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def devices(interface: str) -> dict[str, str]:
    """Where netem is, by direction."""
    return {"forward": interface, "return": INGRESS}


def apply(arguments: argparse.Namespace) -> None:
    change("ip", lines=[f"link add {INGRESS} type ifb", f"link set {INGRESS} up"])
    lines = [
        f"qdisc add dev {arguments.interface} clsact",
        f"filter add dev {arguments.interface} ingress matchall action mirred egress redirect dev {INGRESS}",
    ]
    for number, device in enumerate(devices(arguments.interface).values()):
        loss = netem.loss_model(arguments.loss, arguments.burst_packets)
        seed = None if arguments.seed is None else netem.mixed(netem.mixed(2 * arguments.seed + number) + 1)
        options = f"{loss}{netem.seed_option(seed)}"
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
    if not arguments.loss or arguments.loss_at != PLACE:
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
