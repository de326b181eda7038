# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack the runs of a results directory into one small file that git can keep.

It holds what reports read of the runs, about a kilobyte per run. Unpacked in
results/ (`tar -xJf runs.tar.xz -C results`), they are results again. The output of programs and the
director's events are not in it.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from openbach_run.results import campaign_file, run_files
from openbach_run.results.store import Store

FILE = "runs.tar.xz"
OF_A_RUN = ("run.json", "record.json", "statistics.jsonl")
"""The files of a run, in the order of the archive: similar files that follow one another compress
well."""


def write_runs(file: Path, runs: Iterable[tuple[Store, Iterable[str]]]) -> None:
    """Write the runs with these run_ids of each results directory, whole or not at all.

    The same runs make the same bytes. Raises DamagedRecord.
    """
    new = file.with_suffix(".new")
    with tarfile.open(new, "w:xz", format=tarfile.USTAR_FORMAT) as tar:
        for store, run_ids in runs:
            for name, data in _files(store, sorted(run_ids)):
                member = tarfile.TarInfo(f"{store.directory.resolve().name}/{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    os.replace(new, file)


def _files(store: Store, run_ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the files of one results directory; missing ones are left out."""
    with suppress(FileNotFoundError):
        yield campaign_file.FILE, run_files.content(store.directory, campaign_file.FILE)
    for place in sorted(store.shared.glob("*.json")):
        yield f"shared/{place.name}", run_files.content(store.shared, place.name)
    for name in OF_A_RUN:
        for run_id in run_ids:
            with suppress(FileNotFoundError):
                yield f"runs/{run_id}/{name}", run_files.content(store.runs / run_id, name)
