# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a run in words for a person, from what the guest left behind."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from types import NoneType
from typing import Any

from openbach_run.engine.contract import COMPLAINED, Outcome
from openbach_run.results import run_files
from openbach_run.results.record import DAMAGED, LONGEST_S, failures_in_words
from openbach_run.results.run_files import DamagedRecord

COMPLAINT = re.compile(
    r"\[ *\d+\.\d+\] (((WARNING|BUG|UBSAN|Oops|Call Trace|refcount_t):|INFO: (rcu|task)|Kernel"
    r" panic|kernel BUG at"
    r"|general protection fault|unregister_netdevice: waiting for|Out of memory).*)"
)
"""A line of the kernel's log after which its results are not to be trusted."""
OUT_OF_MEMORY = "Out of memory"
"""The beginning of the line that says what was killed; traces of the kernel stand before it."""
STATUSES = ("Finished Ok", "Finished Ko", "Stopped")
FAILED = {"function": (int, NoneType), "error": str}
FAILED_JOB = {
    "job": str, "entity": str, "status": str, "exit_code": (int, NoneType), "last_lines": list,
}  # fmt: skip
"""Fields of result.json's `failed`."""
CONSOLE_LINES = 15


def outcome_of(
    run_dir: Path, wall_s: float, capture_hash: str, ended_why: str | None, exit_code: int
) -> Outcome:
    """Return how a run ended, from what its guest has left.

    `ended_why` says why the engine has ended the guest, None if it ended by itself.
    """
    try:
        result = _result(run_dir)
        complaint = _kernel_complaint(run_dir)
    except DamagedRecord as damage:
        return Outcome(
            DAMAGED,
            0.0,
            wall_s,
            capture_hash,
            f"the guest left {run_files.within(damage, run_dir)}",
        )
    # Without a result the guest has crashed or was ended; its console says more than an exit code.
    if result is None or ended_why:
        why = ended_why or f"ended before the scenario did ({how_ended(exit_code)})"
        tail = "\n".join(run_files.tail(run_dir, "console.log", CONSOLE_LINES))
        return Outcome(
            "Guest Lost",
            0.0,
            wall_s,
            capture_hash,
            f"the guest {why}; its console's last lines:\n{tail}",
        )
    status, error = (
        result["status"],
        None
        if result["status"] == "Finished Ok"
        else failures_in_words(result["failed"]) or result["status"],
    )
    if complaint:
        status, error = (
            COMPLAINED,
            "\n".join([f"the guest's kernel complained: {complaint}", *([error] if error else [])]),
        )
    return Outcome(status, result["virtual_s"], wall_s, capture_hash, error)


def how_ended(exit_code: int) -> str:
    """An exit code as Popen has it, in words."""
    return (
        f"signal {signal.Signals(-exit_code).name}" if exit_code < 0 else f"exit code {exit_code}"
    )


def _result(run_dir: Path) -> dict[str, Any] | None:
    """The content of result.json; None if the guest came to no end of its own.

    Raises DamagedRecord.
    """
    try:
        if not run_files.content(run_dir, "result.json").rstrip().endswith(b"}"):
            return None  # it was killed as it wrote it
        result: dict[str, Any] = run_files.document(run_dir, "result.json")
    except FileNotFoundError:
        return None
    wrong = run_files.fields(result, {"status": str, "virtual_s": float, "failed": list})
    if wrong is None and result["status"] not in STATUSES:
        wrong = (
            f'"status" is {run_files.short(result["status"])}; one of {", ".join(STATUSES)} was'
            " expected"
        )
    if wrong is None and not 0 <= result["virtual_s"] <= LONGEST_S:
        wrong = f'"virtual_s" is {result["virtual_s"]}; 0 to {LONGEST_S} was expected'
    for failed in [] if wrong else result["failed"]:
        wrong = wrong or run_files.fields(
            failed, FAILED_JOB if isinstance(failed, dict) and "job" in failed else FAILED
        )
    if wrong:
        raise DamagedRecord(f"{run_dir / 'result.json'}: {wrong}")
    return result


def _kernel_complaint(run_dir: Path) -> str | None:
    """Return the first line of the guest's kernel log that tells of trouble, without its time.

    If the guest ran out of memory, it is the line that says so. Raises DamagedRecord.
    """
    try:
        lines = run_files.content(run_dir, "console.log").decode(errors="replace").splitlines()
    except FileNotFoundError:
        raise DamagedRecord(f"{run_dir / 'console.log'}: no such file") from None
    complaints = [match[1] for match in map(COMPLAINT.match, lines) if match]
    # Other complaints may come before it, of which the lack of memory is the cause.
    for complaint in complaints:
        if complaint.startswith(OUT_OF_MEMORY):
            return complaint
    return complaints[0] if complaints else None
