# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs and scenario instances left running on a platform's hosts, and commands that end them.

OpenBACH loses a stop that reaches a job while it is being started: the job stays, its port stays
taken, and each later run on these hosts fails. And it loses the end of a job whose state it asks
for between the order to stop and the stop (`ask_again`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from openbach_run.engine.platform.rest import Controller, Refused

RUNNING = "Running"
NO_STOP_DATE = "Not programmed yet"
"""OpenBACH's stop date for a job that still runs."""
INSTANCES_LOOKED_AT = 50
"""Number of a project's newest instances that are looked at."""


@dataclass(frozen=True)
class RunningJob:
    """A job instance that still runs on an entity."""

    name: str
    instance_id: int
    entity: str
    address: str
    """Address of its agent."""

    def __str__(self) -> str:
        return f"the job {self.name} (instance {self.instance_id}) on {self.entity or self.address}"


def running_jobs(controller: Controller, addresses: Sequence[str]) -> list[RunningJob]:
    """Job instances that the agents at these addresses say are running. Raises Lost."""
    if not addresses:
        return []
    try:
        answer = controller.get("job_instance/", address=list(addresses), update="")
    except Refused:  # of other users, or a platform that does not tell
        return []
    return [
        RunningJob(instance["name"], instance["id"], instance["entity"], agent["address"])
        for agent in answer["instances"]
        for job in agent["installed_jobs"]
        for instance in job["instances"]
        if instance["status"] == RUNNING
    ]


def running_scenarios(
    controller: Controller, project: str, names: Collection[str], jobs: Collection[RunningJob]
) -> dict[int, str]:
    """Return names by id of the project's running instances of these scenarios or with these jobs.

    A scenario whose content a value changes has a name of its own on the platform, so the name
    alone does not tell whose jobs run on a host. Raises Lost or Refused.
    """
    place = ("project/", project, "scenario_instance/")
    newest = controller.get(*place, quiet="", offset="0", limit=str(INSTANCES_LOOKED_AT))
    running = {job.instance_id for job in jobs}
    scenarios: dict[int, str] = {}
    for instance in newest:
        if instance["status"] != RUNNING:
            continue
        number, name = instance["scenario_instance_id"], instance["scenario_name"]
        if name in names or running & _job_numbers(controller, number):
            scenarios[number] = name
    return scenarios


def _job_numbers(controller: Controller, instance: int) -> set[int]:
    return {job["id"] for job in jobs_in(controller.get("scenario_instance/", instance))}


def in_words(jobs: Sequence[RunningJob], scenarios: Mapping[int, str]) -> list[str]:
    """Return a line for each that runs: what it is, and the command that ends it.

    The commands are OpenBACH's auditorium scripts.
    """
    lines = [
        f"scenario instance {number} ({name}) is running; end it with:"
        f" {stop_scenario_command(number)}"
        for number, name in scenarios.items()
    ]
    lines += [
        f"{job} is running; end it with: python3 stop_job_instance.py {job.instance_id}"
        for job in jobs
    ]
    # One command for all, as a failed campaign may leave dozens.
    if len(jobs) > 1:
        names = sorted({job.name for job in jobs})
        options = " ".join(f"-j {name}" for name in names)
        addresses = " ".join(sorted({job.address for job in jobs}))
        lines.append(
            f"all of these jobs at once: python3 stop_all_job_instances.py {addresses} {options}"
        )
    return lines


def stop_scenario_command(number: int) -> str:
    """Return the auditorium script's command that stops a scenario instance."""
    return f"python3 stop_scenario_instance.py {number}"


def jobs_in(instance: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The jobs of a scenario instance and of its sub-scenarios, as the controller shows them."""
    jobs: list[Mapping[str, Any]] = []
    for function in instance["openbach_functions"]:
        if function.get("job"):
            jobs.append(function["job"])
        if function.get("scenario"):
            jobs += jobs_in(function["scenario"])
    return jobs


def ask_again(controller: Controller, instance: Mapping[str, Any]) -> bool:
    """Ask agents about jobs that were to stop and have no stop date; return whether there are any.

    The director of OpenBACH 2.7.0 looks at a job every two seconds. An agent that stops several
    jobs still calls the next one running; the director then takes its stop date back, but looks at
    it no more, as it had one. Its instance runs for ever. Asked again, it ends by itself.
    """
    functions = {function["id"]: function for function in instance["openbach_functions"]}
    was_asked = False
    for function in functions.values():
        if sub := function.get("scenario"):
            was_asked |= ask_again(controller, sub)
        stop = function.get("stop_job_instances") if function["status"] == "Finished" else None
        for number in stop["openbach_function_ids"] if stop else ():
            job = functions[number].get("job")
            if job and job["stop_date"] == NO_STOP_DATE:
                with suppress(Refused):  # it is another user's
                    controller.get("job_instance/", job["id"], update="")
                    was_asked = True
    return was_asked
