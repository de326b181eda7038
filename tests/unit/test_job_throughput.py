# SPDX-License-Identifier: GPL-3.0-or-later
"""tcp_throughput and udp_stress.

What they take from iperf3's report, and how the path's MTU is searched.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from helpers.job_code import load
from hypothesis import given
from hypothesis import strategies as st

tcp_throughput, udp_stress = load("tcp_throughput"), load("udp_stress")
path_mtu, iperf3_test = (
    load("udp_stress", "path_mtu"),
    importlib.import_module("openbach_jobs.iperf3_test"),
)


def summed(size: int, seconds: float, sends: bool, **more: Any) -> dict[str, Any]:
    return {"bytes": size, "seconds": seconds, "sender": sends, **more}


BOTH = {
    "intervals": [
        {
            "sum": {"start": begin, "seconds": 1.0, "bytes": size},
            "sum_bidir_reverse": {"start": begin, "seconds": 1.0, "bytes": 7},
        }
        for begin, size in enumerate([100, 0, 0, 50, 0])
    ],
    "end": {
        "sum_sent": summed(1000, 2.0, True, retransmits=3),
        "sum_received": summed(900, 2.0, True),
        "sum_sent_bidir_reverse": summed(500, 2.0, False, retransmits=1),
        "sum_received_bidir_reverse": summed(400, 4.0, False),
        "streams": [
            {"sender": {"sender": True, "max_snd_cwnd": 10, "mean_rtt": 2000}},
            {"sender": {"sender": True, "max_snd_cwnd": 30, "mean_rtt": 4000}},
            {"sender": {"sender": False}},
        ],
    },
}


def test_a_direction_is_what_its_receiver_counted() -> None:
    assert tcp_throughput.measured(BOTH, "") == {
        "goodput_bps": 3600,
        "received_bytes": 900,
        "sent_bytes": 1000,
        "retransmits": 3,
        "max_window_bytes": 40,
        "rtt_ms": 3.0,
    }
    other = tcp_throughput.measured(BOTH, "_bidir_reverse")
    assert (other["goodput_bps"], other["retransmits"], other["max_window_bytes"]) == (800, 1, None)
    both = [
        tcp_throughput.measured(BOTH, added) for added in tcp_throughput.directions("both").values()
    ]
    assert tcp_throughput.total(both)["goodput_bps"] == 4400


def test_the_longest_gap_is_that_of_intervals_in_a_row() -> None:
    assert tcp_throughput.longest_gap_s(tcp_throughput.series(BOTH, "")) == 2.0
    assert tcp_throughput.longest_gap_s(tcp_throughput.series(BOTH, "_bidir_reverse")) == 0.0


def test_udp_that_did_not_arrive_is_lost_also_the_last_packets() -> None:
    """iperf3's server knows of no packet after the last one that arrived."""
    read = udp_stress.measured(
        {
            "start": {"test_start": {"blksize": 1000}},
            "end": {
                "streams": [{"udp": {"out_of_order": 3}}],
                "sum_sent": {"bytes": 100_000, "seconds": 1.0, "packets": 100},
                "sum_received": {
                    "packets": 90,
                    "lost_packets": 10,
                    "seconds": 2.0,
                    "jitter_ms": 0.5,
                },
            },
        }
    )
    assert (read["received_packets"], read["loss_pct"], read["received_bps"]) == (80, 20.0, 320_000)
    assert (read["offered_bps"], read["out_of_order_packets"]) == (800_000, 3)


@given(st.integers(576, 9000), st.integers(1280, 9000))
def test_the_path_mtu_is_found(mtu: int, most: int) -> None:
    assert path_mtu.largest(576, most, lambda size: size <= mtu) == min(mtu, most)


def test_nothing_fits_a_path_that_is_cut() -> None:
    assert path_mtu.largest(576, 1500, lambda size: False) is None


@pytest.mark.parametrize(("text", "rate"), [("1k", 1e3), ("100M", 1e8), ("1.5G", 1.5e9)])
def test_rates(text: str, rate: float) -> None:
    assert udp_stress.parse(["client", "10.0.0.1", text]).rate == rate


def fake_iperf3(place: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (place / "iperf3").write_text(f"#!/bin/sh\ncd {place}\n{script}\n")
    (place / "iperf3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")


def test_a_server_that_does_not_listen_yet_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = '{"error": "unable to connect to server: Connection refused"}'
    script = f"""[ -e asked ] && echo '{{"end": {{}}}}' && exit 0\ntouch asked\necho '{refused}'\nexit 1"""
    fake_iperf3(tmp_path, monkeypatch, script)
    assert iperf3_test.client("10.0.0.1", 5201, duration_s=1) == ({"end": {}}, 2)


@pytest.mark.parametrize(
    ("script", "said"),
    {
        """echo '{"error": "control socket has closed unexpectedly"}'; exit 1""": "closed unexpectedly",
        "echo no JSON >&2; exit 1": "iperf3: no JSON",
    }.items(),
)
def test_a_test_that_fails_ends_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    fake_iperf3(tmp_path, monkeypatch, script)
    with pytest.raises(SystemExit, match=said):
        iperf3_test.client("10.0.0.1", 5201, duration_s=1)


def test_a_missing_iperf3_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="iperf3 is not installed"):
        iperf3_test.client("10.0.0.1", 5201, duration_s=1)
