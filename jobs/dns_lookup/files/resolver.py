# SPDX-License-Identifier: GPL-3.0-or-later
"""A resolver of one name, over UDP, TLS or HTTP/2.

Behind HTTP/2, which nginx has, it is a server of HTTP/1.0 on this host's own address.
"""

from __future__ import annotations

import signal
import socket
import socketserver
import ssl
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from openbach_jobs import names, nginx
from openbach_jobs.ports import has_ipv6

BACKEND = ("127.0.0.1", 8053)
TO_BACKEND = "location {path} {{ proxy_pass http://127.0.0.1:{port}; }}"
IDLE_S = 60.0
"""After which a connection without a question is closed (RFC 7766, 6.2.3, has seconds)."""


class _Udp(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        question, out = self.request
        out.sendto(self.server.answer(question), self.client_address)  # type: ignore[attr-defined]


class _Tls(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    timeout = IDLE_S

    def handle(self) -> None:
        while len(head := self.rfile.read(2)) == 2:
            question = self.rfile.read(int.from_bytes(head))
            self.wfile.write(names.framed(self.server.answer(question)))  # type: ignore[attr-defined]


class _Http(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        question = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.server.answer(question)  # type: ignore[attr-defined]
        self.send_response(200 if answer else 400)
        self.send_header("Content-Type", names.MEDIA_TYPE)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing of each question."""


class _Server:
    """What the servers of all three have in common."""

    address = ""
    allow_reuse_address = True
    daemon_threads = True

    def answer(self, question: bytes) -> bytes:
        """Return the answer to a question; nothing to what is none."""
        try:
            return names.answer_to(question, names.NAME, self.address)
        except ValueError:
            return b""


class _OverUdp(_Server, socketserver.UDPServer):
    max_packet_size = names.MOST_BYTES


class _OverTls(_Server, socketserver.ThreadingTCPServer):
    context: ssl.SSLContext

    def get_request(self) -> tuple[socket.socket, Any]:
        """Return a connection whose handshake its own thread makes, at its first read."""
        connection, peer = self.socket.accept()
        made = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return made, peer

    def handle_error(self, *_: object) -> None:
        """Leave a client that has gone."""


class _OverHttp(_Server, socketserver.ThreadingTCPServer):
    pass


def serve(protocol: str, address: str) -> None:
    """Answer with the address of the name, until the job is stopped. Ends it if it cannot."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    kind, handler = {
        names.UDP: (_OverUdp, _Udp),
        names.DOT: (_OverTls, _Tls),
        names.DOH: (_OverHttp, _Http),
    }[protocol]
    place: tuple[str, int] = ("", names.PORTS[protocol])
    if protocol == names.DOH:
        place = BACKEND
    elif has_ipv6():
        kind.address_family, place = socket.AF_INET6, ("::", place[1])
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if protocol == names.DOT:
            nginx.make_certificate(directory)
            _OverTls.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            _OverTls.context.load_cert_chain(directory / nginx.CERTIFICATE, directory / nginx.KEY)
        try:
            server = kind(place, handler)
        except OSError as error:
            sys.exit(f"the resolver cannot have port {place[1]}: {error.strerror}")
        kind.address = address
        if protocol != names.DOH:
            server.serve_forever()
            return
        threading.Thread(target=server.serve_forever, daemon=True).start()
        more = TO_BACKEND.format(path=names.PATH, port=BACKEND[1])
        with nginx.serving(directory, names.PORTS[protocol], directory, "2", more) as front:
            sys.exit(f"nginx ended by itself with exit code {front.wait()}")
