# SPDX-License-Identifier: GPL-3.0-or-later
"""Test job: connections that a proxy may lose bytes of, and what came of them.

`hostile.py server` listens. `hostile.py client ADDRESS NUMBER IDLE` makes NUMBER connections of each way in
turn and IDLE ones that say nothing for a minute, and sends for each way how many went well. A
connection begins with a byte that says which way it goes.
"""

from __future__ import annotations

import random
import resource
import selectors
import socket
import struct
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import collect_agent

PORT, CLOSED_PORT = 9000, 9001
PATTERN = bytes(range(251)) * 1000
RESET = struct.pack("ii", 1, 0)
AT_A_TIME = 40
LIMIT_S = 600.0
IDLE_S = 60
DESCRIPTORS = 30_000


def part(start: int, length: int) -> bytes:
    """Bytes of which each is known from its place."""
    at = start % len(PATTERN)
    return (PATTERN * (2 + length // len(PATTERN)))[at : at + length]


def received(end: socket.socket, pause_s: float = 0.0) -> int:
    """The number of bytes until the end; -1 if one of them is another than was sent there."""
    count = 0
    while data := end.recv(1000 if pause_s and count < 20_000 else 1 << 16):
        if data != part(count, len(data)):
            return -1
        count += len(data)
        if pause_s and count < 20_000:
            time.sleep(pause_s)  # a reader who takes little at a time
    return count


def is_reset(end: socket.socket) -> bool:
    """Whether the other end resets this connection, rather than ending it well."""
    try:
        while end.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    return False


def exactly(end: socket.socket, length: int) -> bytes:
    """So many bytes, or what comes before the end."""
    data = b""
    while len(data) < length and (more := end.recv(length - len(data))):
        data += more
    return data


def told(end: socket.socket) -> int:
    (number,) = struct.unpack("!q", exactly(end, 8))
    return int(number)


# Each way: what the client does, whether all was well; and what the server does.


def half_closed(end: socket.socket, chance: random.Random) -> bool:
    """Both directions one after the other, each ended before the other one begins."""
    size = chance.choice((0, 1, 1000, 70_000, 200_000))
    end.sendall(part(0, size))
    end.shutdown(socket.SHUT_WR)
    return told(end) == size and received(end) == size


def half_closed_server(end: socket.socket) -> None:
    count = received(end)
    end.sendall(struct.pack("!q", count))
    end.sendall(part(0, count))


def slow(end: socket.socket, chance: random.Random) -> bool:
    return received(end, 0.5) == 100_000


def slow_server(end: socket.socket) -> None:
    end.sendall(part(0, 100_000))


def urgent(end: socket.socket, chance: random.Random) -> bool:
    """A byte that is sent as urgent, between others: none may be missing."""
    end.sendall(part(0, 1000))
    end.send(part(1000, 1), socket.MSG_OOB)
    end.sendall(part(1001, 5000))
    end.shutdown(socket.SHUT_WR)
    return told(end) == 6001


def urgent_server(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    end.sendall(struct.pack("!q", received(end)))


def reset_by_client(end: socket.socket, chance: random.Random) -> bool:
    """A reset after some bytes; what the server sees of it, it tells in another connection."""
    end.sendall(part(0, chance.randrange(1, 5000)))
    end.recv(1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    return True


def reset_by_client_server(end: socket.socket) -> None:
    end.sendall(b"!")
    SEEN["reset" if is_reset(end) else "no reset"] += 1


def reset_after_end(end: socket.socket, chance: random.Random) -> bool:
    """A reset of a connection that this end had ended already, while the other one is silent."""
    end.shutdown(socket.SHUT_WR)
    end.recv(1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    return True


def reset_after_end_server(end: socket.socket) -> None:
    received(end)
    end.sendall(b"!")
    end.settimeout(60)
    poll = selectors.DefaultSelector()
    poll.register(end, selectors.EVENT_READ)
    began_s = time.monotonic()
    while time.monotonic() - began_s < 60:
        poll.select(1)
        if end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            SEEN["reset"] += 1
            return
        time.sleep(0.1)
    SEEN["no reset"] += 1


def reset_by_server(end: socket.socket, chance: random.Random) -> bool:
    """Bytes, then a reset: the bytes have been read, the reset must follow."""
    got = exactly(end, 3000)
    end.sendall(b"!")
    return got == part(0, 3000) and is_reset(end)


def reset_by_server_server(end: socket.socket) -> None:
    end.sendall(part(0, 3000))
    end.recv(1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


WAYS = [
    (half_closed, half_closed_server),
    (slow, slow_server),
    (urgent, urgent_server),
    (reset_by_client, reset_by_client_server),
    (reset_after_end, reset_after_end_server),
    (reset_by_server, reset_by_server_server),
]
IDLE, REPORT = b"i", b"r"
SEEN: Counter[str] = Counter()


def serve() -> None:
    """Serves for ever; connections that are idle are this thread's, the others have their own."""
    listener = socket.create_server(("", PORT), backlog=4096)
    poll = selectors.DefaultSelector()
    poll.register(listener, selectors.EVENT_READ, "new")
    with ThreadPoolExecutor(4 * AT_A_TIME) as threads:
        while True:
            for key, _ in poll.select():
                end: socket.socket = key.fileobj  # type: ignore[assignment]
                if key.data == "new":
                    accepted, _ = end.accept()
                    poll.register(accepted, selectors.EVENT_READ, "first")
                    continue
                byte = end.recv(1)
                if byte == IDLE and key.data == "first":
                    poll.modify(end, selectors.EVENT_READ, "idle")
                elif key.data == "idle" and byte:
                    end.sendall(byte)
                else:
                    poll.unregister(end)
                    threads.submit(answer, end, byte)


def answer(end: socket.socket, way: bytes) -> None:
    with end:
        if way == REPORT:
            end.sendall(struct.pack("!qq", SEEN["reset"], SEEN["no reset"]))
        elif way:
            WAYS[way[0]][1](end)


def connected(address: str, way: bytes) -> socket.socket:
    end = socket.create_connection((address, PORT), timeout=LIMIT_S)
    end.sendall(way)
    return end


def one(address: str, number: int) -> tuple[str, str]:
    at = number % len(WAYS)
    try:
        with connected(address, bytes([at])) as end:
            well = WAYS[at][0](end, random.Random(number))
    except OSError as error:
        return WAYS[at][0].__name__, str(error)
    return WAYS[at][0].__name__, "well" if well else "wrong"


def refused(address: str) -> bool:
    """Whether a connection to where nobody listens ends with a reset, or is not made at all."""
    try:
        with socket.create_connection((address, CLOSED_PORT), timeout=LIMIT_S) as end:
            return is_reset(end)
    except ConnectionRefusedError:
        return True


def idle(address: str, number: int) -> int:
    """How many of so many connections still carry a byte there and back after a minute of silence."""
    ends = [connected(address, IDLE) for _ in range(number)]
    time.sleep(IDLE_S)
    for end in ends:
        end.sendall(b"?")
    answered = sum(end.recv(1) == b"?" for end in ends)
    # The kernel resets connections that are closed, too many at once, before the other end knows.
    for end in ends:
        end.shutdown(socket.SHUT_WR)
    for end in ends:
        end.recv(1)
        end.close()
    return answered


def main(address: str, number: int, idle_number: int) -> None:
    done: Counter[str] = Counter()
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        for way, outcome in threads.map(lambda at: one(address, at), range(number)):
            done[f"{way}: {outcome}"] += 1
    done[f"refused: {'well' if refused(address) else 'wrong'}"] += 1
    answered = idle(address, idle_number)
    with connected(address, REPORT) as end:
        resets, others = struct.unpack("!qq", exactly(end, 16))
    collect_agent.send_stat(
        collect_agent.now(),
        outcomes=", ".join(f"{name} {count}" for name, count in sorted(done.items())),
        resets_seen=resets,
        resets_not_seen=others,
        idle_answered=answered,
    )


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    if sys.argv[1] == "server":
        serve()
    with collect_agent.use_configuration(
        "/opt/openbach/agent/jobs/hostile/hostile_rstats_filter.conf"
    ):
        main(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
