# SPDX-License-Identifier: GPL-3.0-or-later
"""Statistics in InfluxDB's line protocol."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from openbach_run.results.record import statistics


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
