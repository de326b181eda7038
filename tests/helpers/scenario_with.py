# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenarios of a test's own, with the jobs of tests/guest/jobs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from helpers.guest_runs import REPOSITORY

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
    path = place / "made.json"
    scenario = {
        "name": "made",
        "description": "",
        "arguments": {},
        "constants": {},
        "openbach_functions": functions,
    }
    path.write_text(json.dumps(scenario))
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
