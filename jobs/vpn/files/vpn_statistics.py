# SPDX-License-Identifier: GPL-3.0-or-later
"""The statistics of a tunnel: how it came up, how long that took, what has gone through it."""

from __future__ import annotations

import argparse
import json
import re
import socket
import struct
import subprocess
import syslog
import time
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import collect_agent
from vpn_folders import cipher_of, warnings_of
from vpn_proof import carrier_congestion_control, mtus

from openbach_jobs.command import run

STREAMS = ("TCP", "MPTCP", "TLS")
"""Carriers whose congestion control is that of the tunnel; beside others a connection may be there
for control."""
SO_TIMESTAMPNS, ETH_P_ALL = 35, 0x0003
"""Numbers of linux/socket.h and linux/if_ether.h; Python has no name for them."""
DESTINATION = slice(16, 20)
"""Bytes of an IPv4 header with the destination's address."""


def packets_of_all() -> socket.socket:
    """Return a socket that gets the next IP packets of all interfaces, with their times."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    packets.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    packets.setblocking(False)
    return packets


def first_answer_s(packets: socket.socket, remote_ip: str) -> float | None:
    """Return the time since the first packet to the other end in s; None if there was none."""
    now_s = time.clock_gettime(time.CLOCK_REALTIME)
    with suppress(BlockingIOError):
        while True:
            packet, ancillary, _, address = packets.recvmsg(64, 64)
            is_sent = address[2] == socket.PACKET_OUTGOING
            if is_sent and packet[DESTINATION] == ip_address(remote_ip).packed:
                seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
                return float(now_s - seconds - nanoseconds / 1e9)
    return None


def report_start(
    arguments: argparse.Namespace,
    vpn: Mapping[str, Any],
    log: Path,
    setup_time_s: float,
    up_time_s: float,
    carrier: str,
    first_rtt_ms: float,
) -> None:
    """Send how long the start took, who carries the packets, with what values, and warnings.

    Ends the job if MTU or congestion control are not what they should be.
    """
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
        carried_by=carrier,
        cipher=cipher_of(vpn, log),
        first_rtt_ms=first_rtt_ms,
    )
    for warning in warnings_of(vpn, log):
        collect_agent.send_stat(collect_agent.now(), warning=warning)


def nft_counters(device: str) -> dict[str, dict[str, int]]:
    """Return packets and bytes of the counters in the VPN's nftables table; {} if there is none.

    `up` makes them (lib.sh).
    """
    command = ["nft", "-j", "list", "counters", "table", "inet", device]
    shown = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    objects = json.loads(shown or "{}").get("nftables", [])
    counters = [item["counter"] for item in objects if "counter" in item]
    return {counter["name"]: counter for counter in counters}


def report(arguments: argparse.Namespace, vpn: Mapping[str, Any], log: Path) -> None:
    """Send what went through the tunnel, and the number of handshakes if anything tells it.

    The daemon or a counter may. The counters are the interface's. A VPN whose interface has none,
    or whose interface goes with its daemon (which an agent ends first), has those of nftables. One
    that ends TCP has both: what it carries as streams does not pass the interface.
    """
    statistics: dict[str, Any] = {}
    has_device = vpn["device"] and has_interface(arguments.device)
    needs_nft = not has_device or not vpn["handshake_line"] or vpn["ends_tcp"]
    counters = nft_counters(arguments.device) if needs_nft else {}
    if has_device:
        (link,) = json.loads(run("ip", "-s", "-j", "link", "show", arguments.device))
        for side in ("rx", "tx"):
            for unit in ("bytes", "packets"):
                statistics[f"{side}_{unit}"] = link["stats64"][side][unit]
        statistics["tx_dropped"] = link["stats64"]["tx"]["dropped"]
    if vpn["ends_tcp"] or not has_device:
        for side in sorted({"rx", "tx"} & counters.keys()):
            for unit in ("bytes", "packets"):
                name = f"{side}_{unit}"
                statistics[name] = statistics.get(name, 0) + counters[side][unit]
    if "handshakes" in counters:
        statistics["handshakes"] = counters["handshakes"]["packets"]
    elif line := vpn["handshake_line"]:
        statistics["handshakes"] = len(re.findall(line, log.read_text(errors="replace")))
    if statistics:
        collect_agent.send_stat(collect_agent.now(), **statistics)


def has_interface(device: str) -> bool:
    """Return whether this host has an interface of that name."""
    return Path(f"/sys/class/net/{device}").exists()
