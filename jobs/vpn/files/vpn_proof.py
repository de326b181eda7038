# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof that a VPN does what its vpn.json says: its path, its MTU, its carrier, its key."""

from __future__ import annotations

import argparse
import fcntl
import json
import re
import socket
import struct
import sys
from array import array
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tunnel_mtu import MtuError, fitting_mtu
from vpn_folders import last_lines, text_of, warnings_of

from openbach_jobs.command import interface_mtu, run, wait_for

HOST_CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
BY_KERNEL = ("wireguard", "ovpn", "xfrm")
"""Types of interfaces, as `ip -d link` calls them, whose packets the kernel encrypts."""
IP_MTU = 14
"""Option of an IP socket, linux/in.h: the path's MTU."""
SIOCETHTOOL, ETHTOOL_GDRVINFO = 0x8946, 3
"""Numbers of linux/sockios.h, linux/ethtool.h; struct ethtool_drvinfo has the driver at 4."""
ESTABLISHED = ("ss", "-tinHO", "state", "established")
"""Command that shows each TCP connection in one line, with what TCP knows of it."""


def check_round_trip(arguments: argparse.Namespace, vpn: Mapping[str, Any], rtt_s: float) -> None:
    """End the job if the VPN's handshake cannot cross a path that takes so long."""
    if vpn["rtt_max_s"] and rtt_s > vpn["rtt_max_s"]:
        sys.exit(
            f"{arguments.kind} does not come up on a path whose round trip is {rtt_s:.2f} s: "
            f"above {vpn['rtt_max_s']:g} s {vpn['rtt_max_because']}"
        )


def behind_nat(arguments: argparse.Namespace, vpn: Mapping[str, Any]) -> dict[str, Any]:
    """Return the VPN as it is where a NAT translates the client's address.

    Ends the job if it does not work there.
    """
    differences = vpn["behind_nat"]
    if isinstance(differences, str):
        sys.exit(f"{arguments.kind} does not come up behind a NAT: {differences}")
    return {**vpn, **differences}


def inner_mtu(arguments: argparse.Namespace, vpn: Mapping[str, Any], path_mtu: int) -> int:
    """Return the tunnel's MTU in bytes, whose packets fit the path in one piece.

    Ends the job if there is none.
    """
    # `framing` and `overhead_bytes` are with an IP header of 20 bytes; IPv6's has 40.
    room = path_mtu - (20 if arguments.over_ipv6 and vpn["overhead_bytes"] else 0)
    try:
        return fitting_mtu(vpn, room)
    except MtuError as error:
        sys.exit(f"{arguments.kind}: {error}")


def mtus(arguments: argparse.Namespace, vpn: Mapping[str, Any]) -> tuple[int, int]:
    """Return the tunnel's MTU as the kernel has it, and that which it should have, in bytes.

    Ends the job if the run itself asks for another one.
    """
    if vpn["device"]:
        mtu = interface_mtu(arguments.device)
    else:  # policies have none, but what goes through them has
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((arguments.tunnel_ip, arguments.exchange_port))
            probe.connect((arguments.remote_tunnel_ip, arguments.exchange_port))
            mtu = probe.getsockopt(socket.IPPROTO_IP, IP_MTU)
    wanted = int(vpn["values"].get("mtu", vpn["inner_mtu"]))
    if "mtu" in vpn["values"] and mtu != wanted:
        sys.exit(
            f"{arguments.kind} has an MTU of {mtu} bytes, not the {wanted} that were asked for"
        )
    return mtu, wanted


def carrier_congestion_control(arguments: argparse.Namespace) -> str | None:
    """Return the congestion control of the tunnel's own connection; None if it is not TCP.

    Ends the job if it is not that of this host.
    """
    own_ip, other_ip = (
        f"[{address}]" if arguments.over_ipv6 else address
        for address in (arguments.local_ip, arguments.remote_ip)
    )
    shown = run(*ESTABLISHED, "src", own_ip, "dst", other_ip)
    if not shown:
        return None
    wanted = HOST_CONGESTION_CONTROL.read_text().strip()
    if wanted not in shown.split():
        sys.exit(
            f"the tunnel's connection has not the congestion control of this host, {wanted}:"
            f" {shown.strip()}"
        )
    return wanted


def sent_packets(paths: str) -> dict[str, int]:
    """Return how many packets each of the interfaces, parted by commas, has sent."""
    counter = "/sys/class/net/{}/statistics/tx_packets"
    return {
        path: int(Path(counter.format(path)).read_text()) for path in filter(None, paths.split(","))
    }


def proven_carrier(
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
    claimed, carrier = vpn["runs_in"], "no state of IPsec"
    if vpn["device"]:
        carrier = type_of(arguments.device)
    elif arguments.remote_ip in run("ip", "xfrm", "state").split():
        carrier = "xfrm"
    wanted = vpn["device_type"] if vpn["device"] else "xfrm"
    by_kernel = carrier == wanted if wanted else carrier not in ("tun", "none")
    if (claimed == "kernel" and not by_kernel) or (
        claimed == "user space" and carrier in BY_KERNEL
    ):
        why = [f", not {wanted}"] if wanted else []
        why += [f"\n{line}" for line in warnings_of({"usual_warnings": None}, log)]
        sys.exit(
            f"{arguments.kind}: its packets should be carried by the {claimed}, but"
            f" {arguments.device} is of the type {carrier}{''.join(why)}"
        )
    return f"{claimed or ('kernel' if carrier in BY_KERNEL else 'user space')} ({carrier})"


def type_of(device: str) -> str:
    """Return the type of an interface, as `ip -d link` calls it.

    By an ioctl, as ethtool asks: a program that starts would move packets in virtual time.
    """
    driver = array("B", struct.pack("=I192x", ETHTOOL_GDRVINFO))
    request = struct.pack("16sP", device.encode(), driver.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as kernel:
        try:
            fcntl.ioctl(kernel, SIOCETHTOOL, request)
        except OSError:  # a kernel whose ethtool does not know them
            (link,) = json.loads(run("ip", "-d", "-j", "link", "show", device))
            return str(link.get("linkinfo", {}).get("info_kind", "none"))
    return bytes(driver[4:36]).rstrip(b"\0").decode()


def uses_paths(
    carrier: str, arguments: argparse.Namespace, before: Mapping[str, int]
) -> bool | None:
    """Return whether a multipath VPN uses each of its paths, None if not.

    Multipath TCP has a subflow on each; of any other VPN each path's interface has sent packets.
    """
    if carrier == "MPTCP":
        lines = run(*ESTABLISHED).splitlines()
        subflows = {line.split()[2] for line in lines if "tcp-ulp-mptcp" in line}
        return len(subflows) >= max(len(before), 1) or None
    now = sent_packets(arguments.paths)
    return all(now[path] > sent for path, sent in before.items()) or None


def check_key(arguments: argparse.Namespace, vpn: Mapping[str, Any], log: Path) -> None:
    """End the job if nothing shows that a post-quantum key is in force.

    A packet that has gone through WireGuard proves that both ends have the same pre-shared key.
    """
    line = vpn["post_quantum_line"]
    shown = text_of(log) if line else run("wg", "show", arguments.device, "preshared-keys")
    if not re.search(line or r"\t(?!\(none\))", shown):
        why = last_lines(log) if line else f": {arguments.device} has no pre-shared key"
        sys.exit(f"{arguments.kind}: its post-quantum key is not in force{why}")
