# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements as they come: each format as its program writes it, whole and damaged."""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_jobs import link_file
from openbach_run.errors import InputError
from satlink import command as link
from satlink.formats import table
from satlink.measured import Measured, Options

ANSWERS: list[float | None] = [40.0, 41.5, None, 43.0, 60.0, 44.0]
"""Round-trip times in ms, a second apart; the third probe has no answer."""
LINUX = """\
PING h.example (192.0.2.1) 56(84) bytes of data.
{}
--- h.example ping statistics ---
{sent} packets transmitted, {received} received, 16.6667% packet loss, time {time}ms
rtt min/avg/max/mdev = 40.000/45.700/60.000/7.400 ms
"""
DARWIN = """\
PING h.example (192.0.2.1): 56 data bytes
{}

--- h.example ping statistics ---
{sent} packets transmitted, {received} packets received, 16.7% packet loss
round-trip min/avg/max/stddev = 40.0/45.7/60.0/7.4 ms
"""
WINDOWS = """\

Pinging h.example [192.0.2.1] with 32 bytes of data:
{}

Ping statistics for 192.0.2.1:
    Packets: Sent = {sent}, Received = {received}, Lost = 1 (16% loss),
Approximate round trip times in milli-seconds:
    Minimum = 40ms, Maximum = 60ms, Average = 45ms
"""
GERMAN = """\

Ping wird ausgeführt für h.example [192.0.2.1] mit 32 Bytes Daten:
{}

Ping-Statistik für 192.0.2.1:
    Pakete: Gesendet = {sent}, Empfangen = {received}, Verloren = 1
    (16% Verlust),
Ca. Zeitangaben in Millisek.:
    Minimum = 40ms, Maximum = 60ms, Mittelwert = 45ms
"""
FPING = """\
{}

h.example : xmt/rcv/%loss = {sent}/{received}/16%, min/avg/max = 40.0/45.7/60.0
"""


def of_lines(template: str, answered: Callable[[int, float], str], lost: str | None) -> str:
    """A text with a line for each of ANSWERS; `lost` has the number, None leaves the line out."""
    lines = []
    for number, rtt_ms in enumerate(ANSWERS):
        if rtt_ms is not None:
            lines.append(answered(number, rtt_ms))
        elif lost is not None:
            lines.append(lost.format(number))
    received = sum(one is not None for one in ANSWERS)
    return template.format(
        "\n".join(lines), sent=len(ANSWERS), received=received, time=1000 * (len(ANSWERS) - 1)
    )


def irtt() -> str:
    trips = []
    for number, rtt_ms in enumerate(ANSWERS):
        delay = {} if rtt_ms is None else {"rtt": int(rtt_ms * 1e6)}
        at = {"monotonic": number * 10**9, "wall": (1_700_000_000 + number) * 10**9}
        trips.append(
            {
                "lost": "true" if rtt_ms is None else "false",
                "delay": delay,
                "timestamps": {"client": {"send": at}},
            }
        )
    return json.dumps({"version": {}, "round_trips": trips}, indent=1)


def atlas() -> str:
    packets = [{"x": "*"} if rtt_ms is None else {"rtt": rtt_ms} for rtt_ms in ANSWERS]
    results = []
    for number in range(0, len(packets), 3):
        results.append(
            {
                "type": "ping",
                "prb_id": 7,
                "msm_id": 1001,
                "timestamp": 1_700_000_000 + number,
                "result": packets[number : number + 3],
            }
        )
    return json.dumps(results)


PROBED = {
    "linux": of_lines(
        LINUX, lambda n, ms: f"64 bytes from 192.0.2.1: icmp_seq={n + 1} ttl=55 time={ms} ms", None
    ),
    "linux-D": of_lines(
        LINUX,
        lambda n, ms: (
            f"[{1700000000 + n + ms / 1000:.6f}] 64 bytes from h.example (192.0.2.1):"
            f" icmp_seq={n + 1} ttl=55 time={ms} ms"
        ),
        "[1700000003.000000] no answer yet for icmp_seq=3",
    ),
    "linux-stamped": "Start time: 1700000000\n"
    + of_lines(
        LINUX,
        lambda n, ms: (
            f"[2024-01-31 12:00:{n + ms / 1000:09.6f}] 46 bytes from 192.0.2.1: icmp_seq={n + 1}"
            f" ttl=55 time={ms} ms"
        ),
        None,
    ),
    "busybox-ts": of_lines(
        DARWIN,
        lambda n, ms: (
            f"{1700000000 + n + ms / 1000:.6f} 64 bytes from 192.0.2.1: seq={n} ttl=55"
            f" time={ms:.3f} ms"
        ),
        None,
    ),
    "busybox": of_lines(
        DARWIN, lambda n, ms: f"64 bytes from 192.0.2.1: seq={n} ttl=55 time={ms:.3f} ms", None
    ),
    "macos": of_lines(
        DARWIN,
        lambda n, ms: f"64 bytes from 192.0.2.1: icmp_seq={n} ttl=55 time={ms:.3f} ms",
        "Request timeout for icmp_seq {}",
    ),
    "fping": of_lines(
        FPING,
        lambda n, ms: f"h.example : [{n}], 64 bytes, {ms:.1f} ms (45.0 avg, 16% loss)",
        "h.example : [{}], timed out (45.0 avg, 16% loss)",
    ),
    "fping-C": "h.example : 40.0 41.5 - 43.0 60.0 44.0\n",
    "irtt": irtt(),
    "atlas": atlas(),
    "csv": "time_s,rtt_ms\n0,40\n1,41.5\n2,\n3,43\n4,60\n5,44\n",
    "csv-unix": "timestamp,rtt\n"
    + "".join(
        f"{1700000000000 + 1000 * n},{'timeout' if ms is None else ms}\n"
        for n, ms in enumerate(ANSWERS)
    ),
    "csv-date": "date;rtt_ms\n"
    + "".join(
        f"2024-01-31 12:00:0{n};{'' if ms is None else str(ms).replace('.', ',')}\n"
        for n, ms in enumerate(ANSWERS)
    ),
}
"""Files of probes a second apart, with ANSWERS."""
WINDOWS_TEXTS = {
    "windows": of_lines(
        WINDOWS,
        lambda n, ms: f"Reply from 192.0.2.1: bytes=32 time={ms:.0f}ms TTL=55",
        "Request timed out.",
    ),
    "windows-unreachable": of_lines(
        WINDOWS,
        lambda n, ms: f"Reply from 192.0.2.1: bytes=32 time={ms:.0f}ms TTL=55",
        "Reply from 192.0.2.254: Destination host unreachable.",
    ),
    "german": of_lines(
        GERMAN,
        lambda n, ms: f"Antwort von 192.0.2.1: Bytes=32 Zeit={ms:.0f}ms TTL=55",
        "Zeitüberschreitung der Anforderung.",
    ),
}
IPERF3 = {
    "start": {"test_start": {"protocol": "UDP", "reverse": 1}, "timestamp": {"timesecs": 17}},
    "intervals": [
        {
            "sum": {
                "start": n,
                "end": n + 1,
                "bits_per_second": rate,
                "omitted": False,
                "lost_packets": 5 * n,
                "packets": 100,
            }
        }
        for n, rate in enumerate((10e6, 20e6, 5e6))
    ],
    "end": {},
}
DISH = {
    "apiVersion": "9",
    "dishGetHistory": {
        "current": "6",
        "popPingDropRate": [0, 0.5, 1, 0],
        "popPingLatencyMs": [44, 46, None, 42],
        "downlinkThroughputBps": [4e6, 5e6, 6e6, 3e6],
        "uplinkThroughputBps": [4e5, 5e5, 6e5, 3e5],
    },
}
FLENT = {
    "metadata": {"NAME": "rrul", "T0": "2024-01-31T12:00:00Z"},
    "x_values": [0.0, 0.2, 0.4],
    "results": {
        "Ping (ms) ICMP": [40.0, None, 44.0],
        "TCP download BE": [5.0, 6.0, 7.0],
        "TCP download BK": [1.0, 1.0, 1.0],
        "TCP download avg": [3.0, 3.5, 4.0],
        "TCP upload sum": [2.0, 2.0, 3.0],
    },
}
IPERF3_TEXT = """\
Connecting to host 192.0.2.1, port 5201
Reverse mode, remote host 192.0.2.1 is sending
[  5] local 192.0.2.9 port 40000 connected to 192.0.2.1 port 5201
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec  1.19 MBytes  10.0 Mbits/sec  0.008 ms  0/100 (0%)
[  5]   1.00-2.00   sec  2.38 MBytes  20.0 Mbits/sec  0.008 ms  5/100 (5%)
[  5]   2.00-3.00   sec   610 KBytes  5000 Kbits/sec  0.008 ms  10/100 (10%)
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-3.04   sec  4.17 MBytes  11.7 Mbits/sec  0.000 ms  0/300 (0%)  sender
[  5]   0.00-3.00   sec  4.17 MBytes  11.7 Mbits/sec  0.008 ms  15/300 (5%)  receiver

iperf Done.
"""
IPERF_TEXT = """\
------------------------------------------------------------
Client connecting to 192.0.2.1, TCP port 5001
TCP window size: 85.0 KByte (default)
------------------------------------------------------------
[  3] local 192.0.2.9 port 40000 connected with 192.0.2.1 port 5001
[  4] local 192.0.2.9 port 40002 connected with 192.0.2.1 port 5001
[ ID] Interval       Transfer     Bandwidth
[  3]  0.0- 1.0 sec   512 KBytes  4.00 Mbits/sec
[  4]  0.0- 1.0 sec   768 KBytes  6.00 Mbits/sec
[SUM]  0.0- 1.0 sec  1.25 MBytes  10.0 Mbits/sec
[  3]  1.0- 2.0 sec  1.25 MBytes  10.0 Mbits/sec
[  4]  1.0- 2.0 sec  1.25 MBytes  10.0 Mbits/sec
[SUM]  1.0- 2.0 sec  2.50 MBytes  20.0 Mbits/sec
[  3]  0.0- 2.0 sec  1.75 MBytes  7.0 Mbits/sec
[  4]  0.0- 2.0 sec  2.01 MBytes  8.0 Mbits/sec
[SUM]  0.0- 2.0 sec  3.75 MBytes  15.0 Mbits/sec
"""
NUTTCP_TEXT = """\
nuttcp-r: v8.1.4: socket
nuttcp-r: interval reporting every 0.50 seconds
    0.6250 MB /   0.50 sec =   10.4858 Mbps     0 retrans     13 KB-cwnd
    0.0000 MB /   0.50 sec =    0.0000 Mbps     0 retrans     13 KB-cwnd
    1.2500 MB /   0.50 sec =   20.9715 Mbps     2 retrans     13 KB-cwnd
    1.8750 MB /   1.52 sec =   10.3477 Mbps 0 %TX 1 %RX 2 retrans 13 KB-cwnd 40.11 msRTT
"""
OTHERS = {
    "iperf3-text": IPERF3_TEXT,
    "iperf3-stamped": "".join(
        f"[2024-01-31 12:00:00.000001] {line}\n" for line in IPERF3_TEXT.splitlines()
    ),
    "iperf": IPERF_TEXT,
    "nuttcp": NUTTCP_TEXT,
    "nuttcp-stamped": "".join(
        f"2024-01-31T12:00:00+01:00 {line}\n" for line in NUTTCP_TEXT.splitlines()
    ),
    "iperf3": json.dumps(IPERF3),
    "dish": json.dumps(DISH),
    "flent": json.dumps(FLENT),
    "mahimahi": "0\n1\n1\n3\n10\n",
    "delays": "12\n11\n12\n40\n",
    "opensand": "# delays\n0 10\n5 20\n",
    "one-way": "timestamp,rtt,uplink,downlink\n0,40,30,10\n1,50,35,15\n",
    "rates": "timestamp_start,download_mbps,upload_mbps\n2024-01-11 10:06:39,101,7\n"
    "2024-01-11 10:06:40,67,12\n",
}
ALL = {**PROBED, **WINDOWS_TEXTS, **OTHERS}


def read(folder: Path, text: str | bytes, **options: object) -> Measured:
    path = folder / "measured"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return table.read(path, Options(**options))  # type: ignore[arg-type]


def values(measured: Measured, quantity: str, direction: str) -> list[float]:
    found = [
        one
        for one in measured.series
        if one.quantity == quantity and one.direction in (direction, "both")
    ]
    assert len(found) == 1
    return [round(one, 6) for one in found[0].values.tolist()]


@pytest.mark.parametrize("name", PROBED)
def test_probes_are_those_that_were_sent(name: str, tmp_path: Path) -> None:
    probes = read(tmp_path, PROBED[name]).probes
    assert probes is not None
    rows = probes.rows()
    assert [None if one.lost else one.rtt_ms for one in rows] == ANSWERS
    assert [one.time_s for one in rows] == pytest.approx([0, 1, 2, 3, 4, 5], abs=1e-4)


@pytest.mark.parametrize("name", WINDOWS_TEXTS)
def test_windows_waits_for_what_is_lost_and_that_is_said(name: str, tmp_path: Path) -> None:
    measured = read(tmp_path, WINDOWS_TEXTS[name])
    assert measured.probes is not None
    assert [round(one.rtt_ms) for one in measured.probes.rows() if not one.lost] == [
        40,
        42,
        43,
        60,
        44,
    ]
    assert measured.probes.times_s.tolist() == [0, 1, 2, 6, 7, 8]
    assert "and 4 s after one that was lost" in " ".join(measured.assumed)
    given_s = read(tmp_path, WINDOWS_TEXTS[name], interval_s=2.0).probes
    assert given_s is not None and given_s.times_s.tolist() == [0, 2, 4, 6, 8, 10]


def test_iperf3_has_rates_and_the_losses_of_udp(tmp_path: Path) -> None:
    measured = read(tmp_path, OTHERS["iperf3"])
    assert values(measured, "rate_bps", "forward") == [10e6, 20e6, 5e6]
    assert values(measured, "loss_pct", "forward") == [0, 5, 10]
    assert (measured.end_s, measured.start_unix_s) == (3, 17)
    twice = read(tmp_path, OTHERS["iperf3"] * 2)
    assert values(twice, "rate_bps", "forward") == [10e6, 20e6, 5e6] * 2
    assert "2 runs of iperf3" in " ".join(twice.assumed)
    stream = [
        {"event": "start", "data": IPERF3["start"]},
        *({"event": "interval", "data": one} for one in IPERF3["intervals"]),
    ]
    lines = "\n".join(map(json.dumps, stream))
    assert values(read(tmp_path, lines), "rate_bps", "forward") == [10e6, 20e6, 5e6]


@pytest.mark.parametrize("name", ["iperf3-text", "iperf3-stamped"])
def test_the_text_of_iperf3_says_what_its_json_does(name: str, tmp_path: Path) -> None:
    measured = read(tmp_path, OTHERS[name])
    assert values(measured, "rate_bps", "forward") == [10e6, 20e6, 5e6]
    assert values(measured, "loss_pct", "forward") == [0, 5, 10]
    assert measured.end_s == 3
    assert "it is the queue's loss" in " ".join(measured.assumed)
    twice = read(tmp_path, OTHERS[name] * 2)
    assert values(twice, "rate_bps", "forward") == [10e6, 20e6, 5e6] * 2


def test_of_several_streams_their_sum_counts(tmp_path: Path) -> None:
    measured = read(tmp_path, IPERF_TEXT)
    assert values(measured, "rate_bps", "return") == [10e6, 20e6]
    assert measured.end_s == 2
    of_a_server = read(tmp_path, f"Server listening on TCP port 5001\n{IPERF_TEXT}")
    assert [one.direction for one in of_a_server.series] == ["both"]
    assert "on which side it ran is not known" in " ".join(of_a_server.assumed)


@pytest.mark.parametrize("name", ["nuttcp", "nuttcp-stamped"])
def test_nuttcp_has_a_rate_for_each_interval(name: str, tmp_path: Path) -> None:
    measured = read(tmp_path, OTHERS[name])
    assert values(measured, "rate_bps", "forward") == [10485800.0, 0.0, 20971500.0]
    assert measured.end_s == 1.5


def test_stamps_of_many_lines_at_once_are_left_out(tmp_path: Path) -> None:
    """A program that writes into a pipe may write its lines when some thousand bytes are there."""
    text = PROBED["linux"].replace("\n64", "\n[2024-01-31 12:00:00.000001] 64")
    measured = read(tmp_path, text)
    assert measured.probes is not None
    assert measured.probes.times_s.tolist() == pytest.approx([0, 1, 2, 3, 4, 5], abs=1e-4)
    assert "many lines at once" in " ".join(measured.assumed)


def test_the_dishs_ring_begins_with_its_oldest_second(tmp_path: Path) -> None:
    """Six seconds were written into a ring of four: it has seconds 2, 3, 4 and 5."""
    measured = read(tmp_path, OTHERS["dish"])
    assert values(measured, "delay_ms", "forward") == [21, 22, 23]
    assert values(measured, "loss_pct", "return") == [100, 0, 0, 29.2893]
    assert not [one for one in measured.series if one.quantity == "rate_bps"]
    taken = read(tmp_path, OTHERS["dish"], take_throughput=True)
    assert values(taken, "rate_bps", "forward") == [6e6, 3e6, 4e6, 5e6]
    python = json.dumps(
        {"dish_get_history": {"pop_ping_latency_ms": [40], "pop_ping_drop_rate": [0]}}
    )
    assert values(read(tmp_path, python), "delay_ms", "forward") == [20]


def test_flent_has_ping_and_the_sum_of_the_streams(tmp_path: Path) -> None:
    measured = read(tmp_path, gzip.compress(OTHERS["flent"].encode()))
    assert values(measured, "delay_ms", "forward") == [20, 22]
    assert values(measured, "rate_bps", "forward") == [6e6, 7e6, 8e6]
    assert values(measured, "rate_bps", "return") == [2e6, 2e6, 3e6]
    assert measured.start_unix_s == 1706702400


def pinged(lost: tuple[int, ...] = (), rtt_ms: float = 600.0) -> list[dict[str, Any]]:
    """The raw values of ten pings: flent leaves out a lost one, and its number is missing."""
    return [{"seq": n, "t": 0.2 * n, "val": rtt_ms} for n in range(10) if n not in lost]


def called(lost: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """The same of a call of D-ITG, 300 ms one way."""
    return [{**one, "size": 92, "val": 300.0} for one in pinged(lost)]


X_VALUES = [0.2 * n for n in range(10)]
ROWS: dict[str, list[float | None]] = {"TCP upload sum": [9.0] * 10}


def flent(results: dict[str, list[float | None]], **raw: list[dict[str, Any]]) -> str:
    raw_values = {name.replace("Ping", "Ping (ms) ICMP"): row for name, row in raw.items()}
    return json.dumps({
        "metadata": {}, "x_values": X_VALUES, "results": {**ROWS, **results}, "raw_values": raw_values
    })  # fmt: skip


def test_flent_says_by_its_numbers_what_was_lost(tmp_path: Path) -> None:
    """F11: "flent does not say what was lost", and the link had no loss."""
    measured = read(tmp_path, flent({"Ping (ms) ICMP": [600.0] * 10}, Ping=pinged((3, 7))))
    assert measured.probes is not None
    assert (len(measured.probes), int((measured.probes.lost > 0).sum())) == (10, 2)
    assert not [one for one in measured.series if one.quantity == "delay_ms"]
    without = read(tmp_path, flent({"Ping (ms) ICMP": [600.0, None] * 5}))
    assert "has no numbers of packets" in " ".join(without.assumed)


@pytest.mark.parametrize(("way", "kind"), [("up", 3), ("down", 2), ("", 1)])
def test_irtt_within_flent_says_in_which_direction(way: str, kind: int, tmp_path: Path) -> None:
    lost: dict[str, Any] = {"seq": 4, "t": 0.8, "lost": True, "lost_dir": way or None}
    rows = sorted([*pinged((4,)), lost], key=lambda one: int(one["seq"]))
    measured = read(tmp_path, flent({"Ping (ms) ICMP": [600.0] * 10}, Ping=rows))
    assert measured.probes is not None
    assert measured.probes.lost.tolist() == [0, 0, 0, 0, kind, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("raw", [True, False])
def test_a_call_of_flent_has_a_delay_and_a_loss(
    raw: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F11: "a delay of 250 ms in each direction: no file has one", and it had 300."""
    rows: dict[str, list[float | None]] = {
        "VoIP::delay": [300.0] * 10,
        "VoIP::loss": [2.0] * 10,  # of the ten packets in 0.2 s
    }
    text = flent(rows, VoIP=called((3, 4))) if raw else flent(rows)
    (tmp_path / "call.flent").write_text(text)
    out = tmp_path / "link.csv"
    assert link.main(["import", str(tmp_path / "call.flent"), "-o", str(out)]) == 0
    summary = link_file.check(out)
    assert summary.mean_rtt_ms == pytest.approx(600)
    assert summary.forward.loss_pct.mean == 0
    assert summary.back.loss_pct.mean == pytest.approx(20, abs=5)
    assert "needs clocks that agree" in capsys.readouterr().out
    negative = flent(rows, VoIP=[{"seq": 1, "size": 92, "t": 0, "val": -1}])
    with pytest.raises(ValueError, match="the two clocks did not agree"):
        read(tmp_path, negative)


def test_the_servers_of_flent_are_told_apart(tmp_path: Path) -> None:
    """F11: the mean of servers at 10 and 500 ms is a path that nobody has."""
    text = flent({
        "Ping (ms) avg": [255.0] * 10, "Ping (ms) ICMP1 a": [10.0] * 10,
        "Ping (ms) ICMP4 d": [500.0] * 10,
    })  # fmt: skip
    with pytest.raises(ValueError, match=r"2 pings.*--only 'ping=Ping \(ms\) ICMP1 a'"):
        read(tmp_path, text)
    far = read(tmp_path, text, only=(("ping", "Ping (ms) ICMP4 d"),))
    assert values(far, "delay_ms", "forward") == [250.0] * 10
    with pytest.raises(ValueError, match="no 'x' in it; there are"):
        read(tmp_path, text, only=(("ping", "x"),))


DISH_POLL = "timestamp,pop_ping_latency_ms,downlinkThroughputBps\n"
DISH_TOOLS = "datetimestamp_utc,pop_ping_drop_rate,pop_ping_latency_ms,downlink_throughput_bps\n"


def test_the_columns_of_the_dishs_tools_are_read(tmp_path: Path) -> None:
    """F12, F13: refused, or a hint that made 491 Gbit/s of 491 kbit/s."""
    poll = DISH_POLL + "2024-01-15 10:00:00.5,36,491000\n2024-01-15 10:00:01.5,0,0\n"
    measured = read(tmp_path, poll)
    assert values(measured, "delay_ms", "forward") == [18]
    assert "downlinkthroughputbps: what was used" in " ".join(measured.assumed)
    taken = read(tmp_path, poll, take_throughput=True)
    assert values(taken, "rate_bps", "forward") == [491e3, 0]
    tools = DISH_TOOLS + "2024-01-15T10:00:00,0.19,36,5e6\n2024-01-15T10:00:01,1,,0\n"
    measured = read(tmp_path, tools)
    assert values(measured, "loss_pct", "return") == [10, 100]
    assert values(measured, "delay_ms", "return") == [18]
    with pytest.raises(ValueError, match="--take-throughput takes it"):
        read(tmp_path, "timestamp,uplink_throughput_bps\n1,5\n2,6\n")


@pytest.mark.parametrize("name", ["RTT (ms)", "rttMs", "Latency [ms]"])
def test_a_column_may_be_written_in_other_ways(name: str, tmp_path: Path) -> None:
    probes = read(tmp_path, f"time_s,{name}\n0,40\n1,41\n").probes
    assert probes is not None and probes.rtts_ms.tolist() == [40, 41]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("timestamp100k,rtt100k", "the columns are timestamp100k, rtt100k; they have no time"),
        ("when,what", "known are time_s, seconds"),
        ("time_s,downThroughBps", r"did you mean downlink_throughput_bps \(in bps\)\?"),
        ("time_s,linkthroughputbps", r"throughput_[a-z]+ \(in "),
        ("time_s,throughput_kbps", r"did you mean throughput_mbps \(in mbps\)\?"),
        ("time_s,latency_us", r"did you mean latency_ms \(in ms\)\?"),
    ],
)
def test_a_refused_header_gets_the_columns_and_no_hint_without_a_unit(
    header: str, said: str, tmp_path: Path
) -> None:
    """F12, F13: "did you mean throughput_mbps?" of a column in bit/s."""
    with pytest.raises(ValueError, match=said):
        read(tmp_path, f"{header}\n1,40\n2,41\n")


@pytest.mark.parametrize(
    "text",
    [
        '\x1e{"qlog_version":"0.3","qlog_format":"JSON-SEQ"}\n\x1e{"time":1}\n',
        '{"file_schema":"urn:ietf:params:qlog:file:contained","traces":[]}',
    ],
)
def test_a_qlog_is_named_and_not_taken_for_a_link(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a qlog: .* is not read as a link"):
        read(tmp_path, text)


def test_a_rate_that_no_run_takes_is_refused_before_it_is_written(tmp_path: Path) -> None:
    """F12: a link of 491 Gbit/s was written, and the run failed."""
    (tmp_path / "poll.csv").write_text("time_s,rtt_ms,throughput_mbps\n0,40,491000\n1,40,5\n")
    words = ["import", str(tmp_path / "poll.csv"), "-o", str(tmp_path / "link.csv")]
    with pytest.raises(InputError, match="no run takes more than 1 Gbit/s"):
        link.main(words)
    assert not (tmp_path / "link.csv").exists()


def test_traces_tell_packets_from_delays(tmp_path: Path) -> None:
    """5 packets of 12 000 bits in 10 ms; delays of one way each 10 ms."""
    assert values(read(tmp_path, OTHERS["mahimahi"]), "rate_bps", "forward") == [6e6]
    delays = read(tmp_path, OTHERS["delays"])
    assert values(delays, "delay_ms", "return") == [12, 11, 12, 40]
    assert delays.end_s == 0.04
    opensand = read(tmp_path, OTHERS["opensand"])
    assert values(opensand, "delay_ms", "forward") == [20, 24, 28, 32, 36, 40]


def test_one_way_delays_are_taken_before_half_of_the_round_trip(tmp_path: Path) -> None:
    measured = read(tmp_path, OTHERS["one-way"])
    assert values(measured, "delay_ms", "return") == [30, 35]
    assert values(measured, "delay_ms", "forward") == [10, 15]
    with pytest.raises(ValueError, match="differ from rtt by 85 ms"):
        read(tmp_path, "timestamp,rtt,uplink,downlink\n0,40,100,25\n1,40,100,25\n")
    with pytest.raises(ValueError, match="is it a delay or a rate"):
        read(tmp_path, "timestamp,uplink\n0,40\n")


@pytest.mark.parametrize(
    ("unit", "rate_bps", "said"),
    [
        ("_MBps", 40e6, "downlink_mbyte_s is in bytes, of 8 bits each"),
        (" (MB/s)", 40e6, "downlink (mbyte_s) is in bytes"),
        ("_Bps", 40, "downlink_byte_s is in bytes"),
        ("Bps", 5, ""),  # of downlinkBps
        ("_Mbps", 5e6, ""),
        ("_MBPS", 5e6, "downlink_MBPS is in bits"),
    ],
)
def test_rates_in_bytes_are_told(unit: str, rate_bps: float, said: str, tmp_path: Path) -> None:
    measured = read(tmp_path, f"time_s,downlink{unit}\n0,5\n1,5\n")
    assert values(measured, "rate_bps", "forward") == [rate_bps] * 2
    assert said in "".join(measured.assumed) and len(measured.assumed) == bool(said)


def test_rates_of_a_csv_file_have_their_direction(tmp_path: Path) -> None:
    measured = read(tmp_path, OTHERS["rates"])
    assert values(measured, "rate_bps", "forward") == [101e6, 67e6]
    assert values(measured, "rate_bps", "return") == [7e6, 12e6]


def equal(one: Measured, other: Measured) -> bool:
    if (one.probes is None) != (other.probes is None) or len(one.series) != len(other.series):
        return False
    same = all(
        np.array_equal(mine.values, others.values) and np.array_equal(mine.times_s, others.times_s)
        for mine, others in zip(one.series, other.series, strict=True)
    )
    if one.probes is None or other.probes is None:
        return same
    return same and np.array_equal(one.probes.rtts_ms, other.probes.rtts_ms, equal_nan=True)


@pytest.mark.parametrize("name", ALL)
def test_marks_line_ends_and_packing_change_nothing(name: str, tmp_path: Path) -> None:
    raw = ALL[name].encode()
    whole = read(tmp_path, raw)
    variants = {
        "BOM": b"\xef\xbb\xbf" + raw,
        "CRLF": raw.replace(b"\n", b"\r\n"),
        "UTF-16": ALL[name].encode("utf-16"),
        "gzip": gzip.compress(raw),
        "no last line end": raw.rstrip(b"\n"),
    }
    for variant, text in variants.items():
        assert equal(read(tmp_path, text), whole), variant


@pytest.mark.parametrize("name", ALL)
def test_a_round_trip_through_a_link_file(name: str, tmp_path: Path) -> None:
    """What is imported is a link file, the same one each time, and `rate_bps` that of the file."""
    (tmp_path / "measured").write_text(ALL[name])
    words = ["import", str(tmp_path / "measured"), "-o", str(tmp_path / "link.csv")]
    assert link.main(words) == 0
    first = (tmp_path / "link.csv").read_bytes()
    assert link.main(words) == 0
    assert (tmp_path / "link.csv").read_bytes() == first
    summary = link_file.check(tmp_path / "link.csv")
    whole = read(tmp_path, ALL[name])
    assert summary.duration_s == pytest.approx(whole.end_s)
    rates = {one.rate_bps.mean for one in (summary.forward, summary.back)}
    assert (rates == {10e6}) or any(one.quantity == "rate_bps" for one in whole.series)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("part", [0.25, 0.5, 0.8, 0.95])
def test_a_file_that_is_cut_off_is_read_or_named(name: str, part: float, tmp_path: Path) -> None:
    """The rest is never taken for something else: RTTs and values are those of the whole file."""
    whole = read(tmp_path, ALL[name])
    text = ALL[name][: int(len(ALL[name]) * part)]
    try:
        cut = read(tmp_path, text)
    except link_file.LinkFileError as error:
        assert "measured" in str(error)
        return
    if cut.probes is not None and whole.probes is not None:
        known = set(whole.probes.rtts_ms[~np.isnan(whole.probes.rtts_ms)].tolist())
        found = cut.probes.rtts_ms[~np.isnan(cut.probes.rtts_ms)].tolist()
        # A CSV file's last number may be cut, and is a number still.
        assert set(found[:-1]) <= known


@pytest.mark.parametrize("name", [*PROBED, *WINDOWS_TEXTS])
@pytest.mark.parametrize("other", ["macos", "windows", "fping", "csv", "irtt"])
def test_two_programs_in_a_file_are_refused(name: str, other: str, tmp_path: Path) -> None:
    family = {
        "linux": "macos",
        "linux-D": "macos",
        "linux-stamped": "macos",
        "busybox-ts": "macos",
        "busybox": "macos",
        "macos": "macos",
        "windows-unreachable": "windows",
        "german": "windows",
        "fping-C": "fping",
    }
    if family.get(name, name) == other or (name, other) == ("csv", "csv"):
        return
    if name.startswith("csv") and other == "csv":
        return
    with pytest.raises(link_file.LinkFileError, match=r"line |document|JSON"):
        read(tmp_path, PROBED.get(name, WINDOWS_TEXTS.get(name, "")) + ALL[other])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        ("\0\1\2", "not a text"),
        ("[]", "JSON that is not understood"),
        ("[1, 2]", "JSON that is not understood"),
        ('{"a": 1}', "JSON that is not understood"),
        ("[" * 100_000, "nested too deeply|not JSON"),
        ('{"round_trips": []}', "not the JSON of irtt"),
        ('{"x_values": [1, 1], "results": {}}', "do not increase"),
        ('{"start": {}, "intervals": []}', "without an interval"),
        ('{"prb_id": 1, "type": "traceroute"}', "type traceroute"),
        ('[{"prb_id": 1, "result": []}, {"prb_id": 2, "result": []}]', "--only prb_id=1"),
        ('{"popPingLatencyMs": [1], "popPingDropRate": [1]}', "no second with an answer"),
        ('{"popPingLatencyMs": [1], "popPingDropRate": [-1, 0]}', "1 latencies, 2 drop rates"),
        ("a : [0], 64 bytes, 1 ms\nb : [0], 64 bytes, 1 ms\n", "2 targets: give one with --only"),
        (
            "a : [0], 64 bytes, 1 ms\na : [0], 64 bytes, 1 ms\n",
            "line 2: probe 0 of a is there twice",
        ),
        ("time_s,rtt_ms,rtt\n0,1,1\n", "say the same"),
        ("time_s,rtt_ms\n0,1\n1\n2,1\n", "line 3: 1 cells"),
        ("time_s,rtt_mss\n0,1\n", "did you mean rtt_ms"),
        ("date,rtt_ms\nyesterday,1\n", "line 2, column date"),
        ("time_s,packet_loss\n0,101\n", "above 100 percent"),
        ("1\n2\nx\n", "line 3: 'x' is not a number of milliseconds"),
        ("".join(f"{n}\n" for n in range(5000)) + "7\n", "line 5001: 7 after 4999"),
        ("0 10\n0 20\n", "second delay"),
        ("[  5] 0.00-1.00 sec 1 MBytes 1 Mbits/sec\n[  5] 1.00-2.00 sec x/sec\n", "line 2"),
        ("[  5] 1.00-1.00 sec 1 MBytes 1 Mbits/sec\n", "has no length"),
        (
            "[  5] 0.0-1.0 sec 1 MBytes 1 Mbits/sec\n[  6] 0.0-1.0 sec 1 MBytes 1 Mbits/sec\n",
            "2 streams without their sum",
        ),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        read(tmp_path, text)


def test_lines_that_say_nothing_are_counted_and_the_first_is_shown(tmp_path: Path) -> None:
    text = PROBED["linux"].replace("\n64", "\nroot@box:~# date\n64", 1)
    assert "1 lines say nothing of a probe and are skipped (line 2: 'root@box:~# date')" in (
        read(tmp_path, text).assumed
    )


def test_rate_and_delay_of_two_files_are_one_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "down").write_text("".join(f"{n}\n" for n in range(1, 1001)))
    (tmp_path / "delays").write_text("12\n11\n" * 50)
    out = tmp_path / "link.csv"
    words = ["--forward", str(tmp_path / "down"), str(tmp_path / "delays"), "-o", str(out)]
    assert link.main(["import", *words, "--rate-bps", "2e6"]) == 0
    summary = link_file.check(out)
    assert summary.forward.rate_bps.mean == pytest.approx(12e6)
    assert summary.back.rate_bps.mean == pytest.approx(2e6)
    assert summary.forward.delay_ms.mean == pytest.approx(11.5)
    assert "assumed: all files begin at the same time" in capsys.readouterr().out
    (tmp_path / "others").write_text("1\n0\n")
    both = [str(tmp_path / "delays"), str(tmp_path / "others")]
    with pytest.raises(InputError, match="both have a delay"):
        link.main(["import", *both, "-o", str(out)])


def test_only_the_rate_of_a_file_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both have round trips; alone it leaves delay and loss to the scenario."""
    (tmp_path / "speed").write_text(
        "time_s,rtt_ms,download_mbps,upload_mbps\n0,40,20,2\n1,900,10,1\n2,900,30,3\n"
    )
    (tmp_path / "ping").write_text(
        "time_s,rtt_ms\n" + "".join(f"{n / 10},600\n" for n in range(30))
    )
    speed, ping, out = (str(tmp_path / name) for name in ("speed", "ping", "link.csv"))
    with pytest.raises(InputError, match="both have a delay"):
        link.main(["import", ping, speed, "-o", out])
    assert link.main(["import", ping, "--rate-of", speed, "-o", out]) == 0
    summary = link_file.check(out)
    assert summary.forward.rate_bps.greatest == 30e6 and summary.back.rate_bps.greatest == 3e6
    assert summary.mean_rtt_ms == pytest.approx(600)
    capsys.readouterr()
    assert link.main(["import", "--rate-of", speed, "-o", out]) == 0
    rows = "time_s,direction,rate_bps\n0,forward,20000000\n0,return,2000000\n1,forward,10000000\n"
    assert rows in Path(out).read_text()
    said = capsys.readouterr().out
    assert "rates only" in said and "delay" not in said and link.main(["check", out]) == 0
    assert link.main(["import", "--rate-of", speed, "--delay-ms", "30", "-o", out]) == 0
    assert link_file.check(out).mean_rtt_ms == 60
    with pytest.raises(InputError, match="has no rate"):
        link.main(["import", "--rate-of", ping, "-o", out])


def test_gaps_of_a_file_without_a_lost_probe_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{n / 100},40\n" for n in range(1000) if not 500 <= n < 540)
    (tmp_path / "rtts").write_text(f"timestamp,rtt\n{rows}")
    words = ["import", str(tmp_path / "rtts"), "-o", str(tmp_path / "link.csv")]
    assert link.main(words) == 0
    assert "1 gaps of more than 5 intervals, 0.41 s together, are taken for no loss" in (
        capsys.readouterr().out
    )
    assert link.main([*words, "--gaps-are-lost"]) == 0
    assert link_file.check(tmp_path / "link.csv").forward.outage_s == pytest.approx(0.4, abs=0.011)


def test_a_csv_file_may_have_the_times_of_the_answers(tmp_path: Path) -> None:
    """Probes each 0.1 s; what was held for 0.5 s came together with the last of them."""
    rows = "timestamp,rtt\n" + "".join(
        f"{n / 10 + ms / 1000},{ms}\n" for n, ms in enumerate((40, 540, 440, 340, 240, 140, 40))
    )
    probes = read(tmp_path, rows, times_of_answers=True).probes
    assert probes is not None
    assert probes.times_s.tolist() == pytest.approx([n / 10 for n in range(7)])
    assert "a time is when the probe was sent (--times-of-answers)" in read(tmp_path, rows).assumed


def import_s(tmp_path: Path, lines: int) -> tuple[float, float]:
    """Return the CPU times of writing the lines of a ping, and of the command that reads them."""
    begun_s = time.process_time()
    rows = ["PING h (192.0.2.1) 56(84) bytes of data."]
    for n in range(lines):
        if n % 300:
            rows.append(
                f"[{1700000000 + n / 100:.6f}] 64 bytes from 192.0.2.1: icmp_seq={n % 65536}"
                f" ttl=55 time={40 + n % 7} ms"
            )
    (tmp_path / "ping").write_text("\n".join(rows))
    written_s = time.process_time() - begun_s
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = ["link", "import", str(tmp_path / "ping"), "-o", str(tmp_path / "l.csv")]
    subprocess.run([sys.executable, "-m", "openbach_run", *words], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return written_s, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def test_lines_are_read_in_twelve_times_what_writing_them_takes(tmp_path: Path) -> None:
    """A million take some 7 s where writing takes 1.2 s: a fifth of them show it.

    Both are CPU times: what else runs does not count, and a slow machine is slow at both. The
    command is a process of its own, whose lines coverage does not count: that doubles its time.
    Its start, which a file of few lines takes as well, does not count either.
    """
    written_s, read_s = import_s(tmp_path, 200_000)
    _, start_s = import_s(tmp_path, 1000)
    assert read_s - start_s < 12 * written_s


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    (tmp_path / "x.csv").write_bytes(mark + b"time_s,rate_bps,delay_ms\n0,1000000,5\n")
    assert link.main(["check", str(tmp_path / "x.csv")]) == 0
    sent = {"client": {"send": {"monotonic": 0}}}
    trip = {"lost": "false", "delay": {"rtt": 5}, "timestamps": sent}
    for name, text in (
        ("irtt.json", json.dumps({"round_trips": [trip]})),
        ("rtt.csv", "time_s,rtt_ms\n0,5\n"),
        ("ping", "64 bytes from h: icmp_seq=1 ttl=64 time=5 ms\n"),
    ):
        (tmp_path / name).write_bytes(mark + text.encode())
        probes = table.read(tmp_path / name, Options()).probes
        assert probes is not None and len(probes) == 1, name


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            f"[1.5] 64 bytes: icmp_seq={400 * '9'} ttl=5 time=20.1 ms\n",
            "it has 16 bits, up to 65535",
        ),
        (
            '{"round_trips": [{"timestamps": {"client": {"send": {"monotonic": 1}}}, "delay":'
            ' {"rtt": 1' + 400 * "0" + '}, "lost": "false"}]}',
            "not the JSON of irtt",
        ),
        (f"64 bytes from h: icmp_seq={5000 * '9'} ttl=5 time=2 ms\n", "is no answer that"),
        (f"64 bytes from h: icmp_seq=1 ttl=5 time={5000 * '9'} ms\n", "is no answer that"),
        (f"PING h\n{5000 * '9'} packets transmitted, 1 received\n", "no answer in it"),
        ('{"round_trips": [{"delay": {"rtt": ' + 5000 * "1" + "}}]}", "not JSON that can be read"),
    ],
)
def test_numbers_of_measured_round_trips_have_their_range(
    tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "rtt").write_text(content)
    with pytest.raises(link_file.LinkFileError, match=said):
        table.read(tmp_path / "rtt", Options(interval_s=1.0))


TEXTS = st.text(max_size=200) | st.binary(max_size=200)


@given(TEXTS, st.sampled_from(sorted(ALL)), st.integers(0, 400), st.integers(0, 40))
def test_any_damage_is_read_or_named(
    damage: str | bytes, name: str, place: int, dropped: int
) -> None:
    raw = ALL[name].encode()
    added = damage.encode("utf-8", "surrogatepass") if isinstance(damage, str) else damage
    place = min(place, len(raw))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "measured"
        path.write_bytes(raw[:place] + added + raw[place + dropped :])
        try:
            measured = table.read(path, Options())
        except link_file.LinkFileError:
            return
        for one in measured.series:
            assert len(one.times_s) == len(one.values) > 0
            assert np.all(np.isfinite(one.values)) and np.all(one.values >= 0)
        if measured.probes is not None:
            assert np.all(np.diff(measured.probes.times_s) >= 0)
