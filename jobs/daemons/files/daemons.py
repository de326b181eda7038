# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job daemons: what the programs of this host's VPNs use.

It looks at the job's start, every interval, and at its end.

They are the processes below those of the jobs vpn (/var/run/openbach-vpn*.pid). A VPN of the kernel
has none. CPU time is that since the job's start; in virtual time a program computes without time,
so it is not measured there.

With --end another instance ends the job of this name and waits until it has ended: an order to stop
is not waited for, and the VPNs stopped beside it would close what the last look counts.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import collect_agent

from openbach_jobs import limits

CONFIGURATION = "/opt/openbach/agent/jobs/daemons/daemons_rstats_filter.conf"
PROC, RUN = Path("/proc"), Path("/var/run")
CLOCK = "OPENBACH_RUN_CLOCK"
LIMITS = {"interval_s": (0, 3600)}
END_LIMIT_S = 60
SIGNALS = {signal.SIGTERM, signal.SIGINT}
TICKS_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
USER, SYSTEM, SOFTIRQ = 0, 2, 6
"""Places of numbers in the first line of /proc/stat (proc_stat(5))."""


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--interval-s",
        type=float,
        default=0.0,
        help="seconds between two looks (0: begin and end only)",
    )
    parser.add_argument(
        "--name", help="suffix of the statistics, where several hosts have this job"
    )
    parser.add_argument(
        "--end",
        action="store_true",
        help="end the job of this name on this host, with its last look",
    )
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    return arguments


class Process(NamedTuple):
    """A process: its number, its parent's, its CPU time and its memory."""

    pid: int
    parent: int
    user_s: float
    system_s: float
    rss_bytes: int


def processes() -> Iterator[Process]:
    """Yield the processes of this machine, as /proc shows them."""
    for directory in PROC.glob("[0-9]*"):
        try:
            text = (directory / "stat").read_text()
        except OSError:  # it has ended
            continue
        # From the third field of proc_pid_stat(5) on: the second may have blanks.
        fields = text.rpartition(")")[2].split()
        user_s, system_s = (int(fields[at]) * TICKS_S for at in (11, 12))
        yield Process(
            int(directory.name), int(fields[1]), user_s, system_s, int(fields[21]) * PAGE_BYTES
        )


def below(roots: Sequence[int], every: Sequence[Process]) -> list[Process]:
    """Return the descendants of `roots`, without these."""
    children = [process for process in every if process.parent in roots]
    pids = [process.pid for process in children]
    return children + below(pids, every) if children else []


def daemons() -> list[Process]:
    """Return the processes that this host's VPN jobs have started."""
    jobs = [int(file.read_text()) for file in sorted(RUN.glob("openbach-vpn*.pid"))]
    return below(jobs, list(processes()))


def descriptors(pid: int) -> int:
    """Return how many descriptors a process has open; 0 if it has ended."""
    try:
        return len(os.listdir(PROC / str(pid) / "fd"))
    except OSError:  # it has ended
        return 0


def host_cpu_s() -> tuple[float, float, float]:
    """Return the seconds of user, system and soft interrupts of all CPUs."""
    numbers = [int(word) * TICKS_S for word in (PROC / "stat").read_text().split()[1:8]]
    return numbers[USER], numbers[SYSTEM], numbers[SOFTIRQ]


def cpu_s(used_by: Sequence[Process]) -> dict[str, float]:
    """Return the CPU seconds of these processes, and of the whole host, as statistics."""
    host = dict(zip(("host_user_s", "host_system_s", "host_softirq_s"), host_cpu_s(), strict=True))
    return {
        "user_s": sum(process.user_s for process in used_by),
        "system_s": sum(process.system_s for process in used_by),
        **host,
    }


def rss_bytes(used_by: Sequence[Process]) -> int:
    """Return the resident memory of these processes together."""
    return sum(process.rss_bytes for process in used_by)


def look(name: str | None) -> list[Process]:
    """Send what the VPNs' processes use now, and return them."""
    now = daemons()
    rss = rss_bytes(now) if now else None
    files = sum(descriptors(process.pid) for process in now) if now else None
    collect_agent.send_stat(
        collect_agent.now(), suffix=name, processes=len(now), rss_bytes=rss, descriptors=files
    )
    return now


def watch(arguments: argparse.Namespace) -> None:
    """Look at every interval until the order to end, then send the sums."""
    is_real = os.environ.get(CLOCK) != "virtual"
    first = last = look(arguments.name)
    # Those that have ended stay, as they were last seen.
    seen = {process.pid: process for process in first}
    before = cpu_s(first)
    interval_s, stopped = arguments.interval_s, None
    while not stopped:
        stopped = (
            signal.sigtimedwait(SIGNALS, interval_s) if interval_s else signal.sigwait(SIGNALS)
        )
        last = look(arguments.name)
        seen |= {process.pid: process for process in last}
    after = cpu_s([*seen.values()])
    grown_bytes = rss_bytes(last) - rss_bytes(first) if last else None
    used: dict[str, Any] = (
        {name: round(after[name] - before[name], 3) for name in before} if is_real else {}
    )
    cpu = "measured" if is_real else "not measured: virtual time"
    collect_agent.send_stat(
        collect_agent.now(), suffix=arguments.name, cpu=cpu, rss_growth_bytes=grown_bytes, **used
    )


def pid_file(name: str | None) -> Path:
    """Return the file by which the job that is to end finds the one that looks."""
    return RUN / f"openbach-daemons-{name or ''}.pid"


def end(name: str | None) -> None:
    """Tell the job of this name to have its last look, and wait until it has ended."""
    try:
        watching = os.pidfd_open(int(pid_file(name).read_text()))
    except (OSError, ValueError):
        sys.exit(
            f"daemons: no job daemons named {name or 'nothing'} runs on this host (start it before"
            " its --end)"
        )
    signal.pidfd_send_signal(watching, signal.SIGTERM)
    if not select.select([watching], [], [], END_LIMIT_S)[0]:
        sys.exit(
            f"daemons: the job daemons named {name or 'nothing'} has not ended within"
            f" {END_LIMIT_S} s"
        )


def main() -> None:
    """Run the job."""
    arguments = parse()
    if arguments.end:
        return end(arguments.name)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    own = pid_file(arguments.name)
    own.write_text(str(os.getpid()))
    try:
        watch(arguments)
    finally:
        own.unlink(missing_ok=True)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
