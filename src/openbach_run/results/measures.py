# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute what the jobs of a run measured, by column of results.csv.

The jobs declare their measures in jobs/NAME/measures.yml (openbach/measures.py).
"""

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
    DURING,
    EACH,
    OTHER_COLUMNS,
    TAKES_OF_ALL,
    TEXT,
    WORST,
    Declared,
    Measure,
    from_records,
    to_records,
)
from openbach_run.results import flows, run_files
from openbach_run.results.captures import check_capture
from openbach_run.results.record import Record, events, statistics
from openbach_run.results.run_files import PACKED, SERIES, DamagedRecord, is_number, short

Statistics = Sequence[Mapping[str, Any]]
"""Statistics that the jobs of a run have sent, as record.py reads them: the n-th is on line n."""
Points = list[tuple[float, float]]
"""Time in s and value of a statistic, once for each time it was sent."""
ENDED = tuple(f"{name}.gz" for name in SERIES)
"""Names of SERIES of a run that has ended."""
Sent = dict[str, dict[str, Points]]
"""The points of a job, by suffix and statistic."""
LARGEST_INT = 2**63 - 1
"""The largest whole number that a column of results.parquet can hold."""


def _statistic(name: str, values: Sequence[float]) -> float:
    """Return a function of the standard library's `statistics`, applied to the values.

    The import is done here, since it takes longer than what is measured in most runs.
    """
    import statistics

    value: float = getattr(statistics, name)(values)
    return value


OF_ONE: dict[str, Callable[[Sequence[float]], float]] = {
    "median": partial(_statistic, "median"),
    "mean": partial(_statistic, "fmean"),
    "min": min,
    "max": max,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "sum": sum,
    "count": len,
    f"{DURING}median": partial(_statistic, "median"),
    f"{DURING}p95": lambda values: sorted(values)[-(-19 * len(values) // 20) - 1],
    f"{DURING}max": max,
}
TRANSFERS = ("transfer_time_s", "page_load_time_s", "download_time_s")
"""Statistics that are sent when a transfer has ended, and are the time that it took."""
OF_ALL: dict[str, Callable[[Mapping[str, Points]], float | None]] = {
    "total_rate": flows.total_rate_bps,
    "first_share_pct": flows.first_share_pct,
    "fairness": flows.fairness,
}


def measures(
    run_dir: Path,
    lines: Statistics,
    declared: Declared,
    taken: Collection[str] = (),
    scenario_instance_id: int | None = None,
) -> dict[str, Any]:
    """Return the measured values by column; None for a declared statistic that was not sent.

    Statistics with a suffix have columns of their own, `suffix_column`. A column that two jobs have
    measured, or that is in `taken` (arguments), gets its job's name in front. Return {} if several
    scenario instances measured something and none of them is asked for. Raises DamagedRecord.
    """
    described, each = _by_kind(declared)
    numbered = _numbered(lines, declared, scenario_instance_id)
    sent = _sent(run_dir, described, numbered)
    values: list[tuple[str, str, Any]] = []
    for job, of_job in sent.items():
        of_transfers = _during(of_job, numbered)
        values += [
            (job, name, value) for name, value in _of_job(described[job], of_job, of_transfers)
        ]
    if each:
        values += _each_statistic(run_dir, each, numbered, scenario_instance_id)
    # A name that several have gets its job's name in front.
    often = Counter([*(name for _, name, _ in values), *taken, *OTHER_COLUMNS])
    return {name if often[name] == 1 else f"{job}_{name}": value for job, name, value in values}


def texts(
    lines: Statistics, declared: Declared, scenario_instance_id: int | None = None
) -> dict[str, str]:
    """Return what jobs have told in words, by column: each different text, parted by `; `."""
    jobs = set()
    for job, listed in declared.items():
        if any(measure.type == TEXT for measure in listed):
            jobs.add(job)
    by_column: dict[str, dict[str, None]] = {}
    for _, statistic in _numbered(lines, jobs, scenario_instance_id):
        for measure in declared[statistic["_metadata"]["job_name"]]:
            if measure.type == TEXT and (text := statistic.get(measure.statistic)):
                by_column.setdefault(measure.column, {})[str(text)] = None
    return {column: "; ".join(parts) for column, parts in by_column.items()}


def brought_up_to_date(record: Record, run_dir: Path, declared: Declared) -> Record:
    """Return the record with the measures as the jobs declare them now.

    If the declarations have changed, the measures are computed again from the statistics. The
    record is returned as it is if the run did not finish or its files were damaged since.
    """
    if not record.finished or record.declared == to_records(declared):
        return record
    try:
        values = measures(run_dir, statistics(run_dir), declared, record.arguments)
    except DamagedRecord:
        return record
    return replace(record, measures=values, declared=to_records(declared))


def check_record(record: Record, run_dir: Path) -> None:
    """Check that a record follows from what its run has left. Raises DamagedRecord."""
    check_capture(run_dir, record.__dict__, hashed=False)
    left = run_files.sizes(run_dir)
    if emptied := [name for name in (PACKED, *ENDED) if left.get(name) == 0]:
        raise DamagedRecord(f"{run_dir / emptied[0]}: it is empty")
    # Older records do not say what was declared; of a results.parquet there is the row alone.
    if not (record.finished and record.declared and left.keys() & {PACKED, *SERIES, *ENDED}):
        return
    values = measures(run_dir, statistics(run_dir), measures_of(record), record.arguments)
    for name, value in record.measures.items():
        if values.get(name) != value:
            by_statistics = f"by its statistics it is {values.get(name)}"
            raise DamagedRecord(f"{run_dir}/record.json: {name} is {value}, {by_statistics}")


def measures_of(record: Record) -> dict[str, tuple[Measure, ...]]:
    """Return a record's measures by job, as they were declared when the record was made."""
    return from_records(record.declared)


def measures_of_all(records: Iterable[Record]) -> dict[str, tuple[Measure, ...]]:
    """Return the measures of several records by job, as the first record with that job has them."""
    # Thousands of records have the same declarations; one of each kind is enough.
    kinds = {json.dumps(record.declared): record for record in records}
    measures: dict[str, tuple[Measure, ...]] = {}
    # Backwards, so that the earlier declarations overwrite the later ones.
    for record in reversed(kinds.values()):
        measures |= measures_of(record)
    return measures


def _by_kind(declared: Declared) -> tuple[dict[str, tuple[Measure, ...]], list[str]]:
    """Return the described measures by job, and the jobs whose every statistic is a column."""
    described: dict[str, tuple[Measure, ...]] = {}
    each: list[str] = []
    for job, listed in declared.items():
        if any(measure.take == EACH for measure in listed):
            each.append(job)
        else:
            described[job] = tuple(measure for measure in listed if measure.type != TEXT)
    return described, each


def _numbered(
    lines: Statistics, jobs: Collection[str], scenario_instance_id: int | None
) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the statistics that these jobs have sent, each with its line number.

    Return [] if several scenario instances have sent some and none of them is asked for.
    """
    numbered = []
    instances = set()
    for line, statistic in enumerate(lines, 1):
        metadata = statistic["_metadata"]
        instance = metadata.get("scenario_instance_id")
        if metadata["job_name"] in jobs and scenario_instance_id in (None, instance):
            instances.add(instance)
            numbered.append((line, statistic))
    return numbered if len(instances) <= 1 else []


def _each_statistic(
    run_dir: Path,
    jobs: Collection[str],
    lines: Iterable[tuple[int, Mapping[str, Any]]],
    scenario_instance_id: int | None,
) -> list[tuple[str, str, float]]:
    """Return job, column and median of each statistic that is a number.

    Both ends of a transfer may send the same statistic. So if a job was started more than once, its
    columns have the host's name in front, with a number from the host's second instance on.
    """
    sent: dict[tuple[str, int, str, str], list[float]] = {}
    for _, statistic in lines:
        metadata = statistic["_metadata"]
        job, suffix = metadata["job_name"], metadata.get("suffix") or ""
        if job not in jobs:
            continue
        for name, value in statistic.items():
            if name != "_metadata" and is_number(value):
                key = (job, metadata.get("job_instance_id", 0), suffix, name)
                sent.setdefault(key, []).append(float(value))
    places = _places(run_dir, jobs, scenario_instance_id)
    medians: dict[tuple[str, str], float] = {}
    for (job, instance, suffix, name), values in sent.items():
        column = as_column("_".join(filter(None, (places[job].get(instance, ""), suffix, name))))
        # Different names may become the same column: take the first free one of x, x_2, x_3.
        numbered = chain([column], (f"{column}_{number}" for number in count(2)))
        free = next(statistic for statistic in numbered if (job, statistic) not in medians)
        medians[job, free] = OF_ONE["median"](values)
    return [(job, column, value) for (job, column), value in medians.items()]


def _places(
    run_dir: Path, jobs: Collection[str], scenario_instance_id: int | None
) -> dict[str, dict[int, str]]:
    """Return a name that tells each instance of a job from the others, by job and instance number.

    A job with one instance has none.
    """
    hosts: dict[str, dict[int, str]] = {job: {} for job in jobs}
    for event in events(run_dir):
        is_start = event["event"] == "job_started" and event["job"] in hosts
        if is_start and scenario_instance_id in (None, event["scenario_instance_id"]):
            hosts[event["job"]][event["instance_id"]] = event["entity"]
    several = {job: of_job for job, of_job in hosts.items() if len(of_job) > 1}
    return {job: _distinguished(several.get(job, {})) for job in hosts}


def _distinguished(hosts: Mapping[int, str]) -> dict[int, str]:
    """Return names by instance: `server`, and `server_2` for the second instance on that host."""
    often: Counter[str] = Counter()
    columns = {}
    for instance, host in hosts.items():
        often[host] += 1
        columns[instance] = host if often[host] == 1 else f"{host}_{often[host]}"
    return columns


def as_column(name: str) -> str:
    """Return a name as a column has it: `packet_loss` for `packet loss (%)`."""
    return re.sub(r"[^0-9A-Za-z_]+", "_", name).strip("_") or "_"


def _sent(
    run_dir: Path, declared: Declared, lines: Iterable[tuple[int, Mapping[str, Any]]]
) -> dict[str, Sent]:
    """Return the declared statistics that the jobs have sent, by job in the order of `declared`.

    Raises DamagedRecord for a value that is no number.
    """
    # Sets, as every line of the statistics is looked up in them.
    wanted: dict[str, set[str]] = {}
    for job, listed in declared.items():
        wanted[job] = {measure.statistic for measure in listed}
    sent: dict[str, Sent] = {job: {} for job in declared}
    for line, statistic in lines:
        metadata = statistic["_metadata"]
        job = metadata["job_name"]
        if job not in wanted:
            continue
        for name in wanted[job] & statistic.keys():
            value = statistic[name]
            if value is None:
                continue
            if not is_number(value):
                raise DamagedRecord(
                    f"{run_dir / 'statistics.jsonl'}, line {line}: {name} is {short(value)}, not a"
                    " number"
                )
            of_suffix = sent[job].setdefault(metadata.get("suffix") or "", {})
            of_suffix.setdefault(name, []).append((metadata.get("time", 0) / 1000, value))
    return sent


def _during(sent: Sent, lines: Iterable[tuple[int, Mapping[str, Any]]]) -> Sent:
    """Return what was sent while a transfer was under way; all of a statistic that has none."""
    spans = []
    for _, statistic in lines:
        end_s = statistic["_metadata"].get("time", 0) / 1000
        for name in TRANSFERS:
            if is_number(statistic.get(name)):
                spans.append((end_s - statistic[name], end_s))
    during: Sent = {}
    for suffix, of_suffix in sent.items():
        for name, points in of_suffix.items():
            inside: Points = []
            for low, high in spans:
                inside += [point for point in points if low <= point[0] <= high]
            during.setdefault(suffix, {})[name] = inside or points
    return during


def _of_job(
    declared: Sequence[Measure], sent: Sent, of_transfers: Sent
) -> Iterator[tuple[str, float | int | None]]:
    """Yield columns and values: first those that combine all suffixes, then each suffix's own."""
    for measure in declared:
        if measure.take in TAKES_OF_ALL:
            rates = {
                suffix: of_suffix[measure.statistic]
                for suffix, of_suffix in sent.items()
                if measure.statistic in of_suffix
            }
            take = partial(_worst, measure) if measure.take in WORST else OF_ALL[measure.take]
            if (value := _value(measure, take, rates)) is not None:
                yield measure.column, value
    single = [measure for measure in declared if measure.take in OF_ONE]
    for suffix, of_suffix in sorted(sent.items()):
        # A suffix that has sent any of the statistics has a column for each of them.
        if any(measure.statistic in of_suffix for measure in single):
            for measure in single:
                of_time = of_transfers[suffix] if measure.take.startswith(DURING) else of_suffix
                yield (
                    f"{suffix}_{measure.column}".removeprefix("_"),
                    _taken(of_time.get(measure.statistic), measure),
                )


def _worst(measure: Measure, sent: Mapping[str, Points]) -> float | None:
    """Return the worst of the suffixes' medians; None if there are too few for what is taken."""
    medians = []
    for suffix, points in sent.items():
        if suffix or len(sent) == 1:  # what has none is the sum of the others
            medians.append(OF_ONE["median"]([value for _, value in points]))
    if measure.take == "worst_flow" and len(medians) < 2:
        return None
    return (max if measure.better == "less" else min)(medians, default=None)


def _taken(points: Points | None, measure: Measure) -> float | int | None:
    """Return a measure's value from its points, or None if there are none."""
    if not points:
        return None
    # The usual median of an even number of whole numbers may be no whole number.
    whole_median = (measure.take, measure.type) == ("median", "int")
    take = partial(_statistic, "median_low") if whole_median else OF_ONE[measure.take]
    return _value(measure, take, [value for _, value in points])


def _value(measure: Measure, take: Callable[[Any], float | None], sent: Any) -> float | int | None:
    """Return the result of `take` in the measure's unit and type; None if `take` has none.

    Raises DamagedRecord for a result that no column can hold.
    """
    try:
        value = take(sent)
        if value is None:
            return None
        if (
            measure.type == "int"
            and -LARGEST_INT <= (whole := round(value * measure.factor)) <= LARGEST_INT
        ):
            return whole
        if measure.type == "float" and isfinite(number := round(float(value) * measure.factor, 6)):
            return number
    except (ArithmeticError, ValueError):  # beyond what a float holds, or not finite on the way
        pass
    wanted = f"a whole number up to {LARGEST_INT}" if measure.type == "int" else "a finite number"
    raise DamagedRecord(
        f"statistics.jsonl: {measure.column}: {measure.take} of {measure.statistic} is not {wanted}"
    )
