# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenario geo_loss with commands of a test's own beside the download (job `snapshot`, tests/guest/jobs)."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import REPOSITORY

Snapshot = tuple[str, int, str]
"""Host, seconds after the download has begun, shell command; what it prints is the statistic `printed`."""


def with_snapshot(place: Path, *snapshots: Snapshot) -> Path:
    """The scenario's file, made in `place`."""
    scenario = json.loads((REPOSITORY / "scenarios/geo_loss.json").read_text())
    functions = scenario["openbach_functions"]
    (download,) = [function["id"] for function in functions if function.get("label") == "download"]
    for host, after_s, shell_command in snapshots:
        functions.append({
            "id": len(functions),
            "label": "snapshot",
            "wait": {"time": after_s, "launched_ids": [download], "finished_ids": []},
            "on_fail": {},
            "start_job_instance": {"entity_name": f"satvpn_{host}", "snapshot": {"command": shell_command}},
        })  # fmt: skip
    path = place / "geo_loss.json"
    path.write_text(json.dumps(scenario))
    return path
