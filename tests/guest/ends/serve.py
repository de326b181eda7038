#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small server for tests of `openbach-run try`: sends a file, at most WINDOW bytes unacknowledged.

serve.py FILE WINDOW [GREETING]: each block is acknowledged by a byte from the client.
"""

import socket
import sys

BLOCK_BYTES = 10_000


def main() -> None:
    name, window, *greeting = sys.argv[1:]
    with open(name, "rb") as file:
        content = file.read()
    with socket.create_server(("", 4433)) as listener:
        connection, _ = listener.accept()
    with connection:
        # The server says hello, and the client knows how much comes.
        connection.sendall(f"{len(content)} {' '.join(greeting)}\n".encode())
        sent = acknowledged = 0
        while acknowledged < len(content):
            while sent < len(content) and sent - acknowledged < int(window):
                connection.sendall(content[sent : sent + BLOCK_BYTES])
                sent += len(content[sent : sent + BLOCK_BYTES])
            acknowledged = min(acknowledged + len(connection.recv(1)) * BLOCK_BYTES, len(content))


if __name__ == "__main__":
    main()
