# SPDX-License-Identifier: GPL-3.0-or-later
"""What `ip` and `tc` would do, by netlink, without starting them: a start costs 2 ms.

The lines are those that a person would type, and that the record keeps (commands.sh). Known are
those that the guest's network and jobs of ours have often; for all others the program is started.
Of `tc -s -j qdisc show` there are the counters, without options. Numbers are those of
linux/rtnetlink.h, if_link.h, pkt_sched.h and tc_act/tc_mirred.h. (pyroute2 takes 110 ms to import,
and 20 MB.)
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from subprocess import CompletedProcess
from typing import Any, NamedTuple

REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
REPLACE, EXCL, CREATE = 0x100, 0x200, 0x400
VERBS = {"add": CREATE | EXCL, "replace": CREATE | REPLACE, "change": REPLACE, "del": 0}
NEWLINK, NEWADDR, NEWROUTE, NEWNEIGH, NEWQDISC, NEWTFILTER = 16, 20, 24, 28, 36, 44
"""The kernel's messages; that which deletes has the next number."""
GETQDISC, ERROR, DONE = 38, 2, 3
UP = 1
TYPES = {"local": (2, 254), "blackhole": (6, 0), "unreachable": (7, 0), "prohibit": (8, 0)}
"""Of routes: type, and scope."""
UNICAST, MAIN, BOOT, LINK_SCOPE, NO_SCOPE = 1, 254, 3, 253, 255
PERMANENT, NO_DAD, ETHERNET = 0x80, 2, 1
ROOT, CLSACT, ANY_PROTOCOL = 0xFFFFFFFF, 0xFFFFFFF1, 0x0300
HOOKS = {"ingress": 0xFFFFFFF2, "egress": 0xFFFFFFF3}
REDIRECT, STOLEN = {"egress": 1, "ingress": 3}, 4
WHOLE = 0xFFFFFFFF
"""What 100 % are to netem."""
SECOND_NS = {"us": 1e3, "ms": 1e6, "s": 1e9}
BITS = {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3, "bit": 1.0}
COUNTERS = ("tc", "-s", "-j", "qdisc", "show")
NAMESPACES = "/run/netns"
BUFFER_BYTES = 1 << 16

Message = tuple[int, int, bytes]
"""Kind, flags and content."""


class Unknown(Exception):
    """A line that the program is to be started for."""


class Host(NamedTuple):
    """How names become numbers."""

    index: Callable[[str], int]
    """Of an interface. Raises OSError."""
    namespace: Callable[[str], int]
    """File descriptor of a network namespace. Raises OSError."""


NOWHERE = Host(lambda name: 0, lambda name: 0)
"""Where a line is only looked at."""


def done(words: Sequence[str], text: str | None) -> CompletedProcess[str] | None:
    """Do what a command does on the present host, and return how it ended.

    None, with nothing done, if the command has to be started.
    """
    if tuple(words) == COUNTERS:
        return CompletedProcess(words, 0, json.dumps([*_counters()]), "")
    program, *options = words
    is_batch = "-batch" in options
    lines = (text or "").splitlines() if is_batch else [" ".join(options)]
    split = [line.split() for line in lines if line.strip()]
    if program not in READERS or (is_batch and {*options} - {"-batch", "-force", "-"}):
        return None
    try:
        for line in split:
            _message(program, line, NOWHERE)
    except (Unknown, KeyError, ValueError, IndexError, StopIteration, OSError):
        return None
    said = []
    opened: list[int] = []

    def namespace(name: str) -> int:
        opened.append(os.open(name if "/" in name else f"{NAMESPACES}/{name}", os.O_RDONLY))
        return opened[-1]

    host = Host(socket.if_nametoindex, namespace)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC) as kernel:
        for number, line in enumerate(split, 1):
            try:
                _ask(kernel, *_message(program, line, host))
            except OSError as error:
                said.append(f"RTNETLINK answers: {error.strerror} ({' '.join(line)})")
                if is_batch:
                    said.append(f"Command failed -:{number}")
                if "-force" not in options:
                    break
            finally:
                while opened:
                    os.close(opened.pop())
    return CompletedProcess(words, 2 if said else 0, "", "\n".join(said))


def _ask(kernel: socket.socket, kind: int, flags: int, content: bytes) -> None:
    kernel.send(
        struct.pack("=IHHII", 16 + len(content), kind, flags | REQUEST | ACK, 1, 0) + content
    )
    answer, _ = kernel.recvfrom(BUFFER_BYTES)
    if number := -struct.unpack_from("=i", answer, 16)[0]:
        raise OSError(number, os.strerror(number))


def _message(program: str, words: list[str], host: Host) -> Message:
    what, verb, *rest = words
    return READERS[program][what](verb, rest, host)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _u32(value: float) -> bytes:
    return struct.pack("=I", int(value))


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _pairs(words: Sequence[str], alone: Sequence[str] = ()) -> dict[str, str]:
    """Return the values by their names; those that stand alone have themselves."""
    left = iter(words)
    return {word: word if word in alone else next(left) for word in left}


def _address(text: str) -> tuple[int, bytes]:
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    return family, socket.inet_pton(family, text)


def _hardware(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _port(words: list[str], host: Host, alone: Sequence[str] = ()) -> bytes:
    """Return struct ifinfomsg and attributes of an interface that has no number yet."""
    own = _pairs(words if words[0] == "name" else ["name", *words])
    return bytes(16) + _attributes(own, host)


def _attributes(own: dict[str, str], host: Host) -> bytes:
    readers: dict[str, tuple[int, Callable[[str], bytes]]] = {
        "address": (1, _hardware),
        "name": (3, _text),
        "mtu": (4, lambda value: _u32(int(value))),
        "master": (10, lambda value: _u32(host.index(value))),
        "alias": (20, str.encode),
        "netns": (28, lambda value: _u32(host.namespace(value))),
    }
    return b"".join(
        _attribute(readers[name][0], readers[name][1](value)) for name, value in own.items()
    )


def _link(verb: str, words: list[str], host: Host) -> Message:
    if verb == "add":
        place = words.index("type")
        kind, *data = words[place + 1 :]
        about = _attribute(1, _text(kind))
        if data and (kind, data[0]) == ("veth", "peer"):
            about += _attribute(2, _attribute(1, _port(data[1:], host)))
        elif data or kind not in ("ifb", "dummy", "veth"):
            raise Unknown
        return NEWLINK, VERBS[verb], _port(words[:place], host) + _attribute(18, about)
    name, *rest = words[1:] if words[0] == "dev" else words
    states = {"up": UP, "down": 0}
    own = _pairs(rest, [*states])
    change = [state for state in states if own.pop(state, None)]
    head = struct.pack(
        "=BxHiII", 0, 0, host.index(name), sum(map(states.__getitem__, change)), len(change)
    )
    if verb not in ("set", "del") or (verb == "del" and rest):
        raise Unknown
    return NEWLINK + (verb == "del"), 0, head + _attributes(own, host)


def _addresses(verb: str, words: list[str], host: Host) -> Message:
    own = _pairs(words[1:], ["nodad"])
    (text, prefix), device = words[0].split("/"), own.pop("dev")
    family, address = _address(text)
    length, flags = int(prefix), NO_DAD if own.pop("nodad", None) else 0
    found = _attribute(2, address) + _attribute(1, address)
    if own.pop("broadcast", "+") != "+" or own or verb not in ("add", "del") or device == "lo":
        raise Unknown
    if "broadcast" in words:
        last = int.from_bytes(address) | (1 << 32 - length) - 1
        found += _attribute(4, last.to_bytes(4))
    head = struct.pack("=BBBBI", family, length, flags, 0, host.index(device))
    return NEWADDR + (verb == "del"), VERBS[verb], head + found


def _neighbour(verb: str, words: list[str], host: Host) -> Message:
    own = _pairs(words[1:])
    family, address = _address(words[0])
    if verb != "add" or own.keys() != {"lladdr", "nud", "dev"} or own["nud"] != "permanent":
        raise Unknown
    head = struct.pack("=BxxxiHBB", family, host.index(own["dev"]), PERMANENT, 0, 0)
    found = _attribute(1, address) + _attribute(2, _hardware(own["lladdr"]))
    return NEWNEIGH, VERBS[verb], head + found


def _route(verb: str, words: list[str], host: Host) -> Message:
    kind, scope = TYPES.get(words[0], (UNICAST, -1))
    to, *rest = words[1:] if scope >= 0 else words
    own, found, family, length = _pairs(rest), b"", socket.AF_INET, 0
    if to != "default":
        text, _, prefix = to.partition("/")
        family, address = _address(text)
        length = int(prefix or 8 * len(address))
        found += _attribute(1, address) if length else b""
    table, protocol = int(own.pop("table", MAIN)), int(own.pop("protocol", BOOT))
    if scope < 0:
        scope = LINK_SCOPE if "via" not in own and family == socket.AF_INET else 0
    for name, value in own.items():
        if name == "via":
            family, address = _address(value)
            found += _attribute(5, address)
        elif name == "dev":
            found += _attribute(4, _u32(host.index(value)))
        elif name == "metric":
            found += _attribute(6, _u32(int(value)))
        else:
            raise Unknown
    if verb == "del":
        scope, protocol, kind = NO_SCOPE, 0, kind if kind != UNICAST else 0
    if table > MAIN or (family == socket.AF_INET6 and verb == "del"):
        raise Unknown
    head = struct.pack("=BBBBBBBBI", family, length, 0, 0, table, protocol, scope, kind, 0)
    return NEWROUTE + (verb == "del"), VERBS[verb], head + found


def _handle(text: str) -> int:
    major, minor = text.split(":")
    return int(major, 16) << 16 | int(minor or "0", 16)


def _number(text: str, units: dict[str, float]) -> float:
    unit = next(unit for unit in units if text.endswith(unit))
    return float(text.removesuffix(unit)) * units[unit]


def _qdisc(verb: str, words: list[str], host: Host) -> Message:
    place, *rest = words
    device, where, *rest = rest
    handle = 0
    if place != "dev":
        raise Unknown
    if where == "clsact":
        parent, handle, rest = CLSACT, CLSACT & 0xFFFF0000, [where, *rest]
    else:
        parent = ROOT if where == "root" else _handle(rest.pop(0))
    if rest[:1] == ["handle"]:
        handle, rest = _handle(rest[1]), rest[2:]
    head = struct.pack("=BxxxiIII", 0, host.index(device), handle, parent, 0)
    if verb == "del":
        if rest not in ([], ["clsact"]):
            raise Unknown
        return NEWQDISC + 1, 0, head
    kind, *options = rest
    about = b"" if kind == "clsact" and not options else _attribute(2, OPTIONS[kind](options))
    # `change` is a message that neither makes nor replaces a qdisc.
    flags = 0 if verb == "change" else VERBS[verb]
    return NEWQDISC, flags, head + _attribute(1, _text(kind)) + about


def _fifo(options: list[str]) -> bytes:
    name, limit = options
    if name != "limit":
        raise Unknown
    return _u32(int(limit))


def _tbf(options: list[str]) -> bytes:
    own = _pairs(options)
    rate = int(_number(own["rate"], BITS) / 8)
    if own.keys() != {"rate", "burst", "limit"} or rate > WHOLE:
        raise Unknown
    # struct tc_ratespec; with a link layer no table of it is used.
    spec = struct.pack("=BBHhHI", 3, ETHERNET, 0, -1, 0, rate)
    values = spec + bytes(12) + struct.pack("=III", int(own["limit"]), 0, 0)
    return _attribute(1, values) + _attribute(6, _u32(int(own["burst"])))


def _netem(options: list[str]) -> bytes:
    limit = delay_ns = 0
    loss, found, left = 0, b"", iter(options)
    for word in left:
        if word == "limit":
            limit = int(next(left))
        elif word == "delay":
            delay_ns = round(_number(next(left), SECOND_NS))
        elif word == "rate":
            rate = _number(next(left), BITS) / 8
            found += _attribute(6, struct.pack("=IiIi", int(rate), 0, 0, 0))
        elif word == "seed":
            found += _attribute(14, struct.pack("=Q", int(next(left))))
        elif word == "loss" and (model := next(left)) == "random":
            loss = _share(next(left))
        elif word == "loss" and model == "gemodel":
            both = struct.pack("=IIII", _share(next(left)), _share(next(left)), 0, 0)
            found += _attribute(5, _attribute(2, both))
        else:
            raise Unknown
    found += _attribute(10, struct.pack("=q", delay_ns))
    return struct.pack("=IIIIII", 0, limit, loss, 0, 0, 0) + found


def _share(text: str) -> int:
    return round(float(text.removesuffix("%")) / 100 * WHOLE)


def _filter(verb: str, words: list[str], host: Host) -> Message:
    place, device, hook, *rest = words
    *known, way, redirect, to, other = rest
    if [verb, place, *known, redirect, to] != ["add", "dev", *MIRRED, "redirect", "dev"]:
        raise Unknown
    head = struct.pack("=BxxxiIII", 0, host.index(device), 0, HOOKS[hook], ANY_PROTOCOL)
    values = struct.pack("=IIiiiiI", 0, 0, STOLEN, 0, 0, REDIRECT[way], host.index(other))
    action = _attribute(1, _text("mirred")) + _attribute(2, _attribute(2, values))
    about = _attribute(2, _attribute(2, _attribute(1, action)))
    return NEWTFILTER, VERBS[verb], head + _attribute(1, _text("matchall")) + about


MIRRED = ["matchall", "action", "mirred"]
OPTIONS: dict[str, Callable[[list[str]], bytes]] = {
    "bfifo": _fifo,
    "pfifo": _fifo,
    "tbf": _tbf,
    "netem": _netem,
}
READERS: dict[str, dict[str, Callable[[str, list[str], Host], Message]]] = {
    "ip": {"link": _link, "address": _addresses, "neighbour": _neighbour, "route": _route},
    "tc": {"qdisc": _qdisc, "filter": _filter},
}


def _counters() -> Iterator[dict[str, Any]]:
    """Yield the counters of each qdisc of the present host, as `tc` names them."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC) as kernel:
        kernel.send(struct.pack("=IHHII20x", 36, GETQDISC, REQUEST | DUMP, 1, 0))
        while True:
            answer, _ = kernel.recvfrom(BUFFER_BYTES)
            while answer:
                length, kind = struct.unpack_from("=IH", answer)
                if kind in (DONE, ERROR):
                    return
                yield _counter(answer[16:length])
                answer = answer[length + -length % 4 :]


def _counter(content: bytes) -> dict[str, Any]:
    index, handle = struct.unpack_from("=iI", content, 4)
    own = _read(content[20:])
    counted = _read(own[7])
    size, packets = struct.unpack_from("=QI", counted[1])
    length, backlog, drops, requeues, overlimits = struct.unpack("=5I", counted[3])
    return {
        "kind": own[1].rstrip(b"\0").decode(),
        "handle": f"{handle >> 16:x}:",
        "dev": socket.if_indextoname(index),
        "bytes": size,
        "packets": packets,
        "drops": drops,
        "overlimits": overlimits,
        "requeues": requeues,
        "backlog": backlog,
        "qlen": length,
    }


def _read(content: bytes) -> dict[int, bytes]:
    """Return attributes by their kinds."""
    found = {}
    while content:
        length, kind = struct.unpack_from("=HH", content)
        found[kind & 0x3FFF] = content[4:length]
        content = content[length + -length % 4 :]
    return found
