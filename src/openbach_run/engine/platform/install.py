# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run package --install`: what the package's README says, over the controller's REST API.

Each step is looked at first and again when it is done, so a command that was interrupted goes on
where it was, and a second one does nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from openbach_run.catalog import Catalog
from openbach_run.engine.platform.engine import unreachable, upload
from openbach_run.engine.platform.order import is_same
from openbach_run.engine.platform.rest import Controller, Lost, Refused
from openbach_run.openbach.job_folders import Package, form_of
from openbach_run.openbach.project import packed

POLL_S = 2.0
STEP_LIMIT_S = 600.0
"""Limit for a playbook, and for an answer: attaching an agent asks all of them over Ansible."""
DONE, RUNNING = (200, 204), 202
MOST_TOLD = 500
Step = tuple[str, Callable[[], str], Callable[[], object]]
"""A step: its name, a check that returns what is missing or "", and the action that mends it."""


@dataclass
class Installation:
    """The steps that bring a platform to have a project, as it is imported, and its jobs."""

    controller: Controller
    project: Mapping[str, Any]
    packages: Mapping[str, Package]
    catalog: Catalog
    needed: Mapping[str, set[str]]
    """The jobs of each entity."""
    addresses: Mapping[str, str]
    """The agents of the entities."""
    again: bool
    """True if all jobs are added and installed once more."""
    _new: set[tuple[str, str]] = field(default_factory=set)
    """Jobs that were added now, with "", and those that were installed since, with their agent."""

    def run(self, say: Callable[[str], None], check: bool) -> list[str]:
        """Do the steps, or only look; return what is still missing."""
        self.controller.log_in()
        missing, steps = [], 0
        for name, look, do in self._steps():
            lacks, steps = "", steps + 1
            try:
                if (lacks := look()) and not check:
                    say(f"{name}: {lacks} …")
                    do()
                    lacks = look()
            except (Refused, Lost) as error:
                lacks = f"{lacks} ({error})" if lacks else str(error)
            missing += [f"{name}: {lacks}"] if lacks else []
        say(f"{steps - len(missing)} of {steps} steps are done")
        return missing

    def _steps(self) -> Iterator[Step]:
        form = form_of(self.controller.get("job/")) or "2.7"
        for job in sorted(set().union(*self.needed.values())):
            yield f"job {job}", partial(self._job, job), partial(self._add, job, form)
        for entity in self.needed:
            agent = entity, self.addresses.get(entity, "without address in the inventory")
            look, do = partial(self._agent, *agent), partial(self._install, *agent)
            yield f"jobs of {entity} ({agent[1]})", look, do
        here = "project/", self.project["name"]
        # Scenarios come one by one: what is interrupted then goes on.
        owned = {**self.project, "owners": [self.controller.access.login], "scenario": []}
        post = partial(self.controller.post, "project/", body=owned)
        yield f"project {here[1]}", partial(self._differs, None, *here, "entity/"), post
        for entry in self.project["entity"]:
            place = *here, "entity/", entry["name"]
            look, do = partial(self._entity, place), partial(self._attach, entry, place)
            yield f"entity {entry['name']}", look, do
        for body in self.project["scenario"]:
            place = *here, "scenario/", body["name"]
            look = partial(self._differs, body, *place)
            yield f"scenario {body['name']}", look, partial(upload, self.controller, place, body)

    def _differs(self, wanted: Mapping[str, Any] | None, *place: str) -> str:
        if (stored := self.controller.find(*place)) is None:
            return "there is none"
        is_ours = wanted is None or is_same(stored, wanted)
        return "" if is_ours else "the controller's is another version"

    def _job(self, name: str) -> str:
        if (known := self.controller.find("job/", name)) is None:
            return "the controller has none"
        had, ours = str(known["general"]["job_version"]), self.packages[name].job.version
        if had != ours:
            return f"the controller has version {had}, this checkout {ours}"
        return "once more" if self.again and (name, "") not in self._new else ""

    def _add(self, name: str, form: str) -> None:
        content = packed(self.packages[name], self.catalog, form)
        self.controller.send_file("job/", name=name, content=content)
        self._new.add((name, ""))

    def _agent(self, entity: str, address: str) -> str:
        """Return the jobs that an entity's agent lacks, or has in an earlier version."""
        answer = self.controller.get("job/", address=address, update="")
        if reason := unreachable(answer.get("errors", ())):
            raise Refused(422, f"the agent does not answer: {reason}")
        had = {job["name"] for job in answer["installed_jobs"]}
        old = {job for job, agent in self._new if not agent and (job, address) not in self._new}
        return ", ".join(sorted(self.needed[entity] - (had - old)))

    def _install(self, entity: str, address: str) -> None:
        """Install what is missing; return when all playbooks have ended. Raises Refused, Lost."""
        names = self._agent(entity, address).split(", ")
        before = {name: self._state(name, address) for name in names}
        order = {"action": "install", "names": names, "addresses": [address]}
        self.controller.post("job/", body=order, repeat=True)
        end_s = time.monotonic() + STEP_LIMIT_S * len(names)
        for name in names:
            # Until its playbook begins, the state is that of an earlier one.
            while (state := self._state(name, address)) == before[name] or (
                state["returncode"] == RUNNING
            ):
                if time.monotonic() > end_s:
                    raise Lost(f"{name}: its playbook does not end")
                time.sleep(POLL_S)
            if state["returncode"] not in DONE:
                raise Refused(422, f"{name}: {json.dumps(state['response'])[:MOST_TOLD]}")
            self._new.add((name, address))
        # OpenBACH says that a job is installed before its agent knows it.
        while self._agent(entity, address) and time.monotonic() < end_s:
            time.sleep(POLL_S)

    def _state(self, name: str, address: str) -> Any:
        return self.controller.get("job/", name, "state/", address=address)["install"]

    def _entity(self, place: tuple[str, ...]) -> str:
        if (known := self.controller.find(*place)) is None:
            return "there is none"
        had, wanted = (known["agent"] or {}).get("address"), self.addresses.get(place[-1])
        return "" if had == wanted else f"its agent is {had or 'none'}, not {wanted}"

    def _attach(self, wanted: Mapping[str, Any], place: tuple[str, ...]) -> None:
        known = self.controller.find(*place)
        body = {**(known or wanted), "agent": {"address": self.addresses.get(place[-1])}}
        if known is None:
            self.controller.post(*place[:-1], body=body, repeat=True)
        else:
            self.controller.put(*place, body=body)
