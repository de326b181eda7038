# SPDX-License-Identifier: GPL-3.0-or-later
"""Serves OpenBACH's built web UI, with the controller's REST API below /openbach/.

What nginx does on an auditorium.
"""

from __future__ import annotations

import http.client
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PREFIX = "/openbach/"
KEPT = ("content-type", "set-cookie", "content-disposition")
PASSED = ("Content-Type", "Cookie")


class Auditorium(SimpleHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def __init__(self, controller: str, *given: Any, **more: Any) -> None:
        self.controller = controller
        super().__init__(*given, **more)

    def do_GET(self) -> None:
        if self.path.startswith(PREFIX):
            self.forward()
            return
        if not Path(self.translate_path(self.path)).is_file():
            self.path = "/index.html"  # its router knows the rest
        super().do_GET()

    def forward(self) -> None:
        if not self.path.startswith(PREFIX):
            self.send_error(404)
            return
        length = int(self.headers.get("Content-Length", 0))
        headers = {name: self.headers[name] for name in PASSED if name in self.headers}
        connection = http.client.HTTPConnection(self.controller, timeout=120)
        try:
            connection.request(
                self.command, self.path.removeprefix(PREFIX[:-1]), self.rfile.read(length), headers
            )
            answer = connection.getresponse()
            content = answer.read()
        except OSError as error:
            self.send_error(502, str(error))
            return
        finally:
            connection.close()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() in KEPT:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_DELETE = do_PATCH = forward

    def log_message(self, *_: Any) -> None:
        pass


def main() -> None:
    """Serves ADDRESS PORT FRONTEND CONTROLLER until it is ended; says "ready" when it does."""
    address, port, frontend, controller = sys.argv[1:]
    with ThreadingHTTPServer(
        (address, int(port)), partial(Auditorium, controller, directory=frontend)
    ) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
