# SPDX-License-Identifier: GPL-3.0-or-later
"""Lookups of a name: messages of DNS (RFC 1035), and the ways in which a stub resolver sends them.

    udp    RFC 1035, and again after AGAIN_S, as glibc's does
    dot    over TLS: RFC 7858
    doh    over HTTPS: RFC 8484, by HTTP/1.1, which takes as many round trips as HTTP/2

One name, whose address is asked for. The resolver's certificate is made anew at each start, so
nothing vouches for it: the handshake is a real one's, the trust is not.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from http.client import HTTPSConnection

UDP, DOT, DOH = "udp", "dot", "doh"
PORTS = {UDP: 53, DOT: 853, DOH: 443}
NAME = "www.openbach.test"
"""Name that is looked up; RFC 6761 keeps `test` for such names."""
PATH, MEDIA_TYPE = "/dns-query", "application/dns-message"
AGAIN_S, TRIES = 5.0, 4
MOST_BYTES = 65535
A, AAAA, IN = 1, 28, 1
ASKS, ANSWERS, NO_SUCH_NAME = 0x0100, 0x8180, 3
"""Flags: recursion desired; an answer, of a resolver that recurses; and a response code."""
SAME_NAME = 0xC00C
"""A pointer to the question's name, which stands behind the header of 12 bytes."""
TTL_S = 300
HEADER = struct.Struct("!6H")
Ask = Callable[[bytes], bytes]


class LookupFailed(OSError):
    """Error of a lookup without an address in the answer; the text says what came instead."""


def question_of(name: str, is_ipv6: bool, number: int) -> bytes:
    """Return a message that asks for the address of a name, with this number."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    record = struct.pack("!HH", AAAA if is_ipv6 else A, IN)
    return HEADER.pack(number, ASKS, 1, 0, 0, 0) + labels + b"\0" + record


def answer_to(question: bytes, address: str) -> bytes:
    """Return the resolver's message: the address of NAME, or that there is no other name.

    Raises ValueError for what is no question of ours.
    """
    if len(question) <= HEADER.size + 5:
        raise ValueError("too short for a question")
    number, _, count, *_ = HEADER.unpack_from(question)
    is_ipv6 = ":" in address
    section = question[HEADER.size : question.index(b"\0", HEADER.size) + 5]
    expected = question_of(NAME, is_ipv6, number)[HEADER.size :]
    if count != 1 or section[:-4].lower() != expected[:-4].lower():
        return HEADER.pack(number, ANSWERS | NO_SUCH_NAME, 1, 0, 0, 0) + section
    if section[-4:] != expected[-4:]:  # the name has no address of this version
        return HEADER.pack(number, ANSWERS, 1, 0, 0, 0) + section
    packed = socket.inet_pton(socket.AF_INET6 if is_ipv6 else socket.AF_INET, address)
    kind = AAAA if is_ipv6 else A
    record = struct.pack("!HHHIH", SAME_NAME, kind, IN, TTL_S, len(packed)) + packed
    return HEADER.pack(number, ANSWERS, 1, 1, 0, 0) + section + record


def address_in(answer: bytes, question: bytes) -> str:
    """Return the address in the resolver's answer to a question. Raises LookupFailed."""
    if len(answer) < len(question) or answer[:2] != question[:2]:
        raise LookupFailed(f"no answer to the question came, but {answer[:40]!r}")
    _, flags, _, count, *_ = HEADER.unpack_from(answer)
    record = answer[len(question) :]
    if flags & 0xF or not count or len(record) < 12:
        raise LookupFailed(f"the resolver knows no address (response code {flags & 0xF})")
    packed = record[12 : 12 + struct.unpack_from("!H", record, 10)[0]]
    return socket.inet_ntop(socket.AF_INET6 if len(packed) == 16 else socket.AF_INET, packed)


def lookups(protocol: str, server_ip: str, count: int) -> tuple[str, list[float]]:
    """Return the address of NAME as a resolver has it, and what each lookup took in s.

    All are over one connection, which the first one opens. The address is of the version of IP of
    the resolver's. Raises OSError.
    """
    address, times_s = "", []
    with asking(protocol, server_ip) as ask:
        for _ in range(count):
            begin_s = time.monotonic()
            # RFC 8484, 4.1: the number is 0, so that answers can be cached.
            number = 0 if protocol == DOH else int.from_bytes(os.urandom(2))
            question = question_of(NAME, ":" in server_ip, number)
            address = address_in(ask(question), question)
            times_s.append(round(time.monotonic() - begin_s, 6))
    return address, times_s


def asking(protocol: str, server_ip: str) -> AbstractContextManager[Ask]:
    """Return a block with what sends a question to a resolver and returns the answer.

    The first question opens the block's one connection. Raises OSError where nobody answers.
    """
    return {UDP: _over_udp, DOT: _over_tls, DOH: _over_https}[protocol](server_ip)


@contextmanager
def _over_udp(server_ip: str) -> Iterator[Ask]:
    family = socket.AF_INET6 if ":" in server_ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as out:
        out.settimeout(AGAIN_S)
        out.connect((server_ip, PORTS[UDP]))

        def ask(question: bytes) -> bytes:
            for _ in range(TRIES):
                out.send(question)
                try:
                    return out.recv(MOST_BYTES)
                except TimeoutError:
                    continue
            raise TimeoutError(f"{server_ip} has not answered {TRIES} times in {AGAIN_S:g} s")

        yield ask


def _unvouched() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextmanager
def _over_tls(server_ip: str) -> Iterator[Ask]:
    opened: list[ssl.SSLSocket] = []

    def ask(question: bytes) -> bytes:
        if not opened:
            plain = socket.create_connection((server_ip, PORTS[DOT]), AGAIN_S * TRIES)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.append(_unvouched().wrap_socket(plain))
        opened[0].sendall(framed(question))
        return read_framed(opened[0])

    try:
        yield ask
    finally:
        for connection in opened:
            connection.close()


@contextmanager
def _over_https(server_ip: str) -> Iterator[Ask]:
    limit_s, context = AGAIN_S * TRIES, _unvouched()
    connection = HTTPSConnection(server_ip, PORTS[DOH], timeout=limit_s, context=context)

    def ask(question: bytes) -> bytes:
        connection.request("POST", PATH, question, {"Content-Type": MEDIA_TYPE})
        return connection.getresponse().read()

    with closing(connection):
        yield ask


def framed(message: bytes) -> bytes:
    """Return a message as a stream has it: with its length before it."""
    return struct.pack("!H", len(message)) + message


def read_framed(connection: socket.socket) -> bytes:
    """Return the next message of a connection. Raises ConnectionError at its end."""
    return _read(connection, int.from_bytes(_read(connection, 2)))


def _read(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes. Raises ConnectionError where they do not come."""
    came = b""
    while len(came) < size:
        more = connection.recv(size - len(came))
        if not more:
            raise ConnectionError("the resolver has closed the connection without an answer")
        came += more
    return came
