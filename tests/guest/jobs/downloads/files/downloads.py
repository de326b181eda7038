# SPDX-License-Identifier: GPL-3.0-or-later
"""Test job: many short downloads, some at a time, of random sizes.

Each must bring all of its bytes, the right ones, and never pause for longer than PAUSE_S.
"""

from __future__ import annotations

import random
import socket
import socketserver
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import collect_agent

CONFIGURATION = "/opt/openbach/agent/jobs/downloads/downloads_rstats_filter.conf"
PORT = 5300
MOST_BYTES = 200_000
CONTENT = random.Random(PORT).randbytes(MOST_BYTES)
"""A download of n bytes is the first n of these."""
PAUSE_S = 120.0


class Sender(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        asked = self.request.recv(16)
        self.request.sendall(CONTENT[: int(asked or 0)])


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 100


def wait_for_server(server_ip: str) -> None:
    end_s = time.monotonic() + PAUSE_S
    while True:
        try:
            return socket.create_connection((server_ip, PORT), timeout=PAUSE_S).close()
        except OSError as error:
            if time.monotonic() > end_s:
                sys.exit(f"the server of downloads on {server_ip}: {error}")
            time.sleep(0.1)


def download(server_ip: str, size: int) -> None:
    received = bytearray()
    with socket.create_connection((server_ip, PORT), timeout=PAUSE_S) as connection:
        connection.sendall(b"%d\n" % size)
        while part := connection.recv(1 << 16):
            received += part
    if received != CONTENT[:size]:
        raise OSError(f"{len(received)} bytes arrived, which are not the {size} that were sent")


def download_all(server_ip: str, count: int, at_once: int) -> None:
    wait_for_server(server_ip)
    sizes = [random.Random(number).randint(1, MOST_BYTES) for number in range(count)]
    begin_s = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        for number, done in enumerate([pool.submit(download, server_ip, size) for size in sizes]):
            if error := done.exception():
                sys.exit(f"download {number} ({sizes[number]} bytes): {error}")
    collect_agent.send_stat(
        collect_agent.now(),
        downloads=count,
        bytes=sum(sizes),
        duration_s=time.monotonic() - begin_s,
    )


def main(mode: str, *arguments: str) -> None:
    if mode == "server":
        with Server(("", PORT), Sender) as server:
            server.serve_forever()
    server_ip, count, at_once = arguments
    download_all(server_ip, int(count), int(at_once))


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main(*sys.argv[1:])
