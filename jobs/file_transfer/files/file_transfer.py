# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job file_transfer: one transfer of a file, timed where it arrives.

With `http` it is curl that downloads from nginx. Without, it is iperf3, and the *receiver* always
is the iperf3 client (see iperf3.py). So for an upload the server, asked over its control port, runs
the iperf3 client. Flows that go on at the same time have a server each, with a port of its own.

The control port, the one below the transfer's, answers (one JSON line each way):
    {"file_bytes": n}              a file of that size lies at /n of the web server
    {"retransmits": true}          TCP segments sent again by this host so far
    {"resumes": true}              connections of this host that Careful Resume has sped up so far,
                                   or null
    {"receive": {…}}               receive from an iperf3 server on the asking host (an
                                   iperf3.Test): iperf3's report
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import collect_agent
import first_byte
import iperf3
from iperf3 import Received

from openbach_jobs import control, limits, nginx, profiles, resumes
from openbach_jobs.command import run, started, wait_for
from openbach_jobs.ports import READY_LIMIT_S, wait_listening, with_port

CONFIGURATION = "/opt/openbach/agent/jobs/file_transfer/file_transfer_rstats_filter.conf"
PORT = 5201
NO_HTTP = "none"
OPENSSL, NGTCP2 = "openssl", "ngtcp2"
"""Libraries of QUIC that receive: of curl, and of libcurl as Debian builds it with GnuTLS."""
TRIES = 5
STALL_S, LOOK_S, IDLE_DATAGRAMS = 60.0, 5.0, 2
"""Seconds without data after which a transfer over QUIC stands still, and between two looks."""
CURL = {"1.1": "--http1.1", "2": "--http2", "3": "--http3-only"}
"""curl's option by version of HTTP. Only the last takes no other, so what came is checked."""
UNLIMITED = "unlimited"
LIMITS = {
    "port": (2, 65535),
    "duration_s": (0, 86400),
    "streams": (1, 128),
    "deadline_s": (1, 86400),
}
LONGEST_START_S = 600
"""Seconds that a transfer may take beyond its duration."""
MOST_BYTES = 10**12
MULTIPLIERS = {"k": 10**3, "M": 10**6, "G": 10**9}


def size_bytes(text: str) -> int:
    """Return a number of bytes: `30M` is 30 000 000."""
    number, factor = (text[:-1], MULTIPLIERS[text[-1]]) if text[-1:] in MULTIPLIERS else (text, 1)
    # Python takes white space and underscores in a number, too.
    size = float(number) * factor if {*number} <= {*"0123456789.+-eE"} else 0
    if not 1 <= size <= MOST_BYTES or size != int(size):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes from 1 to 1000G")
    return int(size)


def size_or_none(text: str) -> int:
    """Return a number of bytes, 0 for `none`."""
    return 0 if text == "none" else size_bytes(text)


def size_or_unlimited(text: str) -> int:
    """Return a number of bytes, 0 for `unlimited`."""
    return 0 if text == UNLIMITED else size_bytes(text)


OPTIONS: dict[str, tuple[Callable[[str], Any], Any, str | None]] = {
    "--duration-s": (int, 0, "how long an unlimited transfer goes on (0: until stopped)"),
    "--warm-up": (
        size_or_none, 0, "bytes of an earlier transfer, which is not measured, or none"),
    "--streams": (int, 1, "in parallel"),
    "--deadline-s": (int, 7200, None),
    "--interval-s": (float, 0.0, "of the series of goodput_bps (0: none)"),
}  # fmt: skip
"""Options of the client: type, default and help."""


def command_line() -> argparse.ArgumentParser:
    """Return the parser of this job's command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--http", choices=[NO_HTTP, *nginx.VERSIONS], default=NO_HTTP, help="none is iperf3"
    )
    parser.add_argument(
        "--port", type=int, default=PORT, help="of the transfer; the one below it is for control"
    )
    modes = parser.add_subparsers(dest="mode", required=True)
    server, client = modes.add_parser("server"), modes.add_parser("client")
    nginx.add_quic_arguments(parser, server, client)
    client.add_argument("server_ip")
    client.add_argument(
        "size", type=size_or_unlimited, help=f"bytes; k, M and G are decimal; or {UNLIMITED}"
    )
    client.add_argument("--direction", choices=["download", "upload", "none"], default="download")
    for name, (value_type, default, text) in OPTIONS.items():
        client.add_argument(name, type=value_type, default=default, help=text)
    client.add_argument("--cc", help="transport profile that the sender must have used")
    client.add_argument(
        "--own-cc", choices=["no", "yes"], default="no", help="yes: the sender sets --cc itself"
    )
    client.add_argument(
        "--flow", help="name of this transfer among several: suffix of its statistics"
    )
    # Into a group: a new argument beside the others moves the packets of every run.
    client.add_argument_group("QUIC").add_argument(
        "--quic-receiver", choices=[OPENSSL, NGTCP2], default=OPENSSL, help="with http 3"
    )
    return parser


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = command_line()
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    is_client = arguments.mode == "client"
    if is_client and arguments.interval_s and not 0.01 <= arguments.interval_s <= 3600:
        parser.error(f"interval_s is {arguments.interval_s:g}: 0, or from 0.01 to 3600 s")
    arguments.stack = nginx.stack_of(parser, arguments, arguments.http)
    is_http = is_client and arguments.http != NO_HTTP
    sends = arguments.stack in nginx.SEND_UPLOADS
    if is_http and arguments.direction == "upload" and not sends:
        senders = " or ".join(nginx.SEND_UPLOADS)
        parser.error(f"http uploads with http 3 and quic {senders}; else upload with iperf3")
    if is_http and not arguments.size:
        parser.error("http transfers a size; an unlimited transfer takes iperf3")
    if is_http and arguments.streams > 1:
        parser.error("http has one connection; several streams take iperf3")
    if is_http and arguments.own_cc == "yes":
        parser.error("http has its host's congestion control; own_cc takes iperf3")
    if is_client and arguments.size and arguments.duration_s:
        parser.error(f"a size or a duration: give the size as {UNLIMITED}, or no --duration-s")
    return arguments


# The server


def counted(protocol: str, name: str) -> int:
    """Return a counter of this host's kernel since it started: Tcp, RetransSegs."""
    names, values = (
        line.split()
        for line in Path("/proc/net/snmp").read_text().splitlines()
        if line.startswith(f"{protocol}:")
    )
    return int(values[names.index(name)])


def retransmitted_segments() -> int:
    """Return how many TCP segments this host has sent again since it started."""
    return counted("Tcp", "RetransSegs")


@contextmanager
def tool_server(arguments: argparse.Namespace, directory: Path) -> Iterator[None]:
    """Run a server of iperf3 or HTTP, which listens, until the end of the block."""
    http, port = arguments.http, arguments.port
    if arguments.stack != nginx.NGINX:
        from openbach_jobs import quic_stacks

        (directory / "files").mkdir()
        with quic_stacks.serving(arguments.stack, port, directory / "files", arguments.quic_cc):
            yield
    elif http == NO_HTTP:
        with started("iperf3", "-s", "-p", str(port), stdout=subprocess.DEVNULL) as server:
            wait_listening(server, "the iperf3 server", port)
            yield
    else:
        (directory / "files").mkdir()
        with nginx.serving(directory, port, directory / "files", http):
            yield


def answer(request: dict[str, Any], peer_ip: str, directory: Path) -> dict[str, Any]:
    """Answer a request of the client: make a file, receive a transfer, or tell of counters."""
    if "file_bytes" in request:
        with (directory / "files" / str(int(request["file_bytes"]))).open("wb") as file:
            file.truncate(int(request["file_bytes"]))
        return {"ok": True}
    if "receive" in request:
        return iperf3.receive(peer_ip, iperf3.Test(**request["receive"]))
    if "resumes" in request:
        return {"resumes": resumes.count()}
    return {"retransmits": retransmitted_segments()}


def serve(arguments: argparse.Namespace) -> None:
    """Serve files or iperf3 and answer the client, until the job is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory() as name, tool_server(arguments, Path(name)):
        control.serve(
            arguments.port - 1, lambda request, peer_ip: answer(request, peer_ip, Path(name))
        )


# The client


def mss_to_server(server_ip: str, control_port: int) -> int | None:
    """Return the segment size of a connection to this job's server; None if it does not answer."""
    try:
        answer, mss_bytes = control.ask_and_look(server_ip, control_port, retransmits=True)
    except OSError:
        return None
    return mss_bytes if "retransmits" in answer else None


def iperf3_test(arguments: argparse.Namespace) -> iperf3.Test:
    """Return the transfer of these arguments as iperf3 is told of it."""
    return iperf3.Test(
        port=arguments.port,
        size=arguments.size,
        duration_s=arguments.duration_s,
        streams=arguments.streams,
        interval_s=arguments.interval_s,
        cc=arguments.cc if arguments.own_cc == "yes" else None,
        deadline_s=max(arguments.deadline_s, arguments.duration_s + LONGEST_START_S),
    )


def download_iperf3(arguments: argparse.Namespace) -> Received:
    """Receive until the bytes are there, the time is over, or the job is stopped."""
    test = iperf3_test(arguments)
    end_s = time.monotonic() + test.deadline_s
    with (
        first_byte.open_tap(test.port, arguments.server_ip) as tap,
        tempfile.TemporaryFile("w+") as printed,
    ):
        with subprocess.Popen(
            iperf3.client_command(arguments.server_ip, test),
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
        ) as transfer:
            signal.signal(signal.SIGTERM, lambda *_: transfer.terminate())
            ttfb_s = first_byte.seconds(tap, transfer, end_s)
            tap.close()  # from here on it would only cost time
            try:
                error = transfer.communicate(timeout=max(end_s - time.monotonic(), 0))[1]
            except subprocess.TimeoutExpired:
                transfer.kill()
                sys.exit(iperf3.late(test.deadline_s))
        printed.seek(0)
        return iperf3.received(iperf3.report(printed.read(), error, test), ttfb_s)


def download_http(arguments: argparse.Namespace) -> Received:
    """Download one file by curl, and return what has come."""
    control.ask(arguments.server_ip, arguments.port - 1, file_bytes=arguments.size)
    url = f"https://{with_port(arguments.server_ip, arguments.port)}/{arguments.size}"
    limit_s = str(arguments.deadline_s)
    # the server's certificate is its own, so nothing vouches for it
    command = ["curl", "-sS", "--fail", "--insecure", CURL[arguments.http], "--max-time", limit_s]
    command += ["-o", "/dev/null", "-w", "%{json}", url]
    if arguments.http == "3" and arguments.quic_receiver == NGTCP2:
        command = ["/usr/bin/python3", str(Path(__file__).parent / "quic_receive.py"), url, limit_s]
    report = json.loads(downloaded(command, arguments) if arguments.http == "3" else run(*command))
    if report["http_version"] != arguments.http:
        sys.exit(f"{url} came with HTTP/{report['http_version']} instead of HTTP/{arguments.http}")
    total_s, ttfb_s, handshake_s = (
        report[f"time_{name}"] for name in ("total", "starttransfer", "appconnect")
    )
    return Received(total_s, report["size_download"], ttfb_s, None, [], handshake_s)


def downloaded(command: list[str], arguments: argparse.Namespace) -> str:
    """Return what the receiver of QUIC prints. Ends the job if it fails, or stands still.

    Then it is started again with a log of QUIC (qlog) until that tells why, TRIES times at most. A
    log of each transfer would move its packets in virtual time.
    """
    done = received_quic(command, {})
    if not done.error:
        return done.printed
    import stall  # not above: to read a file takes virtual time

    why, other = "", NGTCP2 if arguments.quic_receiver != NGTCP2 else OPENSSL
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as name:
            if received_quic(command, {"QLOGDIR": name}).error and (
                why := stall.reason(Path(name))
            ):
                break
    is_still = done.still_s >= STALL_S - 2 * LOOK_S
    how = f"stands still: no data came for {done.still_s:g} s" if is_still else "failed"
    sys.exit(
        f"the download over HTTP/3 {how} ({done.error}); in another try, with a log of QUIC:"
        f" {why or f'{TRIES} did not fail'}; quic_receiver={other} is another receiver"
    )


class Receiver(NamedTuple):
    """An ended receiver of QUIC: what it printed, its error, seconds without data at its end."""

    printed: str
    error: str
    still_s: float


def received_quic(command: list[str], environment: dict[str, str]) -> Receiver:
    """Run a receiver of QUIC; end it when no data has come for STALL_S.

    What keeps a connection alive is no data: up to IDLE_DATAGRAMS in LOOK_S.
    """
    before, still_s = 0, 0.0  # not counted here: to read a file takes virtual time

    def look(*_: object) -> None:
        nonlocal before, still_s
        now = counted("Udp", "InDatagrams")
        still_s, before = still_s + LOOK_S if now - before <= IDLE_DATAGRAMS else 0.0, now
        if still_s >= STALL_S:
            receiver.terminate()

    signal.signal(signal.SIGALRM, look)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment} if environment else None,
    ) as receiver:
        signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
        printed, error = receiver.communicate()
        signal.setitimer(signal.ITIMER_REAL, 0)
    failed = "ended by this job" if receiver.returncode == -signal.SIGTERM else error.strip()
    return Receiver(printed, failed if receiver.returncode else "", still_s)


def upload_quic(arguments: argparse.Namespace) -> Received:
    """Send over HTTP/3, and return what the server has received."""
    from openbach_jobs import quic_stacks

    sent = quic_stacks.upload(
        arguments.stack,
        with_port(arguments.server_ip, arguments.port),
        arguments.size,
        arguments.quic_cc,
        arguments.deadline_s,
    )
    return Received(sent["seconds"], sent["bytes"], None, None, [], sent["handshake_s"])


def upload_iperf3(arguments: argparse.Namespace) -> Received:
    """Send by iperf3 to the server, and return what it has received."""
    test = iperf3_test(arguments)
    with started("iperf3", "-s", "-1", "-p", str(test.port), stdout=subprocess.DEVNULL) as server:
        wait_listening(server, "the iperf3 server", test.port)
        report = control.ask(
            arguments.server_ip, test.port - 1, test.deadline_s, receive=test._asdict()
        )
    return iperf3.received(report, None)


def check_congestion_control(wanted: str | None, used: str | None) -> None:
    """End the job if the sender's socket had another congestion control.

    `cc` is that of the transport profile that is wanted.
    """
    if wanted and used and used not in (wanted, profiles.described(wanted)["algorithm"]):
        sys.exit(f"the sender used the congestion control {used} instead of {wanted}")


def counts_segments(arguments: argparse.Namespace) -> bool:
    """Return whether the sender's kernel knows which segments it sent again.

    With QUIC it does not; an endless transfer has no end at which to ask.
    """
    return arguments.http != "3" and not iperf3_test(arguments).is_endless


def transfer(arguments: argparse.Namespace) -> None:
    """Wait for the server, transfer once, and send what was measured."""
    server_ip, control_port = arguments.server_ip, arguments.port - 1
    missing = f"the server of file_transfer on {server_ip} does not answer"
    mss_bytes = wait_for(missing, lambda: mss_to_server(server_ip, control_port), READY_LIMIT_S)
    downloads = arguments.direction == "download"

    def sender_retransmits() -> int:
        counted = (
            control.ask(server_ip, control_port, retransmits=True)["retransmits"]
            if downloads
            else retransmitted_segments()
        )
        return int(counted)

    def sender_resumes() -> int:
        counted = (
            control.ask(server_ip, control_port, resumes=True)["resumes"]
            if downloads
            else resumes.count()
        )
        return int(counted or 0)

    by_iperf3 = arguments.http == NO_HTTP
    receive = {
        (True, True): download_iperf3,
        (True, False): download_http,
        (False, True): upload_iperf3,
        (False, False): upload_quic,
    }[downloads, by_iperf3]
    resumed = None
    if arguments.warm_up:
        earlier = {"size": arguments.warm_up, "duration_s": 0, "interval_s": 0.0}
        receive(argparse.Namespace(**{**vars(arguments), **earlier}))
        resumed = sender_resumes()
    before = sender_retransmits()
    start_ms = collect_agent.now()
    received = receive(arguments)
    if received.bytes < arguments.size:
        sys.exit(f"only {received.bytes} of {arguments.size} bytes arrived")
    check_congestion_control(arguments.cc, received.congestion_control)
    for begins_s, lasts_s, size in received.series:
        if arguments.interval_s and lasts_s:
            time_ms = start_ms + round((begins_s + lasts_s) * 1000)
            collect_agent.send_stat(
                time_ms, suffix=arguments.flow, interval_goodput_bps=size * 8 / lasts_s
            )
    collect_agent.send_stat(
        collect_agent.now(),
        suffix=arguments.flow,
        transfer_time_s=received.seconds,
        goodput_bps=received.bytes * 8 / received.seconds,
        bytes=received.bytes,
        ttfb_s=received.ttfb_s,
        handshake_time_s=received.handshake_time_s,
        congestion_control=received.congestion_control,
        mss_bytes=mss_bytes if arguments.http != "3" else None,
        retransmits=sender_retransmits() - before if counts_segments(arguments) else None,
        resumes=None if resumed is None else sender_resumes() - resumed,
    )


def main() -> None:
    """Run the job."""
    arguments = parse()
    if arguments.mode == "server":
        serve(arguments)
    elif arguments.direction != "none":
        try:
            transfer(arguments)
        except OSError as error:
            sys.exit(f"the server of file_transfer on {arguments.server_ip}: {error}")


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
