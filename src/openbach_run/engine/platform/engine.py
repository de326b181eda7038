# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller engine: a run is a scenario instance of a real OpenBACH platform.

It is started and followed over the platform's REST API. `prepare` names everything that the
platform lacks, then uploads the scenario and its sub-scenarios where they differ from what is
there. A platform has one set of hosts: runs go one at a time. Its clock is real and its chance is
not seeded: a seed is only the number of a repetition there.

Instances that have ended, whoever launched them, become records the same way: `collected` has the
instance of each run, and nothing is checked, uploaded or started (campaign/collect.py).

The number of the instance that was started for a run is in runs/<run_id>.instance. So neither a
lost connection nor a killed command loses a run: the next command goes on with that instance unless
the run's record has its results.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from openbach_run.catalog import Uses
from openbach_run.engine.contract import OnEvent, Outcome
from openbach_run.engine.platform import leftovers, reasons, rest
from openbach_run.engine.platform.answers import Events, as_collected, duration_s
from openbach_run.engine.platform.order import Order, is_same, order_of
from openbach_run.engine.platform.rest import Controller, Lost, Refused
from openbach_run.errors import SetupError
from openbach_run.openbach.job_folders import form_of
from openbach_run.openbach.scenario import Scenario, jobs_by_entity
from openbach_run.progress import Progress
from openbach_run.results import run_files
from openbach_run.results.run_files import DamagedRecord

POLL_S = 1.0
ARRIVAL_LIMIT_S = 10.0
"""Time for which the instance of a start without an answer is looked for before the order is given
again."""
STOP_LIMIT_S = 60.0
LEFTOVERS_LIMIT_S = 10.0
"""Time that jobs get to end after a stop: an agent kills a job some 3 s after its stop."""
SETTLED_S = 5.0
"""Time after a stop without a new or a running job of the instance after which none will come."""
STATISTICS_LIMIT_S = 30.0
"""The collector writes what jobs have sent some seconds later: what it has is read until it stays
the same."""
STARTS_LOOKED_AT = 5
FETCHED = "instance.json"
"""File of a record with the controller's last answer. It is written when the results are there."""

RunKey = tuple[tuple[tuple[str, str], ...], int]
"""The values of a run, sorted by name, and its seed."""


def run_key(values: Mapping[str, str], seed: int) -> RunKey:
    """Return what a run is found by, whatever the versions of the platform's jobs."""
    return tuple(sorted(values.items())), seed


class ControllerEngine:
    """Runs run specifications on a controller.

    `prepare` first; then `run`, one at a time; `stop` from any thread.
    """

    packages: tuple[str, ...] = ()

    def __init__(
        self,
        controller: Controller,
        project: str,
        scenarios: Sequence[Scenario],
        *,
        poll_s: float | None = None,
        collected: Mapping[RunKey, int] | None = None,
    ) -> None:
        """Keep the platform and the scenarios: the one to start first, then its sub-scenarios."""
        self._collected = collected
        self._controller = controller
        self._project = project
        self._scenarios = scenarios
        self._poll_s = POLL_S if poll_s is None else poll_s
        self._version = ""
        self._job_versions: dict[str, str] = {}
        self._measuring: set[str] = set()
        self._addresses: list[str] = []
        self._running: int | None = None
        self._starting = threading.Lock()
        self._stopping = threading.Event()

    def first_missing(self) -> str:
        """Log in and check the platform; return "", since nothing has to be made.

        Raises SetupError with all that is missing.
        """
        self._controller.log_in()
        self._check_platform()
        return ""

    def prepare(self, progress: Progress) -> None:
        """Log in, check the platform, upload the scenarios.

        Raises SetupError with all that is missing.
        """
        where = self._controller.access.url
        progress(f"{where}: logging in", 0)
        self._controller.log_in()
        progress(f"{where}: checking entities, agents and jobs", 0.3)
        self._check_platform()
        # Sub-scenarios first: a scenario names those that it starts.
        uploaded = self._scenarios if self._collected is None else []
        for number, scenario in enumerate(reversed(uploaded)):
            progress(
                f"{where}: scenario {scenario.name}", 0.6 + 0.4 * number / len(self._scenarios)
            )
            self._upload(scenario.as_stored())
        progress(f"{where}: OpenBACH {self._version} is ready", 1)

    def identity_of(self, uses: Uses) -> dict[str, str]:
        """Return what is known of a platform over its API."""
        return {
            "engine": "controller",
            "controller": self._controller.access.url,
            "project": self._project,
            "openbach": self._version,
            "jobs": ", ".join(
                f"{name} {version}" for name, version in sorted(self._job_versions.items())
            ),
        }

    # Before the runs

    def _check_platform(self) -> None:
        needed = jobs_by_entity(self._scenarios)
        described = {job["general"]["name"]: job for job in self._controller.get("job/")}
        known = {name: str(job["general"]["job_version"]) for name, job in described.items()}
        form = form_of(described.values())
        self._version = _version(
            str(self._controller.get("version/").get("openbach_version")), form
        )
        self._job_versions = {
            job: known[job] for jobs in needed.values() for job in jobs if job in known
        }
        # Jobs without declared statistics send none: nobody waits for them at the end.
        self._measuring = {name for name, job in described.items() if job.get("statistics")}
        if self._collected is not None:  # what has ended needs nothing there
            return
        agents = self._agents()
        addresses = {agents.get(entity) for entity in needed}
        self._addresses = sorted(address for address in addresses if address)
        if missing := list(self._missing(needed, agents, known, form)):
            head = (
                f"{self._controller.access.url}, project {self._project}, cannot run"
                f" {self._scenarios[0].name}:"
            )
            raise SetupError("\n  ".join([head, *missing]))

    def _agents(self) -> dict[str, str | None]:
        """Return the address of each entity's agent.

        The project itself would come with all of its scenarios, which takes a small controller a
        minute.
        """
        try:
            entities = self._controller.get("project/", self._project, "entity/")
        except Refused as refusal:
            if refusal.status != 404:
                raise
            text = (
                f"{self._controller.access.url} has no project {self._project}: --project names"
                " another one; "
            )
            raise SetupError(text + "`openbach-run package` makes one to import") from None
        return {entity["name"]: (entity["agent"] or {}).get("address") for entity in entities}

    def _missing(
        self,
        needed: Mapping[str, set[str]],
        agents: Mapping[str, str | None],
        known: Mapping[str, str],
        form: str | None,
    ) -> Iterator[str]:
        # All that is missing is told at once: somebody else may have to install it.
        absent = sorted({job for jobs in needed.values() for job in jobs if job not in known})
        for job in absent:
            file = f"jobs-{form}/{job}.tar.gz" if form else "its package"
            yield f"the controller has no job {job}: add {file} (`openbach-run package` makes it)"
        for entity, jobs in needed.items():
            if entity not in agents:
                yield f"there is no entity {entity}: add it to the project"
            elif (address := agents[entity]) is None:
                yield f"the entity {entity} has no agent: attach one"
            else:
                # its database alone may be wrong: with `update` the controller asks the agent
                answer = self._controller.get("job/", address=address, update="")
                if reason := unreachable(answer.get("errors", ())):
                    yield (
                        f"the agent of {entity}, {address}, does not answer the controller:"
                        f" {reason}; start it there again"
                    )
                    continue
                installed = {job["name"] for job in answer["installed_jobs"]}
                for job in sorted(jobs - installed - set(absent)):
                    yield (
                        f"the job {job} is not installed on {address}, the agent of {entity}:"
                        " install it"
                    )

    def _upload(self, stored: dict[str, Any]) -> None:
        place = ("project/", self._project, "scenario/", stored["name"])
        upload(self._controller, place, stored)

    # A run

    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: OnEvent) -> Outcome:
        """Start the scenario with the run's values, and follow it to its end.

        An instance that an earlier command has started for the run is taken up instead. The record
        gets the controller's last answer (instance.json), what it was seen to do (events.jsonl) and
        the statistics as a collector got them. Raises SetupError for what still runs there.
        """
        (run_dir / "run.json").write_text(json.dumps(spec))
        order = order_of(spec, self._scenarios)
        started_s = time.monotonic()

        number: int | None = None

        def ended(status: str, error: str | None, duration_s: float = 0.0) -> Outcome:
            host = {} if number is None else {"scenario_instance_id": number}
            return Outcome(status, duration_s, time.monotonic() - started_s, "", error, host)

        try:
            if self._collected is not None:
                number = self._collected[run_key(spec["values"], spec["seed"])]
            elif (number := self._earlier(run_dir, order)) is None:
                number = self._start(run_dir, order)
        except Refused as refusal:
            # A refused run does not stop the campaign; its record says why.
            return ended("Not Started", str(refusal))
        except Lost as lost:
            return ended("Controller Lost", str(lost))
        try:
            with (run_dir / "events.jsonl").open("w", buffering=1) as events:
                instance = self._follow(
                    number, spec["virtual_limit_s"], Events(events.write, on_event, order.called)
                )
            self._running = None
            self._keep_statistics(instance, run_dir / "statistics.jsonl")
        except (Refused, Lost) as error:
            text = f"{error}. Scenario instance {number} may still be running there; "
            return ended("Controller Lost", f"{text}the same command fetches its results")
        (run_dir / FETCHED).write_text(json.dumps(instance, indent=1) + "\n")
        reason = (
            None
            if instance["status"] == "Finished Ok"
            else reasons.explain(self._controller, instance)
        )
        return ended(instance["status"], reason, duration_s(instance))

    def stop(self) -> None:
        """Stop the scenario instance that runs, make sure of its end, and let no other one start.

        Its jobs must have ended, too. Raises SetupError, with the commands that help, for what may
        still run.
        """
        self._stopping.set()
        # While an order is on its way nobody knows the number of the instance that it makes.
        if not self._starting.acquire(timeout=STOP_LIMIT_S):
            raise Lost(
                f"{self._controller.access.url}: a scenario is being started there and may run on"
            )
        try:
            number, self._running = self._running, None
        finally:
            self._starting.release()
        if number is not None:
            print(
                f"openbach-run: {self._controller.access.url}: stopping scenario instance {number}",
                file=sys.stderr,
            )
            self._end(number)

    # Its start

    def _earlier(self, run_dir: Path, order: Order) -> int | None:
        """Return the instance that an earlier command has started for this run, or None.

        It must go on or have ended by itself, and its results must not be in the run's record.
        """
        with suppress(FileNotFoundError, ValueError):
            number = int(_started(run_dir).read_text())
            # Its results are in the record: a --rerun wants another instance.
            if number == _fetched(run_dir):
                return None
            try:
                instance = self._controller.get("scenario_instance/", number)
            except Refused as refusal:
                if refusal.status != 404:
                    raise
                return None
            # A stopped one has no whole results, and one of another order is not this run's.
            if instance["status"] != "Stopped" and order.is_of(instance):
                self._running = None if instance["stop_date"] else number
                return number
        return None

    def _start(self, run_dir: Path, order: Order) -> int:
        # Before the start: a job that is left from another run would make this one fail, or measure
        # with it.
        self._expect_idle_hosts(order.called)
        for scenario in order.scenarios:
            if scenario["name"] not in {known.name for known in self._scenarios}:
                self._upload(scenario)
        # Held until the number is on the disk, so that `stop` and the next command find it.
        with self._starting:
            number = self._ordered(order)
            _started(run_dir).write_text(f"{number}\n")
            self._running = number
        return number

    def _ordered(self, order: Order) -> int:
        """Give the order to start.

        Where its answer is lost it is given again only if no instance has come of it.
        """
        place = ("project/", self._project, "scenario/", order.name, "scenario_instance/")
        # Numbers of instances only grow: a greater one is of this order or of somebody else's.
        before = max(self._newest(place), default=0)
        end_s = time.monotonic() + rest.LOST_LIMIT_S
        while True:
            if self._stopping.is_set():
                raise InterruptedError("the engine is stopping")
            try:
                answer = self._controller.post(*place, body={"arguments": dict(order.arguments)})
                if "scenario_instance_id" in answer:
                    return int(answer["scenario_instance_id"])
                raise Lost(
                    f"{self._controller.access.url} answered without the number of the instance"
                )
            except Lost:
                if (number := self._arrived(place, before, order)) is not None:
                    return number
                if time.monotonic() > end_s:
                    raise

    def _arrived(self, place: tuple[str, ...], before: int, order: Order) -> int | None:
        """The instance that has come of an order without an answer.

        Its arguments are not there from the beginning.
        """
        end_s = time.monotonic() + ARRIVAL_LIMIT_S
        while True:
            for number in self._newest(place):
                # Somebody else may have started the scenario at the same time, with other
                # arguments.
                if number > before and order.is_of(
                    self._controller.get("scenario_instance/", number)
                ):
                    return number
            if time.monotonic() > end_s:
                return None
            time.sleep(self._poll_s)

    def _newest(self, place: tuple[str, ...]) -> list[int]:
        instances = self._controller.get(*place, quiet="", offset="0", limit=str(STARTS_LOOKED_AT))
        return [int(instance["scenario_instance_id"]) for instance in instances]

    # Its end

    def _follow(self, number: int, limit_s: float, events: Events) -> dict[str, Any]:
        """Look at the instance until it has a stop date: its status alone is not to be trusted."""
        started_s = heard_s = time.monotonic()
        due_s, late = started_s + limit_s, False
        while True:
            try:
                instance: dict[str, Any] = self._controller.get("scenario_instance/", number)
            except Refused as refusal:  # HTTP 500 while the controller's programs start again
                if refusal.status < 500 or time.monotonic() - heard_s > rest.LOST_LIMIT_S:
                    raise
            else:
                heard_s = time.monotonic()
                events.tell(instance, heard_s - started_s)
                if instance["stop_date"]:
                    return instance
                leftovers.ask_again(self._controller, instance)
                if heard_s > due_s:
                    if late:
                        raise Lost(
                            f"scenario instance {number} was asked to stop after {limit_s:g} s, and"
                            " does not end"
                        )
                    # Once: then the instance gets STOP_LIMIT_S to end.
                    due_s, late = heard_s + STOP_LIMIT_S, True
                    self._controller.post("scenario_instance/", number, body={}, repeat=True)
            if self._stopping.wait(self._poll_s):
                raise InterruptedError(f"scenario instance {number} was asked to stop")

    def _end(self, number: int) -> None:
        """Order the stop until the instance has a stop date, then end the jobs that it missed."""
        try:
            self._controller.post("scenario_instance/", number, body={}, repeat=True)
            end_s = time.monotonic() + STOP_LIMIT_S
            while not self._controller.get("scenario_instance/", number)["stop_date"]:
                if time.monotonic() > end_s:
                    raise Lost(f"it does not end within {STOP_LIMIT_S:g} s")
                time.sleep(self._poll_s)
            self._end_jobs(number)
        except (Refused, Lost) as error:
            command = leftovers.stop_scenario_command(number)
            text = (
                f"scenario instance {number} may still be running at {self._controller.access.url};"
                " end it with:"
            )
            raise Lost(f"{text} {command}\n  {error}") from None

    def _end_jobs(self, number: int) -> None:
        """Stop the jobs that a stop has met while they were being started.

        OpenBACH loses such a stop, and goes on starting functions for seconds after the instance
        has its stop date. Returns when no job runs and none comes for SETTLED_S.
        """
        # Functions may start jobs after the instance has its stop date, so their number may still
        # grow.
        known: set[int] = set()
        quiet_s = end_s = time.monotonic()
        while True:
            instance = self._controller.get("scenario_instance/", number)
            ids = {job["id"] for job in leftovers.jobs_in(instance)}
            jobs = leftovers.running_jobs(self._controller, self._addresses)
            left = [job for job in jobs if job.instance_id in ids]
            now_s = time.monotonic()
            # New jobs begin the time anew, as each may have missed the stop.
            if ids - known:
                known, quiet_s, end_s = known | ids, now_s, now_s + LEFTOVERS_LIMIT_S
            if left:
                quiet_s = now_s
                if now_s > end_s:
                    raise SetupError(
                        "\n  ".join(["a stop does not end these:", *leftovers.in_words(left, {})])
                    )
                stop = {"action": "stop", "job_instance_ids": [job.instance_id for job in left]}
                self._controller.post("job_instance/", body=stop, repeat=True)
            elif now_s - quiet_s >= SETTLED_S:
                return
            time.sleep(self._poll_s)

    def _expect_idle_hosts(self, called: Mapping[str, str]) -> None:
        """Raise SetupError if the scenario or its jobs still run on the hosts.

        They would share links and ports with the run.
        """
        # Under all names that the scenario has there, with changed constants and without.
        names = {*called, *(scenario.name for scenario in self._scenarios)}
        end_s = time.monotonic() + LEFTOVERS_LIMIT_S
        while True:
            running = leftovers.running_jobs(self._controller, self._addresses)
            jobs = [job for job in running if job.name in self._job_versions]
            scenarios = leftovers.running_scenarios(self._controller, self._project, names, jobs)
            if not scenarios and not jobs:
                return
            if time.monotonic() > end_s:
                head = f"{self._controller.access.url}: no run is started on hosts that are in use:"
                raise SetupError("\n  ".join([head, *leftovers.in_words(jobs, scenarios)]))
            if self._stopping.wait(self._poll_s):
                raise InterruptedError("the engine is stopping")

    # Its results

    def _keep_statistics(self, instance: Mapping[str, Any], place: Path) -> None:
        """Read them until they stay the same. Where none can be expected, none are waited for."""
        # The collector gets statistics later than the controller learns of the end.
        expected = instance["status"] == "Finished Ok" and any(
            job["name"] in self._measuring for job in leftovers.jobs_in(instance)
        )
        number = instance["scenario_instance_id"]
        before, lines = None, self._statistics(number)
        end_s = time.monotonic() + STATISTICS_LIMIT_S
        while (lines != before or (expected and not lines)) and time.monotonic() < end_s:
            if self._stopping.wait(self._poll_s):
                raise InterruptedError(
                    f"the results of scenario instance {number} are not fetched yet"
                )
            before, lines = lines, self._statistics(number)
        place.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def _statistics(self, number: int) -> list[dict[str, Any]]:
        try:
            return list(as_collected(self._controller.text("scenario_instance/", number, "csv/")))
        except Refused as refusal:
            # What the backend answers when its collector has nothing.
            if refusal.status in (404, 500):
                return []
            raise


def upload(controller: Controller, place: tuple[str, ...], stored: Mapping[str, Any]) -> None:
    """Upload a scenario to its place, unless it is there. Raises Refused, Lost."""
    end_s = time.monotonic() + rest.LOST_LIMIT_S
    # An upload is checked by reading it back: an answer may be lost although the order arrived.
    while (current := controller.find(*place)) is None or not is_same(current, stored):
        if current is not None:
            controller.put(*place, body=dict(stored))
            return
        try:
            controller.post(*place[:-1], body=dict(stored))
            return
        except Lost:  # it may have arrived: the next look says so
            if time.monotonic() > end_s:
                raise


def _started(run_dir: Path) -> Path:
    """Return the file with the number of a run's instance, beside the run's directory."""
    return run_dir.with_suffix(".instance")


def _fetched(run_dir: Path) -> int | None:
    """Return the instance whose results are in the record that the run has already."""
    with suppress(OSError, ValueError, KeyError, TypeError, DamagedRecord):
        return int(run_files.document(run_dir.with_suffix(""), FETCHED)["scenario_instance_id"])
    return None


def unreachable(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return why the controller could not ask an agent for its jobs; "" if it could.

    Another error there is about a job that the agent has and the controller does not know.
    """
    replies = [error["response"] for error in errors if isinstance(error.get("response"), dict)]
    return "; ".join(str(reply.get("error", "no reason given")) for reply in replies)


def _version(version: str, form: str | None) -> str:
    """Return the platform's version, in words.

    OpenBACH 2.7.0 says of itself that it is 2.6.0: the form of its jobs tells them apart.
    """
    if form == "2.7" and version.startswith(("2.6", "2.5")):
        return f"2.7 or later (it says {version})"
    return version
