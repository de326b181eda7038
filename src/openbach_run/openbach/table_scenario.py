# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario that makes the whole table of another one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

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
    asked = {name: text for name, text in scenario["arguments"].items() if name not in swept}
    functions: list[dict[str, Any]] = []
    for number, cell in enumerate(cells):
        # What is not swept stays an argument of the table, and is handed on to each cell.
        arguments = {one: cell.get(one, f"${one}") for one in scenario["arguments"]}
        function = {
            "id": number,
            "label": ", ".join(f"{one} {value}" for one, value in cell.items()),
            "wait": {
                "time": SETTLE_S if number else 0,
                "launched_ids": [],
                "finished_ids": [number - 1] if number else [],
            },
            "on_fail": {},
            "start_scenario_instance": {
                "scenario_name": scenario["name"],
                "arguments": arguments,
            },
        }
        functions.append(function)
    values = "; ".join(f"{name}: {', '.join(listed)}" for name, listed in swept.items())
    return {
        "name": name,
        "description": (
            f"The whole table of {scenario['name']}: its {len(cells)} combinations one after the"
            f" other ({values})"
        ),
        "arguments": asked,
        "constants": {},
        "openbach_functions": functions,
        "x-sweep": {
            "defaults": {name: defaults[name] for name in asked if name in defaults},
            "values": {},
        },
    }
