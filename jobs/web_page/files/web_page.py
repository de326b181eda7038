# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job web_page: a page (page.json) from nginx over TLS, loaded again and again, each time with cold connections.

The server makes its key and certificate anew at each start; the key is a file that only root can read and ends with the job.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import collect_agent
import nginx
import page
from command import run, wait_for
from ports import READY_LIMIT_S

CONFIGURATION = "/opt/openbach/agent/jobs/web_page/web_page_rstats_filter.conf"
PORT = 8443
LOAD = ["/usr/bin/python3", str(Path(__file__).parent / "page_load.py")]
LATE_S = 5.0
"""What a load may take beyond its deadline before it is killed."""

TLS = """
    listen {port} ssl http2; root {directory}/page;
    ssl_certificate {directory}/certificate.pem; ssl_certificate_key {directory}/key.pem; ssl_protocols TLSv1.3;
"""
"""Of nginx's server. `http2` stands on the line of `listen` for versions before 1.25.1; later ones take it too."""


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    modes.add_parser("server")
    client = modes.add_parser("client")
    client.add_argument("server_ip")
    client.add_argument("--http", choices=["1.1", "2"], default="2")
    client.add_argument("--loads", type=int, default=1)
    client.add_argument("--deadline-s", type=int, default=600, help="of one load")
    arguments = parser.parse_args(argv)
    if arguments.mode == "client" and not 1 <= arguments.loads <= 10_000:
        parser.error(f"--loads is {arguments.loads}: from 1 to 10000")
    if arguments.mode == "client" and not 1 <= arguments.deadline_s <= 86400:
        parser.error(f"--deadline-s is {arguments.deadline_s}: from 1 to 86400 s")
    return arguments


def make_certificate(directory: Path) -> None:
    """key.pem and certificate.pem; openssl makes the key readable for its owner only."""
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-subj", "/CN=web_page", "-days", "30",
        "-keyout", str(directory / "key.pem"), "-out", str(directory / "certificate.pem"))  # fmt: skip


def serve() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "page").mkdir()
        page.write(directory / "page")
        make_certificate(directory)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with nginx.serving(directory, PORT, TLS.format(directory=directory, port=PORT), level="error") as server:
            sys.exit(f"nginx ended by itself with exit code {server.wait()}")


def is_serving(server_ip: str) -> bool:
    """Whether the server answers a request; a connection alone may be that of a proxy."""
    return subprocess.run([*LOAD, "wait", url(server_ip)], check=False, capture_output=True).returncode == 0


def url(server_ip: str) -> str:
    return f"https://{server_ip}:{PORT}"


def load(server_ip: str, version: str, deadline_s: int) -> dict[str, Any]:
    words = [*LOAD, "load", url(server_ip), version, str(deadline_s)]
    measured: dict[str, Any] = json.loads(run(*words, limit_s=deadline_s + LATE_S))
    return measured


def measure(arguments: argparse.Namespace) -> None:
    missing = f"the server of web_page on {arguments.server_ip} does not answer"
    wait_for(missing, lambda: is_serving(arguments.server_ip), READY_LIMIT_S)
    for _ in range(arguments.loads):
        measured = load(arguments.server_ip, arguments.http, arguments.deadline_s)
        collect_agent.send_stat(collect_agent.now(), **measured)


def main() -> None:
    arguments = parse()
    if arguments.mode == "server":
        serve()
    else:
        measure(arguments)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
