# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job file_transfer: one transfer of a file, timed where it arrives.

With iperf3 the *receiver* always is the iperf3 client in reverse mode (-R -n): it ends the test as soon as it has the
bytes, and reports its own time. The other way round iperf3 ends when the sender has queued its last byte. So for an
upload the server, asked over its control port, runs the iperf3 client.

The control port (one JSON line each way) answers:
    {"file_bytes": n}              a file of that size lies at /n of the web server
    {"retransmits": true}          TCP segments sent again by this host so far
    {"receive_bytes": n}           receive n bytes from an iperf3 server on the asking host: iperf3's report
"""

from __future__ import annotations

import argparse
import ctypes
import json
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import collect_agent
import control
from ready import is_listening, wait_until

CONFIGURATION = "/opt/openbach/agent/jobs/file_transfer/file_transfer_rstats_filter.conf"
CONTROL_PORT = 5200
IPERF3_PORT = 5201
IPERF3_MOST_IDLE_MS = 86_400_000
HTTP_PORT = 8080
SO_ATTACH_FILTER = 26
ETH_P_ALL = 3
MULTIPLIERS = {"k": 10**3, "M": 10**6, "G": 10**9}

NGINX = """
daemon off; master_process off; worker_processes 1; pid {directory}/nginx.pid; error_log stderr;
events {{ worker_connections 64; }}
http {{
    access_log off; sendfile on; keepalive_timeout 0; default_type application/octet-stream;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
    server {{ listen {port}; root {directory}; }}
}}
"""


def size_bytes(text: str) -> int:
    """`30M` is 30 000 000."""
    number, factor = (text[:-1], MULTIPLIERS[text[-1]]) if text[-1:] in MULTIPLIERS else (text, 1)
    size = float(number) * factor
    if not 1 <= size < float("inf") or size != int(size):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes")
    return int(size)


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=["iperf3", "http"], default="iperf3")
    modes = parser.add_subparsers(dest="mode", required=True)
    modes.add_parser("server")
    client = modes.add_parser("client")
    client.add_argument("server_ip")
    client.add_argument("size", type=size_bytes, help="bytes; k, M and G are decimal")
    client.add_argument("--direction", choices=["download", "upload", "none"], default="download")
    client.add_argument("--deadline-s", type=int, default=7200)
    client.add_argument("--cc", help="transport profile that the sender must have used")
    arguments = parser.parse_args(argv)
    if arguments.mode == "client" and arguments.tool == "http" and arguments.direction == "upload":
        parser.error("http can only download; upload with iperf3")
    return arguments


def iperf3_client(server_ip: str, size: int, deadline_s: float) -> list[str]:
    """Only the deadline ends a transfer that stalls: by itself iperf3 gives up after 120 s without a byte."""
    idle = ["--rcv-timeout", str(min(round(deadline_s * 1000), IPERF3_MOST_IDLE_MS))]
    return ["iperf3", "-c", server_ip, "-p", str(IPERF3_PORT), "-R", "-n", str(size), "-i", "0", "-J", *idle]


def iperf3_receive(server_ip: str, size: int, deadline_s: float) -> dict[str, Any]:
    """Receives `size` bytes; iperf3's JSON report."""
    command = iperf3_client(server_ip, size, deadline_s)
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=deadline_s)
    except subprocess.TimeoutExpired:
        sys.exit(late(deadline_s))
    return iperf3_report(done.stdout, done.stderr)


def late(deadline_s: float) -> str:
    return f"the transfer did not end in {deadline_s:g} s"


def iperf3_report(printed: str, error: str) -> dict[str, Any]:
    try:
        report: dict[str, Any] = json.loads(printed)
    except json.JSONDecodeError:
        sys.exit(f"iperf3: {error.strip() or printed.strip() or 'no report'}")
    if "error" in report:
        sys.exit(f"iperf3: {report['error']}")
    return report


# The server


def retransmitted_segments() -> int:
    names, values = (
        line.split() for line in Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Tcp:")
    )
    return int(values[names.index("RetransSegs")])


def start_tool(tool: str, directory: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The tool's server and its port."""
    if tool == "iperf3":
        return subprocess.Popen(["iperf3", "-s", "-p", str(IPERF3_PORT)], stdout=subprocess.DEVNULL), IPERF3_PORT
    configuration = directory / "nginx.conf"
    configuration.write_text(NGINX.format(directory=directory, port=HTTP_PORT))
    directory.chmod(0o755)
    return subprocess.Popen(["nginx", "-p", str(directory), "-e", "stderr", "-c", str(configuration)]), HTTP_PORT


def answer(request: dict[str, Any], peer_ip: str, directory: Path) -> dict[str, Any]:
    if "file_bytes" in request:
        with (directory / str(int(request["file_bytes"]))).open("wb") as file:
            file.truncate(int(request["file_bytes"]))
        return {"ok": True}
    if "receive_bytes" in request:
        return iperf3_receive(peer_ip, int(request["receive_bytes"]), float(request["deadline_s"]))
    return {"retransmits": retransmitted_segments()}


def serve(tool: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        process, port = start_tool(tool, directory)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            wait_until(lambda: process.poll() is not None or is_listening(port), f"{tool} on port {port}")
            if process.poll() is not None:
                sys.exit(f"the {tool} server ended at once with exit code {process.returncode}")
            control.serve(CONTROL_PORT, lambda request, peer_ip: answer(request, peer_ip, directory))
        finally:
            process.terminate()
            process.wait()


# The client


def is_serving(server_ip: str) -> bool:
    try:
        return "retransmits" in control.ask(server_ip, CONTROL_PORT, retransmits=True)
    except OSError:
        return False


def first_byte_filter() -> bytes:
    """A classic BPF program for IPv4: SYNs to iperf3's port, and packets of over 500 bytes from it (the states that iperf3's
    control connection carries are single bytes)."""
    program = [
        (0x30, 0, 0, 9), (0x15, 0, 12, 6),  # 0: protocol TCP, else 14
        (0x28, 0, 0, 6), (0x45, 10, 0, 0x1FFF),  # 2: a later fragment: 14
        (0xB1, 0, 0, 0),  # 4: X = length of the IP header
        (0x48, 0, 0, 0), (0x15, 0, 2, IPERF3_PORT),  # 5: source port, else 9
        (0x28, 0, 0, 2), (0x25, 6, 5, 500),  # 7: total length above 500: 15, else 14
        (0x48, 0, 0, 2), (0x15, 0, 3, IPERF3_PORT),  # 9: destination port, else 14
        (0x50, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 1, 0, 0x02),  # 11: SYN without ACK: 15
        (0x06, 0, 0, 0), (0x06, 0, 0, 96),  # 14: leave it; 15: take 96 bytes
    ]  # fmt: skip
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def open_tap() -> socket.socket:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    program = ctypes.create_string_buffer(first_byte_filter())
    tap.setsockopt(
        socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HxxxxxxP", len(program.raw) // 8, ctypes.addressof(program))
    )
    return tap


def time_to_first_byte(tap: socket.socket, transfer: subprocess.Popen[str], end_s: float) -> float | None:
    """Seconds from the last SYN before the first data (that of the data connection) to that data."""
    syn_s = None
    while transfer.poll() is None and time.monotonic() < end_s:
        if not select.select([tap], [], [], 1)[0]:
            continue
        packet, (_, _, kind, *_) = tap.recvfrom(96)
        if kind == socket.PACKET_OUTGOING:
            syn_s = time.monotonic()
        elif syn_s is not None and struct.unpack_from("!H", packet, 2)[0] > 500:
            return time.monotonic() - syn_s
    return None


class Received(NamedTuple):
    """What came of a transfer, at the receiver. `congestion_control` is the sender's, if the tool tells."""

    seconds: float
    bytes: int
    ttfb_s: float | None
    congestion_control: str | None


def of_iperf3(report: dict[str, Any], ttfb_s: float | None) -> Received:
    end = report["end"]
    return Received(
        end["sum_received"]["seconds"], end["sum_received"]["bytes"], ttfb_s, end.get("sender_tcp_congestion")
    )


def download_iperf3(server_ip: str, size: int, deadline_s: float) -> Received:
    end_s = time.monotonic() + deadline_s
    with open_tap() as tap, tempfile.TemporaryFile("w+") as printed:
        with subprocess.Popen(
            iperf3_client(server_ip, size, deadline_s), stdout=printed, stderr=subprocess.PIPE, text=True
        ) as transfer:
            ttfb_s = time_to_first_byte(tap, transfer, end_s)
            tap.close()  # from here on it would only cost time
            try:
                error = transfer.communicate(timeout=max(end_s - time.monotonic(), 0))[1]
            except subprocess.TimeoutExpired:
                transfer.kill()
                sys.exit(late(deadline_s))
        printed.seek(0)
        return of_iperf3(iperf3_report(printed.read(), error), ttfb_s)


def download_http(server_ip: str, size: int, deadline_s: float) -> Received:
    control.ask(server_ip, CONTROL_PORT, file_bytes=size)
    url = f"http://{server_ip}:{HTTP_PORT}/{size}"
    command = ["curl", "-sS", "--fail", "--max-time", str(deadline_s), "-o", "/dev/null", "-w", "%{json}", url]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"curl: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    return Received(report["time_total"], report["size_download"], report["time_starttransfer"], None)


def upload_iperf3(server_ip: str, size: int, deadline_s: float) -> Received:
    with subprocess.Popen(["iperf3", "-s", "-1", "-p", str(IPERF3_PORT)], stdout=subprocess.DEVNULL) as server:
        wait_until(lambda: is_listening(IPERF3_PORT), "iperf3")
        report = control.ask(server_ip, CONTROL_PORT, deadline_s, receive_bytes=size, deadline_s=deadline_s)
        server.terminate()
    return of_iperf3(report, None)


TRANSFERS = {
    ("iperf3", "download"): download_iperf3,
    ("iperf3", "upload"): upload_iperf3,
    ("http", "download"): download_http,
}


def check_congestion_control(wanted: str | None, used: str | None) -> None:
    """Ends the job if the sender's socket had another one than the transport profile that is wanted."""
    if wanted and used and used not in (wanted, wanted.removesuffix("_nohystart")):
        sys.exit(f"the sender used the congestion control {used} instead of {wanted}")


def transfer(arguments: argparse.Namespace) -> None:
    wait_until(lambda: is_serving(arguments.server_ip), f"the server of file_transfer on {arguments.server_ip}")
    downloads = arguments.direction == "download"

    def sender_retransmits() -> int:
        return (
            int(control.ask(arguments.server_ip, CONTROL_PORT, retransmits=True)["retransmits"])
            if downloads
            else retransmitted_segments()
        )

    before = sender_retransmits()
    move = TRANSFERS[arguments.tool, arguments.direction]
    received = move(arguments.server_ip, arguments.size, arguments.deadline_s)
    if received.bytes < arguments.size:
        sys.exit(f"only {received.bytes} of {arguments.size} bytes arrived")
    check_congestion_control(arguments.cc, received.congestion_control)
    collect_agent.send_stat(
        collect_agent.now(),
        transfer_time_s=received.seconds,
        goodput_bps=received.bytes * 8 / received.seconds,
        bytes=received.bytes,
        ttfb_s=received.ttfb_s,
        congestion_control=received.congestion_control,
        retransmits=sender_retransmits() - before,
    )


def main() -> None:
    arguments = parse()
    if arguments.mode == "server":
        serve(arguments.tool)
    elif arguments.direction != "none":
        try:
            transfer(arguments)
        except OSError as error:
            sys.exit(f"the server of file_transfer on {arguments.server_ip}: {error}")


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
