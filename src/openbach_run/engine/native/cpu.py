# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU time of a native run: of each host, each of its programs, and the rest of the machine.

From /proc/PID/stat: user and system time of a process and of its children that have ended, in ticks
of 10 ms; what the kernel does for a packet in a soft interrupt counts for the process that it
interrupts. A process that has ended counts for its host and program as it was seen last, what came
after that for its parent. The sum is that of the run's cgroup, where one could be made. It is taken
over the job that measures: of those that ended by themselves one that says how much it has
transferred, or else the one that ran longest and did not only wait for the path.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openbach_run.openbach.measures import Declared, Measure
from openbach_run.results.record import events, statistics

PERIOD_S = 0.5
"""Time between two looks: each costs some milliseconds."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BYTES = ("received_bytes", "bytes")
"""Statistics that say what a job has transferred."""
WAITING = ("path_ready", "vpn")
"""Jobs that end by themselves when what they wait for is there: a VPN that logs in may take longer
than a measurement."""
DIRECTOR = "director"
"""The host of process 1, and of orphans that have ended."""
IN_RUN, BY_PROGRAM = "cpu", "cpu_by_program"
CPU_S = Measure("cpu_s", "cpu_s", "s", "CPU time", better="less")
PER_GB = Measure("cpu_s_per_gb", "cpu_s_per_gb", "s/GB", "CPU time", better="less")
MEASURES: Declared = {
    IN_RUN: (
        CPU_S,
        PER_GB,
        Measure("cpu_window_s", "cpu_window_s", "s", "time over which CPU time was taken"),
        Measure("cpu_others_s", "cpu_others_s", "s", "CPU time of everything else on the machine"),
        Measure("cpu_steal_s", "cpu_steal_s", "s", "CPU time that the hypervisor took"),
    ),
    BY_PROGRAM: (CPU_S, PER_GB),
}
"""Measures, as if two jobs had sent them."""
BUSY, STEAL = (0, 1, 2, 5, 6), 7
"""Fields of the first line of /proc/stat: user, nice, system, irq, softirq."""


@dataclass(frozen=True)
class Process:
    """One that runs, or did when it was seen last."""

    host: str
    program: str
    parent: int
    ticks: int
    """CPU time of its own, and of children that ended before anybody saw them."""


@dataclass(frozen=True)
class Sample:
    """The CPU times in s up to a moment of the run."""

    time_s: float
    """Time of CLOCK_MONOTONIC."""
    programs_s: Mapping[tuple[str, str], float]
    """CPU time so far by host and program."""
    run_s: float
    busy_s: float
    steal_s: float


@dataclass(frozen=True)
class Window:
    """A job instance, and the CPU time before it and after it."""

    before: Sample
    after: Sample


@dataclass
class Watch:
    """A thread that looks every PERIOD_S at the processes below `keeper`, and at events."""

    keeper: int
    cgroup: str
    windows: dict[int, Window] = field(default_factory=dict)
    """Windows of the jobs that ended by themselves, by instance."""

    def __post_init__(self) -> None:
        self._hosts: dict[int, str] = {}
        """Hosts by the inode of their network namespaces."""
        self._known: dict[int, Process] = {}
        self._begun: dict[int, Sample] = {}
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._last = self._looked()
        self._thread = threading.Thread(target=self._repeat, daemon=True)
        self._thread.start()

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Take note of a director's event: a job's start or end."""
        if event["event"] == "job_started":
            self._begun[event["instance_id"]] = self._last
        elif event["event"] == "job_ended" and event["instance_id"] in self._begun:
            self.windows[event["instance_id"]] = Window(
                self._begun.pop(event["instance_id"]), self._looked()
            )
        elif event["event"] == "job_stop_ordered":
            self._begun.pop(event["instance_id"], None)

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._ended.set()
        self._thread.join()

    def _repeat(self) -> None:
        while not self._ended.wait(PERIOD_S):
            self._last = self._looked()

    def _looked(self) -> Sample:
        with self._lock:
            return self._look()

    def _look(self) -> Sample:
        below = list(descendants(self.keeper))
        # keeper → outer (depth 0) → process 1 (depth 1).
        process_1 = next((pid for depth, pid, _ in below if depth == 1), 0)
        ended = self._ended_below({pid for _, pid, _ in below})
        for depth, pid, parent in below:
            with suppress(OSError, IndexError, ValueError):  # it has ended
                name, own, waited_for = cpu_ticks(Path(f"/proc/{pid}/stat").read_text())
                # A parent's counter has all children that it waited for; those that were seen count
                # by themselves.
                unseen = waited_for - ended[pid]
                host = DIRECTOR if depth < 2 else self._host(pid, process_1)
                self._known[pid] = Process(host, name, parent, own + max(unseen, 0))
        programs: dict[tuple[str, str], float] = defaultdict(float)
        for process in self._known.values():
            programs[process.host, process.program] += process.ticks / TICKS_PER_S
        with open("/proc/stat") as file:
            # The first line of /proc/stat is the sum of all CPUs (proc(5)).
            machine = [int(word) / TICKS_PER_S for word in file.readline().split()[1:]]
        busy_s = sum(machine[number] for number in BUSY)
        return Sample(time.monotonic(), programs, self._run_s(programs), busy_s, machine[STEAL])

    def _ended_below(self, alive: set[int]) -> dict[int, int]:
        """Return the ticks of ended processes, by the nearest living process above them."""
        ticks: dict[int, int] = defaultdict(int)
        for pid in self._known.keys() - alive:
            above = self._known[pid].parent
            # A grandchild's time may be in the counter of any living process above it.
            while above not in alive and above in self._known:
                above = self._known[above].parent
            ticks[above] += self._known[pid].ticks
        return ticks

    def _run_s(self, programs: Mapping[tuple[str, str], float]) -> float:
        with suppress(OSError, KeyError, ValueError):
            lines = Path(self.cgroup, "cpu.stat").read_text().splitlines() if self.cgroup else []
            # The cgroup counts every process, however short it lived.
            return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6
        return sum(programs.values())

    def _host(self, pid: int, process_1: int) -> str:
        """Return a process's host by its network namespace, which process 1 has named."""
        namespace = os.stat(f"/proc/{pid}/ns/net").st_ino
        if namespace not in self._hosts:
            # Read anew for a namespace that is not known: a job may have made it.
            self._hosts = {
                file.stat().st_ino: file.name
                for file in Path(f"/proc/{process_1}/root/run/netns").glob("*")
            }
        return self._hosts.get(namespace, DIRECTOR)


def descendants(pid: int, depth: int = 0) -> Iterator[tuple[int, int, int]]:
    """Yield a process's descendants: depth below it (0 is a child), process id, parent's id."""
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                yield depth, int(child), pid
                yield from descendants(int(child), depth + 1)


def cpu_ticks(stat: str) -> tuple[str, int, int]:
    """Return program and CPU time of a /proc/PID/stat (proc(5)).

    The time is utime and stime, and those of children that were waited for, in ticks.
    """
    # A program's name may have blanks and parentheses: the last one ends it.
    head, _, rest = stat.rpartition(")")
    user, system, waited_user, waited_system = map(int, rest.split()[11:15])
    return head.partition("(")[2], user + system, waited_user + waited_system


def send(run_dir: Path, windows: Mapping[int, Window]) -> None:
    """Add the CPU time over the job that measured to the statistics of a run."""
    if not windows:
        return
    sizes: dict[int, float] = defaultdict(float)
    for entry in statistics(run_dir):
        instance = entry["_metadata"].get("job_instance_id", 0)
        sizes[instance] += sum(
            entry[name] for name in BYTES if isinstance(entry.get(name), int | float)
        )
    jobs = {job["instance_id"]: job for job in events(run_dir) if job["event"] == "job_started"}
    transferring = [instance for instance in windows if sizes[instance]]
    busy = [instance for instance in windows if jobs[instance]["job"] not in WAITING]
    # Of several that measured, the longest: a short test beside it says less.
    measuring = max(
        transferring or busy or windows,
        key=lambda instance: windows[instance].after.time_s - windows[instance].before.time_s,
    )
    before, after, size = windows[measuring].before, windows[measuring].after, sizes[measuring]
    by_program = {
        key: time_s - before.programs_s.get(key, 0) for key, time_s in after.programs_s.items()
    }
    hosts: dict[str, float] = defaultdict(float)
    for (host, _), time_s in by_program.items():
        hosts[host] += time_s
    run_s = after.run_s - before.run_s
    lines = [
        (
            IN_RUN,
            "",
            {
                **_per_gb(run_s, size),
                "cpu_window_s": after.time_s - before.time_s,
                "cpu_others_s": max(after.busy_s - before.busy_s - run_s, 0.0),
                "cpu_steal_s": after.steal_s - before.steal_s,
            },
        )
    ]
    lines += [(BY_PROGRAM, host, _per_gb(time_s, size)) for host, time_s in sorted(hosts.items())]
    lines += [
        (BY_PROGRAM, f"{host}_{name.replace('-', '_')}", _per_gb(time_s, size))
        for (host, name), time_s in sorted(by_program.items())
        if time_s > 0
    ]
    with (run_dir / "statistics.jsonl").open("a") as file:
        for name, suffix, values in lines:
            metadata = {
                "time": time.time_ns() // 1_000_000,
                "job_name": name,
                "agent_name": jobs[measuring]["entity"],
                "job_instance_id": measuring,
                "scenario_instance_id": jobs[measuring]["scenario_instance_id"],
                **({"suffix": suffix} if suffix else {}),
            }
            file.write(json.dumps({**values, "_metadata": metadata}) + "\n")


def _per_gb(time_s: float, size: float) -> dict[str, float]:
    return {"cpu_s": time_s, **({"cpu_s_per_gb": time_s / (size / 1e9)} if size else {})}


def new_cgroup() -> str:
    """Return the path for a new cgroup of version 2 below this process's; "" if there can be none.

    There can be none where there is no version 2, or where it is another user's.
    """
    with suppress(OSError, StopIteration):
        own = next(line[3:].strip() for line in open("/proc/self/cgroup") if line.startswith("0::"))
        mounts = (line.split() for line in open("/proc/self/mounts"))
        point = next(words[1] for words in mounts if words[2] == "cgroup2")
        place = f"{point}{own.rstrip('/')}"
        if os.access(place, os.W_OK):
            return f"{place}/openbach-run-{os.getpid()}-{threading.get_native_id()}"
    return ""
