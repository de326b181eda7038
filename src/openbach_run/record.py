# SPDX-License-Identifier: GPL-3.0-or-later
"""Records: what runs leave behind, one self-describing directory a run.

    results/<scenario>/
        results.csv                 one row per run
        runs/<run_id>/
            record.json             what was run, how it ended, how to do it again
            run.json                what the guest got: scenario, arguments, seed, jobs, inventory
            result.json events.jsonl statistics.jsonl jobs/ console.log [capture.pcapng]

A record is made under another name and renamed when it is whole: a killed command leaves no half of one.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from openbach_run.errors import InputError

FINISHED = "Finished Ok"


@dataclass(frozen=True)
class Record:
    """The content of record.json."""

    run_id: str
    scenario: str
    arguments: dict[str, str]
    seed: int
    status: str
    error: str | None
    virtual_s: float
    wall_s: float
    capture_sha256: str
    measures: dict[str, Any]
    """Statistics of the transfer by name; see `results.MEASURES`."""
    command: str
    """Type this to get it again."""
    identity: dict[str, str]
    packages: list[str]

    @property
    def finished(self) -> bool:
        return self.status == FINISHED


class Store:
    """The results directory of one scenario."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runs = directory / "runs"

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Makes sure that the directory can be written, that no other command uses it, and removes what a killed
        one has left. Raises InputError."""
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            lock = (self.directory / ".lock").open("w")
        except OSError as error:
            raise InputError(
                f"{self.directory}: results cannot be written there: {error.strerror}; --results DIR names another place"
            ) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{self.directory}: another openbach-run is writing its results there") from None
            for left in self.runs.glob("*.unfinished"):
                shutil.rmtree(left, ignore_errors=True)
            yield

    def load(self, run_id: str) -> Record | None:
        file = self.runs / run_id / "record.json"
        return _read(file) if file.exists() else None

    def begin(self, run_id: str) -> Path:
        """A new directory for a run that starts."""
        unfinished = self.runs / f"{run_id}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        return unfinished

    def keep(self, unfinished: Path, record: Record) -> None:
        """Completes a run's directory and gives it its name, in place of an older one."""
        (unfinished / "record.json").write_text(json.dumps(asdict(record), indent=1) + "\n")
        place = self.runs / record.run_id
        shutil.rmtree(place, ignore_errors=True)
        unfinished.rename(place)

    def write(self, name: str, text: str) -> None:
        """A file of the results, whole or not at all."""
        new = self.directory / f".{name}.new"
        new.write_text(text)
        os.replace(new, self.directory / name)


def _read(file: Path) -> Record | None:
    """A record, or None for one that this version does not understand: its run is then done again."""
    try:
        return Record(**json.loads(file.read_text()))
    except (TypeError, ValueError):
        return None


def statistics(run_dir: Path) -> list[Mapping[str, Any]]:
    """The statistics that the jobs of a run have sent, in order."""
    file = run_dir / "statistics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
