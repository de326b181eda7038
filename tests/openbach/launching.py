# SPDX-License-Identifier: GPL-3.0-or-later
"""Part 2: scenarios launched over REST with the values of the package's README.

This machine's kernel may lack what the satellite link needs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from steps import PROJECT, Run, until

from openbach_jobs import kernel
from openbach_run.engine.platform import reasons
from openbach_run.engine.platform.rest import Lost

SCENARIOS = ("geo", "web", "voip", "multi_flow")
TABLE = "geo_loss_table"
CHILDREN = 1
"""How many of the table's combinations are waited for: each fails for the same reason where the
kernel lacks a piece of the link."""
LACKS = re.compile(r"this host's kernel \S+ has no (.+? \(module \w+\)): on Debian ")
"""What the link's job says then, before it changes anything: its own words, not the input of tc."""
ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
NOT_ALLOWED = re.compile(r"tcp_congestion_control: writing '(\w+)': Operation not permitted")
"""What a job says where this machine's kernel keeps a congestion control from namespaces."""
INSTEAD = {"cc": "bbr", "size": "1M"}
"""Of the README's values."""


def has_link() -> bool:
    """Whether this machine's kernel, which is the agents' own, has what the satellite link needs."""
    return not kernel.missing([*kernel.LINK, "tbf"])


def values_of(run: Run, scenario: str) -> dict[str, str]:
    """Return the README's value for each argument.

    The congestion control is one that Linux lets a namespace set.
    """
    values = run.values(scenario)
    return values | {name: value for name, value in INSTEAD.items() if name in values}


def said(run: Run, instance: dict[str, Any]) -> str:
    """Why an instance failed, as our engine tells it."""
    return reasons.explain(run.controller, instance)


def launch_all(run: Run) -> None:
    run.record.part("2. Launched over REST")
    there = has_link()
    release = Path("/proc/sys/kernel/osrelease").read_text().strip()
    run.record.say(
        f"this machine's kernel, {release}, {'has' if there else 'lacks'} what the satellite link"
        " needs"
    )
    before = run.networks()
    for name in SCENARIOS:
        number = run.start(name, values_of(run, name))
        instance = run.ended(number)
        judge(run, name, instance, there)
    run.nothing_left("after these", before)


def launch_table(run: Run) -> None:
    """At the end: the controller is busy with it for minutes."""
    run.record.part("9. The table as one scenario, launched over REST and stopped")
    there = has_link()
    before = run.networks()
    values = values_of(run, TABLE)
    newest = run.newest()
    try:
        number = run.start(TABLE, values)
    except Lost:  # 36 scenarios of 26 functions are written to the database before the answer comes
        run.record.say(
            f"the order to start {TABLE} has no answer within 30 s; the controller goes on with it"
        )
        place = ("project/", PROJECT, "scenario/", TABLE, "scenario_instance/")

        def listed() -> list[int]:
            return [
                int(one["scenario_instance_id"])
                for one in run.controller.get(*place, quiet="", offset="0", limit="5")
            ]

        until(lambda: max(listed(), default=0) > newest, 240)
        number = max(listed())
    until(lambda: len(_ended(run.instance(number))) >= CHILDREN, 240)
    children = _ended(run.instance(number))
    for child in children[:CHILDREN]:
        judge(run, f"{TABLE}, one of its 36 combinations", child, there)
    run.controller.post("scenario_instance/", number, body={}, repeat=True)
    status = run.ended(number, 90)["status"]
    run.record.check(f"{TABLE}: a stop over REST ends it", status == "Stopped", status)
    run.nothing_left("after these", before)


def _ended(instance: dict[str, Any]) -> list[dict[str, Any]]:
    children = [
        function["scenario"]
        for function in instance["openbach_functions"]
        if function.get("scenario")
    ]
    return [child for child in children if child["stop_date"]]


def judge(run: Run, name: str, instance: dict[str, Any], there: bool) -> None:
    """Finished Ok; or Finished Ko with a reason that names what this machine's kernel lacks.

    That is a piece of the link, or a congestion control that it keeps from namespaces.
    """
    status = instance["status"]
    run.record.count(f"instances {status}")
    if there:
        run.record.check(f"{name}: {status}", status == "Finished Ok")
        return
    reason = said(run, instance)
    kept_back = set(NOT_ALLOWED.findall(reason)) - set(ALLOWED.read_text().split())
    lacks = " and ".join(sorted(kept_back)) or "what the kernel lacks, and the package"
    run.record.check(
        f"{name}: {status}, and the reason names {lacks}",
        status == "Finished Ko" and bool(kept_back or LACKS.search(reason)),
    )
    run.record.show(reason)
