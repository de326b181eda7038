# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a PDF small: all that is no stream yet goes into one compressed stream.

Typst compresses texts and pictures. What it says of their structure, for screen readers, is longer
than both.
"""

from __future__ import annotations

import re
import zlib
from itertools import pairwise

PLACE = re.compile(rb"(\d{10}) \d{5} n")


def packed(pdf: bytes) -> bytes:
    """Return a PDF that Typst wrote, with its objects in an object stream (PDF 1.5)."""
    table = pdf.rindex(b"xref\n", 0, pdf.rindex(b"startxref"))
    places = [int(place) for place in PLACE.findall(pdf, table)]
    bounds = dict(pairwise([*sorted(places), table]))
    written = pdf[: min(places)]
    entries, names, bodies = [_entry(0, 0, 65535)], b"", b""
    container = len(places) + 1
    for number, place in enumerate(places, 1):
        text = pdf[place : bounds[place]].rstrip()
        if text.endswith(b"endstream\nendobj"):
            entries.append(_entry(1, len(written), 0))
            written += text + b"\n"
        else:
            entries.append(_entry(2, container, names.count(b"\n")))
            names += b"%d %d\n" % (number, len(bodies))
            bodies += text.partition(b"obj")[2].removesuffix(b"endobj").strip() + b"\n"
    entries.append(_entry(1, len(written), 0))
    about = b"/Type/ObjStm/N %d/First %d" % (names.count(b"\n"), len(names))
    written += _stream(container, about, names + bodies)
    entries.append(_entry(1, len(written), 0))
    keys = re.search(rb"/Root.*?(?=>>\s*startxref)", pdf[table:], re.DOTALL)
    assert keys is not None
    about = b"/Type/XRef/Size %d/W[1 4 2]%b" % (len(entries), keys[0])
    end = _stream(container + 1, about, b"".join(entries))
    return b"%b%bstartxref\n%d\n%%%%EOF\n" % (written, end, len(written))


def _entry(kind: int, place: int, within: int) -> bytes:
    return bytes([kind]) + place.to_bytes(4) + within.to_bytes(2)


def _stream(number: int, about: bytes, content: bytes) -> bytes:
    data = zlib.compress(content, 9)
    head = b"%d 0 obj\n<<%b/Length %d/Filter/FlateDecode>>" % (number, about, len(data))
    return b"%b\nstream\n%b\nendstream\nendobj\n" % (head, data)
