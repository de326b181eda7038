# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts of the fragments of IPv4 packets that an interface receives.

A packet socket takes them and nobody reads it, so that a packet costs no more than a filter of
three instructions.
"""

from __future__ import annotations

import ctypes
import socket
import struct

SO_ATTACH_FILTER = 26
ETH_P_IP = 0x0800
SOL_PACKET, PACKET_STATISTICS = 263, 6
"""linux/if_packet.h"""
MORE_OR_OFFSET = 0x3FFF
"""Of an IPv4 header's bytes 7 and 8: the flag that more fragments follow, and the offset."""
PROGRAM = [(0x28, 0, 0, 6), (0x45, 0, 1, MORE_OR_OFFSET), (0x06, 0, 0, 1), (0x06, 0, 0, 0)]


class Counter:
    """A counter of an interface's fragments, which counts from when it is made.

    Fragments that find the socket's buffer full are counted all the same.
    """

    def __init__(self, interface: str) -> None:
        """Begin to count on an interface."""
        code = ctypes.create_string_buffer(
            b"".join(struct.pack("HBBI", *instruction) for instruction in PROGRAM)
        )
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
        self._socket.setsockopt(
            socket.SOL_SOCKET,
            SO_ATTACH_FILTER,
            struct.pack("HxxxxxxP", len(PROGRAM), ctypes.addressof(code)),
        )
        self._socket.bind((interface, ETH_P_IP))

    def count(self) -> int:
        """Return how many fragments have come since the last call."""
        packets, _ = struct.unpack("=II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        return int(packets)
