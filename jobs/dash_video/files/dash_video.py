# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job dash_video: a video by DASH over TLS, with an adaptive player that has no screen."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import collect_agent
import video

from openbach_jobs import ends, limits, nginx
from openbach_jobs.command import wait_for
from openbach_jobs.ports import READY_LIMIT_S, with_port

CONFIGURATION = "/opt/openbach/agent/jobs/dash_video/dash_video_rstats_filter.conf"
PORT = 8444
PLAYER = ["/usr/bin/python3", str(Path(__file__).parent / "dash_player.py")]
LIMITS = {"duration_s": (8, 3600), "buffer_s": (8, 240), "deadline_s": (1, 86400)}


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser, server, client = ends.command_line(__doc__)
    for mode in (server, client):
        mode.add_argument("--http", choices=nginx.VERSIONS, default="2")
    server.add_argument("--duration-s", type=int, default=120, help="length of the video")
    client.add_argument("--buffer-s", type=int, default=24, help="that the player fills")
    client.add_argument("--deadline-s", type=int, default=600, help="of one segment")
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    return arguments


def serve(arguments: argparse.Namespace) -> None:
    """Serve the video until the job is stopped."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "video").mkdir()
        video.write(directory / "video", video.of_length(arguments.duration_s))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with nginx.serving(directory, PORT, directory / "video", arguments.http) as server:
            sys.exit(f"nginx ended by itself with exit code {server.wait()}")


def failure(url: str, http: str) -> str:
    """Return why the server does not answer a request; "" if it does."""
    waited = subprocess.run(
        [*PLAYER, "wait", url, http], check=False, capture_output=True, text=True
    )
    return f": {waited.stderr.strip()}" if waited.returncode else ""


def measure(arguments: argparse.Namespace) -> None:
    """Wait for the server, play the video once, and send what the player prints."""
    url, http = f"https://{with_port(arguments.server_ip, PORT)}", arguments.http
    missing = f"the server of dash_video on {arguments.server_ip} does not answer"
    wait_for(
        missing, lambda: not failure(url, http), READY_LIMIT_S, evidence=lambda: failure(url, http)
    )
    words = [*PLAYER, "play", url, http, str(arguments.buffer_s), str(arguments.deadline_s)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as player:
        for line in player.stdout or ():
            collect_agent.send_stat(collect_agent.now(), **json.loads(line))
    if player.returncode:
        sys.exit("the player failed")


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        ends.run("dash_video", parse(), serve, measure)
