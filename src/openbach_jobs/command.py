# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that a job runs on its host, and its waits for a state.

    run       asks: returns what the command printed
    change    changes the host: the same, and the command is recorded
    undo      takes a change back, as far as it is there
    started   a program in the background, ended with the block
    wait_for  returns as soon as the host is in a state

`contextlib.ExitStack` undoes several things in reverse order.

A command that fails and a state that does not come end the job and say which.

The record of the changes is a shell script, ready to paste: where OPENBACH_RUN_COMMANDS names a
file, each change is appended to it for the host OPENBACH_RUN_HOST, with the seconds since
OPENBACH_RUN_BEGAN_NS. Keys never are in it: they are in files.
"""

from __future__ import annotations

import fcntl
import os
import select
import shlex
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

LIMIT_S = 60.0
RETRY_S = 0.1
LINKS, ROUTES = 0x1, 0x40
"""Groups of netlink that tell changes (RTMGRP_LINK, RTMGRP_IPV4_ROUTE of linux/rtnetlink.h)."""
CLOCK_MONOTONIC_COARSE = 6
"""Number of the clock in linux/time.h; Python has no name for it."""
SYSCTLS = "/proc/sys/"
ENGINES_OWN = "openbach_run.guest.iproute"
SIOCGIFMTU = 0x8921
"""Number of the ioctl that reads an MTU (linux/sockios.h).

A read of /sys by `open` would make calls that fail, and those take virtual time."""
TCP_INFO_BYTES, TCPI_OPTIONS_AT, TCPI_SND_MSS_AT = 104, 5, 16
"""Length of struct tcp_info of linux/tcp.h in bytes, and the places of two of its fields."""
TCPI_OPT_TIMESTAMPS, TIMESTAMPS_BYTES = 1, 12
"""Bit of tcpi_options for timestamps, and the bytes they take of a segment beside tcpi_snd_mss."""
WRONG_FIGURES = 70
"""Exit code of a job whose measurement is wrong (EX_SOFTWARE of sysexits.h). The engine fails a run
for it where the job was asked to stop, too, which any other exit code would not do."""


class NeedsProcess(BaseException):
    """Raised where a job that runs as a thread has to begin anew as a process."""


def need_process() -> None:
    """Say that what follows needs a process of its own, as handlers of signals do.

    Nothing on the host may have been changed before. Raises NeedsProcess in a thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise NeedsProcess


def interface_mtu(name: str) -> int:
    """Return the MTU of one of this host's interfaces in bytes. Ends the job if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
        try:
            answer = fcntl.ioctl(asks, SIOCGIFMTU, struct.pack("16si12x", name.encode(), 0))
        except OSError as error:
            sys.exit(f"interface {name}: {error.strerror}")
    return int(struct.unpack("16si12x", answer)[1])


def segment_bytes(connection: socket.socket) -> int:
    """Return the segment size (MSS) that TCP sends with, its options included."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    (segment,) = struct.unpack_from("=I", info, TCPI_SND_MSS_AT)
    return int(segment) + (TIMESTAMPS_BYTES if info[TCPI_OPTIONS_AT] & TCPI_OPT_TIMESTAMPS else 0)


def run(
    *words: str,
    lines: Sequence[str] = (),
    text: str | None = None,
    environment: Mapping[str, str] | None = None,
    limit_s: float | None = None,
) -> str:
    """Run a command and return what it prints.

    The command reads `text`, or `lines` as a batch (of ip or tc); `environment` is added to its
    own. If it fails, or does not end in time, the job ends with the command's own words.
    """
    words, text = batch(words, lines, text)
    try:
        done = ended(words, text, environment, limit_s)
    except subprocess.TimeoutExpired:
        sys.exit(f"{' '.join(words)} did not end in {limit_s:g} s")
    except FileNotFoundError:
        sys.exit(f"{words[0]} is not installed on this host")
    if done.returncode:
        reason = done.stderr.strip() or done.stdout.strip()
        read = f"; its input was:\n{text}" if text else ""
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}: {reason}{read}")
    return done.stdout


def change(*words: str, lines: Sequence[str] = (), text: str | None = None) -> str:
    """Run a command that changes the host, and record it once it has been done."""
    printed = run(*words, lines=lines, text=text)
    record(*words, lines=lines, text=text)
    return printed


def undo(
    *words: str, lines: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> None:
    """Run a command that takes a change back, and ignore its failure.

    What it removes may not be there.
    """
    words, text = batch((*words, *(["-force"] if lines else [])), lines, None)
    with suppress(FileNotFoundError):
        ended(words, text, environment)


def ended(
    words: Sequence[str],
    text: str | None,
    environment: Mapping[str, str] | None = None,
    limit_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. Raises FileNotFoundError, subprocess.TimeoutExpired.

    An engine may do it without starting a program.
    """
    if (own := sys.modules.get(ENGINES_OWN)) and (done := own.done(words, text)):
        return done  # type: ignore[no-any-return]
    return subprocess.run(
        words,
        check=False,
        capture_output=True,
        text=True,
        input=text,
        timeout=limit_s,
        env=_with(environment),
    )


def _with(environment: Mapping[str, str] | None) -> dict[str, str] | None:
    return {**os.environ, **environment} if environment else None


def batch(
    words: tuple[str, ...], lines: Sequence[str], text: str | None
) -> tuple[tuple[str, ...], str | None]:
    """Return the command and its input."""
    return ((*words, "-batch", "-"), "\n".join(lines)) if lines else (words, text)


def figures_are_wrong(why: str) -> NoReturn:
    """End the job, and fail the run, though it may end anyway."""
    print(why, file=sys.stderr)
    raise SystemExit(WRONG_FIGURES)


def write(file: Path, value: str) -> None:
    """Write one of the kernel's settings; ends the job if the kernel does not take it.

    Recorded.
    """
    try:
        file.write_text(value)
    except OSError as error:
        sys.exit(f"{file}: writing {value!r}: {error.strerror}")
    if (read := file.read_text().split()) != value.split():
        sys.exit(f"{file} is {' '.join(read)!r} after writing {value!r}")
    name = str(file)
    if name.startswith(SYSCTLS):
        record("sysctl", "-qw", f"{name.removeprefix(SYSCTLS)}={value}")
    else:
        record("sh", "-c", f"echo {shlex.quote(value)} > {name}")


@contextmanager
def started(
    *words: str,
    environment: Mapping[str, str] | None = None,
    recorded: bool = False,
    **options: Any,
) -> Iterator[subprocess.Popen[Any]]:
    """Return a program in the background; `options` are those of subprocess.Popen.

    The block's end ends it and waits for that.
    """
    try:
        program = subprocess.Popen(words, env=_with(environment), **options)
    except FileNotFoundError:
        sys.exit(f"{words[0]} is not installed on this host")
    if recorded:
        record(*words, after=" &")
    try:
        yield program
    finally:
        program.terminate()
        program.wait()


def wait_for(
    what: str,
    state: Callable[[], T | None],
    limit_s: float = LIMIT_S,
    *,
    told_by: int = 0,
    retry_s: float = RETRY_S,
    evidence: Callable[[], str] = str,
) -> T:
    """Wait until `state` returns something true, and return that.

    It is called again when the kernel reports a change of `told_by` (LINKS, ROUTES), or every
    `retry_s` where nothing reports it. After `limit_s` the job ends: `what` says what has not come,
    then follows `evidence`.
    """
    end_s = time.monotonic() + limit_s
    with _changes(told_by) as changes:
        while not (met := state()):
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                sys.exit(f"{what} after {limit_s:g} s{evidence()}")
            if changes is None:
                time.sleep(retry_s)
            elif select.select([changes], [], [], left_s)[0]:
                with suppress(OSError):  # more was told than fits its buffer
                    changes.recv(1 << 16)
    return met


@contextmanager
def _changes(groups: int) -> Iterator[socket.socket | None]:
    if not groups:
        yield None
        return
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as changes:
        changes.bind((0, groups))
        yield changes


def record(
    *words: str,
    lines: Sequence[str] = (),
    text: str | None = None,
    environment: Mapping[str, str] | None = None,
    before: str = "",
    after: str = "",
) -> None:
    """Append a command to the record, if there is one; with shell words `before` and `after` it."""
    if name := os.environ.get("OPENBACH_RUN_COMMANDS"):
        now_ns = time.clock_gettime_ns(
            CLOCK_MONOTONIC_COARSE
        )  # reading a finer clock would take virtual time
        time_s = (now_ns - int(os.environ["OPENBACH_RUN_BEGAN_NS"])) / 1e9
        words, text = batch(words, lines, text)
        known = (
            ["env", *(f"{key}={value}" for key, value in environment.items())]
            if environment
            else []
        )
        typed = before + pasted(
            [*known, *words], text, os.environ["OPENBACH_RUN_HOST"], f"{after}  # {time_s:.2f} s"
        )
        file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, typed.encode())  # one write, so that those of several jobs never mix
        finally:
            os.close(file)


def pasted(words: Sequence[str], text: str | None, host: str | None, after: str = "") -> str:
    """Return a command with its input, as one types it for a host that is a network namespace."""
    place = ("ip", "netns", "exec", host) if host else ()
    reads, document = (" << 'EOF'", f"\n{text.strip()}\nEOF") if text else ("", "")
    return f"{shlex.join([*place, *words])}{reads}{after}{document}\n"
