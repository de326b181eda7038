# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario of a user's own, in a folder outside the checkout.

The one of docs/scenarios.md, by its commands.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from helpers import own_files
from helpers.guest_runs import command, records

MOST_LINES = 40


def test_a_scenario_outside_the_checkout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = own_files.write("scenarios.md", tmp_path)
    lines = file.read_text().count("\n")
    with capsys.disabled():
        print(f"\nlines of a scenario of one's own: {lines}")
    assert lines <= MOST_LINES
    said = []
    for line in own_files.commands("scenarios.md"):
        done = command(*shlex.split(line)[1:], cwd=tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        said.append(done.stdout)
    checked, table, *_ = said
    assert "accepted: " in checked and ", 0 warnings" in checked
    assert "upload: " in table and "wireguard" in table
    swept = records(tmp_path / "results/upload")
    assert {run.row["streams"] for run in swept} == {
        "1",
        "2",
        "4",
    }, "results.csv has what all commands asked for"
    assert all(float(run.row["ping_rtt_ms"]) > 30 for run in swept)
    by_id = {
        one["arguments"]["vpn"]: one
        for one in map(
            json.loads,
            (file.read_text() for file in tmp_path.glob("results/upload/runs/*/record.json")),
        )
        if one["arguments"]["streams"] == "2" and one["arguments"]["pep"] == "none"
    }
    assert by_id.keys() == {"none", "wireguard"}
    least_s = 5_000_000 * 8 / 10e6
    assert all(least_s < one["measures"]["transfer_time_s"] < 2 * least_s for one in by_id.values())
    assert (
        by_id["wireguard"]["measures"]["transfer_time_s"]
        > by_id["none"]["measures"]["transfer_time_s"]
    )
    imported = json.loads((tmp_path / "mine/upload.json").read_text())
    assert imported["name"] == "upload" and len(imported["arguments"]) <= 6
