# SPDX-License-Identifier: GPL-3.0-or-later
"""The packets of reports/ are those of today: samples of each report's runs are made again."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.guest_runs import command, hash_of_before, records
from helpers.vpns_tested import VPNS

from openbach_run.report.runs_file import read
from openbach_run.results.captures import KIND
from openbach_run.results.record import FINISHED, Record

pytestmark = pytest.mark.nightly
REPORTS = Path(__file__).resolve().parents[2] / "reports"
NAMES = sorted(file.parent.name for file in REPORTS.glob("*/results.parquet"))
MOST = 4
"""How many runs of each scenario are made again, each with another VPN, the shortest first."""


def samples(name: str) -> list[Record]:
    """Return the shortest runs of each scenario, each with another VPN of those tested here."""
    chosen: dict[str, dict[str, Record]] = {}
    for run in sorted(read(REPORTS / name / "results.parquet")[1], key=lambda one: one.wall_s):
        vpn = run.arguments.get("vpn", "none")
        if vpn in ("none", *VPNS) and run.status == FINISHED:
            of_scenario = chosen.setdefault(run.scenario, {})
            if len(of_scenario) < MOST:
                of_scenario.setdefault(vpn, run)
    return [run for of_scenario in chosen.values() for run in of_scenario.values()]


@pytest.mark.parametrize("name", NAMES)
def test_a_report_has_the_packets_of_today(name: str, tmp_path: Path) -> None:
    chosen = samples(name)
    assert chosen, "no run of it is tested"
    moved = []
    for number, run in enumerate(chosen):
        values = [f"{argument}={value}" for argument, value in run.arguments.items() if value]
        results = tmp_path / str(number)
        words = (run.scenario, *values, "--seeds", f"{run.seed},", "--results", str(results))
        words += () if run.capture_hash.startswith(KIND) else ("--pcap",)
        done = command(*words)
        assert done.returncode == 0, done.stderr
        (again,) = records(results)
        now = again.row["capture_hash"] if "--pcap" not in words else hash_of_before(again.capture)
        if not now.startswith(run.capture_hash):  # of before: the first 128 bits of 256
            moved.append(" ".join(words))
    assert not moved, "other packets today: make reports"
