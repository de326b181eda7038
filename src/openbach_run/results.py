# SPDX-License-Identifier: GPL-3.0-or-later
"""Results: one tidy row per run, as CSV, JSON, Parquet; statistics as InfluxDB's line protocol."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median, median_low
from typing import Any, NamedTuple

from openbach_run import flows
from openbach_run.record import Record, statistics
from openbach_run.run_files import DamagedRecord, is_number


class Measure(NamedTuple):
    """A column of results.csv, from a statistic of a job; its type in results.parquet."""

    column: str
    type: str = "float64"
    statistic: str = ""
    """Where its name is not the column's."""
    factor: float = 1.0


MEASURES = {  # of the jobs that measure
    "file_transfer": (
        Measure("transfer_time_s"),
        Measure("goodput_mbps", statistic="goodput_bps", factor=1e-6),
        Measure("bytes", "int64"),
        Measure("ttfb_s"),
        Measure("retransmits", "int64"),
    ),
    "satcom_link": (Measure("queue_delay_ms"),),
    "web_page": (
        Measure("page_load_time_s"),
        Measure("ttfb_s"),
        Measure("connect_time_s"),
        Measure("tls_time_s"),
        Measure("connections", "int64"),
    ),
    "voip": (
        Measure("mos"),
        Measure("r_factor"),
        Measure("loss_pct"),
        Measure("late_pct"),
        Measure("delay_ms"),
        Measure("delay_p95_ms"),
        Measure("jitter_ms"),
        Measure("mouth_to_ear_ms"),
    ),
    "ping_series": (
        Measure("ping_rtt_ms", statistic="rtt_ms"),
        Measure("ping_lost_pct", statistic="lost_pct"),
    ),
}
MEASURED = {"interval_goodput_bps", *(measure.statistic or measure.column for job in MEASURES.values() for measure in job)}
"""Statistics that are numbers, or missing (null)."""
FACTORS = ("vpn", "pep", "cc", "loss")
NUMBERS = {
    "seed": "int64", "virtual_s": "float64", "wall_s": "float64",
    **{measure.column: measure.type for job in MEASURES.values() for measure in job},
    **dict.fromkeys(flows.MEASURES, "float64"),
}  # fmt: skip
"""Types of columns in results.parquet; all others are text, the scenario's arguments as they were given."""

FRAME_BYTES, SEGMENT_BYTES = 1514, 1448
MULTIPLIERS = {"k": 10**3, "M": 10**6, "G": 10**9}


def measures(run_dir: Path, scenario_instance_id: int | None = None) -> dict[str, Any]:
    """What the jobs of MEASURES measured, by column; of a statistic that was sent several times (page loads) the median.
    Statistics with a suffix have columns of their own, `suffix_column`. Nothing if several scenario instances measured
    something, and none of them is asked for. Raises DamagedRecord."""
    sent: dict[tuple[str, str], dict[str, list[Any]]] = {}
    transfers: list[Mapping[str, Any]] = []
    instances = set()
    for line, statistic in enumerate(statistics(run_dir), 1):
        metadata = statistic["_metadata"]
        instance = metadata.get("scenario_instance_id")
        if metadata["job_name"] in MEASURES and scenario_instance_id in (None, instance):
            instances.add(instance)
            series = sent.setdefault((metadata["job_name"], metadata.get("suffix") or ""), {})
            for name, value in statistic.items():
                if value is not None:
                    series.setdefault(name, []).append(value)
                if name in MEASURED and value is not None and not is_number(value):
                    raise DamagedRecord(f"{run_dir / 'statistics.jsonl'}, line {line}: {name} is {value!r}, not a number")
            if metadata["job_name"] == "file_transfer":
                transfers.append(statistic)
    if len(instances) > 1:
        return {}
    return flows.flow_measures(transfers) | {
        f"{suffix}_{measure.column}".removeprefix("_"): _median(
            series.get(measure.statistic or measure.column), measure
        )
        for job in MEASURES
        for (sender, suffix), series in sorted(sent.items(), key=lambda one: one[0])
        if sender == job and any((measure.statistic or measure.column) in series for measure in MEASURES[job])
        for measure in MEASURES[job]
    }


def _median(values: Sequence[Any] | None, measure: Measure) -> float | int | None:
    if not values:
        return None
    if measure.type == "int64":
        return int(median_low(values))
    return round(float(median(values)) * measure.factor, 6)


def row(record: Record) -> dict[str, Any]:
    """The record's row of results.csv; what is not known is empty."""
    others = [name for name in record.arguments if name not in FACTORS]
    factors = {name: record.arguments.get(name) for name in (*FACTORS, *others)}
    values = {
        "scenario": record.scenario,
        **factors,
        "seed": record.seed,
        "status": record.status,
        **record.measures,
        **{name: getattr(record, name) for name in ("virtual_s", "wall_s", "run_id", "capture_sha256")},
    }
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in values.items()}


def columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of all columns; those that only some rows have come before the column that follows them there."""
    merged: list[str] = []
    for one in rows:
        place = 0
        for name in one:
            if name not in merged:
                merged.insert(place, name)
            place = merged.index(name) + 1
    return merged


def as_csv(records: Sequence[Record]) -> str:
    rows = [row(record) for record in records]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_json(records: Sequence[Record]) -> str:
    return json.dumps([row(record) for record in records], indent=1) + "\n"


def write_parquet(records: Sequence[Record], file: Path) -> None:
    """The rows of results.csv: arguments as text, measures with the types of NUMBERS, others with that of their values."""
    import pyarrow
    import pyarrow.parquet

    rows = [row(record) for record in records]
    measured = {name for record in records for name in record.measures} - NUMBERS.keys()
    types = {**NUMBERS, **dict.fromkeys(measured), **{name: "string" for record in records for name in record.arguments}}
    arrays = {
        name: pyarrow.array([one.get(name) for one in rows], types.get(name, "string")) for name in columns(rows)
    }
    pyarrow.parquet.write_table(pyarrow.table(arrays), file)


def line_protocol(run_dirs: Iterable[Path]) -> Iterator[str]:
    """Every statistic of the runs in InfluxDB 1.x's line protocol, as OpenBACH's collector writes them: measurement =
    job, the tags of its metadata and no others (OpenBACH's tools take what is no tag of theirs for a statistic), time in
    ms. The n-th run is scenario instance n. Numbers are floats, so that no field changes its type between two runs."""
    for number, run_dir in enumerate(run_dirs, 1):
        for statistic in statistics(run_dir):
            metadata = statistic["_metadata"]
            tags = {
                "@agent_name": metadata["agent_name"],
                "@job_instance_id": metadata["job_instance_id"],
                "@owner_scenario_instance_id": number,
                "@scenario_instance_id": number,
                **({"@suffix": metadata["suffix"]} if metadata.get("suffix") else {}),
            }
            fields = {
                name: _field(value) for name, value in statistic.items() if name != "_metadata" and value is not None
            }
            if fields:
                series = ",".join([_escaped(metadata["job_name"], ", "), *_pairs(tags)])
                shown = ",".join(f"{_escaped(name, ',= ')}={value}" for name, value in fields.items())
                yield f"{series} {shown} {metadata['time']}\n"


def _pairs(tags: Mapping[str, Any]) -> list[str]:
    return [f"{_escaped(name, ',= ')}={_escaped(str(value), ',= ')}" for name, value in tags.items()]


def _escaped(text: str, special: str) -> str:
    return "".join("\\" + letter if letter in special else letter for letter in text.replace("\n", " "))


def _field(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(float(value))
    text = value if isinstance(value, str) else json.dumps(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def least_transfer_time_s(arguments: Mapping[str, str]) -> float | None:
    """Time in s that the size of a scenario's arguments takes at their rate: full TCP segments, 1448 bytes of data in a
    frame of 1514. None for what has no size, or no rate of its own (a link file)."""
    if arguments.get("link_file", "none") != "none":
        return None
    try:
        return _number(arguments["size"]) * 8 / _number(arguments["rate"]) * FRAME_BYTES / SEGMENT_BYTES
    except (KeyError, ValueError):
        return None


def _number(text: str) -> float:
    return float(text[:-1]) * MULTIPLIERS[text[-1]] if text[-1:] in MULTIPLIERS else float(text)
