# SPDX-License-Identifier: GPL-3.0-or-later
"""Work of `ip` and `tc`, done by netlink without starting them: a start costs 2 ms.

The lines are those that a person would type, and that the record keeps (commands.sh). Known are
those that the guest's network and jobs of ours have often; for any other the program is started.
Of `tc -s -j qdisc show` there are the counters, without options. Numbers are those of
linux/rtnetlink.h, if_link.h, pkt_sched.h and tc_act/tc_mirred.h. (pyroute2 takes 110 ms to import,
and 20 MB.)
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
REPLACE, EXCL, CREATE = 0x100, 0x200, 0x400
VERBS = {"add": CREATE | EXCL, "replace": CREATE | REPLACE, "change": REPLACE, "del": 0}
NEWLINK, NEWADDR, NEWROUTE, NEWNEIGH, NEWQDISC, NEWTFILTER = 16, 20, 24, 28, 36, 44
"""Numbers of the kernel's messages; the one that deletes has the next number."""
GETQDISC, DONE = 38, 3
UP = 1
TYPES = {"local": 2, "blackhole": 6, "unreachable": 7, "prohibit": 8}
"""Types of routes, beside UNICAST, by the word of `ip`."""
UNICAST, MAIN, BOOT, LINK_SCOPE, HOST_SCOPE, NO_SCOPE = 1, 254, 3, 253, 254, 255
PERMANENT, NO_DAD, ETHERNET = 0x80, 2, 1
ROOT, CLSACT, ANY_PROTOCOL = 0xFFFFFFFF, 0xFFFFFFF1, 0x0300
HOOKS = {"ingress": 0xFFFFFFF2, "egress": 0xFFFFFFF3}
REDIRECT, STOLEN = {"egress": 1, "ingress": 3}, 4
WHOLE = 0xFFFFFFFF
"""Number that means 100 % to netem."""
NS = {"us": 1e3, "ms": 1e6, "s": 1e9}
BITS = {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3, "bit": 1.0}
COUNTERS = ("tc", "-s", "-j", "qdisc", "show")
QUEUE = ("qlen", "backlog", "drops", "requeues", "overlimits")
"""Fields of struct gnet_stats_queue of linux/gen_stats.h."""
MIRRED = ["matchall", "action", "mirred"]
NAMESPACES = "/run/netns"
BUFFER_BYTES = 1 << 16

Message = tuple[int, int, bytes]
"""Message to the kernel: its kind, flags and content."""
Ended = subprocess.CompletedProcess[str]


class Unknown(Exception):
    """Raised for a line that only the program itself can do."""


def done(words: Sequence[str], text: str | None) -> Ended | None:
    """Do what a command does on the present host, and return how it ended.

    None, with nothing done, if the command has to be started. A line of a batch that only the
    program knows is done by it.
    """
    if tuple(words) == COUNTERS:
        return subprocess.CompletedProcess(words, 0, json.dumps([*_counters()]), "")
    program, *options = words
    if text is None:
        lines = [options]
    elif program in ("ip", "tc") and {"-batch", "-"} <= {*options} <= {"-batch", "-", "-force"}:
        # Most lines have no quotes, and shlex takes its time.
        split = shlex.split if "'" in text else str.split
        lines = [split(line) for line in text.splitlines()]
    else:
        return None
    errors: list[str] = []
    for number, line in enumerate(lines, 1):
        try:
            why = _done_by_kernel(program, line)
        except (Unknown, LookupError, ValueError, StopIteration):
            if text is None:
                return None
            ended = subprocess.run((program, *line), check=False, capture_output=True, text=True)
            why = ended.stderr.strip() or f"exit code {ended.returncode}"
            why *= bool(ended.returncode)
        if why:
            errors.append(f"{why}; line {number}: {' '.join(line)}")
            if "-force" not in options:
                break
    return subprocess.CompletedProcess(words, 2 if errors else 0, "", "\n".join(errors))


def _done_by_kernel(program: str, words: list[str]) -> str:
    """Do what a line says, and return why the kernel does not: "" if it does. Raises Unknown."""
    try:
        kind, flags, content = READERS[program, words[0]](words[1], words[2:])
        with _request(kind, flags | ACK, content) as kernel:
            error = -struct.unpack_from("=i", kernel.recv(BUFFER_BYTES), 16)[0]
        return f"RTNETLINK answers: {os.strerror(error)}" if error else ""
    except OSError as error:
        return str(error.strerror or error)
    finally:
        while _opened:
            os.close(_opened.pop())


def _request(kind: int, flags: int, content: bytes) -> socket.socket:
    """Return a socket on which the kernel answers a message."""
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC)
    kernel.send(struct.pack("=IHHII", 16 + len(content), kind, flags | REQUEST, 1, 0) + content)
    return kernel


def _attribute(kind: int, value: bytes | int | str) -> bytes:
    """Return an attribute: bytes as they are, a number of 32 bits, or a text with its end."""
    if isinstance(value, str):
        value = value.encode() + b"\0"
    elif isinstance(value, int):
        value = struct.pack("=I", value)
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _pairs(words: Iterable[str], alone: Sequence[str] = ()) -> dict[str, str]:
    """Return values by their names; words that stand alone have themselves."""
    left = iter(words)
    return {word: word if word in alone else next(left) for word in left}


def _address(text: str) -> tuple[int, bytes]:
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    return family, socket.inet_pton(family, text)


def _hardware(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _namespace(name: str) -> int:
    _opened.append(os.open(name if "/" in name else f"{NAMESPACES}/{name}", os.O_RDONLY))
    return _opened[-1]


_opened: list[int] = []
"""Network namespaces that the present line names."""
port = socket.if_nametoindex
PORT: dict[str, tuple[int, Callable[[str], bytes | int | str]]] = {
    "address": (1, _hardware), "name": (3, str), "mtu": (4, int), "master": (10, port),
    "alias": (20, str.encode), "netns": (28, _namespace),
}  # fmt: skip
"""Word of `ip link` → number of the attribute, and how its value is encoded."""


def _port(own: dict[str, str]) -> bytes:
    return b"".join(_attribute(PORT[name][0], PORT[name][1](own[name])) for name in own)


def _new_port(words: list[str]) -> bytes:
    return bytes(16) + _port(_pairs(words if words[0] == "name" else ["name", *words]))


def _link(verb: str, words: list[str]) -> Message:
    if verb == "add":
        place = words.index("type")
        kind, *data = words[place + 1 :]
        about = _attribute(1, kind)
        if [kind, *data[:1]] == ["veth", "peer"]:
            about += _attribute(2, _attribute(1, _new_port(data[1:])))
        elif data or kind not in ("ifb", "dummy"):
            raise Unknown
        return NEWLINK, VERBS[verb], _new_port(words[:place]) + _attribute(18, about)
    name, *rest = words[1:] if words[0] == "dev" else words
    own = _pairs(rest, ["up", "down"])
    up, down = own.pop("up", None), own.pop("down", None)
    if verb not in ("set", "del") or (verb == "del" and rest):
        raise Unknown
    head = struct.pack("=4xiII", port(name), UP * bool(up), UP * bool(up or down))
    return NEWLINK + (verb == "del"), 0, head + _port(own)


def _addresses(verb: str, words: list[str]) -> Message:
    own = _pairs(words[1:], ["nodad"])
    (text, prefix), device = words[0].split("/"), own.pop("dev")
    flags = NO_DAD if own.pop("nodad", None) else 0
    family, address = _address(text)
    attributes = _attribute(2, address) + _attribute(1, address)
    if own.pop("broadcast", None) == "+":
        last = int.from_bytes(address) | (1 << 32 - int(prefix)) - 1
        attributes += _attribute(4, last.to_bytes(4))
    if own or verb not in ("add", "del") or device == "lo":
        raise Unknown
    head = struct.pack("=BBBBI", family, int(prefix), flags, 0, port(device))
    return NEWADDR + (verb == "del"), VERBS[verb], head + attributes


def _neighbour(verb: str, words: list[str]) -> Message:
    to, *rest, way, device = words
    lladdr, hardware, *permanent = rest
    if [verb, lladdr, *permanent, way] != ["add", "lladdr", "nud", "permanent", "dev"]:
        raise Unknown
    family, address = _address(to)
    head = struct.pack("=BxxxiHBB", family, port(device), PERMANENT, 0, 0)
    return NEWNEIGH, VERBS[verb], head + _attribute(1, address) + _attribute(2, _hardware(hardware))


def _route(verb: str, words: list[str]) -> Message:
    kind = TYPES.get(words[0], 0)
    to, *rest = words[1:] if kind else words
    own, length, attributes = _pairs(rest), 0, b""
    family: int = socket.AF_INET
    if to != "default":
        text, _, prefix = to.partition("/")
        family, address = _address(text)
        length = int(prefix or 8 * len(address))
        attributes = _attribute(1, address) if length else b""
    scope = HOST_SCOPE if kind == TYPES["local"] else 0
    if not kind and "via" not in own and family == socket.AF_INET:
        scope = LINK_SCOPE
    table, protocol = int(own.pop("table", MAIN)), int(own.pop("protocol", BOOT))
    if "via" in own:
        family, address = _address(own.pop("via"))
        attributes += _attribute(5, address)
    if "dev" in own:
        attributes += _attribute(4, port(own.pop("dev")))
    if "metric" in own:
        attributes += _attribute(6, int(own.pop("metric")))
    is_deleted = verb == "del"
    if own or table > MAIN or (is_deleted and family == socket.AF_INET6):
        raise Unknown
    protocol, scope = (0, NO_SCOPE) if is_deleted else (protocol, scope)
    kind = kind or UNICAST * (not is_deleted)
    head = struct.pack("=BBBBBBBBI", family, length, 0, 0, table, protocol, scope, kind, 0)
    return NEWROUTE + is_deleted, VERBS[verb], head + attributes


def _handle(text: str) -> int:
    major, minor = text.split(":")
    return int(major, 16) << 16 | int(minor or "0", 16)


def _number(text: str, units: dict[str, float]) -> float:
    unit = next(unit for unit in (*units, text) if text.endswith(unit))
    return float(text.removesuffix(unit)) * units[unit]


def _qdisc(verb: str, words: list[str]) -> Message:
    place, device, *rest = words
    parent = {"root": ROOT, "clsact": CLSACT}.get(rest[0], 0) or _handle(rest.pop(1))
    handle = CLSACT & 0xFFFF0000 if rest[0] == "clsact" else 0
    if rest[0] != "clsact":
        rest = rest[1:]
    if rest[:1] == ["handle"]:
        handle, rest = _handle(rest[1]), rest[2:]
    if place != "dev" or (verb == "del" and rest not in ([], ["clsact"])):
        raise Unknown
    head = struct.pack("=BxxxiIII", 0, port(device), handle, parent, 0)
    if verb == "del":
        return NEWQDISC + 1, 0, head
    kind, *options = rest
    about = _attribute(1, kind) + (_attribute(2, OPTIONS[kind](options)) if options else b"")
    # `change` of tc is a message that neither makes nor replaces.
    return NEWQDISC, VERBS[verb] * (verb != "change"), head + about


def _fifo(options: list[str]) -> bytes:
    return struct.pack("=I", int(_pairs(options)["limit"]))


def _tbf(options: list[str]) -> bytes:
    own = _pairs(options)
    if own.keys() != {"rate", "burst", "limit"}:
        raise Unknown
    # struct tc_ratespec; with a link layer no table of it is used.
    rate = struct.pack("=BBHhHI", 3, ETHERNET, 0, -1, 0, int(_number(own["rate"], BITS) / 8))
    values = rate + bytes(12) + struct.pack("=I8x", int(own["limit"]))
    return _attribute(1, values) + _attribute(6, int(own["burst"]))


def _netem(options: list[str]) -> bytes:
    own = _pairs(word for word in options if word != "random")
    if own.keys() - {"limit", "loss", "delay", "rate", "seed"}:
        raise Unknown
    loss = round(float(own.get("loss", "0%").removesuffix("%")) / 100 * WHOLE)
    encoded = struct.pack("=4xIIII4x", int(own.get("limit", 1000)), loss, 0, 0)
    encoded += _attribute(10, struct.pack("=q", round(_number(own.get("delay", "0s"), NS))))
    if "rate" in own:
        encoded += _attribute(6, struct.pack("=I12x", int(_number(own["rate"], BITS) / 8)))
    if "seed" in own:
        encoded += _attribute(14, struct.pack("=Q", int(own["seed"])))
    return encoded


def _filter(verb: str, words: list[str]) -> Message:
    place, device, hook, *known, way, redirect, to, other = words
    if [verb, place, *known, redirect, to] != ["add", "dev", *MIRRED, "redirect", "dev"]:
        raise Unknown
    head = struct.pack("=BxxxiIII", 0, port(device), 0, HOOKS[hook], ANY_PROTOCOL)
    values = struct.pack("=8xi8xiI", STOLEN, REDIRECT[way], port(other))
    action = _attribute(1, "mirred") + _attribute(2, _attribute(2, values))
    about = _attribute(2, _attribute(2, _attribute(1, action)))
    return NEWTFILTER, VERBS[verb], head + _attribute(1, "matchall") + about


OPTIONS = {"bfifo": _fifo, "pfifo": _fifo, "tbf": _tbf, "netem": _netem}
READERS: dict[tuple[str, str], Callable[[str, list[str]], Message]] = {
    ("ip", "link"): _link, ("ip", "address"): _addresses, ("ip", "neighbour"): _neighbour,
    ("ip", "route"): _route, ("tc", "qdisc"): _qdisc, ("tc", "filter"): _filter,
}  # fmt: skip


def _counters() -> Iterator[dict[str, Any]]:
    """Yield the counters of each qdisc of the present host, as `tc` names them."""
    with _request(GETQDISC, DUMP, bytes(20)) as kernel:
        while True:
            for kind, content in _parts(kernel.recv(BUFFER_BYTES), "=IH", 16):
                if kind == DONE:
                    return
                index, handle = struct.unpack_from("=iI", content, 4)
                own = dict(_parts(content[20:], "=HH", 4))
                counted = dict(_parts(own[7], "=HH", 4))
                size, packets = struct.unpack_from("=QI", counted[1])
                yield {
                    "kind": own[1].rstrip(b"\0").decode(), "handle": f"{handle >> 16:x}:",
                    "dev": socket.if_indextoname(index), "bytes": size, "packets": packets,
                    **dict(zip(QUEUE, struct.unpack("=5I", counted[3]), strict=True)),
                }  # fmt: skip


def _parts(content: bytes, head: str, head_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield kind and content of messages, or of attributes."""
    while content:
        length, kind = struct.unpack_from(head, content)
        yield kind & 0x3FFF, content[head_bytes:length]
        content = content[length + -length % 4 :]
