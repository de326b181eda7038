# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the captures that the virtual engine writes (pcapng, little-endian, nanoseconds)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INTERFACE_DESCRIPTION = 1
ENHANCED_PACKET = 6
OPTION_IF_NAME = 2
ETHERNET = 1


@dataclass(frozen=True)
class Packet:
    interface: str
    """`host/interface`, e.g. `sat/to_st`."""
    time_ns: int
    ip: bytes
    """The packet from its IP header on; empty when it is not IPv4."""


def read(path: Path) -> Iterator[Packet]:
    interfaces: list[tuple[str, int]] = []
    with path.open("rb") as file:
        while header := file.read(8):
            kind, length = struct.unpack("<II", header)
            body = file.read(length - 8)[:-4]
            if kind == INTERFACE_DESCRIPTION:
                interfaces.append((_name(body[8:]), struct.unpack_from("<H", body)[0]))
            elif kind == ENHANCED_PACKET:
                number, high, low, captured, _ = struct.unpack_from("<5I", body)
                name, link_type = interfaces[number]
                yield Packet(name, high << 32 | low, _ip(body[20 : 20 + captured], link_type))


def _name(options: bytes) -> str:
    while options:
        code, length = struct.unpack_from("<HH", options)
        if code == OPTION_IF_NAME:
            return options[4 : 4 + length].decode()
        options = options[4 + (length + 3) // 4 * 4 :]
    raise ValueError("an interface without a name")


def _ip(frame: bytes, link_type: int) -> bytes:
    if link_type != ETHERNET:
        return frame if frame[:1] and frame[0] >> 4 == 4 else b""
    return frame[14:] if frame[12:14] == b"\x08\x00" else b""
