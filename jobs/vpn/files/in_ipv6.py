# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks and settings of an end whose traffic, or whose tunnel's packets, are of IPv6."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network
from pathlib import Path

from openbach_jobs.command import write

ROUTES = Path("/proc/net/ipv6_route")
ANYWHERE = "0" * 32
LINK_LOCAL, MULTICAST = IPv6Network("fe80::/10"), IPv6Network("ff00::/8")
OF_NEW_INTERFACES = Path("/proc/sys/net/ipv6/conf/default")
SETTINGS = {"accept_ra": "0", "accept_dad": "0", "addr_gen_mode": "1", "disable_ipv6": "0"}
"""Only the tunnel's own packets are in it: no address of its link, and nobody is asked for one."""


def own_networks() -> list[tuple[str, IPv6Network]]:
    """Return the interfaces and the networks of IPv6 that they are in."""
    networks = []
    for line in ROUTES.read_text().splitlines():
        to, bits, _, _, via, *_, name = line.split()
        network = IPv6Network((IPv6Address(int(to, 16)), int(bits, 16)))
        is_special = network.subnet_of(LINK_LOCAL) or network.subnet_of(MULTICAST)
        # /128 are addresses of this host, /0 is the way to all others; lo has what is unreachable.
        is_link = 0 < network.prefixlen < 128 and via == ANYWHERE and name != "lo"
        if is_link and not is_special:
            networks.append((name, network))
    return networks


def allow() -> None:
    """Let the interfaces that this host makes from now on have IPv6."""
    for name, value in SETTINGS.items():
        write(OF_NEW_INTERFACES / name, value)
