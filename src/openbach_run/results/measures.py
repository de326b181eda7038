# SPDX-License-Identifier: GPL-3.0-or-later
"""What the jobs of a run measured, by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, median_low
from typing import Any, NamedTuple

from openbach_run.results import flows
from openbach_run.results.record import statistics
from openbach_run.results.run_files import DamagedRecord, is_number


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
MEASURED = {
    "interval_goodput_bps",
    *(measure.statistic or measure.column for job in MEASURES.values() for measure in job),
}
"""Statistics that are numbers, or missing (null)."""
FACTORS = ("vpn", "pep", "cc", "loss")
NUMBERS = {
    "seed": "int64", "virtual_s": "float64", "wall_s": "float64",
    **{measure.column: measure.type for job in MEASURES.values() for measure in job},
    **dict.fromkeys(flows.MEASURES, "float64"),
}  # fmt: skip
"""Types of columns in results.parquet; all others are text, the scenario's arguments as they were given."""


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
                    raise DamagedRecord(
                        f"{run_dir / 'statistics.jsonl'}, line {line}: {name} is {value!r}, not a number"
                    )
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
