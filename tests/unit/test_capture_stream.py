# SPDX-License-Identifier: GPL-3.0-or-later
"""The stream of a guest's packets.

What is hashed and kept of it, and where its keys go, however it arrives.
"""

from __future__ import annotations

import io
import os
import random
import struct
import threading
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.engine.virtual.engine import _Capture
from openbach_run.results import run_files
from openbach_run.results.captures import (
    BLOCK_LIMIT_BYTES,
    DECRYPTION_SECRETS,
    ENHANCED_PACKET,
    INTERFACE_STATISTICS,
    KEYS,
    PRIME,
    SECTION_HEADER,
    WIREGUARD_KEY_LOG,
    Digest,
    Packet,
    PcapngWriter,
    blocks,
    differing_packets,
    digests_at,
    hash_of,
    hash_of_packets,
    keys_in,
    packets,
    with_packet,
)

HANDSHAKE = b"LOCAL_STATIC_PRIVATE_KEY = " + b"A" * 43 + b"=\n"


def block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def secrets(text: bytes, kind: int = WIREGUARD_KEY_LOG) -> bytes:
    return block(
        DECRYPTION_SECRETS, struct.pack("<II", kind, len(text)) + text + bytes(-len(text) % 4)
    )


PACKETS = [
    block(SECTION_HEADER, bytes(16)),
    *(block(ENHANCED_PACKET, bytes([n]) * 4 * n) for n in range(1, 40)),
]


def sent(
    stream: bytes, place: Path, *, piece: int, with_keys: bool = True
) -> tuple[_Capture, bytes]:
    """What has read a pipe into which the stream is written, and the file that it has written."""
    read_end, write_end = os.pipe()
    file = place / "kept"

    def write() -> None:
        with os.fdopen(write_end, "wb", buffering=0) as pipe:
            for start in range(0, len(stream), piece):
                pipe.write(stream[start : start + piece])

    capture = _Capture(io.FileIO(read_end), file.open("wb", buffering=0), with_keys=with_keys)
    writer = threading.Thread(target=write)
    writer.start()
    writer.join()
    capture.join()
    return capture, file.read_bytes()


def kept_in(place: Path, stream: bytes) -> _Capture:
    read_end, write_end = os.pipe()
    capture = _Capture(io.FileIO(read_end), place.open("wb", buffering=0), with_keys=False)
    with os.fdopen(write_end, "wb") as pipe:
        pipe.write(stream)
    capture.join()
    return capture


def test_a_full_disk_is_named() -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        kept_in(Path("/dev/full"), b"".join(PACKETS)).wrong()


def test_a_capture_has_a_limit_where_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openbach_run.engine.virtual.engine.CAPTURE_LIMIT_BYTES", 1000)
    stream = b"".join(PACKETS)
    too_much = kept_in(tmp_path / "kept", stream).wrong() or ""
    assert "sent more than" in too_much
    assert (tmp_path / "kept").stat().st_size <= 1000
    assert kept_in(Path(os.devnull), stream).wrong() is None


@pytest.mark.parametrize("piece", [1, 7, 64, 1 << 16])
def test_keys_go_to_neither_the_hash_nor_the_capture(piece: int, tmp_path: Path) -> None:
    stream = b"".join(
        [*PACKETS[:5], secrets(HANDSHAKE), *PACKETS[5:20], secrets(b"x\n"), *PACKETS[20:]]
    )
    capture, kept = sent(stream, tmp_path, piece=piece)
    assert kept == b"".join(PACKETS)
    assert capture.file_hash == blake3(kept).hexdigest()
    assert capture.keys == HANDSHAKE + b"x\n"


def test_without_keys_the_stream_is_kept_as_it_is(tmp_path: Path) -> None:
    stream = b"".join([*PACKETS, secrets(HANDSHAKE)])
    capture, kept = sent(stream, tmp_path, piece=1000, with_keys=False)
    assert (kept, capture.keys) == (stream, b"")


@pytest.mark.parametrize(
    "end",
    [
        b"\x06",
        PACKETS[30][:50],
        struct.pack("<II", ENHANCED_PACKET, 0xFFFFFFFF) + b"?" * 500,
        bytes(8),
        bytes(20),
    ],
    ids=["cut off in a header", "cut off in a block", "claims 4 GiB", "claims nothing", "zeros"],
)
def test_every_byte_of_a_stream_that_is_none_is_kept(end: bytes, tmp_path: Path) -> None:
    capture, kept = sent(b"".join(PACKETS) + end, tmp_path, piece=1 << 16)
    assert kept == b"".join(PACKETS) + end and capture.keys == b""


def test_no_block_is_read_whole_that_is_larger_than_any_of_the_kernels() -> None:
    large = struct.pack("<II", ENHANCED_PACKET, 1 << 30) + bytes(2 * BLOCK_LIMIT_BYTES)
    assert max(len(one) for _, one in blocks(io.BytesIO(large))) == BLOCK_LIMIT_BYTES


def test_secrets_of_another_kind_are_no_keys() -> None:
    assert keys_in(secrets(HANDSHAKE)) == HANDSHAKE
    assert keys_in(secrets(HANDSHAKE, kind=0x544C534B)) == keys_in(b"") == b""


def test_a_file_has_the_keys_before_all_packets(tmp_path: Path) -> None:
    file = tmp_path / "st.pcapng"
    packet = Packet("st/to_sat", 1, 1767225600 * 10**9, bytes(60))
    with file.open("wb") as opened:
        PcapngWriter(opened, {"192.0.2.1": "st"}, HANDSHAKE).write(packet, "st/to_sat", 2)
    found = list(blocks(io.BytesIO(file.read_bytes())))
    assert [kind for kind, _ in found[:2]] == [SECTION_HEADER, DECRYPTION_SECRETS]
    assert keys_in(found[1][1]) == HANDSHAKE and len(found[1][1]) % 4 == 0
    assert list(packets(file)) == [packet]


def test_nobody_else_may_read_the_keys_and_a_guests_file_of_that_name_goes(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (tmp_path / KEYS).symlink_to(elsewhere)
    run_files.write_secret(tmp_path, KEYS, HANDSHAKE)
    assert (tmp_path / KEYS).lstat().st_mode & 0o177777 == 0o100600
    assert (elsewhere.read_text(), (tmp_path / KEYS).read_bytes()) == ("mine", HANDSHAKE)


def statistics(digest: Digest, number: int) -> bytes:
    """The block that ends a stream, once for each interface."""
    comment = struct.pack("<HH", 1, len(digest.line)) + digest.line + bytes(-len(digest.line) % 4)
    times = struct.pack("<III", number, digest.last_ns >> 32, digest.last_ns & 0xFFFFFFFF)
    return block(INTERFACE_STATISTICS, times + comment + bytes(4))


DIGESTS = [Digest(b"%032x host%d/eth0" % (n, n), (5 << 40) + n) for n in range(300)]
END = b"".join(statistics(DIGESTS[n], n) for n in reversed(range(300)))
"""As the kernel sends them: the last interface first."""


def packet(time_ns: int, size: int) -> bytes:
    return block(
        ENHANCED_PACKET,
        struct.pack("<5I", 0, time_ns >> 32, time_ns & 0xFFFFFFFF, size, size) + bytes(size),
    )


@pytest.mark.parametrize("piece", [100, 65536, 1 << 20])
@pytest.mark.parametrize("count", [1, 3000])
@pytest.mark.parametrize("with_keys", [False, True])
def test_the_digests_are_known(tmp_path: Path, piece: int, count: int, with_keys: bool) -> None:
    """However they arrive, and after 4 MB of packets, too."""
    stream = packet(1, 1500) * count + END
    capture, kept = sent(stream, tmp_path, piece=piece, with_keys=with_keys)
    assert kept == stream and capture.wrong() is None
    assert capture.digests == DIGESTS
    assert capture.hash == hash_of(one.line for one in reversed(DIGESTS))


@pytest.mark.parametrize(
    "end",
    [
        *(b"", b"x", bytes(12), bytes(40), b"\xff" * 40, struct.pack("<III", 5, 12, 12)),
        packet(1, 100),
        END[:-1],
        END[: len(END) // 2],
        END + packet(1, 0),
    ],
)
def test_a_stream_that_was_cut_off_has_no_digests(end: bytes) -> None:
    assert digests_at(end) == [] and hash_of([]) == ""


def test_a_digest_that_is_none_fails_the_run(tmp_path: Path) -> None:
    capture, _ = sent(statistics(Digest(b"x", 0), 0), tmp_path, piece=100)
    assert "sent packets that cannot be read" in (capture.wrong() or "")


@given(st.binary(max_size=300))
def test_any_end_of_a_stream_has_digests_or_none(end: bytes) -> None:
    assert digests_at(end) == []


def test_the_digest_is_as_the_page_defines_it() -> None:
    """Word by word, of records of one word to several pieces."""
    digest = expected = 0
    for size in (0, 1, 8, 66, 1520, 1521, 9000):
        frame = random.Random(size).randbytes(size)
        digest = with_packet(digest, 2**63 + size, frame)
        words = [2**63 + size, size]
        words += [int.from_bytes(frame[at : at + 8], "little") for at in range(0, size, 8)]
        for first in range(0, len(words), 192):
            expected *= 0x243F6A8885A308D3
            key = 1
            for word in words[first : first + 192]:
                key = key * 0x243F6A8885A308D3 % (2**64 - 59)
                expected += key * word
        assert digest == expected % PRIME


def test_the_hash_of_a_file_does_not_depend_on_the_order_of_interfaces(tmp_path: Path) -> None:
    left = {
        name: [Packet(name, 1, time_ns, name.encode() * time_ns) for time_ns in range(1, 9)]
        for name in ("pc/to_box", "box/to_pc")
    }
    orders = ([*left["pc/to_box"], *left["box/to_pc"]], [*left["box/to_pc"], *left["pc/to_box"]])
    hashes = []
    for one in (*orders, orders[0][1:]):
        file = tmp_path / "capture.pcapng"
        with file.open("wb") as opened:
            writer = PcapngWriter(opened, {})
            for each in one:
                writer.write(each, each.interface, 2)
        hashes.append(hash_of_packets(file))
    assert hashes[0] == hashes[1] != hashes[2]


def test_hashes_of_two_kinds_are_not_compared() -> None:
    now, before, first = hash_of([DIGESTS[0].line]), "ab" * 32, "sha256:" + "cd" * 32
    assert differing_packets(now, now) == differing_packets(before, before) == ""
    assert differing_packets(now, hash_of([DIGESTS[1].line])) == "other packets"
    for then in (before, first):
        assert differing_packets(then, now).startswith("packets cannot be compared: the hash is of")
