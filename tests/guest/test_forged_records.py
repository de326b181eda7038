# SPDX-License-Identifier: GPL-3.0-or-later
"""A job that is root in its guest tries to forge its run's record, and that of another run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from helpers.scenario_with import ran, with_snapshot

from openbach_run.engine.virtual.engine import GUEST_START_NS
from openbach_run.guest.main import BEGIN_NS
from openbach_run.results.captures import KIND, hash_of_packets, packets
from openbach_run.results.record import SAID_BY_GUEST, SOURCES

CELL = ("vpn=none", "pep=none", "cc=cubic", "loss=0", "size=1k")
FORGED = {
    "capture_hash": "f" * 64,
    "wall_s": 1e-6,
    "last_packet_s": 123456.0,
    "exit": "forged",
    "seed": 99,
}
"""What the job writes wherever it can."""

FORGE = """
import json, os
forged = {"run_id": "f" * 16, "scenario": "forged", "arguments": {}, "status": "Finished Ok",
          "virtual_s": 123456.0, "command": "rm -rf /", "failed": [], "identity": {}, "host": {},
          "measures": {"transfer_time_s": 0.001}, **FORGED}
names = ("record.json", "record.json.new", "result.json", "run.json", "files.tar.gz", "events.jsonl.gz")

def put(name, text, mode="w"):
    try:
        with open(name, mode) as file:
            file.write(text)
    except OSError:
        pass

own = "/run/openbach"
for folder in (own, f"{own}/..", f"{own}/../HONEST", f"{own}/runs/HONEST"):
    for name in names:
        put(f"{folder}/{name}", json.dumps(forged))
put("/proc/1/fd/1", "[    9.000000] reboot: forged\\n")
metadata = {"time": 1767225600000, "job_name": "file_transfer", "agent_name": "satvpn_pc",
            "job_instance_id": 1, "scenario_instance_id": 1}
with open(f"{own}/statistics.jsonl", "a") as file:
    for _ in range(5):
        file.write(json.dumps({"transfer_time_s": 0.001, "_metadata": metadata}) + "\\n")
"""
SPOIL = """
with open(f"{own}/capture.pcapng", "r+b") as file:  # beyond what the host writes
    file.seek(1 << 24)
    file.write(b"forged")
"""
POWER_OFF = """
import ctypes
with open(f"{own}/events.jsonl", "w") as file:  # the director would write on over it
    file.write(json.dumps({"t_s": 99999.0, "event": "heartbeat"}) + "\\n")
ctypes.CDLL(None).reboot(0x4321FEDC)
"""


def forging(honest: Path) -> str:
    return f"FORGED = {FORGED!r}\n" + FORGE.replace("HONEST", honest.name)


def written(run_dir: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run_dir / "record.json").read_text())
    return content


def run_of(place: Path, results: Path, code: str, *options: str) -> Path:
    """The directory of the run in whose guest a job runs the code, as the download begins."""
    place.mkdir()
    words = f"python3 -c {shlex.quote(code)}"
    scenario = with_snapshot(place, ("server", 1, words))
    run = ran(scenario, results, *CELL, "--seeds", "1,", "--quiet", *options)
    return results / "runs" / run.row["run_id"]


def content(place: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(place)): file.read_bytes()
        for file in sorted(place.rglob("*"))
        if file.is_file()
    }


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("honest")
    return run_of(place / "scenario", place / "results", "pass")


@pytest.mark.parametrize("capture_too", [False, True], ids=["records", "capture too"])
def test_a_job_changes_nothing_that_the_host_measures(
    tmp_path: Path, honest: Path, capture_too: bool
) -> None:
    """The record has the hash of the packets, also where the job has spoilt the file.

    What the job has said of another one is there as said.
    """
    results, before = honest.parent.parent, content(honest)
    code = forging(honest) + (SPOIL if capture_too else "")
    forged = run_of(tmp_path / "scenario", results, code, "--pcap")
    assert content(honest) == before
    was, now = written(honest), written(forged)
    host, capture = now["host"], forged / "capture.pcapng"
    is_whole = blake3(capture.read_bytes()).hexdigest() == host["capture_blake3"]
    assert is_whole is not capture_too
    if is_whole:
        assert host["capture_bytes"] == capture.stat().st_size
        assert hash_of_packets(capture) == now["capture_hash"]
        *_, last = packets(capture)
        assert host["last_packet_s"] * 1e9 == pytest.approx(
            last.time_ns - GUEST_START_NS - BEGIN_NS, abs=1000
        )
    assert host["exit"] == was["host"]["exit"] == "exit code 0"
    assert 1 < host["last_packet_s"] <= now["virtual_s"] + 1
    assert now["virtual_s"] == pytest.approx(was["virtual_s"], abs=1)  # the director's own
    assert 0.01 < now["wall_s"] < 600
    assert now["run_id"] == forged.name
    for name in ("scenario", "arguments", "seed"):
        assert now[name] == was[name], name
    assert re.fullmatch(f"{KIND}[0-9a-f]{{32}}", now["capture_hash"])
    assert now["capture_hash"] != FORGED["capture_hash"]
    assert now["measures"]["transfer_time_s"] == 0.001 != was["measures"]["transfer_time_s"]
    assert now[SOURCES] == was[SOURCES] == list(SAID_BY_GUEST)
    assert "measures" in now[SOURCES]


def test_a_job_that_ends_its_guest_has_said_what_is_in_the_record(
    tmp_path: Path, honest: Path
) -> None:
    """Status and virtual time are its word then, and are named so. The host has measured others."""
    code = forging(honest) + POWER_OFF
    now = written(run_of(tmp_path / "scenario", tmp_path / "results", code))
    assert (now["status"], now["virtual_s"]) == ("Finished Ok", 123456.0)
    assert {"status", "virtual_s"} <= {*now[SOURCES]}
    assert {"wall_s", "capture_hash", "host"}.isdisjoint(now[SOURCES])
    assert 0 < now["host"]["last_packet_s"] < 60
    assert now["host"]["exit"] == "exit code 0"
    assert re.fullmatch(f"{KIND}[0-9a-f]{{32}}", now["capture_hash"])
    assert now["capture_hash"] != FORGED["capture_hash"]
    assert 0.01 < now["wall_s"] < 600
    assert now["seed"] == 1
