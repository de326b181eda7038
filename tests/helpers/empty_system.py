# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle where there is nothing else: no shell, no C library, no Python, no network."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openbach_run.engine.virtual.debian import ensure_tools

NOBODY = "65534"


@contextmanager
def an_empty_home() -> Iterator[Path]:
    """Yield a directory in which an ordinary user may write."""
    with tempfile.TemporaryDirectory(prefix="openbach-run-test-") as name:
        place = Path(name)
        place.chmod(0o777)
        yield place


def in_an_empty_system(
    bundle: Path, home: Path, *words: str, artifact: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a bundle as an ordinary user in an empty root directory, with an artifact as /artifact."""
    ensure_tools({"bwrap": "bubblewrap", "setpriv": "util-linux"})
    user = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]
    empty = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--proc", "/proc"]
    empty += ["--dev", "/dev", "--tmpfs", "/tmp", "--bind", str(home), "/home", "--chdir", "/home"]
    empty += ["--ro-bind", str(bundle), "/openbach"]
    if artifact is not None:
        empty += ["--ro-bind", str(artifact), "/artifact"]
    empty += ["--clearenv", "--setenv", "HOME", "/home", "/openbach"]
    return subprocess.run([*user, *empty, *words], check=False, capture_output=True, text=True)
