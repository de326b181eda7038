# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the job satpep on the host in the middle: a connection passes, and nothing is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import satpep
from lab import LIMIT_S, ROOT, Lab, until

from openbach_run.engine.virtual.debian import ensure_tools

JOB = ROOT / "jobs/satpep/files/satpep.py"
SYSTEM = ROOT / "pep/system"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(lab: Lab, program: Path, tmp_path: Path) -> Iterator[Start]:
    """Start the job on the host pep, with the sanitized satpep as the one that is installed."""
    (tmp_path / "satpep").write_text(f'#!/bin/sh\nexec {program} -u "" "$@"\n')
    (tmp_path / "satpep").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}/src/openbach_run/guest/agent_library:{ROOT}/src",
        "OPENBACH_STATISTICS": str(tmp_path / "statistics"),
        "JOB_NAME": "satpep",
    }
    started = []

    def run(*arguments: str, **more: str) -> subprocess.Popen[str]:
        with lab.inside("pep"):
            started.append(
                subprocess.Popen(
                    [sys.executable, JOB, *arguments],
                    env={**environment, **more},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        return started[-1]

    yield run
    for job in started:
        if job.poll() is None:
            job.terminate()
            job.communicate(timeout=LIMIT_S)


def state(lab: Lab) -> str:
    """Return all that the job may change on its host."""
    shown = [("nft", "list", "ruleset")]
    shown += [
        ("ip", family, *what)
        for family in ("-4", "-6")
        for what in (("rule",), ("route", "show", "table", "all"))
    ]
    with lab.inside("pep"):
        links = [link["ifname"] for link in json.loads(lab.run("ip", "-j", "link"))]
        return "\n".join([*(lab.run(*command) for command in shown), *links])


def ended(job: subprocess.Popen[str]) -> tuple[int, str]:
    """Return exit code and output of a job that ends by itself."""
    said, _ = job.communicate(timeout=LIMIT_S)
    return job.returncode, said


def test_it_splits_while_it_runs_and_takes_everything_back(lab: Lab, start: Start) -> None:
    before = state(lab)
    job = start("A", "run", "--cc", "reno")
    assert ended(start("A", "wait")) == (0, "")
    client, server = lab.pair(lab.listen())
    client.sendall(b"through")
    assert server.recv(7) == b"through"
    with lab.inside("pep"):
        until(  # the job's own connection, by which it is ready, may still be on its way out
            lambda: lab.run("ss", "-tinHO").count(" reno ") == 2, "two legs of that control alone"
        )
    job.send_signal(signal.SIGTERM)
    exit_code, said = ended(job)
    assert exit_code == 0, said
    assert "a connection has gone through" in said
    assert state(lab) == before


def test_what_a_killed_one_has_left_does_not_disturb_the_next(lab: Lab, start: Start) -> None:
    job = start("A", "run")
    assert ended(start("A", "wait"))[0] == 0
    with lab.inside("pep"):
        program = int(
            lab.run("ss", "-Hltnp", "sport = :5000").partition("pid=")[2].partition(",")[0]
        )
    job.kill()
    job.wait()
    until(  # without a program: in a container nobody may wait for what has ended
        lambda: not Path(f"/proc/{program}/exe").exists(),
        "the end of satpep, whose statistics nobody reads any more",
    )
    start("A", "run")
    assert ended(start("A", "wait"))[0] == 0
    client, server = lab.pair(lab.listen())
    client.sendall(b"again")
    assert server.recv(5) == b"again"


def test_elsewhere_it_does_nothing(lab: Lab, start: Start) -> None:
    before = state(lab)
    job = start("B", "--at", "A,A_double", "run")
    assert ended(start("B", "--at", "A,A_double", "wait")) == (0, "")
    assert state(lab) == before
    until(lambda: awaits_a_signal(job), "the job that waits for its end")
    job.send_signal(signal.SIGTERM)
    assert ended(job)[0] == 0


RT_SIGTIMEDWAIT = "128"
"""The system call of sigwait on x86-64."""


def awaits_a_signal(job: subprocess.Popen[str]) -> bool:
    """Return whether the job waits in sigtimedwait(2)."""
    return Path(f"/proc/{job.pid}/syscall").read_text().split()[0] == RT_SIGTIMEDWAIT


def test_only_the_interfaces_and_ports_asked_for(lab: Lab, start: Start) -> None:
    start("A", "run", "--interfaces", "to_server", "--except-ports", "5999,22")
    assert ended(start("A", "wait"))[0] == 0
    lab.pair(lab.listen())
    with lab.inside("pep"):
        assert lab.run("ss", "-tnH", "state", "established") == ""


def test_ports_that_are_excepted_pass_unsplit(lab: Lab, start: Start) -> None:
    start("A", "run", "--except-ports", "5999,22")
    assert ended(start("A", "wait"))[0] == 0
    lab.pair(lab.listen(port=5999))
    with lab.inside("pep"):
        assert lab.run("ss", "-tnH", "state", "established") == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["A", "run", "--cc", "bbr3"], "has no congestion control bbr3"),
        (["A", "run", "--program", "pepsal"], "pepsal is not installed on this host"),
        (["A", "--at", "C", "run"], "'C' is not a position"),
    ],
)
def test_what_cannot_work_is_an_error_and_leaves_nothing(
    lab: Lab, start: Start, arguments: list[str], said: Any
) -> None:
    before = state(lab)
    exit_code, printed = ended(
        start(*arguments, PATH=os.environ["PATH"]) if "pepsal" in arguments else start(*arguments)
    )
    assert exit_code != 0
    assert said in printed
    assert state(lab) == before


def test_the_rules_that_are_installed_are_those_of_the_job(lab: Lab) -> None:
    """pep/system: what satpep.service sets and takes back."""
    before = state(lab)
    arguments = satpep.parse(["A", "run"])
    with lab.inside("pep"):
        satpep.put_rules(arguments, [])
    of_job = state(lab)
    with lab.inside("pep"):
        satpep.remove_rules(arguments)
        for _ in range(2):  # also what an earlier start has left
            lab.run("nft", "-f", str(SYSTEM / "satpep.nft"))
            lab.run(str(SYSTEM / "routes"), "add")
    assert state(lab) == of_job
    with lab.inside("pep"):
        lab.run("nft", "delete", "table", "inet", "satpep")
        lab.run(str(SYSTEM / "routes"), "del")
    assert state(lab) == before


def test_the_manual_page_shows_the_rules_that_are_installed() -> None:
    rules = (SYSTEM / "satpep.nft").read_text().partition("delete table inet satpep\n")[2]
    assert rules in (ROOT / "pep/satpep.8").read_text()


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    ensure_tools({"systemd-analyze": "systemd", "make": "make", "gcc": "gcc"})
    install = [
        "make",
        "-s",
        "-C",
        str(ROOT / "pep"),
        f"OUT={tmp_path}",
        f"DESTDIR={tmp_path}",
        "PREFIX=/usr",
        "install",
    ]
    subprocess.run(install, check=True)
    unit = tmp_path / "usr/lib/systemd/system/satpep.service"
    unit.write_text(re.sub("/usr/(sbin|share)/satpep", rf"{tmp_path}\g<0>", unit.read_text()))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], check=False, capture_output=True, text=True
    )
    assert [line for line in done.stderr.splitlines() if "satpep" in line] == []
    assert done.returncode == 0
