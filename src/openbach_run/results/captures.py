# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write captures of packets.

A run's capture (pcapng, written by kernel/src/capture.c) holds the packets that leave any
interface, in one file. The keys of its WireGuard tunnels are in a second file, if they were asked
for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from openbach_run.errors import InputError
from openbach_run.results.run_files import DamagedRecord

CAPTURE, KEYS = "capture.pcapng", "wireguard.keys"
"""Names of the two files in a run's directory."""
SECTION_HEADER, INTERFACE_DESCRIPTION, NAME_RESOLUTION, ENHANCED_PACKET, DECRYPTION_SECRETS = (
    0x0A0D0D0A,
    1,
    4,
    6,
    10,
)
WIREGUARD_KEY_LOG = 0x57474B4C
OPTION_END, OPTION_IF_NAME, OPTION_IF_TSRESOL, OPTION_EPB_FLAGS = 0, 2, 9, 2
ETHERNET, RAW = 1, 101
UNKNOWN, INBOUND, OUTBOUND = 0, 1, 2
NANOSECONDS = b"\x09"
BLOCK_LIMIT_BYTES = 1 << 18
"""The largest block that is read. The kernel's own blocks are smaller, but a job that has taken
over the guest's kernel may claim any length."""


@dataclass(frozen=True)
class Packet:
    """One packet of a capture."""

    interface: str
    """`host/interface`, e.g. `sat/to_st`."""
    link_type: int
    """ETHERNET, or RAW for a tunnel (the frame begins with the IP header)."""
    time_ns: int
    """Nanoseconds since 1970 on the guest's clock, which begins at 2026-01-01."""
    frame: bytes

    @property
    def ip(self) -> bytes:
        """Return the packet from its IPv4 header on; empty if it is not IPv4."""
        if self.link_type != ETHERNET:
            return self.frame if self.frame[:1] and self.frame[0] >> 4 == 4 else b""
        return self.frame[14:] if self.frame[12:14] == b"\x08\x00" else b""


def check_capture(run_dir: Path, said: Mapping[str, Any], *, hashed: bool) -> None:
    """Check the capture of a run, if it has one, by the length and the hash that its record says.

    The hash is left out without `hashed`: it takes a second for each GB. Raises DamagedRecord.
    """
    capture = run_dir / CAPTURE
    if not capture.is_file():
        return
    size = capture.stat().st_size
    # Older records do not say the length; no capture is empty.
    if size != (recorded := said.get("host", {}).get("capture_bytes", max(size, 1))):
        raise DamagedRecord(f"{capture}: is damaged: {size} bytes, not {recorded}")
    if hashed and ":" not in (recorded := said["capture_hash"]):
        from blake3 import blake3  # late, as few commands need it

        if blake3().update_mmap(capture).hexdigest() != recorded:
            raise DamagedRecord(
                f"{capture}: is damaged: the record has another hash (capture_hash)"
            )


def packets(capture: Path) -> Iterator[Packet]:
    """Yield the packets of a capture file in the order of time.

    Raises InputError for a file that is no whole capture.
    """
    interfaces: list[tuple[str, int]] = []
    try:
        with capture.open("rb") as file:
            for kind, block in blocks(file):
                # Between type and length at the beginning and the length again at the end.
                body = block[8:-4]
                # Packets refer to interfaces by the order of their descriptions.
                if kind == INTERFACE_DESCRIPTION:
                    interfaces.append((_name(body[8:]), struct.unpack_from("<H", body)[0]))
                elif kind == ENHANCED_PACKET:
                    number, high, low, captured, _ = struct.unpack_from("<5I", body)
                    name, link_type = interfaces[number]
                    # The kernel writes times in ns (if_tsresol 9), so they are not scaled.
                    yield Packet(name, link_type, high << 32 | low, body[20 : 20 + captured])
    except (struct.error, IndexError, ValueError):
        raise InputError(f"{capture}: is no whole capture of a run") from None


def blocks(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the type and all bytes of each block of a pcapng stream; the last may be cut off."""
    while header := stream.read(8):
        kind, length = struct.unpack("<II", header.ljust(8, b"\0"))
        yield kind, header + stream.read(max(0, min(length, BLOCK_LIMIT_BYTES) - 8))


def last_time_ns(end: bytes) -> int | None:
    """Return the time in ns of the last packet in a stream's last bytes; None if there is none.

    Every block ends with its own length, so the blocks are followed from the end backwards.
    """
    while len(end) >= 12:
        (length,) = struct.unpack_from("<I", end, len(end) - 4)
        # The block is cut off at its beginning, or these are no blocks.
        if not 12 <= length <= len(end):
            return None
        kind, again = struct.unpack_from("<II", end, len(end) - length)
        if again != length:
            return None
        if kind == ENHANCED_PACKET and length >= 32:
            high, low = struct.unpack_from("<II", end, len(end) - length + 12)
            return int(high << 32 | low)
        end = end[:-length]
    return None


def keys_in(secrets: bytes) -> bytes:
    """Return the text of a block of WireGuard keys; empty for a block of other secrets."""
    kind, length = struct.unpack_from("<II", secrets.ljust(16, b"\0"), 8)
    return secrets[16 : 16 + length] if kind == WIREGUARD_KEY_LOG else b""


def _name(options: bytes) -> str:
    """Return the interface's name from a block's options. Raises ValueError if it has none."""
    while options:
        code, length = struct.unpack_from("<HH", options)
        if code == OPTION_IF_NAME:
            return options[4 : 4 + length].decode()
        # Values of options are padded to 32 bits.
        options = options[4 + (length + 3) // 4 * 4 :]
    raise ValueError("an interface without a name")


class PcapngWriter:
    """Writes a pcapng file with directions, names for addresses and keys of WireGuard tunnels."""

    def __init__(self, file: BinaryIO, names: dict[str, str], keys: bytes = b"") -> None:
        """Write the head of the file: `names` by address, and `keys` as in a run's KEYS file."""
        self._file = file
        self._interfaces: dict[str, int] = {}
        self._block(SECTION_HEADER, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
        if keys:
            self._block(
                DECRYPTION_SECRETS, struct.pack("<II", WIREGUARD_KEY_LOG, len(keys)) + _padded(keys)
            )
        if names:
            self._block(
                NAME_RESOLUTION,
                b"".join(map(_resolution, names.items())) + bytes(4) + _option(OPTION_END),
            )

    def write(self, packet: Packet, interface: str, direction: int) -> None:
        """Write a packet of `interface` that goes INBOUND, OUTBOUND or in an UNKNOWN direction."""
        if interface not in self._interfaces:
            self._interfaces[interface] = len(self._interfaces)
            # An interface is described once, before its first packet.
            options = _option(OPTION_IF_NAME, interface.encode()) + _option(
                OPTION_IF_TSRESOL, NANOSECONDS
            )
            head = struct.pack("<HHI", packet.link_type, 0, 0)
            self._block(INTERFACE_DESCRIPTION, head + options + _option(OPTION_END))
        number, length = self._interfaces[interface], len(packet.frame)
        head = struct.pack(
            "<5I", number, packet.time_ns >> 32, packet.time_ns & 0xFFFFFFFF, length, length
        )
        options = _option(OPTION_EPB_FLAGS, struct.pack("<I", direction)) + _option(OPTION_END)
        self._block(ENHANCED_PACKET, head + _padded(packet.frame) + options)

    def _block(self, kind: int, body: bytes) -> None:
        length = struct.pack("<I", len(body) + 12)
        self._file.write(struct.pack("<I", kind) + length + body + length)


class PcapWriter:
    """Writes a file in the older pcap format, for tools that read no pcapng.

    It has one kind of interface, times in µs, and no directions.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._link_type: int | None = None

    def write(self, packet: Packet, interface: str, direction: int) -> None:
        """Write a packet. Raises InputError for an interface of another kind than the first one."""
        if self._link_type is None:
            self._link_type = packet.link_type
            self._file.write(
                struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, packet.link_type)
            )
        if packet.link_type != self._link_type:
            raise InputError(
                f"{interface}: a .pcap file holds Ethernet or tunnels, not both; write a .pcapng"
                " file"
            )
        seconds, rest_ns = divmod(packet.time_ns, 10**9)
        length = len(packet.frame)
        self._file.write(
            struct.pack("<4I", seconds, rest_ns // 1000, length, length) + packet.frame
        )


def _option(code: int, value: bytes = b"") -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _resolution(address_and_name: tuple[str, str]) -> bytes:
    """Return an entry of a name resolution block: an IPv4 address and its name."""
    address, name = address_and_name
    value = bytes(map(int, address.split("."))) + name.encode() + b"\0"
    return struct.pack("<HH", 1, len(value)) + _padded(value)


def _padded(value: bytes) -> bytes:
    """Return the value, filled up with zeros to 32 bits."""
    return value + bytes(-len(value) % 4)
