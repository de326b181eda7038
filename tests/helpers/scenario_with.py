# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenarios of a test's own, with the jobs of tests/guest/jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from helpers.guest_runs import REPOSITORY, Run, command, records

TEST_JOBS = REPOSITORY / "tests/guest/jobs"
Snapshot = tuple[str, int, str]
"""Host, seconds after the download has begun, shell command; what it prints is the statistic
`printed`."""


class Job(NamedTuple):
    """A job on a host, and the jobs that it waits for.

    Before it is launched, those with the numbers `launched` must have been launched, and those in
    `finished` must have finished.
    """

    host: str
    name: str
    arguments: dict[str, Any]
    launched: Sequence[int] = ()
    finished: Sequence[int] = ()


def all_ran(scenario: Path, results: Path, *options: str) -> list[Run]:
    """Run a scenario with the jobs of the tests, and return its runs."""
    where = ("--jobs", str(TEST_JOBS), "--results", str(results))
    ended = command(str(scenario), *options, *where)
    assert ended.returncode == 0, ended.stderr
    return records(results)


def ran(scenario: Path, results: Path, *options: str) -> Run:
    """Run a scenario with the jobs of the tests, and return its only run."""
    (run,) = all_ran(scenario, results, *options)
    return run


def sent_of(run: Run, suffix: str) -> dict[str, Any]:
    """Return what the link has sent of a MODCOD, a terminal or a class."""
    lines = run.statistics("satcom_link")
    return {
        name: value
        for line in lines
        if line["_metadata"]["suffix"] == suffix
        for name, value in line.items()
    }


def with_snapshot(place: Path, *snapshots: Snapshot, first: Sequence[tuple[str, str]] = ()) -> Path:
    """Return the file of geo_loss with commands beside the download (job `snapshot`).

    Commands of `first` come while the link is made. The file is made in `place`.
    """
    scenario = json.loads((REPOSITORY / "scenarios/geo_loss.json").read_text())
    functions = scenario["openbach_functions"]
    (download,) = [function["id"] for function in functions if function.get("label") == "download"]
    for host, after_s, shell_command in snapshots:
        job = Job(host, "snapshot", {"command": shell_command}, [download])
        functions.append(_function(len(functions), job, after_s))
    for host, shell_command in first:
        functions.append(
            _function(len(functions), Job(host, "snapshot", {"command": shell_command}))
        )
    path = place / "geo_loss.json"
    path.write_text(json.dumps(scenario))
    return path


def scenario_of(place: Path, *jobs: Job) -> Path:
    """A scenario that launches jobs and, when the last of them has finished, stops the others.

    Its file, made in `place`.
    """
    functions = [_function(number, job) for number, job in enumerate(jobs)]
    *others, last = range(len(jobs))
    functions.append(
        {
            "id": len(functions),
            "wait": {"time": 0, "launched_ids": [], "finished_ids": [last]},
            "on_fail": {},
            "stop_job_instances": {"openbach_function_ids": others},
        }
    )
    return made_of(place, functions)


def made_of(place: Path, functions: list[dict[str, Any]]) -> Path:
    """Write a scenario of these functions into `place`, and return its file."""
    empty: dict[str, Any] = {"description": "", "arguments": {}, "constants": {}}
    path = place / "made.json"
    path.write_text(json.dumps({"name": "made", **empty, "openbach_functions": functions}))
    return path


def _function(number: int, job: Job, after_s: int = 0) -> dict[str, Any]:
    return {
        "id": number,
        "label": job.name,
        "wait": {
            "time": after_s,
            "launched_ids": list(job.launched),
            "finished_ids": list(job.finished),
        },
        "on_fail": {},
        "start_job_instance": {"entity_name": f"satvpn_{job.host}", job.name: job.arguments},
    }
