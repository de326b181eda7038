# SPDX-License-Identifier: GPL-3.0-or-later
"""Part 2: every scenario launched over REST, with the values of the package's README.

Part 9: the tables, as one scenario each. What instances have measured is kept for compare.py.
"""

from __future__ import annotations

import json
from typing import Any

from steps import PROJECT, Run, until

from openbach_run.engine.platform import reasons
from openbach_run.engine.platform.rest import Lost

TABLE = "_table"
RUN_LIMIT_S = 1800.0
CHILD_LIMIT_S = 900.0
"""Guest's time, for an instance and for each combination of a table."""


def said(run: Run, instance: dict[str, Any]) -> str:
    """Why an instance failed, as our engine tells it."""
    return reasons.explain(run.controller, instance)


def scenarios(run: Run) -> list[str]:
    """Return the names of the package's scenarios."""
    return sorted(file.stem for file in (run.package / "scenarios").glob("*.json"))


def launch_all(run: Run) -> None:
    run.record.part("2. Launched over REST")
    before = run.networks()
    for name in scenarios(run):
        if not name.endswith(TABLE):
            values = run.values(name)
            instance = run.ended(run.start(name, values), RUN_LIMIT_S)
            judge(run, name, instance)
            run.keep(instance, "REST")
    run.nothing_left("after these", before)


def launch_table(run: Run, name: str = "geo_loss_table") -> None:
    """Launch a table, and judge its combinations as they end."""
    run.record.part(f"9. {name} as one scenario, launched over REST")
    before = run.networks()
    number = start_table(run, name)
    wanted = len(
        json.loads((run.package / f"scenarios/{name}.json").read_text())["openbach_functions"]
    )
    judged: set[int] = set()
    while len(judged) < wanted:

        def new() -> list[dict[str, Any]]:
            return [
                one
                for one in _ended(run.instance(number))
                if one["scenario_instance_id"] not in judged
            ]

        if not until(lambda: bool(new()) or bool(run.instance(number)["stop_date"]), CHILD_LIMIT_S):
            break
        found = new()
        for child in found:
            judged.add(child["scenario_instance_id"])
            judge(run, f"{name}, one of its {wanted} combinations", child)
            run.keep(child, "a table, over REST")
        if not found:
            break
    status = run.ended(number, 90)["status"]
    run.record.check(
        f"{name}: {status}, {len(judged)} combinations",
        status == "Finished Ok" and len(judged) == wanted,
    )
    run.nothing_left("after these", before)


def start_table(run: Run, name: str) -> int:
    """Start a table over REST; return the number of its instance."""
    newest = run.newest()
    try:
        return run.start(name, run.values(name))
    except Lost:  # 36 scenarios of 26 functions are written to the database before the answer comes
        run.record.say(
            f"the order to start {name} has no answer within 30 s; the controller goes on with it"
        )
    place = ("project/", PROJECT, "scenario/", name, "scenario_instance/")

    def listed() -> list[int]:
        found = run.controller.get(*place, quiet="", offset="0", limit="5")
        return [int(one["scenario_instance_id"]) for one in found]

    until(lambda: max(listed(), default=0) > newest, 240)
    return max(listed())


def _ended(instance: dict[str, Any]) -> list[dict[str, Any]]:
    functions = instance["openbach_functions"]
    children = [one["scenario"] for one in functions if one.get("scenario")]
    return [child for child in children if child["stop_date"]]


def judge(run: Run, name: str, instance: dict[str, Any]) -> None:
    """Check that an instance is Finished Ok; its reason is shown if it is not."""
    status = instance["status"]
    run.record.count(f"instances {status}")
    run.record.check(f"{name}: {status}", status == "Finished Ok")
    if status != "Finished Ok":
        run.record.show(said(run, instance))
