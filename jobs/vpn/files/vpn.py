# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job vpn: one end of a tunnel, whichever VPN it is, or what brings the ends together.

What differs from VPN to VPN is in vpn-configs/<kind>/ (its README.md is the contract). The private
key is made here, in a directory that only root can read, and never leaves this host; public keys
are exchanged over TCP with the other end before the tunnel is up. The remote network is unreachable
until then: nothing goes in clear.

    vpn.py               arguments, roles
    vpn_tunnel.py        a tunnel from its keys to its end, and a coordinator
    vpn_keys.py          the exchange of keys
    vpn_programs.py      the VPN's `up` and `down`
    vpn_proof.py         proof that it does what its vpn.json says
    vpn_statistics.py    counters, time of the set-up
    vpn_routes.py        networks and routes
    vpn_folders.py       vpn.json
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import collect_agent
from vpn_folders import NONE, describe, error_in_values, kinds, values_in
from vpn_routes import close_clear_path, leads_into_tunnel, open_clear_path

from openbach_jobs import limits
from openbach_jobs.command import ROUTES, need_process, wait_for
from openbach_jobs.data import data_folder

RUNS_AS_THREAD = True
"""Sign for the guest, which needs no process for this job (openbach_run/guest/threads.py)."""
CONFIGURATION = "/opt/openbach/agent/jobs/vpn/vpn_rstats_filter.conf"
EXCHANGE_PORT = 5999
"""TCP port on which the two ends exchange keys; tunnel N uses this port minus N."""
COORDINATOR_PORT = 6000
"""TCP port on which the ends exchange keys with the coordinator; tunnel N uses this port plus N."""
WAIT_LIMIT_S = 3600.0
"""Limit of the role `wait`: a tunnel that does not come up fails before, with its reason."""
SETUP, TIME = "setup", "time"
"""A value for this job, not for the scripts: the client measures how long the set-up takes."""
FREE = "free"
"""Name of a CPU whose packets cost nothing."""
CPUS = data_folder("cpus")
STOPS = {signal.SIGTERM, signal.SIGINT}
ROUTES_IPV6 = 0x400
"""RTMGRP_IPV6_ROUTE of linux/rtnetlink.h: messages about routes of IPv6."""
COORDINATOR_TUNNEL_IP = "10.200.{}.3"
TUNNEL_IPS = {"server": ("10.200.{}.1", "10.200.{}.2"), "client": ("10.200.{}.2", "10.200.{}.1"),
              "coordinator": (COORDINATOR_TUNNEL_IP, ""), "wait": ("", "")}  # fmt: skip
"""A role's own address in the tunnel, and the other end's."""
LIMITS = {
    "tunnel": (0, 63),
    "flow_port": (0, 65535),
    "users": (1, 100_000),
    "user_packet_bytes": (64, 9000),
    "user_rate_kbps": (1, 1_000_000),
    "user_rtt_ms": (1, 4000),
    "cpu_scale": (0.01, 1000),
}
Options = Mapping[str, tuple[Any, str | None]]
"""An option's default, by which its type is known, and its help."""
OPTIONS: Options = {
    "--local-network": (
        None, "network on this side (default: those of this host's other interfaces)"),
    "--tunnel-ip": (None, None),
    "--remote-tunnel-ip": (None, None),
    "--coordinator-ip": (
        None, "where the VPN's coordinator is, if it has one (default: at the server)"),
    "--tunnel": (0, "number among several"),
    "--flow-port": (0, "the tunnel is for the TCP flow with this server port only"),
    "--paths": ("", "this end's interfaces that a multipath VPN uses, parted by commas"),
    "--path-mtus": (
        "", "MTUs of the networks between the ends, parted by commas; inventory says nothing"),
    "--series-s": (0.0, "seconds between looks at the counters (0: none)"),
}  # fmt: skip
CPU_OPTIONS: Options = {
    "--cpu": (FREE, f"what packets cost this host: a profile of cpus, or {FREE}"),
    "--cpu-scale": (1.0, "times as slow as the profile's CPU"),
    "--users": (1, "of this end; packets of all but one only cost CPU time"),
    "--user-rate-kbps": (1000.0, "of inner packets towards each of these"),
    "--user-rtt-ms": (600.0, "their round trip: how fast a rate grows again"),
    "--user-packet-bytes": (1400, "length of each of these packets"),
}
VPN_OPTIONS: Options = {
    "--values": (NONE, "NAME=VALUE;NAME=VALUE (default: those of vpn.json)"),
}


def command_line() -> argparse.ArgumentParser:
    """Return the parser of this job's command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=[NONE, *kinds()])
    for name in ("local_ip", "remote_ip", "remote_network"):
        parser.add_argument(name)
    # Later options are in groups, as in transport_profile.
    for group, options in (
        (parser, OPTIONS),
        (parser.add_argument_group("this host's CPU, in virtual time"), CPU_OPTIONS),
        (parser.add_argument_group("the VPN's own options"), VPN_OPTIONS),
    ):
        for name, (default, text) in options.items():
            value_type = str if default is None else type(default)
            group.add_argument(name, type=value_type, default=default, help=text)
    parser.add_argument("role", choices=sorted(TUNNEL_IPS))
    return parser


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line, and what follows from them."""
    parser = command_line()
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    if arguments.series_s and not 0.01 <= arguments.series_s <= 3600:
        parser.error(f"series_s is {arguments.series_s:g}: 0, or from 0.01 to 3600 s")
    for mtu in filter(None, arguments.path_mtus.split(",")):
        if mtu != "inventory" and not mtu.isdecimal():
            parser.error(f"path_mtus has {mtu}: numbers of bytes or inventory, parted by commas")
    if arguments.cpu == FREE:
        arguments.cpu = None
    elif not (CPUS / f"{arguments.cpu}.json").is_file():
        profiles = ", ".join(sorted(file.stem for file in CPUS.glob("*.json")))
        parser.error(f"cpu is {arguments.cpu}: {FREE}, or one of {profiles}")
    try:
        arguments.values = values_in(arguments.values, arguments.role)
    except ValueError as error:
        parser.error(f"values: {error}")
    is_client = arguments.role == "client"
    arguments.is_timed = arguments.values.pop(SETUP, NONE) == TIME and is_client
    arguments.device = f"{'hub' if arguments.role == 'coordinator' else 'vpn'}{arguments.tunnel}"
    arguments.exchange_port = EXCHANGE_PORT - arguments.tunnel
    arguments.coordinator_port = COORDINATOR_PORT + arguments.tunnel
    arguments.coordinator_tunnel_ip = COORDINATOR_TUNNEL_IP.format(arguments.tunnel)
    arguments.in_ipv6 = ":" in arguments.remote_network
    arguments.over_ipv6 = ":" in arguments.local_ip
    arguments.ip = ("ip", "-6") if arguments.in_ipv6 else ("ip",)
    own_ip, other_ip = (
        address_in_tunnel(address.format(arguments.tunnel), arguments.in_ipv6)
        for address in TUNNEL_IPS[arguments.role]
    )
    arguments.tunnel_ip = arguments.tunnel_ip or own_ip
    arguments.remote_tunnel_ip = arguments.remote_tunnel_ip or other_ip
    return arguments


def address_in_tunnel(ipv4: str, in_ipv6: bool) -> str:
    """Return an address in the tunnel; in IPv6 it ends with that of IPv4."""
    return str(ip_address(f"fd00::{ipv4}")) if in_ipv6 and ipv4 else ipv4


def go_in_clear(arguments: argparse.Namespace) -> None:
    """Let packets go without a tunnel, until the job is stopped."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    if arguments.role != "coordinator":
        open_clear_path(arguments)  # it is still closed if an earlier tunnel has failed
    signal.sigwait(STOPS)


def wait(arguments: argparse.Namespace) -> None:
    """Wait until packets for the remote network go into the tunnel that another job makes."""
    through = f"{arguments.kind} ({arguments.device})"
    wait_for(
        f"{arguments.remote_network} is not reached through {through}",
        lambda: leads_into_tunnel(arguments),
        WAIT_LIMIT_S,
        told_by=ROUTES_IPV6 if arguments.in_ipv6 else ROUTES,
    )


def play(arguments: argparse.Namespace) -> None:
    """Be an end of the tunnel, or the coordinator of its ends, until the job is stopped."""
    if arguments.values and (wrong := error_in_values(arguments.kind, arguments.values)):
        sys.exit(wrong)
    need_process()
    import vpn_tunnel  # not above: to read a file takes virtual time
    from vpn_programs import BLOCKED

    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    os.umask(0o077)
    if arguments.role == "coordinator":
        vpn = describe(arguments.kind, arguments.values)
        if not vpn["coordinator"]:
            signal.sigwait(STOPS)
            return
        with tempfile.TemporaryDirectory(prefix="vpn-") as name:
            vpn_tunnel.coordinate(arguments, vpn, Path(name))
        return
    close_clear_path(arguments)
    with tempfile.TemporaryDirectory(prefix="vpn-") as name:
        vpn_tunnel.tunnel(arguments, Path(name))
    open_clear_path(arguments)  # not after a failure: then nothing may go in clear


def main() -> None:
    """Run the job."""
    arguments = parse()
    if arguments.kind != NONE:
        (wait if arguments.role == "wait" else play)(arguments)
    elif arguments.role != "wait":
        go_in_clear(arguments)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
