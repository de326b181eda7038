# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a campaign will take and how large it will be, from the runs that its results directory already has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

from openbach_run.campaign.execute import PlannedRun
from openbach_run.engine.virtual.engine import RUN_LIMIT_BYTES
from openbach_run.results.record import Record, Store

UNKNOWN_WALL_S, UNKNOWN_BYTES = 4.0, 200_000
"""Of a run where none was measured yet: the means of the README's campaign."""


def forecast(planned: Sequence[PlannedRun], store: Store, workers: int) -> str:
    """Text for a person: runs there are to do, their time on `workers` CPUs, their disk space."""
    kept = {record.run_id: record for record in store.all()}
    to_do = [one.spec for one in planned if not (one.spec.run_id in kept and kept[one.spec.run_id].finished)]
    known = [record for record in kept.values() if record.finished]
    walls_s = [_wall_s({"scenario": spec.scenario["name"], **spec.values}, known) for spec in to_do]
    size_bytes = mean([_size_bytes(store.runs / record.run_id) for record in known] or [UNKNOWN_BYTES])
    source = f"the {len(known)} runs in {store.directory}" if known else "an assumption, as no run was measured yet"
    return "\n".join([
        f"{len(planned)} runs, {len(planned) - len(to_do)} finished already, {len(to_do)} to do",
        f"about {_duration(sum(walls_s) / workers)} on {workers} CPUs, about {_size(len(to_do) * size_bytes)} on disk "
        f"(from {source})",
        f"a run that writes over {RUN_LIMIT_BYTES >> 20} MiB is ended; captures are kept only with --pcap",
    ])  # fmt: skip


def _wall_s(cell: Mapping[str, str], known: Sequence[Record]) -> float:
    """Mean wall time of the known runs that are most like the cell: those with the most values in common."""
    likeness = {
        record.run_id: sum(
            cell.get(name) == value for name, value in {"scenario": record.scenario, **record.arguments}.items()
        )
        for record in known
    }
    most = max(likeness.values(), default=0)
    return mean([record.wall_s for record in known if likeness[record.run_id] == most] or [UNKNOWN_WALL_S])


def _size_bytes(run_dir: Path) -> int:
    return sum(file.lstat().st_blocks * 512 for file in run_dir.rglob("*") if file.name != "capture.pcapng")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _size(count: float) -> str:
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
