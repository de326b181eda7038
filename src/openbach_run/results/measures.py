# SPDX-License-Identifier: GPL-3.0-or-later
"""What the jobs of a run measured, by column of results.csv, as the jobs declare it (openbach/measures.py)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count
from math import isfinite
from pathlib import Path
from typing import Any

from openbach_run.openbach.measures import (
    EACH,
    OTHER_COLUMNS,
    TAKES_OF_ALL,
    Declared,
    Measure,
    from_records,
    to_records,
)
from openbach_run.results import flows
from openbach_run.results.record import Record, events, statistics
from openbach_run.results.run_files import DamagedRecord, is_number, short

Points = list[tuple[float, float]]
"""Time in s and value of a statistic, as often as it was sent."""
Sent = dict[str, dict[str, Points]]
"""By suffix and statistic, of a job."""
LARGEST_INT = 2**63 - 1
"""Of a column of whole numbers in results.parquet."""


def _statistic(name: str, values: Sequence[float]) -> float:
    """Of the standard library's; its import takes longer than what is measured in most runs."""
    import statistics

    value: float = getattr(statistics, name)(values)
    return value


OF_ONE: dict[str, Callable[[Sequence[float]], float]] = {
    "median": partial(_statistic, "median"), "mean": partial(_statistic, "fmean"), "min": min, "max": max,
    "first": lambda values: values[0], "last": lambda values: values[-1], "sum": sum, "count": len,
}  # fmt: skip
OF_ALL: dict[str, Callable[[Mapping[str, Points]], float | None]] = {
    "total_rate": flows.total_rate_bps, "first_share_pct": flows.first_share_pct, "fairness": flows.fairness,
}  # fmt: skip


def measures(
    run_dir: Path, declared: Declared, taken: Collection[str] = (), scenario_instance_id: int | None = None
) -> dict[str, Any]:
    """What was measured, by column; None for what a job that measured something has not sent. Statistics with a suffix have
    columns of their own, `suffix_column`. A column that two jobs have measured, or that is in `taken` (arguments), gets its
    job's name in front. Nothing if several scenario instances measured something, and none of them is asked for. Raises
    DamagedRecord."""
    described, each = _by_kind(declared)
    sent = _sent(run_dir, described, scenario_instance_id)
    found = [(job, name, value) for job, of_job in sent.items() for name, value in _of_job(described[job], of_job)]
    if each:
        found += _each_statistic(run_dir, each, scenario_instance_id)
    often = Counter([*(name for _, name, _ in found), *taken, *OTHER_COLUMNS])
    return {name if often[name] == 1 else f"{job}_{name}": value for job, name, value in found}


def brought_up_to_date(record: Record, run_dir: Path, declared: Declared) -> Record:
    """The record with the measures as the jobs declare them now: taken anew from what was sent, if they have changed since.
    Itself where what the run has left was damaged since."""
    if not record.finished or record.declared == to_records(declared):
        return record
    try:
        found = measures(run_dir, declared, record.arguments)
    except DamagedRecord:
        return record
    return replace(record, measures=found, declared=to_records(declared))


def measures_of(record: Record) -> dict[str, tuple[Measure, ...]]:
    """By job, as they were declared when the record was made."""
    return from_records(record.declared)


def measures_of_all(records: Iterable[Record]) -> dict[str, tuple[Measure, ...]]:
    """Of several records: by job, as the first one that has the job has them."""
    kinds = {json.dumps(record.declared): record for record in records}
    return {job: found for record in reversed(kinds.values()) for job, found in measures_of(record).items()}


def _by_kind(declared: Declared) -> tuple[dict[str, tuple[Measure, ...]], list[str]]:
    """The jobs that describe their columns, with these; those of which every statistic is one."""
    each = [job for job, listed in declared.items() if any(one.take == EACH for one in listed)]
    return {job: listed for job, listed in declared.items() if job not in each}, each


def _each_statistic(
    run_dir: Path, jobs: Collection[str], scenario_instance_id: int | None
) -> list[tuple[str, str, float]]:
    """Job, column and median of each statistic that is a number. Both ends of a transfer may send the same: where a job was
    started more than once, its columns have the host's name in front, and a number from the second one there on."""
    sent: dict[tuple[str, int, str, str], list[float]] = {}
    instances = set()
    for statistic in statistics(run_dir):
        metadata = statistic["_metadata"]
        instance = metadata.get("scenario_instance_id")
        if metadata["job_name"] not in jobs or scenario_instance_id not in (None, instance):
            continue
        instances.add(instance)
        for name, value in statistic.items():
            if name != "_metadata" and is_number(value):
                key = metadata["job_name"], metadata.get("job_instance_id", 0), metadata.get("suffix") or "", name
                sent.setdefault(key, []).append(float(value))
    if len(instances) > 1:
        return []
    places = _places(run_dir, jobs, scenario_instance_id)
    found: dict[tuple[str, str], float] = {}
    for (job, instance, suffix, name), values in sent.items():
        column = as_column("_".join(filter(None, (places[job].get(instance, ""), suffix, name))))
        numbered = chain([column], (f"{column}_{number}" for number in count(2)))
        free = next(one for one in numbered if (job, one) not in found)
        found[job, free] = OF_ONE["median"](values)
    return [(job, column, value) for (job, column), value in found.items()]


def _places(run_dir: Path, jobs: Collection[str], scenario_instance_id: int | None) -> dict[str, dict[int, str]]:
    """By job and number of its instance: what distinguishes it from the others of the job, "" if there are none."""
    hosts: dict[str, dict[int, str]] = {job: {} for job in jobs}
    for event in events(run_dir):
        is_start = event["event"] == "job_started" and event["job"] in hosts
        if is_start and scenario_instance_id in (None, event["scenario_instance_id"]):
            hosts[event["job"]][event["instance_id"]] = event["entity"]
    return {job: _distinguished(of_job) if len(of_job) > 1 else {} for job, of_job in hosts.items()}


def _distinguished(hosts: Mapping[int, str]) -> dict[int, str]:
    """`server`, and `server_2` for the second instance there."""
    often: Counter[str] = Counter()
    found = {}
    for instance, host in hosts.items():
        often[host] += 1
        found[instance] = host if often[host] == 1 else f"{host}_{often[host]}"
    return found


def as_column(name: str) -> str:
    """A name as a column has it: `packet_loss` of `packet loss (%)`."""
    return re.sub(r"[^0-9A-Za-z_]+", "_", name).strip("_") or "_"


def _sent(run_dir: Path, declared: Declared, scenario_instance_id: int | None) -> dict[str, Sent]:
    """What the jobs that declare measures have sent for them, by job in the order of `declared`."""
    wanted = {job: {one.statistic for one in listed} for job, listed in declared.items()}
    found: dict[str, Sent] = {job: {} for job in declared}
    instances = set()
    for line, statistic in enumerate(statistics(run_dir), 1):
        metadata = statistic["_metadata"]
        instance = metadata.get("scenario_instance_id")
        job = metadata["job_name"]
        if job not in wanted or scenario_instance_id not in (None, instance):
            continue
        instances.add(instance)
        for name in wanted[job] & statistic.keys():
            value = statistic[name]
            if value is None:
                continue
            if not is_number(value):
                raise DamagedRecord(
                    f"{run_dir / 'statistics.jsonl'}, line {line}: {name} is {short(value)}, not a number"
                )
            of_suffix = found[job].setdefault(metadata.get("suffix") or "", {})
            of_suffix.setdefault(name, []).append((metadata.get("time", 0) / 1000, value))
    return found if len(instances) <= 1 else {}


def _of_job(declared: Sequence[Measure], sent: Sent) -> Iterator[tuple[str, float | int | None]]:
    """Columns and values: those of all suffixes together first."""
    for measure in declared:
        if measure.take in TAKES_OF_ALL:
            rates = {
                suffix: of_suffix[measure.statistic]
                for suffix, of_suffix in sent.items()
                if measure.statistic in of_suffix
            }
            if (value := _value(measure, OF_ALL[measure.take], rates)) is not None:
                yield measure.column, value
    single = [measure for measure in declared if measure.take in OF_ONE]
    for suffix, of_suffix in sorted(sent.items()):
        if any(measure.statistic in of_suffix for measure in single):
            for measure in single:
                yield f"{suffix}_{measure.column}".removeprefix("_"), _taken(of_suffix.get(measure.statistic), measure)


def _taken(points: Points | None, measure: Measure) -> float | int | None:
    if not points:
        return None
    whole_median = (measure.take, measure.type) == ("median", "int")
    take = partial(_statistic, "median_low") if whole_median else OF_ONE[measure.take]
    return _value(measure, take, [value for _, value in points])


def _value(measure: Measure, take: Callable[[Any], float | None], sent: Any) -> float | int | None:
    """What `take` makes of what was sent, in the measure's unit and type. Raises DamagedRecord for what no column holds."""
    try:
        value = take(sent)
        if value is None:
            return None
        if measure.type == "int" and -LARGEST_INT <= (whole := round(value * measure.factor)) <= LARGEST_INT:
            return whole
        if measure.type == "float" and isfinite(found := round(float(value) * measure.factor, 6)):
            return found
    except (ArithmeticError, ValueError):  # beyond what a float holds, or not finite on the way
        pass
    wanted = f"a whole number up to {LARGEST_INT}" if measure.type == "int" else "a finite number"
    raise DamagedRecord(f"statistics.jsonl: {measure.column}: {measure.take} of {measure.statistic} is not {wanted}")
