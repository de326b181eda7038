#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of serve.py: fetch.py FILE [BYTES]; with BYTES it loses the last ones."""

import socket
import sys

BLOCK_BYTES = 10_000


def main() -> None:
    name, *lost = sys.argv[1:]
    with socket.create_connection(("server", 4433)) as connection:
        stream = connection.makefile("rb")
        size = int(stream.readline().split()[0])
        content = b""
        while len(content) < size:
            content += stream.read(min(BLOCK_BYTES, size - len(content)))
            connection.sendall(b".")
    with open(name, "wb") as file:
        file.write(content[: len(content) - int(lost[0])] if lost else content)
    print(f"{size} bytes")


if __name__ == "__main__":
    main()
