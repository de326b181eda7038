# SPDX-License-Identifier: GPL-3.0-or-later
"""Random connects, transfers, half-closes, resets and stalls through satpep.

    make soak SECONDS=3600

What arrives is compared with what was sent; at the end nothing may be left: no connection, no
descriptor, no memory (ASan's leak detector looks when the program ends). The short form of it runs
with the tests.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import ROOT, SERVER, Lab, Satpep, until

THREADS = 8
PORT = 80
NOBODY_LISTENS = 81
PATTERN = bytes(range(251)) * 1000
RESET = struct.pack("ii", 1, 0)
SETTLED_AT = 0.2  # part of the time after which memory should grow no more


class Pairs:
    """Connections through the proxy, for any thread that asks.

    The server's end is found by the client's address.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.listener = lab.listen(port=PORT)
        self.listener.settimeout(None)
        self.accepted: dict[tuple[str, int], socket.socket] = {}
        self.changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            server, peer = self.listener.accept()
            server.settimeout(30)
            with self.changed:
                self.accepted[peer] = server
                self.changed.notify_all()

    def new(self) -> tuple[socket.socket, socket.socket]:
        """Return the client's and the server's end of a new connection."""
        client = self.lab.connect(port=PORT)
        client.settimeout(30)
        address = client.getsockname()
        with self.changed:
            assert self.changed.wait_for(lambda: address in self.accepted, 30), (
                f"{address} did not reach the server"
            )
            return client, self.accepted.pop(address)


def transfer(one: socket.socket, other: socket.socket, chance: random.Random) -> None:
    """One end sends and closes, the other gets every byte; then the other way round."""
    for sender, receiver in ((one, other), (other, one)):
        size = chance.choice((0, 1, 1000, 70_000, 700_000))
        sending = threading.Thread(target=send, args=(sender, size))
        sending.start()
        assert received(receiver) == size
        sending.join()


def send(end: socket.socket, size: int) -> None:
    """Send `size` bytes of the pattern, then a FIN."""
    for offset in range(0, size, len(PATTERN)):
        end.sendall(PATTERN[: size - offset])
    end.shutdown(socket.SHUT_WR)


def received(end: socket.socket) -> int:
    """Return the number of bytes until the FIN; each must be the one that was sent there."""
    count = 0
    while data := end.recv(1 << 16):
        # Each byte is known from its place, so data lost or doubled in between is found.
        start = count % len(PATTERN)
        assert (PATTERN * 2)[start : start + len(data)] == data, f"a wrong byte after {count}"
        count += len(data)
    return count


def stall_and_reset(one: socket.socket, other: socket.socket, chance: random.Random) -> None:
    """One end sends until nobody takes any more; then one of the two is reset."""
    # The time-out is how one notices that the buffers are full.
    one.settimeout(chance.uniform(0.01, 0.3))
    try:
        while True:
            one.send(PATTERN)
    except OSError:
        chance.choice((one, other)).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def reset_at_once(one: socket.socket, other: socket.socket, chance: random.Random) -> None:
    """Send a few bytes, and prepare one end, both or none at random to close with a reset."""
    one.sendall(PATTERN[: chance.randrange(1, 5000)])
    for end in (one, other):
        if chance.random() < 0.7:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def leave(one: socket.socket, other: socket.socket, chance: random.Random) -> None:
    """Leave a connection at random: half closed, or as it is."""
    if chance.random() < 0.5:
        one.shutdown(socket.SHUT_WR)


# Transfers three times as often: they last longest, so that others go on beside them.
WAYS = (transfer, transfer, transfer, stall_and_reset, reset_at_once, leave)


def work(lab: Lab, pairs: Pairs, end_s: float, seed: int) -> Counter[str]:
    """Do random things with connections until a time, and return how often each was done."""
    # A generator for each thread: the same seed does the same things, whichever thread is faster.
    chance, done = random.Random(seed), Counter[str]()
    while time.monotonic() < end_s:
        if chance.random() < 0.1:
            refused(lab)
            done["refused"] += 1
            continue
        ends = pairs.new()
        way = chance.choice(WAYS)
        one, other = chance.sample(ends, 2)
        way(one, other, chance)
        for end in ends:
            end.close()
        done[way.__name__] += 1
    return done


def refused(lab: Lab) -> None:
    """Raise AssertionError unless a port where nobody listens refuses a connection."""
    try:
        lab.connect(port=NOBODY_LISTENS).recv(1)
    except ConnectionResetError:
        return
    raise AssertionError(f"{SERVER[4]}:{NOBODY_LISTENS} answered")


def resident_kb(satpep: Satpep) -> int:
    """Return the resident memory of satpep in kB."""
    return int(satpep.status("VmRSS").split()[0])


def soak(lab: Lab, satpep: Satpep, seconds: float, seed: int) -> str:
    """Work for so long, and return what was done.

    Raises AssertionError for any byte, connection or descriptor amiss.
    """
    before = satpep.descriptors()
    pairs = Pairs(lab)
    start_s = time.monotonic()
    settled_kb = 0
    with ThreadPoolExecutor(THREADS) as threads:
        ends = [
            threads.submit(work, lab, pairs, start_s + seconds, seed * 1000 + number)
            for number in range(THREADS)
        ]
        until(lambda: time.monotonic() > start_s + SETTLED_AT * seconds, "the first part", seconds)
        settled_kb = resident_kb(satpep)
        done = sum((end.result() for end in ends), Counter[str]())
    until(lambda: satpep.totals()["open"] == 0, "the end of all connections", 90)
    kept = satpep.descriptors() - before
    assert kept % 2 == 0, "a descriptor that is half of no pipe is left"
    assert kept <= 4 * THREADS, f"{kept} descriptors are left"
    return (
        f"{sum(done.values())} connections in {seconds:g} s: {dict(done)}; resident {settled_kb} kB"
        f" after {SETTLED_AT:.0%} of the time, {resident_kb(satpep)} kB at the end; {kept // 2}"
        " pipes kept"
    )


def main() -> None:
    """Run the soak test of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seconds", type=float, nargs="?", default=3600.0)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    asked = parser.parse_args()
    os.environ["ASAN_OPTIONS"] = (
        "quarantine_size_mb=1"  # or memory that was freed would count as resident
    )
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(["make", "-s", "-C", ROOT / "pep", f"OUT={out}", "satpep-asan"], check=True)
        lab = Lab()
        satpep = Satpep(lab, Path(out) / "satpep-asan", Path(out) / "log")
        print(soak(lab, satpep, asked.seconds, asked.seed))
        exit_code, said = satpep.stop()
        lab.close()
    sys.exit(f"exit code {exit_code}: {said}" if exit_code else 0)


if __name__ == "__main__":
    main()
