# SPDX-License-Identifier: GPL-3.0-or-later
"""A local HTTP server that plays a Debian mirror or the snapshot archive, faults included."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LONG_AGO = "Wed, 01 Jan 2025 00:00:00 GMT"


class PackageServer(ThreadingHTTPServer):
    """Serves `files` (path → content); `moved` redirects, `breaking` ends in the middle once."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.moved: dict[str, str] = {}
        self.breaking: set[str] = set()
        self.asked: list[str] = []
        """Path, and the range if one was asked for, of every request."""

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: PackageServer

    def do_GET(self) -> None:
        path, wanted = self.path, self.headers.get("Range", "")
        self.server.asked.append(f"{path} {wanted}".strip())
        if path in self.server.moved:
            self._answer(302, b"", Location=self.server.moved[path])
        elif path not in self.server.files:
            self._answer(404, b"")
        elif path in self.server.breaking:
            self.server.breaking.remove(path)
            content = self.server.files[path]
            self._head(200, len(content), {"Last-Modified": LONG_AGO})
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        elif wanted:
            content = self.server.files[path]
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            there = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self._answer(
                206, content[start:], **{"Content-Range": there, "Last-Modified": LONG_AGO}
            )
        else:
            self._answer(200, self.server.files[path])

    def _answer(self, status: int, content: bytes, **headers: str) -> None:
        self._head(status, len(content), headers)
        self.wfile.write(content)

    def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def package_server() -> Iterator[PackageServer]:
    """A server that runs until the end of the block."""
    with PackageServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
