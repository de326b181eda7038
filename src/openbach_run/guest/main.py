# SPDX-License-Identifier: GPL-3.0-or-later
"""A run, inside the guest: reads run.json, builds the hosts, runs the scenario, leaves results.

It leaves, in RUN_DIR, events.jsonl (written as things happen), commands.sh (what built the
platform, ready to paste), jobs/<instance>_<job>_<entity>/{stdout,stderr}, jobs.jsonl (what became
of each job), and result.json, whatever goes wrong. Times are seconds since the run began: virtual
ones, unless the engine says that the clock is real.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from openbach_run.guest.agent import GuestAgents
    from openbach_run.guest.director import Director
    from openbach_run.guest.terminal import Terminals
    from openbach_run.guest.typed import Commands

RUN_DIRECTORY = "/run/openbach"
STEP = "measured_command"
"""Name of the job whose commands share a directory on all hosts, and know the hosts' names."""
LINK_FILES = "/run/link_files"
TCP_MEMORY = "/proc/sys/net/ipv4/tcp_mem"
HOSTS_MEMORY = 8  # memory of a host, in that of the guest
MANY_HOSTS = 100
DESCRIPTORS = 1 << 16
"""Limit of the director's open files with more hosts than MANY_HOSTS: it has four of each host."""
BEGIN_NS = 10**9
"""Begin of a run by CLOCK_MONOTONIC: a second after its kernel, however long its preparation took.
What differs in the preparation (a module to load, an import) then moves no packet. A run whose
kernel is older begins at once."""
SECOND_NS = 10**9
HOST_KERNEL = "native"
"""Name of the engine whose kernel is the host's, where a run changes only its own namespaces."""
MODULES = "/opt/openbach-run/modules"
CPU_MODEL = "cpu_model"
"""Module of runs that use a profile of a CPU."""
FINIT_MODULE = 313  # the number of the system call
READ_ALL, LOG_BYTES = 3, 1 << 18  # SYSLOG_ACTION_READ_ALL


class ModuleRefused(Exception):
    """Refusal of a module by the kernel: the text names it and has the kernel's reason."""


def main() -> int:
    """Return 0 if the scenario ended as Finished Ok, else 1."""
    began_ns = max(BEGIN_NS, time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    # Line by line, so that the engine sees progress while the run goes on.
    with open(f"{RUN_DIRECTORY}/events.jsonl", "w", buffering=1) as events:
        try:
            result = _run(events, began_ns)
        # The guest powers off after this: whatever went wrong has to be in the record.
        except BaseException as error:
            import traceback

            reason = str(error) if isinstance(error, ModuleRefused) else traceback.format_exc()
            failed = [{"function": None, "error": reason}]
            result = {"status": "Finished Ko", "failed": failed}
    began_ns = result.pop("began_ns", began_ns)
    result["virtual_s"] = max(time.clock_gettime_ns(time.CLOCK_MONOTONIC) - began_ns, 0) / 1e9
    with open(f"{RUN_DIRECTORY}/result.json", "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    return 0 if result["status"] == "Finished Ok" else 1


def _run(events: TextIO, began_ns: int) -> dict[str, Any]:
    # Imported here, so that an error in them is reported like any other.
    from openbach_run.guest import iproute, network, threads, warm  # noqa: F401
    from openbach_run.guest.agent import COMMANDS, PYTHON_PATH, GuestAgents
    from openbach_run.guest.director import Director
    from openbach_run.openbach.job import Job
    from openbach_run.openbach.values import bind
    from openbach_run.topology.hosts import Inventory

    with open(f"{RUN_DIRECTORY}/run.json") as file:
        run = json.load(file)
    # In the native engine these settings would be the host's.
    own_kernel = run["identity"]["engine"] != HOST_KERNEL
    if own_kernel:
        _prepare_kernel(run["uses"])
    # All of this takes virtual time that differs from run to run: it is done before the run begins.
    _place_link_files(run["link_files"])
    jobs = {name: Job.from_dict(job) for name, job in run["jobs"].items()}
    warm.prepare(PYTHON_PATH)
    threads.prepare()
    inventory = Inventory.from_dict(run["inventory"])
    if len(inventory.hosts) > MANY_HOSTS:
        _allow_descriptors()
    if has_steps := own_kernel and STEP in jobs:
        from openbach_run.guest.typed import SHARED, name_hosts

        network.mount("tmpfs", SHARED, "tmpfs", 0)
    if is_typed := "typed" in run:
        from openbach_run.guest.typed import JOB, make_shared, name_hosts

        jobs[JOB] = Job(JOB, "", {})
        make_shared()
    places = network.make_places(inventory)
    failures: dict[tuple[str, str], list[str]] = {}
    if is_typed or has_steps:
        name_hosts(inventory, places)
    if own_kernel and any(job.setup for job in jobs.values()):
        from openbach_run.guest.setup import set_up

        failures = set_up(run, jobs, inventory, places)
        # A playbook may take longer than the second that every run waits.
        began_ns = _begin_after(began_ns)
    # From here on every step takes the same virtual time in every run of the same specification.
    _wait_until(began_ns)
    namespaces = network.build(inventory, places, COMMANDS, own_kernel)
    if run.get("noise"):
        from openbach_run.guest.noise import switch_on

        switch_on(namespaces, run["noise"], run["seed"])
    agents = GuestAgents(namespaces, jobs, run["seed"], began_ns, run["identity"]["clock"])
    agents.has_ipv6 = any(subnet.ipv6 for subnet in inventory.networks.values())
    if is_typed:
        agents.typed = {JOB: _hand(run, agents)}
    if own_kernel:
        _let_no_module_in()
    subs, limit_s = run["sub_scenarios"], run["virtual_limit_s"]
    director = Director(agents, jobs, bind, subs, partial(_observe, events), limit_s)
    status = _direct(director, agents, run)
    _describe(director.failed, agents, failures)
    return {"status": status, "failed": director.failed, "began_ns": began_ns}


def _direct(director: Director, agents: GuestAgents, run: Mapping[str, Any]) -> str:
    """Run the scenario to its end, and write the record of its jobs; return its status."""
    try:
        status = director.run(run["scenario"], run["arguments"])
        # Jobs that were asked to stop may be in their grace period; their last lines belong to the
        # record.
        agents.close()
        for job in filter(agents.has_wrong_figures, director.job_instances):
            status = director.fail_after_its_stop(job)
    finally:
        lines = (json.dumps(agents.record(job)) + "\n" for job in director.job_instances)
        with open(f"{RUN_DIRECTORY}/jobs.jsonl", "w") as records:
            records.writelines(lines)
    return status


def _observe(events: TextIO, event: dict[str, Any]) -> None:
    """Write an event of the director to the record."""
    events.write(json.dumps(event) + "\n")


def _describe(
    failed: Sequence[dict[str, Any]],
    agents: GuestAgents,
    of_setup: Mapping[tuple[str, str], list[str]],
) -> None:
    """Add to failures of jobs their exit code, and what they and their playbook printed last."""
    for failure in failed:
        if "instance_id" in failure:
            process = agents.processes[failure["instance_id"]]
            failure["exit_code"] = process.exit_code
            before = of_setup.get((process.job.entity, process.job.job), [])
            failure["last_lines"] = [*before, *agents.last_lines(failure["instance_id"])]


def _prepare_kernel(uses: Mapping[str, Any]) -> None:
    """Give the run's own kernel its settings and modules. Raises ModuleRefused."""
    _answer_no_kernel()
    _give_tcp_memory()
    own = [CPU_MODEL] if uses.get("cpus") else []
    _load_modules([*uses.get("congestion-controls", ()), *own, *uses.get("modules", ())])


def _allow_descriptors() -> None:
    """Allow the director as many open files as many hosts need."""
    import resource  # not above: a file more to read would move packets

    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


def _hand(run: Mapping[str, Any], agents: GuestAgents) -> Commands | Terminals:
    """Return what takes the place of the scenario's measurement: commands, or terminals."""
    if run.get("terminals"):
        from openbach_run.guest.terminal import Terminals

        return Terminals(agents)
    from openbach_run.guest.typed import Commands

    return Commands(run["typed"], agents)


def _begin_after(began_ns: int) -> int:
    """Return when a run begins whose preparation has taken longer than that: at a whole second."""
    # A whole second, so that small differences of the preparation move nothing.
    now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return began_ns if now_ns < began_ns else (now_ns // SECOND_NS + 1) * SECOND_NS


def _load_modules(names: Sequence[str]) -> None:
    """Load the kernel modules of the congestion controls that have one.

    Others are built into the kernel. Raises ModuleRefused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for name in names:
        if not os.path.exists(file := f"{MODULES}/{name}.ko"):
            continue
        # Only the lines that the module adds say why it was refused.
        before = _kernel_log(libc)
        module = os.open(file, os.O_RDONLY)
        if libc.syscall(FINIT_MODULE, module, b"", 0):
            error = os.strerror(ctypes.get_errno())
            lines = _kernel_log(libc)[len(before) :]
            head = f"the kernel does not take the module of {name}: {error}; it says:"
            raise ModuleRefused("\n".join([head, *lines]))
        os.close(module)


def _answer_no_kernel() -> None:
    """Switch off the kernel's own calls of modprobe, which would take virtual time.

    The kernel calls it when it is asked for what it has not.
    """
    file = os.open("/proc/sys/kernel/modprobe", os.O_WRONLY)
    os.write(file, b"/sbin/none")
    os.close(file)


def _give_tcp_memory() -> None:
    """Let the TCP of all hosts have together what it has on one host of 4 GB.

    A kernel of 512 MB gives it a sixteenth. Under pressure of memory a receiver drops what it has
    selectively acknowledged, which hosts with kernels of their own would not do.
    """
    with open(TCP_MEMORY) as file:
        pages = [str(HOSTS_MEMORY * int(limit)) for limit in file.read().split()]
    with open(TCP_MEMORY, "w") as file:
        file.write(" ".join(pages))


def _kernel_log(libc: ctypes.CDLL) -> list[str]:
    """Return the lines of the kernel's log, without level and time."""
    log = ctypes.create_string_buffer(LOG_BYTES)
    libc.klogctl(READ_ALL, log, LOG_BYTES - 1)
    return [line.partition("] ")[2] for line in log.value.decode(errors="replace").splitlines()]


def _wait_until(time_ns: int) -> None:
    # An absolute time: a sleep for the rest would add the time since it was calculated.
    timer = os.timerfd_create(time.CLOCK_MONOTONIC)
    os.timerfd_settime_ns(timer, flags=os.TFD_TIMER_ABSTIME, initial=time_ns)
    os.read(timer, 8)
    os.close(timer)


def _let_no_module_in() -> None:
    """Let no module in from here on.

    A module is code in the host's process: the jail around that holds, but none is needed. (`open`
    would make calls that fail, and those cost time.)
    """
    file = os.open("/proc/sys/kernel/modules_disabled", os.O_WRONLY)
    os.write(file, b"1")
    os.close(file)


def _place_link_files(texts: dict[str, str]) -> None:
    """Write the link files where the values of the arguments say that they are."""
    os.makedirs(LINK_FILES, exist_ok=True)
    for name, text in texts.items():
        with open(f"{LINK_FILES}/{name}", "w") as file:
            file.write(text)
