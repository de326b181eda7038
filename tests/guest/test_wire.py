# SPDX-License-Identifier: GPL-3.0-or-later
"""A host knows of a packet what a wire carries, although all hosts are one kernel.

The packets of a tunnel get the same from a queue, whoever encrypts them: fq_codel and cake saw the
flows inside WireGuard and IPsec of the kernel, by the hash that the sender's kernel had noted.
"""

from __future__ import annotations

import struct

import pytest
from helpers import pcapng
from helpers.guest_runs import RunCells, command

TUNNELS = ("wireguard", "wireguard_go", "strongswan_udp", "openvpn_udp")
CLASSES = "tc -s class show dev q_return | grep -c ' parent 10:'"
SEEN = {
    "fq_codel": CLASSES,
    "cake": CLASSES,
    "fq": "tc -s qdisc show dev q_return | sed -n 's/^ *flows \\([0-9]*\\) .*/\\1/p'",
}
"""What tells how many flows a queue on `sat` has; fq has no classes."""
FQ = "tc qdisc del dev q_return parent 1:1; tc qdisc add dev q_return parent 1:1 handle 10: fq"
UPLOADS = (
    *("server", "iperf3 -s -p 5001 > one &", "server", "iperf3 -s -p 5002 > two &"),
    *("pc", "sleep 1; iperf3 -c server -p 5001 -t 10 > one &"),
    *("pc", "sleep 1; iperf3 -c server -p 5002 -t 10 > two &"),
)


DISCARD = b"\0\x09"
"""Port of what the link sends to prove itself, with a wrong checksum so that no host takes it."""


def flows(vpn: str, queue: str) -> int:
    """How many flows the queue before the return link has while two uploads fill it."""
    replaced = ("sat", FQ) if queue == "fq" else ()
    link = "fifo" if queue == "fq" else queue
    words = ("exec", "geo", f"vpn={vpn}", "cc=cubic", "loss=0", f"queue={link}", "--", *replaced)
    done = command(*words, *UPLOADS, "sat", f"sleep 8; {SEEN[queue]}")
    assert done.stdout.strip().isdecimal(), done.stdout + done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("queue", SEEN)
def test_a_queue_sees_one_flow_in_a_tunnel(queue: str) -> None:
    assert {vpn: flows(vpn, queue) for vpn in TUNNELS} == dict.fromkeys(TUNNELS, 1)
    assert flows("none", queue) >= 2


@pytest.mark.parametrize("queue", ["fq_codel", "cake"])
def test_a_call_beside_an_upload_is_the_same_in_each_tunnel(
    queue: str, run_cells: RunCells
) -> None:
    runs = run_cells(
        *("voip", f"vpn={','.join(TUNNELS)}", f"queue={queue}", "background=upload", "pep=none"),
        *("loss=0", "duration_s=10", "cc=cubic"),
    )
    delays = [float(run.row["to_server_delay_p95_ms"]) for run in runs]
    assert delays == pytest.approx([delays[0]] * len(TUNNELS), rel=0.05)


def is_right(packet: bytes) -> bool:
    """Whether the checksum of an IPv4 packet's TCP or UDP is right, or it has none."""
    protocol, fragment = packet[9], struct.unpack_from("!H", packet, 6)[0] & 0x3FFF
    segment = packet[4 * (packet[0] & 15) : struct.unpack_from("!H", packet, 2)[0]]
    if packet[0] >> 4 != 4 or protocol not in (6, 17) or fragment:
        return True
    if protocol == 17 and (segment[6:8] == bytes(2) or segment[:2] == DISCARD):
        return True
    pseudo = packet[12:20] + struct.pack("!HH", protocol, len(segment)) + segment
    pseudo += bytes(len(pseudo) % 2)
    total: int = sum(struct.unpack(f"!{len(pseudo) // 2}H", pseudo))
    return total % 0xFFFF == 0


def test_every_checksum_on_a_wire_is_right(run_cells: RunCells) -> None:
    cells = ("vpn=none,wireguard,openvpn_tcp", "cc=cubic", "size=100k", "loss=0")
    for run in run_cells("geo", *cells, pcap=True):
        packets = [one for one in pcapng.read(run.capture) if one.ip]
        assert {one.interface for one in packets if not is_right(one.ip)} == set(), run.row["vpn"]
