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

from openbach_run.engine.platform.engine import unreachable, uploaded
from openbach_run.engine.platform.rest import Controller, Lost, Refused
from openbach_run.openbach.job import Job
from openbach_run.openbach.job_folders import form_of

POLL_S = 2.0
STEP_LIMIT_S = 600.0
"""For a playbook, and for an answer: attaching an agent asks all of them over Ansible."""
DONE = (200, 204)
NO_ADDRESS = "the inventory names no agent for it (ansible_host)"
RUNNING = 202
MOST_TOLD = 500


@dataclass(frozen=True)
class Content:
    """What a platform is to have."""

    project: Mapping[str, Any]
    """As it is imported, with entities and scenarios, those that others start first."""
    jobs: Mapping[str, Job]
    """Those that its scenarios start."""
    pack: Callable[[str, str], bytes]
    """Makes the package of a job, for a form of platforms: 2.7 or 2.6."""
    needed: Mapping[str, set[str]]
    """The jobs of each entity."""
    addresses: Mapping[str, str]
    """The agents of entities."""


@dataclass(frozen=True)
class Step:
    """A part of an installation."""

    name: str
    lacks: Callable[[], str]
    """Returns what is missing; "" if nothing is."""
    do: Callable[[], object]


@dataclass
class Installation:
    """The steps that bring a platform to have `content`; `again` repeats those of jobs."""

    controller: Controller
    content: Content
    say: Callable[[str], None]
    again: bool = False
    _new: set[tuple[str, str]] = field(default_factory=set)
    """Jobs that were added now, and agents that have their earlier version."""

    def run(self, *, check: bool) -> list[str]:
        """Do the steps; return what is still missing. With `check` only look."""
        self.controller.log_in()
        missing, done, there = [], 0, 0
        for step in self.steps():
            lacks = ""
            try:
                lacks = step.lacks()
                if lacks and not check:
                    self.say(f"{step.name}: {lacks} …")
                    step.do()
                    lacks = step.lacks()
                    done += not lacks
                else:
                    there += not lacks
            except (Refused, Lost) as error:
                lacks = f"{lacks} ({error})" if lacks else str(error)
            if lacks:
                missing.append(f"{step.name}: {lacks}")
        steps = done + there + len(missing)
        self.say(f"{steps} steps: {there} were done, {done} done now, {len(missing)} missing")
        return missing

    def steps(self) -> Iterator[Step]:
        """Yield the steps in their order; each needs those before it."""
        described = {one["general"]["name"]: one for one in self.controller.get("job/")}
        form = form_of(described.values()) or "2.7"
        for name in sorted(self.content.jobs):
            yield Step(f"job {name}", partial(self._job, name), partial(self._add, name, form))
        for entity in self.content.needed:
            lacks = partial(self._agent, entity)
            yield Step(f"jobs of {entity}", lacks, partial(self._install, entity))
        project = self.content.project["name"]
        yield Step(f"project {project}", self._project, self._import)
        for one in self.content.project["entity"]:
            lacks = partial(self._entity, one)
            yield Step(f"entity {one['name']}", lacks, partial(self._attach, one))
        for one in self.content.project["scenario"]:
            place = ("project/", project, "scenario/", one["name"])
            lacks = partial(self._differs, one, place)
            do = partial(uploaded, self.controller, place, one)
            yield Step(f"scenario {one['name']}", lacks, do)

    # Jobs

    def _job(self, name: str) -> str:
        job, known = self.content.jobs[name], self._found("job/", name)
        if known is None:
            return "the controller has none"
        had = str(known["general"]["job_version"])
        if had != job.version:
            return f"the controller has version {had}, this checkout {job.version}"
        if set(_names(known["arguments"])) != set(_names(job.tree)):
            return "the controller's has other arguments than this checkout's"
        return "once more" if self.again and (name, "") not in self._new else ""

    def _add(self, name: str, form: str) -> None:
        self.controller.send_file("job/", name=name, content=self.content.pack(name, form))
        self._new.add((name, ""))

    def _agent(self, entity: str) -> str:
        """Return what an entity's agent lacks, or why it can have nothing."""
        address = self.content.addresses.get(entity)
        if address is None:
            return NO_ADDRESS
        try:
            answer = self.controller.get("job/", address=address, update="")
        except Refused as refusal:
            if refusal.status != 404:
                raise
            return f"the platform has no agent {address}: install one, or give --inventory"
        if reason := unreachable(answer.get("errors", ())):
            return f"the agent {address} does not answer: {reason}"
        return ", ".join(self._uninstalled(entity, address, answer))

    def _uninstalled(self, entity: str, address: str, answer: Mapping[str, Any]) -> list[str]:
        had = {one["name"] for one in answer["installed_jobs"]}
        # What was added now is there in its earlier version.
        old = {name for name, agent in self._new if not agent and (name, address) not in self._new}
        return sorted(self.content.needed[entity] & old | self.content.needed[entity] - had)

    def _install(self, entity: str) -> None:
        """Install what is missing; return when all playbooks have ended. Raises Refused, Lost."""
        address = self.content.addresses.get(entity)
        if address is None:
            return
        answer = self.controller.get("job/", address=address)
        names = self._uninstalled(entity, address, answer)
        before = {name: self._state(name, address) for name in names}
        order = {"action": "install", "names": names, "addresses": [address]}
        self.controller.post("job/", body=order, repeat=True)
        for name in names:
            state = self._ended(name, address, before[name])
            if state["returncode"] not in DONE:
                raise Refused(state["returncode"], f"{name}: {_said(state['response'])}")
            self._new.add((name, address))

    def _ended(self, name: str, address: str, before: Any) -> Any:
        """Return how the playbook of a job has ended. Raises Lost."""
        end_s = time.monotonic() + STEP_LIMIT_S
        # Until it begins, the state is that of an earlier one.
        while (state := self._state(name, address)) == before or state["returncode"] == RUNNING:
            if time.monotonic() > end_s:
                raise Lost(f"{name}: its playbook has not ended after {STEP_LIMIT_S:g} s")
            time.sleep(POLL_S)
        return state

    def _state(self, name: str, address: str) -> Any:
        return self.controller.get("job/", name, "state/", address=address)["install"]

    # The project

    def _found(self, *place: str) -> Any:
        """Return what the controller has at a place, or None."""
        try:
            return self.controller.get(*place)
        except Refused as refusal:
            if refusal.status != 404:
                raise
            return None

    def _project(self) -> str:
        # Its entities alone: with its scenarios it takes a small controller a minute.
        known = self._found("project/", self.content.project["name"], "entity/")
        return "there is none" if known is None else ""

    def _import(self) -> None:
        # Scenarios come one by one: what is interrupted then goes on.
        owners = [self.controller.access.login]
        body = {**self.content.project, "owners": owners, "scenario": []}
        try:
            self.controller.post("project/", body=body)
        except Lost:  # it may have arrived
            if self._project():
                raise

    def _entity(self, wanted: Mapping[str, Any]) -> str:
        address = self.content.addresses.get(wanted["name"])
        if address is None:
            return NO_ADDRESS
        known = self._found("project/", self.content.project["name"], "entity/", wanted["name"])
        if known is None:
            return "there is none"
        had = (known["agent"] or {}).get("address")
        return "" if had == address else f"its agent is {had or 'none'}, not {address}"

    def _attach(self, wanted: Mapping[str, Any]) -> None:
        place = ("project/", self.content.project["name"], "entity/")
        if (address := self.content.addresses.get(wanted["name"])) is None:
            return
        agent = {"address": address}
        if (known := self._found(*place, wanted["name"])) is None:
            self.controller.post(*place, body={**wanted, "agent": agent}, repeat=True)
        else:
            self.controller.put(*place, wanted["name"], body={**known, "agent": agent})

    def _differs(self, stored: Mapping[str, Any], place: tuple[str, ...]) -> str:
        there = self._found(*place)
        if there is None:
            return "there is none"
        return "" if there == stored else "the controller's is another version"


def _names(tree: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of a job's arguments and subcommands, as its file or the API has them."""
    for kind in ("required", "optional"):
        yield from (one["name"] for one in tree.get(kind) or ())
    for group in tree.get("subcommands") or tree.get("subcommand") or ():
        for choice in group["choices"]:
            yield choice["name"]
            yield from _names(choice)


def _said(response: Any) -> str:
    """Return the reason in a state: the controller's words, then what Ansible has told of it."""
    known = dict(response) if isinstance(response, dict) else {"error": response}
    words = [str(known.pop(key)) for key in ("error", "message") if key in known]
    return "; ".join([*words, *([json.dumps(known)[:MOST_TOLD]] if known else [])])
