# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign as a whole: the same twice, and the same however often it was killed on its way."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.guest_runs import REPOSITORY, command, rows

KILLS = 10
RUNS = 40
CAMPAIGN = """
seeds: 5
scenarios:
  - scenario: geo_loss
    values: &values {vpn: [none, wireguard], cc: [cubic, bbr], loss: [1], size: [300k]}
  - scenario: leo_loss
    values: *values
"""


@pytest.fixture(scope="module")
def campaign_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("campaign") / "small.yml"
    file.write_text(CAMPAIGN)
    return file


@pytest.fixture(scope="module")
def undisturbed(campaign_file: Path) -> Path:
    results = campaign_file.parent / "undisturbed"
    done = command(str(campaign_file), "--results", str(results))
    assert done.returncode == 0, done.stderr
    return results


@pytest.mark.nightly  # with two whole reports
def test_the_same_campaign_twice_gives_the_same_results_and_report(
    campaign_file: Path, undisturbed: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    assert command(str(campaign_file), "--results", str(again), "--workers", "1").returncode == 0
    assert len(rows(again)) == RUNS
    assert rows(again) == rows(undisturbed)
    reports = [tmp_path / "report", tmp_path / "report again"]
    for results, report in zip((undisturbed, again), reports, strict=True):
        done = command("report", str(results), "-o", str(report))
        assert done.returncode == 0, done.stderr
    first, second = ((report / "report.md").read_text().splitlines() for report in reports)
    assert [
        pair
        for pair in zip(first, second, strict=True)
        if pair[0] != pair[1] and "cells," not in pair[0]
    ] == []
    figures = sorted(file.name for file in (reports[0] / "figures").iterdir())
    assert figures
    assert all(
        (reports[0] / "figures" / one).read_bytes() == (reports[1] / "figures" / one).read_bytes()
        for one in figures
    )


def test_killed_at_ten_random_moments_and_resumed_it_ends_the_same(
    campaign_file: Path, undisturbed: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    generator = random.Random(1)
    for _ in range(KILLS):
        records = len(list(results.glob("runs/*/record.json")))
        kill_after(
            campaign_file, results, records + generator.randrange(4), generator.uniform(0, 0.5)
        )
    assert 0 < len(list(results.glob("runs/*/record.json"))) < RUNS, "no kill came in mid campaign"
    assert command(str(campaign_file), "--results", str(results)).returncode == 0
    assert rows(results) == rows(undisturbed)
    assert sorted(file.name for file in (results / "runs").iterdir()) == sorted(
        row["run_id"] for row in rows(results)
    )


def kill_after(campaign_file: Path, results: Path, records: int, further_s: float) -> None:
    """Starts the campaign and kills it (-9) some time after so many records are there."""
    words = (str(campaign_file), "noise=off", "--results", str(results))  # as `undisturbed`
    with subprocess.Popen(
        [sys.executable, "-m", "openbach_run", *words],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as campaign:
        end = time.monotonic() + 120
        while len(list(results.glob("runs/*/record.json"))) < records:
            assert campaign.poll() is None, "the campaign ended before it was killed"
            assert time.monotonic() < end, f"{records} records did not come in 120 s"
            time.sleep(0.02)
        try:
            campaign.wait(further_s)
        except subprocess.TimeoutExpired:
            campaign.kill()
        assert campaign.wait() == -9
