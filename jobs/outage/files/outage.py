# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job outage: for some seconds nothing passes an interface of this host.

It begins after some seconds; at its end the job ends.

`drop` loses every packet in both directions, as a link does that is obstructed: the interface stays
up and no program is told. `down` takes the interface down, as a cable does that is pulled; its
routes come back with it. `address` gives it another address, which stays, and takes the old one
away at the same moment.

`restart` ends the VPNs of this host, with all that they have made, and starts them again at once.
`reboot` takes the interface down first, as a host does that loses its power, and starts them when
it is up again. Their keys are on the disk: they stay.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

import collect_agent

from openbach_jobs import limits
from openbach_jobs.command import change, run, undo

CONFIGURATION = "/opt/openbach/agent/jobs/outage/outage_rstats_filter.conf"
TABLE = "outage"
LIMITS = {"after_s": (0, 86400), "duration_s": (0, 86400)}
SIGNALS = {signal.SIGTERM, signal.SIGINT}
RULES = """
table inet {table} {{
    chain arrives {{
        type filter hook prerouting priority -500
        iifname "{interface}" drop
    }}
    chain leaves {{
        type filter hook postrouting priority 500
        oifname "{interface}" drop
    }}
}}
"""
"""Rules of nftables: the first that see what comes, the last that see what goes."""
VPNS = Path("/var/run")
FALL, RISE = signal.SIGUSR1, signal.SIGUSR2
SHOWN_ONLY = ("linkdown", "dead")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("interface")
    parser.add_argument(
        "--kind", choices=["drop", "down", "address", "restart", "reboot", "none"], default="drop"
    )
    parser.add_argument("--after-s", type=float, default=0.0)
    parser.add_argument("--duration-s", type=float, default=20.0, help="of drop, down and reboot")
    parser.add_argument(
        "--new-address", default="10.30.0.101/24", help="of the kind address, with its mask"
    )
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    if arguments.kind == "address":
        try:
            ip_interface(arguments.new_address)
        except ValueError:
            parser.error(
                f"--new-address is {arguments.new_address}: an address with its mask, as"
                " 10.30.0.101/24"
            )
    return arguments


@contextmanager
def dropped(interface: str) -> Iterator[None]:
    """Drop what comes and goes by an interface, for the time of the block."""
    change("nft", "-f", "-", text=RULES.format(table=TABLE, interface=interface))
    try:
        yield
    finally:
        change("nft", "delete", "table", "inet", TABLE)


@contextmanager
def down(interface: str) -> Iterator[None]:
    """Take an interface down for the time of the block.

    It loses its routes, but for that to its own network, which comes back with it.
    """
    lost = [
        line
        for line in run("ip", "route", "show", "dev", interface).splitlines()
        if "proto kernel" not in line
    ]
    change("ip", "link", "set", interface, "down")
    try:
        yield
    finally:
        change("ip", "link", "set", interface, "up")
        for line in lost:
            words = [word for word in line.split() if word not in SHOWN_ONLY]
            change("ip", "route", "replace", *words, "dev", interface)


@contextmanager
def without_vpns() -> Iterator[None]:
    """Take this host's VPNs down for the block, and bring them up after it.

    Each job `vpn` has a file with its process id in VPNS, and obeys these signals.
    """
    processes = [int(file.read_text()) for file in sorted(VPNS.glob("openbach-vpn*.pid"))]
    for process in processes:
        os.kill(process, FALL)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, RISE)


@contextmanager
def rebooted(interface: str) -> Iterator[None]:
    """Take away the interface and the VPNs, for the time of the block.

    The interface goes first: no VPN can tell the other end that it goes. It comes first too.
    """
    with ExitStack() as rises, down(interface):
        rises.enter_context(without_vpns())
        yield


def change_address(interface: str, new: str) -> None:
    """Give an interface a new address in place of its own.

    The new one comes first, so that no route is lost with the old one.
    """
    shown: list[dict[str, Any]] = json.loads(
        run("ip", "-j", "-4", "address", "show", "dev", interface)
    )
    known = [address for link in shown for address in link["addr_info"]]
    old = [f"{address['local']}/{address['prefixlen']}" for address in known]
    if not old:
        sys.exit(f"{interface} has no IPv4 address")
    change("ip", "address", "add", new, "dev", interface)
    run("sysctl", "-qw", f"net.ipv4.conf.{interface}.promote_secondaries=1")
    for address in old:
        change("ip", "address", "del", address, "dev", interface)


def wait(seconds: float) -> bool:
    """Wait, and return False if the job is stopped before."""
    return not signal.sigtimedwait(SIGNALS, seconds)


KINDS = {"drop": dropped, "down": down, "reboot": rebooted}


def main() -> None:
    """Run the job."""
    arguments = parse()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if arguments.kind == "none" or not wait(arguments.after_s):
        return
    collect_agent.send_stat(collect_agent.now(), began=1)
    if arguments.kind == "address":
        change_address(arguments.interface, arguments.new_address)
    elif arguments.kind == "restart":
        with without_vpns():
            pass
    else:
        undo("nft", "delete", "table", "inet", TABLE)  # of a job that was killed
        with KINDS[arguments.kind](arguments.interface):
            wait(arguments.duration_s)
    collect_agent.send_stat(collect_agent.now(), ended=1)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
