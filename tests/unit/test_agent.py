# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest's agents with real processes, on this machine: only the namespaces are missing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openbach_run.guest import agent
from openbach_run.guest.agent import GuestAgents
from openbach_run.guest.director import SECOND_US, LaunchRefused
from openbach_run.guest.instances import JobInstance, JobStatus


@contextmanager
def nowhere(namespace: object) -> Iterator[None]:
    here = os.getcwd()
    try:
        yield
    finally:
        os.chdir(here)


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GuestAgents:
    monkeypatch.setattr(agent, "JOBS_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(agent, "inside", nowhere)
    jobs: dict[str, Any] = {
        "sh": SimpleNamespace(command="/bin/sh -c", command_stop=None),
        "stoppable": SimpleNamespace(
            command="/bin/sh -c", command_stop="/bin/sh -c 'echo stop $0'"
        ),
        "none": SimpleNamespace(command="/no/such/program", command_stop=None),
    }
    entities: dict[str, Any] = {"pc": SimpleNamespace(name="pc")}
    return GuestAgents(entities, jobs, 7, time.clock_gettime_ns(time.CLOCK_MONOTONIC), "real")


def job(script: str, name: str = "sh", number: int = 1, entity: str = "pc") -> JobInstance:
    return JobInstance(number, name, entity, [script], scenario_id=2, owner_id=1, ignorable=False)


def wait_for(agents: GuestAgents, path: Path, text: str, limit_s: float = 10) -> None:
    due_us = agents.now_us() + round(limit_s * SECOND_US)
    while text not in (path.read_text() if path.exists() else ""):
        assert agents.now_us() < due_us, f"{text!r} did not come in {path}"
        agents.wait_until(agents.now_us() + 10_000)


def wait_for_the_end(agents: GuestAgents, number: int = 1, limit_s: float = 10) -> JobStatus:
    due_us = agents.now_us() + round(limit_s * SECOND_US)
    while (status := agents.poll(number)) is JobStatus.RUNNING:
        assert agents.now_us() < due_us, "the job did not end"
        agents.wait_until(agents.now_us() + 10_000)
    return status


def test_a_job_has_its_environment_its_directory_and_its_output(
    agents: GuestAgents, tmp_path: Path
) -> None:
    agents.start(one := job("env; pwd; echo problem >&2; exit 3"))
    assert wait_for_the_end(agents) is JobStatus.ERROR
    directory = tmp_path / "1_sh_pc"
    output = (directory / "stdout").read_text().splitlines()
    for line in (
        "JOB_NAME=sh",
        "JOB_INSTANCE_ID=1",
        "SCENARIO_INSTANCE_ID=2",
        "OWNER_SCENARIO_INSTANCE_ID=1",
        "OPENBACH_AGENT_NAME=pc",
        "OPENBACH_RUN_SEED=7",
        "PYTHONHASHSEED=0",
        "LANG=C.UTF-8",
        str(directory),
    ):
        assert line in output
    assert agents.last_lines(1)[-1] == "problem"
    assert len(agents.last_lines(1)) <= 20
    one.status = JobStatus.ERROR
    record = agents.record(one)
    assert (record["exit_code"], record["status"], record["entity"]) == (3, "Error", "pc")
    assert record["argv"][:2] == ["/bin/sh", "-c"]
    assert 0 <= record["start_s"] <= record["stop_s"]


def test_exit_code_0_is_not_running(agents: GuestAgents) -> None:
    agents.start(job("exit 0"))
    assert wait_for_the_end(agents) is JobStatus.NOT_RUNNING


def test_launches_are_refused_with_a_reason_and_leave_nothing(
    agents: GuestAgents, tmp_path: Path
) -> None:
    with pytest.raises(LaunchRefused, match="no entity moon; there are pc"):
        agents.start(job("", entity="moon"))
    with pytest.raises(LaunchRefused, match="/no/such/program on pc: No such file"):
        agents.start(job("", name="none"))
    assert list(tmp_path.iterdir()) == []


def test_stop_ends_children_then_the_job_then_runs_command_stop(
    agents: GuestAgents, tmp_path: Path
) -> None:
    agents.start(
        job(
            "trap 'echo bye; exit 0' TERM; sleep 1000 & sleep 1000 & echo up; wait; wait",
            name="stoppable",
        )
    )
    output = tmp_path / "1_stoppable_pc" / "stdout"
    wait_for(agents, output, "up")
    agents.stop(1)
    assert agents.poll(1) is JobStatus.STOPPED
    agents.close()
    assert agents.now_us() < 5 * SECOND_US
    lines = output.read_text().splitlines()
    assert lines[0] == "up"
    assert lines[-1].startswith("stop trap ")
    assert agents.processes[1].stop_exit_code == 0


def test_what_ignores_sigterm_is_killed_after_1_s_and_2_s(
    agents: GuestAgents, tmp_path: Path
) -> None:
    stubborn = (
        "trap '' TERM; sh -c 'trap \"\" TERM; echo up; while :; do sleep 1; done' & while :; do"
        " sleep 1; done"
    )
    agents.start(job(stubborn))
    wait_for(agents, tmp_path / "1_sh_pc" / "stdout", "up")
    ordered_us = agents.now_us()
    agents.stop(1)
    agents.close()
    assert 3 <= (agents.now_us() - ordered_us) / SECOND_US < 5
    assert agents.processes[1].exit_code == -9


def test_stopping_an_ended_job_runs_command_stop_once(agents: GuestAgents, tmp_path: Path) -> None:
    agents.start(job("exit 0", name="stoppable"))
    wait_for_the_end(agents)
    agents.stop(1)
    agents.stop(1)
    agents.close()
    assert (tmp_path / "1_stoppable_pc" / "stdout").read_text() == "stop exit 0\n"


def test_waiting_sleeps_until_its_time_and_serves_stops_meanwhile(agents: GuestAgents) -> None:
    agents.start(job("sleep 1000"))
    agents.stop(1)
    due_us = agents.now_us() + 200_000
    agents.wait_until(due_us)
    assert due_us <= agents.now_us() < due_us + SECOND_US
    # The shell itself, or its report of the program it ran.
    assert agents.processes[1].exit_code in (-15, 143)
