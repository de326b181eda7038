# SPDX-License-Identifier: GPL-3.0-or-later
"""The boundary around a guest: its kernel reaches nothing of the host but a run's files.

kernel/jail/jail.c starts the kernel. It sees the guest tree and the code (read-only) and the
directory of the run. docs/developers/boundary.md describes the boundary, and the attacks that were
tried.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from openbach_run.engine.virtual.cache import content_hash, made_once
from openbach_run.engine.virtual.debian import ensure_tools, run
from openbach_run.errors import SetupError
from openbach_run.progress import Progress

FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-static")
VARIABLE = "OPENBACH_RUN_JAIL"
MODES = ("namespaces", "landlock")
"""The ways to hide the host's files, the better first."""
NONE = "none"
EXIT_LIMIT = 124
"""Exit code of a jail whose guest has passed a limit (kernel/jail/limits.c)."""

NO_NAMESPACES = "this host lets nobody make namespaces"
PARTIAL = (
    "guests are kept from the host's files by Landlock alone. They read and change none of them,"
    " but code that takes over a guest's kernel can find out whether a path exists, its size,"
    " its dates and where a symbolic link leads"
)
UNJAILED = (
    f"{VARIABLE}={NONE}: guests are not kept from this user's files; run nobody else's scenarios"
    " and jobs"
)
# A backslash at the end of a line joins it with the next one: commands stay on one line.
HOW_TO_ALLOW = f"""\
Either of two means is enough. Allow one of them:
  namespaces   sudo sysctl kernel.unprivileged_userns_clone=1            (Debian, where it is 0)
               sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0  (Ubuntu 23.10 and later)
               docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined …  \
 (a container)
  Landlock     a kernel of Linux 6.12 or later with landlock in its list of security modules\
 (boot with lsm=landlock,…)
or, if all scenarios and jobs that you run are your own, run without a boundary:\
 {VARIABLE}={NONE}"""


@dataclass(frozen=True)
class Jail:
    """A launcher and the mode in which it works on this host."""

    launcher: Path
    mode: str

    def command(
        self, cpu: int, root: Path, code: Path, run_dir: Path, kernel: Path, *arguments: str
    ) -> list[str]:
        """Return the command line that starts `kernel`, pinned to `cpu`, with the three places.

        It dies with the thread that starts it. Descriptor 3 is /dev/null; 0 to 2 are passed on.
        """
        return [
            str(self.launcher),
            self.mode,
            str(cpu),
            *map(str, (root, code, run_dir, kernel)),
            *arguments,
        ]

    def build(
        self, out: Path, readable: Sequence[Path], command: Sequence[str], *, network: bool
    ) -> list[str]:
        """Return the command line that runs `command`; it reads `readable` and writes `out`."""
        options = ["--build", str(out), *(["--network"] if network else []), *map(str, readable)]
        return [str(self.launcher), self.mode, *options, "--", *command]


def ensure_jail(cache: Path, kernel_dir: Path, progress: Progress) -> Jail:
    """The jail, built into `cache` if it is not there, in the best mode that this host has.

    Raises SetupError where it has none, and the user has not said that there is to be none; says
    once what is missing where it is not the best.
    """
    sources = sorted((kernel_dir / "jail").glob("*.[ch]"))

    def make(place: Path) -> None:
        ensure_tools()
        progress("building the jail", 0)
        units = [str(file) for file in sources if file.suffix == ".c"]
        run(["gcc", *FLAGS, *units, "-o", str(place / "jail")], "building the jail")

    launcher = made_once(cache / f"jail-{content_hash(sources, kernel_dir, *FLAGS)}", make) / "jail"
    wanted = os.environ.get(VARIABLE) or "best"
    mode = _mode(launcher, wanted)
    if mode == NONE:
        _say_once(UNJAILED)
    elif mode != MODES[0]:
        _say_once(f"{f'{VARIABLE}={wanted}' if mode == wanted else NO_NAMESPACES}: {PARTIAL}")
    return Jail(launcher, mode)


@cache
def _mode(launcher: Path, wanted: str) -> str:
    if wanted == NONE:
        return NONE
    if wanted not in (*MODES, "best"):
        raise SetupError(f"{VARIABLE}={wanted}: none of {', '.join((*MODES, NONE))}")
    reasons = []
    for mode in MODES if wanted == "best" else [wanted]:
        if (reason := _why_not(launcher, mode)) is None:
            return mode
        reasons.append(f"  {mode}: {reason}")
    raise SetupError(
        "\n".join(
            ["this host has no means to keep a guest from your files:", *reasons, HOW_TO_ALLOW]
        )
    )


def _why_not(launcher: Path, mode: str) -> str | None:
    """Return why a mode does not work, tried with the launcher in place of the kernel, or None."""
    cpu, place = min(os.sched_getaffinity(0)), launcher.parent
    tried = _run(Jail(launcher, mode).command(cpu, place, place, place, launcher, "--inside"))
    return (
        None if tried.returncode == 0 else tried.stderr.strip() or f"ended with {tried.returncode}"
    )


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
    )


@cache
def _say_once(text: str) -> None:
    print(f"openbach-run: {text}", file=sys.stderr, flush=True)
