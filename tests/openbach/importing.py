# SPDX-License-Identifier: GPL-3.0-or-later
"""Part 1: the platform gets its agents, then what `openbach-run package` has made.

The commands are those of the package's README.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

from stack import COLLECTOR, CONTROLLER
from steps import PROJECT, Run, until

INSTALL_LIMIT_S = 420.0
MOST_FIELDS = 6
STATE_LIMIT_S = 60.0


def set_up(run: Run) -> None:
    """What OpenBACH's own installer tells a new controller (role configure_backend)."""
    run.controller.log_in()
    place = {"address": COLLECTOR, "name": "collector", "skip_playbook": True}
    run.controller.post("collector/", body=place)
    until(
        lambda: _done(run.controller.get("collector/", COLLECTOR, "state/")["add"]), STATE_LIMIT_S
    )

    def is_installed(address: str) -> bool:
        return _done(run.controller.get("agent/", address, "state/")["install"])

    for agent in run.stack.agents.values():
        body = {
            "address": agent.address,
            "name": agent.name,
            "collector_ip": COLLECTOR,
            "skip_playbook": True,
        }
        run.controller.post("agent/", body=body)
        until(partial(is_installed, agent.address), STATE_LIMIT_S)
    run.record.count("agents", len(run.stack.agents))
    jobs = run.checkout / "src/jobs"
    for playbook in sorted(jobs.glob("**/install_*.yml")):
        name = playbook.stem.removeprefix("install_")
        path = f"/opt/openbach/controller/src/jobs/{playbook.parent.relative_to(jobs)}/"
        run.controller.post("job/", body={"name": name, "path": path})
        run.record.count("jobs of OpenBACH's own")


def _done(state: Any) -> bool:
    return bool(state) and state["returncode"] in (200, 204)


def import_all(run: Run) -> None:
    run.record.part("1. Import, as the package's README says")
    set_up(run)
    version = run.controller.get("version/")["openbach_version"]
    run.record.say(
        f"controller {CONTROLLER} says that it is {version}; {len(run.stack.agents)} agents"
    )
    code, text = run.auditorium("get_job_infos.py", "fping")
    form = "2.7" if "ansible_distribution_release" in text else "2.6"
    run.record.check(
        "README: a job of the platform tells which packages it takes",
        code == 0 and form == "2.7",
        form,
    )
    add_jobs(run)
    install_jobs(run)
    import_project(run)
    check_readme(run)


def add_jobs(run: Run) -> None:
    added = {words[0] for words in run.commands_of("add_job.py")}
    packed = {file.name.removesuffix(".tar.gz") for file in (run.package / "jobs-2.7").iterdir()}
    refused = []
    for words in [
        *run.commands_of("add_job.py"),
        *([name, "-t", f"jobs-2.7/{name}.tar.gz"] for name in sorted(packed - added)),
    ]:
        code, text = run.auditorium("add_job.py", *words)
        if code:
            refused.append(f"{words[0]}: {text[-200:]}")
        else:
            run.record.count("jobs imported")
    run.record.check(
        f"the controller takes all {len(packed)} jobs ({len(added)} by README, the others beside)",
        not refused,
        "; ".join(refused),
    )
    said = {name for name in packed - added if f"`{name}`" in run.readme}
    run.record.check(
        "README: a job that is not in its list is named, with the reason", said == packed - added
    )


def install_jobs(run: Run) -> None:
    begun_s = time.monotonic()
    failed = []
    wanted: dict[str, set[str]] = {}
    for words in run.commands_of("install_jobs.py"):
        address = words[words.index("-a") + 1]
        wanted[address] = set(words[1 : words.index("-a")])
        code, text = run.auditorium("install_jobs.py", *words)
        run.record.say(f"install_jobs.py {' '.join(words)}: {len(wanted)} agents done")
        if code or "Operation successfull" not in text:
            failed.append(f"{address}: {text[-300:]}")
    run.record.check(
        f"install_jobs.py, the real Ansible, on {len(wanted)} agents", not failed, "; ".join(failed)
    )
    checks = run.commands_of("list_installed_jobs.py")
    run.record.check(
        "README: how to check an install",
        {words[0] for words in checks} == wanted.keys(),
        f"{len(checks)} commands",
    )
    early = 0
    for words in checks:

        def installed(words: list[str] = words) -> bool:
            answer = run.controller.get("job/", address=words[0], update="")
            return wanted[words[0]] <= {job["name"] for job in answer["installed_jobs"]}

        if not installed():
            early += 1
            until(installed, INSTALL_LIMIT_S)
        code, text = run.auditorium("list_installed_jobs.py", *words)
        there = {job for job in wanted[words[0]] if f"'name': '{job}'" in text}
        missing = wanted[words[0]] - there
        run.record.check(
            f"{words[0]} says itself that it has {', '.join(sorted(wanted[words[0]]))}",
            not missing,
            ", ".join(missing),
        )
        run.record.count("jobs installed by Ansible", len(there))
    run.record.say(
        f"installing took {(time.monotonic() - begun_s) / 60:.1f} minutes. {early} agents had not"
        " all of their jobs when install_jobs.py said that it was successful: OpenBACH's role"
        " install_job registers a job as installed before its playbook has ended"
    )


def import_project(run: Run) -> None:
    code, text = run.auditorium("add_project.py", "project.json")
    run.record.check(
        "add_project.py takes project.json", code == 0, "" if code == 0 else text[-400:]
    )
    failed = [
        words[0]
        for words in run.commands_of("modify_entity.py")
        if run.auditorium("modify_entity.py", *words)[0]
    ]
    project = run.controller.get("project/", PROJECT)
    attached = [entity["name"] for entity in project["entity"] if entity["agent"]]
    run.record.count("entities attached", len(attached))
    run.record.check(
        f"{len(attached)} of {len(project['entity'])} entities have their agents",
        len(attached) == 7 and not failed,
    )
    files = sorted((run.package / "scenarios").glob("*.json"))
    there = {scenario["name"]: scenario for scenario in project["scenario"]}
    run.record.count("scenarios imported", len(there))
    run.record.check(
        f"the project has all {len(files)} scenarios", {file.stem for file in files} == there.keys()
    )
    changed = [
        file.stem
        for file in files
        if run.controller.get("project/", PROJECT, "scenario/", file.stem)
        != json.loads(file.read_text())
    ]
    run.record.check("each scenario comes back as it was sent", not changed, ", ".join(changed))
    again = [
        file.stem
        for file in files
        if run.auditorium("modify_scenario.py", file.stem, PROJECT, str(file))[0]
    ]
    run.record.check(
        "each file of scenarios/ is taken by itself (modify_scenario.py)",
        not again,
        ", ".join(again),
    )


def check_readme(run: Run) -> None:
    """Earlier defects: 19 mandatory fields, and values that could not be typed as shown."""
    fields = {
        file.stem: run.arguments_of(file.stem)
        for file in (run.package / "scenarios").glob("*.json")
    }
    most = max(fields.values(), key=len)
    run.record.check(
        f"earlier defect: mandatory fields (were 19; now at most {len(most)})",
        len(most) <= MOST_FIELDS,
    )
    values = {scenario: run.values(scenario) for scenario in fields}
    without = [name for name, wanted in fields.items() if list(values[name]) != wanted]
    strange = [
        f"{scenario}: {name}"
        for scenario, of in values.items()
        for name, value in of.items()
        if not value or "$" in value or " " in value
    ]
    run.record.check(
        "earlier defect: README has a value to type for each field",
        not without and not strange,
        ", ".join([*without, *strange]),
    )
    texts = {
        json.loads((run.package / f"scenarios/{name}.json").read_text())["arguments"].get(
            "vpn", "another"
        )
        for name in fields
    }
    run.record.check(
        "a description of vpn does not name four values as if they were all",
        all("another" in text for text in texts),
    )
