# SPDX-License-Identifier: GPL-3.0-or-later
"""A resolver of one name, over UDP, TLS or HTTP/2.

Behind HTTP/2, which nginx has, it is a server of HTTP/1.0 on this host's own address.
"""

from __future__ import annotations

import signal
import socket
import ssl
import sys
import tempfile
import threading
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from openbach_jobs import names, nginx
from openbach_jobs.ports import any_address

BACKEND = ("127.0.0.1", 8053)
TO_BACKEND = "location {path} {{ proxy_pass http://127.0.0.1:{port}; }}"


def over_udp(at: socket.socket, address: str) -> None:
    """Answer questions with the address of the name, until this program ends."""
    while True:
        question, peer = at.recvfrom(names.MOST_BYTES)
        with suppress(ValueError):  # rubbish has no answer
            at.sendto(names.answer_to(question, address), peer)


def over_tls(at: socket.socket, context: ssl.SSLContext, address: str) -> None:
    """Answer questions of each connection, one after the other, until this program ends."""
    while True:
        connection, _ = at.accept()
        threading.Thread(target=_answer, args=(connection, context, address), daemon=True).start()


def _answer(connection: socket.socket, context: ssl.SSLContext, address: str) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Until the client has gone, or sends rubbish.
    with suppress(OSError, ValueError), context.wrap_socket(connection, server_side=True) as tls:
        while True:
            tls.sendall(names.framed(names.answer_to(names.read_framed(tls), address)))


class OverHttp(BaseHTTPRequestHandler):
    """Answers a question that is the body of a POST."""

    def __init__(self, address: str, *arguments: object) -> None:
        self._address = address
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_POST(self) -> None:
        """Answer with the address of the name."""
        question = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = names.answer_to(question, self._address)
        self.send_response(200)
        self.send_header("Content-Type", names.MEDIA_TYPE)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing of each question."""


def server_context(directory: Path) -> ssl.SSLContext:
    """Return what TLS needs of the key and the certificate that are made in a directory."""
    nginx.make_certificate(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / nginx.CERTIFICATE, directory / nginx.KEY)
    return context


def serve(protocol: str, address: str) -> None:
    """Answer with the address of the name, until the job is stopped. Ends it if it cannot."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    port = names.PORTS[protocol]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if protocol == names.DOH:
            backend = HTTPServer(BACKEND, partial(OverHttp, address))
            threading.Thread(target=backend.serve_forever, daemon=True).start()
            more = TO_BACKEND.format(path=names.PATH, port=BACKEND[1])
            with nginx.serving(directory, port, directory, "2", more) as front:
                sys.exit(f"nginx ended by itself with exit code {front.wait()}")
        if protocol == names.DOT:
            context = server_context(directory)
            with socket.create_server(("", port), **any_address()) as at:
                over_tls(at, context, address)
        with socket.socket(any_address().get("family", socket.AF_INET), socket.SOCK_DGRAM) as at:
            at.bind(("", port))
            over_udp(at, address)
