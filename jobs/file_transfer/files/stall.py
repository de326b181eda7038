# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a transfer over QUIC stands still: what the receiver's log of QUIC (qlog) tells.

A sender may send up to the limits that the receiver has told, of a stream (MAX_STREAM_DATA) and of
the connection (MAX_DATA). A packet with a new limit may be lost: then it has to be sent again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

STREAM, PACKET_BYTES = 0, 1500
"""The first stream that a client opens: that of its request; and what no packet is longer than."""


def reason(directory: Path) -> str:
    """Return why the transfer stands still whose qlog is in a directory; "" without a qlog."""
    arrived, limits = 0, {"MAX_STREAM_DATA": [0], "MAX_DATA": [0]}
    blocked = ""
    for name, frame in frames(directory):
        kind = str(frame.get("frame_type")).upper()
        if frame.get("stream_id", STREAM) != STREAM:
            continue
        if name == "transport:packet_sent" and kind in limits:
            limits[kind].append(int(frame["maximum"]))
        elif name == "transport:packet_received" and kind == "STREAM":
            length = frame.get("payload_length", frame.get("length", 0))
            arrived = max(arrived, int(frame.get("offset", 0)) + int(length))
        elif name == "transport:packet_received" and kind.endswith("DATA_BLOCKED"):
            blocked = f" and says so ({kind})"
            kind = f"MAX_{kind.removesuffix('_BLOCKED')}"
            limits = {kind: limits[kind], **limits}  # looked at first
    for kind, offsets in limits.items():
        near = (offset for offset in offsets if 0 <= offset - arrived < PACKET_BYTES)
        held = min(near, default=arrived)
        if held in offsets and (higher := {offset for offset in offsets if offset > held}):
            return (
                f"the server has sent what the receiver allows, up to the offset {held}"
                f"{blocked}; the receiver's library has told {len(higher)} higher limits"
                f" ({kind}), up to {max(higher)}, in packets that were lost, and repeats none"
            )
    limit = max(limits["MAX_STREAM_DATA"])
    return (
        f"{arrived} bytes came{blocked}, of {limit} that the receiver allows" if limit else ""
    )  # no log of it


def frames(directory: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the frames of the newest qlog of a directory, each with the name of its event."""
    logs = sorted(directory.glob("*.sqlog"), key=lambda file: file.stat().st_mtime)
    for line in logs[-1].read_text(errors="replace").splitlines() if logs else ():
        try:
            event = json.loads(line.lstrip("\x1e"))
        except ValueError:
            continue  # cut off where the program was ended
        for frame in event.get("data", {}).get("frames", ()):
            yield str(event.get("name")), frame
