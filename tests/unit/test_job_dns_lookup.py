# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of DNS, and lookups at the job's own resolver over UDP, TLS and HTTPS."""

from __future__ import annotations

import importlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

names = importlib.import_module("openbach_jobs.names")
dns_lookup = importlib.import_module("dns_lookup")
resolver = importlib.import_module("resolver")
ADDRESSES = ["192.168.20.2", "fd00::c0a8:1402"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_answer_has_the_address(address: str) -> None:
    question = names.question_of(names.NAME, ":" in address, 7)
    answer = names.answer_to(question, address)
    assert struct.unpack_from("!6H", answer) == (7, 0x8180, 1, 1, 0, 0)
    assert names.address_in(answer, question) == address


def test_a_question_is_that_of_the_rfc() -> None:
    """RFC 1035, 4.1.2: labels with their lengths, type A, class IN."""
    question = names.question_of("a.bc", False, 1)
    assert question == bytes.fromhex("0001 0100 0001 0000 0000 0000 0161 026263 00 0001 0001")


@pytest.mark.parametrize(("name", "is_ipv6", "code"), [("x.test", False, 3), (names.NAME, True, 0)])
def test_what_is_not_known_is_told(name: str, is_ipv6: bool, code: int) -> None:
    question = names.question_of(name, is_ipv6, 7)
    answer = names.answer_to(question, "192.168.20.2")
    with pytest.raises(names.LookupFailed, match=rf"knows no address \(response code {code}\)"):
        names.address_in(answer, question)


@pytest.mark.parametrize("junk", [b"", b"\0" * 17, b"\xff" * 40])
def test_rubbish_is_no_question(junk: bytes) -> None:
    with pytest.raises(ValueError):
        names.answer_to(junk, "192.168.20.2")


@pytest.mark.parametrize("cut", [0, 5, 30])
def test_another_answer_is_refused(cut: int) -> None:
    question = names.question_of(names.NAME, False, 7)
    answer = names.answer_to(question, "192.168.20.2")
    with pytest.raises(names.LookupFailed, match="no answer to the question"):
        names.address_in(answer[:cut], question)
    with pytest.raises(names.LookupFailed, match="no answer to the question"):
        names.address_in(b"\0\0" + answer[2:], question)


@contextmanager
def serving(serve: Callable[..., None], at: socket.socket, *arguments: object) -> Iterator[int]:
    at.bind(("127.0.0.1", 0))
    if at.type == socket.SOCK_STREAM:
        at.listen()
    port = at.getsockname()[1]
    threading.Thread(target=until_closed, args=(serve, at, *arguments), daemon=True).start()
    with at:
        yield port
        with suppress(OSError):  # what waits in another thread ends then; UDP says ENOTCONN
            at.shutdown(socket.SHUT_RDWR)


def until_closed(serve: Callable[..., None], *arguments: object) -> None:
    with suppress(OSError):
        serve(*arguments)


def udp() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def test_lookups_over_udp(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(resolver.over_udp, udp(), address := "192.168.20.2") as port:
        monkeypatch.setitem(names.PORTS, names.UDP, port)
        assert names.lookups(names.UDP, "127.0.0.1", 1)[0] == address


def test_a_question_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "AGAIN_S", 0.01)
    with udp() as silent:
        silent.bind(("127.0.0.1", 0))
        monkeypatch.setitem(names.PORTS, names.UDP, silent.getsockname()[1])
        with pytest.raises(TimeoutError, match=r"127.0.0.1 has not answered 4 times in 0.01 s"):
            names.lookups(names.UDP, "127.0.0.1", 1)
        silent.settimeout(0)
        assert len({silent.recv(100) for _ in range(names.TRIES)}) == 1


@pytest.mark.parametrize(
    ("protocol", "serve"), [("dot", resolver.over_tls), ("doh", resolver.over_https)]
)
def test_lookups_over_tls_take_one_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, serve: Callable[..., None]
) -> None:
    context = resolver.server_context(tmp_path)
    with serving(serve, socket.socket(), context, "192.168.20.2") as port:
        monkeypatch.setitem(names.PORTS, protocol, port)
        address, times_s = names.lookups(protocol, "127.0.0.1", 3)
    assert (address, len(times_s)) == ("192.168.20.2", 3)
    assert context.session_stats()["accept"] == 1


def test_the_other_resolver_is_asked_where_at_says_so() -> None:
    words = ["client", "dot", "192.168.20.2", "--beside-ip", "10.10.4.1"]
    assert dns_lookup.parse(words).server_ip == "192.168.20.2"
    assert dns_lookup.parse([*words, "--at", "beside"]).server_ip == "10.10.4.1"
