# SPDX-License-Identifier: GPL-3.0-or-later
"""The video of ladder.json: its files and manifest, which the server writes and the player reads.

Each segment of a representation has the same size, so one file is behind all their names.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

LADDER = Path(__file__).parent / "ladder.json"
MANIFEST = "video.mpd"
NAMESPACE = {"": "urn:mpeg:dash:schema:mpd:2011"}
MEDIA = "$RepresentationID$/$Number$.m4s"


class Video(NamedTuple):
    """A video in segments of one length, at rising bitrates."""

    segment_s: int
    segments: int
    bitrates_bps: tuple[int, ...]

    def segment_bytes(self, bitrate_bps: int) -> int:
        """Return the size of each segment of a representation."""
        return bitrate_bps * self.segment_s // 8


def of_length(duration_s: int, ladder: Path = LADDER) -> Video:
    """Return the video whose segments last at least `duration_s`."""
    described = json.loads(ladder.read_text())
    segment_s = int(described["segment_s"])
    return Video(segment_s, math.ceil(duration_s / segment_s), tuple(described["bitrates_bps"]))


def manifest(video: Video) -> str:
    """Return the MPD (ISO/IEC 23009-1, profile isoff-live, static) of a video."""
    representations = "".join(
        f'<Representation id="{bitrate_bps}" bandwidth="{bitrate_bps}"/>'
        for bitrate_bps in video.bitrates_bps
    )
    return (
        f'<MPD xmlns="{NAMESPACE[""]}" type="static"'
        ' profiles="urn:mpeg:dash:profile:isoff-live:2011"'
        f' mediaPresentationDuration="PT{video.segments * video.segment_s}S"'
        f' minBufferTime="PT{video.segment_s}S">'
        '<Period><AdaptationSet mimeType="video/mp4" segmentAlignment="true">'
        f'<SegmentTemplate duration="{video.segment_s}" startNumber="1" media="{MEDIA}"/>'
        f"{representations}</AdaptationSet></Period></MPD>\n"
    )


def read(text: bytes) -> Video:
    """Return the video that a manifest of `manifest` describes."""
    root = ElementTree.fromstring(text)
    template = root.find(".//SegmentTemplate", NAMESPACE)
    length_s = int(root.attrib["mediaPresentationDuration"].removeprefix("PT").removesuffix("S"))
    segment_s = int(template.attrib["duration"]) if template is not None else length_s
    bitrates_bps = (
        int(representation.attrib["bandwidth"])
        for representation in root.iterfind(".//Representation", NAMESPACE)
    )
    return Video(segment_s, length_s // segment_s, tuple(bitrates_bps))


def path(bitrate_bps: int, number: int) -> str:
    """Return the path of a segment; they are numbered from 1."""
    return MEDIA.replace("$RepresentationID$", str(bitrate_bps)).replace("$Number$", str(number))


def write(directory: Path, video: Video) -> None:
    """Write manifest and segments: the same bytes each time, that no compression makes smaller."""
    (directory / MANIFEST).write_text(manifest(video))
    for bitrate_bps in video.bitrates_bps:
        first = directory / path(bitrate_bps, 1)
        first.parent.mkdir()
        size = video.segment_bytes(bitrate_bps)
        first.write_bytes(random.Random(bitrate_bps).randbytes(size))
        for number in range(2, video.segments + 1):
            (directory / path(bitrate_bps, number)).hardlink_to(first)
