# SPDX-License-Identifier: GPL-3.0-or-later
"""What the jobs do in the guest, read from the records of real runs."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from helpers.guest_runs import REPOSITORY, Run, RunCells, command

from openbach_jobs import constellation
from openbach_run.openbach.expand import expand

SMALL = ("size=1M",)


def run_one(folder: Path, scenario: Path, *settings: str) -> dict[str, Any]:
    ended = command(
        str(scenario),
        *settings,
        "--results",
        str(folder / "results"),
        "--format",
        "json",
        "--quiet",
    )
    assert ended.returncode == 0, ended.stderr
    (row,) = json.loads(ended.stdout)
    return dict(row)


@pytest.mark.parametrize("setting", ["http=1.1", "http=2", "http=3", "direction=upload"])
def test_other_ways_to_transfer(run_cells: RunCells, setting: str) -> None:
    (run,) = run_cells("geo", "vpn=none", "cc=bbr", setting, *SMALL)
    assert int(run.row["bytes"]) >= 1_000_000
    assert 2 < float(run.row["transfer_time_s"]) < 8
    assert run.row.get("retransmits") == (None if setting == "http=3" else "0")


def test_a_scenario_may_have_any_name(tmp_path: Path) -> None:
    scenario = expand(REPOSITORY / "scenarios/geo.yml")
    name = "a b'\"\n%é,$HOME ${vpn} `id` <b> {x} \\ ünï*|#"
    (tmp_path / name).write_text(json.dumps({**scenario, "name": name}))
    row = run_one(
        tmp_path / name.replace("x", "y"),
        tmp_path / name,
        "vpn=none",
        "cc=bbr",
        "loss=0",
        "size=1k",
    )
    assert (row["scenario"], row["status"]) == (name, "Finished Ok")


def test_http_counts_from_the_connection_on_iperf3_from_its_test_on(run_cells: RunCells) -> None:
    """TCP, TLS 1.3, the request; QUIC has the first two in one round trip.

    HTTP/1.1's first record of TLS is longer than the initial window: one round trip more.
    """
    (iperf3,) = run_cells("geo", "vpn=none", "cc=bbr", *SMALL)
    for http, handshake_s, ttfb_s in (("1.1", 1.0, 2.0), ("2", 1.0, 1.5), ("3", 0.5, 1.0)):
        (run,) = run_cells("geo", "vpn=none", "cc=bbr", f"http={http}", *SMALL)
        assert float(run.row["handshake_time_s"]) == pytest.approx(handshake_s, abs=0.02)
        assert float(run.row["ttfb_s"]) == pytest.approx(ttfb_s, abs=0.02)
    assert float(iperf3.row["ttfb_s"]) == pytest.approx(1, abs=0.02)


def test_the_transport_is_the_one_asked_for(run_cells: RunCells) -> None:
    """Of the sender of the download, as iperf3 reads it from its socket.

    And of the host, as the kernel has it.
    """
    profiles = (
        "cubic",
        "cubic_nohystart",
        "bbr",
        "bbr2",
        "bbr3",
        "hybla",
        "reno",
        "cubic_resume",
        "bbr3_resume",
    )
    for run in run_cells("geo", "vpn=none", f"cc={','.join(profiles)}", *SMALL):
        assert {read["congestion_control"] for read in run.statistics("transport_profile")} == {
            run.row["cc"]
        }
        (sender,) = [
            line["congestion_control"]
            for line in run.statistics("file_transfer")
            if "transfer_time_s" in line
        ]
        assert sender == run.row["cc"]


def test_the_series_tells_what_the_transfer_did(run_cells: RunCells) -> None:
    """Goodput over time adds up to the bytes; RTT begins at that of the path.

    Off, it sends nothing.
    """
    (none,) = run_cells("geo", "vpn=none", "cc=cubic", *SMALL)
    assert not none.statistics("tcp_series")
    (run,) = run_cells("geo", "vpn=none", "cc=cubic", "size=5M", "series_s=0.5")
    series = run.statistics("tcp_series")
    goodput_bytes = sum(line["goodput_bps"] for line in series if "goodput_bps" in line) * 0.5 / 8
    assert goodput_bytes == pytest.approx(5e6, rel=0.25)
    assert min(line["rtt_ms"] for line in series) == pytest.approx(500, abs=5)


def test_tunnel_and_queues_are_looked_at_as_often_as_asked(run_cells: RunCells) -> None:
    """At the same time as the connection.

    The tunnel's counters grow up to what it carried in all.
    """
    (run,) = run_cells("geo", "vpn=wireguard", "cc=cubic", "size=5M", "series_s=0.5")
    received = [
        line["rx_bytes"]
        for line in run.statistics("vpn")
        if line["_metadata"]["agent_name"] == "satvpn_box" and "rx_bytes" in line
    ]
    queues = [line for line in run.statistics("satcom_link") if "queue_bytes" in line]
    assert len(received) > 20 and len(queues) > 40
    assert received == sorted(received)
    assert received[-1] > 5e6


def test_a_larger_initial_window_is_quicker(run_cells: RunCells) -> None:
    small, large = run_cells("geo", "vpn=none", "cc=cubic", "initcwnd=3,40", *SMALL)
    assert float(large.row["transfer_time_s"]) < float(small.row["transfer_time_s"]) - 1


def test_the_leo_delay_is_the_formulas(run_cells: RunCells) -> None:
    (run,) = run_cells("leo", "vpn=none", "cc=cubic", *SMALL)
    delays = [change.state.delay_ms for change in islice(constellation.changes(), 20)]
    assert 2 * min(delays) - 1 <= run.statistic("path_ready", "rtt_ms") <= 2 * max(delays) + 1


@pytest.fixture(scope="module")
def tunnels(run_cells: RunCells) -> list[Run]:
    return run_cells("geo", "vpn=wireguard,openvpn_udp,openvpn_tcp", "cc=cubic", *SMALL)


def test_the_tunnel_carried_the_transfer(tunnels: list[Run]) -> None:
    for run in tunnels:
        box = [
            line
            for line in run.statistics("vpn")
            if line["_metadata"]["agent_name"] == "satvpn_box" and "rx_bytes" in line
        ]
        assert box[0]["rx_bytes"] > 1_000_000, run.row["vpn"]


def test_no_secret_is_in_the_record(tunnels: list[Run]) -> None:
    """WireGuard's keys are 43 base64 characters and '='; OpenVPN's begin with a PEM line."""
    secret = re.compile(rb"[A-Za-z0-9+/]{43}=|PRIVATE KEY")
    for run in tunnels:
        for file in run.record.rglob("*"):
            assert not file.is_file() or not secret.search(file.read_bytes()), file


def test_every_job_left_its_end(tunnels: list[Run]) -> None:
    ended, told = (
        [json.loads(line) for line in (tunnels[0].record / name).read_text().splitlines()]
        for name in ("jobs.jsonl", "events.jsonl")
    )
    started = [event for event in told if event["event"] == "job_started"]
    assert [one["instance_id"] for one in ended] == [event["instance_id"] for event in started]
    for one, event in zip(ended, started, strict=True):
        assert one["status"] in ("Not Running", "Stopped")
        assert one["argv"][2:] == event["argv"]
    assert len(ended) > 10
