# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that a person has typed for hosts: in place of the jobs that a scenario would start.

They run one after the other; one with `&` goes on while the next ones run. What they print is
told as it comes, one JSON document in a line of OUTPUT:

    {"begun": 1, "t_s": 9.2}                     command 1 has started, so many seconds into the run
    {"of": 1, "stream": 1, "text": "64 bytes…"}  it has printed that: bytes, as their code points
    {"ended": 1, "t_s": 13.9, "code": 0}         negative: the signal that ended it
    {"lasting": [2]}                             of those with `&`, what was there at the end
    {"asks": 3}                                  the guest stands still, and waits for command 3

The agents start them, in place of a job of the scenario: the first one at the very time of that
job.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import shlex
import shutil
import signal
import stat
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from openbach_run.guest.network import in_place, inside, mount, spawned

if TYPE_CHECKING:
    from openbach_run.guest.network import Namespace
    from openbach_run.openbach.job import Job
    from openbach_run.topology.hosts import Host, Inventory

JOB = "typed_commands"
"""Name under which the director knows the commands; no job has it."""
OUTPUT = "/run/openbach/output.jsonl"
GIVEN, LEFT = "/run/openbach/given", "/run/openbach/left"
"""Directories of the run: files that commands are given, and files that they leave."""
SHARED = "/home"
"""Directory in which commands run. All hosts see the same: the given files, and what commands have
changed."""
CHANGES = "/run/typed"
"""Directory of the changes, which no host sees there."""
JOBS = "/run/openbach/jobs"
STATISTICS = "/run/openbach/statistics.jsonl"
SHELL = "/bin/sh"
ON_ANY_CPU = {"GODEBUG": "cpu.avx512vl=off"}
"""Environment of people's own programs in Go 1.26: with AVX-512 its garbage collector looks at the
clock at other times (jobs/vpn/files/vpn_go_program.py)."""
PATH = "/opt/openbach-run/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
GRACE_US = 2_000_000
"""Time from SIGTERM to SIGKILL for what still runs at the end."""
READ_BYTES = 1 << 16
CLOCK_MONOTONIC_COARSE = 6
ORDERS = "/run/openbach/orders"
"""Directory of commands that come while the run goes on. N.json is the N-th one; the file N is
there from the run's begin or the command before, and may be executed until N.json is there."""
FACCESSAT2, AT_EMPTY_PATH = 439, 0x1000
LOOKS = 800
"""Number of looks for the next command in which no time passes: the kernel lets time pass for a
program that makes 2000 system calls without a sleep. The engine stops the guest at the first look,
and lets it go on when the command is there."""
STEPS = 500_000
"""Count of Python between two looks: some ms, so that the engine has seconds of CPU time."""
NOTHING = -1
"""Number that no command has."""
FIRST_INSTANCE = 1000
"""Number of the first command's job instance, if that is a job; a scenario has fewer."""


def make_shared() -> None:
    """Mount the directory that all hosts share; before any host is made."""
    # In memory, where files can have owners and sockets; the run's directory is the host's.
    upper, work = f"{CHANGES}/upper", f"{CHANGES}/work"
    os.makedirs(upper)
    os.mkdir(work)
    options = f"lowerdir={GIVEN},upperdir={upper},workdir={work},userxattr"
    mount("overlay", SHARED, "overlay", 0, options)


def bring_back() -> None:
    """Copy the regular files that commands have made or changed to the run's directory."""
    upper = f"{CHANGES}/upper"
    for folder, _, names in os.walk(upper):
        to = LEFT + folder.removeprefix(upper)
        for name in names:
            file = f"{folder}/{name}"
            # A file that was removed is a device there.
            if stat.S_ISREG(os.lstat(file).st_mode):
                os.makedirs(to, exist_ok=True)
                shutil.copyfile(file, f"{to}/{name}")


def name_hosts(inventory: Inventory, places: Mapping[str, int]) -> None:
    """Write each host's /etc/hosts: the names of all hosts, as it reaches them.

    `places` are the hosts' mount namespaces.
    """
    for host in inventory.hosts:
        with in_place(places[host.name]), open("/etc/hosts", "w") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{line}\n" for line in named(host, inventory))


def named(at: Host, inventory: Inventory) -> list[str]:
    """Return the lines of /etc/hosts on a host.

    Another host has the address in a network that both are in, else that of its first interface.
    `box.access` is the address of box in the network access.
    """
    lines = []
    for host in inventory.hosts:
        if host.interfaces:
            ours = {port.network for port in at.interfaces}
            near = [port for port in host.interfaces if port.network in ours]
            known = (
                "127.0.0.1" if host.entity == at.entity else (near or host.interfaces)[0].address
            )
            names = dict.fromkeys((host.name, host.entity))
            lines.append(f"{known} {' '.join(names)}")
            if near_ipv6 := [port.ipv6 for port in near or host.interfaces if port.ipv6]:
                own = "::1" if host.entity == at.entity else near_ipv6[0]
                lines.append(f"{own} {' '.join(names)}")
        lines += [
            f"{address} {host.name}.{port.network}"
            for port in host.interfaces
            for address in (port.address, port.ipv6)
            if address
        ]
    return lines


def orders(ask: Callable[[int], None]) -> Iterator[Mapping[str, Any]]:
    """Yield commands as they come, until there is an `{"end": 1}`; no virtual time passes.

    `ask` tells that the next one is waited for.
    """
    libc = ctypes.CDLL(None)
    for number in itertools.count():
        flag = os.open(f"{ORDERS}/{number}", os.O_PATH | os.O_CLOEXEC)
        ask(number)
        for _ in range(LOOKS):
            # Of all calls this one asks the host, and leaves nothing behind in this kernel: however
            # often it is made, the run goes on in the same way.
            if libc.syscall(FACCESSAT2, flag, b"", os.X_OK, AT_EMPTY_PATH):
                break
            for _ in range(STEPS):
                pass
        else:
            raise TimeoutError("the engine has not stopped the guest, so time would pass")
        os.close(flag)
        # A file that nobody has looked for before: the guest keeps nothing of it.
        with open(f"{ORDERS}/{number}.json") as file:
            order: dict[str, Any] = json.load(file)
        if "end" in order:
            return
        yield order


Procedure = Generator[tuple[list[int], int]]


class Agents(Protocol):
    """The part of the agents (agent.py) that commands need."""

    namespaces: dict[str, Namespace]
    jobs: dict[str, Job]
    exit_codes: dict[int, int]
    origin_ns: int

    def now_us(self) -> int:
        """Return the time in µs since the run began."""
        ...

    def spawn(
        self, entity: str, directory: str, command_line: list[str], environment: dict[str, str]
    ) -> int:
        """Start a program on a host; return its process's id."""
        ...

    def go_on(self, procedure: Procedure) -> None:
        """Run a procedure up to where it has something to wait for."""


class Running:
    """A command's process, and what it prints to: pipes, or files of a job's directory."""

    def __init__(
        self, number: int, pid: int, pipes: dict[int, int], directory: str | None = None
    ) -> None:
        self.number, self.pid, self.pidfd = number, pid, os.pidfd_open(pid)
        self.pipes = pipes
        """Descriptor of a pipe → 1 for stdout, 2 for stderr."""
        self.directory, self.ended = directory, False


class Commands:
    """The commands of a run, as a state that the agents serve.

    Each is `{"host": …, "command": …, "apart": is it with &}`, or has `job` (its command line) in
    place of `command`: then it is started as an agent starts it. With `needs` it is only started
    if the command of that number has ended well. `{"wait": 1}` waits. With `entries` None they come
    while the run goes on.
    """

    def __init__(self, entries: Sequence[Mapping[str, Any]] | None, agents: Agents) -> None:
        self.agents = agents
        self.namespaces = {host.name: host for host in agents.namespaces.values()}
        self.entities = {host.name: entity for entity, host in agents.namespaces.items()}
        self.codes: dict[int, int] = {}
        """The exit codes of the commands that have ended."""
        self.entries: Iterator[tuple[int, Mapping[str, Any]]] = enumerate(
            orders(self._ask) if entries is None else entries
        )
        self.running: list[Running] = []
        self.awaited: list[Running] = []
        """Commands that have to end before the next one begins."""
        self.lasting: list[Running] = []
        """Commands with `&` that ran on after the last one without, and were told to end."""
        self.over = False
        self.output = -1

    def begin(self) -> None:
        """Start the first command."""
        # `open` would make calls that fail, and those cost time.
        self.output = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._go_on()

    @property
    def descriptors(self) -> list[int]:
        """Return what becomes readable when there is something to serve."""
        pipes = [fd for command in self.running for fd in command.pipes]
        return [*pipes, *(command.pidfd for command in self.running if not command.ended)]

    def serve(self, ready: Collection[int]) -> None:
        """Tell what commands have printed, and which have ended; start what may begin now.

        The exit codes of those that have ended are known to the agents.
        """
        for command in self.running:
            for fd in list(command.pipes):
                if fd in ready:
                    self._read(command, fd)
            # Not before it is readable: whoever waits for it, too, has seen it then.
            if not command.ended and command.pidfd in ready:
                self._note_end(command)
        self.running = [command for command in self.running if command.pipes or not command.ended]
        self._go_on()

    def _go_on(self) -> None:
        """Start commands up to the first one whose end is to be waited for."""
        while not self.over and all(command.ended for command in self.awaited):
            if self.lasting:
                bring_back()
                self.over = True
                return
            next_entry = next(self.entries, None)
            if next_entry is None:
                self._end_lasting()
                continue
            number, entry = next_entry
            if "wait" in entry:
                self.awaited = list(self.running)
            elif self.codes.get(entry.get("needs", NOTHING)):
                self.entries = iter(())
            else:
                started = self._start(number, entry)
                self.awaited = [] if entry["apart"] else [started]

    def _end_lasting(self) -> None:
        """Tell those to end that were started with `&`; all is over when they have."""
        self.lasting = [command for command in self.running if not command.ended]
        if not self.lasting:
            bring_back()
            self.over = True
            return
        self._tell(lasting=[command.number for command in self.lasting])
        self.awaited = self.lasting
        self.agents.go_on(self._stopping())

    def _stopping(self) -> Procedure:
        """Send SIGTERM, then SIGKILL to what has not ended in time."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            # Some may have ended, which has yet to be noted.
            left = [last for last in self.lasting if last.pid not in self.agents.exit_codes]
            if left:
                self.signal(number)
            yield [last.pidfd for last in left], GRACE_US

    def abort(self) -> None:
        """End all that run at once: the run itself is over."""
        self._tell(lasting=[command.number for command in self.running if not command.ended])
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all that run, and to their children."""
        for command in self.running:
            if not command.ended:
                with suppress(ProcessLookupError):
                    os.killpg(command.pid, number)

    def _start(self, number: int, entry: Mapping[str, Any]) -> Running:
        if "job" in entry:
            self._tell(begun=number, t_s=self._now_s())
            started = self._start_job(number, entry["host"], entry["job"])
        else:
            started = self._start_command(number, entry["host"], entry["command"])
            # Once it has been started: that may take time.
            self._tell(begun=number, t_s=self.agents.now_us() / 1e6)
        # An older process may have had its id.
        self.agents.exit_codes.pop(started.pid, None)
        self.running.append(started)
        return started

    def _start_job(self, number: int, host: str, words: list[str]) -> Running:
        name, *arguments = words
        line = [*shlex.split(self.agents.jobs[name].command), *arguments]
        directory = f"{JOBS}/{FIRST_INSTANCE + number}_{name}_{host}"
        os.makedirs(directory)
        environment = {
            "JOB_NAME": name,
            "JOB_INSTANCE_ID": str(FIRST_INSTANCE + number),
            "SCENARIO_INSTANCE_ID": "1",
            "OWNER_SCENARIO_INSTANCE_ID": "1",
        }
        pid = self.agents.spawn(self.entities[host], directory, line, environment)
        return Running(number, pid, {}, directory)

    def _start_command(self, number: int, host: str, command: str) -> Running:
        pipes: dict[int, int] = {}
        ends = []
        for stream in (1, 2):
            read_end, write_end = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(read_end, False)
            pipes[read_end] = stream
            ends.append(write_end)
        known = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb", **ON_ANY_CPU}
        with inside(self.namespaces[host]):
            os.chdir(SHARED)
            pid = spawned([SHELL, "-c", command], known, *ends)
        for write_end in ends:
            os.close(write_end)
        return Running(number, pid, pipes)

    def _note_end(self, command: Running) -> None:
        os.close(command.pidfd)
        command.ended = True
        # What it printed last comes before its end. Its children may still have the pipes.
        for fd in list(command.pipes):
            while self._read(command, fd):
                pass
        if command.directory:
            self._tell_of_job(command.number, command.directory)
        code = self.codes[command.number] = self.agents.exit_codes[command.pid]
        self._tell(ended=command.number, t_s=self.agents.now_us() / 1e6, code=code)

    def _read(self, command: Running, fd: int) -> bool:
        """Tell what is in a pipe; return whether there may be more."""
        try:
            printed = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        if printed:
            self._tell(of=command.number, stream=command.pipes[fd], text=printed.decode("latin-1"))
            return True
        os.close(fd)
        del command.pipes[fd]
        return False

    def _tell_of_job(self, number: int, directory: str) -> None:
        """Tell what a job has printed, and the statistics that it has sent."""
        for stream, name in ((1, "stdout"), (2, "stderr")):
            with open(f"{directory}/{name}", "rb") as file:
                if printed := file.read():
                    self._tell(of=number, stream=stream, text=printed.decode("latin-1"))
        if os.path.exists(STATISTICS):
            with open(STATISTICS) as file:
                for line in file:
                    sent = json.loads(line)
                    if sent.pop("_metadata")["job_instance_id"] == FIRST_INSTANCE + number:
                        self._tell(of=number, stream=1, text=f"{json.dumps(sent)}\n")

    def _ask(self, number: int) -> None:
        self._tell(asks=number)

    def _now_s(self) -> float:
        # Reading a finer clock would take virtual time, by which a job's packets would differ.
        now_ns = time.clock_gettime_ns(CLOCK_MONOTONIC_COARSE)
        return (now_ns - self.agents.origin_ns) / 1e9

    def _tell(self, **document: Any) -> None:
        os.write(self.output, json.dumps(document).encode() + b"\n")
