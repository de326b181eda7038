# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a guest's kernel log fails a run, and what does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openbach_run.engine.contract import COMPLAINED, Outcome
from openbach_run.engine.virtual.outcome import outcome_of

USUAL = """\
Core dump limits :
Checking that seccomp filters can be installed...OK
[    0.000000] epollctl add err fd 7, Operation not permitted
[    0.000000] 0.00 BogoMIPS (lpj=1)
[    4.100000] TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:5201. Sending cookies.
[    4.200000] debugging: no WARNING: and no BUG: at the beginning of the text
WARNING: what a program prints
[   24.570000] reboot: Power down
"""
TROUBLE = [
    "WARNING: net/ipv4/tcp_input.c:3600 at tcp_fastretrans_alert+0x1a5/0x9b0, CPU#0: swapper/0",
    "WARNING: CPU: 0 PID: 0 at net/ipv4/tcp_output.c:100 tcp_write_xmit+0x1/0x2",
    "BUG: unable to handle page fault for address: 0000000000000010",
    "BUG: KASAN: slab-use-after-free in tcp_ack+0x1/0x2",
    "Oops: divide error: 0000 [#1] SMP",
    "Call Trace:",
    "refcount_t: underflow; use-after-free.",
    "INFO: task curl:77 blocked for more than 122 seconds.",
    "INFO: rcu_sched detected stalls on CPUs/tasks:",
    "kernel BUG at net/core/skbuff.c:200!",
    "UBSAN: shift-out-of-bounds in net/ipv4/tcp_bbr2.c:600:1",
    "unregister_netdevice: waiting for wg0 to become free. Usage count = 2",
    "Kernel panic - not syncing: Fatal exception in interrupt",
]


def outcome(run_dir: Path, console: str, status: str = "Finished Ok") -> Outcome:
    failed = [{"function": 3, "error": "no such host"}] if status != "Finished Ok" else []
    (run_dir / "console.log").write_text(console)
    (run_dir / "result.json").write_text(
        json.dumps({"status": status, "virtual_s": 24.5, "failed": failed})
    )
    return outcome_of(run_dir, wall_s=1.0, capture_hash="ab", ended_why=None, exit_code=0)


def test_a_kernel_without_complaints_fails_nothing(tmp_path: Path) -> None:
    assert outcome(tmp_path, USUAL) == Outcome("Finished Ok", 24.5, 1.0, "ab", None)


@pytest.mark.parametrize("line", TROUBLE)
def test_a_run_whose_kernel_complained_has_failed(tmp_path: Path, line: str) -> None:
    told = outcome(tmp_path, f"{USUAL}[   24.580000] {line}\n[   24.580000] Modules linked in:\n")
    assert (told.status, told.error) == (COMPLAINED, f"the guest's kernel complained: {line}")


def test_a_run_out_of_memory_says_so_and_not_where_the_kernel_noticed(tmp_path: Path) -> None:
    killed = (
        "Out of memory: Killed process 21 (python3) total-vm:507784kB, anon-rss:486772kB, UID:0"
    )
    noticed = (
        "[    7.000000] python3 invoked oom-killer: gfp_mask=0x140cca, order=0\n[    7.000000] Call"
        " Trace:\n"
    )
    told = outcome(tmp_path, f"{USUAL}{noticed}[    7.000000] {killed}\n")
    assert told.error == f"the guest's kernel complained: {killed}"


def test_a_failed_run_tells_both_reasons(tmp_path: Path) -> None:
    told = outcome(tmp_path, f"[    1.000000] {TROUBLE[0]}\n", status="Finished Ko")
    assert told.status == COMPLAINED
    assert told.error == f"the guest's kernel complained: {TROUBLE[0]}\nfunction 3: no such host"
