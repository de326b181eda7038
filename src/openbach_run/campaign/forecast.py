# SPDX-License-Identifier: GPL-3.0-or-later
"""An estimate of the time and disk space of a campaign, from the runs in its results directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean as mean
from typing import TypeVar

from openbach_run.campaign.execute import PlannedRun
from openbach_run.campaign.spec import RunSpec
from openbach_run.engine.local import RUN_LIMIT_BYTES
from openbach_run.results import run_files
from openbach_run.results.record import Record
from openbach_run.results.store import Store

UNKNOWN_WALL_S, UNKNOWN_BYTES = 4.0, 200_000
"""Wall time and size that are assumed for a run where none was measured yet: the means of the
README's campaign."""
SAMPLE = 300
"""The most cells to compare with, and the most directories to measure: enough for an estimate."""
T = TypeVar("T")


def forecast(planned: Sequence[PlannedRun], store: Store, workers: int) -> str:
    """Return a text for a person: the runs to do, their time on `workers` CPUs, and their size."""
    known = [record for record in store.all() if record.finished]
    # By name: runs of an older engine or another scenario do not count as done, but their times do.
    finished = {record.run_id for record in known}
    to_do = [run.spec for run in planned if run.spec.run_id not in finished]
    wall_s = mean_wall_s([_values(spec) for spec in to_do], known)
    size_bytes = mean(
        [_size_bytes(store.runs / record.run_id) for record in _some(known)] or [UNKNOWN_BYTES]
    )
    source = (
        f"the {len(known)} runs in {store.directory}"
        if known
        else "an assumption, as no run was measured yet"
    )
    return "\n".join(
        [
            (
                f"{len(planned)} runs, {len(planned) - len(to_do)} finished already, {len(to_do)}"
                " to do"
            ),
            (
                f"about {duration(len(to_do) * wall_s / workers)} on {workers} CPUs, about"
                f" {_size(len(to_do) * size_bytes)} on disk (from {source})"
            ),
            (
                f"a run that writes over {RUN_LIMIT_BYTES >> 20} MiB is ended; captures are kept"
                " only with --pcap"
            ),
        ]
    )


def unknown(runs: int, missing: str, workers: int) -> str:
    """Return a text for a person with the number of runs, where the finished ones are not known.

    The runs have no names yet, because something that they depend on is not made.
    """
    wall_s = runs * UNKNOWN_WALL_S / workers
    return "\n".join(
        [
            (
                f"{runs} runs; which of them are finished is not known: {missing} is not in the"
                " cache, and --dry-run makes nothing"
            ),
            (
                f"about {duration(wall_s)} on {workers} CPUs, about {_size(runs * UNKNOWN_BYTES)}"
                " on disk (an assumption), after what is missing has been made"
            ),
        ]
    )


def mean_wall_s(to_do: Sequence[Mapping[str, str]], known: Sequence[Record]) -> float:
    """Return the mean wall time in seconds of the runs to do, given by `scenario` and arguments.

    A run takes as long as the known runs of its cell; without any, as long as those of the cells
    that are most similar.
    """
    if not known or not to_do:
        return UNKNOWN_WALL_S
    walls_s: dict[int, list[float]] = {}
    cells: dict[int, Record] = {}
    for record in known:
        key = _key({"scenario": record.scenario, **record.arguments})
        walls_s.setdefault(key, []).append(record.wall_s)
        cells.setdefault(key, record)
    sample = [
        ({"scenario": record.scenario, **record.arguments}, walls_s[key])
        for key, record in _some(list(cells.items()))
    ]
    # A run of a known cell takes that cell's mean; the others get one mean, from a sample of them.
    means_s = {key: mean(walls) for key, walls in walls_s.items()}
    each_s = [means_s.get(_key(values)) for values in to_do]
    others = [values for values, mean_s in zip(to_do, each_s, strict=True) if mean_s is None]
    likely_s = mean([most_like_s(values, sample) for values in _some(others)] or [0.0])
    return mean([likely_s if mean_s is None else mean_s for mean_s in each_s])


def _values(spec: RunSpec) -> dict[str, str]:
    """Return the scenario's name and the values of a run, which say how long it takes."""
    return {"scenario": spec.scenario_name, **spec.values}


def _key(values: Mapping[str, str]) -> int:
    """Return a hash in place of a cell. A collision of two cells does not harm an estimate."""
    return hash(frozenset(values.items()))


def most_like_s(
    values: Mapping[str, str], sample: Sequence[tuple[Mapping[str, str], list[float]]]
) -> float:
    """Return the mean wall time of the known runs with the most values in common with a cell."""
    likeness = [(len(values.items() & known.items()), walls_s) for known, walls_s in sample]
    most = max((alike for alike, _ in likeness), default=0)
    found_s: list[float] = []
    for alike, walls_s in likeness:
        if alike == most:
            found_s += walls_s
    return mean(found_s or [UNKNOWN_WALL_S])


def _some(of: Sequence[T]) -> Sequence[T]:
    """Return at most SAMPLE of the items, spread over the whole length."""
    step = -(-len(of) // SAMPLE)  # rounded up
    return of[:: step or 1]


def _size_bytes(run_dir: Path) -> int:
    """Return the bytes that a run takes on disk."""
    if not run_dir.is_dir():  # it is packed
        return sum(run_files.sizes(run_dir).values())
    # A block of st_blocks has 512 bytes, whatever the file system. Captures are not kept as a rule.
    return sum(
        file.lstat().st_blocks * 512 for file in run_dir.rglob("*") if file.name != "capture.pcapng"
    )


def duration(seconds: float) -> str:
    """Return a time for a person, in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _size(count: float) -> str:
    """Return a number of bytes for a person."""
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
