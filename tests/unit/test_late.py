# SPDX-License-Identifier: GPL-3.0-or-later
"""An event that comes after the end: refused before the run where the end is known, else said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.records import RECORD, write_statistics

from openbach_run.campaign.late import late
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.reading import plan
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import load_packages

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])


def campaign(scenario: str, *settings: str) -> Campaign:
    return plan(ROOT / f"scenarios/{scenario}.yml", settings, None, PACKAGES)


@pytest.mark.parametrize(
    ("scenario", "settings", "said"),
    [
        ("multipath", "event=none,drop duration_s=20", "event_after_s=20: the test has ended"),
        ("multipath", "event_after_s=60", "with duration_s=60, event=drop"),
        ("multipath_udp", "duration_s=5", "event_after_s=20"),
        ("lan_reconnect", "pings=100", "event_after_s=10: no ping is sent after it"),
        ("lan_reconnect", "event=address event_after_s=200", "event_after_s=200"),
        ("leo_reconnect", "event=none,down ping_s=0.01", "event_after_s=20"),
    ],
)
def test_an_event_after_the_end_is_refused(scenario: str, settings: str, said: str) -> None:
    """F7: multipath of 20 s with the default event after 20 s ran, and called it an event."""
    with pytest.raises(InputError, match=said):
        campaign(scenario, "vpn=none", *settings.split())


@pytest.mark.parametrize(
    ("scenario", "settings"),
    [
        ("multipath", "event=none duration_s=20"),
        ("multipath", "duration_s=20 event_after_s=19"),
        ("lan_reconnect", "event=none pings=10"),
        ("leo_reconnect", "event=drop"),
    ],
)
def test_no_event_and_one_before_the_end_are_taken(scenario: str, settings: str) -> None:
    assert campaign(scenario, "vpn=none", *settings.split()).cells


def ping(**sent: Any) -> dict[str, Any]:
    return {"_metadata": {"job_name": "ping_series", "time": 50_000}, **sent}


def outage(time_ms: int) -> dict[str, Any]:
    return {"_metadata": {"job_name": "outage", "time": time_ms}, "began": 1}


@pytest.mark.parametrize(
    ("event", "sent", "is_said"),
    [
        ("drop", [outage(40_000)], False),
        ("drop", [outage(50_000)], True),
        ("drop", [], True),
        ("none", [], False),
    ],
)
def test_an_event_that_did_not_come_in_time_is_said_below_the_table(
    event: str, sent: list[dict[str, Any]], is_said: bool, tmp_path: Path
) -> None:
    """What ends by itself, as a transfer of a size, may end before the event."""
    planned = campaign("lan_reconnect", "vpn=none", f"event={event}")
    one = replace(RECORD, scenario="lan_reconnect", arguments=planned.cells[0])
    (tmp_path / one.run_id).mkdir()
    write_statistics(tmp_path / one.run_id, [*sent, ping(longest_gap_s=0.1)])
    assert bool(late(planned, [one], tmp_path)) is is_said


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("link_file", "time_s,rate_bps,delay_ms\n0,10000000,250\n{},5000000,250\n", ""),
        ("es_n0_file", "time_s,terminal,es_n0_db\n0,all,10\n{},all,5\n", " forward=dvbs2"),
    ],
)
def test_a_link_that_would_have_changed_later_is_said(
    name: str, text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "fade.csv"
    file.write_text(text.format(30))
    orbit = "orbit=geo_dvbs2" if said else "orbit=geo"
    planned = campaign("geo", "vpn=none", "cc=cubic", orbit, f"{name}={file}")
    short = replace(RECORD, arguments=planned.cells[0])
    (note,) = late(planned, [short, replace(short, virtual_s=31.0)], tmp_path)
    assert f"1 of 2 runs with {name}={file} had ended before its first change, at 30 s" in note
    assert not late(planned, [replace(short, virtual_s=31.0)], tmp_path)
    by_seed = replace(short, measures={"link_start_s": 17.0})
    assert not late(planned, [by_seed], tmp_path), "its file began elsewhere"


def test_the_link_file_of_a_satellite_is_one_too(tmp_path: Path) -> None:
    file = tmp_path / "fade.csv"
    file.write_text("time_s,rate_bps,delay_ms\n0,10000000,250\n30,5000000,250\n")
    planned = campaign("geo", "vpn=none", "cc=cubic", "size=1M")
    planned = replace(planned, presets={"geo": planned.presets["geo"]._replace(link_file=file)})
    (note,) = late(planned, [replace(RECORD, arguments=planned.cells[0])], tmp_path)
    assert "1 of 1 runs with orbit=geo had ended before its first change" in note
