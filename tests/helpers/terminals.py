# SPDX-License-Identifier: GPL-3.0-or-later
"""Pseudo-terminals with an `openbach-run shell` in them, and whether its processes are there."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from helpers.guest_runs import REPOSITORY

LIMIT_S = 600


class Terminal:
    """A terminal with an `openbach-run shell` in it."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid, self.fd = pid, fd

    def until(self, text: str) -> str:
        """What it shows up to a text."""
        shown, end_s = "", time.monotonic() + LIMIT_S
        while text not in shown:
            assert time.monotonic() < end_s, f"{text!r} has not come: {shown}"
            if select.select([self.fd], [], [], 1)[0]:
                shown += os.read(self.fd, 1).decode(errors="replace")
        return shown

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def run(self, line: str, prompt: str = "pc$ ") -> str:
        """What a command shows, up to the next prompt."""
        self.type(f"{line}\n")
        self.until("\n")
        return self.until(prompt)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def code(self) -> int:
        """The exit code of the command; what it shows last is in `last`."""
        self.last = ""
        while True:
            try:
                shown = os.read(self.fd, 1 << 16)
            except OSError:  # EIO: it has ended
                shown = b""
            if not shown:
                return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self.last += shown.decode(errors="replace")


@contextmanager
def terminal(*words: str, cwd: Path, term: str = "dumb") -> Iterator[Terminal]:
    """`openbach-run shell` with these words, on a terminal of its own."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        environment = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY / "src"),
            "TERM": term,
            "TMPDIR": str(cwd),
        }
        line = [sys.executable, "-m", "openbach_run", "shell", *words]
        os.execve(sys.executable, line, environment)
    try:
        yield Terminal(pid, fd)
    finally:
        os.close(fd)


def is_alive(pid: int) -> bool:
    """Return whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
