#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chaos: small campaigns through the real command while all kinds of harm come to it.

Signals, full disks, damaged caches and records are thrown at it:

    OPENBACH_RUN_EXTRA=dev ./openbach-run python tests/chaos.py --runs 1000 --seed 1

After every blow: the exit code and its reason, no process left, no good record lost or altered.
Then the same command once more: the campaign is complete, every capture is that of an undisturbed
run, nothing half-made is left. The first thing that is not so ends the script with 1. All happens
below a directory of its own, with a copy of the cache. Full and read-only disks need root (a mount
namespace); without it they are left out, and that is said.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
CAMPAIGNS = (
    ("geo", "vpn=none", "cc=cubic,reno", "loss=0,1", "size=20k", "--seeds", "1"),
    ("geo", "vpn=none,wireguard", "cc=bbr2", "pep=none,B", "size=10k"),
    ("leo", "vpn=none,wireguard", "cc=cubic", "loss=1", "size=20k", "--seeds", "1"),
    ("geo", "vpn=none", "cc=cubic", "rate=1M,2M,5M", "size=5k", "--seeds", "2"),
)
LIMIT_S = 300.0
GONE_LIMIT_S = 20.0
STOPPED, RUNNING, GONE = ("T", "t"), ("R", "S", "D"), ("Z", "X", "")
"""States of processes."""
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000


class Wrong(Exception):
    """An invariant that does not hold."""


class Chaos:
    """One directory with a cache, the hashes of undisturbed runs, and results to be disturbed."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory, self.random = directory, random.Random(seed)
        self.results = directory / "results"
        self.cache = directory / "cache"
        self.known: dict[tuple[str, ...], dict[str, str]] = {}
        self.made: set[tuple[str, int]] = set()
        self.blows, self.exits, self.signals = Counter[str](), Counter[int](), Counter[str]()
        """Signals: those that took effect, and those that came too late."""
        self.can_mount = own_mounts()
        copy_cache(self.cache / "openbach-run")
        self.fresh()

    @property
    def runs(self) -> int:
        """How many have left a record."""
        return len(self.made)

    def fresh(self) -> None:
        if self.can_mount:
            if self.results.is_mount():
                subprocess.run(["umount", self.results], check=True)
            self.results.mkdir(exist_ok=True)
            self.mount("size=64m")
        else:
            shutil.rmtree(self.results, ignore_errors=True)

    def mount(self, *options: str) -> None:
        again = ("remount",) if self.results.is_mount() else ()
        words = [
            "mount",
            "-t",
            "tmpfs",
            "-o",
            ",".join([*again, *options]),
            "chaos",
            str(self.results),
        ]
        subprocess.run(words, check=True)

    # The command

    def start(
        self, campaign: tuple[str, ...], *more: str, results: Path | None = None
    ) -> subprocess.Popen[str]:
        words = [
            sys.executable,
            "-m",
            "openbach_run",
            *campaign,
            *more,
            "--results",
            str(results or self.results),
            "--quiet",
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY / "src"),
            "XDG_CACHE_HOME": str(self.cache),
        }
        return subprocess.Popen(
            words,
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=take_signals,
        )

    def end(
        self, command: subprocess.Popen[str], expected: set[int], words: tuple[str, ...] = ()
    ) -> str:
        """Return the command's stderr; check its exit code and words, and that nothing is left."""
        try:
            said = command.communicate(timeout=LIMIT_S)[1]
        except subprocess.TimeoutExpired:
            command.kill()
            raise Wrong(f"the command has not ended after {LIMIT_S:g} s") from None
        code = command.returncode
        self.exits[code] += 1
        files = [
            *self.results.glob("runs/*/record.json"),
            *self.directory.glob("undisturbed-*/runs/*/record.json"),
        ]
        self.made |= {(str(file), file.stat().st_mtime_ns) for file in files}
        ours = (
            "Traceback" in said and str(REPOSITORY / "src") in said
        )  # the interpreter's own start is not
        if code not in expected or ours:
            raise Wrong(f"exit code {code}, expected {sorted(expected)}; it said:\n{said}")
        if code > 0 and not (words and any(word in said for word in words)):
            raise Wrong(f"exit code {code} without one of {words}; it said:\n{said}")
        end_s = time.monotonic() + GONE_LIMIT_S
        while left := self.processes():
            if time.monotonic() > end_s:
                raise Wrong(f"processes left: {left}")
            time.sleep(0.05)
        return said

    def processes(self) -> dict[int, str]:
        """Those that have this directory in their command line, this script apart."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    line = (
                        (entry / "cmdline")
                        .read_bytes()
                        .replace(b"\0", b" ")
                        .decode(errors="replace")
                    )
                    if (
                        str(self.directory) in line
                        and (entry / "stat").read_text().rsplit(") ", 1)[1][0] != "Z"
                    ):
                        found[int(entry.name)] = line[:200]
        return found

    def guests(self) -> list[int]:
        return [number for number, line in self.processes().items() if "rootfstype=hostfs" in line]

    def wait_for_guest(self, command: subprocess.Popen[str]) -> int | None:
        """One of its guests, as soon as there is one; None if the command ended first."""
        while command.poll() is None:
            if guests := self.guests():
                return self.random.choice(guests)
            time.sleep(0.02)
        return None

    # Records

    def good(self, results: Path | None = None) -> dict[str, str]:
        """Capture hashes of the records that are whole and Finished Ok, by run_id."""
        found = {}
        for file in ((results or self.results) / "runs").glob("*/record.json"):
            with contextlib.suppress(ValueError, KeyError):
                record = json.loads(file.read_text())
                if not file.parent.suffix and record["status"] == "Finished Ok":
                    found[file.parent.name] = record["capture_hash"]
        return found

    def expect_kept(self, before: dict[str, str]) -> None:
        now = self.good()
        if lost := {
            name: (sha, now.get(name)) for name, sha in before.items() if now.get(name) != sha
        }:
            raise Wrong(f"good records lost or altered: {lost}")

    def reference(self, campaign: tuple[str, ...]) -> dict[str, str]:
        if campaign not in self.known:
            place = self.directory / f"undisturbed-{len(self.known)}"
            self.end(self.start(campaign, results=place), {0})
            self.known[campaign] = self.good(place)
        return self.known[campaign]

    def complete(self, campaign: tuple[str, ...]) -> None:
        """The same command again: all is there and as it would be without the blow."""
        before, wanted = self.good(), self.reference(campaign)
        self.end(self.start(campaign), {0})
        self.expect_kept(before)
        now = {name: sha for name, sha in self.good().items() if name in wanted}
        if now != wanted:
            raise Wrong(f"captures differ from an undisturbed run: {now} instead of {wanted}")
        if left := [
            path.name
            for path in (self.results / "runs").iterdir()
            if path.suffix in (".unfinished", ".replaced")
        ]:
            raise Wrong(f"left: {left}")

    def blow(self, name: str, campaign: tuple[str, ...]) -> None:
        self.reference(campaign)
        if self.random.random() < 0.5:
            self.fresh()
        before = self.good()
        BLOWS[name](self, campaign)
        if name != "damaged record":
            self.expect_kept(before)
        self.complete(campaign)
        self.blows[name] += 1


# Blows: each leaves the results as a user would find them


def take_signals() -> None:
    """Take the signals that this script's shell ignores.

    A shell ignores SIGINT for what runs in the background, and children would ignore it, too.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))


def send(chaos: Chaos, number: signal.Signals, process: int, done: Callable[[], bool]) -> None:
    """Sends a signal, unless the process has ended.

    Raises Wrong if it has no effect: `done` says whether it had.
    """
    status = Path(f"/proc/{process}/status")
    try:
        ignored = int(status.read_text().split("SigIgn:")[1].split()[0], 16)
        if ignored >> (number - 1) & 1:
            raise Wrong(f"{number.name} is ignored by process {process}")
        os.kill(process, number)
    except (FileNotFoundError, ProcessLookupError, IndexError):
        chaos.signals[f"{number.name} too late"] += 1
        return
    end_s = time.monotonic() + LIMIT_S
    while not done():
        if time.monotonic() > end_s:
            raise Wrong(f"{number.name} to process {process} had no effect within {LIMIT_S:g} s")
        time.sleep(0.01)
    chaos.signals[number.name] += 1


def is_one_of(process: int, states: tuple[str, ...]) -> bool:
    """Whether a process is in one of these states, as the kernel names them.

    "" is that of one that is gone.
    """
    state = ""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1][0]
    return state in states


def stopped_by(number: signal.Signals, *more: str) -> Callable[[Chaos, tuple[str, ...]], None]:
    def blow(chaos: Chaos, campaign: tuple[str, ...]) -> None:
        command = chaos.start(campaign, *more)
        if chaos.random.random() < 0.8:  # otherwise while it still plans
            chaos.wait_for_guest(command)
        with contextlib.suppress(subprocess.TimeoutExpired):
            command.wait(chaos.random.uniform(0, 1.5))
        before = chaos.signals[number.name]
        running: list[list[int]] = []

        def has_ended() -> bool:
            if not running:
                running.append(chaos.guests())
            return is_one_of(command.pid, GONE)

        if command.poll() is None:
            send(chaos, number, command.pid, has_ended)
        # a signal before Python has its handlers ends the process as any other
        chaos.end(command, {0, 130, -number}, ("openbach-run: interrupted",))
        if running and running[0] and command.returncode == 0:
            raise Wrong(f"{number.name} came while a guest ran, and the command went on to its end")
        if (
            chaos.signals[number.name] > before and command.returncode == 0
        ):  # it came as all was done already
            chaos.signals[number.name] -= 1
            chaos.signals[f"{number.name} too late"] += 1

    return blow


def paused(chaos: Chaos, campaign: tuple[str, ...]) -> None:
    command = chaos.start(campaign, "--rerun")
    guest = chaos.wait_for_guest(command)
    for number in (command.pid, guest):
        if number is not None:
            send(chaos, signal.SIGSTOP, number, partial(is_one_of, number, (*STOPPED, *GONE)))
            time.sleep(chaos.random.uniform(0.1, 1))
            send(chaos, signal.SIGCONT, number, partial(is_one_of, number, (*RUNNING, *GONE)))
    chaos.end(command, {0})


def guest_killed(chaos: Chaos, campaign: tuple[str, ...]) -> None:
    command = chaos.start(campaign, *chaos.random.choice(((), ("--rerun",))))
    guest = chaos.wait_for_guest(command)
    if guest is not None:
        send(chaos, signal.SIGKILL, guest, partial(is_one_of, guest, GONE))
    chaos.end(command, {0, 1}, ("its record: ",))


def full_disk(chaos: Chaos, campaign: tuple[str, ...]) -> None:
    used_bytes = sum(file.stat().st_blocks * 512 for file in chaos.results.rglob("*"))
    chaos.mount(f"size={used_bytes + chaos.random.choice((200_000, 1_300_000, 1_500_000))}")
    chaos.end(
        chaos.start(campaign, "--rerun"), {0, 1, 2}, ("No space left on device", "its record: ")
    )
    chaos.mount("size=64m")


def read_only(chaos: Chaos, campaign: tuple[str, ...]) -> None:
    chaos.mount("ro")
    chaos.end(
        chaos.start(campaign),
        {2},
        ("results cannot be written there: Read-only file system; --results DIR",),
    )
    chaos.mount("rw", "size=64m")


def damaged_cache(chaos: Chaos, campaign: tuple[str, ...]) -> None:
    """Of what is made again in seconds: the code of a run, the proxy."""
    places = [
        place
        for kind in ("code", "satpep")
        for place in sorted(chaos.cache.glob(f"openbach-run/{kind}-*"))
    ]
    entries = {
        place: files
        for place in places
        if (files := sorted(file for file in place.rglob("*") if file.is_file()))
    }
    for (
        entry,
        files,
    ) in entries.items():  # one that no run here uses may have lost its only file before
        file = chaos.random.choice(files)
        match chaos.random.choice(("edited", "truncated", "missing", "added")):
            case "edited":
                file.write_bytes(file.read_bytes() + b"\n# edited\n")
            case "truncated":
                os.truncate(file, file.stat().st_size // 2)
            case "missing":
                file.unlink()
            case "added":
                (entry / "sitecustomize.py").write_text("raise SystemExit\n")
    said = chaos.end(chaos.start(campaign, "--rerun"), {0})
    if "is damaged (" not in said or "making it again" not in said:
        raise Wrong(f"damage in {[*entries]} was not told; the command said:\n{said}")


def damaged_record(chaos: Chaos, campaign: tuple[str, ...]) -> None:
    chaos.end(chaos.start(campaign), {0})
    run_id = chaos.random.choice(sorted(chaos.reference(campaign)))
    file = chaos.results / "runs" / run_id / "record.json"
    match chaos.random.choice(("empty", "half", "garbage", "missing")):
        case "empty":
            file.write_text("")
        case "half":
            os.truncate(file, file.stat().st_size // 2)
        case "garbage":
            file.write_bytes(chaos.random.randbytes(200))
        case "missing":
            file.unlink()


BLOWS: dict[str, Callable[[Chaos, tuple[str, ...]], None]] = {
    "SIGTERM": stopped_by(signal.SIGTERM),
    "SIGINT": stopped_by(signal.SIGINT),
    "SIGKILL": stopped_by(signal.SIGKILL),
    "SIGKILL while runs are repeated": stopped_by(signal.SIGKILL, "--rerun"),
    "SIGSTOP and SIGCONT": paused,
    "guest killed": guest_killed,
    "full disk": full_disk,
    "read-only disk": read_only,
    "damaged cache": damaged_cache,
    "damaged record": damaged_record,
}
NEED_MOUNTS = ("full disk", "read-only disk")


def own_mounts() -> bool:
    """A mount namespace of this process's own; False without the right to one."""
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(
        libc.unshare(CLONE_NEWNS) == 0
        and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
    )


def copy_cache(place: Path) -> None:
    """What runs need; the shared one is never touched."""
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openbach-run"
    place.mkdir(parents=True)
    for entry in own.glob("*"):
        if entry.name.startswith(("kernel-", "image-", "satpep-")) and not entry.name.endswith(
            (".lock", ".unfinished")
        ):
            subprocess.run(["cp", "-a", str(entry), str(place)], check=True)


def blows(chaos: Chaos) -> Iterator[str]:
    """Each once, then by chance."""
    able = [name for name in BLOWS if chaos.can_mount or name not in NEED_MOUNTS]
    yield from chaos.random.sample(able, len(able))
    while True:
        yield chaos.random.choice(able)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=1000, help="how many runs at least (default 1000)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of what is thrown and when (default 1)"
    )
    parser.add_argument(
        "--seconds", type=float, help="end after that time, whatever the number of runs"
    )
    parser.add_argument(
        "--campaigns", type=int, default=len(CAMPAIGNS), help="how many of the campaigns"
    )
    arguments = parser.parse_args(argv)
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        chaos = Chaos(Path(directory), arguments.seed)
        if not chaos.can_mount:
            print(f"left out, as they need root: {', '.join(NEED_MOUNTS)}", flush=True)
        try:
            for name in blows(chaos):
                campaign = chaos.random.choice(CAMPAIGNS[: arguments.campaigns])
                try:
                    chaos.blow(name, campaign)
                except Wrong as wrong:
                    print(
                        f"WRONG after {name} on {' '.join(campaign)} (seed {arguments.seed}):"
                        f" {wrong}",
                        file=sys.stderr,
                    )
                    return 1
                passed_s = time.monotonic() - start_s
                print(
                    f"{passed_s:6.0f} s, {chaos.runs:5} runs: {name}: {' '.join(campaign)}",
                    flush=True,
                )
                done = sum(chaos.blows.values()) >= len(BLOWS) - (
                    0 if chaos.can_mount else len(NEED_MOUNTS)
                )
                if done and (
                    chaos.runs >= arguments.runs
                    or (arguments.seconds and passed_s > arguments.seconds)
                ):
                    break
        finally:
            if chaos.can_mount and chaos.results.is_mount():
                subprocess.run(["umount", chaos.results], check=False)
    thrown = ", ".join(f"{count} {name}" for name, count in sorted(chaos.blows.items()))
    ended = ", ".join(f"{count} with {code}" for code, count in sorted(chaos.exits.items()))
    arrived = ", ".join(f"{count} {name}" for name, count in sorted(chaos.signals.items()))
    print(
        f"{chaos.runs} runs, nothing lost, nothing left. Thrown: {thrown}. The command ended"
        f" {ended}."
    )
    print(f"Signals that took effect: {arrived}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
