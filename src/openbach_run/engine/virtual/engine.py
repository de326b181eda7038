# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual engine: a run is one User Mode Linux process in time-travel mode, on one CPU.

The guest's clock stands still while anything in it computes and jumps when all of it is idle; a
real clock is this machine's, or a slower one, and checks the other. The run's directory is the
guest's /run/openbach. On a pipe arrive the digests of its packets, with `pcap` the packets, too,
which are kept. With `keys` those of WireGuard's tunnels come on it, and are kept in a file apart.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, BinaryIO

from blake3 import blake3

from openbach_run.clock import VIRTUAL, slowdown
from openbach_run.engine.contract import OnEvent, Outcome
from openbach_run.engine.local import (
    END_LIMIT_S,
    RUN_LIMIT_BYTES,
    SILENCE_LIMIT_S,
    Ended,
    LocalEngine,
)
from openbach_run.engine.virtual import lock
from openbach_run.engine.virtual.jail import EXIT_LIMIT, Jail
from openbach_run.engine.virtual.kernel import Kernel, KernelBuild
from openbach_run.engine.virtual.modules import ensure_modules
from openbach_run.engine.virtual.outcome import how_ended, outcome_of
from openbach_run.errors import SetupError
from openbach_run.guest.agent import KEEPS_QLOG
from openbach_run.guest.main import BEGIN_NS
from openbach_run.guest.terminal import MAGIC, PACE_BYTES
from openbach_run.progress import Progress, beside
from openbach_run.results import run_files
from openbach_run.results.captures import (
    CAPTURE,
    DECRYPTION_SECRETS,
    ENHANCED_PACKET,
    INTERFACE_STATISTICS,
    KEYS,
    Digest,
    blocks,
    digests_at,
    hash_of,
    keys_in,
    time_of,
)

GUEST_MEMORY_MB, HOST_MEMORY_MB = 512, 16
"""A guest's memory, and what it has at least for each host: some 0.6 MB for the host, the rest for
its jobs."""
GUEST_START_NS = 1767225600 * 10**9  # 2026-01-01T00:00:00Z: the guest's date, the same in every run
PIPE_BYTES = 1 << 20
END_BYTES = 1 << 20
"""The most that the digests at the end of a stream may take: some 10 000 interfaces."""
CAPTURE_LIMIT_BYTES = 8 << 30
"""Limit of a capture that is kept; a download of 30 MB makes some 0.3 GB."""
QLOG_LIMIT_BYTES = 1 << 30
"""Limit of a run with the qlog of its connections; that of 30 MB is some 20 MB at an end."""


class VirtualEngine(LocalEngine):
    """Runs run specifications in guests with a kernel of their own."""

    kernel: Kernel
    """Kernel, once prepared, like the jail around it."""
    jail: Jail

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
        """Prepare no files yet; see `LocalEngine`.

        `pcap` keeps the captures, `keys` those of WireGuard's tunnels and the qlog of QUIC; `clock`
        is as clock.py names it.
        """
        # A guest on a slower clock is silent for longer in wall time.
        silence_s = silence_limit_s * slowdown(clock)
        super().__init__(repository, code, locked=locked, cache=cache, silence_limit_s=silence_s)
        self._pcap = pcap
        self._keys = keys
        if keys:
            self.limit_bytes = QLOG_LIMIT_BYTES
        self._clock = clock
        self.paced = False
        """True if a run keeps pace with this machine's clock from its first packet of pace on
        (guest/terminal.py)."""

    def _prepare_kernel(self, progress: Progress) -> None:
        self.jail = self._ensure_jail(progress)
        kernel, tree = self.kernel_build(), self.tree()
        kernel.take()
        with self._downloaded([kernel.entry, tree.entry], progress):
            # A kernel takes minutes on all CPUs, the tree seconds of downloading: they do not
            # disturb each other.
            if kernel.entry.place is None:
                beside(progress, kernel.ensure, tree.ensure)
            self.kernel = kernel.ensure(progress)
            self.image = tree.ensure(progress)

    def kernel_build(self) -> KernelBuild:
        """Return the maker of the kernel."""
        return KernelBuild(
            self._cache,
            self._repository / "kernel",
            self._repository / lock.PATH,
            only_locked=self._only_locked,
        )

    def _modules(self, progress: Progress) -> dict[str, Path]:
        kernel_dir = self._repository / "kernel"
        return ensure_modules(
            self._cache, self.kernel, kernel_dir, self.code_folders, self.jail, progress
        )

    def _kernel_identity(self) -> dict[str, str]:
        memory = f"{GUEST_MEMORY_MB}M, at least {HOST_MEMORY_MB}M a host"
        return {
            "engine": "virtual",
            "clock": self._clock,
            "kernel": self.kernel.identity,
            "memory": memory,
            # A program that keeps qlog reads the clock for it, which takes time: its packets are
            # later.
            **({"qlog": "kept"} if self._keys else {}),
        }

    @property
    def _differing_kernel(self) -> str:
        return self.kernel.differing or ""

    @property
    def entries(self) -> list[Path]:
        """The directories of the cache that are made for runs: all but the snapshot of the code."""
        files = (self.jail.launcher, self.kernel.executable, self.image.root, *self._built.values())
        return sorted({file.parent for file in files})

    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: OnEvent) -> Outcome:
        """Execute `spec` (the guest's run.json) in `run_dir`, pinned to `cpu`.

        Returns when the guest has powered off.
        """
        (run_dir / "run.json").write_text(json.dumps(spec))
        started = time.monotonic()
        # "x": run_dir is new, and nothing is to be overwritten in it.
        with (run_dir / "console.log").open("xb") as console:
            keep = open(run_dir / CAPTURE if self._pcap else os.devnull, "wb", buffering=0)
            # The kernel writes into the pipe; it never sees a file of the host for its packets.
            read_end, write_end = os.pipe()
            if self._pcap:
                _widen(read_end)
            capture = _Capture(FileIO(read_end), keep, with_keys=self._keys, paced=self.paced)
            try:
                guest = self._boot(spec, self.code, run_dir, cpu, write_end, console)
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
        ended_why = self._tidy(run_dir, spec) or ended_why
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
        times_ns = [digest.last_ns for digest in capture.digests if self._clock == VIRTUAL]
        last_s = (max(times_ns) - GUEST_START_NS - BEGIN_NS) / 1e9 if times_ns else None
        facts = {"exit": how_ended(exit_code), "last_packet_s": last_s}
        if self._pcap:
            facts |= {"capture_bytes": capture.size_bytes, "capture_blake3": capture.file_hash}
        return facts

    def _boot(
        self,
        spec: Mapping[str, Any],
        code: Path,
        run_dir: Path,
        cpu: int,
        capture_fd: int,
        console: BinaryIO,
    ) -> subprocess.Popen[bytes]:
        # The kernel cannot take more later.
        hosts = spec.get("inventory", {}).get("hosts", ())
        wanted_mb = sum(host.get("memory_mb", HOST_MEMORY_MB) for host in hosts)
        # inf-cpu: computing takes no virtual time, and the clock jumps when all is idle
        # (Documentation/virt/uml, time-travel mode). The start makes dates in files the same in
        # every run.
        time_travel = ("time-travel=inf-cpu", f"time-travel-start={GUEST_START_NS}")
        clock = time_travel if self._clock == VIRTUAL else (f"slow_clock={slowdown(self._clock)}",)
        kernel_arguments = (
            f"mem={max(GUEST_MEMORY_MB, wanted_mb)}M",
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
                *(("capture_packets",) if self._pcap or self.paced else ()),
                *(("capture_keys", f"{KEEPS_QLOG}=yes") if self._keys else ()),
            ),
            *("init=/usr/bin/python3", "PYTHONHASHSEED=0", "--", "-SB", "/init.py"),
        )
        command = self.jail.command(
            cpu, self.image.root, code, run_dir, self.kernel.executable, *kernel_arguments
        )
        return self._started(command, stdin=capture_fd, stdout=console)


class _Capture(threading.Thread):
    """Reads the guest's stream, and writes it to `keep` if that is a file.

    The keys in it do not go there. It closes both files when no process of the guest has the other
    end of the pipe.
    """

    def __init__(
        self, packets: FileIO, keep: FileIO, *, with_keys: bool, paced: bool = False
    ) -> None:
        super().__init__(daemon=True)
        self._paced = paced
        self._packets = packets
        self._keep = keep
        self._with_keys = with_keys
        self._is_kept = keep.name != os.devnull
        self._hash = blake3()
        self._failure: Exception | None = None
        self._end = b""
        """The last bytes of the stream, or of these the digests alone."""
        self.digests: list[Digest] = []
        """Digests of all interfaces after the end; [] if the guest did not end by itself."""
        self.keys = b""
        self.size_bytes = 0
        self.start()

    def run(self) -> None:
        with self._packets, self._keep:
            try:
                for part in (
                    self._all() if self._is_kept and not self._with_keys else self._blocks()
                ):
                    self.size_bytes += len(part)
                    if self._is_kept:
                        self._put(part)
                self.digests = digests_at(self._end)
            except Exception as error:  # whoever watches the guest ends it
                self._failure = error

    def _put(self, part: bytes | memoryview) -> None:
        if self.size_bytes > CAPTURE_LIMIT_BYTES:
            raise Ended(
                f"sent more than {CAPTURE_LIMIT_BYTES >> 20} MiB of packets, the most that --pcap"
                " keeps"
            )
        self._hash.update(part)
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
            is_ended = isinstance(self._failure, Ended)
            return (
                str(self._failure)
                if is_ended
                else f"sent packets that cannot be read ({self._failure})"
            )
        return None

    def _all(self) -> Iterator[memoryview]:
        """Yield all packets as they come."""
        # Read into the same memory again and again: a transfer of 30 MB sends some 0.3 GB.
        memory = memoryview(bytearray(4 * END_BYTES))
        end = 0
        while size := self._packets.readinto(memory[end : end + PIPE_BYTES]):
            yield memory[end : end + size]
            end += size
            if end > len(memory) - PIPE_BYTES:
                memory[:END_BYTES] = memory[end - END_BYTES : end]
                end = END_BYTES
        self._end = bytes(memory[max(0, end - END_BYTES) : end])

    def _blocks(self) -> Iterator[bytes]:
        """Yield the stream without its keys; in pace, if that is wanted.

        Then each packet of the pace is read when its time has come. A guest that sends faster than
        they are read waits: so its time keeps pace with ours.
        """
        pace = Pace()
        for kind, block in blocks(BufferedReader(self._packets, PIPE_BYTES)):
            if kind == DECRYPTION_SECRETS and self._with_keys:
                # Bounded, since a guest may send keys without end.
                if len(self.keys) < RUN_LIMIT_BYTES:
                    self.keys += keys_in(block)
                continue
            if self._paced and kind == ENHANCED_PACKET and len(block) > PACE_BYTES:
                if MAGIC in block[:100]:
                    pace.wait_for(time_of(block))
            elif kind == INTERFACE_STATISTICS and len(self._end) < END_BYTES:
                self._end += block
            yield block

    @property
    def hash(self) -> str:
        return hash_of(digest.line for digest in self.digests)

    @property
    def file_hash(self) -> str:
        """Return the BLAKE3 hash of what was kept."""
        return self._hash.hexdigest()


class Pace:
    """The clock of this machine beside a guest's."""

    def __init__(self) -> None:
        self._ahead_ns: int | None = None
        """Time by which the guest's date is ahead of this machine's clock."""

    def wait_for(self, guest_ns: int) -> None:
        """Wait until a guest's date has come.

        A guest that is late, as this machine was too slow for it, is not hurried afterwards.
        """
        ahead_ns = guest_ns - time.monotonic_ns()
        if self._ahead_ns is None or ahead_ns < self._ahead_ns:
            self._ahead_ns = ahead_ns
        elif ahead_ns > self._ahead_ns:
            time.sleep((ahead_ns - self._ahead_ns) / 1e9)


def _widen(pipe: int) -> None:
    """A pipe that holds more lets the guest and the hashing thread change places less often."""
    with suppress(PermissionError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
