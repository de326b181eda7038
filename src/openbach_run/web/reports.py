# SPDX-License-Identifier: GPL-3.0-or-later
"""The technical report of a launch, made by `openbach-run report` in a process of its own, beside the scenario's runs in
results/<scenario>/launch-<number>/."""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import sys
from pathlib import Path

from openbach_run.errors import InputError
from openbach_run.web.answers import Services
from openbach_run.web.launches import campaign_of_launch, find_launch, records_of
from openbach_run.web.sets import runs_of

LIMIT_S = 600.0
FILES = ("report.html", "report.pdf", "report.md", "results.csv")
"""What of a report can be opened."""
BAD_INPUT = 2
"""The command's exit code for what its user can mend; its words are then for whoever asked."""


def directory_of(services: Services, number: int) -> Path:
    return services.launcher.directory(find_launch(services, number)["scenario"]) / f"launch-{number}"


def make_report(services: Services, number: int) -> None:
    """Raises InputError for a launch of which no report can be made."""
    row, directory = find_launch(services, number), directory_of(services, number)
    records = records_of(services, runs_of(services, f"launch/{number}"))
    if not records:
        raise InputError("no run has ended yet: there is nothing to report")
    directory.mkdir(exist_ok=True)
    runs = directory / "runs"
    if not runs.is_symlink():
        runs.symlink_to(Path("../runs"))
    values: dict[str, list[str]] = json.loads(row["values"])
    seeds = ",".join(map(str, json.loads(row["seeds"])))
    settings = [f"{name}={','.join(listed)}" for name, listed in values.items()]
    campaign = {
        "command": shlex.join(["./openbach-run", row["scenario"], *settings, "--seeds", f"{seeds},"]),
        "plots": {row["scenario"]: campaign_of_launch(services, row).plot},
        "runs": [
            {"run_id": one.run_id, "scenario": one.scenario, "arguments": one.arguments, "seed": one.seed}
            for one in records
        ],
    }
    (directory / "campaign.json").write_text(json.dumps(campaign, indent=1) + "\n")
    compared = [name for name in ("vpn", "pep", "cc") if name in values] or list(values)[:1]
    baseline = [f"{name}={records[0].arguments[name]}" for name in compared]
    _run(number, [str(directory), "-o", str(directory / "report"), "--quiet", "--baseline", *baseline])


def _run(number: int, words: list[str]) -> None:
    """What went wrong inside the command is for this server's log: it names files of this machine."""
    command = [sys.executable, "-m", "openbach_run", "report", *words]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise InputError(f"the report took longer than {LIMIT_S:.0f} s: report fewer runs at once") from None
    if not done.returncode:
        return
    logging.getLogger(__name__).error("report of launch %d: exit code %d: %s", number, done.returncode, done.stderr)
    if done.returncode == BAD_INPUT:
        reason = done.stderr.strip().rpartition("\n")[2].removeprefix("openbach-run: ").replace(words[0], "this launch")
        raise InputError(f"openbach-run report: {reason}")
    raise InputError("the report could not be made; what openbach-run serve printed says why")
