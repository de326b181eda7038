# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a run: its fields, statistics and events, and what may be wrong with each.

store.py has the directory that it lies in.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

from openbach_run.clock import REAL, VIRTUAL
from openbach_run.errors import InputError
from openbach_run.results import run_files
from openbach_run.results.captures import CAPTURE, KEYS

FINISHED = "Finished Ok"
DAMAGED = "Record Damaged"
"""The status of a run that left something unreadable."""
LEFT_OUT = ("record.json", CAPTURE, KEYS)
"""Files that a finished run keeps as they are, beside the packed ones."""
NOT_LOCKED = "not_locked"
"""A key of an identity: the packages of a run that are not those of debian.lock, in words."""
OWN_PROGRAMS = "own_programs"
"""Another: the programs of a run that are its user's own, each with its SHA-256. Keys with `=`
(`link_file=mine.csv`) have a hash of a file's content."""
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


def wrong_record(fields: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a record's own fields, or None.

    Somebody else may have written them.
    """
    if wrong := run_files.fields({**LATER_FIELDS, **fields}, FIELDS) or wrong_part(fields):
        return wrong
    for part in fields.get("parts") or ():
        if wrong := run_files.fields(part, PART) or wrong_part(part):
            return f"parts: {wrong}"
    return None


def wrong_part(fields: Mapping[str, Any]) -> str | None:
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


def wrong_shared(fields: Any) -> str | None:
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


def check_files(records: Iterable[Record]) -> None:
    """Check that a file has one content in all records that name it, for their cells name it only.

    Raises InputError. Records of before 1.1 do not say what it was.
    """
    firsts: dict[str, Record] = {}
    for record in records:
        for name, digest in record.identity.items():
            first = firsts.setdefault(name, record)
            if "=" in name and first.identity[name] != digest:
                raise InputError(
                    f"{name}: the file had another content in run {first.run_id} than in run"
                    f" {record.run_id}: run those of one again, or with the file under another name"
                )


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


def checked_statistics(run_dir: Path) -> list[Mapping[str, Any]]:
    """Return the statistics of a run that has just ended.

    Raises DamagedRecord if they, or its events, have another form than that of this version.
    """
    sent = run_files.lines(
        run_dir, "statistics.jsonl", lambda line: _wrong_statistic(line, METADATA, {"suffix": ""})
    )
    run_files.lines(run_dir, "events.jsonl", lambda line: wrong_event(line, EVENTS))
    return sent


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
