# SPDX-License-Identifier: GPL-3.0-or-later
"""Part 2: every scenario launched over REST, with the values of the package's README.

And what any launched instance is judged by.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

from stack import CONTROLLER_URL, PASSWORD
from steps import INSTANCE_LIMIT_S, PROJECT, Run, session, until

from openbach_run.engine.platform import reasons

TABLE = "_table"
CHILD_LIMIT_S, EXPORT_LIMIT_S = 900.0, 300.0
"""Guest's time, for each combination of a table and for an export, which is a playbook's."""
TABLE_LOOK_S = 20
"""The answer has all 36 combinations with their 26 functions each: it costs the platform a second."""


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
            instance = run.ended(run.start(name, values), INSTANCE_LIMIT_S)
            judge(run, name, instance)
            run.keep(instance, "REST")
    run.nothing_left("after these", before)


def follow_table(run: Run, name: str, number: int) -> None:
    """Judge a table's combinations as they end, then the table that its last function stores."""
    functions = json.loads((run.package / f"scenarios/{name}.json").read_text())
    wanted = sum("start_scenario_instance" in one for one in functions["openbach_functions"])
    judged: dict[int, dict[str, Any]] = {}
    ended: list[dict[str, Any]] = []

    def goes_on() -> bool:
        """Look for combinations that have ended: whether there are new ones, or the table ends."""
        instance = run.instance(number)
        ended[:] = [
            child for child in _ended(instance) if child["scenario_instance_id"] not in judged
        ]
        return bool(ended or instance["stop_date"])

    while len(judged) < wanted:
        if not until(goes_on, CHILD_LIMIT_S, TABLE_LOOK_S) or not ended:
            break
        for child in ended:
            judged[child["scenario_instance_id"]] = child
            judge(run, f"{name}, one of its {wanted} combinations", child)
            run.keep(child, "a table, by one click", (name, number))
    status = run.ended(number, 90)["status"]
    run.record.check(
        f"{name}: {status}, {len(judged)} combinations",
        status == "Finished Ok" and len(judged) == wanted,
    )


def newest_of(run: Run, name: str) -> int:
    """The number of the newest instance of a scenario; 0 if there is none."""
    place = ("project/", PROJECT, "scenario/", name, "scenario_instance/")
    found = run.controller.get(*place, quiet="", offset="0", limit="5")
    return max((int(one["scenario_instance_id"]) for one in found), default=0)


def stored_files(run: Run, number: int, job: str, *statistics: str) -> dict[str, bytes]:
    """The files that a job of an instance has stored, by name.

    The UI's Export asks without the slash before the question mark: 404 in OpenBACH 2.7.0.
    """
    url = f"{CONTROLLER_URL}scenario_instance/{number}/archive"
    with session(CONTROLLER_URL, PASSWORD) as asking:
        given = {job: [*statistics]}
        run.record.say(f"Export, as the UI asks: {asking.get(url, params=given).status_code}")
        answer = asking.get(f"{url}/", params=given, timeout=EXPORT_LIMIT_S)
    answer.raise_for_status()
    return unpacked(answer.content)


def unpacked(content: bytes) -> dict[str, bytes]:
    """The files of an archive by name, those of archives in it among them.

    OpenBACH's jobs that draw store their figures as one .tar.gz.
    """
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            if file := archive.extractfile(member):
                read = file.read()
                inner = unpacked(read) if member.name.endswith(".tar.gz") else {}
                files |= inner or {Path(member.name).name: read}
    return files


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
