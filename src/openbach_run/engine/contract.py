# SPDX-License-Identifier: GPL-3.0-or-later
"""The contract of all engines: what each has and answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from openbach_run.catalog import Uses
from openbach_run.progress import Progress

COMPLAINED = "Kernel Complained"
OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    `error` is None when the scenario ended `Finished Ok` and the kernel has not complained, else
    text for a person.
    """

    status: str
    virtual_s: float
    wall_s: float
    capture_hash: str
    error: str | None
    host: Mapping[str, Any] = field(default_factory=dict)
    """Facts that this machine has measured itself: `Record.host`."""


Run = Callable[[Mapping[str, Any], Path, int, OnEvent], Outcome]
"""`Engine.run`."""


class Withdrawn(Exception):
    """Results that are not what they should be; the text says why.

    The runs of these names are to be executed again.
    """

    def __init__(self, run_ids: Collection[str], why: str) -> None:
        super().__init__(why)
        self.run_ids = run_ids


class Engine(Protocol):
    """An executor of runs."""

    def identity_of(self, uses: Uses) -> dict[str, str]:
        """Return the identity of everything outside the scenario that a run's packets depend on.

        `uses` are the folders that the run uses.
        """
        ...

    @property
    def packages(self) -> tuple[str, ...]:
        """Return names and versions of the Debian packages in the guest."""
        ...

    def prepare(self, progress: Progress) -> None:
        """Make what runs need and is not there yet. Raises SetupError, InputError."""
        ...

    def first_missing(self) -> str:
        """Return the name of the first thing that `prepare` would make; "" if there is none.

        Makes and changes nothing.
        """
        ...

    def run(self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: OnEvent) -> Outcome:
        """Execute a run in the directory <run_id>.unfinished.

        May raise Withdrawn, of this run and earlier ones.
        """
        ...

    def stop(self) -> None:
        """Stop the runs that go on, and start no others."""
        ...
