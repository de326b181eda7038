# SPDX-License-Identifier: GPL-3.0-or-later
"""A VPN whose ends a third host brings together (vpn.json's `coordinator`).

On a host of its own, or at the server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.guest_runs import Run, RunCells, command, records
from helpers.scenario_with import TEST_JOBS, Job, scenario_of
from helpers.vpns_tested import VPNS, describe, error_of, on

HUB, POP, BOX = (
    bytes(map(int, address.split("."))) for address in ("10.10.4.3", "10.10.4.2", "10.10.1.1")
)
COORDINATED = [vpn for vpn in VPNS if describe(vpn)["coordinator"]]
CELLS = (
    "../library/topologies/scenarios/coordinated",
    f"vpn={','.join(['nebula', *COORDINATED])}",
    "orbit=geo",
    "loss=0",
    "size=300k",
)
SOURCE, DESTINATION = slice(12, 16), slice(16, 20)
PROTOCOL, TCP = 9, 6
EXCHANGE_LIMIT_S = 180
EXCHANGE = (6000).to_bytes(2)
INVENTORY = "library/topologies/coordinated.yml"


@pytest.fixture
def runs(run_cells: RunCells) -> dict[str, Run]:
    """By VPN, with their captures."""
    return {run.row["vpn"]: run for run in run_cells(*CELLS, pcap=True)}


def test_there_is_one() -> None:
    assert "nebula_lighthouse" in COORDINATED


def between(run: Run, one: bytes, other: bytes) -> list[bytes]:
    """What two hosts have sent each other beside the job's exchange of keys."""
    sent = [
        packet for packet in on(run, "") if {packet[SOURCE], packet[DESTINATION]} == {one, other}
    ]
    return [
        packet
        for packet in sent
        if not (packet[PROTOCOL] == TCP and EXCHANGE in (packet[20:22], packet[22:24]))
    ]


@pytest.mark.parametrize("vpn", COORDINATED)
def test_both_ends_have_to_do_with_the_host_that_brings_them_together(
    runs: dict[str, Run], vpn: str
) -> None:
    for end in (POP, BOX):
        assert between(runs[vpn], HUB, end)
        assert not between(runs["nebula"], HUB, end)


@pytest.mark.parametrize("vpn", COORDINATED)
def test_the_download_does_not_pass_it(runs: dict[str, Run], vpn: str) -> None:
    through_hub = sum(map(len, on(runs[vpn], "hub/")))
    assert 0 < through_hub < 100_000 < 300_000 < sum(map(len, on(runs[vpn], "pop/to_gw")))


def test_same_seed_same_capture(runs: dict[str, Run], run_cells: RunCells) -> None:
    again = {run.row["vpn"]: run.row["capture_hash"] for run in run_cells(*CELLS)}
    assert {vpn: run.row["capture_hash"] for vpn, run in runs.items()} == again


def ends_with(place: Path, *jobs: Job) -> str:
    """Why a scenario with these jobs fails."""
    scenario = scenario_of(place, *jobs)
    options = ["--jobs", str(TEST_JOBS), "--results", str(place / "r"), "--inventory", INVENTORY]
    assert command(str(scenario), *options).returncode == 1
    (run,) = records(place / "r")
    assert float(run.row["virtual_s"]) < EXCHANGE_LIMIT_S + 20
    return error_of(run)


def end(role: str, **more: str) -> dict[str, Any]:
    own = {"local_ip": "10.10.4.2", "remote_ip": "10.10.1.1", "remote_network": "192.168.10.0/24"}
    return {"kind": "nebula_lighthouse", **own, **more, role: {}}


def test_a_coordinator_that_never_comes(tmp_path: Path) -> None:
    server = Job("pop", "vpn", end("server", coordinator_ip="10.10.4.3"))
    error = ends_with(tmp_path, server, Job("pop", "vpn", end("wait"), launched=[0]))
    assert "the VPN coordinator 10.10.4.3 does not answer on port 6000 after 60 s" in error


def test_ends_that_never_come(tmp_path: Path) -> None:
    hub = Job("hub", "vpn", end("coordinator", local_ip="10.10.4.3"))
    error = ends_with(tmp_path, hub, Job("pc", "snapshot", {"command": "sleep 190"}, launched=[0]))
    assert (
        "0 of 2 ends of nebula_lighthouse connected to port 6000 of the coordinator in 180 s"
        in error
    )
