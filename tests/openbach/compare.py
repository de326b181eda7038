# SPDX-License-Identifier: GPL-3.0-or-later
"""What instances on the platform have measured, beside the virtual engine's for the same cells.

The engine runs on this machine after the guest's end: same values, same seed, hosts without noise.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY
from openbach_run.results.measures import measures_of
from openbach_run.results.record import FINISHED, Record
from openbach_run.results.store import Store

BOUND_PCT = 0.1
HEAD = (
    "scenario",
    "launched by",
    "values",
    "measure",
    "engine",
    "platform",
    "differs by",
    "measures",
    "furthest",
)


class Beside(NamedTuple):
    """A measure of an instance, by both."""

    name: str
    engine: float
    platform: float

    @property
    def differs_pct(self) -> float:
        return (
            100 * abs(self.platform / self.engine - 1)
            if self.engine
            else 100.0 * bool(self.platform)
        )


NOTHING = Beside("not collected", math.inf, 0)


def compared(directory: Path, seed: int) -> bool:
    """Add the comparison to the report; whether every instance is within the bound."""
    launched = directory / "launched.json"
    kept = json.loads(launched.read_text()) if launched.exists() else []
    stores = [Store(place) for place in (directory / "collected").glob("*")]
    records = {one.host["scenario_instance_id"]: one for store in stores for one in store.all()}
    rows, far = [], 0
    for order in kept:
        if order["status"] != FINISHED:
            continue
        found = list(beside(records.get(order["instance"]), seed, directory / "engine"))
        furthest = max(found, key=lambda one: one.differs_pct, default=NOTHING)
        first = next(iter(found), NOTHING)
        far += furthest.differs_pct > BOUND_PCT
        values = " ".join(f"{name}={value}" for name, value in order["values"].items())
        shown = (
            order["scenario"], order["how"], values, first.name, f"{first.engine:.6f}",
            f"{first.platform:.6f}", f"{first.differs_pct:.4f} %", str(len(found)),
            f"{furthest.name}: {furthest.engine:g}, {furthest.platform:g} ({furthest.differs_pct:.3f} %)",
        )  # fmt: skip
        print("   " + " | ".join(shown), flush=True)
        rows.append(shown)
    lines = [f"| {' | '.join(one)} |" for one in (HEAD, ["---"] * len(HEAD), *rows)]
    head = f"{len(rows)} instances, {far} with a measure that is further than {BOUND_PCT} % from the engine's"
    with (directory / "report.md").open("a") as report:
        report.write(
            "\n".join(["\n## Beside the virtual engine\n", f"{head}, seed {seed}.\n", *lines])
            + "\n"
        )
    print(f"   {head}", flush=True)
    return not far


def beside(collected: Record | None, seed: int, results: Path) -> Iterator[Beside]:
    """Yield the measures that say what is better, in the order in which jobs declare them."""
    if collected is None:
        return
    record = cell(collected, seed, results / collected.scenario)
    wanted = {
        one.column for several in measures_of(record).values() for one in several if one.better
    }
    for name, value in record.measures.items():
        if name in wanted and isinstance(value, int | float):
            theirs = collected.measures.get(name)
            yield Beside(name, value, math.inf if theirs is None else theirs)


def cell(collected: Record, seed: int, results: Path) -> Record:
    """The engine's record of the same cell: run if it is not there. Raises SetupError."""
    values = [one for one in collected.repetition[1:-1] if not one.startswith("noise=")]
    words = [collected.scenario, *values, "noise=off", f"--seeds={seed},", f"--results={results}"]
    done = subprocess.run(
        [str(REPOSITORY / "openbach-run"), *words, "--quiet", "--format", "json"],
        check=False, capture_output=True, text=True, cwd=REPOSITORY,
    )  # fmt: skip
    if done.returncode:
        raise SetupError(f"openbach-run {' '.join(words)}:\n{done.stderr}")
    (row,) = json.loads(done.stdout)
    record = Store(results).load(row["run_id"])
    assert record
    return record
