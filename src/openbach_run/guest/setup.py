# SPDX-License-Identifier: GPL-3.0-or-later
"""The tasks of a run's playbooks on hosts beside packages: files in place, before the run begins.

A command that fails ends nothing: a job may do without. What it said is in setup.log, and is shown
if the job fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from openbach_run.guest.network import in_place, make_writable, spawned

if TYPE_CHECKING:
    from openbach_run.openbach.job import Job
    from openbach_run.topology.hosts import Inventory

JOBS = "/opt/openbach/agent/jobs"
WRITABLE = ("/srv", "/usr/local")
"""Directories that a playbook may change beside its job's."""
LOG = "/run/openbach/setup.log"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}
LAST_BYTES = 500
"""Bytes that are kept of what a failed command has printed."""

Failures = dict[tuple[str, str], list[str]]
"""Texts of what failed, by entity and job."""


def set_up(
    run: Mapping[str, Any], jobs: Mapping[str, Job], inventory: Inventory, places: Mapping[str, int]
) -> Failures:
    """Carry out the commands of each job on the hosts that run it.

    `places` are the hosts' mount namespaces.
    """
    failures: Failures = {}
    writable = set()
    # Sorted, since the order of the commands may matter to what they leave.
    pairs = sorted(set(_started([run["scenario"], *run["sub_scenarios"].values()])))
    for entity, name in pairs:
        job = jobs.get(name)
        host = next((host for host in inventory.hosts if host.entity == entity), None)
        if job is not None and host is not None and job.setup:
            with in_place(places[host.name]):
                # Once for each host, though several of its jobs may have a playbook.
                for directory in (f"{JOBS}/{name}", *(WRITABLE if entity not in writable else ())):
                    make_writable(directory)
                writable.add(entity)
                failures[entity, name] = list(_carried_out(entity, name, job.setup))
    return {pair: texts for pair, texts in failures.items() if texts}


def _started(scenarios: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield entity and job of each function that starts a job."""
    for scenario in scenarios:
        for function in scenario["openbach_functions"]:
            if body := function.get("start_job_instance"):
                names = (name for name, value in body.items() if isinstance(value, dict))
                yield from ((body["entity_name"], name) for name in names)


def _carried_out(entity: str, job: str, steps: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield what went wrong."""
    log = os.open(LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for task, command in steps:
            os.write(log, f"# {job} on {entity}: {task}\n{command}\n".encode())
            # What the command prints begins here: a failure is shown with that alone.
            begin = os.lseek(log, 0, os.SEEK_END)
            pid = spawned(["/bin/sh", "-c", command], ENVIRONMENT, log, log)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if code:
                end = os.lseek(log, 0, os.SEEK_END)
                printed = os.pread(log, LAST_BYTES, max(begin, end - LAST_BYTES))
                output = printed.decode(errors="replace").strip()
                yield f"before the run, the playbook of {job}: {task}: exit code {code}: {output}"
    finally:
        os.close(log)
