# SPDX-License-Identifier: GPL-3.0-or-later
"""Time to the first byte of an iperf3 download.

iperf3 does not tell it, so the packets are watched until it has come.
"""

from __future__ import annotations

import ctypes
import select
import socket
import struct
import subprocess
import time

SO_ATTACH_FILTER = 26
ETH_P_ALL = 3


def first_byte_filter(port: int) -> bytes:
    """Return a classic BPF program for SYNs to iperf3's port, and for its data.

    Data are packets of over 500 bytes from that port: the states that iperf3's control connection
    carries are single bytes.
    """
    program = [
        (0x30, 0, 0, 9), (0x15, 0, 12, 6),  # 0: protocol TCP, else 14
        (0x28, 0, 0, 6), (0x45, 10, 0, 0x1FFF),  # 2: a later fragment: 14
        (0xB1, 0, 0, 0),  # 4: X = length of the IP header
        (0x48, 0, 0, 0), (0x15, 0, 2, port),  # 5: source port, else 9
        (0x28, 0, 0, 2), (0x25, 6, 5, 500),  # 7: total length above 500: 15, else 14
        (0x48, 0, 0, 2), (0x15, 0, 3, port),  # 9: destination port, else 14
        (0x50, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 1, 0, 0x02),  # 11: SYN without ACK: 15
        (0x06, 0, 0, 0), (0x06, 0, 0, 96),  # 14: leave it; 15: take 96 bytes
    ]  # fmt: skip
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def first_byte_filter_ipv6(port: int) -> bytes:
    """Return the same for IPv6, whose packets have no header between its own and TCP's."""
    program = [
        (0x30, 0, 0, 6), (0x15, 0, 9, 6),  # 0: next header TCP, else 11
        (0x28, 0, 0, 40), (0x15, 0, 2, port),  # 2: source port, else 6
        (0x28, 0, 0, 4), (0x25, 6, 5, 480),  # 4: payload length: 12 or 11
        (0x28, 0, 0, 42), (0x15, 0, 3, port),  # 6: destination port, else 11
        (0x30, 0, 0, 53), (0x54, 0, 0, 0x12), (0x15, 1, 0, 0x02),  # 8: SYN without ACK: 12
        (0x06, 0, 0, 0), (0x06, 0, 0, 96),  # 11: leave it; 12: take 96 bytes
    ]  # fmt: skip
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def open_tap(port: int, server_ip: str = "") -> socket.socket:
    """Return a packet socket that gets what the filter of a port lets through."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    of_version = first_byte_filter_ipv6 if ":" in server_ip else first_byte_filter
    program = ctypes.create_string_buffer(of_version(port))
    tap.setsockopt(
        socket.SOL_SOCKET,
        SO_ATTACH_FILTER,
        struct.pack("HxxxxxxP", len(program.raw) // 8, ctypes.addressof(program)),
    )
    return tap


def seconds(tap: socket.socket, transfer: subprocess.Popen[str], end_s: float) -> float | None:
    """Return the seconds from the data connection's last SYN to its first data; None without."""
    syn_s = None
    while transfer.poll() is None and time.monotonic() < end_s:
        if not select.select([tap], [], [], 1)[0]:
            continue
        packet, (_, _, kind, *_) = tap.recvfrom(96)
        if kind == socket.PACKET_OUTGOING:
            syn_s = time.monotonic()
        elif syn_s is not None and _bytes_behind_ip(packet) > 480:
            return time.monotonic() - syn_s
    return None


def _bytes_behind_ip(packet: bytes) -> int:
    """Return the length of a packet without its IP header of the usual length."""
    is_ipv6 = packet[0] >> 4 == 6
    (length,) = struct.unpack_from("!H", packet, 4 if is_ipv6 else 2)
    return int(length) - (0 if is_ipv6 else 20)
