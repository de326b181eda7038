# SPDX-License-Identifier: GPL-3.0-or-later
"""The noise of hosts in a run: how late packets are, and that neither order nor rate changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.guest_runs import Run, command, records

LATE_MS = 1.0
HOSTS = 3
"""That a ping over the LAN reaches: two forward it, one takes it.

Of the answer, Linux notes for ping when it has arrived, not when it is taken.
"""


def runs(results: Path, *words: str) -> dict[str, Run]:
    """The runs of a command by their noise."""
    ended = command(*words, "--seeds", "1", "--results", str(results))
    assert ended.returncode == 0, ended.stderr
    return {run.row["noise"]: run for run in records(results)}


@pytest.fixture
def always(tmp_path: Path) -> str:
    """The file of a noise that is LATE_MS each time."""
    file = tmp_path / "always.json"
    file.write_text(json.dumps({"receive_us": [[0, 1e3 * LATE_MS]], "timer_us": [[0, 0]]}))
    return str(file)


def test_each_host_of_the_way_adds_its_time(tmp_path: Path, always: str) -> None:
    words = ("lan_ping", "vpn=none", "pings=20", f"noise=off,{always}")
    found = runs(tmp_path / "results", *words)
    off_ms, late_ms = (float(found[one].row["ping_rtt_ms"]) for one in ("off", always))
    assert abs(late_ms - off_ms - HOSTS * LATE_MS) < 0.01


def test_packets_keep_their_order_and_the_link_its_rate(tmp_path: Path) -> None:
    found = runs(tmp_path, "geo", "vpn=none", "cc=cubic", "loss=0", "size=300k", "noise=off,host")
    off, host = (found[one] for one in ("off", "host"))
    assert off.row["capture_hash"] != host.row["capture_hash"]
    assert off.row["retransmits"] == host.row["retransmits"] == "0"
    off_s, host_s = (float(one.row["transfer_time_s"]) for one in (off, host))
    assert 0 < host_s - off_s < 0.01 * off_s


def test_typed_commands_have_the_noise_too(tmp_path: Path, always: str) -> None:
    words = ("exec", "lan_ping", "vpn=none", f"noise={always}", "-o", str(tmp_path / "exec"))
    ended = command(*words, "--", "pc_1", "ping -c 5 -q pc_2")
    assert ended.returncode == 0, ended.stderr
    assert f"= {HOSTS * LATE_MS + 0.6:.3f}/" in ended.stdout
