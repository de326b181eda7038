# SPDX-License-Identifier: GPL-3.0-or-later
"""nginx for the jobs that serve files with it, over TLS 1.3.

The certificate is made anew at each start; its key is a file that only root can read, and ends with
the job's directory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openbach_jobs.command import run, started
from openbach_jobs.ports import has_ipv6, wait_listening

VERSIONS = ("1.1", "2", "3")
"""Versions of HTTP. 3 is over QUIC, on the UDP port of the same number."""
NGINX, QUIC_GO, QUINN = "nginx", "quic_go", "quinn"
STACKS = {NGINX: (), QUIC_GO: ("reno", "cubic"), QUINN: ("reno", "cubic", "bbr")}
"""The congestion controls to choose from, by implementation of QUIC (quic_stacks.py)."""
SEND_UPLOADS = (QUIC_GO,)
"""Implementations of QUIC that are a client, too."""
KEY, CERTIFICATE = "key.pem", "certificate.pem"
CONFIGURATION = """
daemon off; master_process off; worker_processes 1;
pid {directory}/nginx.pid; error_log stderr error;
events {{ worker_connections 1024; }}
http {{
    access_log off; types {{ text/html html; }} default_type application/octet-stream;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
    server {{
        listen {port} ssl http2; {quic} root {root}; ssl_protocols TLSv1.3;
        ssl_certificate {directory}/certificate.pem; ssl_certificate_key {directory}/key.pem;
    }}
}}
"""
"""Configuration of nginx. `http2` stands beside `listen` for versions before 1.25.1."""
QUIC = "listen {port} quic; http3_stream_buffer_size 8m;"
"""Lines for QUIC. nginx sends at most that buffer of a stream unacknowledged: its default, 64k, is
1 Mbit/s at a round-trip time of 500 ms."""


@contextmanager
def serving(directory: Path, port: int, root: Path, http: str) -> Iterator[subprocess.Popen[bytes]]:
    """Serve by nginx, listening on a port for a version of HTTP, until the end of the block.

    It serves the files below `root`, and keeps its own in `directory`. Ends the job if it cannot.
    """
    if http == "3":
        check_quic()
    make_certificate(directory)
    configuration = directory / "nginx.conf"
    at = f"[::]:{port} ipv6only=off" if has_ipv6() else str(port)
    quic = QUIC.format(port=at) if http == "3" else ""
    configuration.write_text(
        CONFIGURATION.format(directory=directory, port=at, quic=quic, root=root)
    )
    with started("nginx", "-p", str(directory), "-e", "stderr", "-c", str(configuration)) as nginx:
        wait_listening(nginx, "nginx", port)
        yield nginx


def make_certificate(directory: Path) -> None:
    """Make a key and a certificate of its own in a directory. Ends the job if that fails."""
    run(
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-subj",
        "/CN=openbach-run",
        "-days",
        "30",
        "-keyout",
        str(directory / KEY),
        "-out",
        str(directory / CERTIFICATE),
    )


def add_quic_arguments(parser: argparse.ArgumentParser, *ends: argparse.ArgumentParser) -> None:
    """Add the implementation to a job's arguments, and to those of ends that send its control."""
    # Into groups: a new argument beside the others moves the packets of every run.
    parser.add_argument_group("QUIC").add_argument(
        "--quic", choices=STACKS, default=NGINX, help="implementation that sends with http 3"
    )
    for end in ends:
        end.add_argument_group("QUIC").add_argument(
            "--quic-cc", default="reno", help="of QUIC, where there is a choice"
        )


def stack_of(parser: argparse.ArgumentParser, arguments: argparse.Namespace, http: str) -> str:
    """Return the implementation in use, with its control checked; nginx without HTTP/3."""
    stack = str(arguments.quic) if http == "3" else NGINX
    if stack != NGINX and arguments.quic_cc not in STACKS[stack]:
        had = ", ".join(STACKS[stack])
        parser.error(f"quic_cc is {arguments.quic_cc}: {stack} has {had}")
    return stack


def check_quic() -> None:
    """End the job if this host's nginx has no HTTP/3."""
    built = run("sh", "-c", "nginx -V 2>&1")
    if "--with-http_v3_module" not in built:
        version = built.splitlines()[0].rpartition(" ")[2]
        sys.exit(
            f"http=3: {version} of this host has no HTTP/3; Debian's has it from trixie (nginx"
            " 1.26) on"
        )
