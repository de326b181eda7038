# SPDX-License-Identifier: GPL-3.0-or-later
"""Records: what runs leave behind, one self-describing directory per run.

    results/<scenario>/
        campaign.json               what was asked for: the command, and every run it comes to
        results.csv results.parquet one row per run
        shared/<hash>.json          of several records: the engine's identity, the guest's packages,
                                    what jobs measure
        runs/packed/<hash>.tar      the records of many runs (packed_runs.py)
        runs/<run_id>/              the record of a run that is in none of these
            record.json             what was run, how it ended, how to do it again
            statistics.jsonl.gz     every statistic that a job sent
            events.jsonl.gz         what the director did
            files.tar.gz            run.json (what the guest got), commands.sh (which built the
                                    platform), result.json, console.log, jobs.jsonl,
                                    jobs/*/{stdout,stderr}
            [capture.pcapng]            with --pcap
            [wireguard.keys]            with --pcap --keys

A run that has not ended yet, and one that has failed, has its files as the guest writes them:
statistics.jsonl, events.jsonl and those of files.tar.gz. Finished runs of older versions have them
like that, too.

A record is made as <run_id>.unfinished and renamed when it is complete, so that a killed command
leaves no incomplete record. The record that a --rerun replaces waits as <run_id>.replaced
meanwhile, and comes back if the command is killed then. A record of a finished run is never
replaced by one of a failed run: the failed one is kept beside it, as <run_id>.failed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from sys import intern
from typing import Any

from openbach_run.errors import InputError
from openbach_run.results import packed_runs, run_files
from openbach_run.results.measures import check_record
from openbach_run.results.packed_runs import RECORD
from openbach_run.results.record import (
    LEFT_OUT,
    SAID_BY_GUEST,
    SHARED,
    SOURCES,
    Record,
    wrong_record,
    wrong_shared,
)
from openbach_run.results.run_files import PACKED, SERIES, DamagedRecord

PROBE_BYTES = 1 << 20
"""The bytes that are written to see that a disk is not full; a record without its capture is
smaller."""


LOOSE = 1000
"""The finished runs that are left in directories of their own, at most: then they are packed."""
LEAVING = ".leaving"
"""The ending of a directory whose files have been packed, until it is removed."""


class Store:
    """The results directory of one scenario."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runs = directory / "runs"
        self.shared = self.runs.resolve().parent / "shared"
        self._shared = _Shared(self.shared)
        self._lock = threading.Lock()
        """Held while a record is put in the place of another, or moved."""
        self._loose = 0
        """The finished runs since the last packing, at least."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the results directory for one command, and clean up what a killed command has left.

        Raises InputError if the directory cannot be written or another command uses it.
        """
        with self._writing():
            self.runs.mkdir(parents=True, exist_ok=True)
            # Beside the runs, which several directories may share. The kernel lets go of the lock
            # when the process ends, however it ends.
            lock = (self.runs.resolve().parent / ".lock").open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{self.directory}: another openbach-run is writing its results there; wait"
                    " until it has ended, or give one of the two another place with --results DIR"
                    " (a command with --engine controller in the directory of the serve that it"
                    " uses, say)"
                ) from None
            with self._writing():
                self._clean_up()
                self._try_writing()
                self._pack(len(self._names()))
            for damage in packed_runs.index_of(self.runs).damaged.values():
                import logging

                logging.getLogger(__name__).warning("%s; those runs are run again", damage)
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn the errors of writing into an InputError that names the directory."""
        try:
            yield
        except OSError as error:
            raise InputError(
                f"{self.directory}: results cannot be written there: {error.strerror}; --results"
                " DIR names another place"
            ) from error

    def _clean_up(self) -> None:
        """Bring back replaced records whose replacement never came, and remove unfinished ones."""
        for replaced in self.runs.glob("*.replaced"):
            # If the new record is there, the old one is no longer needed.
            if (place := replaced.with_suffix("")).exists():
                run_files.remove(replaced)
            else:
                replaced.rename(place)
        for left in (*self.runs.glob("*.unfinished"), *self.runs.glob(f"*{LEAVING}")):
            run_files.remove(left)

    def _try_writing(self) -> None:
        """Write and remove PROBE_BYTES, to find a full disk now rather than after a run."""
        probe = self.begin("probe")
        try:
            (probe / "probe").write_bytes(bytes(PROBE_BYTES))
        finally:
            run_files.remove(probe)

    def load(self, run_id: str) -> Record | None:
        """Return a run's record, or None if there is none that this version understands."""
        return self._read(self.runs / run_id)

    def checked(self, planned: Mapping[str, Any]) -> Record | None:
        """Return the record of a run of campaign.json; None if it has none.

        Raises DamagedRecord for one that is of another run, or not what its run has left.
        """
        record, run_dir = self.load(planned["run_id"]), self.runs / planned["run_id"]
        if record:
            check_record(record, run_dir)
            if any(
                getattr(record, name) != planned[name] for name in ("scenario", "arguments", "seed")
            ):
                raise DamagedRecord(f"{run_dir / RECORD}: is of another run")
        elif RECORD in run_files.sizes(run_dir):
            raise DamagedRecord(f"{run_dir / RECORD}: cannot be read")
        return record

    def all(self) -> list[Record]:
        """Return every record of the directory, of any campaign, in the order of the run_ids."""
        names = {*self._names(), *packed_runs.index_of(self.runs).runs}
        records = map(self.load, sorted(names))
        return [record for record in records if record is not None]

    def _names(self) -> list[str]:
        """Return the run_ids of the runs that are not packed."""
        places = (place for place in self.runs.glob("*") if not place.suffix)
        return [place.name for place in places if place.name != packed_runs.FOLDER]

    def begin(self, run_id: str) -> Path:
        """Make and return a new directory for a run that starts; only this user can read it."""
        unfinished = self.runs / f"{run_id}.unfinished"
        run_files.remove(unfinished)
        unfinished.mkdir(0o700)
        return unfinished

    def keep(self, unfinished: Path, record: Record) -> Path:
        """Complete a run's directory, give it its name in place of an older one, and return it.

        If the run failed and there is a record of a finished run, it is kept beside that one
        instead.
        """
        if record.finished:
            # Only finished runs: a failed one is looked into, so its files stay as they are.
            run_files.pack(unfinished, LEFT_OUT)
        run_files.write_new(unfinished, "record.json", self._text(record))
        with self._lock:
            place = self._put(unfinished, record)
            self._pack(self._loose + record.finished)
        return place

    def _put(self, unfinished: Path, record: Record) -> Path:
        """Give a run's directory its name, or another one beside a better record; return it."""
        place = self.runs / record.run_id
        failed, replaced = place.with_suffix(".failed"), place.with_suffix(".replaced")
        run_files.remove(failed)
        is_packed = record.run_id in packed_runs.index_of(self.runs).runs
        if not is_packed and not place.exists():
            return unfinished.rename(place)
        before = self.load(record.run_id)
        if before is not None and before.finished and not record.finished:
            return unfinished.rename(failed)
        run_files.remove(replaced)
        _sync(unfinished / "record.json")  # the older one goes for good
        if place.exists():
            # Two renames, at no time without one of the two records; _clean_up mends what is
            # between them.
            place.rename(replaced)
        unfinished.rename(place)
        run_files.remove(replaced)
        return place

    def _pack(self, loose: int) -> None:
        """Pack the finished runs if there may be LOOSE of them, and are."""
        self._loose = loose
        if loose < LOOSE:
            return
        names = [name for name in sorted(self._names()) if self._can_be_packed(name)]
        self._loose = len(names)
        if len(names) < LOOSE:
            return
        archive = packed_runs.write(self.runs, filter(None, map(self._as_members, names)))
        index = packed_runs.index_of(self.runs)
        for name in names:
            if name in index.archives[archive]:
                # In one step: whoever reads a run finds all of its directory, or the archive.
                run_files.remove((self.runs / name).rename(self.runs / f"{name}{LEAVING}"))
        self._loose = 0
        packed_runs.remove_dead(self.runs)

    def _can_be_packed(self, run_id: str) -> bool:
        """Return whether a run has left what a finished one without a capture leaves."""
        run_dir = self.runs / run_id
        if not packed_runs.NAME.fullmatch(f"{run_id}/{RECORD}".encode()) or not run_dir.is_dir():
            return False
        names = {*os.listdir(run_dir)}
        return {RECORD, PACKED} <= names <= {RECORD, PACKED, *(f"{name}.gz" for name in SERIES)}

    def _as_members(self, run_id: str) -> bytes:
        """Return a run as a part of an archive; nothing if it has not finished."""
        run_dir = self.runs / run_id
        before = packed_runs.index_of(self.runs).runs.get(run_id)
        record = self.load(run_id)
        if record is None or not record.finished:
            return b""
        try:
            contents = {name: run_files.content(run_dir, name) for name in os.listdir(run_dir)}
        except DamagedRecord:
            return b""
        # Later than the record that it has replaced, whatever this machine's clock says.
        time_s = int((run_dir / RECORD).stat().st_mtime)
        return packed_runs.as_members(
            run_id, contents, max(time_s, before.time_s + 1 if before else 0)
        )

    def remove(self, run_id: str) -> None:
        """Remove a run that is to be executed again."""
        with self._lock:
            run_files.remove(self.runs / run_id)
            packed_runs.remove(self.runs, run_id)

    def rewrite(self, record: Record) -> None:
        """Write a finished run's record again, with other words or measures for its files."""
        with self._lock:
            run_dir = self.runs / record.run_id
            if not run_dir.is_dir():  # it is packed
                unfinished = self.begin(record.run_id)
                run_files.copy(run_dir, unfinished)
                unfinished.rename(run_dir)
            run_files.write_new(run_dir, "record.json.new", self._text(record))
            os.replace(run_dir / "record.json.new", run_dir / "record.json")
            self._pack(self._loose + 1)

    def write(self, name: str, text: Iterable[str]) -> None:
        """Write a file of the results, whole or not at all."""
        new = self.directory / f".{name}.new"
        with new.open("w") as file:
            file.writelines(text)
        os.replace(new, self.directory / name)

    def add(self, name: str, text: str) -> None:
        """Append text to a file of the results."""
        with (self.directory / name).open("a") as file:
            file.write(text)

    def _text(self, record: Record) -> str:
        """Return the content of record.json, and store the shared fields in their own file."""
        fields = dict(record.__dict__)
        # Engine, packages and measures are the same in most records of a campaign, and would be
        # most of each.
        shared = self._shared.put({name: fields.pop(name) for name in SHARED})
        return json.dumps({**fields, "shared": shared, SOURCES: SAID_BY_GUEST}, indent=1) + "\n"

    def _read(self, run_dir: Path) -> Record | None:
        """Return a record, or None for one that this version does not understand.

        The run is then repeated.
        """
        try:
            fields = run_files.document(run_dir, "record.json")
            fields.pop(SOURCES, None)
            if "shared" in fields:
                fields |= self._shared.get(fields.pop("shared"))
            elif wrong_shared(fields):
                return None
            if before := fields.pop("capture_sha256", None):  # the field of version 0.1
                fields["capture_hash"] = f"sha256:{before}"
            # With the run_id of another one it would count as that.
            if wrong_record(fields) or fields["run_id"] != run_dir.stem:
                return None
            # Many records have the same arguments: each text is in memory once.
            arguments = fields["arguments"].items()
            fields["arguments"] = {intern(name): intern(value) for name, value in arguments}
            return Record(**fields)
        except (OSError, TypeError, ValueError, KeyError, AttributeError, DamagedRecord):
            return None


class _Shared:
    """A store of the fields that many records have in common: each set once, named by its hash."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, Any]] = {}
        self._names: dict[tuple[Any, ...], tuple[str, dict[str, Any]]] = {}
        """The file's name by the content that was put. Packages and measures count by their `id`,
        since they are the same objects in every record; the identity is short and counts by its
        items."""
        self._lock = threading.Lock()

    def put(self, fields: dict[str, Any]) -> str:
        """Store the fields if they are new, and return the name under which they are stored."""
        with self._lock:
            others = [id(value) for name, value in fields.items() if name != "identity"]
            same = (*fields["identity"].items(), *others)
            if same not in self._names:
                self._names[same] = self._put(fields), fields
            return self._names[same][0]

    def _put(self, fields: dict[str, Any]) -> str:
        """Write the fields to the file named by their hash, if that is new; return the name."""
        text = json.dumps(fields, indent=1, sort_keys=True) + "\n"
        # Named by its content: two commands that write the same file do no harm.
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        if name not in self._known:
            self._folder.mkdir(parents=True, exist_ok=True)
            run_files.write_new(self._folder, f"{name}.json.new", text)
            os.replace(self._folder / f"{name}.json.new", self._folder / f"{name}.json")
            self._known[name] = fields
        return name

    def get(self, name: str) -> dict[str, Any]:
        """Return the fields stored under a name. Raises OSError, DamagedRecord."""
        if name not in self._known:
            # The name comes from a record, perhaps somebody else's: only its last part is taken as
            # one.
            fields = run_files.document(self._folder, f"{Path(name).name}.json")
            if wrong := wrong_shared(fields):
                raise DamagedRecord(f"{self._folder / Path(name).name}.json: {wrong}")
            self._known[name] = fields
        return self._known[name]


def share_runs(directory: Path) -> None:
    """Let a results directory have the records of the one that it lies in, of any campaign."""
    link = directory / "runs"
    if not link.is_symlink():
        link.symlink_to(Path("../runs"))


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
