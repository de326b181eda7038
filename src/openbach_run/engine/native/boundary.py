# SPDX-License-Identifier: GPL-3.0-or-later
"""The namespaces of a native run: how they are started, and what the host's kernel has in them.

enter.py starts them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from openbach_run.engine.native.enter import CANNOT, ROOT, USER
from openbach_run.engine.native.features import FEATURES
from openbach_run.errors import SetupError

PROGRAM = Path(__file__).with_name("enter.py")
VARIABLE = "OPENBACH_RUN_NATIVE"
"""Variable that names the mode to try; without it the first that works."""
MODES = (USER, ROOT)
LIMIT_S = 30
CONGESTION_CONTROLS = "/proc/sys/net/ipv4/tcp_available_congestion_control"
CONGESTION_CONTROL = "/proc/sys/net/ipv4/tcp_congestion_control"
HOW_TO_ALLOW = """\
Allow one of them:
  user     sudo sysctl kernel.unprivileged_userns_clone=1              (Debian, where it is 0)
           sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0  (Ubuntu 23.10 and later)
           sudo sysctl user.max_user_namespaces=10000                  (where it is 0)
  root     run the command as root"""


@dataclass(frozen=True)
class Boundary:
    """The mode in which enter.py works here."""

    mode: str

    def command(
        self, cgroup: str, root: Path, code: Path, run_dir: Path, *program: str
    ) -> list[str]:
        """Return the command line that runs `program` until its standard input is closed."""
        # Absolute, since enter.py changes its directory.
        places = (str(place.absolute()) for place in (root, code, run_dir))
        return [sys.executable, "-SE", str(PROGRAM), self.mode, cgroup, *places, *program]


@dataclass(frozen=True)
class Host:
    """The abilities of this host's kernel: names of FEATURES, and of congestion controls."""

    features: frozenset[str]
    congestion_controls: frozenset[str]

    @property
    def lacking(self) -> list[str]:
        """Return the names of FEATURES that this kernel does not have."""
        return [name for name in FEATURES if name not in self.features]


def ensure_boundary(root: Path) -> Boundary:
    """Return the boundary in the first mode that this host allows.

    Raises SetupError, which says why none works.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted not in (None, "", *MODES):
        raise SetupError(f"{VARIABLE}={wanted}: none of {', '.join(MODES)}")
    reasons = []
    for mode in [wanted] if wanted else MODES:
        done = _run(Boundary(mode), root, "/usr/bin/true")
        if done.returncode == 0:
            return Boundary(mode)
        reasons.append(f"  {mode}: {done.stderr.strip() or f'ended with {done.returncode}'}")
    raise SetupError(
        "\n".join(
            ["this host lets nobody make the namespaces of a native run:", *reasons, HOW_TO_ALLOW]
        )
    )


@cache
def host(boundary: Boundary, root: Path) -> Host:
    """Return the abilities of this host, found by trying in namespaces like those of a run.

    Raises SetupError.
    """
    tried = [f"( {command} ) > /dev/null 2>&1 && echo {name}" for name, command in FEATURES.items()]
    controls = (
        f"for cc in $(cat {CONGESTION_CONTROLS}); do echo $cc 2> /dev/null > {CONGESTION_CONTROL}"
        " && echo cc $cc; done"
    )
    script = "\n".join(["ip link set lo up", *tried, f"( {controls} ) 2> /dev/null", "true"])
    done = _run(boundary, root, "/bin/sh", "-c", script)
    if done.returncode:
        raise SetupError(
            f"trying what this host's kernel has: {done.stderr.strip() or done.stdout.strip()}"
        )
    lines = done.stdout.splitlines()
    controls_found = {line.removeprefix("cc ") for line in lines if line.startswith("cc ")}
    return Host(frozenset(lines) & FEATURES.keys(), frozenset(controls_found))


def _run(boundary: Boundary, root: Path, *program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the boundary, with empty directories for the run and the code."""
    with tempfile.TemporaryDirectory(prefix="openbach-run-") as name:
        command: Sequence[str] = boundary.command("", root, Path(name), Path(name), *program)
        with subprocess.Popen(
            command,
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as started:
            # communicate() would close its standard input at once, which ends it
            assert started.stdin and started.stdout and started.stderr
            try:
                code = started.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                started.terminate()
                code = CANNOT
            return subprocess.CompletedProcess(
                command, code, started.stdout.read(), started.stderr.read()
            )
