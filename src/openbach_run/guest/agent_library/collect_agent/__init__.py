# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH's collect_agent for jobs in the guest: the same functions, without a collector.

Statistics become lines of the file OPENBACH_STATISTICS in the form in which a collector gets them;
logs go to stderr, which the engine keeps. A real agent has its own collect_agent and never sees
this one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import syslog
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

FILES = "/run/openbach/files"
STORAGE, BROADCAST = 1, 2
MS_OF_1970 = 365 * 24 * 3600 * 1000
INSTANCES = ("job_instance_id", "scenario_instance_id", "owner_scenario_instance_id")
LEVELS = ("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug")
PLAIN = (type(None), bool, int, float, str, list, tuple, dict)


def connect(config_file: str) -> bool:
    """Do nothing: there is no agent to connect to."""
    return True


def register_collect(
    config_file: str,
    log_option: int = syslog.LOG_PID,
    log_facility: int = syslog.LOG_USER,
    new: bool = False,
) -> bool:
    """Return True: there is no agent that could refuse the job."""
    return True


def send_log(priority: int, message: str) -> None:
    """Write a line on stderr: `<level> message`."""
    print(f"{LEVELS[priority]} {message}", file=sys.stderr, flush=True)


def send_stat(
    timestamp: int,
    suffix: str | None = None,
    metadatas: dict[str, Any] | None = None,
    **statistics: Any,
) -> str:
    """Keep statistics taken at `timestamp` (ms).

    ValueError for a value that JSON cannot hold; "OK" or "KO <why>".
    """
    if unknown := [name for name, value in statistics.items() if not isinstance(value, PLAIN)]:
        raise ValueError(f"statistics of a type that cannot be sent: {', '.join(unknown)}")
    return _keep(timestamp, suffix, metadatas, statistics, is_file=False)


def store_files(
    timestamp: int,
    suffix: str | None = None,
    copy: bool = True,
    metadatas: dict[str, Any] | None = None,
    **filepaths: str,
) -> str:
    """Keep files: copy them to the record, and their paths as statistics.

    RuntimeError if a copy fails.
    """
    kept = {}
    for name, path in filepaths.items():
        kept[name] = path
        if copy:
            folder = f"{FILES}/{os.environ['JOB_NAME']}/{os.environ['JOB_INSTANCE_ID']}/{timestamp}"
            try:
                os.makedirs(folder, exist_ok=True)
                kept[name] = shutil.copy(path, folder)
            except OSError as error:
                raise RuntimeError(f"storing {path}: {error}") from error
    return _keep(timestamp, suffix, metadatas, kept, is_file=True)


def _keep(
    timestamp: int,
    suffix: str | None,
    metadatas: dict[str, Any] | None,
    values: dict[str, Any],
    *,
    is_file: bool,
) -> str:
    if timestamp < MS_OF_1970:
        return f"KO: the timestamp {timestamp} is not in milliseconds"
    if not (destination := os.environ.get("OPENBACH_STATISTICS")):
        return "KO: OPENBACH_STATISTICS does not name a file"
    metadata = {
        "time": timestamp,
        "is_file": is_file,
        "job_name": os.environ.get("JOB_NAME"),
        "agent_name": os.environ.get("OPENBACH_AGENT_NAME"),
        **{name: int(os.environ.get(name.upper(), "0")) for name in INSTANCES},
        **({} if suffix is None else {"suffix": suffix}),
        "flag": STORAGE | BROADCAST,
        **(metadatas or {}),
    }
    line = json.dumps({**values, "_metadata": metadata}) + "\n"
    file = os.open(destination, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())  # one write, so that lines of several jobs never mix
    finally:
        os.close(file)
    return "OK"


def now() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def wait_for_signal(handler: Callable[..., Any] | None = None) -> None:
    """Block until SIGTERM or SIGINT comes, then call `handler(signal number, None)` if given."""
    awaited = {signal.SIGTERM, signal.SIGINT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)  # one that comes now is not missed
    number = signal.sigwait(awaited)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if handler:
        handler(number, None)


@contextmanager
def use_configuration(filepath: str) -> Iterator[None]:
    """Log what goes wrong in the job's work, and end the job with a non-zero exit code."""
    try:
        yield
    except SystemExit as end:
        if end.code not in (None, 0):
            send_log(syslog.LOG_CRIT, f"the job ended with {end.code}")
        raise
    except Exception:
        import traceback

        send_log(syslog.LOG_CRIT, traceback.format_exc())
        raise


def change_config(storage: bool = True, broadcast: bool = True) -> str:
    """Return OK: every statistic goes to the file, there is no service and nothing to reload."""
    return "OK"


reload_stat = remove_stat = reload_all_stats = restart_rstats = change_config
