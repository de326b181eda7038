# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job rist_video: a video stream of constant rate from the client to the server over RIST.

librist's tools send and receive it.

    client:  packets ──► ristsender ══ RIST ══ ristreceiver ──► packets   :server

RIST (VSF TR-06-2, main profile) asks again for what is lost, and gives packets out at a fixed time
after they were sent: what comes later is dropped. So a packet that comes out of the receiver is one
that was in time. The server's control port (one JSON line each way) answers:

    {"receive": true, "buffer_ms": b}   a receiver is listening
    {"report": n}                       what came of n packets, as soon as no more come
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import collect_agent

from openbach_jobs import control, ends, limits
from openbach_jobs.command import started, wait_for
from openbach_jobs.ports import READY_LIMIT_S

CONFIGURATION = "/opt/openbach/agent/jobs/rist_video/rist_video_rstats_filter.conf"
CONTROL_PORT, RIST_PORT, SOURCE_PORT, SINK_PORT = 5205, 5206, 5207, 5208
LOOPBACK = "127.0.0.1"
PAYLOAD_BYTES = 1316
"""Seven packets of MPEG-2 TS, as video over IP has them."""
CONNECTED = "peer connected count is 1"
"""Text that ristsender writes when the receiver has answered it."""
IDLE_S = 2.0
"""Seconds without a packet, beyond the receiver's buffer, after which no more come."""
LIMITS = {"duration_s": (1, 3600), "rate_kbps": (10, 100_000), "buffer_ms": (10, 30_000)}
SUMS = {
    "recovered_packets": "recovered_total",
    "missing_packets": "missing",
    "late_packets": "dropped_late",
}
"""Statistics of ours, and what ristreceiver calls them in the lines that it writes each second."""


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser, _, client = ends.command_line(__doc__)
    client.add_argument("--duration-s", type=int, default=30)
    client.add_argument("--rate-kbps", type=int, default=3300, help="of the payload")
    client.add_argument(
        "--buffer-ms", type=int, default=1000, help="time between sending and giving out"
    )
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    return arguments


# The server


class Receiver:
    """A ristreceiver, and the numbers of the packets that it gives out.

    They are counted from when it listens until they are asked for.
    """

    def __init__(self, directory: Path, buffer_ms: int) -> None:
        """Start ristreceiver and a thread that reads what it gives out."""
        self.log = directory / "receiver"
        self.numbers: set[int] = set()
        self.is_over = threading.Event()
        self.sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sink.bind((LOOPBACK, SINK_PORT))
        self.sink.settimeout(IDLE_S + buffer_ms / 1000)
        listens = f"rist://@0.0.0.0:{RIST_PORT}?buffer={buffer_ms}"
        gives = f"udp://{LOOPBACK}:{SINK_PORT}"
        command = ["ristreceiver", "-i", listens, "-o", gives, "-S", "1000"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.reads = threading.Thread(target=self.read, daemon=True)
        self.reads.start()

    def read(self) -> None:
        """Read packets until it `is_over` and no more come."""
        while True:
            try:
                packet = self.sink.recv(1 << 16)
            except TimeoutError:
                if self.is_over.is_set():
                    return
                continue
            self.numbers.add(struct.unpack_from("!I", packet)[0])

    def report(self) -> dict[str, Any]:
        """End the receiver, and return what has come."""
        self.is_over.set()
        self.reads.join()
        self.close()
        return {"numbers": len(self.numbers), **totals(self.log.read_text(errors="replace"))}

    def close(self) -> None:
        """End ristreceiver."""
        self.process.terminate()
        self.process.wait()
        self.sink.close()


def totals(log: str) -> dict[str, int]:
    """Return the sums over the seconds of what ristreceiver has written."""
    seconds = [flow["flowinstant"]["stats"] for flow in stated(log, "receiver-stats")]
    sums = {}
    for name, word in SUMS.items():
        sums[name] = sum(int(second[word]) for second in seconds)
    return sums


def stated(log: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of that name in what librist's tools write, among other lines."""
    for line in log.splitlines():
        _, begin, text = line.partition(f'{{"{name}":')
        if begin:
            yield json.loads(begin + text)[name]


def serve() -> None:
    """Receive a stream for each client that asks, until the job is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory() as name:
        receivers: list[Receiver] = []
        try:
            control.serve(
                CONTROL_PORT, lambda request, peer_ip: answer(request, Path(name), receivers)
            )
        finally:
            for receiver in receivers:
                receiver.close()


def answer(request: dict[str, Any], directory: Path, receivers: list[Receiver]) -> dict[str, Any]:
    """Answer a request of the client: start the receiver of the stream, or end it and report.

    There is at most one receiver.
    """
    if "receive" in request:
        while receivers:
            receivers.pop().close()
        receivers.append(Receiver(directory, int(request["buffer_ms"])))
    elif "report" in request and receivers:
        return receivers.pop().report()
    return {}


# The client


def is_receiving(server_ip: str, buffer_ms: int) -> bool:
    """Return whether the server has started a receiver."""
    try:
        control.ask(server_ip, CONTROL_PORT, receive=True, buffer_ms=buffer_ms)
    except OSError:
        return False
    return True


@contextmanager
def sender(server_ip: str, buffer_ms: int, log: Path) -> Iterator[None]:
    """Run ristsender, which has found its receiver, until the end of the block."""
    takes = f"udp://@{LOOPBACK}:{SOURCE_PORT}"
    words = ["-i", takes, "-o", f"rist://{server_ip}:{RIST_PORT}?buffer={buffer_ms}", "-S", "1000"]
    with (
        log.open("w") as output,
        started("ristsender", *words, stdout=output, stderr=subprocess.STDOUT),
    ):
        wait_for(
            "ristsender has found no receiver",
            lambda: CONNECTED in log.read_text(errors="replace"),
            READY_LIMIT_S,
            evidence=lambda: f"; it says:\n{log.read_text(errors='replace')}",
        )
        yield


def send(packets: int, interval_s: float) -> None:
    """Send numbered packets, each at its time."""
    begin_s = time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
        for number in range(packets):
            time.sleep(max(begin_s + number * interval_s - time.monotonic(), 0))
            source.sendto(
                struct.pack("!I", number).ljust(PAYLOAD_BYTES, b"\0"), (LOOPBACK, SOURCE_PORT)
            )


def stream(arguments: argparse.Namespace) -> None:
    """Send the stream, and send what the server has received of it as statistics."""
    server_ip, buffer_ms = arguments.server_ip, arguments.buffer_ms
    interval_s = PAYLOAD_BYTES * 8 / (arguments.rate_kbps * 1000)
    packets = round(arguments.duration_s / interval_s)
    missing = f"the server of rist_video on {server_ip} does not answer"
    wait_for(missing, lambda: is_receiving(server_ip, buffer_ms), READY_LIMIT_S)
    with tempfile.TemporaryDirectory() as name, sender(server_ip, buffer_ms, Path(name) / "sender"):
        send(packets, interval_s)
        limit_s = READY_LIMIT_S + 2 * (IDLE_S + buffer_ms / 1000)
        came = control.ask(server_ip, CONTROL_PORT, limit_s, report=packets)
    delivered = came.pop("numbers")
    collect_agent.send_stat(
        collect_agent.now(),
        packets=packets,
        delivered_packets=delivered,
        dropped_packets=packets - delivered,
        quality_pct=100 * delivered / packets,
        **came,
    )


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        ends.run("rist_video", parse(), lambda _: serve(), stream)
