# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write captures of packets.

A run's capture (pcapng, written by kernel/src/capture.c) holds the packets that leave any
interface, in one file. The keys of its WireGuard tunnels are in a second file, if they were asked
for. Its digests (docs/method/README.md) are those of kernel/src/capture_digest.h.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from operator import mul
from pathlib import Path
from typing import Any, BinaryIO

from openbach_run.errors import InputError
from openbach_run.results.run_files import DamagedRecord

CAPTURE, KEYS = "capture.pcapng", "wireguard.keys"
"""Names of the two files in a run's directory."""
SECTION_HEADER, INTERFACE_DESCRIPTION, NAME_RESOLUTION = 0x0A0D0D0A, 1, 4
INTERFACE_STATISTICS, ENHANCED_PACKET, DECRYPTION_SECRETS = 5, 6, 10
WIREGUARD_KEY_LOG = 0x57474B4C
OPTION_END, OPTION_COMMENT, OPTION_IF_NAME, OPTION_IF_TSRESOL, OPTION_EPB_FLAGS = 0, 1, 2, 9, 2
ETHERNET, RAW = 1, 101
UNKNOWN, INBOUND, OUTBOUND = 0, 1, 2
NANOSECONDS = b"\x09"
BLOCK_LIMIT_BYTES = 1 << 18
"""The largest block that is read. The kernel's own blocks are smaller, but a job that has taken
over the guest's kernel may claim any length."""
KIND = "interfaces:"
"""The beginning of a `capture_hash` of the interfaces' digests. Older ones are of the whole stream:
SHA-256 (`sha256:`), BLAKE3 (no such beginning)."""
BASE, PIECE = 0x243F6A8885A308D3, 192
PRIME_OF_KEYS, PRIME = 2**64 - 59, 2**128 - 159
"""Numbers of the digest: the base, the words of a piece, the moduli."""


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


@dataclass(frozen=True)
class Digest:
    """The digest of one interface's packets."""

    line: bytes
    """The digest in hexadecimal, a blank, and the interface's name."""
    last_ns: int
    """The time of its last packet, as `Packet.time_ns`."""


def check_capture(run_dir: Path, described: Mapping[str, Any], *, hashed: bool) -> None:
    """Check the capture of a run, if it has one, by the length and the hash that its record says.

    The hash is left out without `hashed`: it takes a second for each GB. Raises DamagedRecord.
    """
    capture, host = run_dir / CAPTURE, described.get("host", {})
    if not capture.is_file():
        return
    size = capture.stat().st_size
    # Older records do not say the length; no capture is empty.
    if size != (recorded := host.get("capture_bytes", max(size, 1))):
        raise DamagedRecord(f"{capture}: is damaged: {size} bytes, not {recorded}")
    if hashed and ":" not in (recorded := host.get("capture_blake3", described["capture_hash"])):
        from blake3 import blake3  # late, as few commands need it

        if blake3().update_mmap(capture).hexdigest() != recorded:
            raise DamagedRecord(f"{capture}: is damaged: the record has another hash of the file")


def hash_of(digests: Iterable[bytes]) -> str:
    """Return the `capture_hash` of the interfaces' digests (`Digest.line`); "" if there is none."""
    from blake3 import blake3

    lines = sorted(digests)
    text = b"".join(line + b"\n" for line in lines)
    return f"{KIND}{blake3(text).hexdigest(length=16)}" if lines else ""


def hash_of_packets(capture: Path) -> str:
    """Return the `capture_hash` of a capture file, from its packets (10 s for each GB).

    Raises InputError for a file that is no whole capture.
    """
    digests: dict[tuple[int, str], int] = defaultdict(int)
    for number, packet in _numbered(capture):
        place = number, packet.interface
        digests[place] = with_packet(digests[place], packet.time_ns, packet.frame)
    return hash_of(f"{digest:032x} {name}".encode() for (_, name), digest in digests.items())


def with_packet(digest: int, time_ns: int, frame: bytes) -> int:
    """Return an interface's digest after a further packet."""
    record = struct.pack("<QQ", time_ns, len(frame)) + frame
    words = memoryview(record + bytes(-len(record) % 8)).cast("Q")
    for start in range(0, len(words), PIECE):
        piece = words[start : start + PIECE]
        digest = (digest * BASE + sum(map(mul, piece, _word_keys()))) % PRIME
    return digest


@cache
def _word_keys() -> list[int]:
    return [pow(BASE, number, PRIME_OF_KEYS) for number in range(1, PIECE + 1)]


def differing_packets(then: str, now: str) -> str:
    """Return how the packets of two runs differ by `capture_hash`, in words; "" if they do not."""
    if then == now:
        return ""
    if then and now and _kind(then) != _kind(now):
        return f"packets cannot be compared: the hash is {_kind(then)} then, {_kind(now)} now"
    return "other packets"


def _kind(capture_hash: str) -> str:
    if capture_hash.startswith(KIND):
        return "of each interface's digest"
    return f"of the stream ({'SHA-256' if ':' in capture_hash else 'BLAKE3'})"


def packets(capture: Path) -> Iterator[Packet]:
    """Yield the packets of a capture file in the order of time.

    Raises InputError for a file that is no whole capture.
    """
    return (packet for _, packet in _numbered(capture))


def _numbered(capture: Path) -> Iterator[tuple[int, Packet]]:
    """Yield the packets with the numbers of their interfaces: several may have one name."""
    interfaces: list[tuple[str, int]] = []
    try:
        with capture.open("rb") as file:
            for kind, block in blocks(file):
                # Between type and length at the beginning and the length again at the end.
                body = block[8:-4]
                # Packets refer to interfaces by the order of their descriptions.
                if kind == INTERFACE_DESCRIPTION:
                    name = _option_in(body[8:], OPTION_IF_NAME).decode()
                    interfaces.append((name, struct.unpack_from("<H", body)[0]))
                elif kind == ENHANCED_PACKET:
                    number, high, low, captured, _ = struct.unpack_from("<5I", body)
                    name, link_type = interfaces[number]
                    # The kernel writes times in ns (if_tsresol 9), so they are not scaled.
                    frame = body[20 : 20 + captured]
                    yield number, Packet(name, link_type, high << 32 | low, frame)
    except (struct.error, IndexError, ValueError):
        raise InputError(f"{capture}: is no whole capture of a run") from None


def blocks(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the type and all bytes of each block of a pcapng stream; the last may be cut off."""
    while header := stream.read(8):
        kind, length = struct.unpack("<II", header.ljust(8, b"\0"))
        yield kind, header + stream.read(max(0, min(length, BLOCK_LIMIT_BYTES) - 8))


def digests_at(end: bytes) -> list[Digest]:
    """Return the digests of all interfaces from a stream's last bytes; [] if it was cut off.

    Every block ends with its own length, so the blocks are followed from the end backwards. There
    they have the numbers 0, 1, … . Raises ValueError, struct.error for a digest that is none.
    """
    digests: list[Digest] = []
    rest = memoryview(end)
    while len(rest) >= 12:
        (length,) = struct.unpack_from("<I", rest, len(rest) - 4)
        # The block is cut off at its beginning, or these are no blocks.
        if not 12 <= length <= len(rest):
            break
        block, rest = bytes(rest[-length:]), rest[:-length]
        kind, _, number, high, low = struct.unpack_from("<5I", block.ljust(20, b"\0"))
        if kind != INTERFACE_STATISTICS or number != len(digests):
            break
        line = _option_in(block[20:-4], OPTION_COMMENT)
        if not re.match(rb"[0-9a-f]{32} ", line):
            raise ValueError("an interface without a digest")
        digests.append(Digest(line, high << 32 | low))
    return digests


def time_of(packet: bytes) -> int:
    """Return the time in ns of an ENHANCED_PACKET block."""
    high, low = struct.unpack_from("<II", packet, 12)
    return int(high << 32 | low)


def keys_in(secrets: bytes) -> bytes:
    """Return the text of a block of WireGuard keys; empty for a block of other secrets."""
    kind, length = struct.unpack_from("<II", secrets.ljust(16, b"\0"), 8)
    return secrets[16 : 16 + length] if kind == WIREGUARD_KEY_LOG else b""


def _option_in(options: bytes, wanted: int) -> bytes:
    """Return the value of an option of a block. Raises ValueError if there is none."""
    while options:
        code, length = struct.unpack_from("<HH", options)
        if code == wanted:
            return options[4 : 4 + length]
        # Values of options are padded to 32 bits.
        options = options[4 + (length + 3) // 4 * 4 :]
    raise ValueError("an interface without a name or a digest")


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
    """Return an entry of a name resolution block: an address and its name."""
    address, name = ip_address(address_and_name[0]), address_and_name[1]
    value = address.packed + name.encode() + b"\0"
    return struct.pack("<HH", 1 if address.version == 4 else 2, len(value)) + _padded(value)


def _padded(value: bytes) -> bytes:
    """Return the value, filled up with zeros to 32 bits."""
    return value + bytes(-len(value) % 4)
