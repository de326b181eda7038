# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of the engines of this machine: the guest tree, the code, and a run's process.

A run sees the guest tree and a snapshot of the code. Its process leaves events and files in the
run's directory, which are watched and limited. virtual/engine.py and native/engine.py say which
kernel it runs on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from openbach_run.catalog import DESCRIBED, Catalog, Uses, is_used, packages_of, wanted_by
from openbach_run.engine.contract import OnEvent, Outcome
from openbach_run.engine.virtual import lock
from openbach_run.engine.virtual.cache import NotMade, exclusively, looking_only, refuse_to_make
from openbach_run.engine.virtual.descriptors import ensure_descriptors
from openbach_run.engine.virtual.image import Image, Tree, code_identity, ensure_code
from openbach_run.engine.virtual.jail import Jail, ensure_jail
from openbach_run.engine.virtual.lock import NOT_LOCKED, Entry, PackageSet, in_words
from openbach_run.engine.virtual.modules import CPU_MODEL, DIRECTORY, module_source
from openbach_run.engine.virtual.programs import ensure_programs, host_programs, own_among
from openbach_run.errors import InputError, SetupError
from openbach_run.link_checks import MODULES
from openbach_run.paths import cache_directory
from openbach_run.progress import Progress, beside
from openbach_run.results import record, run_files
from openbach_run.results.captures import CAPTURE
from openbach_run.results.record import wrong_event
from openbach_run.results.run_files import DamagedRecord

SILENCE_LIMIT_S = 120.0
"""Wall time without an event and without 65536 packets after which a guest has hung, on a machine
with a CPU for each program; a heartbeat comes every 10 virtual seconds."""
END_LIMIT_S = 60.0
"""Time from the signal that ends a guest to the end of its last process."""
LOOK_S = 0.2
"""Time from one look at a run's events to the next."""
RUN_LIMIT_BYTES = 64 << 20
RUN_LIMIT_FILES = 20_000
"""The most that a run may write, its capture apart; one that writes more is ended."""
GUEST_MODULES = (
    "openbach_run/__init__.py", "openbach_run/errors.py", "openbach_run/guest",
    "openbach_run/openbach/__init__.py", "openbach_run/openbach/job.py",
    "openbach_run/openbach/refusals.py", "openbach_run/openbach/values.py",
    "openbach_run/topology/__init__.py", "openbach_run/topology/hosts.py",
    "openbach_jobs/__init__.py", "openbach_jobs/command.py",
)  # fmt: skip
"""Files of `src` that run in the guest beside jobs. A change to anything else makes no finished run
stale."""


class Stream(Protocol):
    """The stream that a run's process sends beside its events."""

    size_bytes: int
    """It grows as long as the guest goes on (LIFE of kernel/src/capture.c)."""

    def wrong(self) -> str | None:
        """Return why the stream is not as it should be, or None."""
        ...


class LocalEngine(ABC):
    """An engine of this machine: runs see the guest tree and a snapshot of the code.

    `prepare` first; `run` may be called from several threads, `stop` from any.
    """

    image: Image
    """The guest tree, once prepared."""
    code: Path
    """The snapshot of the code, once prepared."""

    def __init__(
        self,
        repository: Path,
        code: Mapping[str, Path],
        *,
        locked: bool = False,
        cache: Path | None = None,
        silence_limit_s: float = SILENCE_LIMIT_S,
    ) -> None:
        """Prepare no files yet; see `prepare`.

        `code` is what the guest gets to see in /opt/openbach-run (see `guest_code`); `locked`
        refuses packages other than those of debian.lock.
        """
        self._repository = repository
        self.code_folders = code
        """The folders of `code`, by place; a worker of a cluster has the same (cluster.py)."""
        self._only_locked = locked
        self.silence_limit_s = silence_limit_s
        self.limit_bytes, self.limit_files = RUN_LIMIT_BYTES, RUN_LIMIT_FILES
        """The most that a run may have in its directory, its capture apart."""
        self._cache = cache or cache_directory()
        self._jail: Jail | None = None
        self._host_programs: dict[str, Path] = {}
        self._built: dict[str, Path] = {}
        self._identities: dict[str, dict[str, str]] = {}
        self._hashes: dict[str, str] = {}
        """The hash of each folder of code, by its place in the guest."""
        self._guests: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopping = False

    @abstractmethod
    def _prepare_kernel(self, progress: Progress) -> None:
        """Make the guest tree, and the kernel with what is around it."""

    @abstractmethod
    def _modules(self, progress: Progress) -> dict[str, Path]:
        """Return the kernel's modules that the code brings, by their places in the guest."""

    @abstractmethod
    def _kernel_identity(self) -> dict[str, str]:
        """Return engine, clock and what the packets depend on beside the guest's files."""

    @property
    @abstractmethod
    def _differing_kernel(self) -> str:
        """Return how the kernel's packages are not those of debian.lock, in words; "" if none."""

    @abstractmethod
    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: OnEvent) -> Outcome:
        """Execute `spec` (the guest's run.json) in `run_dir`; return when all of it has ended."""

    def prepare(self, progress: Progress) -> None:
        """Make what is missing of all that a run needs.

        That is the jail, the kernel, the guest tree, the programs of jobs and VPNs, the modules of
        congestion controls and the snapshot of the code. Raises InputError, SetupError.
        """
        ensure_descriptors()
        try:
            self._make_what_is_missing(progress)
            # Last: the snapshot holds what was built, and is compiled by the guest tree's Python.
            code = {**self.code_folders, **self._host_programs, **self._built}
            self.code = ensure_code(self._cache, self.image, code)
        except OSError as error:
            raise SetupError(f"setting up the engine: {error}") from error

    def first_missing(self) -> str:
        """Return the name of the first thing that would have to be made, "" if all is there.

        Like `prepare`, but makes nothing and cannot run. Raises InputError, SetupError.
        """
        try:
            with looking_only():
                self._make_what_is_missing(lambda text, part: None)
        except NotMade as missing:
            return str(missing)
        return ""

    def _make_what_is_missing(self, progress: Progress) -> None:
        self._prepare_kernel(progress)
        # They are checked against the libraries of the guest tree, so that one comes first.
        self._host_programs = host_programs(self.code_folders, self.image.root)
        programs = ensure_programs(
            self._cache, self.code_folders, lambda: self._ensure_jail(progress), progress
        )
        self._host_programs |= own_among(programs, self.image.root)
        self._built = {**programs, **self._modules(progress)}

    def _ensure_jail(self, progress: Progress) -> Jail:
        self._jail = self._jail or ensure_jail(self._cache, self._repository / "kernel", progress)
        return self._jail

    @contextmanager
    def _downloaded(self, entries: Sequence[Entry], progress: Progress) -> Iterator[None]:
        """Download the packages for what is not made yet, before anything is built.

        It says which of them are not the locked ones. No other command downloads or builds until
        the end.
        """
        # The usual case: nothing is to be made, so no lock is taken.
        if all(entry.place for entry in entries):
            yield
            return
        refuse_to_make("the kernel or the guest tree")
        # Two commands would otherwise download the same files into the same places.
        with exclusively(self._cache / "debian-archives.lock"):
            # Again: another command may have made some while this one waited for the lock.
            missing = [entry for entry in entries if entry.place is None]
            sets = _packages_of(missing, progress)
            if texts := [text for packages in sets for text in packages.differing.values()]:
                reasons = [text for packages in sets for text in packages.reasons]
                why = f" Not to be had: {in_words(reasons)}." if reasons else ""
                print(
                    f"openbach-run: {NOT_LOCKED}: {in_words(texts)}. Packets may differ from those"
                    f" of the same seed elsewhere.{why} --locked tries again, or refuses",
                    file=sys.stderr,
                    flush=True,
                )
            yield

    def tree(self) -> Tree:
        """Return the maker of the guest tree, with the packages of checkout and code."""
        wanted = self._packages()
        return Tree(
            self._cache,
            self._repository / "src/openbach_run/guest",
            self._repository / lock.PATH,
            wanted,
            only_locked=self._only_locked,
            reasons=wanted,
        )

    def _packages(self) -> dict[str, str]:
        """Return the Debian packages of all folders, each with what wants it, in words.

        The folders are our own and those that a user adds. Ours are all there, so that one guest
        tree serves every run.
        """
        ours = Catalog((self._repository,))
        folders = [folder for kind in DESCRIBED for folder in ours.all(kind).values()]
        folders += [
            *self.code_folders.values(),
            *(folder / "files" for folder in ours.all("jobs").values()),
        ]
        return {name: why for folder in folders for name, why in wanted_by(folder).items()}

    def identity_of(self, uses: Uses) -> dict[str, str]:
        """Return the identity of what a run with these folders is executed by.

        It names kernel, guest tree and code by their hashes: another identity, another run.
        """
        # Many cells of a campaign use the same folders; their identity is calculated once.
        key = json.dumps(uses, sort_keys=True)
        if key not in self._identities:
            code = {**self.code_folders, **self._host_programs}
            # Only what this run uses: another VPN's change must not make its record stale.
            used = {place: folder for place, folder in code.items() if is_used(place, uses)}
            modules = [*uses.get(MODULES, ()), *([CPU_MODEL] if uses.get("cpus") else ())]
            for name in modules:
                used[f"{DIRECTORY}/{name}"] = module_source(self._repository / "kernel", name)
            packages = list(chain(*map(packages_of, used.values())))
            self._identities[key] = {
                **self._kernel_identity(),
                "image": self.image.identity_with(packages),
                "code": code_identity(self._cache, used, self._hashes),
                **self._own_programs(used),
                **self._not_locked(packages),
            }
        return self._identities[key]

    def _own_programs(self, used: Mapping[str, Path]) -> dict[str, str]:
        """Return the user's own programs of a run and their SHA-256, by a key; {} if none."""
        own = {at.rpartition("/")[2]: used[at] for at in sorted(used.keys() & self._host_programs)}
        texts = [f"{name} {sha256(file.read_bytes()).hexdigest()}" for name, file in own.items()]
        return {record.OWN_PROGRAMS: "; ".join(texts)} if texts else {}

    def _not_locked(self, packages: Iterable[str]) -> dict[str, str]:
        """Return the packages of a run that are not locked, in words, by a key; {} if none."""
        used = self.image.used_with(packages)
        texts = [text for name, text in self.image.differing.items() if name in used]
        if self._differing_kernel:
            texts.append(self._differing_kernel)
        return {record.NOT_LOCKED: "; ".join(sorted(texts))} if texts else {}

    @property
    def packages(self) -> tuple[str, ...]:
        """Return names and versions of the Debian packages in the guest."""
        return self.image.packages

    def stop(self) -> None:
        """End every guest that runs, and let no other one start."""
        with self._lock:
            self._stopping = True
            for guest in self._guests:
                self._end(guest)

    @property
    def guests(self) -> list[int]:
        """Return the processes of the guests that run: their keepers."""
        with self._lock:
            return [guest.pid for guest in self._guests]

    def _excess(self, run_dir: Path) -> str | None:
        return _excess(run_dir, self.limit_bytes, self.limit_files)

    def _tidy(self, run_dir: Path, spec: Mapping[str, Any]) -> str | None:
        return tidy(run_dir, spec, self.limit_bytes, self.limit_files)

    def _end(self, guest: subprocess.Popen[bytes]) -> None:
        guest.terminate()  # the keeper, which ends all that have come of the guest

    def _started(
        self, command: Sequence[str], stdin: int, stdout: BinaryIO
    ) -> subprocess.Popen[bytes]:
        """A run's process, which `stop` ends."""
        with self._lock:
            if self._stopping:
                raise InterruptedError("the engine is stopping")
            guest = subprocess.Popen(
                # No environment: nothing of this user's may act on a run.
                command,
                env={},
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.STDOUT,
            )
            self._guests.add(guest)
        return guest

    def _watch(
        self,
        guest: subprocess.Popen[bytes],
        run_dir: Path,
        on_event: OnEvent,
        stream: Stream | None = None,
    ) -> str | None:
        """Pass events on until the guest is gone; return why it was killed, if it was."""
        reader = EventReader(run_dir, on_event)
        # Hosts before Linux 5.3 have no pidfd.
        waiting = threading.Thread(target=guest.wait, daemon=True)
        waiting.start()
        heard, sent_bytes = time.monotonic(), 0
        try:
            # The guest is looked at now and then rather than listened to: its files are on this
            # machine's disk.
            while not _ended_within(waiting, LOOK_S):
                before, sent_bytes = sent_bytes, stream.size_bytes if stream else 0
                if reader.read() or sent_bytes > before:
                    heard = time.monotonic()
                elif time.monotonic() - heard > (limit_s := self.silence_limit_s * load_per_cpu()):
                    raise Ended(f"showed no progress for {limit_s:.0f} s")
                # The guest may be somebody else's code: a full disk is this machine's trouble.
                if excess := self._excess(run_dir) or (stream and stream.wrong()):
                    raise Ended(excess)
            reader.read()
        except DamagedRecord as damage:
            return f"left {run_files.within(damage, run_dir)}"
        except Ended as error:
            return f"{error} and was ended"
        finally:
            self._end(guest)
            if not _ended_within(waiting, END_LIMIT_S):
                # The keeper has not ended its guest in time; with it gone the kernel ends the rest.
                guest.kill()
                waiting.join()
            with self._lock:
                self._guests.discard(guest)
        return None


def load_per_cpu() -> float:
    """Return the number of programs that want each CPU of this machine, at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _ended_within(thread: threading.Thread, limit_s: float) -> bool:
    thread.join(limit_s)
    return not thread.is_alive()


def _excess(run_dir: Path, limit_bytes: int, limit_files: int) -> str | None:
    excess = run_files.excess(run_dir, limit_bytes, limit_files, CAPTURE)
    return excess and f"{excess} in {run_dir}"


def tidy(
    run_dir: Path,
    spec: Mapping[str, Any],
    limit_bytes: int = RUN_LIMIT_BYTES,
    limit_files: int = RUN_LIMIT_FILES,
) -> str | None:
    """Put right what a guest may have changed, remove what is too much, and return why, if so."""
    # First: it makes every directory writable.
    excess = _excess(run_dir, limit_bytes, limit_files)
    # What is too much to read is removed before anybody reads the record.
    if excess:
        run_files.keep_only(run_dir, ("events.jsonl", "console.log", CAPTURE))
    run_files.restrict(run_dir)
    # Written again, since the guest could have changed it, and the record's name follows from it.
    run_files.write_new(run_dir, "run.json", json.dumps(spec))
    return excess and f"{excess} and was ended"


def _packages_of(entries: Sequence[Entry], progress: Progress) -> list[PackageSet]:
    """The packages of all entries, downloaded at the same time.

    Raises InputError with the words of all that refuse.
    """

    def packages(entry: Entry, progress: Progress) -> PackageSet | InputError:
        try:
            return entry.packages(progress)
        except InputError as error:
            return error

    answers = beside(progress, *(partial(packages, answer) for answer in entries))
    if refused := [str(answer) for answer in answers if isinstance(answer, InputError)]:
        raise InputError("\n".join(refused))
    return [answer for answer in answers if isinstance(answer, PackageSet)]


class Ended(Exception):
    """The end that the engine gives to a guest; the text says what the guest did."""


class EventReader:
    """Reads the lines that the guest has added to events.jsonl since the last time."""

    def __init__(self, run_dir: Path, on_event: OnEvent) -> None:
        self._run_dir = run_dir
        self._on_event = on_event
        self._offset = 0
        self._lines = 0

    def read(self) -> bool:
        """Read the new events, and return whether there were any. Raises DamagedRecord."""
        try:
            with run_files.opened(self._run_dir, "events.jsonl") as file:
                file.seek(self._offset)
                added = file.read(run_files.FILE_LIMIT_BYTES)
        except FileNotFoundError:
            return False
        place = str(self._run_dir / "events.jsonl")
        events = run_files.checked(added, place, self._lines + 1, wrong_event)
        # The guest may be in the middle of a line; the rest of it is read next time.
        self._offset += added.rfind(b"\n") + 1
        self._lines += len(events)
        for event in events:
            self._on_event(event)
        return bool(events)


def guest_code(repository: Path, parts: Mapping[str, Path]) -> dict[str, Path]:
    """Return the code of a run by its place in the guest: the director's, and `parts`.

    `parts` are those of `Catalog.parts`.
    """
    return {f"src/{name}": repository / "src" / name for name in GUEST_MODULES} | dict(parts)
