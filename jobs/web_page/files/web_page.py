# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job web_page: a page (page.json) from nginx over TLS, loaded again and again, each time with cold connections.

The server makes its key and certificate anew at each start; the key is a file that only root can read and ends with the job.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import collect_agent
import page
from ready import READY_LIMIT_S, is_listening, taken, wait_until

CONFIGURATION = "/opt/openbach/agent/jobs/web_page/web_page_rstats_filter.conf"
PORT = 8443
LOAD = ["/usr/bin/python3", str(Path(__file__).parent / "page_load.py")]
LATE_S = 5.0
"""What a load may take beyond its deadline before it is killed."""

NGINX = """
daemon off; master_process off; worker_processes 1; pid {directory}/nginx.pid; error_log stderr error;
events {{ worker_connections 64; }}
http {{
    access_log off; types {{ }} default_type application/octet-stream;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
    server {{
        listen {port} ssl http2; root {directory}/page;
        ssl_certificate {directory}/certificate.pem; ssl_certificate_key {directory}/key.pem; ssl_protocols TLSv1.3;
    }}
}}
"""
"""`http2` stands on the line of `listen` for versions before 1.25.1; later ones take it too."""


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
    return arguments


def make_certificate(directory: Path) -> None:
    """key.pem and certificate.pem; openssl makes the key readable for its owner only."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
               "-subj", "/CN=web_page", "-days", "30", "-keyout", "key.pem", "-out", "certificate.pem"]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=directory)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")


def serve() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "page").mkdir()
        page.write(directory / "page")
        make_certificate(directory)
        configuration = directory / "nginx.conf"
        configuration.write_text(NGINX.format(directory=directory, port=PORT))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        nginx = subprocess.Popen(["nginx", "-p", name, "-e", "stderr", "-c", str(configuration)])
        try:
            wait_until(lambda: nginx.poll() is not None or is_listening(PORT), f"nginx on port {PORT}")
            sys.exit(f"nginx ended by itself with exit code {nginx.wait()}{taken(PORT)}")
        finally:
            nginx.terminate()
            nginx.wait()


def is_serving(server_ip: str) -> bool:
    """Whether the server answers a request; a connection alone may be that of a proxy."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(server_ip, PORT, timeout=READY_LIMIT_S, context=unverified)
    try:
        connection.request("HEAD", f"/{page.HTML}")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def load(server_ip: str, version: str, deadline_s: int) -> dict[str, Any]:
    command = [*LOAD, f"https://{server_ip}:{PORT}", version, str(deadline_s)]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=deadline_s + LATE_S)
    except subprocess.TimeoutExpired:
        sys.exit(f"the page was not there after {deadline_s} s")
    if done.returncode:
        sys.exit(f"the page could not be loaded: {done.stderr.strip()}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def measure(arguments: argparse.Namespace) -> None:
    wait_until(lambda: is_serving(arguments.server_ip), f"the server of web_page on {arguments.server_ip}")
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
