# SPDX-License-Identifier: GPL-3.0-or-later
"""Write statistics in InfluxDB's line protocol."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from openbach_run.results.record import statistics


def line_protocol(run_dirs: Iterable[Path]) -> Iterator[str]:
    """Yield every statistic of the runs as a line in InfluxDB 1.x's line protocol.

    The lines are like those of OpenBACH's collector. The measurement is the job's name. The tags
    are those of OpenBACH's metadata and no others: OpenBACH's tools take any other tag for a
    statistic. The time is in ms. The n-th run is scenario instance n. Numbers are floats, so that
    no field changes its type between two runs.
    """
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
                name: _field(value)
                for name, value in statistic.items()
                if name != "_metadata" and value is not None
            }
            if fields:
                series = ",".join([_escaped(metadata["job_name"], ", "), *_pairs(tags)])
                shown = ",".join(
                    f"{_escaped(name, ',= ')}={value}" for name, value in fields.items()
                )
                yield f"{series} {shown} {metadata['time']}\n"


def _pairs(tags: Mapping[str, Any]) -> list[str]:
    """Return the tags as `name=value`, escaped."""
    return [
        f"{_escaped(name, ',= ')}={_escaped(str(value), ',= ')}" for name, value in tags.items()
    ]


def _escaped(text: str, special: str) -> str:
    """Return the text on one line, with a backslash before each letter that is `special`."""
    return "".join(
        "\\" + letter if letter in special else letter for letter in text.replace("\n", " ")
    )


def _field(value: Any) -> str:
    """Return a value as the line protocol writes it: a boolean, a float, or a quoted text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(float(value))
    text = value if isinstance(value, str) else json.dumps(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
