# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks of a tunnel's end, and the routes that lead the remote network into the tunnel."""

from __future__ import annotations

import argparse
import json
import socket
import struct
import subprocess
from contextlib import ExitStack
from ipaddress import IPv4Network, IPv6Network, ip_address

from openbach_jobs.command import change, interface_mtu, run, undo

FLOW_TABLE = 200
"""Routing table of a tunnel that is for one flow only; tunnel N has this number plus N."""
FLOW_PRIORITY = 1000
"""Priority of the rule that sends the flow there; tunnel N has this number plus N."""
ROUTE_MARK = 100
"""Protocol number of the route to the remote network where the VPN has no interface; tunnel N has
this number plus N."""
ETHERNET_MTU = 1500
"""MTU in bytes where nothing is known of the way to the other end."""
Networks = list[tuple[str, IPv4Network | IPv6Network]]
"""Interfaces and the networks that they are in."""


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
    own_ip = ip_address(arguments.local_ip)
    leading = {name for name, network in networks if own_ip in network}
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
    own_ip = ip_address(arguments.local_ip)
    mtus = [interface_mtu(name) for name, network in networks if own_ip in network]
    mtus += [int(mtu) for mtu in arguments.path_mtus.split(",") if mtu.isdecimal()]
    return min(mtus, default=ETHERNET_MTU)


def clear_path(arguments: argparse.Namespace) -> list[str]:
    """Return the route that holds packets back while there is no tunnel.

    Each tunnel has its own.
    """
    # Behind the tunnel's route, which has 0 in IPv4 and 1024 in IPv6.
    metric = str((2000 if arguments.in_ipv6 else 1000) + arguments.tunnel)
    return ["unreachable", arguments.remote_network, "metric", metric, *of_flow(arguments)]


def flow_table(arguments: argparse.Namespace) -> str:
    """Return the number of the routing table of this tunnel's flow."""
    return str(FLOW_TABLE + arguments.tunnel)


def of_flow(arguments: argparse.Namespace) -> list[str]:
    """Return the words of a route that put it into the flow's table, if the tunnel is for one."""
    return ["table", flow_table(arguments)] if arguments.flow_port else []


def flow_rule(arguments: argparse.Namespace) -> list[str]:
    """Return the rule that sends the flow to the tunnel's own routing table.

    Its port is the destination's on the client's side.
    """
    side = "dport" if arguments.role == "client" else "sport"
    chosen = ["ipproto", "tcp", side, str(arguments.flow_port), "to", arguments.remote_network]
    priority = str(FLOW_PRIORITY + arguments.tunnel)
    return ["priority", priority, *chosen, "lookup", flow_table(arguments)]


def close_clear_path(arguments: argparse.Namespace) -> None:
    """Make the remote network unreachable but for the tunnel."""
    change(*arguments.ip, "route", "replace", *clear_path(arguments))
    if arguments.flow_port:
        rule = flow_rule(arguments)
        undo(*arguments.ip, "rule", "del", *rule)  # an earlier tunnel that failed has left it
        change(*arguments.ip, "rule", "add", *rule)


def open_clear_path(arguments: argparse.Namespace) -> None:
    """Undo what keeps packets from going without a tunnel."""
    if arguments.flow_port:
        undo(*arguments.ip, "rule", "del", *flow_rule(arguments))
    undo(*arguments.ip, "route", "del", *clear_path(arguments))


def way_in(arguments: argparse.Namespace, has_device: bool) -> list[str]:
    """Return the route to the remote network.

    It leads into the tunnel's interface. Of a VPN without one it leads to where the other end is,
    as its policies take the packets there. The mark tells that route from others.
    """
    if has_device:
        return ["via", arguments.remote_tunnel_ip, "dev", arguments.device]
    (out,) = json.loads(run("ip", "-j", "route", "get", arguments.remote_ip))
    gateway = ["via", out["gateway"]] if "gateway" in out else []
    return [*gateway, "dev", out["dev"], "protocol", route_mark(arguments)]


def route_mark(arguments: argparse.Namespace) -> str:
    """Return the protocol number that tells this tunnel's route from others."""
    return str(ROUTE_MARK + arguments.tunnel)


def lead_into_tunnel(arguments: argparse.Namespace, has_device: bool, at_end: ExitStack) -> None:
    """Route the remote network into the tunnel, until `at_end`."""
    route = [arguments.remote_network, *way_in(arguments, has_device), *of_flow(arguments)]
    change(*arguments.ip, "route", "replace", *route)
    if not has_device:  # no interface takes the route away with it: it would lead past the tunnel
        at_end.callback(undo, *arguments.ip, "route", "del", *route)


def leads_into_tunnel(arguments: argparse.Namespace) -> bool:
    """Return whether packets for the remote network go into the tunnel.

    `ip` is started only when the main table has a way to it: every change of a route asks this.
    """
    has_way = any(
        str(to) == arguments.remote_network and name != "*" for name, to, _ in main_table()
    )
    if not has_way and not arguments.flow_port and not arguments.in_ipv6:
        return False
    table = flow_table(arguments) if arguments.flow_port else "main"
    command = [*arguments.ip, "-j", "route", "show", arguments.remote_network, "table", table]
    # A table that does not exist yet is an error of `ip`, and no route.
    shown = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    mark = route_mark(arguments)
    return any(
        route.get("dev") == arguments.device or route.get("protocol") == mark
        for route in json.loads(shown or "[]")
    )
