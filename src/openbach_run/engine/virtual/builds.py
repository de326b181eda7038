# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds of what jobs, VPNs and congestion controls bring as source.

That is other people's code, and so are their Makefiles: they run in the jail (kernel/jail/jail.c),
where they read the system's compilers and their own sources, write to one directory and have no
network, but for what a recipe names in a registry. Of what they leave only the regular files asked
for are taken.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from openbach_run.engine.virtual.jail import Jail
from openbach_run.errors import InputError, SetupError
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Progress
from openbach_run.results import run_files
from openbach_run.results.run_files import DamagedRecord

TOLD = re.compile(r"([\d.]+) (.+)")
"""Line of a builder's progress: the part done, and what it does."""
PASSED = re.compile(
    r"PATH|(http|https|no|all)_proxy|(HTTP|HTTPS|NO|ALL)_PROXY|SSL_CERT_(FILE|DIR)|GO(PROXY|SUMDB|NOSUMDB|PRIVATE|TOOLCHAIN)"
    r"|CARGO_(NET|HTTP)_\w+|RUSTUP_(HOME|TOOLCHAIN)|PIP_(CERT|INDEX_URL)"
)
"""Variables of this process that builds get: the others may be secrets."""
LAST_LINES = 200


@dataclass(frozen=True)
class Build:
    """A build in the jail, which writes to `out` only.

    `out` exists. `readable` is what the build reads beside the system's files. One from a
    `registry` has a network, and prints lines `<part done> <what>`.
    """

    jail: Jail
    out: Path
    readable: Sequence[Path]
    registry: bool = False

    def run(
        self, command: Sequence[str], title: str, progress: Progress, **environment: str
    ) -> None:
        """Run a command in `out`, and pass on its lines of progress.

        SetupError carries all else that it prints.
        """
        passed = {name: value for name, value in os.environ.items() if PASSED.fullmatch(name)}
        own = {"LC_ALL": "C", "HOME": str(self.out), "TMPDIR": str(self.out)}
        lines: list[str] = []
        with subprocess.Popen(
            self.jail.build(self.out, self.readable, command, network=self.registry),
            env={**passed, **own, **environment},
            cwd=self.out,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as building:
            assert building.stdout is not None
            try:
                for line in building.stdout:
                    if self.registry and (step := TOLD.fullmatch(line.strip())):
                        progress(f"{title}: {step[2]}", min(float(step[1]), 1))
                    else:
                        lines = [*lines[1 - LAST_LINES :], line]
            except BaseException:
                building.terminate()
                raise
        if building.returncode:
            raise SetupError(f"{title} failed: {''.join(lines).strip()}\n({shlex.join(command)})")

    def take(self, name: str, place: Path) -> None:
        """Copy a file that the build has made, as an executable one.

        SetupError if it has made none, or something else.
        """
        try:
            with (
                run_files.opened(self.out, name) as built,
                (place / Path(name).name).open("xb") as copy,
            ):
                shutil.copyfileobj(built, copy)
                os.fchmod(copy.fileno(), 0o755)
        except FileNotFoundError:
            listed = ", ".join(sorted(file.name for file in self.out.iterdir())) or "nothing"
            raise SetupError(f"it should make {name}, and makes {listed}") from None
        except DamagedRecord as damage:
            raise SetupError(f"it should make {name}: {damage}") from None


def sources_of(folder: Path) -> list[Path]:
    """The folder, and what its links lead to.

    InputError for one that leads out of the directory that was added (three above the folder of a
    program, two above that of a module) and of this checkout: a build would read a file of the
    user's.
    """
    roots = [
        REPOSITORY.resolve(),
        *(parent.resolve() for parent in folder.absolute().parents[:4] if _is_added(parent)),
    ]
    places = [folder.absolute()]
    for place in _links(folder):
        target = place.resolve()
        if target.is_relative_to("/usr"):
            continue  # builds read that anyway
        if not any(target.is_relative_to(root) for root in roots):
            raise InputError(
                f"{place}: a link to {target}, which is not of the directory that was added"
            )
        places.append(target)
    return places


def _is_added(directory: Path) -> bool:
    return any(
        (directory / kind).is_dir()
        for kind in ("jobs", "congestion-controls", "quic-stacks", "vpn-configs", "peps")
    )


def _links(folder: Path) -> Iterable[Path]:
    for directory, subdirectories, names in os.walk(folder):
        places = (Path(directory) / name for name in (*subdirectories, *names))
        yield from (place for place in places if place.is_symlink())
