# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job tcp_throughput: how much TCP carries between two hosts in a given time.

It is measured by iperf3.

The client sends (`upload`), receives (`download`), or does both at the same time over connections
of their own (`both`). Bytes are those that the receiver has counted. A transfer of a size is the
job file_transfer's.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import collect_agent

from openbach_jobs import ends, iperf3_test, limits
from openbach_jobs.command import TIMESTAMPS_BYTES

CONFIGURATION = "/opt/openbach/agent/jobs/tcp_throughput/tcp_throughput_rstats_filter.conf"
LIMITS = {"port": (1, 65535), "duration_s": (1, 86400), "streams": (1, 128)}
OPTIONS = {"upload": [], "download": ["-R"], "both": ["--bidir"]}
TIMESTAMPS = "/proc/sys/net/ipv4/tcp_timestamps"
REVERSE = "_bidir_reverse"
"""End of the names of the other direction's sums in iperf3's report, if there are both."""


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser, _, client = ends.command_line(__doc__)
    parser.add_argument("--port", type=int, default=iperf3_test.PORT)
    client.add_argument("--direction", choices=list(OPTIONS), default="upload")
    client.add_argument("--duration-s", type=int, default=30)
    client.add_argument("--streams", type=int, default=1, help="connections in each direction")
    client.add_argument(
        "--interval-s",
        type=float,
        default=0.0,
        help="of the series of interval_goodput_bps (0: none)",
    )
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    interval_s = getattr(arguments, "interval_s", 0)  # the server has none
    if interval_s and not 0.1 <= interval_s <= 60:
        parser.error(f"interval_s is {interval_s:g}: 0, or from 0.1 to 60 s, which iperf3 can")
    return arguments


def directions(direction: str) -> dict[str | None, str]:
    """Return the suffix of each direction's statistics → what iperf3 adds to its sums' names.

    There is no suffix where there is one direction only.
    """
    return {"to_server": "", "to_client": REVERSE} if direction == "both" else {None: ""}


def measured(report: dict[str, Any], added: str) -> dict[str, Any]:
    """Return the statistics of a direction.

    The sender's window and round-trip time are known where the client is the sender.
    """
    end = report["end"]
    sent, received = end[f"sum_sent{added}"], end[f"sum_received{added}"]
    senders = [stream["sender"] for stream in end["streams"]]
    senders = [sender for sender in senders if sender["sender"] is sent["sender"]]
    windows = [sender["max_snd_cwnd"] for sender in senders if sender.get("max_snd_cwnd")]
    rtts_us = [sender["mean_rtt"] for sender in senders if sender.get("mean_rtt")]
    return {
        "goodput_bps": received["bytes"] * 8 / received["seconds"],
        "received_bytes": received["bytes"],
        "sent_bytes": sent["bytes"],
        "retransmits": sent["retransmits"],
        "max_window_bytes": sum(windows) if windows else None,
        "rtt_ms": sum(rtts_us) / len(rtts_us) / 1000 if rtts_us else None,
    }


def total(directions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums over both directions."""
    summed = ("goodput_bps", "received_bytes", "sent_bytes", "retransmits")
    sums = {}
    for name in summed:
        sums[name] = sum(statistics[name] for statistics in directions)
    return sums


def series(report: dict[str, Any], added: str) -> list[tuple[float, float, int]]:
    """Return begin and length in s, and bytes, of each interval, as the client counted.

    It counts what it sent if it is the sender.
    """
    name = added.removeprefix("_") if added else ""
    sums = [interval[f"sum_{name}" if name else "sum"] for interval in report["intervals"]]
    return [(total["start"], total["seconds"], total["bytes"]) for total in sums]


def longest_gap_s(intervals: Sequence[tuple[float, float, int]]) -> float:
    """Return the longest time without a byte, in whole intervals."""
    longest_s = 0.0
    for is_idle, group in groupby(intervals, lambda interval: interval[2] == 0):
        if is_idle:
            longest_s = max(longest_s, sum(lasts_s for _, lasts_s, _ in group))
    return longest_s


def mss_bytes(report: dict[str, Any]) -> int:
    """Return the segment size that iperf3's connection began with; iperf3 leaves options out."""
    setting = os.open(TIMESTAMPS, os.O_RDONLY)  # `open` would make calls that fail and take time
    has_timestamps = os.read(setting, 1) != b"0"
    os.close(setting)
    return int(report["start"]["tcp_mss_default"]) + TIMESTAMPS_BYTES * has_timestamps


def measure(arguments: argparse.Namespace) -> None:
    """Run iperf3's client, and send what it has measured."""
    words = [*OPTIONS[arguments.direction], "-P", str(arguments.streams)]
    words += ["-i", f"{arguments.interval_s:g}"]
    start_ms = collect_agent.now()
    tested = iperf3_test.client(
        arguments.server_ip, arguments.port, *words, duration_s=arguments.duration_s
    )
    by_direction = {
        added: measured(tested.report, added) for added in directions(arguments.direction).values()
    }
    if len(by_direction) > 1:
        collect_agent.send_stat(
            collect_agent.now(), attempts=tested.attempts, **total(list(by_direction.values()))
        )
    segment = mss_bytes(tested.report)
    for suffix, added in directions(arguments.direction).items():
        statistics = {**by_direction[added], "mss_bytes": segment}
        if arguments.interval_s:
            intervals = series(tested.report, added)
            for begins_s, lasts_s, size in intervals:
                if lasts_s:
                    time_ms = start_ms + round((begins_s + lasts_s) * 1000)
                    collect_agent.send_stat(
                        time_ms, suffix=suffix, interval_goodput_bps=size * 8 / lasts_s
                    )
            statistics["longest_gap_s"] = longest_gap_s(intervals)
        attempts = None if suffix else tested.attempts
        collect_agent.send_stat(collect_agent.now(), suffix=suffix, attempts=attempts, **statistics)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        ends.run("tcp_throughput", parse(), lambda server: iperf3_test.serve(server.port), measure)
