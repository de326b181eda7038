# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenario instances of a platform, whoever launched them, and whether their results are ours."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openbach_run.engine.platform.leftovers import ask_again
from openbach_run.engine.platform.order import Order, functions_of
from openbach_run.engine.platform.rest import Controller
from openbach_run.errors import SetupError

POLL_S, END_LIMIT_S = 1.0, 10.0
"""Time between two looks at an instance that is about to end, and time that it gets to end."""
OF_A_RUN = {"status", "launch_date", "job", "scenario"}
"""Keys that an instance shows of a function beside the function itself."""


def instances_of(
    controller: Controller, project: str, name: str, numbers: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield a scenario's instances, the oldest first: those with these numbers, or all.

    Raises SetupError for a number that is another scenario's, and where there are none.
    """
    listed = controller.get("project/", project, "scenario_instance/", quiet="")
    # With constants that differ from the file's, a scenario has a name of its own on the platform.
    pattern = re.compile(rf"{re.escape(name)}(-[0-9a-f]{{8}})?")
    every = [
        run["scenario_instance_id"] for run in listed if pattern.fullmatch(run["scenario_name"])
    ]
    if not every or {*numbers} - {*every}:
        has = f"instances {', '.join(map(str, sorted(every)))}" if every else "no instance"
        raise SetupError(f"{controller.access.url}, project {project}: {name} has {has}")
    for number in sorted(numbers or every):
        end_s = time.monotonic() + END_LIMIT_S
        instance = controller.get("scenario_instance/", number)
        while ask_again(controller, instance) and time.monotonic() < end_s:
            time.sleep(POLL_S)
            instance = controller.get("scenario_instance/", number)
        yield instance


def wrong_with(instance: Mapping[str, Any], order: Order, local: Order) -> str:
    """Return why an instance is no run of this order; "" if it is one.

    `local` is the order as `openbach-run serve` shows it: without functions that have nothing to
    do with these values.
    """
    if not instance["stop_date"] or instance["status"] == "Stopped":
        return f"it has no whole results ({instance['status']})"
    # The backend keeps the functions that have run, but shows the constants of today's version.
    ran = [_as_stored(function) for function in functions_of(instance)]
    if not any(ran == functions_of(form.scenarios[-1]) for form in (order, local)):
        return f"it ran another version of {order.name} than this checkout's"
    if not order.is_of(instance):
        return (
            f"the controller shows other constants than this checkout's; it should be {order.name}"
        )
    return ""


def _as_stored(function: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in function.items() if key not in OF_A_RUN}
