# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU time of one run by cause: `python bench/budget.py geo vpn=none cc=cubic`.

The arguments are a scenario and its settings. perf (Debian's linux-perf) samples all CPUs, and the
samples of the command as typed and of all processes below it count: its guest, and the host's
kernel on its behalf. (Of a command alone perf would sample with a counter that it switches with
every process.) A sample is counted for the first cause below that its program, its place in the
guest's kernel or in the guest's memory (its programs), or a function of the host's kernel on its
stack belongs to. The table is in milliseconds of CPU; its sum is that of the samples, and the last
line has what the host's kernel accounted to the command without perf, the median of some runs.
"""

from __future__ import annotations

import argparse
import bisect
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Container, Mapping
from pathlib import Path

from bench import ENVIRONMENT
from openbach_run.engine.virtual.kernel import ensure_kernel
from openbach_run.paths import cache_directory

REPOSITORY = Path(__file__).resolve().parents[1]
FREQUENCY_HZ = 1000
REPEATS = 3

SWITCH = "calls of the guest's kernel, and switches between programs"
SIGNALS = "signals by which a program's fault arrives, or a call that is not replaced"
PAGES = "copying pages for a fork"
MAPPING = "mapping pages into programs"
STARTING = "starting and ending processes"
FILES = "files of the guest (hostfs)"
MEMORY = "first use of memory"
CAPTURE = "capture"
COMMAND = "the command: start, plan, records, tables"
HOST_OTHER = "the host's kernel, other"

GUEST_KERNEL = [
    ("main", "the guest's kernel: boot"),
    ("time_travel_update_time", "the guest's kernel: processes, system calls, memory"),
    ("crypto_alloc_base", "crypto"),
    ("wg_xmit", "packets: links, tunnels"),
    ("devm_alloc_etherdev_mqs", "packets: sockets, TCP/IP, queues"),
    ("malloc", "the guest's kernel: processes, system calls, memory"),
]
"""The parts of the guest's kernel by their first functions: it is linked folder after folder."""
IN_GUEST_KERNEL = [
    (r"capture_packet|put_interface|skb_copy_bits", CAPTURE),
    (r"chacha|poly1305|aes|blake2s|sha256|curve25519", "crypto"),
    (
        r"direct_call|called$|go_on$|stopped$|run_in_place|userspace$|syscall$|get_stub|get_regs|show_clocks|um_tlb_sync|update_pte",
        SWITCH,
    ),
    (r"hostfs_", FILES),
    (r"memcpy|memset", "the guest's kernel: copying"),
]
HOST = {
    "linux": [
        (r"vmsplice|pipe_write|fifo_open", CAPTURE),
        (r"futex", SWITCH),
        (r"pwrite64", PAGES),
        (r"x64_sys_mmap|ksys_mmap|munmap", MAPPING),
        (
            r"do_pread|ksys_read|x64_sys_pread64|statx|faccessat|openat|getdents|x64_sys_l?seek|vfs_write|readlink|unlink",
            FILES,
        ),
        (r"clone|exec|wait4|exit_mmap|do_exit|exit_group|socketpair|x64_sys_close|pidfd", STARTING),
        (r"page_fault", MEMORY),
        (r"seccomp|signal|sigreturn|force_sig", SIGNALS),
        (r"schedule|finish_task_switch", SWITCH),
    ],
    "python": [(r"pipe_read", CAPTURE)],
}
"""Of a program, what is on the stack in the host's kernel."""


def descendants(events: str, root: int) -> set[int]:
    """Return the process ids below a process, from the text of `perf script`.

    `events` is what `perf script --show-task-events` prints, in the order of time.
    """
    found = {root}
    for child, parent in re.findall(r"PERF_RECORD_FORK\((\d+):\d+\):\((\d+):\d+\)", events):
        if int(parent) in found:
            found.add(int(child))
    return found - {root}


def causes(samples: str, processes: Container[int], addresses: Mapping[str, int]) -> Counter[str]:
    """Return the number of samples of some processes by cause.

    `samples` is what `perf script -F comm,pid,ip,sym,dso` prints, `addresses` those of the guest
    kernel's functions.
    """
    found: Counter[str] = Counter()
    parts = sorted((addresses[function], part) for function, part in GUEST_KERNEL)
    starts = [address for address, _ in parts]
    for sample in filter(None, map(str.strip, samples.split("\n\n"))):
        head, *stack = sample.splitlines()
        program, process = head.rsplit(maxsplit=1)
        if not stack or int(process) not in processes:
            continue
        name, place = re.match(r"\s*[0-9a-f]+ (.*) \((.*)\)$", stack[0]).groups()  # type: ignore[union-attr]
        if place == "[kernel.kallsyms]":
            functions = " ".join(stack)
            rules = HOST.get(program, [])
            other = HOST_OTHER if program == "linux" else COMMAND
            cause = next(
                (cause for pattern, cause in rules if re.search(pattern, functions)), other
            )
        elif program == "linux" and name in addresses:
            part = parts[max(bisect.bisect(starts, addresses[name]) - 1, 0)][1]
            cause = next(
                (cause for pattern, cause in IN_GUEST_KERNEL if re.match(pattern, name)), part
            )
        elif program == "linux":
            cause = "the guest's programs themselves"
        else:
            cause = "hash of the capture" if "blake3" in place else COMMAND
        found[cause] += 1
    return found


def addresses_of(executable: Path) -> dict[str, int]:
    """Return the addresses of a program's functions, by name."""
    lines = subprocess.run(
        ["nm", str(executable)], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return {
        name: int(address, 16) for address, kind, name in map(str.split, lines) if kind in "tTwW"
    }


def cpu_s() -> float:
    """Return the CPU time in s of all ended children of this process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Print the table of a run, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("arguments", nargs="+", help="a scenario and its settings")
    arguments = parser.parse_args().arguments
    if not shutil.which("perf"):
        print("budget: perf is missing: sudo apt-get install linux-perf", file=sys.stderr)
        return 2
    executable = ensure_kernel(
        cache_directory(), REPOSITORY / "kernel", lambda text, part: None
    ).executable
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "openbach_run", *arguments]
        command += ["--rerun", "--quiet", "--workers", "1", "--results", f"{folder}/results"]
        plain_s = []
        for _ in range(REPEATS):
            before_s = cpu_s()
            subprocess.run(
                command, check=True, cwd=REPOSITORY, env=ENVIRONMENT, stdout=subprocess.DEVNULL
            )
            plain_s.append(cpu_s() - before_s)
        record = [
            "perf",
            "record",
            "-q",
            "-a",
            "-e",
            "cpu-clock",
            "-F",
            str(FREQUENCY_HZ),
            "-g",
            "-o",
            f"{folder}/perf",
        ]
        perf = subprocess.Popen(
            [*record, "--", *command], cwd=REPOSITORY, env=ENVIRONMENT, stdout=subprocess.DEVNULL
        )
        assert perf.wait() == 0
        script = ["perf", "script", "-i", f"{folder}/perf", "-F", "comm,pid,ip,sym,dso"]
        samples = subprocess.run(script, check=True, capture_output=True, text=True).stdout
        events = [*script, "--show-task-events"]
        processes = descendants(
            subprocess.run(events, check=True, capture_output=True, text=True).stdout, perf.pid
        )
    found = causes(samples, processes, addresses_of(executable))
    total_ms = sum(found.values()) * 1000 / FREQUENCY_HZ
    print(f"| {'cause':60} | CPU ms | share |\n|{'-' * 62}|-------:|------:|")
    for cause, count in found.most_common():
        milliseconds = count * 1000 / FREQUENCY_HZ
        print(f"| {cause:60} | {milliseconds:6.0f} | {milliseconds / total_ms:5.1%} |")
    print(f"| {'sum':60} | {total_ms:6.0f} |       |")
    print(
        f"| {'accounted to the command without perf':60} | {statistics.median(plain_s) * 1000:6.0f}"
        " |       |"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
