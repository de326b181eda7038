# SPDX-License-Identifier: GPL-3.0-or-later
"""Records: what runs leave behind, one self-describing directory a run.

    results/<scenario>/
        campaign.json               what was asked for: the command, and every run it comes to
        results.csv results.parquet one row per run
        runs/<run_id>/
            record.json             what was run, how it ended, how to do it again
            run.json                what the guest got: scenario, arguments, seed, jobs, inventory
            result.json events.jsonl statistics.jsonl jobs/ console.log [capture.pcapng]

A record is made as <run_id>.unfinished and renamed when it is whole: a killed command leaves no half of one. The
record that a --rerun replaces waits as <run_id>.replaced meanwhile, and comes back if the command is killed then.
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
PROBE_BYTES = 1 << 20
"""What is written to see that a disk is not full; a record without its capture is smaller."""


@dataclass(frozen=True)
class Record:
    """The content of record.json."""

    run_id: str
    scenario: str
    arguments: dict[str, str]
    """And constants."""
    seed: int
    status: str
    error: str | None
    virtual_s: float
    wall_s: float
    capture_sha256: str
    measures: dict[str, Any]
    """By name; see `results.measures`."""
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
        """Makes sure that the directory can be written, that no other command uses it, and cleans up what a killed
        one has left. Raises InputError."""
        with self._writing():
            self.runs.mkdir(parents=True, exist_ok=True)
            lock = (self.directory / ".lock").open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{self.directory}: another openbach-run is writing its results there") from None
            with self._writing():
                self._clean_up()
                self._try_writing()
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"{self.directory}: results cannot be written there: {error.strerror}; --results DIR names another place"
            ) from error

    def _clean_up(self) -> None:
        for replaced in self.runs.glob("*.replaced"):
            if (place := replaced.with_suffix("")).exists():
                shutil.rmtree(replaced, ignore_errors=True)
            else:
                replaced.rename(place)
        for left in self.runs.glob("*.unfinished"):
            shutil.rmtree(left, ignore_errors=True)

    def _try_writing(self) -> None:
        probe = self.begin("probe")
        try:
            (probe / "probe").write_bytes(bytes(PROBE_BYTES))
        finally:
            shutil.rmtree(probe, ignore_errors=True)

    def load(self, run_id: str) -> Record | None:
        file = self.runs / run_id / "record.json"
        return _read(file) if file.exists() else None

    def all(self) -> list[Record]:
        """Every record that is there, of whatever campaign, by run_id."""
        files = sorted(self.runs.glob("*/record.json"))
        return [record for file in files if not file.parent.suffix and (record := _read(file)) is not None]

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
        replaced = place.with_suffix(".replaced")
        if place.exists():
            place.rename(replaced)
        unfinished.rename(place)
        shutil.rmtree(replaced, ignore_errors=True)

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
    return _lines(run_dir / "statistics.jsonl")


def events(run_dir: Path) -> list[Mapping[str, Any]]:
    """What the director did in a run, in order; as far as it has come in one that goes on."""
    return _lines(run_dir / "events.jsonl")


def _lines(file: Path) -> list[Mapping[str, Any]]:
    """Half a line, the last of a guest that was killed, is none."""
    try:
        lines = file.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]
