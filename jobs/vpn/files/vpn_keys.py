# SPDX-License-Identifier: GPL-3.0-or-later
"""The exchange of public keys between the ends of a tunnel, and with its coordinator.

Each sends one line of JSON over TCP. That connection shows the path, too: its round-trip time and
its largest packet.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from openbach_jobs.command import LIMIT_S, TCP_INFO_BYTES, record, run, segment_bytes, wait_for

EXCHANGE_LIMIT_S = 180.0
"""Limit of the wait for the other end's keys: the longest path takes 20 s there and back, and that
end may exchange keys with a coordinator first, in three round trips."""
RETRY_S = 0.2
"""Pause between two attempts to reach the other end."""
PUBLIC_LIMIT = 16 << 20
"""Characters of public material that an end takes from the other; keys of Classic McEliece have
1 MB."""
TRANSLATED = re.compile(r"seen as ([0-9.]+)\n")
"""First line of the server's public material if a NAT has translated the client's address."""
ENDS = 2
TCPI_RTT_AT = 68
"""Offset of the round-trip time in µs in struct tcp_info of linux/tcp.h."""
HEADERS_BYTES = {socket.AF_INET: 40, socket.AF_INET6: 60}
"""Bytes of the headers of IP and TCP."""


class Way(NamedTuple):
    """The path to the other end, as TCP has seen it: round trip, and the MTU in bytes.

    The MTU is the smaller one of both ends' interfaces.
    """

    rtt_s: float
    mtu: int
    seen_ip: str | None = None
    """The client's address as the server sees it, where a NAT has translated it."""


def coordinator_ip(arguments: argparse.Namespace) -> str:
    """Return the address of the VPN's coordinator."""
    at_server = arguments.remote_ip if arguments.role == "client" else arguments.local_ip
    return str(arguments.coordinator_ip or at_server)


def public_file(address: str, tunnel: int, role: str = "") -> str:
    """Return the path where the pasted commands put what `keygen` has printed."""
    return f"/run/vpn-{address}-{tunnel}{role}.public"


def own_words(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are the VPN job's own, without those of any shell."""
    return {name: value for name, value in environment.items() if name.startswith("VPN_")}


def make_keys(arguments: argparse.Namespace, folder: Path, environment: Mapping[str, str]) -> str:
    """Make this host's keys and return what `keygen` prints: the public material."""
    role = "-coordinator" if arguments.role == "coordinator" else ""
    keygen = str(folder / "keygen")
    public = run(keygen, environment=environment, limit_s=LIMIT_S)
    record("mkdir", "-pm", "700", environment["VPN_DIR"])
    file = public_file(arguments.local_ip, arguments.tunnel, role)
    record(keygen, environment=own_words(environment), after=f" > {file}")
    return public


def exchange_keys(
    arguments: argparse.Namespace, folder: Path, environment: Mapping[str, str]
) -> Way:
    """Make this end's keys, exchange the public ones, and return the path as TCP has seen it.

    The other end's public keys are left where `up` looks for them. Pasted, the commands make new
    keys and exchange them as files.
    """
    public = make_keys(arguments, folder, environment)
    if (file := environment.get("VPN_COORDINATOR_PUBLIC")) is not None:
        address = coordinator_ip(arguments)
        coordinator = connected("the VPN coordinator", address, arguments.coordinator_port)
        Path(file).write_text(swap(coordinator, public))
        record("cp", public_file(address, arguments.tunnel, "-coordinator"), file)
    public_of_other, path = exchange(arguments, public)
    file = environment["VPN_REMOTE_PUBLIC"]
    Path(file).write_text(public_of_other)
    record("cp", public_file(arguments.remote_ip, arguments.tunnel), file)
    return path


def exchange(arguments: argparse.Namespace, public: str) -> tuple[str, Way]:
    """Give the other end our public material; return its own, and the path as TCP has seen it.

    The server listens, the client connects. The server tells a client whose address has been
    translated, and both know.
    """
    seen_ip, ours = None, public
    if arguments.role == "server":
        with listening(arguments.local_ip, arguments.exchange_port) as listener:
            listener.settimeout(EXCHANGE_LIMIT_S)
            try:
                connection, (peer_ip, *_) = listener.accept()
            except TimeoutError:
                port, limit_s = arguments.exchange_port, EXCHANGE_LIMIT_S
                sys.exit(f"no VPN client has connected to port {port} after {limit_s:g} s")
        if peer_ip != arguments.remote_ip:
            seen_ip, ours = peer_ip, f"seen as {peer_ip}\n{public}"
    else:
        connection = connected("the VPN server", arguments.remote_ip, arguments.exchange_port)
    with connection.dup() as same:  # `swap` closes its own
        theirs = swap(connection, ours)
        if arguments.role == "client" and (translated := TRANSLATED.match(theirs)):
            seen_ip, theirs = translated[1], theirs[translated.end() :]
        return theirs, way_of(same)._replace(seen_ip=seen_ip)


def exchange_with_ends(arguments: argparse.Namespace, public: str) -> list[tuple[str, str]]:
    """Give both ends the coordinator's public material; return their addresses and theirs."""
    received: list[tuple[str, str]] = []
    with listening(arguments.local_ip, arguments.coordinator_port) as listener:
        listener.settimeout(EXCHANGE_LIMIT_S)
        while len(received) < ENDS:
            try:
                connection, (address, *_) = listener.accept()
            except TimeoutError:
                came = f"{len(received)} of {ENDS} ends of {arguments.kind}"
                port, limit_s = arguments.coordinator_port, EXCHANGE_LIMIT_S
                sys.exit(f"{came} connected to port {port} of the coordinator in {limit_s:g} s")
            received.append((address, swap(connection, public)))
    return received


def family_of(address: str) -> socket.AddressFamily:
    """Return the family of an address, of IPv4 or IPv6."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def listening(address: str, port: int) -> socket.socket:
    """Return a socket that listens on a port of an address."""
    return socket.create_server((address, port), family=family_of(address))


def connected(whom: str, address: str, port: int) -> socket.socket:
    """Return a connection to a port, as soon as somebody answers there."""

    def connect() -> socket.socket | None:
        try:
            return socket.create_connection((address, port), timeout=LIMIT_S)
        except OSError:
            return None

    missing = f"{whom} {address} does not answer on port {port}"
    return wait_for(missing, connect, LIMIT_S, retry_s=RETRY_S)


def swap(connection: socket.socket, public: str) -> str:
    """Send one line of JSON and receive one, at the same time.

    If both ends first wrote what fits no buffer, neither would go on.
    """
    connection.settimeout(EXCHANGE_LIMIT_S)
    failures: list[OSError | UnicodeDecodeError] = []

    def send() -> None:
        try:
            with connection.makefile("w") as lines:
                lines.write(json.dumps(public) + "\n")
        except OSError as error:
            failures.append(error)

    received = ""
    with connection, connection.makefile("r") as lines:
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        try:
            received = lines.readline(PUBLIC_LIMIT)
            sender.join()
        except (OSError, UnicodeDecodeError) as error:
            failures.insert(0, error)
    if failures:
        sys.exit(f"the exchange of public keys with the other end failed: {failures[0]}")
    if not received:
        sys.exit("the other end closed the exchange of public keys")
    try:
        public_of_other = json.loads(received)
    except ValueError:
        public_of_other = None
    if not isinstance(public_of_other, str):
        sys.exit(
            f"the other end sent no public keys, or more than {PUBLIC_LIMIT >> 20} MiB:"
            f" {received[:60]!r}"
        )
    return public_of_other


def way_of(connection: socket.socket) -> Way:
    """Return the path as a TCP connection has seen it: round trip and largest packet.

    Time-outs and the tunnel's MTU follow from them.
    """
    tcp_info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    (rtt_us,) = struct.unpack_from("=I", tcp_info, TCPI_RTT_AT)
    return Way(rtt_us / 1e6, segment_bytes(connection) + HEADERS_BYTES[connection.family])
