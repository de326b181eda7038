# SPDX-License-Identifier: GPL-3.0-or-later
"""A table as a Parquet file: optional columns of texts and 64-bit numbers, each with words about it.

The import of pyarrow takes 50 ms of CPU, an eighth of a short command's own time. What is written here is the least that the
format asks for (apache/parquet-format: Thrift's compact protocol, one plain data page a column and row group), and Arrow's
schema as Arrow keeps it in Parquet files, which has the words (apache/arrow, format/Schema.fbs: a flatbuffer).
"""

from __future__ import annotations

import base64
import struct
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

MAGIC = b"PAR1"
TEXT = "string"
PHYSICAL = {"int64": 2, "float64": 5, TEXT: 6}
CODES = {"int64": "q", "float64": "d"}
"""Of `array`."""
GZIP, PLAIN, RLE, OPTIONAL = 2, 0, 3, 1
I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
"""Thrift's types in the compact protocol."""


class Column(NamedTuple):
    name: str
    kind: str
    """int64, float64 or string."""
    words: Mapping[str, str]


def write(file: Path, columns: Sequence[Column], batches: Iterable[Sequence[Mapping[str, Any]]]) -> None:
    """Each batch of rows is a row group; what a row does not have is null."""
    groups, rows = [], 0
    with file.open("wb") as out:
        out.write(MAGIC)
        for batch in batches:
            chunks, size = [], 0
            for column in columns:
                chunk, whole = _chunk(column, [row.get(column.name) for row in batch], out.tell())
                out.write(whole)
                chunks.append(chunk)
                size += len(whole)
            groups.append(_struct({1: (LIST, _list(STRUCT, chunks)), 2: _i64(size), 3: _i64(len(batch))}))
            rows += len(batch)
        root = _struct({4: _text(b"schema"), 5: _i32(len(columns))})
        arrow = _struct({1: _text(b"ARROW:schema"), 2: _text(base64.b64encode(_arrow_schema(columns)))})
        footer = _struct({
            1: _i32(2), 2: (LIST, _list(STRUCT, [root, *map(_element, columns)])), 3: _i64(rows),
            4: (LIST, _list(STRUCT, groups)), 5: (LIST, _list(STRUCT, [arrow])), 6: _text(b"openbach-run"),
        })  # fmt: skip
        out.write(footer + struct.pack("<I", len(footer)) + MAGIC)


def _chunk(column: Column, values: Sequence[Any], offset: int) -> tuple[bytes, bytes]:
    """What the footer says of a column's page that begins at `offset`, and the page."""
    there = int("".join("01"[value is not None] for value in reversed(values)), 2)  # the first value is the lowest bit
    groups = -(-len(values) // 8)
    levels = _varint(groups << 1 | 1) + there.to_bytes(groups, "little")
    content = struct.pack("<I", len(levels)) + levels + _plain(column.kind, [one for one in values if one is not None])
    packer = zlib.compressobj(1, wbits=31)
    packed = packer.compress(content) + packer.flush()
    page = (STRUCT, _struct({1: _i32(len(values)), 2: _i32(PLAIN), 3: _i32(RLE), 4: _i32(RLE)}))
    header = _struct({1: _i32(0), 2: _i32(len(content)), 3: _i32(len(packed)), 5: page})
    about = _struct({
        1: _i32(PHYSICAL[column.kind]), 2: (LIST, _list(I32, [_i32(PLAIN)[1], _i32(RLE)[1]])),
        3: (LIST, _list(BINARY, [_text(column.name.encode())[1]])), 4: _i32(GZIP), 5: _i64(len(values)),
        6: _i64(len(header) + len(content)), 7: _i64(len(header) + len(packed)), 9: _i64(offset),
    })  # fmt: skip
    return _struct({2: _i64(offset), 3: (STRUCT, about)}), header + packed


def _plain(kind: str, values: Sequence[Any]) -> bytes:
    if kind in CODES:
        return array(CODES[kind], values).tobytes()
    return b"".join(struct.pack("<I", len(text)) + text for text in (value.encode() for value in values))


def _element(column: Column) -> bytes:
    texts = {6: _i32(0), 10: (STRUCT, _struct({1: (STRUCT, _struct({}))}))} if column.kind == TEXT else {}
    return _struct({1: _i32(PHYSICAL[column.kind]), 3: _i32(OPTIONAL), 4: _text(column.name.encode()), **texts})


# Thrift's compact protocol: a field is its type and content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _i32(number: int) -> tuple[int, bytes]:
    return I32, _varint(number << 1)  # none of ours is negative


def _i64(number: int) -> tuple[int, bytes]:
    return I64, _varint(number << 1)


def _text(content: bytes) -> tuple[int, bytes]:
    return BINARY, _varint(len(content)) + content


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + _varint(len(items))
    return head + b"".join(items)


def _struct(fields: Mapping[int, tuple[int, bytes]]) -> bytes:
    """By their numbers, in order."""
    out, last = b"", 0
    for number, (kind, content) in fields.items():
        out += bytes([number - last << 4 | kind]) + content
        last = number
    return out + b"\0"


# Flatbuffers: an object is where it begins in its bytes, and these, which hold all that it refers to


Object = tuple[int, bytes]
TYPES: dict[str, tuple[int, dict[int, int | Object]]] = {
    "int64": (2, {0: 64, 1: 1}), "float64": (3, {0: 2}), TEXT: (5, {}),
}  # fmt: skip
"""Arrow's: number of the table in the union, and what is in it (bits and sign; precision)."""


def _arrow_schema(columns: Sequence[Column]) -> bytes:
    """An encapsulated message."""
    fields = []
    for column in columns:
        number, content = TYPES[column.kind]
        words = [_table({0: _string(key), 1: _string(text)}) for key, text in column.words.items()]
        field: dict[int, int | Object] = {0: _string(column.name), 1: 1, 2: number, 3: _table(content), 5: _vector([])}
        fields.append(_table(field | ({6: _vector(words)} if words else {})))
    start, message = _table({0: 4, 1: 1, 2: _table({1: _vector(fields)})})  # version 5, a schema
    return struct.pack("<iIII", -1, 8 + len(message), 8 + start, 0) + message


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 8)


def _string(text: str) -> Object:
    content = text.encode()
    return 0, _padded(struct.pack("<I", len(content)) + content + b"\0")


def _vector(items: Sequence[Object]) -> Object:
    head = _padded(struct.pack("<I", len(items)) + bytes(4 * len(items)))
    return 0, _referring(head, {4 + 4 * place: item for place, item in enumerate(items)})


def _table(fields: Mapping[int, int | Object]) -> Object:
    """Numbers, and other objects; each takes four bytes."""
    places = {number: 4 + 4 * place for place, number in enumerate(fields)}
    count = max(fields, default=-1) + 1
    offsets = [places.get(number, 0) for number in range(count)]
    head = _padded(struct.pack(f"<{2 + count}H", 4 + 2 * count, 4 + 4 * len(fields), *offsets))
    start = len(head)
    own = [one if isinstance(one, int) else 0 for one in fields.values()]
    head = _padded(head + struct.pack(f"<{1 + len(own)}i", start, *own))
    others = {start + places[number]: one for number, one in fields.items() if not isinstance(one, int)}
    return start, _referring(head, others)


def _referring(head: bytes, objects: Mapping[int, Object]) -> bytes:
    """With the objects behind it, and where they are at their places in it."""
    out = bytearray(head)
    for place, (start, content) in objects.items():
        struct.pack_into("<I", out, place, len(out) + start - place)
        out += content
    return bytes(out)
