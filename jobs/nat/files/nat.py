# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job nat: this host translates the addresses of what it forwards (NAPT, RFC 3022).

What leaves by one interface gets the host's own address, until the job is stopped.

A new connection from outside gets no further than this host.

    inside ──► forwarding ──► masquerade ──► outside
    inside ◄── forwarding ◄── only what answers ◄── outside

A UDP flow without packets for a while is forgotten (RFC 4787): packets from outside are dropped
then, until one from inside opens the way again, maybe from another port.
"""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path

import collect_agent

from openbach_jobs.command import change, run, undo, write

CONFIGURATION = "/opt/openbach/agent/jobs/nat/nat_rstats_filter.conf"
NONE, TERMINAL = "none", "terminal"
TABLE = "table ip nat_terminal"
RULES = (
    TABLE
    + """ {{
    counter refused {{ }}
    chain translated {{
        type nat hook postrouting priority srcnat
        oifname "{outside}" masquerade
    }}
    chain guarded {{
        type filter hook forward priority filter
        iifname "{outside}" ct state new counter name refused drop
    }}
}}
"""
)
"""Rules of nft."""
UDP_TIMEOUTS = ("nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream")
"""Linux forgets a flow of UDP 30 s after its last packet; one with packets both ways for more than
2 s after 120 s."""
LONGEST_S = 86_400
SIGNALS = {signal.SIGTERM, signal.SIGINT}


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=[NONE, TERMINAL], help=f"{NONE} translates nothing")
    parser.add_argument("outside", help="interface towards the outer network")
    parser.add_argument(
        "--udp-timeout-s",
        type=int,
        default=0,
        help="for which a silent UDP flow is known; 0: Linux's",
    )
    arguments = parser.parse_args(argv)
    if not 0 <= arguments.udp_timeout_s <= LONGEST_S:
        parser.error(f"udp_timeout_s is {arguments.udp_timeout_s}: from 0 to {LONGEST_S}")
    return arguments


def apply(arguments: argparse.Namespace) -> None:
    """Set up the translation, and the times after which flows of UDP are forgotten."""
    change("nft", "-f", "-", text=RULES.format(outside=arguments.outside))
    for name in UDP_TIMEOUTS if arguments.udp_timeout_s else ():
        write(Path(f"/proc/sys/net/netfilter/{name}"), str(arguments.udp_timeout_s))


def refused_packets() -> int:
    """Return the number of packets from outside that belonged to no connection."""
    shown = json.loads(run("nft", "-j", "list", "counters", *TABLE.split()))["nftables"]
    (counter,) = [item["counter"] for item in shown if "counter" in item]
    return int(counter["packets"])


def main() -> None:
    """Run the job."""
    arguments = parse()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if arguments.kind == NONE:
        signal.sigwait(SIGNALS)
        return
    try:
        apply(arguments)
        signal.sigwait(SIGNALS)
        collect_agent.send_stat(collect_agent.now(), refused_packets=refused_packets())
    finally:
        undo("nft", "delete", *TABLE.split())


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
