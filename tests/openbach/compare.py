# SPDX-License-Identifier: GPL-3.0-or-later
"""What instances on the platform have measured, beside the virtual engine's for the same cells.

The engine runs on this machine after the guest's end: same values, same seed, hosts without noise.
A measure that is further away than BOUND_PCT is decided by chance (another loss, another phase of
a return link), or it is wrong: it is looked for among those of SEEDS seeds with noise. By chance
each is outside of them in one case of twenty; of 16 such instances more than three are in one of
a hundred.
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
SEEDS = 39
OUTSIDE = 3
"""Instances that may have a measure outside of those of all seeds."""
HEAD = (
    "scenario", "launched by", "values", "measure", "engine", "platform", "differs by", "measures",
    "further away",
)  # fmt: skip


class Beside(NamedTuple):
    """A measure of an instance, by both."""

    name: str
    engine: float
    platform: float

    @property
    def differs_pct(self) -> float:
        if not self.engine:
            return 100.0 * bool(self.platform)
        return 100 * abs(self.platform / self.engine - 1)


NOTHING = Beside("not collected", math.inf, 0)


def compared(directory: Path, seed: int) -> bool:
    """Add the comparison to the report; whether the platform's measures can be the engine's."""
    launched = directory / "launched.json"
    kept = json.loads(launched.read_text()) if launched.exists() else []
    stores = [Store(place) for place in (directory / "collected").glob("*")]
    records = {one.host["scenario_instance_id"]: one for store in stores for one in store.all()}
    rows, far, outside = [[*HEAD], ["---"] * len(HEAD)], 0, 0
    for order in kept:
        if order["status"] != FINISHED:
            continue
        collected = records.get(order["instance"])
        found = list(beside(collected, seed, directory / "engine")) if collected else []
        further = [one for one in found if one.differs_pct > BOUND_PCT]
        places = [*among(collected, further, directory / "engine")] if found else [NOTHING.name]
        found = found or [NOTHING]
        far += bool(further)
        outside += any(" in " not in place for place in places)
        values = " ".join(f"{name}={value}" for name, value in order["values"].items())
        name, engine, platform = found[0]
        first = (name, f"{engine:.6f}", f"{platform:.6f}", f"{found[0].differs_pct:.4f} %")
        rows.append([order["scenario"], order["how"], values, *first])
        rows[-1] += [str(len(found)), "; ".join(places)]
        print("   " + " | ".join(rows[-1]), flush=True)
    head = (
        f"{len(rows) - 2} instances, {far} with a measure that is further than {BOUND_PCT} % from the"
        f" engine's, {outside} with one that none of {SEEDS} seeds reaches"
    )
    lines = ["\n## Beside the virtual engine\n", f"{head}; seed {seed}.\n"]
    with (directory / "report.md").open("a") as report:
        report.write("\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n")
    print(f"   {head}", flush=True)
    return outside <= OUTSIDE


def among(collected: Record | None, measures: list[Beside], results: Path) -> Iterator[str]:
    """Yield for each measure of an instance what all seeds of the engine have, with noise."""
    if not collected or not measures:
        return
    records = cells(collected, results / collected.scenario, "noise=host", f"--seeds={SEEDS}")
    for one in measures:
        values = [float(record.measures[one.name]) for record in records]
        place = "in" if min(values) <= one.platform <= max(values) else "outside of"
        yield f"{one.name} {one.platform:g} {place} {min(values):g} to {max(values):g}"


def beside(collected: Record, seed: int, results: Path) -> Iterator[Beside]:
    """Yield the measures that say what is better, in the order in which jobs declare them."""
    (record,) = cells(collected, results / collected.scenario, "noise=off", f"--seeds={seed},")
    wanted = {
        one.column for several in measures_of(record).values() for one in several if one.better
    }
    for name, value in record.measures.items():
        if name in wanted and isinstance(value, int | float):
            theirs = collected.measures.get(name)
            yield Beside(name, value, math.inf if theirs is None else theirs)


def cells(collected: Record, results: Path, *settings: str) -> list[Record]:
    """The engine's records of the same cell: run if they are not there. Raises SetupError."""
    values = [one for one in collected.repetition[1:-1] if not one.startswith("noise=")]
    words = [collected.scenario, *values, *settings, f"--results={results}"]
    done = subprocess.run(
        [str(REPOSITORY / "openbach-run"), *words, "--quiet", "--format", "json"],
        check=False, capture_output=True, text=True, cwd=REPOSITORY,
    )  # fmt: skip
    if done.returncode:
        raise SetupError(f"openbach-run {' '.join(words)}:\n{done.stderr}")
    store = Store(results)
    records = [store.load(row["run_id"]) for row in json.loads(done.stdout)]
    assert all(records)
    return [record for record in records if record]
