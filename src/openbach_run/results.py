# SPDX-License-Identifier: GPL-3.0-or-later
"""Results: one tidy row per run, as CSV, JSON, Parquet; statistics as InfluxDB's line protocol."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from openbach_run.record import Record, statistics

MEASURING_JOB = "file_transfer"
MEASURES = ("transfer_time_s", "goodput_mbps", "bytes", "ttfb_s", "retransmits")
FACTORS = ("vpn", "pep", "cc", "loss")
NUMBERS = {
    "seed": "int64", "transfer_time_s": "float64", "goodput_mbps": "float64", "bytes": "int64", "ttfb_s": "float64",
    "retransmits": "int64", "virtual_s": "float64", "wall_s": "float64",
}  # fmt: skip
"""Types of columns in results.parquet; all others are text, the scenario's arguments as they were given."""

FRAME_BYTES, SEGMENT_BYTES = 1514, 1448
BOTTLENECK_BPS = 10e6
MULTIPLIERS = {"k": 10**3, "M": 10**6, "G": 10**9}


def measures(run_dir: Path, scenario_instance_id: int | None = None) -> dict[str, Any]:
    """What the transfer's client measured: s, Mbit/s, bytes, s, segments. Nothing if several scenario instances made
    transfers, and none of them is asked for."""
    found: dict[str, Any] = {}
    instances = set()
    for statistic in statistics(run_dir):
        metadata = statistic["_metadata"]
        instance = metadata.get("scenario_instance_id")
        if metadata["job_name"] == MEASURING_JOB and scenario_instance_id in (None, instance):
            instances.add(instance)
            found.update(statistic)
    if len(instances) > 1:
        found = {}
    if "goodput_bps" in found:
        found["goodput_mbps"] = round(found["goodput_bps"] / 1e6, 6)
    return {name: found.get(name) for name in MEASURES}


def row(record: Record) -> dict[str, Any]:
    """The record's row of results.csv; what is not known is empty."""
    others = [name for name in record.arguments if name not in FACTORS]
    factors = {name: record.arguments.get(name) for name in (*FACTORS, *others)}
    measured = {name: record.measures.get(name) for name in dict.fromkeys([*MEASURES, *record.measures])}
    values = {
        "scenario": record.scenario,
        **factors,
        "seed": record.seed,
        "status": record.status,
        **measured,
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
    """The rows of results.csv with the types of NUMBERS; other measures have the type of their values."""
    import pyarrow
    import pyarrow.parquet

    rows = [row(record) for record in records]
    measured = {name for record in records for name in record.measures} - NUMBERS.keys()
    arrays = {}
    for name in columns(rows):
        values = [one.get(name) for one in rows]
        arrays[name] = pyarrow.array(values, None if name in measured else NUMBERS.get(name, "string"))
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


def least_transfer_time_s(size: str) -> float | None:
    """Time in s that the bytes of full TCP segments take at the bottleneck: 1448 bytes of data in a frame of 1514."""
    number, factor = (size[:-1], MULTIPLIERS[size[-1]]) if size[-1:] in MULTIPLIERS else (size, 1)
    try:
        return float(number) * factor * 8 / BOTTLENECK_BPS * FRAME_BYTES / SEGMENT_BYTES
    except ValueError:
        return None
