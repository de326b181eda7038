# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a campaign will take and how large it will be, from the runs that its results directory already has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import TypeVar

from openbach_run.campaign.execute import PlannedRun
from openbach_run.engine.virtual.engine import RUN_LIMIT_BYTES
from openbach_run.results.record import Record, Store

UNKNOWN_WALL_S, UNKNOWN_BYTES = 4.0, 200_000
"""Of a run where none was measured yet: the means of the README's campaign."""
SAMPLE = 300
"""Cells that are compared with so many others, directories that are measured: enough for an estimate."""
T = TypeVar("T")


def forecast(planned: Sequence[PlannedRun], store: Store, workers: int) -> str:
    """Text for a person: runs there are to do, their time on `workers` CPUs, their disk space."""
    known = [record for record in store.all() if record.finished]
    there = {record.run_id for record in known}
    to_do = [one.spec for one in planned if one.spec.run_id not in there]
    wall_s = _mean_wall_s([{"scenario": spec.scenario_name, **spec.values} for spec in to_do], known)
    size_bytes = mean([_size_bytes(store.runs / record.run_id) for record in _some(known)] or [UNKNOWN_BYTES])
    source = f"the {len(known)} runs in {store.directory}" if known else "an assumption, as no run was measured yet"
    return "\n".join([
        f"{len(planned)} runs, {len(planned) - len(to_do)} finished already, {len(to_do)} to do",
        f"about {_duration(len(to_do) * wall_s / workers)} on {workers} CPUs, about {_size(len(to_do) * size_bytes)} on "
        f"disk (from {source})",
        f"a run that writes over {RUN_LIMIT_BYTES >> 20} MiB is ended; captures are kept only with --pcap",
    ])  # fmt: skip


def _mean_wall_s(to_do: Sequence[Mapping[str, str]], known: Sequence[Record]) -> float:
    """Of the runs to do, each as long as the known ones of its cell, or else as those that are most like it."""
    walls_s: dict[frozenset[tuple[str, str]], list[float]] = {}
    for record in known:
        walls_s.setdefault(frozenset({"scenario": record.scenario, **record.arguments}.items()), []).append(
            record.wall_s
        )
    means_s = {cell: mean(walls) for cell, walls in walls_s.items()}
    cells = [frozenset(cell.items()) for cell in to_do]
    exactly = [means_s[cell] for cell in cells if cell in means_s]
    others = [cell for cell in cells if cell not in means_s]
    likely = [_of_the_most_like(cell, walls_s) for cell in _some(others)]
    total_s = sum(exactly) + len(others) * (mean(likely) if likely else 0.0)
    return total_s / len(cells) if cells else 0.0


def _of_the_most_like(
    cell: frozenset[tuple[str, str]], walls_s: Mapping[frozenset[tuple[str, str]], list[float]]
) -> float:
    """Mean wall time of the known runs with the most values in common with the cell."""
    likeness = {known: len(cell & known) for known in _some(list(walls_s))}
    most = max(likeness.values(), default=0)
    return mean(
        [wall_s for known, alike in likeness.items() if alike == most for wall_s in walls_s[known]] or [UNKNOWN_WALL_S]
    )


def _some(of: Sequence[T]) -> Sequence[T]:
    """At most SAMPLE of them, from the whole length."""
    return of[:: -(-len(of) // SAMPLE) or 1]


def _size_bytes(run_dir: Path) -> int:
    return sum(file.lstat().st_blocks * 512 for file in run_dir.rglob("*") if file.name != "capture.pcapng")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _size(count: float) -> str:
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
