# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario that makes the whole table of another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

TABLE_JOB, TRANSFER = "transfer_table", "file_transfer"
SETTLE_S = 5
"""Seconds between two cells.

Jobs that were told to stop get up to 3 s, and then put their host back as it was.
"""


def table_of(name: str, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario that starts another one for each combination of the values that it sweeps.

    They run one after the other: one click in the web UI makes the whole table.
    """
    swept, defaults = scenario["x-sweep"]["values"], scenario["x-sweep"]["defaults"]
    cells = [dict(zip(swept, combination, strict=True)) for combination in product(*swept.values())]
    unswept = {name: text for name, text in scenario["arguments"].items() if name not in swept}
    functions: list[dict[str, Any]] = []
    for number, cell in enumerate(cells):
        # What is not swept stays an argument of the table, and is handed on to each cell.
        arguments = {name: cell.get(name, f"${name}") for name in scenario["arguments"]}
        function = {
            "id": number,
            "label": ", ".join(f"{name} {value}" for name, value in cell.items()),
            "wait": {
                "time": SETTLE_S if number else 0,
                "launched_ids": [],
                "finished_ids": [number - 1] if number else [],
            },
            "on_fail": {},
            "start_scenario_instance": {"scenario_name": scenario["name"], "arguments": arguments},
        }
        functions.append(function)
    functions += _table_job(scenario, cells, [*unswept])
    values = "; ".join(f"{name}: {', '.join(listed)}" for name, listed in swept.items())
    return {
        "name": name,
        "description": (
            f"The whole table of {scenario['name']}: its {len(cells)} combinations one after the"
            f" other ({values})"
        ),
        "arguments": unswept,
        "constants": {},
        "openbach_functions": functions,
        "x-sweep": {
            "defaults": {name: defaults[name] for name in unswept if name in defaults},
            "values": {},
        },
    }


def _table_job(
    scenario: Mapping[str, Any], cells: Sequence[Mapping[str, str]], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the function that stores the table on a platform, where its web UI exports it.

    There is none for a scenario whose table is not of transfer times.
    """
    started = [entry.get("start_job_instance", {}) for entry in scenario["openbach_functions"]]
    hosts = [start["entity_name"] for start in started if TRANSFER in start]
    if not hosts or "measure" in scenario["x-sweep"] or not all(cells):
        return []
    values = ", ".join(f"{name}=${name}" for name in names)
    texts = []
    for cell in cells:
        texts.append(",".join(f"{name}={value}" for name, value in cell.items()))
    job = {
        "scenarios": [[[number] for number in range(len(cells))]],
        "cells": [texts],
        "title": f"{scenario['name']}: transfer time (s)" + (f" with {values}" if values else ""),
    }
    function = {
        "id": len(cells),
        "label": "table",
        "wait": {"time": SETTLE_S, "launched_ids": [], "finished_ids": [len(cells) - 1]},
        # Without its table the transfers are as good.
        "on_fail": {"policy": "Ignore"},
        # The last one is the receiver.
        "start_job_instance": {"entity_name": hosts[-1], TABLE_JOB: job},
    }
    return [function]
