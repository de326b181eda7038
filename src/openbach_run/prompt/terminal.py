# SPDX-License-Identifier: GPL-3.0-or-later
"""A person's terminal on a host of a testbed that keeps pace with this machine's clock."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import struct
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from openbach_run.campaign.executor import cpus_for
from openbach_run.engine.contract import Outcome
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.errors import InputError
from openbach_run.paths import cache_directory
from openbach_run.prompt.session import InputFile, limits, run_directory
from openbach_run.prompt.testbed import with_commands
from openbach_run.results import run_files

IN, OUT, TYPED, TERMINFO = "in", "out", "typed.txt", "terminfo"
"""Parts of a run's directory (guest/terminal.py)."""
LOOK_S = 0.005
"""Time from one look at what a terminal shows to the next."""
END = b"\x04"
"""Ctrl-D, which is to a terminal what the end is to a file."""
END_AGAIN_S = 0.5
"""Time from one Ctrl-D to the next, as long as the shell goes on after the end of its input."""
LONGEST_S = 30 * 24 * 3600.0
PLACES = ("~/.terminfo", "/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo")
"""Directories where a machine has what it knows of terminals."""
SHELLS = "shells"
"""Folder of the cache: a file for each testbed with terminals, which has its run's directory."""


class NoTestbed(Exception):
    """A testbed that did not come up, or is not there any more; the text says why."""


class Live:
    """A testbed that keeps pace with the clock, with terminals on its hosts."""

    def __init__(self, engine: VirtualEngine, spec: Mapping[str, Any], run_dir: Path) -> None:
        self.run_dir = run_dir
        self._engine = engine
        self._spec = {**with_commands(spec, []), "terminals": True, "virtual_limit_s": LONGEST_S}
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        # The guest ends with the thread that has started it.
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Bring it up; return when terminals can be opened. Raises NoTestbed."""
        (self.run_dir / IN).mkdir()
        _give_terminfo(self.run_dir / TERMINFO)
        self._engine.paced = True
        self._engine.limit_bytes, self._engine.limit_files = limits(self.run_dir)
        self._thread.start()
        while not (self.run_dir / OUT / "ready").exists():
            self._thread.join(LOOK_S)
            self.check()

    def _run(self) -> None:
        try:
            self._outcome = self._engine.run(
                self._spec, self.run_dir, cpus_for(1)[0], lambda event: None
            )
        except BaseException as error:
            self._error = error

    def check(self) -> None:
        """Raise NoTestbed if it is not there any more."""
        if self._error is not None:
            raise self._error
        if self._outcome is not None:
            raise NoTestbed(self._outcome.error or "the testbed is closed")

    def close(self) -> None:
        """End all terminals, and the testbed."""
        if self._thread.is_alive():
            self._engine.stop()
        self._thread.join()

    @property
    def typed(self) -> str:
        """Return what was typed in all terminals, as a script."""
        try:
            with run_files.opened(self.run_dir, TYPED) as file:
                return file.read(run_files.FILE_LIMIT_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return ""


def _give_terminfo(place: Path) -> None:
    """Copy what this machine knows of the person's terminal, so that programs there know it."""
    name = os.environ.get("TERM", "")
    if not name or "/" in name or name.startswith("."):
        return
    for folder in PLACES:
        file = Path(folder).expanduser() / name[0] / name
        if file.is_file():
            (place / name[0]).mkdir(parents=True)
            shutil.copyfile(file, place / name[0] / name)
            return


@contextmanager
def known(run_dir: Path, hosts: Sequence[str], title: str) -> Iterator[None]:
    """Let other commands of this user find the testbed, as long as the block lasts."""
    folder = cache_directory() / SHELLS
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / str(os.getpid())
    file.write_text(json.dumps({"run_dir": str(run_dir), "hosts": list(hosts), "title": title}))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def others() -> dict[int, Mapping[str, Any]]:
    """Return the testbeds with terminals that are up, by the process of their command."""
    testbeds: dict[int, Mapping[str, Any]] = {}
    for file in sorted((cache_directory() / SHELLS).glob("[0-9]*")):
        pid = int(file.name)
        with suppress(OSError, ValueError):
            about = json.loads(file.read_text())
            # The directory goes with its command, however that ends.
            if Path(about["run_dir"], OUT, "ready").exists() and Path(f"/proc/{pid}").exists():
                testbeds[pid] = about
            else:
                file.unlink(missing_ok=True)
    return testbeds


class Session:
    """A terminal on a host: what is typed goes there, what it shows comes here."""

    def __init__(self, run_dir: Path, host: str) -> None:
        self._in, self._out = run_dir / IN, run_dir / OUT
        self._key = f"{os.getpid()}-{time.monotonic_ns()}"
        self._count = self._offset = 0
        term = os.environ.get("TERM", "dumb")
        self._send("open", json.dumps({"host": host, "term": term, **window()}).encode())

    def _send(self, kind: str, content: bytes) -> None:
        """Put a file there, whole at once."""
        name = f"{self._key}.{self._count:09}.{kind}"
        self._count += 1
        place = self._in / f".{name}"
        place.write_bytes(content)
        place.rename(self._in / name)

    def typed(self, content: bytes) -> None:
        """Send what was typed."""
        self._send("typed", content)

    def resize(self) -> None:
        """Send the size of this terminal."""
        self._send("size", json.dumps(window()).encode())

    def hang_up(self) -> None:
        """Tell the shell that nobody is there any more."""
        with suppress(OSError):
            self._send("hangup", b"")

    def shown(self) -> bytes:
        """Return what the terminal has shown since the last time."""
        with suppress(FileNotFoundError), run_files.opened(self._out.parent, self._name) as file:
            file.seek(self._offset)
            added = file.read(run_files.FILE_LIMIT_BYTES)
            self._offset += len(added)
            return added
        return b""

    @property
    def _name(self) -> str:
        return f"{OUT}/{self._key}"

    @property
    def code(self) -> int | None:
        """Return the exit code of the shell; None while it is there."""
        try:
            with run_files.opened(self._out.parent, f"{self._name}.code") as file:
                return int(file.read(20))
        except FileNotFoundError:
            return None


def window() -> dict[str, int]:
    """Return the size of this terminal."""
    try:
        packed = fcntl.ioctl(sys.stdin.fileno(), termios.TIOCGWINSZ, bytes(8))
        rows, columns = struct.unpack("HHHH", packed)[:2]
    except OSError:
        rows = columns = 0
    return {"rows": rows or 24, "columns": columns or 80}


def attach(session: Session, live: Live | None, run_dir: Path) -> int:
    """Join this terminal to a session until its shell ends; return its exit code.

    Raises NoTestbed if the testbed ends before.
    """
    resized = threading.Event()
    before = signal.signal(signal.SIGWINCH, lambda number, frame: resized.set())
    stdin, open_, again_s = sys.stdin.fileno(), True, 0.0
    try:
        with _raw(stdin):
            while True:
                if open_ and select.select([stdin], [], [], LOOK_S)[0]:
                    typed = os.read(stdin, 1 << 16)
                    open_ = bool(typed)
                    session.typed(typed or END)
                    again_s = time.monotonic() + END_AGAIN_S
                elif not open_:
                    time.sleep(LOOK_S)
                    # A program that runs in the foreground takes it, or loses it when the
                    # terminal changes its mode; the shell is to have one, too.
                    if time.monotonic() > again_s:
                        session.typed(END)
                        again_s = time.monotonic() + END_AGAIN_S
                if resized.is_set():
                    resized.clear()
                    session.resize()
                # Before what is shown last is looked for, since that comes first.
                code = session.code
                if shown := session.shown():
                    sys.stdout.buffer.write(shown)
                    sys.stdout.buffer.flush()
                if code is not None:
                    return code
                if live is not None:
                    live.check()
                elif not run_dir.exists():
                    raise NoTestbed("the testbed is closed")
    finally:
        signal.signal(signal.SIGWINCH, before)
        session.hang_up()


@contextmanager
def _raw(terminal: int) -> Iterator[None]:
    """Pass every key on, as long as the block lasts; nothing is done if it is no terminal."""
    if not os.isatty(terminal):
        yield
        return
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextmanager
def live_testbed(
    engine: VirtualEngine,
    spec: Mapping[str, Any],
    files: Sequence[InputFile],
) -> Iterator[Live]:
    """Yield a testbed that is up, with the files that commands find; close it at the end."""
    with run_directory(files) as run_dir:
        live = Live(engine, spec, run_dir)
        try:
            live.start()
            yield live
        finally:
            live.close()


def chosen(pid: str | None) -> Mapping[str, Any]:
    """Return the testbed that a person joins: the one with that process, or the only one.

    Raises InputError.
    """
    testbeds = others()
    if pid is not None:
        if not pid.isdigit() or int(pid) not in testbeds:
            names = ", ".join(f"{key} ({about['title']})" for key, about in testbeds.items())
            raise InputError(f"--join {pid}: there are {names or 'none'}")
        return testbeds[int(pid)]
    if len(testbeds) != 1:
        names = ", ".join(f"--join={key} ({about['title']})" for key, about in testbeds.items())
        raise InputError(f"--join: {names or 'no testbed of `openbach-run shell` is up'}")
    return next(iter(testbeds.values()))
