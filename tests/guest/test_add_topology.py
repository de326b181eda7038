# SPDX-License-Identifier: GPL-3.0-or-later
"""A topology of a user's own, in a folder outside the checkout.

The one of docs/topologies.md, by its commands.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from helpers import own_files, pcapng
from helpers.guest_runs import command, records

MOST_LINES = 40


def test_a_topology_outside_the_checkout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology, scenario = own_files.write("topologies.md", tmp_path)
    lines = [file.read_text().count("\n") for file in (topology, scenario)]
    with capsys.disabled():
        print(f"\nlines of a topology of one's own: {lines[0]}, of a scenario for it: {lines[1]}")
    assert sum(lines) <= MOST_LINES
    own = [line for line in own_files.commands("topologies.md") if "mine" in line]
    assert len(own) == 2
    for line in own:
        done = command(*shlex.split(line)[1:], cwd=tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        assert "small: transfer time (s)" in done.stdout
    # The second command's runs stand first; those of the first one stay.
    small, large = records(tmp_path / "results/small")[:2]
    assert 0.5 < float(small.row["transfer_time_s"]) < float(large.row["transfer_time_s"]), (
        "as over GEO"
    )


def test_the_inventory_is_found_by_its_name(tmp_path: Path) -> None:
    topology, _ = own_files.write("topologies.md", tmp_path)
    topology.with_name("other.yml").write_text(topology.read_text().replace("10.0.2.", "172.30.0."))
    named = ["small", "--with", "mine", "size=100k", "--pcap"]
    done = command(*named, "--inventory", "other", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = records(tmp_path / "results/small")
    sources = {
        packet.ip[12:16]
        for packet in pcapng.read(run.capture)
        if packet.ip and packet.interface == "server/to_sat"
    }
    assert bytes([172, 30, 0, 2]) in sources and bytes([10, 0, 2, 2]) not in sources
