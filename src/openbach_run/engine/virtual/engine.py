# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual engine: a run is one User Mode Linux process in time-travel mode, on one CPU.

The guest's clock stands still while anything in it computes and jumps when all of it is idle; a
real clock is this machine's, or a slower one, and checks the other. The run's directory is the
guest's /run/openbach; its packets arrive on a pipe and are hashed, or kept with `pcap`. With `keys`
those of WireGuard's tunnels come on it, too, and are kept in a file apart.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from io import BufferedReader, FileIO
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from blake3 import blake3

from openbach_run.catalog import DESCRIBED, Catalog, Uses, is_used, packages_of, wanted_by
from openbach_run.clock import VIRTUAL, slowdown
from openbach_run.engine.contract import OnEvent, Outcome
from openbach_run.engine.virtual import lock
from openbach_run.engine.virtual.cache import NotMade, exclusively, looking_only, refuse_to_make
from openbach_run.engine.virtual.descriptors import ensure_descriptors
from openbach_run.engine.virtual.image import Image, Tree, code_identity, ensure_code
from openbach_run.engine.virtual.jail import EXIT_LIMIT, Jail, ensure_jail
from openbach_run.engine.virtual.kernel import Kernel, KernelBuild
from openbach_run.engine.virtual.lock import NOT_LOCKED, Entry, PackageSet, in_words
from openbach_run.engine.virtual.modules import CPU_MODEL, DIRECTORY, cpu_model, ensure_modules
from openbach_run.engine.virtual.outcome import how_ended, outcome_of
from openbach_run.engine.virtual.programs import ensure_programs, host_programs
from openbach_run.errors import InputError, SetupError
from openbach_run.guest.main import BEGIN_NS
from openbach_run.paths import cache_directory
from openbach_run.progress import Progress, beside
from openbach_run.results import record, run_files
from openbach_run.results.captures import (
    CAPTURE,
    DECRYPTION_SECRETS,
    ENHANCED_PACKET,
    KEYS,
    blocks,
    keys_in,
    last_time_ns,
)
from openbach_run.results.record import wrong_event
from openbach_run.results.run_files import DamagedRecord

GUEST_MEMORY_MB, HOST_MEMORY_MB = 512, 16
"""A guest's memory, and what it has at least for each host: some 0.6 MB for the host, the rest for
its jobs."""
GUEST_START_NS = 1767225600 * 10**9  # 2026-01-01T00:00:00Z: the guest's date, the same in every run
SILENCE_LIMIT_S = 120.0
"""Wall time without a packet and an event after which a guest has hung; a heartbeat comes every 10
virtual seconds."""
END_LIMIT_S = 60.0
"""From the signal that ends a guest to the end of its last process."""
LOOK_S = 0.2
"""From one look at a run's events to the next."""
PIPE_BYTES = 1 << 20
LARGEST_BLOCK_BYTES = 1 << 17
"""In a capture (BLOCK_MAX of kernel/src/capture.c)."""
RUN_LIMIT_BYTES = 64 << 20
RUN_LIMIT_FILES = 20_000
"""What a run may write, its capture apart; one that writes more is ended."""
CAPTURE_LIMIT_BYTES = 8 << 30
"""Of a capture that is kept; a download of 30 MB makes some 0.3 GB."""
GUEST_MODULES = (
    "openbach_run/__init__.py",
    "openbach_run/errors.py",
    "openbach_run/guest",
    "openbach_run/openbach/__init__.py",
    "openbach_run/openbach/job.py",
    "openbach_run/openbach/refusals.py",
    "openbach_run/openbach/values.py",
    "openbach_run/topology/__init__.py",
    "openbach_run/topology/hosts.py",
    "openbach_jobs/__init__.py",
    "openbach_jobs/command.py",
)
"""What of `src` runs in the guest beside jobs. A change to anything else makes no finished run
stale."""


class VirtualEngine:
    """Runs run specifications in guests.

    `prepare` first; `run` may be called from several threads, `stop` from any.
    """

    def __init__(
        self,
        repository: Path,
        code: Mapping[str, Path],
        *,
        pcap: bool = False,
        keys: bool = False,
        clock: str = VIRTUAL,
        locked: bool = False,
        cache: Path | None = None,
        silence_limit_s: float = SILENCE_LIMIT_S,
    ) -> None:
        """Prepare no files yet; see `prepare`.

        `code` is what the guest gets to see in /opt/openbach-run (see `guest_code`); `pcap` keeps
        the captures, `keys` those of WireGuard's tunnels; `clock` is as clock.py names it; `locked`
        refuses packages other than those of debian.lock.
        """
        self._repository = repository
        self._code_folders = code
        self._pcap = pcap
        self._keys = keys
        self._clock = clock
        self._only_locked = locked
        # A guest on a slower clock is silent for longer in wall time.
        self._silence_limit_s = silence_limit_s * slowdown(clock)
        self._cache = cache or cache_directory()
        self._kernel: Kernel | None = None
        self._jail: Jail | None = None
        self._image: Image | None = None
        self._code: Path | None = None
        self._host_programs: dict[str, Path] = {}
        self._built: dict[str, Path] = {}
        self._identities: dict[str, dict[str, str]] = {}
        self._hashes: dict[str, str] = {}
        """The hash of each folder of code, by its place in the guest."""
        self._guests: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopping = False

    def prepare(self, progress: Progress) -> None:
        """Make what is missing of all that a run needs.

        That is the jail, the kernel, the guest tree, the programs of jobs and VPNs, the modules of
        congestion controls and the snapshot of the code. Raises InputError, SetupError.
        """
        ensure_descriptors()
        try:
            self._make_what_is_missing(progress)
            # Last: the snapshot holds what was built, and is compiled by the guest tree's Python.
            code = {**self._code_folders, **self._host_programs, **self._built}
            self._code = ensure_code(self._cache, self.image, code)
        except OSError as error:
            raise SetupError(f"setting up the engine: {error}") from error

    def look(self) -> str:
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
        self._host_programs = host_programs(self._code_folders, self.image.root)
        programs = ensure_programs(
            self._cache, self._code_folders, lambda: self._ensure_jail(progress), progress
        )
        self._built = {**programs, **self._modules(progress)}

    def _prepare_kernel(self, progress: Progress) -> None:
        """And the guest tree, and what is around them."""
        self._ensure_jail(progress)
        kernel, tree = self.kernel_build(), self.tree()
        with self._downloaded([kernel.entry, tree.entry], progress):
            # A kernel takes minutes on all CPUs, the tree seconds of downloading: they do not
            # disturb each other.
            if kernel.entry.place is None:
                beside(progress, kernel.ensure, tree.ensure)
            self._kernel = kernel.ensure(progress)
            self._image = tree.ensure(progress)

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
        if all(one.place for one in entries):
            yield
            return
        refuse_to_make("the kernel or the guest tree")
        # Two commands would otherwise download the same files into the same places.
        with exclusively(self._cache / "debian-archives.lock"):
            # Again: another command may have made some while this one waited for the lock.
            missing = [one for one in entries if one.place is None]
            sets = _packages_of(missing, progress)
            if texts := [text for one in sets for text in one.differing.values()]:
                reasons = [text for one in sets for text in one.reasons]
                why = f" Not to be had: {in_words(reasons)}." if reasons else ""
                print(
                    f"openbach-run: {NOT_LOCKED}: {in_words(texts)}. Packets may differ from those"
                    f" of the same seed elsewhere.{why} --locked tries again, or refuses",
                    file=sys.stderr,
                    flush=True,
                )
            yield

    def kernel_build(self) -> KernelBuild:
        """Return the maker of the kernel."""
        return KernelBuild(
            self._cache,
            self._repository / "kernel",
            self._repository / lock.FILE,
            only_locked=self._only_locked,
        )

    def tree(self) -> Tree:
        """Return the maker of the guest tree, with the packages of checkout and code."""
        wanted = self._packages()
        return Tree(
            self._cache,
            self._repository / "src/openbach_run/guest",
            self._repository / lock.FILE,
            wanted,
            only_locked=self._only_locked,
            reasons=wanted,
        )

    def _modules(self, progress: Progress) -> dict[str, Path]:
        assert self._kernel and self._jail
        kernel_dir = self._repository / "kernel"
        return ensure_modules(
            self._cache, self._kernel, kernel_dir, self._code_folders, self._jail, progress
        )

    def _packages(self) -> dict[str, str]:
        """Return the Debian packages of all folders, each with what wants it, in words.

        The folders are our own and those that a user adds. Ours are all there, so that one guest
        tree serves every run.
        """
        ours = Catalog((self._repository,))
        folders = [folder for kind in DESCRIBED for folder in ours.all(kind).values()]
        folders += [
            *self._code_folders.values(),
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
            code = {**self._code_folders, **self._host_programs}
            # Only what this run uses: another VPN's change must not make its record stale.
            used = {place: folder for place, folder in code.items() if is_used(place, uses)}
            if uses.get("cpus"):
                used[f"{DIRECTORY}/{CPU_MODEL}"] = cpu_model(self._repository / "kernel")
            packages = list(chain(*map(packages_of, used.values())))
            self._identities[key] = {
                **self._kernel_identity(),
                "image": self.image.identity_with(packages),
                "code": code_identity(self._cache, used, self._hashes),
                **self._not_locked(packages),
            }
        return self._identities[key]

    def _not_locked(self, packages: Iterable[str]) -> dict[str, str]:
        """Return the packages of a run that are not locked, in words, by a key; {} if none."""
        used = self.image.used_with(packages)
        texts = [text for name, text in self.image.differing.items() if name in used]
        if self._kernel and self._kernel.differing:
            texts.append(self._kernel.differing)
        return {record.NOT_LOCKED: "; ".join(sorted(texts))} if texts else {}

    def _kernel_identity(self) -> dict[str, str]:
        """Engine, clock and what the packets depend on beside the guest's files."""
        assert self._kernel
        memory = f"{GUEST_MEMORY_MB}M, at least {HOST_MEMORY_MB}M a host"
        return {
            "engine": "virtual",
            "clock": self._clock,
            "kernel": self._kernel.identity,
            "memory": memory,
        }

    @property
    def image(self) -> Image:
        """The guest tree, once prepared."""
        assert self._image
        return self._image

    @property
    def entries(self) -> list[Path]:
        """The directories of the cache that are made for runs: all but the snapshot of the code."""
        assert self._jail and self._kernel
        files = (
            self._jail.launcher,
            self._kernel.executable,
            self.image.root,
            *self._built.values(),
        )
        return sorted({file.parent for file in files})

    @property
    def packages(self) -> tuple[str, ...]:
        """Return names and versions of the Debian packages in the guest."""
        return self.image.packages

    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: OnEvent) -> Outcome:
        """Execute `spec` (the guest's run.json) in `run_dir`, pinned to `cpu`.

        Returns when the guest has powered off.
        """
        (run_dir / "run.json").write_text(json.dumps(spec))
        assert self._code
        started = time.monotonic()
        # "x": run_dir is new, and nothing is to be overwritten in it.
        with (run_dir / "console.log").open("xb") as console:
            keep = open(run_dir / CAPTURE if self._pcap else os.devnull, "wb", buffering=0)
            # The kernel writes its packets into the pipe; it never sees a file of the host for
            # them.
            read_end, write_end = os.pipe()
            _widen(read_end)
            capture = _Capture(FileIO(read_end), keep, with_keys=self._keys)
            try:
                guest = self._boot(spec, self._code, run_dir, cpu, write_end, console)
            finally:
                os.close(write_end)
            ended_why = self._watch(guest, run_dir, on_event, capture)
        # The capture ends when the last process with the pipe's other end has ended.
        capture.join(END_LIMIT_S)
        if capture.is_alive():
            raise SetupError(
                f"{run_dir}: a process of the guest was there {END_LIMIT_S:g} s after its end"
            )
        ended_why = capture.wrong() or ended_why
        # In this order: a limit of the jail, or too many files, explains what else went wrong.
        if guest.returncode == EXIT_LIMIT:
            ended_why = "passed a limit of the jail"
        ended_why = tidy(run_dir, spec) or ended_why
        if self._keys:
            run_files.write_secret(run_dir, KEYS, capture.keys)
        wall_s = time.monotonic() - started
        # Only now, since `tidy` has made sure that what is read is not larger than allowed.
        outcome = outcome_of(run_dir, wall_s, capture.hash, ended_why, guest.returncode)
        return replace(outcome, host=self._measured(guest.returncode, capture))

    def _measured(self, exit_code: int, capture: _Capture) -> dict[str, Any]:
        """Return what a record's `host` says of this machine during the run.

        Real clocks begin with this machine's date, not with GUEST_START_NS.
        """
        last_ns = capture.last_packet_ns if self._clock == VIRTUAL else None
        last_s = None if last_ns is None else (last_ns - GUEST_START_NS - BEGIN_NS) / 1e9
        return {
            "exit": how_ended(exit_code),
            "capture_bytes": capture.size_bytes,
            "last_packet_s": last_s,
        }

    def stop(self) -> None:
        """End every guest that runs, and let no other one start."""
        with self._lock:
            self._stopping = True
            for guest in self._guests:
                self._end(guest)

    def _end(self, guest: subprocess.Popen[bytes]) -> None:
        guest.terminate()  # the keeper, which ends all that have come of the guest

    def _boot(
        self,
        spec: Mapping[str, Any],
        code: Path,
        run_dir: Path,
        cpu: int,
        capture_fd: int,
        console: BinaryIO,
    ) -> subprocess.Popen[bytes]:
        assert self._kernel and self._jail and self._image
        # More hosts need more memory; the kernel cannot take more later.
        hosts = len(spec.get("inventory", {}).get("hosts", ()))
        # inf-cpu: computing takes no virtual time, and the clock jumps when all is idle
        # (Documentation/virt/uml, time-travel mode). The start makes dates in files the same in
        # every run.
        time_travel = ("time-travel=inf-cpu", f"time-travel-start={GUEST_START_NS}")
        clock = time_travel if self._clock == VIRTUAL else (f"slow_clock={slowdown(self._clock)}",)
        kernel_arguments = (
            f"mem={max(GUEST_MEMORY_MB, HOST_MEMORY_MB * hosts)}M",
            "quiet",
            "loglevel=5",  # warnings too
            # The guest ends at a panic, and does not wait for somebody to look at it.
            "panic=-1",
            *("root=/dev/root", "rootfstype=hostfs", "ro"),
            # The seed is what the kernel's random numbers follow from (kernel/patches).
            *(*clock, "seccomp=on", f"seed={spec['seed']}"),
            *(
                # The console is written to a file, and reads nothing: descriptor 3 is /dev/null.
                "con=null",
                "con0=fd:3,fd:1",
                "capture=0",
                *(("capture_keys",) if self._keys else ()),
            ),
            *("init=/usr/bin/python3", "PYTHONHASHSEED=0", "--", "-SB", "/init.py"),
        )
        command = self._jail.command(
            cpu, self._image.root, code, run_dir, self._kernel.executable, *kernel_arguments
        )
        return self._started(command, stdin=capture_fd, stdout=console)

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
        capture: _Capture | None = None,
    ) -> str | None:
        """Pass events on until the guest is gone; return why it was killed, if it was."""
        reader = _EventReader(run_dir, on_event)
        waiting = threading.Thread(
            target=guest.wait, daemon=True
        )  # hosts before Linux 5.3 have no pidfd
        waiting.start()
        heard, captured_bytes = time.monotonic(), 0
        try:
            # The guest is looked at now and then rather than listened to: its files are on this
            # machine's disk.
            while not _ended_within(waiting, LOOK_S):
                before, captured_bytes = captured_bytes, capture.size_bytes if capture else 0
                if reader.read() or captured_bytes > before:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self._silence_limit_s:
                    raise _Ended(f"showed no progress for {self._silence_limit_s:g} s")
                # The guest may be somebody else's code: a full disk is this machine's trouble.
                if excess := _excess(run_dir) or (capture and capture.wrong()):
                    raise _Ended(excess)
            reader.read()
        except DamagedRecord as damage:
            return f"left {run_files.within(damage, run_dir)}"
        except _Ended as error:
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


def _ended_within(thread: threading.Thread, limit_s: float) -> bool:
    thread.join(limit_s)
    return not thread.is_alive()


def _excess(run_dir: Path) -> str | None:
    excess = run_files.excess(run_dir, RUN_LIMIT_BYTES, RUN_LIMIT_FILES, CAPTURE)
    return excess and f"{excess} in {run_dir}"


def tidy(run_dir: Path, spec: Mapping[str, Any]) -> str | None:
    """Put right what a guest may have changed, remove what is too much, and return why, if so."""
    excess = _excess(run_dir)  # first: it makes every directory writable
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

    def packages(one: Entry, told: Progress) -> PackageSet | InputError:
        try:
            return one.packages(told)
        except InputError as error:
            return error

    found = beside(progress, *(partial(packages, one) for one in entries))
    if refused := [str(one) for one in found if isinstance(one, InputError)]:
        raise InputError("\n".join(refused))
    return [one for one in found if isinstance(one, PackageSet)]


class _Ended(Exception):
    """The end that the engine gives to a guest; the text says what the guest did."""


class _Capture(threading.Thread):
    """Reads the guest's packets: hashes the stream and writes it to `keep`.

    The keys in it go to neither. It closes both files when no process of the guest has the other
    end of the pipe.
    """

    def __init__(self, packets: FileIO, keep: FileIO, *, with_keys: bool) -> None:
        super().__init__(daemon=True)
        self._packets = packets
        self._keep = keep
        self._with_keys = with_keys
        self._is_kept = keep.name != os.devnull
        self._digest = blake3()
        self._failure: Exception | None = None
        self._end = b""
        """Of the stream, as much as the last packet takes."""
        self.keys = b""
        self.size_bytes = 0
        self.start()

    def run(self) -> None:
        with self._packets, self._keep:
            try:
                for part in self._without_keys() if self._with_keys else self._all():
                    self.size_bytes += len(part)
                    self._digest.update(part)
                    self._put(part)
            except Exception as error:  # whoever watches the guest ends it
                self._failure = error

    def _put(self, part: bytes | memoryview) -> None:
        if self._is_kept and self.size_bytes > CAPTURE_LIMIT_BYTES:
            raise _Ended(
                f"sent more than {CAPTURE_LIMIT_BYTES >> 20} MiB of packets, the most that --pcap"
                " keeps,"
            )
        # A view: packets are not copied between reading, hashing and writing.
        rest = memoryview(part)
        try:
            while rest:  # a disk that becomes full takes a part
                rest = rest[self._keep.write(rest) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._keep.name)) from error

    def wrong(self) -> str | None:
        """Return why the capture is not whole, if so. Raises OSError for what is the disk's."""
        if isinstance(self._failure, OSError):
            raise self._failure
        if self._failure:
            told = isinstance(self._failure, _Ended)
            return (
                str(self._failure)
                if told
                else f"sent packets that cannot be read ({self._failure})"
            )
        return None

    def _all(self) -> Iterator[memoryview]:
        """Yield all packets as they come.

        They are, in turn, in two buffers, which together are as large as the pipe. So the part
        before the last one is still there at the end. It is copied only where the last one is too
        small for a packet.
        """
        buffers = [memoryview(bytearray(PIPE_BYTES // 2)) for _ in range(2)]
        before, last = buffers[0][:0], buffers[0][:0]
        # Read into the same memory again and again: a transfer of 30 MB sends some 0.3 GB.
        while size := self._packets.readinto(buffers[0]):
            before = memoryview(b"") if size >= LARGEST_BLOCK_BYTES else _joined(before, last)
            last = buffers[0][:size]
            yield last
            buffers.reverse()
        self._end = bytes(_joined(before, last))

    def _without_keys(self) -> Iterator[bytes]:
        for kind, block in blocks(BufferedReader(self._packets, PIPE_BYTES)):
            if kind != DECRYPTION_SECRETS:
                self._end = block if kind == ENHANCED_PACKET else self._end
                yield block
            # Bounded, since a guest may send keys without end.
            elif len(self.keys) < RUN_LIMIT_BYTES:
                self.keys += keys_in(block)

    @property
    def hash(self) -> str:
        return self._digest.hexdigest()

    @property
    def last_packet_ns(self) -> int | None:
        """Return the guest's date in the last packet that it has sent, in ns since 1970.

        None if the stream does not end with one.
        """
        return last_time_ns(self._end)


def _joined(one: memoryview, other: memoryview) -> memoryview:
    """The last bytes of two parts that follow each other."""
    both = bytes(one[-LARGEST_BLOCK_BYTES:]) + bytes(other[-LARGEST_BLOCK_BYTES:])
    return memoryview(both[-LARGEST_BLOCK_BYTES:])


class _EventReader:
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


def _widen(pipe: int) -> None:
    """A pipe that holds more lets the guest and the hashing thread change places less often."""
    with suppress(PermissionError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
