# SPDX-License-Identifier: GPL-3.0-or-later
"""Python jobs without starting Python: a fork of the director runs the script.

A start of the interpreter with the usual imports costs 60 ms of wall time in the guest, and a
scenario has two dozen jobs: more than a 30 MB transfer. A fork copies the director's memory, so the
director has only what most jobs need. The script sees what `python3 script argument…` would show
it: its environment, its command line, a `__main__` of its own, site-packages, exit code and
traceback. What it imports may be there already.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType

PYTHON = "/opt/openbach/virtualenv/bin/python3"
IMPORTED_BEFOREHAND = (
    "argparse", "contextlib", "json", "pathlib", "re", "select", "shutil", "signal", "socket",
    "struct", "subprocess", "syslog", "tempfile", "time", "typing",
)  # fmt: skip
LAST_DESCRIPTOR = 1024
folders_of_jobs: set[str] = set()
"""Folders of jobs that run as threads of the director: it imports their modules from there, too."""


def prepare(collect_agent_directory: str) -> None:
    """Import what most jobs import, once for all of them."""
    import site

    site.main()
    sys.path.insert(0, collect_agent_directory)
    for name in (*IMPORTED_BEFOREHAND, "collect_agent"):
        importlib.import_module(name)
    _use_argparse()
    gc.freeze()


def _use_argparse() -> None:
    """Use argparse as most jobs do.

    What it compiles and looks up at its first use is there for all of them.
    """
    import argparse

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("positional", choices=["value"])
    parser.add_argument("--option", type=int, default=0, help="a number (default: %(default)s)")
    parser.add_subparsers().add_parser("command")
    parser.parse_args(["value", "--option", "1", "command"])


def runs(command_line: Sequence[str]) -> bool:
    """Return whether a command line is a Python script that can be run this way."""
    return len(command_line) > 1 and command_line[0] == PYTHON and os.path.isfile(command_line[1])


def start(command_line: Sequence[str], environment: dict[str, str]) -> int:
    """Run the script in a session of its own; return its process id.

    Its stdout and stderr are appended to files of the current directory. It is in the current
    namespaces.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _become_program(command_line, environment)
        code = _run(command_line[1])
    finally:
        os._exit(code)


def _become_program(command_line: Sequence[str], environment: dict[str, str]) -> None:
    os.setsid()
    os.closerange(3, LAST_DESCRIPTOR)
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, (name, flags) in enumerate(
        (("/dev/null", os.O_RDONLY), ("stdout", append), ("stderr", append))
    ):
        opened = os.open(name, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(command_line[1:])
    # The director has its own copy of what jobs share, and modules of jobs that are its threads;
    # the job is to import those beside it.
    for name, module in [*sys.modules.items()]:
        folder = os.path.dirname(getattr(module, "__file__", None) or "")
        if folder in folders_of_jobs or name.partition(".")[0] == "openbach_jobs":
            del sys.modules[name]
    sys.path.insert(0, os.path.dirname(os.path.realpath(command_line[1])))


def _run(script: str) -> int:
    """Execute the script as `__main__`; return its exit code."""
    module = ModuleType("__main__")
    module.__file__ = script
    sys.modules["__main__"] = module
    try:
        return run(code_of(script), module)
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()


def code_of(script: str) -> CodeType:
    """Return what Python has compiled of a script."""
    code = SourceFileLoader("__main__", script).get_code("__main__")
    assert code is not None
    return code


def run(code: CodeType, module: ModuleType) -> int:
    """Execute a script in its module, and return its exit code. What ends a thread is raised."""
    try:
        exec(code, module.__dict__)
        return 0
    except SystemExit as end:
        return _exit_code(end)
    except Exception:
        import traceback

        traceback.print_exc()
        return 1


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    print(end.code, file=sys.stderr)
    return 1
