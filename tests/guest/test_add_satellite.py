# SPDX-License-Identifier: GPL-3.0-or-later
"""Satellites of a user's own, in a folder outside the checkout.

Those of docs/satellites.md, by its commands.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from helpers import own_files
from helpers.guest_runs import command, records

MOST_LINES = 40


def test_satellites_outside_the_checkout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values, trace, asked_for = own_files.write("satellites.md", tmp_path)
    lines = [file.read_text().count("\n") for file in (values, trace, asked_for)]
    with capsys.disabled():
        print(
            f"\nlines of a satellite of one's own: {lines[0]} as values, {lines[1]} as a link file"
        )
    assert max(lines) <= MOST_LINES
    tables = []
    for line in own_files.commands("satellites.md"):
        done = command(*shlex.split(line)[1:], cwd=tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        tables.append((done.stdout, records(tmp_path / "results/geo")))
    (first, by_orbit), (second, by_way), (checked, _), *of_dama = tables
    assert len(of_dama) == 3
    for table, runs in of_dama:
        assert "transfer time" in table
        asking = [run.row for run in runs if run.row["orbit"] == "vsat"]
        assert {row["access"] for row in asking} >= {"dama"}
        assert all(int(row["terminal_0_requests"]) > 0 for row in asking if row["access"] == "dama")
    assert all(
        f"orbit={name}" in first or f"\n{name} " in first for name in ("geo", "kaband", "measured")
    )
    assert "upload" in second and "0.2 % lost" not in checked and "mean RTT" in checked
    link = {run.row["orbit"]: run for run in by_orbit}
    asked = {
        one["_metadata"]["suffix"]: one
        for one in link["kaband"].statistics("satcom_link")
        if "asked_rate_bps" in one
    }
    assert [asked[way]["asked_rate_bps"] for way in ("forward", "return")] == [20e6, 2e6]
    assert [asked[way]["asked_loss_pct"] for way in ("forward", "return")] == [
        pytest.approx(0.1),
        0,
    ]
    assert {one["buffer_bytes"] for one in asked.values()} == {300_000}
    names = ("rate", "return_rate", "delay_ms", "loss", "return_loss", "buffer", "buffer_bdp")
    assert [link["kaband"].row[name] for name in names] == [
        "20M",
        "2M",
        "265",
        "0.1",
        "0",
        "300kB",
        "none",
    ]
    assert [link["measured"].row[name] for name in names] == [
        "none",
        "none",
        "none",
        "0",
        "same",
        "none",
        "1",
    ]
    time_s = {
        (run.row["direction"], run.row["terrestrial_ms"]): float(run.row["transfer_time_s"])
        for run in by_way
    }
    assert time_s["upload", "0"] > 1e6 * 8 / 2e6 > time_s["download", "0"]
    assert time_s["download", "20"] > time_s["download", "0"]
