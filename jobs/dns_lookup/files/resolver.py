# SPDX-License-Identifier: GPL-3.0-or-later
"""A resolver of one name, over UDP, TLS or HTTPS."""

from __future__ import annotations

import signal
import socket
import ssl
import sys
import tempfile
import threading
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from openbach_jobs import names, nginx
from openbach_jobs.ports import any_address


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


class _Post(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, address: str, *arguments: Any) -> None:
        self._address = address
        super().__init__(*arguments)

    def do_POST(self) -> None:
        question = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = names.answer_to(question, self._address)
        self.send_response(200)
        self.send_header("Content-Type", names.MEDIA_TYPE)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing of each question."""


def over_https(at: socket.socket, context: ssl.SSLContext, address: str) -> None:
    """Answer questions that are the body of a POST, until this program ends."""
    # Each connection's handshake is its own thread's, at the first read.
    server = ThreadingHTTPServer(("", 0), partial(_Post, address), bind_and_activate=False)
    server.socket.close()
    server.socket = context.wrap_socket(at, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


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
        if protocol != names.UDP:
            context = server_context(directory)
            with socket.create_server(("", port), **any_address()) as at:
                {names.DOT: over_tls, names.DOH: over_https}[protocol](at, context, address)
        with socket.socket(any_address().get("family", socket.AF_INET), socket.SOCK_DGRAM) as at:
            at.bind(("", port))
            over_udp(at, address)
