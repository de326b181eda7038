# SPDX-License-Identifier: GPL-3.0-or-later
"""The native engine: runs in namespaces of this machine's own kernel.

Director, jobs and guest tree are those of the virtual engine. Time is real and the CPU costs what
it costs here. The run's directory is /run/openbach in there. There is no capture.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from openbach_run.clock import REAL
from openbach_run.engine.contract import OnEvent, Outcome
from openbach_run.engine.local import LocalEngine
from openbach_run.engine.native import cpu as cpu_time
from openbach_run.engine.native.boundary import Boundary, Host, ensure_boundary, host
from openbach_run.engine.native.enter import remove
from openbach_run.engine.virtual.outcome import outcome_of
from openbach_run.guest.main import HOST_KERNEL
from openbach_run.progress import Progress

MAIN = (
    "import sys; sys.path.insert(0, '/opt/openbach-run/src'); from openbach_run.guest import init;"
    " init.link_jobs(); from openbach_run.guest.main import main; sys.exit(main())"
)
PYTHON = ("/usr/bin/python3", "-SB", "-c", MAIN)


class NativeEngine(LocalEngine):
    """The engine that runs on this machine's own kernel.

    One run at a time: runs share this machine's CPUs.
    """

    boundary: Boundary
    """Boundary that keeps runs apart from this machine, once prepared."""

    def _prepare_kernel(self, progress: Progress) -> None:
        tree = self.tree()
        with self._downloaded([tree.entry], progress):
            self.image = tree.ensure(progress)
        self.boundary = ensure_boundary(self.image.root)

    def _modules(self, progress: Progress) -> dict[str, Path]:
        return {}

    def _kernel_identity(self) -> dict[str, str]:
        """Return the kernel and the CPU of this machine: results are theirs."""
        kernel = f"{platform.release()} {platform.version()}"
        return {
            "engine": HOST_KERNEL,
            "clock": REAL,
            "kernel": kernel,
            "cpu": cpu_model(),
            "mode": self.boundary.mode,
        }

    @property
    def _differing_kernel(self) -> str:
        return ""  # it is no package of debian.lock

    @property
    def host(self) -> Host:
        """The abilities of this host's kernel, once prepared."""
        return host(self.boundary, self.image.root)

    def _end(self, guest: subprocess.Popen[bytes]) -> None:
        guest.terminate()  # enter.py ends the rest, and removes what it has made

    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: OnEvent) -> Outcome:
        """Execute `spec` in `run_dir`; returns when all of it has ended."""
        (run_dir / "run.json").write_text(json.dumps(spec))
        started = time.monotonic()
        cgroup = cpu_time.new_cgroup()
        command = self.boundary.command(cgroup, self.image.root, self.code, run_dir, *PYTHON)
        kept_open, lives = os.pipe()
        try:
            with (run_dir / "console.log").open("xb") as console:
                guest = self._started(command, stdin=kept_open, stdout=console)
            watch = cpu_time.Watch(guest.pid, cgroup)

            def on_each_event(event: Mapping[str, Any]) -> None:
                watch.on_event(event)
                on_event(event)

            try:
                ended_why = self._watch(guest, run_dir, on_each_event)
            finally:
                watch.stop()
        finally:
            os.close(kept_open)
            os.close(lives)
            if cgroup:
                remove(cgroup)  # of a run whose keeper was killed
        ended_why = self._tidy(run_dir, spec) or ended_why
        wall_s = time.monotonic() - started
        outcome = outcome_of(run_dir, wall_s, "", ended_why, guest.returncode)
        if outcome.error is None:
            cpu_time.send(run_dir, watch.windows)
        return outcome


def cpu_model() -> str:
    """Return the CPU's name from /proc/cpuinfo; "" where it has none."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"{len(os.sched_getaffinity(0))} CPUs of {line.partition(':')[2].strip()}"
    return platform.machine()
