# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that are threads of the director: what each has of its own, and how each ends.

They run in a Python of their own, which then has other waits, as in the guest. Only the namespaces
are missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIRECTOR = """
import contextlib, json, os, sys, time
from types import SimpleNamespace
from openbach_run.guest import agent, threads, warm
from openbach_run.guest.instances import JobInstance

place = sys.argv[1]
agent.JOBS_DIRECTORY = place + "/records"
agent.JOB_GRACE_US = 300_000
warm.PYTHON = "python3"

@contextlib.contextmanager
def inside(namespace):
    here = os.getcwd()
    yield
    os.chdir(here)

agent.inside = inside
warm.prepare(sys.argv[2])
threads.prepare()
hosts = {"pc": SimpleNamespace(name="pc"), "server": SimpleNamespace(name="server")}
jobs = {
    name[:-3]: SimpleNamespace(command=f"python3 {place}/jobs/{name}", command_stop="")
    for name in os.listdir(place + "/jobs") if name.endswith(".py")
}
agents = agent.GuestAgents(hosts, jobs, 7, time.clock_gettime_ns(time.CLOCK_MONOTONIC), "real")
started = []

def start(name, *argv, host="pc"):
    job = JobInstance(len(started) + 1, name, host, list(argv), 1, 1, False)
    agents.start(job)
    started.append(job)
    return job.id

def go_on(seconds):
    agents.wait_until(agents.now_us() + round(seconds * 1e6))

def until_ended(*numbers, limit_s=20):
    end = time.monotonic() + limit_s
    while any(agents.processes[number].exit_code is None for number in numbers):
        assert time.monotonic() < end, "a job did not end"
        go_on(0.01)

def told():
    found = []
    for job in started:
        process = agents.processes[job.id]
        texts = [open(f"{process.directory}/{name}").read() for name in ("stdout", "stderr")]
        found.append([process.exit_code, process.thread is not None, *texts])
    return found
"""
SELF = """
import os, signal, subprocess, sys
RUNS_AS_THREAD = True
def tell():
    print(os.environ["OPENBACH_AGENT_NAME"], os.environ["JOB_INSTANCE_ID"], *sys.argv[1:], os.path.basename(os.getcwd()))
    subprocess.run("echo child of $JOB_INSTANCE_ID in ${PWD##*/}; echo wrong >&2; cat", shell=True)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
tell()
signal.sigwait({signal.SIGTERM})
tell()
"""


@pytest.fixture
def run(tmp_path: Path) -> Any:
    (tmp_path / "jobs").mkdir()

    def run(steps: str, **programs: str) -> list[list[Any]]:
        for name, text in programs.items():
            (tmp_path / "jobs" / f"{name}.py").write_text(text)
        program = f"{DIRECTOR}\n{steps}\nprint(json.dumps(told()))"
        library = ROOT / "src/openbach_run/guest/agent_library"
        command = [sys.executable, "-c", program, str(tmp_path), str(library)]
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env=environment, timeout=60
        )
        assert done.returncode == 0, done.stderr
        found: list[list[Any]] = json.loads(done.stdout)
        return found

    return run


def test_each_has_its_environment_arguments_directory_and_streams(run: Any) -> None:
    steps = """
first, second = start("one", "a", "b"), start("one", "c", host="server")
agents.stop(second); agents.stop(first)
until_ended(first, second)
assert "JOB_INSTANCE_ID" not in os.environ and sys.argv[1] == place
"""
    first, second = run(steps, one=SELF)
    lines = "pc 1 a b 1_one_pc\nchild of 1 in 1_one_pc\n"
    assert sorted(first[2].splitlines()) == sorted((2 * lines).splitlines())
    assert first[:2] == second[:2] == [0, True]
    assert "server 2 c 2_one_server" in second[2] and first[3] == second[3] == "wrong\n" * 2


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("raise ValueError('bad')", 1, "ValueError: bad"),
        ("sys.exit('no link')", 1, "no link"),
        ("sys.exit(70)", 70, ""),
        ("sys.exit(300)", 300 & 0xFF, ""),
        ("raise KeyboardInterrupt", 1, ""),
        ("pass", 0, ""),
    ],
)
def test_an_end_is_the_jobs_and_not_the_directors(run: Any, end: str, code: int, said: str) -> None:
    program = f"import sys\nRUNS_AS_THREAD = True\nprint('out')\n{end}\n"
    (job,) = run("until_ended(start('one'))", one=program)
    assert job[:3] == [code, True, "out\n"] and said in job[3]


def test_they_wait_at_the_same_time_as_the_director(run: Any) -> None:
    program = """
import socket, subprocess, sys, time
RUNS_AS_THREAD = True
if sys.argv[1] == "sleep":
    time.sleep(0.5)
elif sys.argv[1] == "program":
    subprocess.run(["sleep", "0.5"], check=True)
else:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as never:
        never.bind("name"); never.settimeout(0.5)
        try: never.recv(1)
        except TimeoutError: pass
print("over")
"""
    steps = """
begin = time.monotonic()
numbers = [start("one", how) for how in ("sleep", "program", "socket") for _ in range(3)]
assert time.monotonic() - begin < 0.5, "a start waits for the job"
until_ended(*numbers)
assert time.monotonic() - begin < 3, "one after the other"
"""
    assert run(steps, one=program) == [[0, True, "over\n", ""]] * 9


def test_a_signal_that_is_not_blocked_ends_it_after_its_children(run: Any) -> None:
    program = """
import subprocess, sys, time
RUNS_AS_THREAD = True
try:
    if sys.argv[1] == "sleep":
        time.sleep(0.2)
    elif sys.argv[1] == "long":
        time.sleep(2)
    else:
        subprocess.run(["sleep", "100"])
        time.sleep(0.2)
    print("never")
finally:
    print("cleared")
"""
    steps = """
numbers = [start("one", how) for how in ("sleep", "program", "long")]
for number in numbers: agents.stop(number)
until_ended(*numbers, limit_s=1.5)
"""
    asleep, with_child, long = run(steps, one=program)
    # As in a process, whatever it waits for, and nothing of it goes on.
    assert asleep[:3] == with_child[:3] == long[:3] == [-15, True, ""]


def test_children_of_threads_are_their_own(run: Any) -> None:
    """The director, which waits for all children, leaves them their exit codes."""
    program = """
import subprocess
RUNS_AS_THREAD = True
print([subprocess.run(["sh", "-c", "sleep 0.05; exit 7"]).returncode for _ in range(5)])
"""
    steps = "numbers = [start('one') for _ in range(4)]; until_ended(*numbers)"
    assert [job[2] for job in run(steps, one=program)] == ["[7, 7, 7, 7, 7]\n"] * 4


def test_what_needs_a_process_and_what_declares_nothing_is_one(run: Any) -> None:
    needs = """
import os, signal, sys
from openbach_jobs.command import need_process
RUNS_AS_THREAD = True
if sys.argv[1:]:
    need_process()
    signal.signal(signal.SIGTERM, lambda *_: None)
print(sys.argv[1:])
"""
    foreign = "import impairment, openbach_jobs.command as own\nprint(impairment.__name__)"
    beside = "import impairment\nRUNS_AS_THREAD = True\nprint(impairment.__file__)\n"
    steps = """
open(place + "/jobs/impairment.py", "w").close()
numbers = [start(*words) for words in (["ours"], ["ours", "more"], ["beside"], ["theirs"])]
until_ended(*numbers)
"""
    own, more, third, theirs = run(steps, ours=needs, theirs=foreign, beside=beside)
    assert own == [0, True, "[]\n", ""] and more == [0, False, "['more']\n", ""]
    assert third[:2] == [0, True] and third[2].endswith("/jobs/impairment.py\n")
    assert theirs[:3] == [0, False, "impairment\n"], theirs
