# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job web_page: a page (page.json) from a server over TLS, loaded again and again.

Each time it has cold connections.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import collect_agent
import page

from openbach_jobs import ends, limits, nginx
from openbach_jobs.command import run, wait_for
from openbach_jobs.ports import READY_LIMIT_S, with_port

CONFIGURATION = "/opt/openbach/agent/jobs/web_page/web_page_rstats_filter.conf"
PORT = 8443
LOAD = ["/usr/bin/python3", str(Path(__file__).parent / "page_load.py")]
LIMITS = {"loads": (1, 10_000), "deadline_s": (1, 86400)}
LATE_S = 5.0
"""Seconds that a load may take beyond its deadline before it is killed."""


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser, server, client = ends.command_line(__doc__)
    for mode in (server, client):
        mode.add_argument("--http", choices=nginx.VERSIONS, default="2")
    nginx.add_quic_arguments(server, server)
    client.add_argument("--loads", type=int, default=1)
    client.add_argument("--deadline-s", type=int, default=600, help="of one load")
    # Into a group: a new argument beside the others moves the packets of every run.
    lookup = client.add_argument_group("lookup of the server's name before each load")
    lookup.add_argument("--dns", choices=["none", "udp", "dot", "doh"], default="none")
    lookup.add_argument("--dns-at", choices=["server", "beside"], default="server")
    lookup.add_argument("--beside-ip", default="", help="of the resolver beside the tunnel")
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    if arguments.mode == "server":
        arguments.stack = nginx.stack_of(server, arguments, arguments.http)
    return arguments


def serve(http: str, stack: str, cc: str) -> None:
    """Serve the page until the job is stopped; `cc` is of another implementation than nginx."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "page").mkdir()
        page.write(directory / "page")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        if stack == nginx.NGINX:
            serving = nginx.serving(directory, PORT, directory / "page", http)
        else:
            from openbach_jobs import quic_stacks

            serving = quic_stacks.serving(stack, PORT, directory / "page", cc)
        with serving as server:
            sys.exit(f"{stack} ended by itself with exit code {server.wait()}")


def failure(server_ip: str, http: str) -> str:
    """Return why the server does not answer a request; "" if it does.

    A connection alone may be that of a proxy.
    """
    request = subprocess.run(
        [*LOAD, "wait", url(server_ip), http], check=False, capture_output=True, text=True
    )
    return f": {request.stderr.strip()}" if request.returncode else ""


def url(server_ip: str) -> str:
    """Return the address of the page."""
    return f"https://{with_port(server_ip, PORT)}"


def load(arguments: argparse.Namespace) -> dict[str, Any]:
    """Load the page once in a program of its own, and return what that measured."""
    address, resolver, deadline_s = url(arguments.server_ip), [], arguments.deadline_s
    if arguments.dns != "none":
        from openbach_jobs import names  # not above: to read a file takes virtual time

        is_beside = arguments.dns_at == "beside"
        resolver = [arguments.dns, arguments.beside_ip if is_beside else arguments.server_ip]
        address = url(names.NAME)
    words = [*LOAD, "load", address, arguments.http, str(deadline_s), *resolver]
    measured: dict[str, Any] = json.loads(run(*words, limit_s=deadline_s + LATE_S))
    return measured


def measure(arguments: argparse.Namespace) -> None:
    """Wait for the server, load the page as often as asked, and send what each load took."""
    missing = f"the server of web_page on {arguments.server_ip} does not answer"
    why = partial(failure, arguments.server_ip, arguments.http)
    wait_for(missing, lambda: not why(), READY_LIMIT_S, evidence=why)
    for _ in range(arguments.loads):
        measured = load(arguments)
        collect_agent.send_stat(collect_agent.now(), **measured)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        ends.run(
            "web_page",
            parse(),
            lambda server: serve(server.http, server.stack, server.quic_cc),
            measure,
        )
