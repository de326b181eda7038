# SPDX-License-Identifier: GPL-3.0-or-later
"""A testbed that stays up between commands: its virtual time stands still meanwhile.

A guest that waits for its next command is stopped (SIGSTOP) at a point where no time has passed for
it, and goes on when the command is there. So the same commands have the same results, however long
somebody thinks between them.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openbach_run.campaign.executor import cpus_for
from openbach_run.engine.contract import Outcome
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.errors import InputError
from openbach_run.openbach.lines import Command, check_jobs, of_words
from openbach_run.prompt.session import InputFile, OutputReader, limits, run_directory
from openbach_run.prompt.testbed import Testbed, with_commands
from openbach_run.results.record import FINISHED

ORDERS = "orders"
"""Folder of a run's directory (guest/typed.py)."""
LOOK_S = 0.002
"""Time from one look at what the guest has told to the next, while it runs."""


class LabClosed(Exception):
    """A testbed that is not there any more; the text says why."""


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    host: str
    command: str
    returncode: int
    """Its exit code; negative: the signal that ended it."""
    stdout: str
    stderr: str
    begun_s: float
    """Time in virtual seconds into the run."""
    ended_s: float

    def __str__(self) -> str:
        return self.stdout + self.stderr

    @property
    def seconds(self) -> float:
        """Return how long it took in virtual time, to the guest's tick (10 ms)."""
        return self.ended_s - self.begun_s


@dataclass
class _Printed:
    """The output of a command so far, and when it began and ended."""

    texts: dict[int, str] = field(default_factory=lambda: {1: "", 2: ""})
    begun_s: float = 0.0
    ended_s: float = 0.0
    code: int | None = None


class Lab:
    """A testbed that is up. Close it, or use it in `with openbach_run.lab("geo") as lab`.

    It is closed at the end of the Python process, too, however that ends.
    """

    def __init__(
        self,
        testbed: Testbed,
        engine: VirtualEngine,
        spec: Mapping[str, Any],
        files: Sequence[InputFile],
    ) -> None:
        """Bring the testbed up; return when its path is up. Raises LabClosed if it is not."""
        self._testbed = testbed
        self._stack = ExitStack()
        # Also if nobody closes it; a lab in a notebook is forgotten rather than closed.
        self._finalizer = weakref.finalize(self, _end, self._stack)
        self._guest = self._stack.enter_context(_Guest(engine, spec, files))
        self._guest.until_asked()

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the guest; no process and no file of it is left."""
        self._finalizer()

    @property
    def hosts(self) -> list[str]:
        """Return the names of the hosts."""
        return list(dict.fromkeys(self._testbed.hosts.values()))

    def host(self, name: str) -> LabHost:
        """Return a host. Raises InputError."""
        (entry,) = of_words([name, "true"], self._testbed.hosts)
        assert isinstance(entry, Command)
        return LabHost(self, entry.host)

    @property
    def time_s(self) -> float:
        """Return the virtual seconds since the run began."""
        return self._guest.time_s

    def run(self, host: str, command: str) -> Ran:
        """Run a command on a host until it ends; return what became of it.

        Raises InputError for an unknown host or an empty command; LabClosed if the guest ended.
        """
        entry = self._entry(host, command)
        if entry.apart:
            raise InputError(f"{entry.line}: start() is for what goes on, without the &")
        return self._guest.result(self._guest.order(entry.as_entry()), entry)

    def start(self, host: str, command: str) -> LabCommand:
        """Start a command that goes on while others run. Raises what `run` raises."""
        entry = self._entry(host, f"{command} &")
        return LabCommand(self, entry, self._guest.order(entry.as_entry()))

    def _entry(self, host: str, command: str) -> Command:
        entries = of_words([host, command, "wait"], self._testbed.hosts)
        check_jobs(entries, self._testbed.campaign.job_names)
        assert isinstance(entries[0], Command)
        return entries[0]

    def read(self, name: str) -> bytes:
        """Return the content of a file in the directory of the commands. Raises InputError."""
        host = self.hosts[0]
        ran = self.run(host, f"cat -- {shlex.quote(name)}")
        if ran.returncode:
            raise InputError(f"{name}: {ran.stderr.strip()}")
        return ran.stdout.encode(errors="surrogateescape")


@dataclass(frozen=True)
class LabHost:
    """A host of a testbed that is up."""

    lab: Lab
    name: str

    def run(self, command: str) -> Ran:
        """Run a command here until it ends (see Lab.run)."""
        return self.lab.run(self.name, command)

    def start(self, command: str) -> LabCommand:
        """Start a command here that goes on while others run (see Lab.start)."""
        return self.lab.start(self.name, command)


@dataclass(frozen=True)
class LabCommand:
    """A command that goes on while others run."""

    lab: Lab
    entry: Command
    number: int

    def wait(self) -> Ran:
        """Wait in virtual time until all commands that were started have ended; return this one."""
        guest = self.lab._guest
        if guest.printed[self.number].code is None:
            guest.order({"wait": 1})
        return guest.result(self.number, self.entry)

    @property
    def stdout(self) -> str:
        """Return what it has printed so far."""
        return _text(self.lab._guest.printed[self.number].texts[1])


class _Guest:
    """The guest of a lab, which runs only while a command does."""

    def __init__(
        self, engine: VirtualEngine, spec: Mapping[str, Any], files: Sequence[InputFile]
    ) -> None:
        self.printed: dict[int, _Printed] = {}
        self.time_s = 0.0
        self._engine, self._spec, self._files = engine, spec, files
        self._stack = ExitStack()
        self._orders = 0
        self._wanted = -1
        """The number of the order that the guest waits for."""
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self._kernel: int | None = None

    def __enter__(self) -> _Guest:
        self._run_dir = self._stack.enter_context(run_directory(self._files))
        (self._run_dir / ORDERS).mkdir()
        self._offer(0)
        self._reader = OutputReader(self._run_dir, self._note)
        self._engine.limit_bytes, self._engine.limit_files = limits(self._run_dir)
        # Somebody thinks while the guest stands still.
        self._engine.silence_limit_s = math.inf
        # The guest ends with the thread that has started it.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._thread.is_alive():
                self._engine.stop()
                self._go_on()
            self._thread.join()
        finally:
            self._stack.close()

    def _run(self) -> None:
        try:
            whole = with_commands(self._spec, None)
            self._outcome = self._engine.run(
                whole, self._run_dir, cpus_for(1)[0], lambda event: None
            )
        except BaseException as error:
            self._error = error

    def _note(self, event: Mapping[str, Any]) -> None:
        self.time_s = event.get("t_s", self.time_s)
        if "begun" in event:
            self.printed.setdefault(event["begun"], _Printed()).begun_s = event["t_s"]
        elif "of" in event:
            self.printed[event["of"]].texts[event["stream"]] += event["text"]
        elif "ended" in event:
            self.printed[event["ended"]].ended_s = event["t_s"]
            self.printed[event["ended"]].code = event["code"]
        elif "asks" in event:
            self._wanted = event["asks"]

    def order(self, entry: Mapping[str, Any]) -> int:
        """Give the guest its next command, and let it run until it asks for one more.

        Returns the command's number. Raises LabClosed.
        """
        self._check_alive()
        number = self._orders
        self._orders += 1
        self.printed[number] = _Printed()
        self._offer(number + 1)
        (self._run_dir / ORDERS / f"{number}.json").write_text(json.dumps(entry))
        (self._run_dir / ORDERS / str(number)).chmod(0o600)
        self._go_on()
        self.until_asked()
        return number

    def _offer(self, number: int) -> None:
        """Make the file that may be executed until a command is there."""
        (self._run_dir / ORDERS / str(number)).touch(0o700)

    def until_asked(self) -> None:
        """Return when the guest waits for the next command, and stands still. Raises LabClosed."""
        while self._wanted < self._orders:
            self._thread.join(LOOK_S)
            self._reader.read()
            if not self._thread.is_alive():
                self._check_alive()
        self._kernel = self._kernel or _kernel_of(self._engine)
        self._signal(signal.SIGSTOP)

    def result(self, number: int, entry: Command) -> Ran:
        """Return a command that has ended."""
        printed = self.printed[number]
        assert printed.code is not None
        texts = (_text(printed.texts[1]), _text(printed.texts[2]))
        return Ran(entry.host, entry.text, printed.code, *texts, printed.begun_s, printed.ended_s)

    def _check_alive(self) -> None:
        if self._error is not None:
            raise self._error
        if self._outcome is not None:
            error = self._outcome.error if self._outcome.status != FINISHED else None
            raise LabClosed(error or "the testbed is closed")

    def _go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._kernel is not None:
            with suppress(ProcessLookupError):
                os.kill(self._kernel, number)


def _kernel_of(engine: VirtualEngine) -> int:
    """Return the process of the guest's kernel: the first descendant called `linux`."""
    for keeper in engine.guests:
        for pid in (keeper, *_descendants(keeper)):
            if (Path("/proc") / str(pid) / "comm").read_text().strip() == "linux":
                return pid
    raise LabClosed("the guest's kernel is not there")


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _descendants(child)


def _end(stack: ExitStack) -> None:
    stack.close()


def _text(printed: str) -> str:
    """Return what was printed, whose bytes are code points, as text."""
    return printed.encode("latin-1").decode(errors="surrogateescape")
