# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller engine: a run is a scenario instance of a real OpenBACH platform, started and followed over its REST API.

`prepare` names everything that the platform lacks, then uploads the scenario and its sub-scenarios where they differ
from what is there. A platform has one set of hosts: runs go one at a time. Its clock is real and its chance is not
seeded: a seed is only the number of a repetition there.
"""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from openbach_run.engine.cache import Progress
from openbach_run.engine.rest import Controller, Lost, Refused
from openbach_run.engine.virtual import Outcome
from openbach_run.errors import SetupError
from openbach_run.model import Scenario, jobs_started

POLL_S = 1.0
LOST_LIMIT_S = 120.0
"""How long a controller may be out of reach while its scenario runs; agents go on without it."""
STOP_LIMIT_S = 60.0
STATISTICS_LIMIT_S = 30.0
"""The collector writes what jobs have sent some seconds later: what it has is read until it stays the same."""

OnEvent = Callable[[Mapping[str, Any]], None]


class ControllerEngine:
    """Runs run specifications on a controller. `prepare` first; then `run`, one at a time; `stop` from any thread."""

    packages: tuple[str, ...] = ()

    def __init__(
        self, controller: Controller, project: str, scenarios: Sequence[Scenario], *, poll_s: float = POLL_S
    ) -> None:
        """`scenarios`: the one to start first, then its sub-scenarios."""
        self._controller = controller
        self._project = project
        self._scenarios = scenarios
        self._poll_s = poll_s
        self._version = ""
        self._job_versions: dict[str, str] = {}
        self._running: int | None = None
        self._stopping = threading.Event()

    def prepare(self, progress: Progress) -> None:
        """Logs in, checks the platform, uploads the scenarios. Raises SetupError with all that is missing."""
        where = self._controller.access.url
        progress(f"{where}: logging in", 0)
        self._controller.log_in()
        self._version = str(self._controller.get("version/").get("openbach_version"))
        progress(f"{where}: checking entities, agents and jobs", 0.3)
        self._check_platform()
        for number, scenario in enumerate(reversed(self._scenarios)):
            progress(f"{where}: scenario {scenario.name}", 0.6 + 0.4 * number / len(self._scenarios))
            self._upload(scenario)
        progress(f"{where}: OpenBACH {self._version} is ready", 1)

    @property
    def identity(self) -> dict[str, str]:
        """What of a platform is known over its API."""
        return {
            "engine": "controller",
            "controller": self._controller.access.url,
            "project": self._project,
            "openbach": self._version,
            "jobs": ", ".join(f"{name} {version}" for name, version in sorted(self._job_versions.items())),
        }

    # Before the runs

    def _check_platform(self) -> None:
        needed: dict[str, set[str]] = {}
        for scenario in self._scenarios:
            for function in scenario.functions:
                for job, _ in jobs_started(function):
                    needed.setdefault(function["start_job_instance"]["entity_name"], set()).add(job)
        agents = self._agents()
        known = {job["general"]["name"]: str(job["general"]["job_version"]) for job in self._controller.get("job/")}
        self._job_versions = {job: known[job] for jobs in needed.values() for job in jobs if job in known}
        if missing := list(self._missing(needed, agents, known)):
            head = f"{self._controller.access.url}, project {self._project}, cannot run {self._scenarios[0].name}:"
            raise SetupError("\n  ".join([head, *missing]))

    def _agents(self) -> dict[str, str | None]:
        """The address of each entity's agent."""
        try:
            project = self._controller.get("project/", self._project)
        except Refused as refusal:
            if refusal.status != 404:
                raise
            text = f"{self._controller.access.url} has no project {self._project}: --project names another one; "
            raise SetupError(text + "`openbach-run package` makes one to import") from None
        return {entity["name"]: (entity["agent"] or {}).get("address") for entity in project["entity"]}

    def _missing(
        self, needed: Mapping[str, set[str]], agents: Mapping[str, str | None], known: Mapping[str, str]
    ) -> Iterator[str]:
        absent = sorted({job for jobs in needed.values() for job in jobs if job not in known})
        for job in absent:
            yield f"the controller has no job {job}: add its package (`openbach-run package` makes it)"
        for entity, jobs in needed.items():
            if entity not in agents:
                yield f"there is no entity {entity}: add it to the project"
            elif (address := agents[entity]) is None:
                yield f"the entity {entity} has no agent: attach one"
            else:
                installed = {job["name"] for job in self._controller.get("job/", address=address)["installed_jobs"]}
                for job in sorted(jobs - installed - set(absent)):
                    yield f"the job {job} is not installed on {address}, the agent of {entity}: install it"

    def _upload(self, scenario: Scenario) -> None:
        place = ("project/", self._project, "scenario/", scenario.name)
        try:
            if self._controller.get(*place) != scenario.as_stored():
                self._controller.put(*place, body=scenario.as_stored())
        except Refused as refusal:
            if refusal.status != 404:
                raise
            self._controller.post("project/", self._project, "scenario/", body=scenario.as_stored())

    # A run

    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: OnEvent) -> Outcome:
        """Starts the scenario with the run's arguments and follows it to its end. The record gets the controller's last
        answer (instance.json), what it was seen to do (events.jsonl) and the statistics as a collector got them."""
        (run_dir / "run.json").write_text(json.dumps(spec))
        started_s = time.monotonic()
        try:
            number = self._start(spec["scenario"]["name"], spec["arguments"])
            with (run_dir / "events.jsonl").open("w", buffering=1) as events:
                instance = self._follow(number, spec["virtual_limit_s"], _Events(events.write, on_event))
            (run_dir / "instance.json").write_text(json.dumps(instance, indent=1) + "\n")
            error = None if instance["status"] == "Finished Ok" else _explain(instance)
            self._keep_statistics(number, run_dir / "statistics.jsonl")
        except Refused as refusal:
            return Outcome("Not Started", 0.0, time.monotonic() - started_s, "", str(refusal))
        except Lost as lost:
            return Outcome("Controller Lost", 0.0, time.monotonic() - started_s, "", str(lost))
        finally:
            self._running = None
        return Outcome(instance["status"], _duration_s(instance), time.monotonic() - started_s, "", error)

    def stop(self) -> None:
        """Stops the scenario instance that runs, and lets no other one start."""
        number = self._running
        self._stopping.set()
        if number is not None:
            with suppress(Refused, Lost):
                self._controller.post("scenario_instance/", number, body={})

    def _start(self, name: str, arguments: Mapping[str, str]) -> int:
        if self._stopping.is_set():
            raise InterruptedError("the engine is stopping")
        place = ("project/", self._project, "scenario/", name, "scenario_instance/")
        newest = self._newest(place)
        try:
            number = int(self._controller.post(*place, body={"arguments": dict(arguments)})["scenario_instance_id"])
        except Lost:
            number = self._newest(place)  # the order may have arrived: a second one would start it twice
            if number == newest:
                raise
        self._running = number
        if self._stopping.is_set():
            self.stop()
        return number

    def _newest(self, place: tuple[str, ...]) -> int:
        instances = self._controller.get(*place, quiet="", offset="0", limit="1")
        return int(instances[0]["scenario_instance_id"]) if instances else 0

    def _follow(self, number: int, limit_s: float, events: _Events) -> dict[str, Any]:
        """Looks at the instance until it has a stop date: its status alone is not to be trusted."""
        started_s = heard_s = time.monotonic()
        due_s, late = started_s + limit_s, False
        while True:
            try:
                instance: dict[str, Any] = self._controller.get("scenario_instance/", number)
            except Lost as lost:
                if time.monotonic() - heard_s > LOST_LIMIT_S:
                    raise Lost(f"{lost}. Scenario instance {number} may still be running there") from None
                continue
            heard_s = time.monotonic()
            events.tell(instance, heard_s - started_s)
            if instance["stop_date"]:
                return instance
            if heard_s > due_s:
                if late:
                    raise Lost(f"scenario instance {number} was told to stop after {limit_s:g} s, and does not end")
                due_s, late = heard_s + STOP_LIMIT_S, True
                self._controller.post("scenario_instance/", number, body={})
            if self._stopping.wait(self._poll_s):
                raise InterruptedError(f"scenario instance {number} was told to stop")

    def _keep_statistics(self, number: int, place: Path) -> None:
        before, lines = None, self._statistics(number)
        end_s = time.monotonic() + STATISTICS_LIMIT_S
        while (not lines or lines != before) and time.monotonic() < end_s and not self._stopping.wait(self._poll_s):
            before, lines = lines, self._statistics(number)
        place.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def _statistics(self, number: int) -> list[dict[str, Any]]:
        try:
            return list(as_collected(self._controller.text("scenario_instance/", number, "csv/")))
        except Refused as refusal:
            if refusal.status in (404, 500):  # what the backend answers when its collector has nothing
                return []
            raise


def as_collected(text: str) -> Iterator[dict[str, Any]]:
    """The rows of a controller's CSV file in the form in which a collector got them: {name: value, "_metadata": …}.

    `time` is in ms since 1970; a cell of the wrong form stays a text.
    """
    for row in csv.DictReader(io.StringIO(text)):
        values = {
            name: _number(cell)
            for name, cell in row.items()
            if name and name != "time" and not name.startswith("@") and cell
        }
        when = row.get("time") or row.get("@job_instance_start_date") or ""
        metadata = {
            "time": _ms(when),
            "is_file": row.get("@stored_file") in ("true", "True"),
            "job_name": row.get("@job_name"),
            "agent_name": row.get("@agent_name"),
            **{
                name: _number(row.get(f"@{name}") or "")
                for name in ("job_instance_id", "scenario_instance_id", "owner_scenario_instance_id")
            },
            **({"suffix": row["@suffix"]} if row.get("@suffix") else {}),
        }
        if values:
            yield {**values, "_metadata": metadata}


def _number(text: str) -> Any:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _ms(date: str) -> int | None:
    with suppress(ValueError):
        return round(datetime.fromisoformat(date).timestamp() * 1000)
    return None


def _duration_s(instance: Mapping[str, Any]) -> float:
    start_ms, stop_ms = _ms(str(instance["start_date"])), _ms(str(instance["stop_date"]))
    return (stop_ms - start_ms) / 1000 if start_ms is not None and stop_ms is not None else 0.0


class _Events:
    """Tells what has changed between two looks at an instance, in the words of the director's events."""

    def __init__(self, write: Callable[[str], Any], on_event: OnEvent) -> None:
        self._write, self._on_event = write, on_event
        self._told: set[str] = set()

    def tell(self, instance: Mapping[str, Any], t_s: float) -> None:
        self._on_event({"t_s": t_s, "event": "heartbeat"})
        for event in _events(instance):
            if (key := json.dumps(event)) not in self._told:
                self._told.add(key)
                self._write(json.dumps({"t_s": round(t_s, 3), **event}) + "\n")


def _events(instance: Mapping[str, Any], **parent: int) -> Iterator[dict[str, Any]]:
    """All that an instance shows to have happened, as far as it still shows."""
    number = {"scenario_instance_id": instance["scenario_instance_id"]}
    arguments = {argument["name"]: argument["value"] for argument in instance["arguments"]}
    name = instance["scenario_name"]
    yield {"event": "scenario_started", "scenario": name, **number, "arguments": arguments, **parent}
    for function in instance["openbach_functions"]:
        status, which = function["status"], {"function": function["id"], "label": function["label"]}
        if status != "Scheduled":
            yield {"event": "function_started", **number, **which}
        if job := function.get("job"):
            started = {"job": job["name"], "entity": job["entity"], "instance_id": job["id"], **number}
            yield {"event": "job_started", **started, "function": function["id"]}
            if job["status"] not in ("Scheduled", "Running"):
                yield {"event": "job_ended", **started, "status": job["status"]}
        if scenario := function.get("scenario"):
            yield from _events(scenario, parent_id=instance["scenario_instance_id"], function=function["id"])
        if status not in ("Scheduled", "Running"):
            yield {"event": f"function_{status.lower()}", **number, **which}
    if instance["stop_date"]:
        yield {"event": "scenario_ended", "scenario": name, **number, "status": instance["status"]}


def _explain(instance: Mapping[str, Any]) -> str:
    """The failed functions and jobs of an instance, for a person."""
    lines = []
    for function in instance["openbach_functions"]:
        job = function.get("job")
        if function["status"] == "Error":
            lines.append(f"function {function['id']} ({function['label']}): Error")
        if job and job["status"] in ("Error", "Agent Unreachable", "Not Scheduled", "Unknown"):
            lines.append(f"job {job['name']} on {job['entity']}: {job['status']}; its log is in its agent's syslog")
    return "\n".join(lines) or instance["status"]
