# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenario instances of a platform, whoever launched them, and whether their results are ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openbach_run.engine.platform.engine import Order
from openbach_run.engine.platform.rest import Controller, Refused
from openbach_run.errors import SetupError

OF_A_RUN = ("status", "launch_date", "job", "scenario")
"""What an instance shows of a function beside the function itself."""
LEFT_OUT = {
    "Stopped": "it was stopped",
    "Running": "it still runs; collect it when it has ended",
    "Scheduling": "it has not begun, and may never",
}


def named(name: str, shown: str) -> bool:
    """Return whether a scenario on a platform is `name`, also under a name of its own constants."""
    return bool(re.fullmatch(rf"{re.escape(name)}(-[0-9a-f]{{8}})?", shown))


def instances_of(
    controller: Controller, project: str, name: str, numbers: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield a scenario's instances, the oldest first: those with these numbers, or all.

    Raises SetupError for a number that is another scenario's, and where there are none.
    """
    url = controller.access.url
    try:
        listed = controller.get("project/", project, "scenario_instance/", quiet="")
    except Refused as refusal:
        if refusal.status != 404:
            raise
        raise SetupError(f"{url} has no project {project}: --project names another one") from None
    every = {
        int(one["scenario_instance_id"]) for one in listed if named(name, str(one["scenario_name"]))
    }
    if not every:
        raise SetupError(f"{url}, project {project}: nobody has launched {name} there")
    if others := sorted(set(numbers) - every):
        raise SetupError(
            f"{url}, project {project}: instance {others[0]} is none of {name}; there are"
            f" {', '.join(map(str, sorted(every)))}"
        )
    for number in sorted(numbers or every):
        yield controller.get("scenario_instance/", number)


def started_by(instance: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the instances that an instance of a scenario of scenarios has started."""
    for function in instance["openbach_functions"]:
        if scenario := function.get("scenario"):
            yield scenario


def wrong_with(instance: Mapping[str, Any], order: Order, local: Order) -> str:
    """Return why an instance is no run of this order; "" if it is one.

    `local` is the order as `openbach-run serve` shows it: without functions that have nothing to
    do with these values.
    """
    if not instance["stop_date"] or instance["status"] in LEFT_OUT:
        return LEFT_OUT.get(instance["status"], f"it has not ended ({instance['status']})")
    # The backend keeps the functions that have run, but shows the constants of today's version.
    ran = {one["id"]: _as_stored(one) for one in instance["openbach_functions"]}
    here, ours = _functions(local), _functions(order)
    if ran not in (here, ours):
        differ = [one for one in sorted(ran | ours) if ran.get(one) != ours.get(one)]
        return (
            f"it ran another version of {instance['scenario_name']} than this checkout's:"
            f" {len(differ)} functions differ, the first is {differ[0]}"
        )
    if not order.is_of(instance):
        return (
            f"the constants that the controller shows for {instance['scenario_name']} are not this"
            f" checkout's; with them it would be {order.name}"
        )
    return ""


def _functions(order: Order) -> dict[int, dict[str, Any]]:
    return {one["id"]: one for one in order.scenarios[-1]["openbach_functions"]}


def _as_stored(function: Mapping[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in function.items() if key not in OF_A_RUN}
