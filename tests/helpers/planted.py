# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of runs that never were, with measures from a formula, as a results.parquet has them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

from helpers.records import OURS
from openbach_run.openbach.measures import to_records
from openbach_run.report.cells import Campaigns, read_campaigns
from openbach_run.results.files import write_parquet
from openbach_run.results.record import Record

Formula = Callable[[dict[str, str], random.Random], Mapping[str, float]]
"""What a run measures, from its values and a source of luck that it has for itself."""
USUAL = {"vpn": "none", "pep": "none", "cc": "cubic", "loss": "0", "orbit": "geo"}
COMMAND = "./openbach-run made_up --seeds 1,"


def runs(
    scenario: str, formula: Formula, seeds: int = 5, /, **swept: tuple[str, ...]
) -> list[Record]:
    """Return the records of all combinations of the values, which have the usual others."""
    names = {**{name: (value,) for name, value in USUAL.items()}, **swept}
    found = []
    for combination in product(*names.values()):
        values = dict(zip(names, combination, strict=True))
        for seed in range(1, seeds + 1):
            luck = random.Random(f"{scenario}{values}{seed}")
            found.append(_record(scenario, values, seed, formula(values, luck)))
    return found


def _record(
    scenario: str, values: dict[str, str], seed: int, measured: Mapping[str, float]
) -> Record:
    name = f"{random.Random(f'{scenario}{values}{seed}').getrandbits(64):016x}"
    status = "Finished Ok" if measured else "Finished Ko"
    identity = {"engine": "virtual", "clock": "virtual"}
    return Record(
        name, scenario, values, seed, status, None, 30.0, 1.0, "ab", dict(measured), COMMAND,
        identity, [], to_records(OURS),
    )  # fmt: skip


def write(records: list[Record], folder: Path) -> Path:
    """Write the records as a report does, and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.parquet"
    plots: dict[str, dict[str, str]] = {}
    for one in records:
        if "pc_1_transfer_time_s" in one.measures:
            plots[one.scenario] = {"measure": "pc_1_transfer_time_s", "figure": "measures"}
    write_parquet(records, file, {"commands": [COMMAND], "plots": plots})
    return file


def campaigns(records: list[Record], folder: Path) -> Campaigns:
    """Return the records as a report reads them."""
    return read_campaigns([write(records, folder)])
