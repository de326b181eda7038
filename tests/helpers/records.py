# SPDX-License-Identifier: GPL-3.0-or-later
"""Records, statistics and campaigns of runs that never were."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openbach_run.campaign.model import Campaign, Sweep
from openbach_run.campaign.reading import expanded
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.measures import to_records
from openbach_run.openbach.reading import parse_scenario
from openbach_run.paths import REPOSITORY
from openbach_run.results.record import Record

OURS = {
    name: one.measures for name, one in load_packages([REPOSITORY / "jobs"]).items() if one.measures
}
"""The measures of this project's jobs, by job."""
RECORD = Record(
    run_id="0123456789abcdef",
    scenario="geo",
    arguments={"vpn": "none"},
    seed=1,
    status="Finished Ok",
    error=None,
    virtual_s=30.0,
    wall_s=1.0,
    capture_hash="ab",
    measures={"transfer_time_s": 28.5},
    command="./openbach-run geo vpn=none --seeds 1,",
    identity={"engine": "fake"},
    packages=["made-up_1"],
)


def record(
    time_s: float | None = 28.5, status: str = "Finished Ok", seed: int = 1, **arguments: str
) -> Record:
    """Return a record of a download, with this transfer time and these arguments."""
    return Record(
        "0123456789abcdef",
        "geo",
        arguments,
        seed,
        status,
        None,
        30.0,
        1.0,
        "ab",
        {"transfer_time_s": time_s},
        "./openbach-run geo",
        {},
        [],
        to_records(OURS),
    )


def write_statistics(folder: Path, statistics: Sequence[dict[str, Any]]) -> None:
    """Write statistics as a run leaves them in its directory."""
    (folder / "statistics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in statistics))


def campaign(seeds: tuple[int, ...] = (1,), **values: tuple[str, ...]) -> Campaign:
    """Return a campaign of these values, of a scenario without functions."""
    scenario = parse_scenario({"name": "geo", "openbach_functions": []}, {})
    return expanded(Sweep(Path("geo.json"), scenario, {}, values, seeds, measures=OURS))
