# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution of a campaign's runs, several at a time, each on a CPU of its own.

It keeps their records.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openbach_run.campaign.executor import Executor
from openbach_run.campaign.spec import RunSpec
from openbach_run.campaign.sub_runs import parts_of, unfold, unfold_all
from openbach_run.engine.contract import Engine, OnEvent, Run, Withdrawn
from openbach_run.openbach.measures import Declared, to_records
from openbach_run.progress import Progress
from openbach_run.results.campaign_file import AskedRun
from openbach_run.results.files import CSV, NO_ROWS, columns_of, csv_line, csv_lines, read_rows
from openbach_run.results.measures import brought_up_to_date, check_record, measures, texts
from openbach_run.results.python_packages import python_packages
from openbach_run.results.record import DAMAGED, Record, checked_statistics
from openbach_run.results.run_files import DamagedRecord, within
from openbach_run.results.store import Store

if TYPE_CHECKING:
    from openbach_run.engine.cluster import ClusterExecutor

LONG_S = 2.0
"""Seconds after which the reading of records shows its progress."""
SHOW_S = 0.2
"""Seconds from one look at the progress to the next."""
ENDED_WITH = "the job ended with "
"""Text before a job's last words in its log (guest/agent_library)."""
STILL_MEASURED = (
    'what it had measured is in results.csv. "on_fail": {"policy": "ignore"} in a function keeps a'
    " failure of its job from ending the scenario, as on OpenBACH"
)


@dataclass(frozen=True)
class PlannedRun:
    """A run with its engine, its scenario's name in a command, and the measures of its jobs."""

    spec: RunSpec
    engine: Engine
    scenario: str
    measures: Declared = field(default_factory=dict)
    options: tuple[str, ...] = ()

    @property
    def asked(self) -> AskedRun:
        """Return the run as campaign.json has it."""
        spec = self.spec
        return AskedRun(spec.run_id, spec.scenario_name, spec.values, spec.seed)

    @property
    def command(self) -> str:
        """Return the command line that executes this run again."""
        # All values, defaults too: a default that changes later must not change the repetition.
        settings = [f"{name}={value}" for name, value in self.spec.values.items()]
        return shlex.join(
            [
                "./openbach-run",
                self.scenario,
                *settings,
                "--seeds",
                f"{self.spec.seed},",
                *self.options,
            ]
        )


class Execution:
    """The execution of a campaign's runs.

    `execute` blocks until all is done. Then `records` has the record of every run, by run_id, and
    `failed` has the records of the runs that failed now. Where a run is repeated and fails, the
    good record stays in `records`.
    """

    def __init__(
        self,
        runs: Sequence[PlannedRun],
        store: Store,
        progress: Progress,
        say: Callable[[str], None],
        *,
        rerun: bool = False,
        in_real_time: bool = False,
        first: Callable[[list[Record]], None] | None = None,
        earlier: Collection[str] = (),
    ) -> None:
        """Prepare the execution of these runs; `execute` begins it.

        The rows of the runs in `earlier`, of commands before, stay in results.csv.
        `first` is called with the records when each cell has been run once. If it is given, the
        runs of the first seed are executed first.
        """
        self.records: dict[str, Record] = {}
        self.failed: list[Record] = []
        self._runs, self._store, self._say = runs, store, say
        self._rerun, self._in_real_time, self._first = rerun, in_real_time, first
        self._lock = threading.Lock()
        self._cluster: ClusterExecutor | None = None
        self._table = _Table(store, earlier)
        self._errors: list[BaseException] = []
        """The errors for which no further run is begun."""
        self._progress = _Progress(progress)
        self._awaited: set[str] = set()
        """The runs with the lowest seed that have not ended: after the last one every cell has a
        value, and `first` is called."""

    @property
    def known(self) -> list[Record]:
        """Return the records that exist, in the order of the runs."""
        names = [run.spec.run_id for run in self._runs]
        return [self.records[name] for name in names if name in self.records]

    def execute(self, cpus: Sequence[int], cluster: ClusterExecutor | None = None) -> None:
        """Execute the runs, one at a time on each CPU, or on a cluster, and write results.csv.

        Each run is added to results.csv as it ends; at the end the file has the runs in the order
        in which they were planned. Raises what the first failing worker raised, for example for a
        full disk. KeyboardInterrupt ends the guests.
        """
        to_run = self._read()
        self._progress.begin(len(to_run), len(self._runs) - len(to_run))
        if self._first is not None:
            least = min((run.spec.seed for run in self._runs), default=0)
            self._awaited = {run.spec.run_id for run in to_run if run.spec.seed == least}
        # Before the first run: from here on the file is whole, whenever this is killed. What is run
        # again is added as it ends.
        self._table.write([] if self._rerun else self.known)
        # No thread more than there are runs: each would begin and end for nothing.
        self._cluster = cluster
        executor = cluster or Executor(cpus[: len(to_run)])
        try:
            for run in to_run:
                self._submit(run, executor)
            while not (self._errors or executor.wait(SHOW_S)):
                self._progress.show()
        except BaseException:
            # A task looks at _errors: with one in it, it starts no run and keeps no record.
            self._errors.append(InterruptedError())
            try:
                self._stop()
            finally:
                executor.close()
            raise
        finally:
            with self._lock:
                try:
                    self._table.write(self.known)
                except OSError as error:  # on a full disk, say: then the first error names the file
                    raise next(
                        (fault for fault in self._errors if getattr(fault, "filename", None)), error
                    ) from error
        executor.close()
        if self._errors:
            raise self._errors[0]

    def _read(self) -> list[PlannedRun]:
        """Read the records of finished runs; return the runs to execute, in order."""
        to_run: list[PlannedRun] = []
        begin_s = time.monotonic()
        for number, run in enumerate(self._runs):
            if time.monotonic() - begin_s > LONG_S:
                self._progress.reading(number / len(self._runs))
            done = known_record(self._store, run)
            if done is not None:
                self.records[done.run_id] = done
            if self._rerun or done is None:
                to_run.append(run)
        # In virtual time neither heat nor load changes a packet, so the order may be the
        # campaign's.
        return interleaved(to_run) if self._in_real_time else to_run

    def _submit(self, planned: PlannedRun, executor: Executor | ClusterExecutor) -> None:
        """Add a run to the executor's queue; runs of the first seed come first if asked for."""
        # Within a seed the order of the cells stays.
        priority = planned.spec.seed if self._first and not self._in_real_time else 0
        executor.submit(lambda cpu: self._try(planned, cpu, executor), priority, planned)

    def _stop(self) -> None:
        """Stop every engine, even after one could not be stopped.

        Raises what the first failure raised.
        """
        with ExitStack() as stack:
            # Several runs share an engine; each engine is stopped once.
            engines = {id(run.engine): run.engine for run in self._runs}
            for engine in engines.values():
                stack.callback(engine.stop)

    def _try(self, planned: PlannedRun, cpu: int, executor: Executor | ClusterExecutor) -> None:
        """Execute a run; after an error stop all others."""
        if self._errors:
            return
        try:
            self._run(planned, cpu)
        except Withdrawn as withdrawal:
            for run in self._withdrawn(withdrawal):
                self._submit(run, executor)
        except BaseException as error:
            self._errors.append(error)
            try:
                self._stop()
            except Exception as failed:  # told, and not in place of the reason
                self._say(f"stopping the other runs: {failed}")

    def _run(self, planned: PlannedRun, cpu: int) -> None:
        """Execute a run, keep its record, and show what has become of it."""
        spec = planned.spec
        self._progress.started(spec.run_id)
        on_event = partial(self._progress.reached, spec.run_id)
        run = self._cluster.run if self._cluster else None
        place, record = execute_run(planned, self._store, cpu, on_event, run)
        if self._errors:
            return  # interrupted: no record of what was not let finish
        where = self._store.keep(place, record)
        with self._lock:
            replaced = where.name == spec.run_id
            if replaced:
                self.records[spec.run_id] = record
            self._progress.ended(record)
            if not record.finished:
                self.failed.append(record)
                kept = (
                    ""
                    if replaced
                    else f"\n  the good record of an earlier run stays: {where.with_suffix('')}"
                )
                self._say(f"{failure_in_words(record)}\n  its record: {where}{kept}")
            # A repeated run that failed has not replaced its good record: the row is the good
            # one's.
            if spec.run_id in self.records:
                self._table.add(self.records[spec.run_id])
            if spec.run_id in self._awaited:
                self._awaited.remove(spec.run_id)
                if not self._awaited and self._first is not None:
                    self._first(self.known)

    def _withdrawn(self, withdrawal: Withdrawn) -> list[PlannedRun]:
        """Remove the records of withdrawn runs; return these runs, which must be executed again."""
        with self._lock:
            kept = [name for name in withdrawal.run_ids if self.records.pop(name, None) is not None]
            for name in kept:
                self._store.remove(name)
            self._progress.again(withdrawal.run_ids, len(kept))
            self._say(str(withdrawal))
            self._table.write([row for row in self._table.listed if row.run_id in self.records])
        return [run for run in self._runs if run.spec.run_id in withdrawal.run_ids]


class _Table:
    """The file results.csv of a campaign; it grows as runs end."""

    def __init__(self, store: Store, earlier: Collection[str]) -> None:
        self.listed: list[Record] = []
        """The records whose lines are in the file, in their order."""
        self._store = store
        self._columns: Sequence[str] = ()
        self._earlier = read_rows(store.directory / CSV, earlier) if earlier else NO_ROWS

    def write(self, records: Sequence[Record]) -> None:
        """Write the whole file anew, the runs of earlier commands last."""
        parts = unfold_all(records, self._store.runs)
        self._columns = columns_of(parts, self._earlier)
        self._store.write(CSV, csv_lines(parts, self._earlier))
        self.listed = list(records)

    def add(self, record: Record) -> None:
        """Add a run's lines; write the whole file anew if the run has a new column."""
        # A line is appended, as writing the whole file after each run would take the square of
        # their number.
        parts = unfold(record, self._store.runs / record.run_id)
        self.listed.append(record)
        if set(columns_of(parts)) <= set(self._columns):
            self._store.add(CSV, "".join(csv_line(part, self._columns) for part in parts))
        else:
            self.write(self.listed)


def interleaved(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Return the runs in rounds: each cell once, in random order, then all with the next seed.

    What else the machine does, or the heat of its CPU, then affects all cells and not only one.
    """
    import random

    by_seed: dict[int, list[PlannedRun]] = {}
    for run in runs:
        by_seed.setdefault(run.spec.seed, []).append(run)
    mixed: list[PlannedRun] = []
    for group in by_seed.values():
        mixed += random.sample(group, len(group))
    return mixed


def known_record(store: Store, planned: PlannedRun) -> Record | None:
    """Return the record of a finished run, with the measures that its jobs declare now.

    None if the run has not finished, or what it left is damaged: the log then says it. A record
    whose measures change is written anew.
    """
    record, spec = store.load(planned.spec.run_id), planned.spec
    if record is None or not record.finished:
        return None
    run_dir = store.runs / record.run_id
    try:
        check_record(record, run_dir)
        expected = (spec.scenario_name, spec.values, spec.seed)
        if (record.scenario, record.arguments, record.seed) != expected or (
            record.parts and record.parts != parts_of(record, run_dir)
        ):
            raise DamagedRecord(f"{run_dir / 'record.json'}: is of another run")
    except DamagedRecord as damage:
        import logging

        logging.getLogger(__name__).warning("%s; it is run again", damage)
        return None
    now = brought_up_to_date(record, run_dir, planned.measures)
    if now is not record:
        now = _with_parts(now, run_dir)
        store.rewrite(now)
    if now.arguments == planned.spec.values:
        now = replace(now, arguments=planned.spec.values)  # one object for all seeds
    return now


def execute_run(
    planned: PlannedRun, store: Store, cpu: int, on_event: OnEvent, run: Run | None = None
) -> tuple[Path, Record]:
    """Execute a run, by its engine or `run`; return its directory and its record.

    The directory has a temporary name until `store.keep` gives it its final one.
    """
    spec = planned.spec
    # Measures are taken before the record is kept: a run whose files are damaged gets a status that
    # says so.
    place = store.begin(spec.run_id)
    outcome = (run or planned.engine.run)(spec.for_guest(), place, cpu, on_event)
    try:
        sent = checked_statistics(place)
        measured = measures(place, sent, planned.measures, spec.values)
        run_texts = texts(sent, planned.measures)
    except DamagedRecord as damage:
        measured, run_texts = {}, {}
        error = "\n".join(
            [f"the run left {within(damage, place)}", *([outcome.error] if outcome.error else [])]
        )
        outcome = replace(outcome, status=DAMAGED, error=error)
    record = Record(
        spec.run_id,
        spec.scenario_name,
        spec.values,
        spec.seed,
        outcome.status,
        outcome.error,
        outcome.virtual_s,
        outcome.wall_s,
        outcome.capture_hash,
        measured,
        planned.command,
        {**spec.identity, **spec.cell.files},
        planned.engine.packages,
        to_records(planned.measures),
        host={**outcome.host, **python_packages(), **_configs(spec)},
        texts=run_texts,
    )
    return place, (
        _with_parts(record, place) if spec.cell.origin.sub_scenarios else replace(record, parts=[])
    )


def _configs(spec: RunSpec) -> dict[str, Any]:
    """Return what was taken of VPN files, as a record has it; {} if there is none."""
    taken = {name: config.to_record() for name, config in spec.cell.vpn_configs.items()}
    return {"vpn_configs": taken} if taken else {}


def _with_parts(record: Record, run_dir: Path) -> Record:
    """Return the record with those of its sub-scenarios, if its files can be read."""
    try:
        return replace(record, parts=parts_of(record, run_dir))
    except DamagedRecord:  # its status or its row says so
        return record


def failure_in_words(record: Record) -> str:
    """Return a text for a person on a run that has failed: the reason, its status, its values."""
    values = [f"{name}={value}" for name, value in record.arguments.items()]
    cell = " ".join([*values, f"seed={record.seed}"])
    measured = f"\n  {STILL_MEASURED}" if record.measures else ""
    error = record.error or "it gave no reason"
    return f"failed: {_reason(error)}\n{error}\n  {record.status}: {cell}{measured}"


def _reason(error: str) -> str:
    """Return the line that names the reason: what a job ended with, or the last one."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if ENDED_WITH in line:
            reason = line.partition(ENDED_WITH)[2]
            return " ".join(
                [reason, *lines[number + 1 : number + 2]] if reason[-1:] == ":" else [reason]
            )
    return lines[-1] if lines else error


class _Progress:
    """The progress of a campaign: runs done, virtual and wall time, time to go."""

    def __init__(self, show: Progress) -> None:
        self._show = show
        self._to_do = self._known = self._ended = 0
        self._virtual_s: dict[str, float] = {}
        """Virtual seconds of the runs that are executed now, by run_id."""
        self._ended_virtual_s = 0.0
        self._start_s = time.monotonic()

    def reading(self, part: float) -> None:
        """Show that records of finished runs are read."""
        self._show("reading finished runs", part)

    def begin(self, to_do: int, known: int) -> None:
        """Begin with so many runs to do, beside those that are known."""
        self._to_do, self._known = to_do, known
        self._start_s = time.monotonic()

    def started(self, run_id: str) -> None:
        """Note that a run has begun."""
        self._virtual_s[run_id] = 0.0

    def reached(self, run_id: str, event: Mapping[str, Any]) -> None:
        """Note the virtual time that a run has reached."""
        self._virtual_s[run_id] = float(event.get("t_s", 0.0))

    def ended(self, record: Record) -> None:
        """Note that a run has ended."""
        self._virtual_s.pop(record.run_id, None)
        self._ended_virtual_s += record.virtual_s
        self._ended += 1
        self.show()

    def again(self, run_ids: Collection[str], ended: int) -> None:
        """Forget runs that were withdrawn; `ended` of them had ended already."""
        for run_id in run_ids:
            self._virtual_s.pop(run_id, None)
        self._ended -= ended

    def show(self) -> None:
        """Show the runs done, the time they took, and the time to go."""
        if not self._to_do:
            return
        wall_s = time.monotonic() - self._start_s
        # A copy, as other threads add to it meanwhile.
        virtual_s = self._ended_virtual_s + sum(list(self._virtual_s.values()))
        to_go = ""
        if self._ended:
            to_go = f", {(self._to_do - self._ended) * wall_s / self._ended:.0f} s to go"
        known = f" ({self._known} were there already)" if self._known else ""
        text = (
            f"{self._ended} of {self._to_do} runs{known}, {virtual_s:.0f} s on their"
            f" clocks in {wall_s:.0f} s{to_go}"
        )
        self._show(text, self._ended / self._to_do)
