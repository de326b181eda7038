# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario that starts others gives, cell by cell, what these give alone.

Each cell leaves the hosts as it found them.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from helpers.guest_runs import REPOSITORY, RunCells, command

from openbach_run.results import record, run_files

SCENARIOS = REPOSITORY / "scenarios"
CELLS = {"vpn": ["none", "wireguard"], "cc": ["cubic", "bbr"], "loss": ["0"]}


def test_a_table_in_one_run(run_cells: RunCells, tmp_path: Path) -> None:
    swept = "".join(f"  {name}: [{', '.join(values)}]\n" for name, values in CELLS.items())
    (tmp_path / "geo_loss.yml").write_text(
        f"inherits: {SCENARIOS / 'geo_loss.yml'}\nsweep:\n{swept}"
    )
    (tmp_path / "geo_loss_table.yml").write_text("table_of: geo_loss.yml\n")
    results = tmp_path / "results"
    done = command(str(tmp_path / "geo_loss_table.yml"), "size=1M", "--results", str(results))
    assert done.returncode == 0, done.stderr
    with (results / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    alone = run_cells("geo_loss", "vpn=none,wireguard", "cc=cubic,bbr", "loss=0", "size=1M")
    assert [(row["vpn"], row["cc"]) for row in rows] == [
        (run.row["vpn"], run.row["cc"]) for run in alone
    ]
    assert len({row["run_id"] for row in rows}) == 1
    # The scenario's last job has read the same, from what the others have sent.
    run_dir = results / "runs" / rows[0]["run_id"]
    (place,) = (
        one["table_csv"] for one in record.statistics(run_dir) if one["_metadata"]["is_file"]
    )
    stored = run_files.content(run_dir, place.removeprefix("/run/openbach/")).decode()
    made = list(csv.DictReader(io.StringIO(stored)))
    for row, cell in zip(rows, made, strict=True):
        assert (row["vpn"], row["cc"], row["loss"]) == (cell["vpn"], cell["cc"], cell["loss"])
        assert float(cell["median_transfer_time_s"]) == float(row["transfer_time_s"])
    for row, run in zip(rows, alone, strict=True):
        assert row["status"] == "Finished Ok"
        assert float(row["transfer_time_s"]) == pytest.approx(
            float(run.row["transfer_time_s"]), rel=0.01
        ), row
