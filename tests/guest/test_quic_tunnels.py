# SPDX-License-Identifier: GPL-3.0-or-later
"""Test VPNs over QUIC (quic-tunnel), beyond what every VPN passes.

These are their values, the same packets with one thread and with several, and what becomes of
connections where a VPN ends TCP.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers.guest_runs import REPOSITORY, Run, RunCells, command, records
from helpers.scenario_with import ran
from helpers.vpns_tested import VPNS, describe

GEO = ("cc=cubic", "loss=1", "size=1M")
BY_VALUES = {"connect_ip": "vpn.carry=datagram,stream", "quic_split": "vpn.sessions=one,each"}
WAYS = 6
"""Of hostile.py."""
SENT = ("http=3", "vpn=none", "size=1M")
STACKS = ("quic_go", "quinn")
IS_BUILT = "connect_ip" in VPNS
"""Whether the program of these VPNs is, which quic_go is too."""


@pytest.mark.parametrize("vpn", [vpn for vpn in VPNS if vpn in BY_VALUES])
@pytest.mark.parametrize("threads", [1, 4])
def test_same_seed_same_capture_with_any_number_of_threads(
    run_cells: RunCells, vpn: str, threads: int
) -> None:
    cells = ("geo", f"vpn={vpn}", *GEO, BY_VALUES[vpn], f"vpn.threads={threads}")
    first, again = (
        [run.row["capture_hash"] for run in run_cells(*cells, pcap=pcap)] for pcap in (True, False)
    )
    assert first == again
    assert len(set(first)) == 2


@pytest.mark.parametrize("vpn", [vpn for vpn in VPNS if describe(vpn)["ends_tcp"]])
@pytest.mark.parametrize("sessions", ["one", "each"])
def test_it_loses_nothing_of_connections_that_end_in_any_way(
    tmp_path: Path, vpn: str, sessions: str
) -> None:
    """Make 1000 connections over 1 % of loss, which end in any way.

    They are ended by one side before the other, reset at any time, read slowly, or have urgent
    data. 10 000 idle ones are made of one session; of 200 each has a QUIC connection.
    """
    count, idle = (1000, 10_000) if sessions == "one" else (300, 200)
    scenario = with_hostile(tmp_path, count, idle)
    cells = (f"vpn={vpn}", f"vpn.sessions={sessions}", "cc=cubic", "loss=1", "size=100k")
    hosts = with_memory(tmp_path, "satvpn_box", "satvpn_pop", memory_mb=400)
    run = ran(scenario, tmp_path / "r", *cells, "--seeds", "1", "--inventory", str(hosts))
    (told,) = run.statistics("hostile")
    outcomes = dict(part.rsplit(" ", 1) for part in told["outcomes"].split(", "))
    assert all(name.endswith(": well") for name in outcomes), outcomes
    assert sum(map(int, outcomes.values())) == count + 1
    assert told["idle_answered"] == idle
    assert told["resets_not_seen"] == 0
    assert told["resets_seen"] == 2 * (count // WAYS) + (count % WAYS > 3) + (count % WAYS > 4)


@pytest.mark.parametrize("loss", [0, 1] if IS_BUILT else [])
def test_a_fixed_rate_is_sent_whatever_is_lost(run_cells: RunCells, loss: int) -> None:
    """Send 10 MB at 4 Mbit/s, which the link has twice over: 20 s, losses and their repetition."""
    cells = ("geo", "vpn=quic_split", "cc=cubic", f"loss={loss}", "size=10M")
    (run,) = run_cells(*cells, "vpn.cc=fixed:4M:1M")
    assert 20 < float(run.row["transfer_time_s"]) < 20 * (1.03 + loss / 100) + 1


@pytest.mark.parametrize(
    "cells",
    [("vpn=quic_split",), ("vpn=connect_ip",), ("vpn=none", "http=3", "quic=quic_go")]
    if IS_BUILT
    else [],
)
def test_the_qlog_of_a_run_is_for_qvis(tmp_path: Path, cells: tuple[str, ...]) -> None:
    asked = ("geo", *cells, "cc=cubic", "loss=1", "size=1M", "--pcap", "--keys", "--seeds", "1")
    runs = [qlog_run(tmp_path / place, *asked) for place in ("once", "again")]
    assert runs[0].row["capture_hash"] == runs[1].row["capture_hash"]
    logs = [qlog(file) for file in sorted(runs[0].record.glob("jobs/*/quic_*.sqlog"))]
    assert len(logs) == (1 if "http=3" in cells else 2)
    assert len({head["trace"]["common_fields"]["ODCID"] for head, _ in logs}) == 1
    for head, events in logs:
        # Without these, qvis does not take a file.
        assert (head["qlog_version"], head["qlog_format"]) == ("0.3", "JSON-SEQ")
        assert head["trace"]["common_fields"]["time_format"] == "relative"
        times_ms = [event["time"] for event in events]
        assert times_ms == sorted(times_ms)
        assert "transport:connection_closed" in {event["name"] for event in events[-4:]}
    sender = logs[0][1]  # of the POP or the server, which come first
    names = Counter(event["name"] for event in sender)
    assert names["transport:packet_sent"] > 1_000_000 / 1452
    assert names["recovery:packet_lost"] > 0
    assert {"recovery:metrics_updated", "recovery:congestion_state_updated"} <= names.keys()


def qlog_run(place: Path, *arguments: str) -> Run:
    """The one run of a command, with its results in a directory."""
    ended = command(*arguments, "--results", str(place))
    assert ended.returncode == 0, ended.stderr
    (run,) = records(place)
    return run


def qlog(file: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The head and the events of a file of JSON-SEQ."""
    before, *texts = file.read_bytes().split(b"\x1e")
    assert before == b""
    head, *events = map(json.loads, texts)
    return head, events


@pytest.mark.parametrize("stack", STACKS if IS_BUILT else [])
@pytest.mark.parametrize("loss", [0, 1])
def test_a_stack_sends_with_the_congestion_control_asked_for(
    run_cells: RunCells, stack: str, loss: int
) -> None:
    cells = ("geo", *SENT, f"quic={stack}", "cc=reno,cubic", f"loss={loss}")
    reno, cubic = run_cells(*cells)
    assert [run.row["bytes"] for run in (reno, cubic)] == ["1000000"] * 2
    apart_s = abs(float(reno.row["transfer_time_s"]) - float(cubic.row["transfer_time_s"]))
    # Without a loss none of the two has anything to decide.
    assert apart_s < 0.01 if loss == 0 else apart_s > 0.1
    again = run_cells(*cells, again=1)
    assert [run.row["capture_hash"] for run in again] == [
        run.row["capture_hash"] for run in (reno, cubic)
    ]


PAGE = ("web", "http=3", "vpn=none", "pep=none", "loads=1")
WAYS_OF_HTTP = [
    ("transfer_time_s", ("geo", *SENT, "quic=quic_go", "direction=upload")),
    *(("page_load_time_s", (*PAGE, f"quic={stack}")) for stack in STACKS),
]


@pytest.mark.parametrize(("measure", "sent"), WAYS_OF_HTTP if IS_BUILT else [])
def test_a_stack_sends_uploads_and_pages(
    run_cells: RunCells, measure: str, sent: tuple[str, ...]
) -> None:
    cells = (*sent, "cc=reno,cubic", "loss=1")
    reno, cubic = run_cells(*cells)
    assert abs(float(reno.row[measure]) - float(cubic.row[measure])) > 0.1
    again = [run.row["capture_hash"] for run in run_cells(*cells, again=1)]
    assert again == [run.row["capture_hash"] for run in (reno, cubic)]


@pytest.mark.parametrize(
    ("stack", "direction"),
    [*((stack, "download") for stack in STACKS), ("quic_go", "upload")] if IS_BUILT else [],
)
def test_a_stack_fills_a_clean_link_as_tcp_does(
    run_cells: RunCells, stack: str, direction: str
) -> None:
    cells = ("geo", "vpn=none", "cc=cubic", "loss=0", "size=30M", f"direction={direction}")
    (tcp,) = run_cells(*cells)
    (quic,) = run_cells(*cells, "http=3", f"quic={stack}")
    # TCP's time counts from the end of its handshake, of 0.5 s.
    assert float(quic.row["transfer_time_s"]) < float(tcp.row["transfer_time_s"]) / 0.8


def with_hostile(place: Path, count: int, idle: int) -> Path:
    """The scenario geo_loss with hostile connections after its download: its file, made in `place`."""
    scenario = json.loads((REPOSITORY / "scenarios/geo_loss.json").read_text())
    functions = scenario["openbach_functions"]
    (download,) = [function["id"] for function in functions if function.get("label") == "download"]
    (end,) = [one for one in functions if download in one["wait"]["finished_ids"]]
    server, client = len(functions), len(functions) + 1
    functions.append(started(server, "server", {"server": {}}, launched=[download]))
    asked = {"server_ip": "$server_ip", "count": count, "idle": idle}
    functions.append(started(client, "pc", {"client": asked}, finished=[download]))
    end["wait"]["finished_ids"].append(client)
    end["stop_job_instances"]["openbach_function_ids"].insert(0, server)
    path = place / "hostile.json"
    path.write_text(json.dumps(scenario))
    return path


def with_memory(place: Path, *hosts: str, memory_mb: int) -> Path:
    """The inventory with memory for the programs of hosts: its file, made in `place`."""
    text = (REPOSITORY / "inventory.yml").read_text()
    for host in hosts:
        text = text.replace(
            f"        {host}:\n", f"        {host}:\n          satvpn_memory_mb: {memory_mb}\n"
        )
    path = place / "inventory.yml"
    path.write_text(text)
    return path


def started(
    number: int,
    host: str,
    arguments: dict[str, object],
    launched: list[int] | None = None,
    finished: list[int] | None = None,
) -> dict[str, object]:
    return {
        "id": number,
        "label": "hostile",
        "wait": {"time": 0, "launched_ids": launched or [], "finished_ids": finished or []},
        "on_fail": {},
        "start_job_instance": {"entity_name": f"satvpn_{host}", "hostile": arguments},
    }
