# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the real command in the real guest, as tests start and read them."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from blake3 import blake3

from openbach_run.commands.main import COMMANDS, RENAMED, WITHDRAWN
from openbach_run.paths import REPOSITORY
from openbach_run.results import run_files
from openbach_run.results.captures import INTERFACE_STATISTICS, blocks

__all__ = [
    "REPOSITORY",
    "Host",
    "Run",
    "RunCells",
    "command",
    "copy_of_the_checkout",
    "hash_of_before",
    "records",
    "rows",
]
NOBODY = 65534
AWKWARD = "a b'\"\n%é,"
"""For names of directories."""


@dataclass(frozen=True)
class Run:
    """One finished run: its row of results.csv and its record."""

    row: dict[str, str]
    record: Path

    def statistics(self, job: str) -> list[dict[str, Any]]:
        lines = map(json.loads, run_files.content(self.record, "statistics.jsonl").splitlines())
        return [line for line in lines if line["_metadata"]["job_name"] == job]

    def statistic(self, job: str, name: str) -> float:
        (value,) = [line[name] for line in self.statistics(job) if name in line]
        return float(value)

    @property
    def capture(self) -> Path:
        return self.record / "capture.pcapng"


def command(
    *arguments: str, cwd: Path = REPOSITORY, checkout: Path = REPOSITORY
) -> subprocess.CompletedProcess[str]:
    """Run openbach-run as a person types it, from this checkout; return how it ended.

    A scenario's hosts have no noise, and so one seed, unless it says otherwise: tests compare with
    exact figures.
    """
    return subprocess.run(
        [sys.executable, "-m", "openbach_run", *_without_noise(arguments)],
        check=False,
        cwd=cwd,
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
    )


def _without_noise(words: Sequence[str]) -> Sequence[str]:
    """Return the words with noise=off, or in real time, which cannot have that, with one seed."""
    at = 2 if words[:1] == ("exec",) else 1
    scenario = words[at - 1] if len(words) >= at else "-"
    if scenario.startswith("-") or scenario in {*COMMANDS, *RENAMED, *WITHDRAWN}:
        return words
    if "--clock" in words or any(one.startswith("noise=") for one in words):
        return words
    if "--engine" in words:
        return words if "--seeds" in words else (*words, "--seeds", "1")
    return (*words[:at], "noise=off", *words[at:])


def copy_of_the_checkout(place: Path) -> Path:
    """What runs need of it, to be edited."""
    left_out = {".git", "results", "reports", "tests"}

    def ignored(folder: str, names: list[str]) -> set[str]:
        return left_out.intersection(names) if Path(folder) == REPOSITORY else set()

    return Path(shutil.copytree(REPOSITORY, place, ignore=ignored, symlinks=True))


def records(results: Path) -> list[Run]:
    """The runs of a results directory, in the order of its results.csv."""
    with (results / "results.csv").open(newline="") as file:
        return [
            Run(row, unpacked(results / "runs" / row["run_id"])) for row in csv.DictReader(file)
        ]


def hash_of_before(capture: Path) -> str:
    """The capture_hash of a kept capture as it was up to version 1.0: BLAKE3 of its packets."""
    with capture.open("rb") as file:
        kept = takewhile(lambda one: one[0] != INTERFACE_STATISTICS, blocks(file))
        return blake3(b"".join(block for _, block in kept)).hexdigest()


def rows(results: Path) -> list[dict[str, str]]:
    """results.csv without the column that may differ."""
    with (results / "results.csv").open(newline="") as file:
        return [
            {name: value for name, value in row.items() if name != "wall_s"}
            for row in csv.DictReader(file)
        ]


def unpacked(run_dir: Path) -> Path:
    """Return the directory of a finished run, with its packed files unpacked beside them."""
    for packed in run_dir.glob("*.jsonl.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    for packed in run_dir.glob("files.tar.gz"):
        with tarfile.open(packed) as archive:
            archive.extractall(run_dir)
    return run_dir


RunCells = Callable[..., list[Run]]


@dataclass
class Host:
    """Places of a guest that all users reach, and a user.

    `user` stands before a command that runs as the user of the test.
    """

    place: Path
    user: list[str]

    def own(self, *places: Path) -> None:
        for place in places if self.user else ():
            os.chown(place, NOBODY, NOBODY)

    def places(self) -> list[Path]:
        """The guest tree, the code and the directory of a run."""
        made = [self.place / f"{name} {AWKWARD}" for name in ("guest", "code", "run")]
        for place in made:
            place.mkdir()
            (place / "kept").write_text("kept\n")
            self.own(place, place / "kept")
        return made
