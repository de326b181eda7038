# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof that the proxy of this host splits connections.

A client and a server of our own are each in a network namespace, with this host between them. It
forwards nothing between the two, so a connection goes through the proxy or not at all.

    198.18.0.2 ── pep_client (this host) pep_server ── 198.18.0.6

The addresses are those for tests (RFC 2544).
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openbach_jobs.command import run, undo

INTERFACE = "pep_client"
CLIENT, CLIENT_GATEWAY = "198.18.0.2", "198.18.0.1"
SERVER, SERVER_GATEWAY = "198.18.0.6", "198.18.0.5"
PORT = 7
LIMIT_S = 10.0
CLONE_NEWNET = 0x40000000  # linux/sched.h

libc = ctypes.CDLL(None, use_errno=True)


def goes_through() -> bool:
    """Return whether a connection shows the server the client's address, not the proxy's.

    Ends the job if none goes through.
    """
    here = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    ends = [_new_namespace(here), _new_namespace(here)]
    try:
        _join(here, ends)
        with _inside(ends[1], here):
            listener = socket.create_server((SERVER, PORT))
        with _inside(ends[0], here):
            client = socket.socket()
        with listener, client:
            return _exchange(client, listener) == CLIENT
    finally:
        undo("ip", lines=[f"link del {INTERFACE}", "link del pep_server"])
        for fd in (*ends, here):
            os.close(fd)


def _exchange(client: socket.socket, listener: socket.socket) -> str:
    """Ask and answer, and return the client's address as the server sees it."""
    client.settimeout(LIMIT_S)
    listener.settimeout(LIMIT_S)
    try:
        client.connect((SERVER, PORT))
        server, peer = listener.accept()
        with server:
            server.settimeout(LIMIT_S)
            client.sendall(b"question")
            question = server.recv(8, socket.MSG_WAITALL)
            server.sendall(b"answer")
            answered = client.recv(6, socket.MSG_WAITALL)
    except OSError as error:
        sys.exit(f"no connection goes through the proxy: {error}")
    if (question, answered) != (b"question", b"answer"):
        sys.exit(
            f"the proxy passed on {question!r} and {answered!r} instead of a question and an answer"
        )
    return str(peer[0])


def _join(here: int, ends: list[int]) -> None:
    path = f"/proc/{os.getpid()}/fd"
    run(
        "ip",
        lines=[
            f"link add {INTERFACE} type veth peer name end netns {path}/{ends[0]}",
            f"link add pep_server type veth peer name end netns {path}/{ends[1]}",
            *_address(INTERFACE, CLIENT_GATEWAY),
            *_address("pep_server", SERVER_GATEWAY),
        ],
    )
    for interface in (INTERFACE, "pep_server"):
        Path(f"/proc/sys/net/ipv4/conf/{interface}/forwarding").write_text("0")
    for end, address, gateway in (
        (ends[0], CLIENT, CLIENT_GATEWAY),
        (ends[1], SERVER, SERVER_GATEWAY),
    ):
        with _inside(end, here):
            run("ip", lines=[*_address("end", address), f"route add default via {gateway}"])


def _address(interface: str, address: str) -> list[str]:
    return [f"address add {address}/30 dev {interface}", f"link set {interface} up"]


def _new_namespace(here: int) -> int:
    _call(libc.unshare(CLONE_NEWNET), "making a network namespace")
    try:
        _no_ipv6()
        return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        _enter(here)


def _no_ipv6() -> None:
    """Keep packets of IPv6 away, so that the proof's own are the only ones."""
    switch = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
    if switch.exists():
        switch.write_text("1")


@contextmanager
def _inside(namespace: int, here: int) -> Iterator[None]:
    _enter(namespace)
    try:
        yield
    finally:
        _enter(here)


def _enter(namespace: int) -> None:
    _call(libc.setns(namespace, CLONE_NEWNET), "entering a network namespace")


def _call(result: int, what: str) -> None:
    if result:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")
