# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands on the hosts of a testbed, from the start of the guest to the files that they leave."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openbach_run.campaign.executor import cpus_for
from openbach_run.engine.contract import Outcome
from openbach_run.engine.virtual.engine import GUEST_START_NS, VirtualEngine
from openbach_run.errors import InputError
from openbach_run.openbach.lines import Entry
from openbach_run.prompt.environments import copy_environment, is_environment
from openbach_run.prompt.programs import check_machine, copy_program
from openbach_run.prompt.testbed import with_commands
from openbach_run.results import run_files
from openbach_run.results.captures import CAPTURE
from openbach_run.results.run_files import DamagedRecord

OUTPUT, FILES, LEFT = "output.jsonl", "given", "left"
"""Parts of a run's directory: what commands print, the files they are given, what they leave."""
LOOK_S = 0.02
"""Time from one look at what commands have printed to the next."""
REMOVE = 'read -r _; while [ -e "$1" ]; do chmod -R u+rwx "$1"; rm -rf "$1" || sleep 0.1; done'
"""A shell's command that removes a directory once its input has ended; a guest that is being ended
may still write there."""
Told = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class InputFile:
    """A file or directory of this machine that commands find, and the name that it has there."""

    place: Path
    name: str

    @staticmethod
    def of_text(text: str) -> InputFile:
        """Return it from `PATH` or `PATH:NAME`. Raises InputError."""
        path, colon, name = text.rpartition(":")
        if not colon or Path(text).exists():
            path, name = text, Path(text).name
        place = Path(path)
        if not place.exists():
            raise InputError(f"--file {text}: no such file or directory: {path}")
        if name in ("", ".", "..") or "/" in name:
            raise InputError(f"--file {text}: {name!r} is no name of a file: PATH:NAME")
        if not (place.is_file() or place.is_dir()):
            raise InputError(f"--file {text}: neither a file nor a directory")
        if not os.access(place, os.R_OK):
            raise InputError(f"--file {text}: may not be read by this user")
        if place.is_file():
            check_machine(place)
        return InputFile(place, name)


def input_files(texts: Sequence[str]) -> list[InputFile]:
    """Return the files of several options --file. Raises InputError."""
    files = [InputFile.of_text(text) for text in texts]
    names = [file.name for file in files]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--file: two files would be called {name}: give one as PATH:NAME")
    return files


@dataclass(frozen=True)
class Ended:
    """The end of a command; negative codes are the signal that ended it."""

    number: int
    code: int
    begun_s: float
    ended_s: float


@dataclass
class Session:
    """The outcome of a run, and the ends of its commands."""

    outcome: Outcome
    ended: dict[int, Ended] = field(default_factory=dict)
    lasting: set[int] = field(default_factory=set)
    """Numbers of the commands with & that were ended with the run."""


@contextmanager
def run_directory(files: Sequence[InputFile]) -> Iterator[Path]:
    """Yield a directory for a run, with copies of the files; it is gone at the end."""
    place = Path(tempfile.mkdtemp(prefix="openbach-run-"))
    with removed_at_the_end(place):
        (place / FILES).mkdir()
        for file in files:
            _copy(file.place, place / FILES / file.name)
        yield place


@contextmanager
def removed_at_the_end(place: Path) -> Iterator[None]:
    """Remove a directory at the end of the block, or of this process, however it ends."""
    remover = subprocess.Popen(
        ["/bin/sh", "-c", REMOVE, "sh", str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # the terminal's Ctrl-C is not for it
    )
    try:
        yield
    finally:
        remover.communicate()


def put(run_dir: Path, name: str, content: bytes) -> None:
    """Write a file that commands find."""
    file = run_dir / FILES / name
    file.write_bytes(content)
    os.utime(file, ns=(GUEST_START_NS, GUEST_START_NS))


def _copy(place: Path, to: Path) -> None:
    """Copy a file or directory, without modes that would act on this machine."""
    if is_environment(place):
        copy_environment(place, to)
    elif place.is_dir():
        # Links stay links: they may name what the hosts have themselves.
        shutil.copytree(place, to, symlinks=True)
    elif not copy_program(place, to):
        shutil.copyfile(place, to)
        to.chmod(stat.S_IMODE(place.stat().st_mode) & 0o777 | 0o600)
    # A date of this machine would be another one in each run.
    for path in to.parent.rglob("*"):
        os.utime(path, ns=(GUEST_START_NS, GUEST_START_NS), follow_symlinks=False)


def run(
    engine: VirtualEngine,
    spec: Mapping[str, Any],
    entries: Sequence[Entry],
    run_dir: Path,
    tell: Told,
    cpu: int | None = None,
) -> Session:
    """Run commands in a directory of `run_directory`; `tell` is called with what they print.

    See guest/typed.py. Raises OSError, SetupError; KeyboardInterrupt ends the guest.
    """
    engine.limit_bytes, engine.limit_files = limits(run_dir)
    whole = with_commands(spec, [entry.as_entry() for entry in entries])
    reader = OutputReader(run_dir, tell)
    over = threading.Event()

    def read() -> None:
        while not over.wait(LOOK_S):
            reader.read()

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    try:
        outcome = engine.run(
            whole, run_dir, cpus_for(1)[0] if cpu is None else cpu, lambda event: None
        )
    except BaseException:
        engine.stop()
        raise
    finally:
        over.set()
        reading.join()
    reader.read()
    return Session(outcome, reader.ended, reader.lasting)


class OutputReader:
    """Reads what commands have printed since the last time."""

    def __init__(self, run_dir: Path, tell: Told) -> None:
        self.ended: dict[int, Ended] = {}
        self.lasting: set[int] = set()
        self._begun_s: dict[int, float] = {}
        self._run_dir, self._tell = run_dir, tell
        self._offset = self._lines = 0

    def read(self) -> None:
        """Read and tell it. Raises DamagedRecord."""
        try:
            with run_files.opened(self._run_dir, OUTPUT) as file:
                file.seek(self._offset)
                added = file.read(run_files.FILE_LIMIT_BYTES)
        except FileNotFoundError:
            return
        place = str(self._run_dir / OUTPUT)
        documents = run_files.checked(added, place, self._lines + 1, wrong)
        self._offset += added.rfind(b"\n") + 1
        self._lines += len(documents)
        for document in documents:
            self._note(document)
            self._tell(document)

    def _note(self, event: Mapping[str, Any]) -> None:
        if "begun" in event:
            self._begun_s[event["begun"]] = event["t_s"]
        elif "ended" in event:
            number = event["ended"]
            begun_s = self._begun_s.get(number, event["t_s"])
            self.ended[number] = Ended(number, event["code"], begun_s, event["t_s"])
        elif "lasting" in event:
            self.lasting.update(event["lasting"])


SHAPES: Sequence[Mapping[str, Any]] = (
    {"begun": int, "t_s": float},
    {"of": int, "stream": int, "text": str},
    {"ended": int, "t_s": float, "code": int},
    {"lasting": list},
    {"asks": int},
)


def wrong(document: Any) -> str | None:
    """Return what is wrong with a line of the output; None if nothing is."""
    for shape in SHAPES:
        if isinstance(document, dict) and document.keys() == shape.keys():
            fault = run_files.fields(document, shape)
            if fault is None and not document.get("text", "").isascii():
                latin = all(ord(char) < 256 for char in document["text"])
                fault = None if latin else '"text" has a character that is no byte'
            return fault
    return f"{run_files.short(document)} is no line of a command's output"


def left_files(run_dir: Path) -> list[str]:
    """Return the names of the files that commands have made or changed."""
    left = run_dir / LEFT
    files = [place for place in left.rglob("*") if not place.is_dir()]
    return sorted(str(place.relative_to(left)) for place in files)


def bring(run_dir: Path, names: Sequence[str], output: Path) -> list[str]:
    """Copy files that commands have left, and a capture, to a directory here.

    Returns a text for each that is not copied: links, devices.
    """
    refused = []
    output.mkdir(parents=True, exist_ok=True)
    for name in names:
        try:
            with run_files.opened(run_dir, f"{LEFT}/{name}") as file:
                to = output / name
                to.parent.mkdir(parents=True, exist_ok=True)
                with to.open("wb") as copy:
                    shutil.copyfileobj(file, copy)
        except DamagedRecord as damage:
            refused.append(run_files.within(damage, run_dir))
    if (run_dir / CAPTURE).is_file():
        shutil.move(run_dir / CAPTURE, output / CAPTURE)
    return refused


LEFT_BYTES, LEFT_FILES = 1 << 30, 20_000
"""The most that commands may leave beside the files that they were given."""


def limits(run_dir: Path) -> tuple[int, int]:
    """Return how many bytes, and how many files, there may be in a run's directory."""
    sizes = [place.lstat().st_size for place in (run_dir / FILES).rglob("*")]
    return LEFT_BYTES + sum(sizes), LEFT_FILES + len(sizes)
