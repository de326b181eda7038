# SPDX-License-Identifier: GPL-3.0-or-later
"""Titles and units of arguments: they stand with the arguments, in a scenario's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.fake_engine import Transfers

from openbach_run.campaign import engines
from openbach_run.commands.main import main
from openbach_run.openbach.expand import expand
from openbach_run.openbach.titles import own_titles, titles_of, titles_of_ours
from openbach_run.paths import SCENARIOS
from openbach_run.report import words

SHIP = """\
inherits: parts/download.yml
description: Transfer time on a ship
arguments:
  size: {title: payload, text: Bytes to download}
constants:
  depth_m: {value: 1, title: depth of the sea, unit: m, text: Depth below the ship in m}
  pause_s: {value: 1, text: Seconds between two pings}
functions:
  pings:
    on: pc
    finished: path ready
    ping_series: {interval_s: $pause_s, destination_ip: $server_ip, count: $depth_m}
values: {cc: cubic, loss: 0, vpn: none}
sweep: {depth_m: [1, 2]}
plot: {measure: transfer_time_s, figure: measures}
"""


@pytest.fixture
def ship(tmp_path: Path) -> Path:
    """Return the file of a user's own scenario."""
    file = tmp_path / "mine/scenarios/ship.yml"
    file.parent.mkdir(parents=True)
    file.write_text(SHIP)
    return file


def test_a_name_has_one_title_in_all_scenarios_of_the_checkout() -> None:
    for file in SCENARIOS.glob("*.yml"):
        for name, title in titles_of(file).items():
            assert titles_of_ours()[name] == title, f"{file.name}: {name}"
        assert own_titles(file) == {}


def test_the_json_of_openbach_has_the_text_alone(ship: Path) -> None:
    scenario = expand(ship)
    assert scenario["arguments"]["size"] == "Bytes to download"
    assert scenario["x-constants"]["depth_m"] == "Depth below the ship in m"
    assert "depth of the sea" not in json.dumps(scenario)


def test_an_own_title_counts_before_the_checkouts_and_only_where_it_is_asked_for(
    ship: Path,
) -> None:
    assert own_titles(ship).keys() == {"size", "depth_m"}
    with words.with_titles(own_titles(ship)):
        assert words.heading("depth_m") == "depth of the sea (m)"
        assert words.value_of("depth_m", "40") == "40 m"
        assert words.argument("size") == "payload"
        assert words.value_of("size", "3M") == "3 MB", "its unit is still the checkout's"
        assert words.argument("pause_s") == "pause", "by its name"
    assert words.argument("size") == "size" and words.argument("depth_m") == "depth m"


def test_a_report_has_the_titles_of_a_users_arguments(
    ship: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engines, "VirtualEngine", Transfers().engine)
    results, report, again = (tmp_path / name for name in ("results", "report", "again"))
    assert main([str(ship), "--seeds", "2", "--results", str(results), "--quiet"]) == 0
    asked = json.loads((results / "campaign.json").read_text())
    assert asked["titles"]["depth_m"] == {"title": "depth of the sea", "unit": "m"}
    assert main(["report", str(results), "-o", str(report)]) == 0
    assert "depth of the sea 1 m" in (report / "report.md").read_text()
    # Also where nothing but the table of the runs is left.
    assert main(["report", str(report / "results.parquet"), "-o", str(again)]) == 0
    assert "depth of the sea 1 m" in (again / "report.md").read_text()
    capsys.readouterr()
    assert main([str(ship), "--help"]) == 0
    assert "Depth below the ship in m [depth of the sea, m]" in capsys.readouterr().out
