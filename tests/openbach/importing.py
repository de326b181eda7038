# SPDX-License-Identifier: GPL-3.0-or-later
"""Part 1: the platform gets its agents, then what `openbach-run package --install` brings.

The package's README has the same by hand: its commands are given afterwards.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

from stack import COLLECTOR, CONTROLLER
from steps import PROJECT, Run, ran, until

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
    run.record.part("1. `openbach-run package --install`, and the package's README")
    set_up(run)
    version = run.controller.get("version/")["openbach_version"]
    run.record.say(
        f"controller {CONTROLLER} says that it is {version}; {len(run.stack.agents)} agents"
    )
    install(run)
    by_readme(run)
    import_project(run)
    check_readme(run)


def install(run: Run) -> None:
    """A fresh platform, a command that is killed, the same one again, and a look."""
    words = ("package", "--install", CONTROLLER)
    code, text = ran(run, *words, "--check")
    run.record.check(
        "--check on a fresh platform changes nothing and names all that lacks",
        code == 1 and f"\n0 of {text.count('missing: ')} steps are done" in f"\n{text}",
        f"exit code {code}, {text.count('missing: ')} steps",
    )
    killed = run.command(*words)
    until(lambda: run.controller.find("job/", "lan_link") is not None, INSTALL_LIMIT_S)
    killed.kill()
    killed.communicate()
    begun_s = time.monotonic()
    code, text = ran(run, *words)
    lacks = "; ".join(line for line in text.splitlines() if "missing: " in line)
    run.record.check("killed, and given again: it does the rest", code == 0, lacks)
    took_min = (time.monotonic() - begun_s) / 60
    run.record.say(f"that took {took_min:.1f} minutes of the platform's clock")
    run.record.count("jobs installed by Ansible", text.count("jobs of "))
    is_whole(run)


def is_whole(run: Run) -> None:
    code, text = ran(run, "package", "--install", CONTROLLER, "--check")
    run.record.check("--check finds nothing missing", code == 0, text.strip()[-300:])


def by_readme(run: Run) -> None:
    """The commands of the README; those for jobs once each, on the platform that has them."""
    code, text = run.auditorium("get_job_infos.py", "fping")
    form = "2.7" if "ansible_distribution_release" in text else "2.6"
    run.record.check(
        "README: a job of the platform tells which packages it takes",
        code == 0 and form == "2.7",
        form,
    )
    added = {words[0] for words in run.commands_of("add_job.py")}
    packed = {file.name.removesuffix(".tar.gz") for file in (run.package / "jobs-2.7").iterdir()}
    said = {name for name in packed - added if f"`{name}`" in run.readme}
    run.record.check(
        "README: a job that is not in its list is named, with the reason", said == packed - added
    )
    more = [[name, "-t", f"jobs-2.7/{name}.tar.gz"] for name in sorted(said)]
    installs, lists = run.commands_of("install_jobs.py"), run.commands_of("list_installed_jobs.py")
    attached = run.commands_of("modify_entity.py")
    for script, several in (
        ("add_job.py", [run.commands_of("add_job.py")[0], *more]),
        ("install_jobs.py", installs[:1]),
        ("list_installed_jobs.py", lists),
        ("delete_project.py", [[PROJECT]]),
        ("add_project.py", [["project.json"]]),
        ("modify_entity.py", attached),
    ):
        told = [(words, *run.auditorium(script, *words)) for words in several]
        wrong = [f"{' '.join(words)}: {text[-300:]}" for words, code, text in told if code]
        run.record.check(f"{script}: {len(several)} as README has it", not wrong, "; ".join(wrong))
    run.record.check("README: each agent has its commands", len(installs) == len(lists) == 7)
    is_whole(run)


def import_project(run: Run) -> None:
    project = run.controller.get("project/", PROJECT)
    attached = [entity["name"] for entity in project["entity"] if entity["agent"]]
    run.record.count("entities attached", len(attached))
    files = sorted((run.package / "scenarios").glob("*.json"))
    there = {scenario["name"]: scenario for scenario in project["scenario"]}
    run.record.count("scenarios imported", len(there))
    run.record.check(
        f"the project has all {len(files)} scenarios", {file.stem for file in files} == there.keys()
    )
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
