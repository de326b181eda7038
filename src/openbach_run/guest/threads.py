# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs as threads of the director, in place of processes: a fork would copy all of its memory.

A job's program that has the name RUNS_AS_THREAD is started so. It has what a process has of its
own, as far as the kernel gives it to a thread: network and mount namespace, directory, mask of
signals. Environment, command line and streams are Python's, and change hands. One of all threads
has its turn, the director's among them, until it waits for something: so no job sees what is
another's. An exception ends a job, not the director. What needs more says so
(`openbach_jobs.command.need_process`) and begins anew as a process.

All such jobs share the director's `openbach_jobs`; modules beside their programs have names of
their own.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType
from typing import Any

import openbach_jobs
from openbach_jobs.command import NeedsProcess
from openbach_run.guest import warm

DECLARED = "RUNS_AS_THREAD"
CLONE_FS = 0x200  # linux/sched.h
ARENAS_MAX = -8  # M_ARENA_MAX of malloc.h
STACK_BYTES = 1 << 20
WAITING_FUNCTIONS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (signal, ("sigwait", "sigtimedwait")),
    (time, ("sleep",)),
    (select, ("select",)),
    (subprocess.Popen, ("wait", "communicate")),
    (socket.socket, ("accept", "connect", "recv", "recv_into", "recvmsg")),
)
"""Functions of the standard library that wait: another thread has its turn meanwhile."""

libc = ctypes.CDLL(None, use_errno=True)
_turn = threading.Lock()
_threads: dict[int, Thread] = {}
"""Threads of the director and of jobs that have not ended, by their identity."""
_programs: dict[str, CodeType | None] = {}
started: dict[int, JobThread] = {}
"""Jobs by the descriptor that becomes readable when one ends."""


class Thread:
    """A thread, and what is its own while it has its turn."""

    def __init__(self, argv: list[str], environment: dict[bytes, bytes], path: list[str]) -> None:
        self.argv, self.environment, self.path = argv, environment, path
        self.stdout, self.stderr = sys.stdout, sys.stderr
        self.module = sys.modules["__main__"]
        self.has_turn = True
        self.code: int | None = None

    def take_turn(self) -> None:
        """Wait for the turn, and put in place what is this thread's."""
        _turn.acquire()
        if self.code is not None:  # as in a process that has ended, nothing goes on
            _turn.release()
            threading.Event().wait()
        self.has_turn = True
        sys.argv, sys.path[:], sys.modules["__main__"] = self.argv, self.path, self.module
        sys.stdout, sys.stderr = self.stdout, self.stderr
        os.environ._data = self.environment  # type: ignore[attr-defined]

    def give_turn(self) -> None:
        """Let another thread have its turn."""
        self.has_turn = False
        _turn.release()


class JobThread(Thread):
    """A job that runs in a thread. It has ended once `code` is known, its exit code."""

    def __init__(
        self, command_line: Sequence[str], environment: dict[str, str], directory: str
    ) -> None:
        """Start it in the present namespaces and directory; return when it waits or has ended."""
        argv, folder = list(command_line[1:]), os.path.dirname(os.path.realpath(command_line[1]))
        own = {name.encode(): value.encode() for name, value in environment.items()}
        super().__init__(argv, own, [folder, *sys.path])
        self.stdout = open(f"{directory}/stdout", "a")
        self.stderr = open(f"{directory}/stderr", "a", buffering=1)
        self.module = ModuleType("__main__")
        self.module.__file__ = argv[0]
        self.has_turn = self.needs_process = False
        self.blocked: set[int] = set()
        self.fd = os.eventfd(0, os.EFD_CLOEXEC)
        started[self.fd] = self
        self._waits = threading.Semaphore(0)
        """Semaphore that is up when the job has its first wait."""
        director = _threads[threading.get_ident()]
        thread = threading.Thread(target=self._main, daemon=True)
        thread.start()
        assert thread.ident and thread.native_id
        self.ident, self.tid = thread.ident, thread.native_id
        director.give_turn()
        self._waits.acquire()
        director.take_turn()

    def give_turn(self) -> None:
        """Let another thread have its turn, the director after the first wait."""
        super().give_turn()
        self._waits.release()

    def send(self, number: int) -> None:
        """Send a signal, as to a process: what does not block it ends at once."""
        if self.code is None and number in self.blocked - {signal.SIGKILL}:
            signal.pthread_kill(self.ident, number)
        elif self.code is None:
            self._end(-number)

    def _end(self, code: int) -> None:
        self.code = code
        os.eventfd_write(self.fd, 1)

    def _main(self) -> None:
        libc.unshare(CLONE_FS)
        _threads[threading.get_ident()] = self
        self.take_turn()
        try:
            code = warm.run(_programs[self.argv[0]], self.module)  # type: ignore[arg-type]
        except NeedsProcess:
            code, self.needs_process = 0, True
        except BaseException:
            code = 1
        self.module.__dict__.clear()
        self.stdout.close()
        self.stderr.close()
        if self.code is None:
            self._end(code)
        del _threads[threading.get_ident()]
        self.give_turn()


def takes(command_line: Sequence[str]) -> bool:
    """Return whether the program of a command line declares that it runs in a thread."""
    if not _threads or not warm.runs(command_line):
        return False
    script = command_line[1]
    if script not in _programs:
        code = warm.code_of(script)
        _programs[script] = code if DECLARED in code.co_names and _joins(script) else None
    return _programs[script] is not None


def _joins(script: str) -> bool:
    """Return whether no module beside a program is called like one that is loaded.

    What it has of openbach_jobs is then found, too.
    """
    folder = os.path.dirname(os.path.realpath(script))
    openbach_jobs.__path__.append(f"{folder}/openbach_jobs")
    warm.folders_of_jobs.add(folder)
    return not any(name.endswith(".py") and name[:-3] in sys.modules for name in os.listdir(folder))


def prepare() -> None:
    """Let jobs run as threads of this one, the director, from here on."""
    libc.mallopt(ARENAS_MAX, 1)
    threading.stack_size(STACK_BYTES)
    _threads[threading.get_ident()] = Thread(sys.argv, os.environ._data, [*sys.path])  # type: ignore[attr-defined]
    _turn.acquire()
    os.register_at_fork(after_in_child=_threads.clear)
    for owner, names in WAITING_FUNCTIONS:
        for name in names:
            setattr(owner, name, with_turn_given(getattr(owner, name)))
    signal.pthread_sigmask = _told_of_mask(signal.pthread_sigmask)
    programs: Any = subprocess.Popen
    programs.__init__ = _with_own_streams(programs.__init__)


def with_turn_given(wait: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that waits, as one in which another thread has its turn meanwhile."""

    def waiting(*words: Any, **options: Any) -> Any:
        here = _threads.get(threading.get_ident())
        if here is None or not here.has_turn:
            return wait(*words, **options)
        here.give_turn()
        try:
            return wait(*words, **options)
        finally:
            here.take_turn()

    return waiting


def _told_of_mask(mask: Callable[..., Any]) -> Callable[..., Any]:
    def masked(how: int, signals: Any) -> Any:
        before = mask(how, signals)
        if isinstance(here := _threads.get(threading.get_ident()), JobThread):
            here.blocked = mask(signal.SIG_BLOCK, ())
        return before

    return masked


def _with_own_streams(start: Callable[..., None]) -> Callable[..., None]:
    def started(program: Any, words: Any, **options: Any) -> None:
        if isinstance(here := _threads.get(threading.get_ident()), JobThread):
            own = {"stdin": subprocess.DEVNULL, "stdout": here.stdout, "stderr": here.stderr}
            for name, value in {**own, "env": os.environ}.items():
                if options.get(name) is None:
                    options[name] = value
        start(program, words, **options)

    return started
