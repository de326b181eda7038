# SPDX-License-Identifier: GPL-3.0-or-later
"""The technical report of a launch, made by `openbach-run report` in a process of its own, in results/launch-<number>/."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

from openbach_run.errors import InputError
from openbach_run.web.answers import Services
from openbach_run.web.launches import find_launch, records_of, runs_of

LIMIT_S = 600.0
FILES = ("report.html", "report.pdf", "report.md", "results.csv")
"""What of a report can be opened."""


def directory_of(services: Services, number: int) -> Path:
    return services.launcher.directory(find_launch(services, number)["scenario"]).parent / f"launch-{number}"


def make_report(services: Services, number: int) -> None:
    """Raises InputError for a launch of which no report can be made, in the command's own words."""
    row, directory = find_launch(services, number), directory_of(services, number)
    records = records_of(runs_of(services, number))
    if not records:
        raise InputError("no run has ended yet: there is nothing to report")
    directory.mkdir(exist_ok=True)
    runs = directory / "runs"
    if not runs.is_symlink():
        runs.symlink_to((services.launcher.directory(row["scenario"]) / "runs").resolve())
    values: dict[str, list[str]] = json.loads(row["values"])
    seeds = ",".join(map(str, json.loads(row["seeds"])))
    settings = [f"{name}={','.join(listed)}" for name, listed in values.items()]
    campaign = {
        "command": shlex.join(["./openbach-run", row["scenario"], *settings, "--seeds", f"{seeds},"]),
        "runs": [
            {"run_id": one.run_id, "scenario": one.scenario, "arguments": one.arguments, "seed": one.seed}
            for one in records
        ],
    }
    (directory / "campaign.json").write_text(json.dumps(campaign, indent=1) + "\n")
    compared = [name for name in ("vpn", "pep", "cc") if name in values] or list(values)[:1]
    baseline = [f"{name}={records[0].arguments[name]}" for name in compared]
    command = [
        sys.executable,
        "-m",
        "openbach_run",
        "report",
        str(directory),
        "-o",
        str(directory / "report"),
        "--quiet",
    ]
    done = subprocess.run(
        [*command, "--baseline", *baseline], check=False, capture_output=True, text=True, timeout=LIMIT_S
    )
    if done.returncode:
        raise InputError(f"openbach-run report: {done.stderr.strip().rpartition(chr(10))[2] or done.returncode}")
