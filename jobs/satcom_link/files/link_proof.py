# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof that the link does what was target, before anyone uses it.

It measures rate, delay and loss of each direction.

UDP packets of our own go in where those of the network do (an ifb hands them to the ingress of
`arrives`), and are seen again when they leave by `leaves`: idle ones for the delay, back-to-back
full ones for the rate; netem counts losses. Their checksum is wrong, so the host that gets them
says nothing.
"""

from __future__ import annotations

import math
import socket
import struct
import sys
import syslog
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import collect_agent
from link_qdiscs import ETH_P_IP, Counters, Direction, attach_filter

from openbach_jobs import netem
from openbach_jobs.command import figures_are_wrong, run, undo

INJECTOR = "prove"
SEEN_PORT, UNSEEN_PORT = 9, 10  # discard and unassigned: nobody listens
FULL_BYTES, SMALL_BYTES = 1514, 60
HEADER_BYTES = 14
IDLE_PACKETS = 20
LOSS_PACKETS = 1000
MOST_FULL_PACKETS, MOST_IN_REAL_TIME = 50, 400
LONGEST_BURST_S = 1.0
AT_ONCE = 10
"""Most small packets sent back to back: fewer than any buffer of bytes for two full ones holds."""
LATE_S = 0.1
"""Time after which a packet counts as lost, from when it should have left."""
DELAY_TOLERANCE_MS = 1.0
RATE_TOLERANCE = 0.01
REAL_TIME_DELAY_MS, REAL_TIME_RATE = 2.0, 0.05
"""Additions to both tolerances for timers and the scheduler, where the bucket is one for real
time."""
MEASUREMENTS, MEASUREMENTS_OF_LOSSES = 5, 100
"""Most measurements of a link, and of one that should lose packets. In real time whatever else the
machine does may disturb one; a wrong link is wrong every time. Where no packet came through, the
next host may not be known yet (ARP takes a round trip of the link), or all of them were lost, which
is more likely the more the link should lose."""
UNSEEN = "not known: too few packets of the measurement came through"
DEVIATIONS = 6
"""Standard deviations of the loss and of the mean delay that count as chance."""

SO_TIMESTAMPNS = 35
ETH_P_ALL = 3
UDP = 17
WRONG_CHECKSUM = 1  # of hardly any packet the right one, and then only an ICMP message more


class Target(NamedTuple):
    """The properties that a direction should have when the run begins."""

    rate_bps: float
    delay_ms: float
    loss_pct: float
    jitter_ms: float
    burst_packets: float
    buffer_bytes: int
    buffer_packets: int | None = None
    """Packets of any size, where the queue counts packets."""
    bucket_bytes: int = netem.PACKET_BYTES
    """Bytes that tbf lets through at once."""
    loss_first: bool = False
    """True if packets are lost before the rate, and take none of it."""

    @property
    def in_real_time(self) -> bool:
        """Return whether the clock is a real one, which moves while packets are sent."""
        return self.bucket_bytes > netem.PACKET_BYTES


class Measured(NamedTuple):
    """The properties that were measured of a direction.

    None: could not be measured, as all packets for it were lost.
    """

    rate_bps: float | None
    delay_ms: float | None
    loss_pct: float


def prove(
    direction: Direction, target: Target, counted: Callable[[], Mapping[str, Counters]]
) -> None:
    """Measure one direction, and send its target and what was measured as a statistic.

    The job ends if they differ. `counted` gives the counters by direction. A link that loses every
    packet is not measured.
    """
    if target.loss_pct == 100:
        collect_agent.send_log(
            syslog.LOG_INFO, f"{direction.name}: loses every packet, not measured"
        )
        return
    measured, measurements = measure(direction, target, counted), 1
    while (wrong := differences(target, measured)) and measurements < most(target, measured):
        again, measurements = measure(direction, target, counted), measurements + 1
        rate_bps = measured.rate_bps if again.rate_bps is None else again.rate_bps
        delay_ms = measured.delay_ms if again.delay_ms is None else again.delay_ms
        measured = Measured(rate_bps, delay_ms, again.loss_pct)
    collect_agent.send_stat(
        collect_agent.now(),
        suffix=direction.name,
        asked_rate_bps=target.rate_bps,
        measured_rate_bps=measured.rate_bps,
        asked_delay_ms=target.delay_ms,
        measured_delay_ms=measured.delay_ms,
        asked_loss_pct=target.loss_pct,
        measured_loss_pct=measured.loss_pct,
        buffer_bytes=target.buffer_bytes,
        bucket_bytes=target.bucket_bytes,
        measurements=measurements,
    )
    if wrong:
        sys.exit(f"the {direction.name} direction does not do what was asked: {'; '.join(wrong)}")


def most(target: Target, measured: Measured) -> int:
    """Return how often a link is measured that gave these values, which are wrong, or none."""
    if None in measured:
        return MEASUREMENTS_OF_LOSSES if target.loss_pct else MEASUREMENTS
    return MEASUREMENTS if target.in_real_time else 1


def differences(target: Target, measured: Measured) -> list[str]:
    """Return in words how the measured link differs from what was target.

    What could not be measured does.
    """
    wrong = []
    spread_ms = DEVIATIONS * target.jitter_ms
    tolerance_ms = DELAY_TOLERANCE_MS + spread_ms + target.in_real_time * REAL_TIME_DELAY_MS
    if measured.delay_ms is None:
        wrong.append(f"delay {UNSEEN}")
    elif abs(measured.delay_ms - target.delay_ms) > tolerance_ms:
        wrong.append(f"delay {measured.delay_ms:.3f} ms instead of {target.delay_ms:g}")
    full, at_once = full_packets(target), packets_at_once(target)
    burst_ms = (full - 1) * FULL_BYTES * 8000 / target.rate_bps
    spare = (
        target.bucket_bytes / FULL_BYTES - 1
        if not at_once
        else at_once - 2 * (target.bucket_bytes // FULL_BYTES)
    )
    tolerance = (
        RATE_TOLERANCE
        + abs(spare) / (full - 1)
        + spread_ms / burst_ms
        + target.in_real_time * REAL_TIME_RATE
    )
    if measured.rate_bps is None:
        wrong.append(f"rate {UNSEEN}")
    elif abs(measured.rate_bps / target.rate_bps - 1) > tolerance:
        wrong.append(f"rate {measured.rate_bps:.0f} bit/s instead of {target.rate_bps:.0f}")
    if abs(measured.loss_pct - target.loss_pct) > 100 * loss_spread(target):
        wrong.append(f"loss {measured.loss_pct:.3f} % instead of {target.loss_pct:g}")
    return wrong


def loss_spread(target: Target) -> float:
    """Return how far the share of lost packets may be off by chance.

    Losses in bursts of n packets count like 1/(2n - 1) as many independent ones; and one burst more
    or less tells nothing.
    """
    share = target.loss_pct / 100
    alike = 2 * target.burst_packets - 1
    packets = LOSS_PACKETS if share else IDLE_PACKETS
    return (
        DEVIATIONS * math.sqrt(share * (1 - share) * alike / packets)
        + bool(share) * DEVIATIONS * alike / packets
    )


def full_packets(target: Target) -> int:
    """Return the number of full packets that fit into the buffer and pass in LONGEST_BURST_S."""
    fit = min(
        target.buffer_bytes // FULL_BYTES, int(target.rate_bps * LONGEST_BURST_S / (8 * FULL_BYTES))
    )
    return min(max(fit, 2), MOST_IN_REAL_TIME if target.in_real_time else MOST_FULL_PACKETS)


def packets_at_once(target: Target) -> int:
    """Return how many packets of a burst may leave without waiting; they are not looked at.

    It is 0 for a bucket of one packet. A larger bucket is filled again while the burst is being
    sent; what does not fit the buffer then is not sent.
    """
    bucket = target.bucket_bytes // FULL_BYTES
    if bucket <= 1:
        return 0
    return min(2 * bucket, target.buffer_bytes // FULL_BYTES + bucket - full_packets(target))


def measure(
    direction: Direction, target: Target, counted: Callable[[], Mapping[str, Counters]]
) -> Measured:
    """Send packets over one direction, and return its rate, delay and loss."""
    last_s = (target.delay_ms + DEVIATIONS * target.jitter_ms) / 1000 + LATE_S
    small_s = SMALL_BYTES * 8 / target.rate_bps
    # htb lets the second packet follow its first one by htb's burst too early.
    ahead = packets_at_once(target) or int(target.loss_first)
    full = full_packets(target) + ahead
    packets = LOSS_PACKETS if target.loss_pct else IDLE_PACKETS
    at_once = min(AT_ONCE, target.buffer_packets or AT_ONCE)
    before = counted()[direction.name]
    with _injector(direction) as send, _tap(direction.leaves) as tap:
        sent_ns = [
            send(number, SEEN_PORT, SMALL_BYTES, max(2 * small_s, 0.001))
            for number in range(IDLE_PACKETS)
        ]
        for number in range(packets - IDLE_PACKETS):
            send(
                number, UNSEEN_PORT, SMALL_BYTES, 0 if (number + 1) % at_once else at_once * small_s
            )
        idle = _seen(tap, IDLE_PACKETS, last_s)
        between = counted()[direction.name]
        for number in range(full):
            send(number, SEEN_PORT, FULL_BYTES, 0)
        burst = _seen(tap, full, last_s + full * FULL_BYTES * 8 / target.rate_bps)
        dropped = counted()[direction.name].dropped_packets - between.dropped_packets
    lost = between.lost_packets - before.lost_packets
    delays_ms = [(left_ns - sent_ns[number]) / 1e6 for number, left_ns in idle.items()]
    delay_ms = sum(delays_ms) / len(delays_ms) if delays_ms else None
    waited = {number: left for number, left in burst.items() if number >= ahead}
    if target.loss_first and waited:
        dropped = max(waited) - min(waited) - len(waited) + 1
    return Measured(_rate_bps(waited, dropped), delay_ms, 100 * lost / packets)


def _rate_bps(left_ns: dict[int, int], dropped: int) -> float | None:
    """Return the rate of a burst in bit/s, from the times at which its packets left.

    Packets that were lost at random took their time before, so they count; those that the queue
    dropped do not.
    """
    if len(left_ns) < 2:
        return None
    first, last = min(left_ns), max(left_ns)
    return (last - first - dropped) * FULL_BYTES * 8e9 / (left_ns[last] - left_ns[first])


def _seen(tap: socket.socket, count: int, limit_s: float) -> dict[int, int]:
    """Return when each packet left, in ns, by its number.

    The packets are those up to the last one, or until none comes any more.
    """
    left_ns: dict[int, int] = {}
    end_s = time.monotonic() + limit_s
    while count - 1 not in left_ns and (remaining_s := end_s - time.monotonic()) > 0:
        tap.settimeout(remaining_s)
        try:
            packet, ancillary, _, _ = tap.recvmsg(64, 64)
        except TimeoutError:
            break
        seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
        left_ns[struct.unpack_from("!I", packet, 28)[0]] = seconds * 10**9 + nanoseconds
    return left_ns


def send_one(direction: Direction) -> int:
    """Send a small packet; return its length in bytes, without the link layer's header."""
    with _injector(direction) as send:
        send(0, UNSEEN_PORT, SMALL_BYTES, 0)
    return SMALL_BYTES - HEADER_BYTES


@contextmanager
def _tap(interface: str) -> Iterator[socket.socket]:
    """Return a socket that sees the packets to SEEN_PORT that leave, with the time."""
    program = [
        (0x30, 0, 0, 9),
        (0x15, 0, 3, UDP),  # protocol
        (0x28, 0, 0, 22),
        (0x15, 0, 1, SEEN_PORT),  # destination port, behind a header without options
        (0x06, 0, 0, 64),
        (0x06, 0, 0, 0),
    ]
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM) as tap:
        attach_filter(tap, program)
        tap.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        tap.bind((interface, ETH_P_ALL))
        yield tap


@contextmanager
def _injector(direction: Direction) -> Iterator[Callable[[int, int, int, float], int]]:
    """Return a function that sends a packet `number` of a size to a port, and then pauses.

    It returns the time of sending in ns.
    """
    ends = [_beyond(interface) for interface in (direction.arrives, direction.leaves)]
    mac = Path(f"/sys/class/net/{direction.arrives}/address").read_text().strip()
    run("ip", lines=[f"link add {INJECTOR} type ifb", f"link set {INJECTOR} up"])
    try:
        run(
            "tc",
            lines=[
                f"qdisc add dev {INJECTOR} clsact",
                f"filter add dev {INJECTOR} egress matchall action mirred ingress redirect dev"
                f" {direction.arrives}",
            ],
        )
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as injector:
            injector.bind((INJECTOR, ETH_P_IP))

            def send(number: int, port: int, size: int, pause_s: float) -> int:
                frame = bytes.fromhex(mac.replace(":", "")) * 2 + struct.pack("!H", ETH_P_IP)
                now_ns = time.time_ns()
                injector.send(frame + _packet(number, port, size - len(frame), ends))
                if pause_s:
                    time.sleep(pause_s)
                return now_ns

            yield send
    finally:
        undo("ip", lines=[f"link del {INJECTOR}"])


def _packet(number: int, port: int, size: int, ends: list[str]) -> bytes:
    """Return a packet of IPv4 and UDP with a wrong checksum; the data begins with the number."""
    source, destination = map(socket.inet_aton, ends)
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, UDP, 0, source, destination)
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + header[12:]
    data = struct.pack("!I", number).ljust(size - 28, b"\0")
    return header + struct.pack("!HHHH", port, port, size - 20, WRONG_CHECKSUM) + data


def _beyond(interface: str) -> str:
    """Return the address of the host at the other end.

    It is from the kernel's tables: a start of `ip` costs as much as the measurement.
    """
    address = beyond(
        interface,
        Path("/proc/thread-self/net/route").read_text(),
        Path("/proc/thread-self/net/arp").read_text(),
    )
    if not address:
        sys.exit(
            f"{interface}: no route over it has a gateway, and it has no neighbour: the link cannot"
            " be measured"
        )
    return address


def beyond(interface: str, routes: str, neighbours: str) -> str | None:
    """Return a gateway of a route over the interface, otherwise a neighbour.

    The tables are those of /proc/net/route and arp.
    """
    known = [
        words[0] for words in map(str.split, neighbours.splitlines()) if words[-1] == interface
    ]
    return next(iter(gateways(interface, routes) + known), None)


def gateways(interface: str, routes: str) -> list[str]:
    """Return the addresses of the gateways of routes over the interface, each once.

    The routes are as /proc/net/route has them.
    """
    vias = [words[2] for words in map(str.split, routes.splitlines()) if words[0] == interface]
    # Without a gateway it is 0.
    numbers = filter(None, (int(via, 16) for via in vias))
    return [*dict.fromkeys(socket.inet_ntoa(struct.pack("=I", number)) for number in numbers)]


# The links whose qdiscs are modules of ours: dama_qdisc.py, dvbs2_qdisc.py


class ClassCounters(NamedTuple):
    """The counters of a class of a terminal."""

    packets_in: int
    bytes_in: int
    packets_out: int
    bytes_out: int
    packets_dropped: int
    bytes_dropped: int
    packets_lost: int
    bytes_lost: int
    packets_queued: int
    bytes_queued: int
    median_us: int
    p95_us: int

    def check(self, link: str, called: str) -> None:
        """End the job if bytes or packets were lost or made: in = out + dropped + lost + queued."""
        packets = self.packets_out + self.packets_dropped + self.packets_lost + self.packets_queued
        length = self.bytes_out + self.bytes_dropped + self.bytes_lost + self.bytes_queued
        if (self.packets_in, self.bytes_in) != (packets, length):
            figures_are_wrong(f"{called}: the counters of the {link} do not add up: {self}")
