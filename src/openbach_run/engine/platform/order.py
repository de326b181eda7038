# SPDX-License-Identifier: GPL-3.0-or-later
"""The order by which a controller starts a run: scenarios, their names there, and arguments."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openbach_run.catalog import Catalog
from openbach_run.link_checks import ORBIT, in_force, read_presets
from openbach_run.openbach.functions import WAIT_LISTS
from openbach_run.openbach.scenario import Scenario, defaults_of


@dataclass(frozen=True)
class Order:
    """The scenario and arguments that are started for a run.

    Where constants have other values than in the scenario's file, the scenarios with these have
    names of their own on the platform: others may use the scenario under its own name meanwhile.
    """

    scenarios: list[dict[str, Any]]
    """Scenarios in stored form: sub-scenarios first, the one to start last."""
    arguments: dict[str, str]
    called: dict[str, str]
    """Names on the platform → names in the files."""

    @property
    def name(self) -> str:
        """Return the name of the scenario to start."""
        return str(self.scenarios[-1]["name"])

    def is_of(self, instance: Mapping[str, Any]) -> bool:
        """Return whether an instance was started by this order.

        A controller shows constants among the arguments.
        """
        shown = {argument["name"]: argument["value"] for argument in instance["arguments"]}
        return bool(
            instance["scenario_name"] == self.name and self.arguments.items() <= shown.items()
        )


def order_of(spec: Mapping[str, Any], own: Sequence[Scenario]) -> Order:
    """Return the order that starts the run on the platform.

    `own` are the scenarios of the files. `values` of the run's specification has all as it was
    given, but for what `configured` has in its place.
    """
    values = {**spec["values"], **spec.get("configured", {})}
    arguments = {name: str(values[name]) for name in own[0].arguments}
    usual = _usual_values(own, values)
    constants = {
        name: value
        for name, value in values.items()
        if value != usual.get(name, arguments.get(name))
    }
    by_name = {scenario.name: scenario.with_constants(constants) for scenario in own}
    changed = {
        name: value
        for scenario in own
        for name, value in by_name[scenario.name].constants.items()
        if value != scenario.constants.get(name)
    }
    # The same constants have the same name: no upload is needed for the next run with them.
    mark = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:8]
    text = ", ".join(f"{name}={value}" for name, value in changed.items())
    called = {name: f"{name}-{mark}" if changed else name for name in by_name}
    scenarios = []
    # The controller takes a scenario only if those that it starts are there already.
    for name, scenario in reversed(by_name.items()):
        functions = [_renamed(function, called) for function in scenario.functions]
        description = f"{scenario.description or name}; {text}" if text else scenario.description
        scenarios.append(
            {
                **scenario.as_stored(),
                "name": called[name],
                "description": description,
                "openbach_functions": functions,
            }
        )
    return Order(scenarios, arguments, {uploaded: name for name, uploaded in called.items()})


def is_same(scenario: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two scenarios, as a controller shows them, are the same."""
    key = "openbach_functions"
    return {**scenario, key: functions_of(scenario)} == {**other, key: functions_of(other)}


def functions_of(shown: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the functions by their ids, with sorted ids that each waits for.

    The backend asks its database for these without an order, and mostly gets the one in which they
    came.
    """
    functions = []
    for function in shown.get("openbach_functions", ()):
        wait = {
            key: sorted(value) if key in WAIT_LISTS else value
            for key, value in function.get("wait", {}).items()
        }
        functions.append({**function, "wait": wait})
    return sorted(functions, key=lambda function: int(function["id"]))


def _usual_values(own: Sequence[Scenario], values: Mapping[str, str]) -> dict[str, str]:
    """Return what the constants of the files come to on the satellite of these values."""
    constants = defaults_of(own)
    orbit = values.get(ORBIT, constants.get(ORBIT, ""))
    return in_force(
        {**constants, ORBIT: orbit}, read_presets([orbit], Catalog().all("satellites"))
    ) | {ORBIT: constants.get(ORBIT, orbit)}


def _renamed(function: dict[str, Any], called: Mapping[str, str]) -> dict[str, Any]:
    """Return the function, with the platform's name of the scenario that it starts."""
    if (start := function.get("start_scenario_instance")) is None:
        return function
    name = start["scenario_name"]
    return {
        **function,
        "start_scenario_instance": {**start, "scenario_name": called.get(name, name)},
    }
