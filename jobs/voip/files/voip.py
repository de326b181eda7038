# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job voip: a call between two hosts, in both directions at the same time.

It is G.711 in RTP packets of 20 ms.

D-ITG sends, receives and keeps the times of every packet (ITGSend, ITGRecv, ITGDec). The client
places the call; the server's
control port (one JSON line each way) answers:
    {"receive": true}               a receiver is listening
    {"send": n}                     n packets were sent to the asking host
    {"report": n, "buffer_ms": b}   what arrived of n packets, as the statistics of that direction
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import collect_agent
import stream

from openbach_jobs import control, ends, limits
from openbach_jobs.command import run, wait_for
from openbach_jobs.ports import READY_LIMIT_S, wait_listening

CONFIGURATION = "/opt/openbach/agent/jobs/voip/voip_rstats_filter.conf"
CONTROL_PORT = 5203
SIGNAL_PORT = 9000
RTP_PORT = 9500
CODEC = ("VoIP", "-x", "G.711.2", "-h", "RTP")
"""D-ITG's name for two frames of 10 ms in a packet: 160 bytes of G.711 behind 12 of RTP."""
END_LIMIT_S = 60.0
"""Seconds that a call may take beyond its duration to set up and end."""
LIMITS = {"duration_s": (1, 3600), "buffer_ms": (0, 1000)}


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser, _, client = ends.command_line(__doc__)
    client.add_argument("duration_s", type=float)
    client.add_argument("--buffer-ms", type=float, default=40.0, help="playout buffer (default 40)")
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    return arguments


class Receiver:
    """ITGRecv, from when it listens until its log is read."""

    def __init__(self, directory: Path) -> None:
        """Start ITGRecv."""
        self.log = directory / "received"
        self.log.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            ["ITGRecv", "-l", str(self.log)], stdout=subprocess.DEVNULL, cwd=directory
        )
        wait_listening(self.process, "ITGRecv", SIGNAL_PORT)

    def close(self) -> None:
        """End ITGRecv; its log is complete then."""
        self.process.send_signal(signal.SIGINT)  # at which it writes its log to the end
        self.process.wait()

    def packets(self) -> list[stream.Packet]:
        """End the receiver, and return the packets that have come."""
        self.close()
        decoded = self.log.with_suffix(".txt")
        run("ITGDec", str(self.log), "-l", str(decoded), limit_s=READY_LIMIT_S)
        return stream.read_log(decoded.read_text())


def sending(destination_ip: str, packets: int) -> tuple[list[str], float]:
    """Return ITGSend's command line, and how long it may take in s.

    It is the number of packets that ends it.
    """
    limit_s = packets * stream.PACKET_MS / 1000 + END_LIMIT_S
    ends = ["-z", str(packets), "-t", str(round(limit_s * 1000))]
    return [
        "ITGSend",
        "-a",
        destination_ip,
        "-rp",
        str(RTP_PORT),
        *ends,
        "-m",
        "OWDM",
        *CODEC,
    ], limit_s


# The server


def serve() -> None:
    """Answer the calls of clients until the job is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory() as name:
        receivers: list[Receiver] = []
        try:
            control.serve(
                CONTROL_PORT,
                lambda request, peer_ip: answer(request, peer_ip, Path(name), receivers),
            )
        finally:
            for receiver in receivers:
                receiver.close()


def answer(
    request: dict[str, Any], peer_ip: str, directory: Path, receivers: list[Receiver]
) -> dict[str, Any]:
    """Answer a request of the client.

    It starts the receiver of the call, sends, or ends the receiver and reports. There is at most
    one receiver.
    """
    if "receive" in request:
        while receivers:
            receivers.pop().close()
        receivers.append(Receiver(directory))
    elif "send" in request:
        words, limit_s = sending(peer_ip, int(request["send"]))
        run(*words, limit_s=limit_s)
    elif "report" in request and receivers:
        return stream.measured(
            receivers.pop().packets(), int(request["report"]), float(request["buffer_ms"])
        )
    return {}


# The client


def is_receiving(server_ip: str) -> bool:
    """Return whether the server has started its receiver."""
    try:
        control.ask(server_ip, CONTROL_PORT, receive=True)
    except OSError:
        return False
    return True


def call(server_ip: str, duration_s: float, buffer_ms: float) -> None:
    """Send both directions at once: the server's ITGSend ends a request, our own runs beside it."""
    packets = round(duration_s * 1000 / stream.PACKET_MS)
    wait_for(
        f"the server of voip on {server_ip} does not answer",
        lambda: is_receiving(server_ip),
        READY_LIMIT_S,
    )
    with tempfile.TemporaryDirectory() as name:
        receiver = Receiver(Path(name))
        command, limit_s = sending(server_ip, packets)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as sender:
            control.ask(server_ip, CONTROL_PORT, limit_s, send=packets)
            try:
                sender.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                sender.kill()
            if sender.wait():
                sys.exit(f"{' '.join(command)}: exit code {sender.returncode}")
        to_client = stream.measured(receiver.packets(), packets, buffer_ms)
    to_server = control.ask(
        server_ip, CONTROL_PORT, END_LIMIT_S, report=packets, buffer_ms=buffer_ms
    )
    now = collect_agent.now()
    collect_agent.send_stat(now, suffix="to_client", **to_client)
    collect_agent.send_stat(now, suffix="to_server", **to_server)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        ends.run(
            "voip",
            parse(),
            lambda _: serve(),
            lambda client: call(client.server_ip, client.duration_s, client.buffer_ms),
        )
