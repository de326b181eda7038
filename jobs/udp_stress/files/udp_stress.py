# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job udp_stress: UDP at a given rate from the client to the server, and the path's MTU.

iperf3 sends and measures.

Without a payload of its own iperf3 takes what a segment of its TCP connection for control may have.
What arrived is what the server has counted; what was sent and did not arrive is lost, the last
packets too.
"""

from __future__ import annotations

import argparse
from typing import Any

import collect_agent
import path_mtu

from openbach_jobs import ends, iperf3_test, limits, netem

CONFIGURATION = "/opt/openbach/agent/jobs/udp_stress/udp_stress_rstats_filter.conf"
LEAST_BPS, MOST_BPS = 1e3, 100e9
SLOW_BPS, SLOW_TIMER_US = 200e3, 20_000
"""iperf3 looks every ms whether a packet is due. Where one is due every 50 ms, that costs more than
the packets."""
LIMITS = {"port": (1, 65535), "duration_s": (1, 86400), "payload_bytes": (0, 65507)}


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser, _, client = ends.command_line(__doc__)
    parser.add_argument("--port", type=int, default=iperf3_test.PORT)
    client.add_argument("rate", help="bit/s of payload; k, M and G are decimal")
    client.add_argument("--duration-s", type=int, default=30)
    client.add_argument(
        "--payload-bytes", type=int, default=0, help="of a packet; 0: what iperf3 takes"
    )
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    if arguments.mode == "client":
        try:
            arguments.rate = netem.number(
                arguments.rate, LEAST_BPS, MOST_BPS, "a rate from 1k to 100G bit/s"
            )
        except ValueError as error:
            parser.error(str(error))
    if arguments.mode == "client" and 0 < arguments.payload_bytes < 16:
        parser.error(
            f"payload_bytes is {arguments.payload_bytes}: 0, or from 16, which iperf3 needs for"
            " its own"
        )
    return arguments


def measured(report: dict[str, Any]) -> dict[str, Any]:
    """Return the statistics of a test."""
    sent, received = report["end"]["sum_sent"], report["end"]["sum_received"]
    payload_bytes = report["start"]["test_start"]["blksize"]
    arrived = received["packets"] - received["lost_packets"]
    return {
        "offered_bps": sent["bytes"] * 8 / sent["seconds"],
        "received_bps": arrived * payload_bytes * 8 / received["seconds"],
        "sent_packets": sent["packets"],
        "received_packets": arrived,
        "loss_pct": 100 * (sent["packets"] - arrived) / sent["packets"],
        "jitter_ms": received["jitter_ms"],
        "out_of_order_packets": report["end"]["streams"][0]["udp"]["out_of_order"],
        "payload_bytes": payload_bytes,
    }


def measure(arguments: argparse.Namespace) -> None:
    """Find the path's MTU, run iperf3's client, and send what was measured."""
    words = ["-u", "-b", f"{arguments.rate:.0f}", "-i", "0"]
    if arguments.rate <= SLOW_BPS:
        words += ["--pacing-timer", str(SLOW_TIMER_US)]
    if arguments.payload_bytes:
        words += ["-l", str(arguments.payload_bytes)]
    tested = iperf3_test.client(
        arguments.server_ip, arguments.port, *words, duration_s=arguments.duration_s
    )
    mtu = path_mtu.path_mtu(arguments.server_ip)
    collect_agent.send_stat(
        collect_agent.now(),
        attempts=tested.attempts,
        path_mtu_bytes=mtu,
        largest_payload_bytes=mtu and mtu - path_mtu.HEADERS_BYTES,
        **measured(tested.report),
    )


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        ends.run("udp_stress", parse(), lambda server: iperf3_test.serve(server.port), measure)
