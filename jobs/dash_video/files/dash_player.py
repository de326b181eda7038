# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays a video by DASH without a screen; prints a line of JSON for each segment and at the end.

    dash_player.py wait URL HTTP                        ends well if the server answers
    dash_player.py play URL HTTP BUFFER_S DEADLINE_S

A program of its own, run by Debian's Python: Debian's pycurl is for that one. One segment is
fetched after the other on one connection. Playing begins with the first segment; an empty buffer
stops it until the next one is there.
"""

from __future__ import annotations

import io
import itertools
import json
import sys
import time

import bola
import pycurl
import video

HTTP_VERSIONS = {"1.1": pycurl.CURL_HTTP_VERSION_1_1, "2": pycurl.CURL_HTTP_VERSION_2TLS, "3": 31}
USED = {"1.1": pycurl.CURL_HTTP_VERSION_1_1, "2": pycurl.CURL_HTTP_VERSION_2_0, "3": 30}
"""CURL_HTTP_VERSION_3ONLY and CURL_HTTP_VERSION_3 of curl/curl.h, which older versions of pycurl do
not name."""
ANSWER_LIMIT_S = 240.0


class Server:
    """A server's files over one connection."""

    def __init__(self, base: str, http: str, deadline_s: float) -> None:
        """Prepare the connection. Nothing vouches for the certificate: it is the server's own."""
        if http == "3" and "nghttp3" not in pycurl.version:
            sys.exit(
                "http=3: this host's libcurl has no HTTP/3; Debian's has it from trixie on"
                f" ({pycurl.version})"
            )
        self.base, self.http = base, http
        self.handle = pycurl.Curl()
        for option, value in {
            pycurl.HTTP_VERSION: HTTP_VERSIONS[http],
            pycurl.SSL_VERIFYPEER: 0,
            pycurl.SSL_VERIFYHOST: 0,
            pycurl.TIMEOUT_MS: round(deadline_s * 1000),
            pycurl.FAILONERROR: 1,
        }.items():
            self.handle.setopt(option, value)

    def get(self, path: str) -> bytes:
        """Return a file. Ends this program if it does not come, or by another version of HTTP."""
        content = io.BytesIO()
        self.handle.setopt(pycurl.URL, f"{self.base}/{path}")
        self.handle.setopt(pycurl.WRITEDATA, content)
        try:
            self.handle.perform()
        except pycurl.error as error:
            sys.exit(f"{self.base}/{path}: {error.args[1]}")
        if self.handle.getinfo(pycurl.INFO_HTTP_VERSION) != USED[self.http]:
            sys.exit(f"{path}: came with another HTTP version than {self.http}")
        return content.getvalue()


def send(**figures: float) -> None:
    """Print figures as a line of JSON."""
    print(json.dumps(figures), flush=True)


def play(server: Server, buffer_s: float) -> None:
    """Fetch manifest and segments as a player does, and print what a viewer sees."""
    began_s = time.monotonic()
    film = video.read(server.get(video.MANIFEST))
    room_s = buffer_s - film.segment_s
    buffered_s, stalls, stalled_s, start_delay_s = 0.0, 0, 0.0, 0.0
    bitrates_bps: list[int] = []
    at_s = began_s
    for number in range(1, film.segments + 1):
        if buffered_s > room_s:
            time.sleep(buffered_s - room_s)
            buffered_s -= time.monotonic() - at_s
            at_s = time.monotonic()
        bitrate_bps = bola.choice(
            film.bitrates_bps, buffered_s / film.segment_s, buffer_s / film.segment_s
        )
        content = server.get(video.path(bitrate_bps, number))
        if len(content) != film.segment_bytes(bitrate_bps):
            sys.exit(f"segment {number}: {len(content)} bytes came")
        now_s = time.monotonic()
        missing_s = now_s - at_s - buffered_s
        if number == 1:
            start_delay_s = now_s - began_s
        elif missing_s > 0:
            stalls, stalled_s = stalls + 1, stalled_s + missing_s
        buffered_s, at_s = max(0.0, -missing_s) + film.segment_s, now_s
        bitrates_bps.append(bitrate_bps)
        send(segment_bitrate_bps=bitrate_bps, buffer_s=round(buffered_s, 6))
    send(
        start_delay_s=round(start_delay_s, 6),
        stalls=stalls,
        stall_time_s=round(stalled_s, 6),
        mean_bitrate_bps=round(sum(bitrates_bps) / len(bitrates_bps)),
        bitrate_changes=sum(before != after for before, after in itertools.pairwise(bitrates_bps)),
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["wait", base, http]:
            Server(base, http, ANSWER_LIMIT_S).get(video.MANIFEST)
        case ["play", base, http, buffer_s, deadline_s]:
            play(Server(base, http, float(deadline_s)), float(buffer_s))
        case _:
            sys.exit(__doc__)
