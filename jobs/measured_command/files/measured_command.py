# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job measured_command: runs a command, and sends the numbers that it has printed.

What is looked for is said in openbach_jobs/measured.py. The command is a shell's. The job fails if
it ends with another exit code than 0 (unless that is measured), prints more than MOST_BYTES, takes
longer than its limit, or if nothing fits. When the job is stopped, the command is ended, and what
it has printed until then counts.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import collect_agent

from openbach_jobs import limits
from openbach_jobs.command import figures_are_wrong, record
from openbach_jobs.measured import EXIT_CODE, SECONDS, Sought, numbers, sought

CONFIGURATION = "/opt/openbach/agent/jobs/measured_command/measured_command_rstats_filter.conf"
SHARED = "/home"
"""Directory in which commands run. In virtual time all hosts see the same directory there."""
SHELL = "/bin/sh"
ENVIRONMENT = {"HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb", "GODEBUG": "cpu.avx512vl=off"}
"""Variables besides PATH. The last is for people's own programs in Go 1.26: with AVX-512 its
garbage collector looks at the clock at other times."""
MOST_BYTES = 1 << 20
"""Most bytes that a command may print."""
READ_BYTES = 1 << 16
GRACE_S = 2
"""Seconds from SIGTERM to SIGKILL when the job is stopped."""
LIMITS = {"limit_s": (1, 1_000_000)}
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command")
    parser.add_argument("--measures", nargs="*", default=[], help="NAME=REGEX, …")
    parser.add_argument("--limit-s", type=int, default=7200, help="after which it is ended")
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    try:
        arguments.measures = [sought(text) for text in arguments.measures]
    except ValueError as error:
        parser.error(str(error))
    return arguments


class Command:
    """A command that runs, with a file of what it prints."""

    def __init__(self, arguments: argparse.Namespace, printed: Path) -> None:
        """Start it."""
        self.text, self.printed, self.is_stopped = arguments.command, printed, False
        self.limit_s: int = arguments.limit_s
        self.begin_s = time.monotonic()
        self.process = subprocess.Popen(
            [SHELL, "-c", self.text],
            cwd=SHARED,
            env={"PATH": os.environ["PATH"], **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )

    def stop(self, *_: object) -> None:
        """End it because the job is stopped."""
        self.is_stopped = True
        signal.alarm(GRACE_S)
        self._kill(signal.SIGTERM)

    def kill(self, *_: object) -> None:
        """End it at once."""
        self._kill(signal.SIGKILL)

    def _kill(self, number: signal.Signals) -> None:
        """Send a signal to it, and to its children."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def wait(self) -> float:
        """Return how many seconds it took. Ends the job if that, or what it prints, is too much."""
        pipe, ended = self.process.stdout, os.pidfd_open(self.process.pid)
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
        awaited: set[Any] = {pipe, ended}
        size = 0
        with self.printed.open("wb") as file:
            # After its end its children may have the pipe; what it has printed itself is there.
            while ended in awaited:
                left_s = max(self.begin_s + self.limit_s - time.monotonic(), 0)
                ready, _, _ = select.select(awaited, (), (), left_s)
                if not ready:
                    self.kill()
                    sys.exit(f"`{self.text}` has not ended in {self.limit_s} s")
                while pipe in ready and (came := pipe.read(READ_BYTES)):
                    size += file.write(came)
                    if size > MOST_BYTES:
                        self.kill()
                        sys.exit(f"`{self.text}` has printed more than {MOST_BYTES} bytes")
                if pipe in ready and came == b"":
                    awaited.discard(pipe)
                awaited -= {ended} & {*ready}
        signal.alarm(0)
        self.process.wait()
        return time.monotonic() - self.begin_s


def measure(column: Sought, command: Command, seconds: float) -> list[float]:
    """Return the numbers of a column, which may be none. Ends the job if there should be one."""
    own = {SECONDS: seconds, EXIT_CODE: float(command.process.returncode)}
    values = [own[column.find]] if column.find in own else numbers(column, command.printed)
    if not values and not column.is_optional:
        figures_are_wrong(
            f"{column.name}: nothing that `{command.text}` has printed fits {column.find}"
        )
    return values


def main() -> None:
    """Run the job."""
    arguments = parse()
    command = Command(arguments, Path("printed").absolute())
    signal.signal(signal.SIGALRM, command.kill)
    for number in SIGNALS:
        signal.signal(number, command.stop)
    seconds = command.wait()
    print(command.printed.read_text(errors="replace"), end="")
    record(SHELL, "-c", command.text)
    finds = [column.find for column in arguments.measures]
    code = command.process.returncode
    if code and not command.is_stopped and EXIT_CODE not in finds:
        sys.exit(f"`{command.text}` ended with exit code {code}")
    for column in arguments.measures:
        for value in measure(column, command, seconds):
            sent: dict[str, Any] = {column.name: value}
            collect_agent.send_stat(collect_agent.now(), **sent)
    if not arguments.measures:
        collect_agent.send_stat(collect_agent.now(), seconds=seconds)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
