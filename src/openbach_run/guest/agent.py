# SPDX-License-Identifier: GPL-3.0-or-later
"""The agents of all hosts: one object that starts, watches and stops the jobs' processes.

Everything waits in one select() over pidfds, until the time the director wants back control: no
thread, no polling.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import time
from collections.abc import Generator, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from openbach_run.guest import threads, warm
from openbach_run.guest.director import SECOND_US, LaunchRefused
from openbach_run.guest.instances import JobInstance, JobStatus
from openbach_run.guest.network import Namespace, inside, spawned

if TYPE_CHECKING:
    from openbach_run.guest.terminal import Terminals
    from openbach_run.guest.threads import JobThread
    from openbach_run.guest.typed import Commands
    from openbach_run.openbach.job import Job

PROGRAMS = "/opt/openbach-run/bin"  # what jobs and VPNs have as source
JOBS_DIRECTORY = "/run/openbach/jobs"
STATISTICS = "/run/openbach/statistics.jsonl"
COMMANDS = "/run/openbach/commands.sh"
PYTHON_PATH = "/opt/openbach-run/src/openbach_run/guest/agent_library"
"""Directory of the agent's modules for jobs: collect_agent and data_access."""

KEEPS_QLOG = "OPENBACH_RUN_QLOG"
"""Variable of the environment, from the kernel's command line: jobs keep the qlog of QUIC."""
HAS_IPV6 = "OPENBACH_RUN_IPV6"
"""Variable of a job's environment where its host has IPv6; openbach_jobs.ports reads it."""

CHILDREN_GRACE_US, JOB_GRACE_US = 1 * SECOND_US, 2 * SECOND_US
"""Times from SIGTERM to SIGKILL of a real agent: for a job's children, then for the job itself."""
STOP_LIMIT_US = 60 * SECOND_US  # a real agent waits for command_stop without limit
SELECT_MAX = 1024  # FD_SETSIZE
WAIT_NOT_FOR_THREADS = 0x20000000
"""Flag of waitpid (__WNOTHREAD of linux/wait.h) that leaves children of other threads alone."""
WRONG_FIGURES = 70
"""Exit code of a job that, when it was stopped, saw that its measurement is wrong
(openbach_jobs/command.py)."""
LAST_LINES = 20
LAST_LINES_BYTES = 8192


Procedure = Generator[tuple[list[int], int]]
"""Generator of pidfds and a period in µs: it goes on when all have ended, or after the period."""


class Process:
    """A job instance's main process, and what became of it. Times are µs since the run began."""

    def __init__(
        self,
        job: JobInstance,
        directory: str,
        command_line: list[str],
        pid: int,
        pidfd: int,
        start_us: int,
        thread: JobThread | None = None,
    ) -> None:
        self.job, self.directory, self.command_line = job, directory, command_line
        self.pid, self.pidfd, self.start_us, self.thread = pid, pidfd, start_us, thread
        self.end_us: int | None = None
        self.exit_code: int | None = None  # negative: the signal that ended it
        self.stop_ordered = False
        self.stop_exit_code: int | None = None  # of command_stop


class Wait:
    """A stop procedure that waits: for the pidfds that are left, or for its time."""

    def __init__(self, procedure: Procedure, pidfds: list[int], due_us: int) -> None:
        self.procedure, self.pidfds, self.due_us = procedure, pidfds, due_us


class GuestAgents:
    """Agents of all hosts, as the director knows them, with real processes."""

    def __init__(
        self,
        namespaces: dict[str, Namespace],
        jobs: dict[str, Job],
        seed: int,
        origin_ns: int,
        clock: str,
    ) -> None:
        self.namespaces, self.jobs = namespaces, jobs
        self.seed, self.origin_ns, self.clock = seed, origin_ns, clock
        self.has_ipv6 = False
        self.typed: dict[str, Commands | Terminals] = {}
        """Commands and terminals by the name of the job in whose place they run."""
        self.processes: dict[int, Process] = {}
        self.waits: list[Wait] = []
        self.exit_codes: dict[int, int] = {}

    # The director's side

    def now_us(self) -> int:
        """Return the time in µs since the run began."""
        return (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - self.origin_ns) // 1000

    def wait_until(self, due_us: int) -> None:
        """Serve processes and stop procedures until a time in µs."""
        while (now_us := self.now_us()) < due_us:
            self._serve(due_us - now_us)

    def start(self, job: JobInstance) -> None:
        """Start a job instance's process on its host. Raises LaunchRefused."""
        if job.entity not in self.namespaces:
            raise LaunchRefused(f"no entity {job.entity}; there are {', '.join(self.namespaces)}")
        directory = f"{JOBS_DIRECTORY}/{job.id}_{job.job}_{job.entity}"
        os.makedirs(directory, exist_ok=True)
        command_line = [*shlex.split(self.jobs[job.job].command), *job.argv]
        environment = {
            "JOB_NAME": job.job,
            "JOB_INSTANCE_ID": str(job.id),
            "SCENARIO_INSTANCE_ID": str(job.scenario_id),
            "OWNER_SCENARIO_INSTANCE_ID": str(job.owner_id),
        }
        pid, thread = os.getpid(), None
        try:
            if typed := self.typed.get(job.job):
                typed.begin()
                pidfd = os.eventfd(0, os.EFD_CLOEXEC)
            elif thread := self._thread(job.entity, directory, command_line, environment):
                pidfd = thread.fd
            else:
                pid = self.spawn(job.entity, directory, command_line, environment)
                pidfd = os.pidfd_open(pid)
        except LaunchRefused:
            # A job that never ran leaves no directory: the record would show it as one that was
            # silent.
            for name in os.listdir(directory):
                os.remove(f"{directory}/{name}")
            os.rmdir(directory)
            raise
        self.processes[job.id] = Process(
            job, directory, command_line, pid, pidfd, self.now_us(), thread
        )
        self._reap()

    def poll(self, instance_id: int) -> JobStatus:
        """Return the status of a job instance by its process."""
        # A process that has ended is a zombie until it is waited for; only then its exit code is
        # known.
        self._reap()
        process = self.processes[instance_id]
        # As on a platform, a job that was asked to stop is Stopped from then on, though its
        # processes may still be ending.
        if process.stop_ordered:
            return JobStatus.STOPPED
        if process.exit_code is None:
            return JobStatus.RUNNING
        return JobStatus.ERROR if process.exit_code else JobStatus.NOT_RUNNING

    def stop(self, instance_id: int) -> None:
        """Begin to stop a job instance, unless it has ended."""
        self._reap()
        process = self.processes[instance_id]
        if not process.stop_ordered:
            process.stop_ordered = True
            self.go_on(self._stop(process))

    def has_wrong_figures(self, job: JobInstance) -> bool:
        """Return whether the job was asked to stop, and ended with the exit code that says so."""
        process = self.processes[job.id]
        return process.stop_ordered and process.exit_code == WRONG_FIGURES

    # The run's side

    def close(self) -> None:
        """Let the stops that were ordered come to their end."""
        while self.waits:
            self._serve(STOP_LIMIT_US)

    def record(self, job: JobInstance) -> dict[str, Any]:
        """Return what was started where, and how it ended."""
        process = self.processes[job.id]
        return {
            "job": job.job,
            "entity": job.entity,
            "instance_id": job.id,
            "argv": process.command_line,
            "status": job.status,
            "exit_code": process.exit_code,
            "start_s": process.start_us / SECOND_US,
            "stop_s": None if process.end_us is None else process.end_us / SECOND_US,
            "stop_exit_code": process.stop_exit_code,
        }

    def last_lines(self, instance_id: int) -> list[str]:
        """Return the last lines of the job's stderr, after those of its stdout if there is room."""
        lines: list[str] = []
        for name in ("stderr", "stdout"):
            with open(f"{self.processes[instance_id].directory}/{name}", "rb") as file:
                # Only the end is read: a job may have written megabytes.
                file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_LINES_BYTES))
                lines = file.read().decode(errors="replace").splitlines() + lines
        return lines[-LAST_LINES:]

    # Processes

    def _thread(
        self, entity: str, directory: str, command_line: list[str], environment: dict[str, str]
    ) -> JobThread | None:
        """Return a thread that runs a program on a host; None if that needs a process."""
        if not threads.takes(command_line):
            return None
        with inside(self.namespaces[entity]):
            os.chdir(directory)
            whole = {**self._environment(entity, directory), **environment}
            thread = threads.JobThread(command_line, whole, directory)
        return None if thread.needs_process else thread

    def _environment(self, entity: str, directory: str) -> dict[str, str]:
        """Return what all of a host's programs have: nothing of the host's may change a run."""
        base = {
            "PATH": f"{PROGRAMS}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": PYTHON_PATH,
            "OPENBACH_RUN_SEED": str(self.seed),
            "OPENBACH_RUN_CLOCK": self.clock,
            "OPENBACH_STATISTICS": STATISTICS,
            "OPENBACH_AGENT_NAME": entity,
            "OPENBACH_RUN_COMMANDS": COMMANDS,
            "OPENBACH_RUN_HOST": self.namespaces[entity].name,
            "OPENBACH_RUN_BEGAN_NS": str(self.origin_ns),
        }
        if self.has_ipv6:
            base[HAS_IPV6] = "yes"
        if KEEPS_QLOG in os.environ:
            base["QLOGDIR"] = directory  # where curl and programs on quic-go look for it
        return base

    def spawn(
        self, entity: str, directory: str, command_line: list[str], environment: dict[str, str]
    ) -> int:
        """Start a program on a host, in a session of its own. Raises LaunchRefused."""
        whole = {**self._environment(entity, directory), **environment}
        # A child is born in the namespaces of its parent, so the agent goes there to start it.
        with inside(self.namespaces[entity]):
            os.chdir(directory)
            # A Python job is forked from a process that has its imports done, which saves CPU in
            # every run.
            if warm.runs(command_line):
                return warm.start(command_line, whole)
            try:
                # Appended to, since command_stop writes to the same files as its job.
                with open("stdout", "ab") as out, open("stderr", "ab") as errors:
                    return spawned(command_line, whole, out.fileno(), errors.fileno())
            except OSError as error:
                raise LaunchRefused(f"{command_line[0]} on {entity}: {error.strerror}") from error

    def _serve(self, timeout_us: int) -> None:
        """Wait for the next event or the time-out, and do what it asks for.

        An event is the end of a process, or a stop procedure's time.
        """
        # Sleep until the first thing that is due: with all of the guest asleep its clock jumps
        # there.
        due_us = min([self.now_us() + timeout_us, *(wait.due_us for wait in self.waits)])
        running = [
            process.pidfd for process in self.processes.values() if process.exit_code is None
        ]
        stopping = [pidfd for wait in self.waits for pidfd in wait.pidfds]
        typed = [fd for commands in self.typed.values() for fd in commands.descriptors]
        timeout_s = max(0, due_us - self.now_us()) / SECOND_US
        # A pidfd becomes readable when its process ends (pidfd_open(2)).
        ended = _readable({*running, *stopping, *typed}, timeout_s)
        self._reap()
        # A copy, since procedures that go on may add to the list.
        for wait in self.waits[:]:
            wait.pidfds = [pidfd for pidfd in wait.pidfds if pidfd not in ended]
            if not wait.pidfds or wait.due_us <= self.now_us():
                self.waits.remove(wait)
                self.go_on(wait.procedure)
        if not ended.isdisjoint(typed):
            self._serve_typed(ended)

    def _serve_typed(self, ready: set[int]) -> None:
        """Go on with the commands that a person has typed."""
        for process in self.processes.values():
            typed = self.typed.get(process.job.job)
            if typed is not None and process.exit_code is None:
                typed.serve(ready)
                if typed.over:
                    process.exit_code, process.end_us = 0, self.now_us()

    def _reap(self) -> None:
        """Take note of all jobs that ended; orphans end up here too."""
        for process in self.processes.values():
            if process.exit_code is None and process.thread is not None:
                process.exit_code = process.thread.code
                process.end_us = None if process.exit_code is None else self.now_us()
        while True:
            try:
                # The director is process 1 of the guest: children of jobs that have ended become
                # its own.
                pid, status = os.waitpid(-1, os.WNOHANG | WAIT_NOT_FOR_THREADS)
            except ChildProcessError:
                return
            if not pid:
                return
            self.exit_codes[pid] = os.waitstatus_to_exitcode(status)
            for process in self.processes.values():
                if process.pid == pid and process.exit_code is None:
                    process.exit_code = self.exit_codes[pid]
                    process.end_us = self.now_us()

    def go_on(self, procedure: Procedure) -> None:
        """Run a stop procedure up to where it has something to wait for."""
        for pidfds, period_us in procedure:
            if pidfds:
                self.waits.append(Wait(procedure, pidfds, self.now_us() + period_us))
                return

    def _stop(self, process: Process) -> Procedure:
        """Stop a job as a real agent does: its children, then the job, then by its command_stop."""
        if typed := self.typed.get(process.job.job):
            if process.exit_code is None:
                typed.abort()
            return
        if process.exit_code is None:
            # Children first, as OpenBACH's agent does: a parent that sees them end may end by
            # itself.
            children = [*_descendants(process.pid, process.thread)]
            yield from _end(children, CHILDREN_GRACE_US)
            # Kept open until here: a pidfd names this process and never a later one with the same
            # id.
            for pidfd in children:
                os.close(pidfd)
            yield from _end([process.pidfd], JOB_GRACE_US)
        command_stop = self.jobs[process.job.job].command_stop
        if command_stop:
            # A real agent calls command_stop with the arguments of the start.
            line = [*shlex.split(command_stop), *process.job.argv]
            try:
                pid = self.spawn(process.job.entity, process.directory, line, {})
            except LaunchRefused as error:
                with open(f"{process.directory}/stderr", "a") as file:
                    file.write(f"command_stop: {error}\n")
                return
            pidfd = os.pidfd_open(pid)
            yield [pidfd], STOP_LIMIT_US
            # What is not over after STOP_LIMIT_US is ended, so that a run ends.
            _send(pidfd, signal.SIGKILL)
            os.close(pidfd)
            self._reap()
            process.stop_exit_code = self.exit_codes.get(pid)


def _readable(descriptors: set[int], timeout_s: float) -> set[int]:
    """Return those that become readable first; none after the time-out."""
    if max(descriptors, default=0) < SELECT_MAX:
        return set(select.select(descriptors, [], [], timeout_s)[0])
    waiting = select.poll()  # to the millisecond only
    for descriptor in descriptors:
        waiting.register(descriptor, select.POLLIN)
    return {fd for fd, _ in threads.with_turn_given(waiting.poll)(1000 * timeout_s)}


def _end(pidfds: list[int], grace_us: int) -> Procedure:
    """Send SIGTERM, then SIGKILL to what has not ended in time."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pidfd in pidfds:
            _send(pidfd, number)
        yield pidfds, grace_us


def _send(pidfd: int, number: signal.Signals) -> None:
    if thread := threads.started.get(pidfd):
        thread.send(number)
        return
    with suppress(ProcessLookupError):  # it has ended
        signal.pidfd_send_signal(pidfd, number)


def _descendants(pid: int, thread: JobThread | None = None) -> Iterable[int]:
    """Yield pidfds of a process's children and their children, or those of one of its threads."""
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        # Children are listed by the thread that has started them (proc(5)).
        for task in [thread.tid] if thread else sorted(os.listdir(f"/proc/{pid}/task")):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                children = [int(child) for child in file.read().split()]
            for child in children:
                yield os.pidfd_open(child)
                yield from _descendants(child)
