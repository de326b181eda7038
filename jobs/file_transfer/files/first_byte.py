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


def open_tap(port: int) -> socket.socket:
    """Return a packet socket that gets what the filter of a port lets through."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    program = ctypes.create_string_buffer(first_byte_filter(port))
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
        elif syn_s is not None and struct.unpack_from("!H", packet, 2)[0] > 500:
            return time.monotonic() - syn_s
    return None
