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
import shlex
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from types import NoneType
from typing import Any

from openbach_run.clock import REAL, VIRTUAL
from openbach_run.errors import InputError
from openbach_run.results import packed_runs, run_files
from openbach_run.results.captures import CAPTURE, KEYS
from openbach_run.results.packed_runs import RECORD
from openbach_run.results.run_files import PACKED, SERIES, DamagedRecord

FINISHED = "Finished Ok"
DAMAGED = "Record Damaged"
"""The status of a run that left something unreadable."""
PROBE_BYTES = 1 << 20
"""The bytes that are written to see that a disk is not full; a record without its capture is
smaller."""


LOOSE = 1000
"""The finished runs that are left in directories of their own, at most: then they are packed."""
LEAVING = ".leaving"
"""The ending of a directory whose files have been packed, until it is removed."""
LEFT_OUT = ("record.json", CAPTURE, KEYS)
"""Files that a finished run keeps as they are, beside the packed ones."""
NOT_LOCKED = "not_locked"
"""A key of an identity: the packages of a run that are not those of debian.lock, in words."""
OWN_PROGRAMS = "own_programs"
"""Another: the programs of a run that are its user's own, each with its SHA-256."""
MOST_NAMED = 8
"""The most packages that are not locked that a note names; it counts the others."""
SHARED = ("identity", "packages", "declared")
"""Fields that most records of a campaign have in common; they are stored in shared/."""

LATEST_MS, LONGEST_S = 10**14, 10**10
"""The latest time of a statistic in ms (in the year 5138), and the latest time of an event in s. No
date could be made from a later one."""
MEASURED_BY_HOST = (
    "run_id", "scenario", "arguments", "seed", "wall_s", "capture_hash", "command", "identity",
    "packages", "declared", "host",
)  # fmt: skip
SAID_BY_GUEST = ("status", "error", "virtual_s", "measures", "parts", "texts")
"""Fields of a record, by who knows them. MEASURED_BY_HOST comes from what the host planned, its
clock, the pipe of packets and the guest's exit; what a job writes does not change it. SAID_BY_GUEST
follows from files that the guest left, in which its jobs, and anyone who has taken over the guest,
may say anything. Only a status that the host gives (Guest Lost, Record Damaged) is not the
guest's."""

SOURCES = "said_by_guest"
"""The key of record.json that holds SAID_BY_GUEST, for whoever reads the file alone."""

PART: dict[str, Any] = {
    "scenario": str, "arguments": dict, "status": str, "virtual_s": float, "measures": dict,
}  # fmt: skip
FIELDS = {
    **PART, "run_id": str, "seed": int, "error": (str, NoneType), "wall_s": float,
    "capture_hash": str, "command": str, "parts": (list, NoneType), "host": dict,
    "texts": dict,
}  # fmt: skip
LATER_FIELDS: dict[str, Any] = {"parts": None, "host": {}, "texts": {}}
SHARED_FIELDS = {"identity": dict, "packages": list, "declared": dict}
MEASURE: dict[str, Any] = {
    **dict.fromkeys(("statistic", "unit", "title", "type", "take"), str),
    "factor": float,
    "better": (str, NoneType),
}
LARGEST = 2**63 - 1
"""The fields of each part of a record; the fields of a record; the fields that older records lack;
the fields of SHARED; the fields of a declared measure; and the largest whole number that a column
can hold."""

LEAST_METADATA: dict[str, Any] = {"job_name": str, "suffix": (str, NoneType), "time": float}
METADATA: dict[str, Any] = {
    **LEAST_METADATA,
    "agent_name": str,
    "job_instance_id": int,
    "scenario_instance_id": int,
}
"""Fields of a statistic's `_metadata`: those that are used of any record, and those that every run
leaves now."""
NEVER_SENT = {"suffix": "", "time": 0}
"""Their values if they are missing, as in older records and in statistics without a suffix."""
EVENT = {"t_s": float, "event": str}
FUNCTION = {"scenario_instance_id": int, "function": int}
JOB = {"scenario_instance_id": int, "instance_id": int, "job": str, "entity": str}
EVENTS: dict[str, dict[str, Any]] = {
    "scenario_started": {"scenario_instance_id": int, "scenario": str, "arguments": dict},
    "scenario_ended": {"scenario_instance_id": int, "status": str},
    **dict.fromkeys(
        (
            "function_started",
            "function_finished",
            "function_error",
            "function_stopped",
            "function_retried",
        ),
        FUNCTION,
    ),
    "job_started": {**JOB, "function": int},
    "job_ended": {**JOB, "status": str},
    "job_stop_ordered": JOB,
}
"""Fields that the director gives its events by their name, besides t_s and event."""
NO_EVENTS: dict[str, dict[str, Any]] = {}


@dataclass(frozen=True)
class Record:
    """The content of record.json."""

    run_id: str
    scenario: str
    arguments: dict[str, str]
    """Arguments and constants by name, as text."""
    seed: int
    status: str
    error: str | None
    virtual_s: float
    wall_s: float
    capture_hash: str
    measures: dict[str, Any]
    """Measured values by name; see `results.measures`."""
    command: str
    """The command that repeats the run."""
    identity: dict[str, str]
    packages: Sequence[str]
    declared: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The measures by job, as the jobs have declared them (openbach/measures.py)."""
    parts: list[dict[str, Any]] | None = None
    """The record's fields of each sub-scenario, if the scenario only starts others. [] for any
    other scenario; None in older records."""
    host: Mapping[str, Any] = field(default_factory=dict)
    """The host's own observations: `exit` of the guest's processes, in words; `capture_bytes`;
    `last_packet_s`, the virtual time of the last packet in the stream whose hash is `capture_hash`,
    None if there is no packet (the virtual engine's); `python_lock` and `python_not_locked`
    (python_packages.py). {} in older records."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Words that jobs have sent, by column (a measure of the type `text`)."""

    @property
    def finished(self) -> bool:
        """Return whether the run has ended without a failure."""
        return self.status == FINISHED

    @property
    def repetition(self) -> list[str]:
        """Return the words behind `openbach-run` that repeat the run: scenario, values, seed.

        Nothing else is taken from its command: the record may be somebody else's, and an option
        could name a directory of code. Raises InputError if a word looks like an option.
        """
        # The command is `openbach-run SCENARIO …`. Without a scenario "-" is refused below.
        scenario = (self._command_words()[1:2] or ["-"])[0]
        words = [scenario, *(f"{name}={value}" for name, value in self.arguments.items())]
        if wrong := [word for word in words if word.startswith("-")]:
            what = f"{wrong[0]!r} is no scenario and no value"
            raise InputError(f"{self.run_id}: {what}, in {self.command!r}")
        return [*words, f"--seeds={self.seed},"]

    @property
    def options(self) -> list[str]:
        """Return the sorted names of the other options in its command.

        Without them, a repeated run may differ.
        """
        words = [word for word in self._command_words() if word.startswith("--")]
        return sorted({word.partition("=")[0] for word in words} - {"--seeds"})

    def _command_words(self) -> list[str]:
        """Return the command's words as a shell reads them.

        Raises InputError if it is not readable.
        """
        try:
            return shlex.split(self.command)
        except (ValueError, AttributeError) as error:
            what = f"its command {self.command!r} is none"
            raise InputError(f"{self.run_id}: {what}: {error}") from error

    @property
    def clock(self) -> str:
        """Return the clock by the names of clock.py; older records have it only by their engine."""
        by_engine = VIRTUAL if self.identity.get("engine") == VIRTUAL else REAL
        return self.identity.get("clock") or by_engine


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
            elif _wrong_shared(fields):
                return None
            if before := fields.pop("capture_sha256", None):  # the field of version 0.1
                fields["capture_hash"] = f"sha256:{before}"
            # With the run_id of another one it would count as that.
            if _wrong(fields) or fields["run_id"] != run_dir.stem:
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
            if wrong := _wrong_shared(fields):
                raise DamagedRecord(f"{self._folder / Path(name).name}.json: {wrong}")
            self._known[name] = fields
        return self._known[name]


def _wrong(fields: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a record's own fields, or None.

    Somebody else may have written them.
    """
    if wrong := run_files.fields({**LATER_FIELDS, **fields}, FIELDS) or _wrong_part(fields):
        return wrong
    for part in fields.get("parts") or ():
        if wrong := run_files.fields(part, PART) or _wrong_part(part):
            return f"parts: {wrong}"
    return None


def _wrong_part(fields: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the values of a record or of a part of it, or None."""
    if abs(fields["virtual_s"]) > LONGEST_S or abs(fields.get("wall_s", 0)) > LONGEST_S:
        return f"virtual_s or wall_s is more than {LONGEST_S} s"
    texts = *fields["arguments"].values(), *fields.get("texts", {}).values()
    if not all(type(value) is str for value in texts):
        return "an argument, or what a job told, is no text"
    every = (*fields["measures"].values(), fields.get("seed"))
    numbers = [number for number in every if number is not None]
    # A table or a figure would fail far from here, and not name the record.
    if not all(map(run_files.is_number, numbers)):
        return "a measure is no number"
    too_large = any(isinstance(number, int) and abs(number) > LARGEST for number in numbers)
    return f"a number is more than {LARGEST}" if too_large else None


def _wrong_shared(fields: Any) -> str | None:
    """Return what is wrong with the fields that a record has in common with others, or None."""
    if wrong := run_files.fields(
        {"declared": {}, **fields} if isinstance(fields, dict) else fields, SHARED_FIELDS
    ):
        return wrong
    if not all(type(text) is str for text in (*fields["identity"].values(), *fields["packages"])):
        return "identity and packages should be texts"
    for measures in fields.get("declared", {}).values():
        for measure in measures if isinstance(measures, list) else [None]:
            # Only the column is required: the other fields have defaults.
            known = (
                {**dict.fromkeys(MEASURE, ""), "factor": 1, **measure}
                if isinstance(measure, dict)
                else measure
            )
            if wrong := run_files.fields(known, {"column": str, **MEASURE}):
                return f"declared: {wrong}"
    return None


def failures_in_words(failed: Iterable[Mapping[str, Any]]) -> str:
    """Return the failed jobs and functions of a result.json for a person, a line each or more.

    `failed` are entries as the director leaves them; "" if there are none.
    """
    lines = []
    for failure in failed:
        if "job" in failure:
            job = f"job {failure['job']} on {failure['entity']}"
            lines.append(f"{job}: {failure['status']}, exit code {failure['exit_code']}")
            lines += [f"    {line}" for line in failure["last_lines"]]
        else:
            where = "" if failure["function"] is None else f"function {failure['function']}: "
            lines.append(f"{where}{failure['error']}")
    return "\n".join(lines)


def not_locked(records: Iterable[Record]) -> list[str]:
    """Return a sentence with the packages that are not debian.lock's; [] if there are none."""
    texts: set[str] = set()
    for record in records:
        texts.update(record.identity.get(NOT_LOCKED, "").split("; "))
    every = sorted(texts - {""})
    if not every:
        return []
    named = ", ".join(every[:MOST_NAMED])
    if len(every) > MOST_NAMED:
        named += f" and {len(every) - MOST_NAMED} more (`identity` in record.json)"
    return [f"not the locked packages: {named}: packets may differ from those of the lock"]


def share_runs(directory: Path) -> None:
    """Let a results directory have the records of the one that it lies in, of any campaign."""
    link = directory / "runs"
    if not link.is_symlink():
        link.symlink_to(Path("../runs"))


def _sync(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def statistics(run_dir: Path) -> list[Mapping[str, Any]]:
    """Return the statistics that the jobs of a run have sent, in order: the n-th is on line n.

    Raises DamagedRecord.
    """
    return run_files.lines(run_dir, "statistics.jsonl", _wrong_statistic)


def events(run_dir: Path) -> list[Mapping[str, Any]]:
    """Return what the director did in a run, in order. Raises DamagedRecord.

    For a run that has not ended yet these are the events so far.
    """
    return run_files.lines(run_dir, "events.jsonl", wrong_event)


def check(run_dir: Path) -> None:
    """Check that an ended run has left statistics and events in the form of this version.

    Raises DamagedRecord if not.
    """
    run_files.lines(
        run_dir, "statistics.jsonl", lambda line: _wrong_statistic(line, METADATA, {"suffix": ""})
    )
    run_files.lines(run_dir, "events.jsonl", lambda line: wrong_event(line, EVENTS))


def _wrong_statistic(
    line: Any, metadata: Mapping[str, Any] = LEAST_METADATA, absent: Mapping[str, Any] = NEVER_SENT
) -> str | None:
    """Return what is wrong with a line of statistics.jsonl, or None.

    `metadata` has the fields that are required, `absent` the values of those that may be missing.
    """
    if wrong := run_files.fields(line, {"_metadata": dict}):
        return wrong
    completed = {**absent, **line["_metadata"]}
    wrong = run_files.fields(completed, metadata)
    if not wrong and abs(completed["time"]) > LATEST_MS:
        wrong = f'"time" is {completed["time"]}; at most {LATEST_MS} ms was expected'
    return wrong and f"_metadata: {wrong}"


def wrong_event(line: Any, known: Mapping[str, Mapping[str, Any]] = NO_EVENTS) -> str | None:
    """Return what is wrong with a line of events.jsonl, or None.

    `known` has the fields of events by their name.
    """
    if wrong := run_files.fields(line, EVENT) or run_files.fields(
        line, known.get(line["event"], {})
    ):
        return wrong
    if not 0 <= line["t_s"] <= LONGEST_S:
        return f'"t_s" is {line["t_s"]}; 0 to {LONGEST_S} s was expected'
    return None
