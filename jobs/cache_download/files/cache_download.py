# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job cache_download: files of a binary cache (cache.json) from nginx by curl.

They come over TLS, several at a time.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import collect_agent

from openbach_jobs import ends, limits, nginx
from openbach_jobs.command import run, wait_for
from openbach_jobs.ports import READY_LIMIT_S, with_port

CONFIGURATION = "/opt/openbach/agent/jobs/cache_download/cache_download_rstats_filter.conf"
DESCRIPTION = Path(__file__).parent / "cache.json"
PORT = 8444
CURL = {"1.1": "--http1.1", "2": "--http2"}
"""curl's option by version of HTTP. It takes other versions too, so what came is checked."""
LIMITS = {"files": (0, 10_000), "parallel": (1, 50), "deadline_s": (1, 86400)}
LATE_S = 5.0
"""Seconds that curl may take beyond its deadline before it is killed."""


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser, _, client = ends.command_line(__doc__)
    client.add_argument("--http", choices=list(CURL), default="1.1")
    client.add_argument(
        "--files", type=int, default=0, help="how many of the cache's, the first by name; 0: all"
    )
    client.add_argument("--parallel", type=int, default=8, help="downloads at the same time")
    client.add_argument("--deadline-s", type=int, default=3600)
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    return arguments


def sizes(count: int = 0) -> dict[str, int]:
    """Return name → bytes of the first files, or of all."""
    files: dict[str, int] = json.loads(DESCRIPTION.read_text())["files"]
    return dict(list(files.items())[: count or None])


def serve() -> None:
    """Serve the files of the cache until the job is stopped."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "files").mkdir()
        for file, size in sizes().items():
            with (directory / "files" / file).open("wb") as content:
                content.truncate(size)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with nginx.serving(directory, PORT, directory / "files", "2") as server:
            sys.exit(f"nginx ended by itself with exit code {server.wait()}")


def curl(http: str, deadline_s: int, *words: str) -> list[str]:
    """Return curl's options. The server's certificate is its own, so nothing vouches for it."""
    options = ["-sS", "--fail", "--insecure", CURL[http], "--max-time", str(deadline_s)]
    return ["curl", *options, *words]


def failure(url: str, http: str) -> str:
    """Return why the server does not answer a request; "" if it does."""
    request = subprocess.run(
        curl(http, round(READY_LIMIT_S), "--head", "-o", "/dev/null", url),
        check=False,
        capture_output=True,
        text=True,
    )
    return f": {request.stderr.strip()}" if request.returncode else ""


def check(reports: list[dict[str, Any]], wanted: Mapping[str, int], http: str) -> None:
    """End the job unless every file came whole and with the version of HTTP."""
    came = {str(report["url"]).rpartition("/")[2]: report for report in reports}
    for name, size in wanted.items():
        if name not in came:
            sys.exit(f"{name}: has not come")
        arrived, used = came[name]["size_download"], came[name]["http_version"]
        if arrived != size:
            sys.exit(f"{name}: {arrived} of {size} bytes arrived")
        if used != http:
            sys.exit(f"{name}: came with HTTP/{used} instead of HTTP/{http}")


def measure(arguments: argparse.Namespace) -> None:
    """Download the files, check each one, and send what it took."""
    base = f"https://{with_port(arguments.server_ip, PORT)}"
    http, wanted = arguments.http, sizes(arguments.files)
    first = f"{base}/{next(iter(wanted))}"
    missing = f"the server of cache_download on {arguments.server_ip} does not answer"
    why = partial(failure, first, http)
    wait_for(missing, lambda: not why(), READY_LIMIT_S, evidence=why)
    downloads = "".join(f'url = "{base}/{name}"\noutput = /dev/null\n' for name in wanted)
    several = ["--parallel", "--parallel-max", str(arguments.parallel)]
    several += ["-w", "%{json}\\n", "--config", "-"]
    start_s = time.monotonic()
    printed = run(
        *curl(http, arguments.deadline_s, *several),
        text=downloads,
        limit_s=arguments.deadline_s + LATE_S,
    )
    download_time_s = round(time.monotonic() - start_s, 6)
    reports = [json.loads(line) for line in printed.splitlines()]
    check(reports, wanted, http)
    size = sum(wanted.values())
    collect_agent.send_stat(
        collect_agent.now(),
        download_time_s=download_time_s,
        goodput_bps=size * 8 / download_time_s,
        bytes=size,
        files=len(wanted),
        connections=sum(report["num_connects"] for report in reports),
    )


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        ends.run("cache_download", parse(), lambda _: serve(), measure)
