# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of a scenario that only starts others counts as a run of each of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from helpers.records import OURS, RECORD

from openbach_run.campaign.model import Campaign
from openbach_run.campaign.sub_runs import failed_parts, unfold, unfold_all, unfold_campaign
from openbach_run.engine.contract import COMPLAINED
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.measures import to_records
from openbach_run.openbach.reading import parse_scenario
from openbach_run.paths import REPOSITORY

JOBS = {name: package.job for name, package in load_packages([REPOSITORY / "jobs"]).items()}
PARENT = replace(
    RECORD,
    scenario="both",
    arguments={"size": "1M"},
    seed=3,
    measures={},
    declared=to_records(OURS),
)


def event(t_s: int, name: str, instance: int, **more: object) -> dict[str, Any]:
    return {"t_s": t_s, "event": name, "scenario_instance_id": instance, **more}


EVENTS = [
    event(0, "scenario_started", 1, scenario="both", arguments={"size": "1M"}),
    event(0, "scenario_started", 2, scenario="one", parent_id=1, arguments={"cc": "bbr"}),
    event(1, "job_started", 2, job="file_transfer"),
    event(12, "scenario_ended", 2, status="Finished Ok"),
    event(20, "scenario_started", 3, scenario="one", parent_id=1, arguments={"cc": "cubic"}),
    event(21, "scenario_ended", 3, status="Finished Ko"),
]


def write(folder: Path, name: str, lines: list[dict[str, Any]]) -> None:
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def transfer(instance: int, time_s: float) -> dict[str, Any]:
    return {
        "transfer_time_s": time_s,
        "_metadata": {"job_name": "file_transfer", "scenario_instance_id": instance},
    }


def run(folder: Path) -> Path:
    place = folder / PARENT.run_id
    place.mkdir()
    write(place, "events.jsonl", EVENTS)
    write(place, "statistics.jsonl", [transfer(2, 10.0)])
    return place


def test_each_sub_scenario_has_its_record(tmp_path: Path) -> None:
    first, second = unfold(PARENT, run(tmp_path))
    assert (first.scenario, first.arguments, first.status, first.virtual_s) == (
        "one",
        {"cc": "bbr"},
        "Finished Ok",
        12,
    )
    assert first.measures["transfer_time_s"] == 10.0
    assert second.status == "Finished Ko"
    assert second.measures == {}
    assert first.seed == second.seed == 3


def test_a_sub_scenario_that_failed_is_told_although_its_parent_has_finished(
    tmp_path: Path,
) -> None:
    """OpenBACH's policy: the parent is Finished Ok. Its command has a reason and exits with 1."""
    place = run(tmp_path)
    failed = {
        "job": "time_series",
        "entity": "pc",
        "instance_id": 9,
        "scenario_instance_id": 3,
        "status": "Error",
        "exit_code": 1,
        "last_lines": ["sent nothing"],
    }
    (place / "result.json").write_text(json.dumps({"failed": [failed]}))
    (part,) = failed_parts([PARENT], tmp_path)
    assert part.error == "job time_series on pc: Error, exit code 1\n    sent nothing"
    assert part.arguments == {"cc": "cubic"}
    assert unfold(PARENT, place)[0].error is None
    assert not failed_parts([replace(PARENT, status="Finished Ko")], tmp_path)


def test_constants_of_sub_scenarios_are_columns(tmp_path: Path) -> None:
    """As the parent's run was given them; its events name arguments only."""
    place = run(tmp_path)
    (place / "run.json").write_text(json.dumps({"arguments": {"size": "1M"}}))
    parent = replace(PARENT, arguments={"size": "1M", "rate": "20M"})
    assert [part.arguments for part in unfold(parent, place)] == [
        {"cc": "bbr", "rate": "20M"},
        {"cc": "cubic", "rate": "20M"},
    ]


def test_none_has_finished_well_when_the_kernel_complained(tmp_path: Path) -> None:
    complained = replace(
        PARENT, status=COMPLAINED, error="the guest's kernel complained: WARNING: …"
    )
    assert {part.status for part in unfold(complained, run(tmp_path))} == {COMPLAINED}


def test_a_run_with_jobs_of_its_own_stays(tmp_path: Path) -> None:
    place = run(tmp_path)
    write(
        place,
        "events.jsonl",
        [
            *EVENTS,
            {"t_s": 22, "event": "job_started", "scenario_instance_id": 1, "job": "file_transfer"},
        ],
    )
    assert unfold(PARENT, place) == [PARENT]


def test_the_job_that_makes_a_platforms_table_is_none_of_a_runs_own(tmp_path: Path) -> None:
    place = run(tmp_path)
    made = event(22, "job_started", 1, job="transfer_table")
    write(place, "events.jsonl", [*EVENTS, made])
    assert [part.scenario for part in unfold(PARENT, place)] == ["one", "one"]


def test_a_run_without_events_stays(tmp_path: Path) -> None:
    assert unfold(PARENT, tmp_path) == [PARENT]


def test_the_campaign_is_that_of_the_scenario_started(tmp_path: Path) -> None:
    run(tmp_path)
    sub = parse_scenario({"name": "one", "openbach_functions": []}, {})
    functions = [
        {"id": 0, "start_scenario_instance": {"scenario_name": "one", "arguments": {"cc": "bbr"}}},
        {
            "id": 1,
            "start_job_instance": {"entity_name": "pc", "transfer_table": {"scenarios": [[[0]]]}},
        },
    ]
    parent = parse_scenario({"name": "both", "openbach_functions": functions}, JOBS)
    records = unfold_all([PARENT], tmp_path)
    campaign = unfold_campaign(
        Campaign(tmp_path, parent, {"one": sub}, {"size": ("1M",)}, (3,)), records
    )
    assert campaign.scenario is sub
    assert campaign.values == {"cc": ("bbr", "cubic")}
    assert len(records) == 2
