# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job vpn: one end of a tunnel, whichever VPN it is, or what brings the ends together.

What differs from VPN to VPN is in vpn-configs/<kind>/ (its README.md is the contract). The private
key is made here, in a directory that only root can read, and never leaves this host; public keys
are exchanged over TCP with the other end before the tunnel is up. The remote network is unreachable
until then: nothing goes in clear.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import syslog
import tempfile
import threading
import time
from array import array
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Any, NamedTuple

import collect_agent
from tunnel_mtu import MtuError, fitting_mtu
from vpn_folders import (
    NONE,
    cipher_of,
    describe,
    kinds,
    last_lines,
    not_had,
    said_in,
    scripts,
    values_in,
    warnings_of,
)

from openbach_jobs import limits
from openbach_jobs.command import (
    LIMIT_S,
    LINKS,
    ROUTES,
    TCP_INFO_BYTES,
    change,
    interface_mtu,
    need_process,
    record,
    run,
    segment_bytes,
    started,
    undo,
    wait_for,
)
from openbach_jobs.data import data_folder

RUNS_AS_THREAD = True
"""As openbach_run/guest/threads.py has it; an agent starts a process."""
CONFIGURATION = "/opt/openbach/agent/jobs/vpn/vpn_rstats_filter.conf"
PROGRAMS = "/usr/local/sbin:/opt/openbach-run/bin"
"""Where programs may stand that are in no Debian package: the host's own, and those that we have
built. Besides the folder `bin` of the VPN's own folder, where the virtual engine puts the programs
of its user."""
PASSED = ("QLOGDIR",)
"""What a VPN's scripts get of this job's own environment: where programs on QUIC keep qlog."""
HOST_CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
EXCHANGE_PORT = 5999
"""Of tunnel 0; each further one has the port below."""
COORDINATOR_PORT = 6000
"""Where the ends exchange keys with the coordinator of tunnel 0; each further one has the port
above."""
EXCHANGE_LIMIT_S = 180.0
"""How long an end's keys are waited for: the longest path takes 20 s there and back, and the other
end may exchange keys with a coordinator first, in three round trips."""
RETRY_S = 0.2
HANDSHAKE_ROUND_TRIPS = 30
"""What a VPN may take for its handshake and a first packet, losses included, where that is more
than LIMIT_S."""
SERVER_LATER_S = 10
"""What the server waits longer: of a handshake that fails the client tells the reason first."""
FIRST_PINGS, PING_S = 3, 3
"""Of the first pings through a tunnel each is waited for as long; after these, and on paths that
take longer than half of it, ping goes on sending and takes any answer."""
AGAIN = " > /dev/null; do sleep 1; done"
"""What follows a command in the record that is repeated until it succeeds."""
UNANSWERED = 1
"""Exit code of a ping that has sent something; one that could not has another."""
WAIT_LIMIT_S = 3600.0
"""Of the role `wait`: a tunnel that does not come up fails before, with its reason."""
FLOW_TABLE = 200
"""Routing table of tunnel 0 if it is for one flow only; each further one has the next."""
FLOW_PRIORITY = 1000
ROUTE_MARK = 100
"""Protocol number of tunnel 0's route to the remote network if the VPN has no interface; each
further one has the next."""
STOP_GRACE_S = 5.0
PUBLIC_LIMIT = 16 << 20
"""Characters of public material that an end takes from the other; keys of Classic McEliece have
1 MB."""
TRANSLATED = re.compile(r"seen as ([0-9.]+)\n")
"""What the server's public material begins with if a NAT has translated the client's address."""
UNSUPPORTED = os.EX_UNAVAILABLE
"""Exit code of an `up` that finds that this host cannot run its VPN, and has said why."""
SETUP, TIME = "setup", "time"
"""A value for this job, not for the scripts: the set-up is timed, by pings each FREQUENT_S."""
FREQUENT_S = 0.02
SO_TIMESTAMPNS, ETH_P_ALL = 35, 0x0003
"""Of linux/socket.h and linux/if_ether.h; Python has no name for them."""
DESTINATION = {4: slice(16, 20), 16: slice(24, 40)}
"""Place in an IP header by the length of an address."""
FREE = "free"
"""A host whose CPU costs nothing."""
CPUS = data_folder("cpus")
STREAMS = ("TCP", "MPTCP", "TLS")
"""Carriers whose congestion control is that of the tunnel; beside others a connection may be there
for control."""
ENDS = 2
BY_KERNEL = ("wireguard", "ovpn", "xfrm")
"""Types of interfaces, as `ip -d link` calls them, whose packets the kernel encrypts."""
ETHERNET_MTU = 1500
"""Where nothing is known of the way out."""
TCPI_RTT_AT = 68
"""Where struct tcp_info of linux/tcp.h has the round-trip time in µs."""
IP_MTU = 14
"""linux/in.h"""
HEADERS_BYTES = {socket.AF_INET: 40, socket.AF_INET6: 60}
"""Of IP and TCP."""
SIOCETHTOOL, ETHTOOL_GDRVINFO = 0x8946, 3
"""Of linux/sockios.h and linux/ethtool.h; struct ethtool_drvinfo has the driver's name at 4."""
Networks = list[tuple[str, IPv4Network | IPv6Network]]


class Way(NamedTuple):
    """The path to the other end, as TCP has found it.

    The MTU is the smaller one of both ends' interfaces.
    """

    rtt_s: float
    mtu: int
    seen_ip: str | None = None
    """The client's address as the server sees it, where a NAT has translated it."""


LIMITS = {
    "tunnel": (0, 63),
    "flow_port": (0, 65535),
    "users": (1, 100_000),
    "user_packet_bytes": (64, 9000),
    "user_rate_kbps": (1, 1_000_000),
    "user_rtt_ms": (1, 4000),
    "cpu_scale": (0.01, 1000),
}
SIGNALS = {signal.SIGTERM, signal.SIGINT}
WATCHED = {signal.SIGCHLD, signal.SIGIO}
FALL, RISE = signal.SIGUSR1, signal.SIGUSR2
"""Orders of the job outage: the VPN ends, with all that it has made; it starts again, with the same
keys."""
BLOCKED = {*SIGNALS, *WATCHED, FALL, RISE}
RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR, ROUTES_IPV6 = 0x10, 0x100, 0x400
"""Groups of netlink messages about addresses, and routes of IPv6 (linux/rtnetlink.h)."""
PID_FILE = "/var/run/openbach-{}.pid"
"""Of the job that has the tunnel of that interface, for orders."""
COORDINATOR_TUNNEL_IP = "10.200.{}.3"
TUNNEL_IPS = {"server": ("10.200.{}.1", "10.200.{}.2"), "client": ("10.200.{}.2", "10.200.{}.1"),
              "coordinator": (COORDINATOR_TUNNEL_IP, ""), "wait": ("", "")}  # fmt: skip


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=["none", *kinds()])
    parser.add_argument("local_ip")
    parser.add_argument("remote_ip")
    parser.add_argument("remote_network")
    parser.add_argument(
        "--local-network",
        help="network on this side (default: those of this host's other interfaces)",
    )
    parser.add_argument("--tunnel-ip")
    parser.add_argument("--remote-tunnel-ip")
    parser.add_argument(
        "--coordinator-ip",
        help="where the VPN's coordinator is, if it has one (default: at the server)",
    )
    parser.add_argument("--tunnel", type=int, default=0, help="number among several")
    parser.add_argument(
        "--flow-port",
        type=int,
        default=0,
        help="the tunnel is for the TCP flow with this server port only",
    )
    parser.add_argument(
        "--paths",
        default="",
        help="this end's interfaces that a multipath VPN uses, parted by commas",
    )
    parser.add_argument(
        "--path-mtus",
        default="",
        help="MTUs of the networks between the ends, parted by commas; inventory says nothing",
    )
    parser.add_argument(
        "--series-s",
        type=float,
        default=0.0,
        help="seconds between looks at the counters (0: none)",
    )
    cpu = parser.add_argument_group("this host's CPU, in virtual time")
    cpu.add_argument(
        "--cpu", default=FREE, help=f"what packets cost this host: a profile of cpus, or {FREE}"
    )
    cpu.add_argument(
        "--cpu-scale", type=float, default=1.0, help="times as slow as the profile's CPU"
    )
    cpu.add_argument(
        "--users",
        type=int,
        default=1,
        help="of this end; packets of all but one only cost CPU time",
    )
    cpu.add_argument(
        "--user-rate-kbps",
        type=float,
        default=1000.0,
        help="of inner packets towards each of these",
    )
    cpu.add_argument(
        "--user-rtt-ms",
        type=float,
        default=600.0,
        help="their round trip: how fast a rate grows again",
    )
    cpu.add_argument(
        "--user-packet-bytes", type=int, default=1400, help="length of each of these packets"
    )
    own_values = parser.add_argument_group(
        "the VPN's own options"
    )  # of a group: as in transport_profile
    own_values.add_argument(
        "--values", default=NONE, help="NAME=VALUE;NAME=VALUE (default: those of vpn.json)"
    )
    parser.add_argument("role", choices=sorted(TUNNEL_IPS))
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    if arguments.series_s and not 0.01 <= arguments.series_s <= 3600:
        parser.error(f"series_s is {arguments.series_s:g}: 0, or from 0.01 to 3600 s")
    if wrong := [
        mtu
        for mtu in filter(None, arguments.path_mtus.split(","))
        if mtu != "inventory" and not mtu.isdecimal()
    ]:
        parser.error(f"path_mtus has {wrong[0]}: numbers of bytes or inventory, parted by commas")
    if arguments.cpu != FREE and not (CPUS / f"{arguments.cpu}.json").is_file():
        parser.error(
            f"cpu is {arguments.cpu}: {FREE}, or one of"
            f" {', '.join(sorted(one.stem for one in CPUS.glob('*.json')))}"
        )
    try:
        arguments.values = values_in(arguments.values, arguments.role)
        arguments.setup = arguments.values.pop(SETUP, NONE)
    except ValueError as error:
        parser.error(f"values: {error}")
    own, other = (address.format(arguments.tunnel) for address in TUNNEL_IPS[arguments.role])
    arguments.device = f"{'hub' if arguments.role == 'coordinator' else 'vpn'}{arguments.tunnel}"
    arguments.exchange_port = EXCHANGE_PORT - arguments.tunnel
    arguments.coordinator_port = COORDINATOR_PORT + arguments.tunnel
    arguments.in_ipv6, arguments.over_ipv6 = (
        ":" in address for address in (arguments.remote_network, arguments.local_ip)
    )
    arguments.ip = ("ip", "-6") if arguments.in_ipv6 else ("ip",)
    if arguments.in_ipv6:
        own, other = (one and str(ip_address(f"fd00::{one}")) for one in (own, other))
    arguments.tunnel_ip = arguments.tunnel_ip or own
    arguments.remote_tunnel_ip = arguments.remote_tunnel_ip or other
    return arguments


def exchange(arguments: argparse.Namespace, public: str) -> tuple[str, Way]:
    """Give the other end our public material; return its own, and what TCP has learnt of the path.

    The server listens, the client connects. The server tells a client whose address has been
    translated, and both know.
    """
    seen_ip, ours = None, public
    if arguments.role == "server":
        with listening(arguments.local_ip, arguments.exchange_port) as listener:
            listener.settimeout(EXCHANGE_LIMIT_S)
            try:
                connection, (peer_ip, *_) = listener.accept()
            except TimeoutError:
                port, limit_s = arguments.exchange_port, EXCHANGE_LIMIT_S
                sys.exit(f"no VPN client has connected to port {port} after {limit_s:g} s")
        if peer_ip != arguments.remote_ip:
            seen_ip, ours = peer_ip, f"seen as {peer_ip}\n{public}"
    else:
        connection = connected("the VPN server", arguments.remote_ip, arguments.exchange_port)
    with connection.dup() as same:  # `swap` closes its own
        theirs = swap(connection, ours)
        if arguments.role == "client" and (told := TRANSLATED.match(theirs)):
            seen_ip, theirs = told[1], theirs[told.end() :]
        return theirs, learnt(same)._replace(seen_ip=seen_ip)


def family_of(address: str) -> socket.AddressFamily:
    """Return the family of an address, of IPv4 or IPv6."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def listening(address: str, port: int) -> socket.socket:
    """Return a socket that listens on a port of an address."""
    return socket.create_server((address, port), family=family_of(address))


def connected(whom: str, address: str, port: int) -> socket.socket:
    """Return a connection to a port, as soon as somebody answers there."""

    def connect() -> socket.socket | None:
        try:
            return socket.create_connection((address, port), timeout=LIMIT_S)
        except OSError:
            return None

    return wait_for(
        f"{whom} {address} does not answer on port {port}", connect, LIMIT_S, retry_s=RETRY_S
    )


def exchange_with_ends(arguments: argparse.Namespace, public: str) -> list[tuple[str, str]]:
    """Give both ends the coordinator's public material; return their addresses and theirs."""
    received: list[tuple[str, str]] = []
    with listening(arguments.local_ip, arguments.coordinator_port) as listener:
        listener.settimeout(EXCHANGE_LIMIT_S)
        while len(received) < ENDS:
            try:
                connection, (address, *_) = listener.accept()
            except TimeoutError:
                came = f"{len(received)} of {ENDS} ends of {arguments.kind}"
                port, limit_s = arguments.coordinator_port, EXCHANGE_LIMIT_S
                sys.exit(f"{came} connected to port {port} of the coordinator in {limit_s:g} s")
            received.append((address, swap(connection, public)))
    return received


def swap(connection: socket.socket, public: str) -> str:
    """Send one line of JSON and receive one, at the same time.

    If both ends first wrote what fits no buffer, neither would go on.
    """
    connection.settimeout(EXCHANGE_LIMIT_S)
    failed: list[OSError] = []

    def send() -> None:
        try:
            with connection.makefile("w") as lines:
                lines.write(json.dumps(public) + "\n")
        except OSError as error:
            failed.append(error)

    received = ""
    with connection, connection.makefile("r") as lines:
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        try:
            received = lines.readline(PUBLIC_LIMIT)
        except (OSError, UnicodeDecodeError) as error:
            sys.exit(f"the exchange of public keys with the other end failed: {error}")
        sender.join()
    if failed:
        sys.exit(f"the exchange of public keys with the other end failed: {failed[0]}")
    if not received:
        sys.exit("the other end closed the exchange of public keys")
    try:
        public_of_other = json.loads(received)
    except ValueError:
        public_of_other = None
    if not isinstance(public_of_other, str):
        sys.exit(
            f"the other end sent no public keys, or more than {PUBLIC_LIMIT >> 20} MiB:"
            f" {received[:60]!r}"
        )
    return public_of_other


def learnt(connection: socket.socket) -> Way:
    """Return what a TCP connection has learnt of the path: RTT and largest packet.

    Time-outs and the tunnel's MTU follow from them.
    """
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    (rtt_us,) = struct.unpack_from("=I", told, TCPI_RTT_AT)
    return Way(rtt_us / 1e6, segment_bytes(connection) + HEADERS_BYTES[connection.family])


def own_networks(arguments: argparse.Namespace) -> Networks:
    """Return the interfaces, other than tunnels, and the networks that they are in.

    The kernel's table of routes has them.
    """
    networks: Networks = [(name, to) for name, to, via in main_table() if via == "0.0.0.0"]
    if arguments.in_ipv6 or arguments.over_ipv6:
        import in_ipv6  # not above: to read a file takes virtual time

        networks += in_ipv6.own_networks()
    return [(name, to) for name, to in networks if not name.startswith(("*", "vpn"))]


def main_table() -> list[tuple[str, IPv4Network, str]]:
    """Return the routes of the kernel's main table: interface, network and gateway.

    The interface is `*`, and the gateway 0.0.0.0, where there is none.
    """
    with open("/proc/thread-self/net/route") as table:
        lines = [line.split() for line in table][1:]
    return [
        (name, IPv4Network((_address(to), _address(mask))), _address(via))
        for name, to, via, _, _, _, _, mask, *_ in lines
    ]


def _address(shown: str) -> str:
    """Return an address that /proc/net/route shows: a number of this machine, in hexadecimal."""
    return socket.inet_ntoa(struct.pack("=I", int(shown, 16)))


def local_networks(arguments: argparse.Namespace, networks: Networks) -> str:
    """Return the networks behind this end.

    They are those given, or else those of the interfaces that do not lead to the other end.
    """
    own = ip_address(arguments.local_ip)
    leading = {name for name, network in networks if own in network}
    return arguments.local_network or " ".join(
        str(network)
        for name, network in networks
        if name not in leading and (network.version == 6) == arguments.in_ipv6
    )


def own_mtu(arguments: argparse.Namespace, networks: Networks) -> int:
    """Return the smallest MTU, in bytes, of the way to the other end.

    It is that of the interfaces that lead there and of the networks between, as the scenario states
    them.
    """
    own = ip_address(arguments.local_ip)
    there = [interface_mtu(name) for name, net in networks if own in net]
    told = [int(mtu) for mtu in arguments.path_mtus.split(",") if mtu.isdecimal()]
    return min([*there, *told], default=ETHERNET_MTU)


def check_host(arguments: argparse.Namespace, vpn: dict[str, Any], path: str) -> None:
    """End the job when a command that the VPN needs is missing."""
    missing = [command for command in vpn["commands"] if not shutil.which(command, path=path)]
    if missing:
        recipe = vpn["programs"].get(missing[0], {})
        how = "the job's playbook (install_vpn.yml) installs it, if the distribution has it"
        if recipe.keys() & {"crate", "go", "source"}:
            how = (
                "the job's playbook (install_vpn.yml) builds it if satvpn_built_vpns names"
                f" {arguments.kind}"
            )
        elif "host" in recipe:
            how = f"no package has it: put it into {PROGRAMS.partition(':')[0]} ({recipe['host']})"
        sys.exit(f"this host cannot run {arguments.kind}: there is no command {missing[0]}; {how}")


def clear_path(arguments: argparse.Namespace) -> list[str]:
    """Return the route that holds packets back while there is no tunnel.

    Each tunnel has its own.
    """
    # Behind the tunnel's route, which has 0 in IPv4 and 1024 in IPv6.
    metric = str((2000 if arguments.in_ipv6 else 1000) + arguments.tunnel)
    table = ["table", flow_table(arguments)] if arguments.flow_port else []
    return ["unreachable", arguments.remote_network, "metric", metric, *table]


def flow_table(arguments: argparse.Namespace) -> str:
    """Return the number of the routing table of this tunnel's flow."""
    return str(FLOW_TABLE + arguments.tunnel)


def flow_rule(arguments: argparse.Namespace) -> list[str]:
    """Return the rule that sends the flow to the tunnel's own routing table.

    Its port is the destination's on the client's side.
    """
    side = "dport" if arguments.role == "client" else "sport"
    chosen = ["ipproto", "tcp", side, str(arguments.flow_port), "to", arguments.remote_network]
    return [
        "priority",
        str(FLOW_PRIORITY + arguments.tunnel),
        *chosen,
        "lookup",
        flow_table(arguments),
    ]


def close_clear_path(arguments: argparse.Namespace) -> None:
    """Make the remote network unreachable but for the tunnel."""
    change(*arguments.ip, "route", "replace", *clear_path(arguments))
    if arguments.flow_port:
        undo(
            *arguments.ip, "rule", "del", *flow_rule(arguments)
        )  # an earlier tunnel that failed has left it
        change(*arguments.ip, "rule", "add", *flow_rule(arguments))


def open_clear_path(arguments: argparse.Namespace) -> None:
    """Undo what keeps packets from going without a tunnel."""
    if arguments.flow_port:
        undo(*arguments.ip, "rule", "del", *flow_rule(arguments))
    undo(*arguments.ip, "route", "del", *clear_path(arguments))


def unblock_signals() -> None:
    """Let a program that this job starts be ended by signals."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)


def pinged(
    arguments: argparse.Namespace,
    source: str,
    limit_s: float | None,
    daemon: subprocess.Popen[bytes],
    interval_s: float = PING_S + RETRY_S,
) -> subprocess.CompletedProcess[str]:
    """One ping through the tunnel.

    With a limit it goes on sending until there is an answer, and ends sooner if the daemon does.
    """
    ping, to = ["ping", "-n", "-c", "1"], ["-I", source, arguments.remote_tunnel_ip]
    if limit_s is None:
        return subprocess.run(
            [*ping, "-W", f"{PING_S}", *to], check=False, capture_output=True, text=True
        )
    command = [*ping, "-i", f"{interval_s:g}", "-w", str(round(limit_s)), *to]
    with started(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as sends:
        while sends.poll() is None and not daemon.poll():
            signal.sigtimedwait({signal.SIGCHLD}, PING_S)
        sends.terminate()
        said = sends.communicate()[0]
        return subprocess.CompletedProcess(command, sends.returncode, said)


def answer_of(done: subprocess.CompletedProcess[str]) -> str | None:
    """Return the round-trip time in ms, as ping says it; None if nothing came back."""
    answered = re.search(r"time=([\d.]+) ms", done.stdout)
    return answered[1] if done.returncode == 0 and answered else None


def inner_mtu(arguments: argparse.Namespace, vpn: Mapping[str, Any], path_mtu: int) -> int:
    """Return the tunnel's MTU, whose packets fit the path in one piece.

    Ends the job if there is none.
    """
    # `framing` and `overhead_bytes` are with an IP header of 20 bytes; IPv6's has 40.
    room = path_mtu - (20 if arguments.over_ipv6 and vpn["overhead_bytes"] else 0)
    try:
        return fitting_mtu(vpn, room)
    except MtuError as error:
        sys.exit(f"{arguments.kind}: {error}")


def behind_nat(arguments: argparse.Namespace, vpn: Mapping[str, Any]) -> dict[str, Any]:
    """Return the VPN as it is where a NAT translates the client's address.

    Ends the job if it does not work there.
    """
    differs = vpn["behind_nat"]
    if isinstance(differs, str):
        sys.exit(f"{arguments.kind} does not come up behind a NAT: {differs}")
    return {**vpn, **differs}


def check_round_trip(arguments: argparse.Namespace, vpn: Mapping[str, Any], rtt_s: float) -> None:
    """End the job if the VPN's handshake cannot cross a path that takes so long."""
    if vpn["rtt_max_s"] and rtt_s > vpn["rtt_max_s"]:
        sys.exit(
            f"{arguments.kind} does not come up on a path whose round trip is {rtt_s:.2f} s: "
            f"above {vpn['rtt_max_s']:g} s {vpn['rtt_max_because']}"
        )


def carrier_congestion_control(arguments: argparse.Namespace) -> str | None:
    """Return the congestion control of the tunnel's own connection; None if it is not TCP.

    Ends the job if it is not that of this host.
    """
    ends = arguments.local_ip, arguments.remote_ip
    own, other = (f"[{one}]" if arguments.over_ipv6 else one for one in ends)
    shown = run("ss", "-tinHO", "state", "established", "src", own, "dst", other)
    if not shown:
        return None
    wanted = HOST_CONGESTION_CONTROL.read_text().strip()
    if wanted not in shown.split():
        sys.exit(
            f"the tunnel's connection has not the congestion control of this host, {wanted}:"
            f" {shown.strip()}"
        )
    return wanted


def is_there(device: str) -> bool:
    """Return whether this host has an interface of that name."""
    return Path(f"/sys/class/net/{device}").exists()


def is_local(address: str) -> bool:
    """Return whether an address is one of this host's."""
    try:
        with socket.socket(family_of(address), socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def counted(device: str) -> dict[str, dict[str, int]]:
    """Return packets and bytes of the counters in the VPN's nftables table; {} if there is none.

    `up` makes them (lib.sh).
    """
    command = ["nft", "-j", "list", "counters", "table", "inet", device]
    shown = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    objects = json.loads(shown or "{}").get("nftables", [])
    return {one["counter"]["name"]: one["counter"] for one in objects if "counter" in one}


def report(arguments: argparse.Namespace, vpn: Mapping[str, Any], log: Path) -> None:
    """Send what went through the tunnel, and the number of handshakes if anything tells it.

    The daemon or a counter may. The counters are the interface's. A VPN whose interface has none,
    or whose interface goes with its daemon (which an agent ends first), has those of nftables. One
    that ends TCP has both: what it carries as streams does not pass the interface.
    """
    known: dict[str, Any] = {}
    has_counters = vpn["device"] and is_there(arguments.device)
    is_told = has_counters and vpn["handshake_line"] and not vpn["ends_tcp"]
    counters = {} if is_told else counted(arguments.device)
    if has_counters:
        (link,) = json.loads(run("ip", "-s", "-j", "link", "show", arguments.device))
        for side in ("rx", "tx"):
            known |= {
                f"{side}_{unit}": link["stats64"][side][unit] for unit in ("bytes", "packets")
            }
        known["tx_dropped"] = link["stats64"]["tx"]["dropped"]
    if vpn["ends_tcp"] or not has_counters:
        for side in sorted({"rx", "tx"} & counters.keys()):
            for unit in ("bytes", "packets"):
                name = f"{side}_{unit}"
                known[name] = known.get(name, 0) + counters[side][unit]
    if "handshakes" in counters:
        known["handshakes"] = counters["handshakes"]["packets"]
    elif vpn["handshake_line"]:
        known["handshakes"] = len(
            re.findall(vpn["handshake_line"], log.read_text(errors="replace"))
        )
    if known:
        collect_agent.send_stat(collect_agent.now(), **known)


def coordinator_ip(arguments: argparse.Namespace) -> str:
    """Return the address of the VPN's coordinator."""
    at_server = arguments.remote_ip if arguments.role == "client" else arguments.local_ip
    return str(arguments.coordinator_ip or at_server)


def environment_of(
    arguments: argparse.Namespace, vpn: dict[str, Any], directory: Path, networks: Networks
) -> dict[str, str]:
    """Return the environment of the VPN's scripts."""
    coordinator = {
        "VPN_COORDINATOR_IP": coordinator_ip(arguments),
        "VPN_COORDINATOR_TUNNEL_IP": COORDINATOR_TUNNEL_IP.format(arguments.tunnel),
        "VPN_COORDINATOR_PUBLIC": str(directory / "coordinator_public"),
    }
    return {
        "PATH": (
            f"{os.environ.get('PATH', os.defpath)}:{PROGRAMS}:{scripts(arguments.kind) / 'bin'}"
        ),
        "VPN_DIR": str(directory),
        "VPN_ROLE": arguments.role,
        "VPN_DEVICE": arguments.device,
        "VPN_TUNNEL": str(arguments.tunnel),
        "VPN_LOCAL_IP": arguments.local_ip,
        "VPN_REMOTE_IP": arguments.remote_ip,
        "VPN_LOCAL_NETWORK": local_networks(arguments, networks),
        "VPN_REMOTE_NETWORK": arguments.remote_network,
        "VPN_TUNNEL_IP": arguments.tunnel_ip,
        "VPN_REMOTE_TUNNEL_IP": arguments.remote_tunnel_ip,
        "VPN_REMOTE_PUBLIC": str(directory / "remote_public"),
        "VPN_MTU": str(vpn["inner_mtu"]),
        "VPN_PATHS": arguments.paths.replace(",", " "),
        "VPN_RTT_S": "1",
        **{name: os.environ[name] for name in PASSED if name in os.environ},
        **(coordinator if vpn["coordinator"] else {}),
        **{f"VPN_{name.upper()}": str(value) for name, value in vpn["values"].items()},
    }


def way_in(arguments: argparse.Namespace, has_device: bool) -> list[str]:
    """Return the route to the remote network.

    It leads into the tunnel's interface. Of a VPN without one it leads to where the other end is,
    as its policies take the packets there. The marker tells that route from others.
    """
    if has_device:
        return ["via", arguments.remote_tunnel_ip, "dev", arguments.device]
    (out,) = json.loads(run("ip", "-j", "route", "get", arguments.remote_ip))
    gateway = ["via", out["gateway"]] if "gateway" in out else []
    return [*gateway, "dev", out["dev"], "protocol", route_mark(arguments)]


def tunnel(arguments: argparse.Namespace, directory: Path) -> None:
    """Run one end of a tunnel until the job is stopped."""
    start_s = time.monotonic()
    vpn, networks = describe(arguments.kind, arguments.values), own_networks(arguments)
    environment = environment_of(arguments, vpn, directory, networks)
    check_host(arguments, vpn, environment["PATH"])
    cpu = cpu_of(arguments, vpn)
    with ExitStack() as at_end:
        coordinator = started_coordinator(arguments, vpn, at_end)
        path = exchange_keys(arguments, scripts(arguments.kind), environment)
        if path.seen_ip:
            vpn = behind_nat(arguments, vpn)
            if arguments.role == "server":
                arguments.remote_ip = environment["VPN_REMOTE_SEEN_IP"] = path.seen_ip
        rtt_s = path.rtt_s
        check_round_trip(arguments, vpn, rtt_s)
        environment["VPN_RTT_S"] = str(max(math.ceil(rtt_s), 1))
        environment["VPN_MTU"] = str(
            inner_mtu(arguments, vpn, min(path.mtu, own_mtu(arguments, networks)))
        )
        setup_s: float | None = time.monotonic() - start_s
        while life(arguments, vpn, environment, coordinator, cpu, setup_s, rtt_s) == FALL:
            if signal.sigwait({*SIGNALS, RISE}) != RISE:
                break
            setup_s = None


def sent_packets(paths: str) -> dict[str, int]:
    """Return how many packets each of the interfaces, parted by commas, has sent."""
    counter = "/sys/class/net/{}/statistics/tx_packets"
    return {
        path: int(Path(counter.format(path)).read_text()) for path in filter(None, paths.split(","))
    }


def proven(
    arguments: argparse.Namespace, vpn: Mapping[str, Any], log: Path, before: Mapping[str, int]
) -> str:
    """Return who carries the packets: `kernel (wireguard)`. Ends the job if a claim is not true.

    `before` are the `sent_packets` before the VPN began.
    """
    carrier = carried_by(arguments, vpn, log)
    if vpn["multipath"]:
        paths = arguments.paths or "Multipath TCP"
        missing = f"{arguments.kind} is a multipath VPN and does not use {paths}"
        has_paths = partial(uses_paths, vpn["carrier"], arguments, before)
        wait_for(missing, has_paths, evidence=lambda: last_lines(log))
    if vpn["post_quantum"]:
        check_key(arguments, vpn, log)
    return carrier


def carried_by(arguments: argparse.Namespace, vpn: Mapping[str, Any], log: Path) -> str:
    """Return who carries the packets, by the type of the interface, or the states of IPsec."""
    claimed, found = vpn["runs_in"], "no state of IPsec"
    if vpn["device"]:
        found = type_of(arguments.device)
    elif arguments.remote_ip in run("ip", "xfrm", "state").split():
        found = "xfrm"
    wanted = vpn["device_type"] if vpn["device"] else "xfrm"
    by_kernel = found == wanted if wanted else found not in ("tun", "none")
    if (claimed == "kernel" and not by_kernel) or (claimed == "user space" and found in BY_KERNEL):
        why = "".join(f"\n{line}" for line in warnings_of({"usual_warnings": None}, log))
        sys.exit(
            f"{arguments.kind}: its packets should be carried by the {claimed}, but"
            f" {arguments.device} is of the type {found}{f', not {wanted}' if wanted else ''}{why}"
        )
    return f"{claimed or ('kernel' if found in BY_KERNEL else 'user space')} ({found})"


def type_of(device: str) -> str:
    """Return the type of an interface, as `ip -d link` calls it.

    By an ioctl, as ethtool asks: a program that starts would move packets in virtual time.
    """
    about = array("B", struct.pack("=I192x", ETHTOOL_GDRVINFO))
    request = struct.pack("16sP", device.encode(), about.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        try:
            fcntl.ioctl(asks, SIOCETHTOOL, request)
        except OSError:  # a kernel whose ethtool does not know them
            (link,) = json.loads(run("ip", "-d", "-j", "link", "show", device))
            return str(link.get("linkinfo", {}).get("info_kind", "none"))
    return bytes(about[4:36]).rstrip(b"\0").decode()


def uses_paths(
    carrier: str, arguments: argparse.Namespace, before: Mapping[str, int]
) -> bool | None:
    """Return whether a multipath VPN uses each of its paths, None if not.

    Multipath TCP has a subflow on each; of any other VPN each path's interface has sent packets.
    """
    if carrier == "MPTCP":
        shown = run("ss", "-tinHO", "state", "established")
        subflows = {line.split()[2] for line in shown.splitlines() if "tcp-ulp-mptcp" in line}
        return len(subflows) >= max(len(before), 1) or None
    now = sent_packets(arguments.paths)
    return all(now[path] > sent for path, sent in before.items()) or None


def check_key(arguments: argparse.Namespace, vpn: Mapping[str, Any], log: Path) -> None:
    """End the job if nothing shows that a post-quantum key is in force.

    A packet that has gone through WireGuard proves that both ends have the same pre-shared key.
    """
    line = vpn["post_quantum_line"]
    shown = said_in(log) if line else run("wg", "show", arguments.device, "preshared-keys")
    if not re.search(line or r"\t(?!\(none\))", shown):
        why = last_lines(log) if line else f": {arguments.device} has no pre-shared key"
        sys.exit(f"{arguments.kind}: its post-quantum key is not in force{why}")


class Running:
    """A VPN between its `up` and its `down`: what proves that it works, and what it has counted."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        vpn: Mapping[str, Any],
        daemon: subprocess.Popen[Any],
        log: Path,
        rtt_s: float,
    ) -> None:
        """Keep what belongs to this life of the VPN; `rtt_s` is the round trip of the path."""
        self.arguments = arguments
        self.vpn = vpn
        self.daemon = daemon
        self.log = log
        self.rtt_s = rtt_s
        later_s = SERVER_LATER_S if arguments.role == "server" else 0
        self.limit_s = max(LIMIT_S, HANDSHAKE_ROUND_TRIPS * rtt_s) + later_s
        self.source: str = arguments.device if vpn["device"] else arguments.tunnel_ip
        self.unanswered = 0
        self.has_lost_address = False
        self.is_timed = is_timed(arguments)

    def proven(self, missing: str, is_over: Callable[[], bool] = bool) -> str:
        """Return the round-trip time of a packet that goes through, as soon as one does.

        Return "no" if nothing matters any more (`is_over`). If no packet comes the job ends, and
        says what is missing.
        """
        self.unanswered = 0
        return wait_for(
            missing,
            partial(self._answer, is_over),
            self.limit_s,
            retry_s=FREQUENT_S if self.is_timed else RETRY_S,
            evidence=lambda: last_lines(self.log),
        )

    def _answer(self, is_over: Callable[[], bool]) -> str | None:
        """Return the round-trip time of one more ping, None without an answer."""
        if is_over():
            return "no"
        if self.daemon.poll():
            sys.exit(ended(self.arguments.kind, self.daemon, self.log))
        is_slow = self.unanswered >= FIRST_PINGS or self.rtt_s > PING_S / 2
        limit_s = self.limit_s if is_slow or self.is_timed else None
        often = (FREQUENT_S,) if self.is_timed else ()
        done = pinged(self.arguments, self.source, limit_s, self.daemon, *often)
        self.unanswered += done.returncode == UNANSWERED
        return answer_of(done)

    def look(self, cpu: Any) -> None:
        """Send what has gone through the tunnel, and what its packets have cost the CPU."""
        report(self.arguments, self.vpn, self.log)
        if cpu:
            collect_agent.send_stat(collect_agent.now(), suffix=self.arguments.role, **cpu.look())

    def is_up(self, coordinator: subprocess.Popen[Any] | None) -> bool:
        """Return whether daemon, interface and coordinator are there.

        Where this host has lost its address, wait until packets go through again.
        """
        if self.vpn["daemon"] and self.daemon.poll() is not None:
            return False
        if not is_there(self.arguments.device):
            return False
        if coordinator and coordinator.poll() is not None:
            return False
        if not self.has_lost_address and not is_local(self.arguments.local_ip):
            self.has_lost_address = True
            missing = (
                f"no packet has gone through {self.arguments.kind} since this host lost its address"
                f" {self.arguments.local_ip},"
            )
            self.proven(missing, lambda: bool(signal.sigpending() & {*SIGNALS, FALL}))
        return True

    def why_ended(self, coordinator: subprocess.Popen[Any] | None) -> str:
        """Return why the VPN ended by itself, in words."""
        kind = self.arguments.kind
        if self.vpn["daemon"] and self.daemon.poll() is not None:
            return ended(kind, self.daemon, self.log)
        if coordinator and coordinator.poll() is not None:
            return f"{kind}: its coordinator ended by itself"
        return f"{kind} ended by itself: its interface is gone{last_lines(self.log)}"


def life(
    arguments: argparse.Namespace,
    vpn: Mapping[str, Any],
    environment: Mapping[str, str],
    coordinator: subprocess.Popen[Any] | None,
    cpu: Any,
    setup_s: float | None,
    rtt_s: float,
) -> int:
    """Run the VPN from its `up` to its `down`, and return the signal that ended it.

    The job ends if the VPN ends by itself. `setup_s` is what came before its first life, `rtt_s`
    the round trip of the path.
    """
    with ExitStack() as at_end:
        up_s, before = time.monotonic(), sent_packets(arguments.paths)
        seen = at_end.enter_context(packets_seen()) if is_timed(arguments) else None
        daemon, log = bring_up(arguments, vpn, environment, at_end)
        running = Running(arguments, vpn, daemon, log, rtt_s)
        rtt_ms = running.proven(f"no packet has gone through {arguments.kind}")
        if seen and setup_s is not None:
            answer_s = first_answer_s(seen, arguments.remote_ip)
            seen.close()
            collect_agent.send_stat(collect_agent.now(), first_answer_s=answer_s)
        carrier = proven(arguments, vpn, log, before)
        patience_s = str(max(PING_S, 2 * math.ceil(rtt_s)))
        ping = ["ping", "-nqc", "1", "-W", patience_s, "-I", running.source]
        record(*ping, arguments.remote_tunnel_ip, before="until ", after=AGAIN)
        if cpu:
            at_end.callback(cpu.detach)
            cpu.attach()
        lead_into_tunnel(arguments, vpn["device"], at_end)
        up_time_s = time.monotonic() - up_s
        if setup_s is None:
            collect_agent.send_stat(collect_agent.now(), restart_time_s=up_time_s)
        else:
            negotiated = cipher_of(vpn, log)
            what = {"carried_by": carrier, "cipher": negotiated, "first_rtt_ms": float(rtt_ms)}
            tell_of_the_start(arguments, vpn, setup_s + up_time_s, up_time_s, what)
            for warning in warnings_of(vpn, log):
                collect_agent.send_stat(collect_agent.now(), warning=warning)
        told = Path(PID_FILE.format(arguments.device))
        told.write_text(str(os.getpid()))
        at_end.callback(told.unlink, missing_ok=True)
        is_up, look = partial(running.is_up, coordinator), partial(running.look, cpu)
        with changes_of_interfaces(arguments.over_ipv6):
            stopped = stopped_by(is_up, daemon, arguments.series_s, look)
        if not stopped:
            sys.exit(running.why_ended(coordinator))
        look()
        return stopped


def is_timed(arguments: argparse.Namespace) -> bool:
    """Return whether this end measures how long the set-up takes."""
    return bool(arguments.setup == TIME and arguments.role == "client")


def packets_seen() -> socket.socket:
    """Return a socket that gets the next IP packets of all interfaces, with their times."""
    seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    seen.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    seen.setblocking(False)
    return seen


def first_answer_s(seen: socket.socket, remote_ip: str) -> float | None:
    """Return the time since the first packet to the other end in s; None if there was none."""
    now_s, wanted = time.clock_gettime(time.CLOCK_REALTIME), ip_address(remote_ip).packed
    with suppress(BlockingIOError):
        while True:
            packet, told, _, place = seen.recvmsg(64, 64)
            is_sent = place[2] == socket.PACKET_OUTGOING
            if is_sent and packet[DESTINATION[len(wanted)]] == wanted:
                seconds, nanoseconds = struct.unpack("=qq", told[0][2])
                return float(now_s - seconds - nanoseconds / 1e9)
    return None


def tell_of_the_start(
    arguments: argparse.Namespace,
    vpn: Mapping[str, Any],
    setup_time_s: float,
    up_time_s: float,
    what: Mapping[str, Any],
) -> None:
    """Send what the start took, what the carrier uses, and `what` else came up."""
    collect_agent.send_log(syslog.LOG_INFO, f"{arguments.kind} is ready after {setup_time_s:.3f} s")
    cc = carrier_congestion_control(arguments) if vpn["carrier"] in STREAMS else None
    mtu_bytes, asked_mtu_bytes = mtus(arguments, vpn)
    collect_agent.send_stat(
        collect_agent.now(),
        setup_time_s=setup_time_s,
        up_time_s=up_time_s,
        congestion_control=cc,
        mtu_bytes=mtu_bytes,
        asked_mtu_bytes=asked_mtu_bytes,
        **what,
    )


def mtus(arguments: argparse.Namespace, vpn: Mapping[str, Any]) -> tuple[int, int]:
    """Return the tunnel's MTU as the kernel has it, and that which was asked for, in bytes.

    Ends the job if the run itself has asked for another one.
    """
    if vpn["device"]:
        mtu = interface_mtu(arguments.device)
    else:  # policies have none, but what goes through them has
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
            asks.bind((arguments.tunnel_ip, arguments.exchange_port))
            asks.connect((arguments.remote_tunnel_ip, arguments.exchange_port))
            mtu = asks.getsockopt(socket.IPPROTO_IP, IP_MTU)
    asked = int(vpn["values"].get("mtu", vpn["inner_mtu"]))
    if "mtu" in vpn["values"] and mtu != asked:
        sys.exit(f"{arguments.kind} has an MTU of {mtu} bytes, not the {asked} that were asked for")
    return mtu, asked


def cpu_of(arguments: argparse.Namespace, vpn: Mapping[str, Any]) -> Any:
    """Return the cpu_model.Tunnel with what packets cost this host; None if nothing."""
    if arguments.cpu == FREE:
        return None
    import cpu_model  # not above: other runs need not read it

    if not vpn["device"]:
        sys.exit(
            f"{arguments.kind} has no interface of its own, whose packets could cost CPU time: give"
            f" cpu={FREE}"
        )
    try:
        costs = cpu_model.find(arguments.cpu, arguments.kind, arguments.cpu_scale)
    except ValueError as error:
        sys.exit(str(error))
    rate_bps, length = arguments.user_rate_kbps * 1000, arguments.user_packet_bytes
    others = cpu_model.Others(arguments.users - 1, rate_bps, length, arguments.user_rtt_ms)
    return cpu_model.Tunnel(
        arguments.device, costs, f"{arguments.cpu} x{arguments.cpu_scale:g}", others
    )


def started_coordinator(
    arguments: argparse.Namespace, vpn: Mapping[str, Any], at_end: ExitStack
) -> subprocess.Popen[Any] | None:
    """Start the coordinator of a VPN that has one, unless another host plays it.

    The server's end starts it, as a job of that role would be.
    """
    if not vpn["coordinator"] or arguments.role != "server" or arguments.coordinator_ip:
        return None
    job = [sys.executable, __file__, "--tunnel", str(arguments.tunnel), *given_values(arguments)]
    job += [arguments.kind, arguments.local_ip]
    return at_end.enter_context(
        started(*job, arguments.remote_ip, arguments.remote_network, "coordinator")
    )


def given_values(arguments: argparse.Namespace) -> list[str]:
    """Return the words of a command of this job that has the same values."""
    text = ";".join(f"{name}={value}" for name, value in arguments.values.items())
    return ["--values", text] if text else []


def coordinate(arguments: argparse.Namespace, vpn: dict[str, Any], directory: Path) -> None:
    """Run the coordinator, which brings the ends together, until told to stop.

    It gets the public material of both ends, one after the other.
    """
    folder = scripts(arguments.kind)
    environment = environment_of(arguments, vpn, directory, own_networks(arguments))
    check_host(arguments, vpn, environment["PATH"])
    public = made_keys(arguments, folder, environment)
    ends = exchange_with_ends(arguments, public)
    Path(environment["VPN_REMOTE_PUBLIC"]).write_text("".join(of_end for _, of_end in ends))
    files = [public_file(address, arguments.tunnel) for address, _ in ends]
    record("cat", *files, after=f" > {environment['VPN_REMOTE_PUBLIC']}")
    with ExitStack() as at_end:
        daemon, log = bring_up(arguments, vpn, environment, at_end)
        if not stopped_by(lambda: daemon.poll() is None, daemon, 0, lambda: None):
            sys.exit(ended(arguments.kind, daemon, log))


def public_file(address: str, tunnel: int, role: str = "") -> str:
    """Return the path where the pasted commands put what `keygen` has printed."""
    return f"/run/vpn-{address}-{tunnel}{role}.public"


def made_keys(arguments: argparse.Namespace, folder: Path, environment: Mapping[str, str]) -> str:
    """Make this host's keys and return what `keygen` prints: the public material."""
    role = "-coordinator" if arguments.role == "coordinator" else ""
    public = run(str(folder / "keygen"), environment=environment, limit_s=LIMIT_S)
    record("mkdir", "-pm", "700", environment["VPN_DIR"])
    record(
        str(folder / "keygen"),
        environment=own_words(environment),
        after=f" > {public_file(arguments.local_ip, arguments.tunnel, role)}",
    )
    return public


def exchange_keys(
    arguments: argparse.Namespace, folder: Path, environment: Mapping[str, str]
) -> Way:
    """Make this end's keys, exchange the public ones, and return what TCP has learnt of the path.

    The other end's public keys are left where `up` finds them. Pasted, the commands make new keys
    and exchange them as files.
    """
    public = made_keys(arguments, folder, environment)
    if (file := environment.get("VPN_COORDINATOR_PUBLIC")) is not None:
        address = coordinator_ip(arguments)
        coordinator = connected("the VPN coordinator", address, arguments.coordinator_port)
        Path(file).write_text(swap(coordinator, public))
        record("cp", public_file(address, arguments.tunnel, "-coordinator"), file)
    public_of_other, path = exchange(arguments, public)
    Path(environment["VPN_REMOTE_PUBLIC"]).write_text(public_of_other)
    record(
        "cp", public_file(arguments.remote_ip, arguments.tunnel), environment["VPN_REMOTE_PUBLIC"]
    )
    return path


def own_words(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are the VPN job's own, without those of any shell."""
    return {name: value for name, value in environment.items() if name.startswith("VPN_")}


def bring_up(
    arguments: argparse.Namespace,
    vpn: Mapping[str, Any],
    environment: Mapping[str, str],
    at_end: ExitStack,
) -> tuple[subprocess.Popen[Any], Path]:
    """Start the VPN's `up`, and undoes what that makes `at_end`.

    The daemon, and the file with what it says.
    """
    folder, log = scripts(arguments.kind), Path(environment["VPN_DIR"]) / "log"
    if arguments.in_ipv6:
        import in_ipv6  # not above: to read a file takes virtual time

        in_ipv6.allow()
    if not vpn["device"]:
        change("ip", "link", "add", arguments.device, "type", "dummy")
        at_end.callback(undo, "ip", "link", "del", arguments.device)
        change("ip", "address", "add", f"{arguments.tunnel_ip}/32", "dev", arguments.device)
        change("ip", "link", "set", arguments.device, "up")
    at_end.callback(undo, str(folder / "down"), environment=environment)
    at_end.callback(lambda: print(log.read_text(errors="replace"), end=""))
    with log.open("w") as said:
        daemon = at_end.enter_context(
            started(
                str(folder / "up"),
                environment=environment,
                stdout=said,
                stderr=subprocess.STDOUT,
                preexec_fn=unblock_signals,
            )
        )
    if not vpn["daemon"]:
        end_s = time.monotonic() + LIMIT_S
        while daemon.poll() is None:
            if signal.sigtimedwait({signal.SIGCHLD}, max(end_s - time.monotonic(), 0)) is None:
                sys.exit(
                    f"{arguments.kind}: `up` has not ended after {LIMIT_S:g} s{last_lines(log)}"
                )
        if daemon.returncode != 0:
            sys.exit(ended(arguments.kind, daemon, log))
    record(
        str(folder / "up"), environment=own_words(environment), after=" &" if vpn["daemon"] else ""
    )
    return daemon, log


def lead_into_tunnel(arguments: argparse.Namespace, has_device: bool, at_end: ExitStack) -> None:
    """Route the remote network into the tunnel, until `at_end`."""
    way = way_in(arguments, has_device)
    table = ["table", flow_table(arguments)] if arguments.flow_port else []
    change(*arguments.ip, "route", "replace", arguments.remote_network, *way, *table)
    if not has_device:  # no interface takes the route away with it: it would lead past the tunnel
        route = arguments.remote_network, *way, *table
        at_end.callback(undo, *arguments.ip, "route", "del", *route)


def changes_of_interfaces(over_ipv6: bool) -> socket.socket:
    """Open a socket that gives this process SIGIO when an interface or an address changes.

    It does so when one comes or goes, too.
    """
    changes = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    changes.bind((0, LINKS | (RTMGRP_IPV6_IFADDR if over_ipv6 else RTMGRP_IPV4_IFADDR)))
    fcntl.fcntl(changes, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(changes, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    return changes


def stopped_by(
    is_up: Callable[[], bool],
    daemon: subprocess.Popen[bytes],
    series_s: float,
    look: Callable[[], None],
) -> int:
    """Wait for the order to stop or to fall, and return it; 0 if the tunnel ends without one.

    The counters are looked at meanwhile. An agent that stops a job ends its children first, so a
    daemon that ends well may be right, and the order must follow.
    """
    orders = {*SIGNALS, FALL}
    while (number := next_signal(series_s)) not in orders:
        if number is None:
            look()
        elif not is_up():
            ended_well = daemon.poll() in (
                None,
                0,
                -signal.SIGTERM,
                -signal.SIGKILL,
            )  # None: its interface goes first
            came = signal.sigtimedwait(orders, STOP_GRACE_S) if ended_well else None
            return came.si_signo if came else 0
    return number


def next_signal(limit_s: float) -> int | None:
    """Wait for the next signal and return it; None if none has come in time. 0 waits for ever."""
    watched = {*SIGNALS, *WATCHED, FALL}
    if not limit_s:
        return signal.sigwait(watched)
    came = signal.sigtimedwait(watched, limit_s)
    return came.si_signo if came else None


def ended(kind: str, daemon: subprocess.Popen[bytes], log: Path) -> str:
    """Return the words for a daemon that ended by itself."""
    if daemon.returncode == UNSUPPORTED:
        return f"this host cannot run {kind}{last_lines(log)}"
    return f"{kind} ended by itself with exit code {daemon.returncode}{last_lines(log)}"


def route_mark(arguments: argparse.Namespace) -> str:
    """Return the protocol number that tells this tunnel's route from others."""
    return str(ROUTE_MARK + arguments.tunnel)


def leads_into_tunnel(arguments: argparse.Namespace) -> bool:
    """Return whether packets for the remote network go into the tunnel.

    `ip` is started only when the main table has a way there: this is asked at every change of a
    route.
    """
    ways = [
        name for name, to, _ in main_table() if str(to) == arguments.remote_network and name != "*"
    ]
    if not ways and not arguments.flow_port and not arguments.in_ipv6:
        return False
    table = flow_table(arguments) if arguments.flow_port else "main"
    command = [*arguments.ip, "-j", "route", "show", arguments.remote_network, "table", table]
    shown = subprocess.run(
        command, check=False, capture_output=True, text=True
    ).stdout  # no table yet: an error, no route
    routes, mark = json.loads(shown or "[]"), route_mark(arguments)
    return any(
        route.get("dev") == arguments.device or route.get("protocol") == mark for route in routes
    )


def main() -> None:
    """Run the job."""
    arguments = parse()
    if arguments.role == "wait":
        if arguments.kind != "none":
            missing = (
                f"{arguments.remote_network} is not reached through {arguments.kind}"
                f" ({arguments.device})"
            )
            told_by = ROUTES_IPV6 if arguments.in_ipv6 else ROUTES
            wait_for(missing, lambda: leads_into_tunnel(arguments), WAIT_LIMIT_S, told_by=told_by)
        return
    if (
        arguments.values
        and arguments.kind != "none"
        and (wrong := not_had(arguments.kind, arguments.values))
    ):
        sys.exit(wrong)
    if arguments.kind != "none":
        need_process()
    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    if arguments.role == "coordinator":
        vpn = {} if arguments.kind == "none" else describe(arguments.kind, arguments.values)
        if not vpn.get("coordinator"):
            signal.sigwait(SIGNALS)
            return
        os.umask(0o077)
        with tempfile.TemporaryDirectory(prefix="vpn-") as name:
            coordinate(arguments, vpn, Path(name))
        return
    if arguments.kind == "none":
        open_clear_path(arguments)  # it is still closed if an earlier tunnel has failed
        signal.sigwait(SIGNALS)
        return
    os.umask(0o077)
    close_clear_path(arguments)
    with tempfile.TemporaryDirectory(prefix="vpn-") as name:
        tunnel(arguments, Path(name))
    open_clear_path(arguments)  # not after a failure: then nothing may go in clear


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
