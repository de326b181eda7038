# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution of a campaign's runs: several at a time, each on a CPU of its own.

Keeps their records.
"""

from __future__ import annotations

import os
import queue
import shlex
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openbach_run.campaign.spec import RunSpec
from openbach_run.campaign.sub_runs import parts_of, unfold, unfold_all
from openbach_run.engine.contract import Engine, Withdrawn
from openbach_run.errors import InputError
from openbach_run.openbach.measures import Declared, to_records
from openbach_run.progress import Reporter
from openbach_run.results.files import arrow, columns_of, csv_line, csv_lines
from openbach_run.results.measures import brought_up_to_date, measures
from openbach_run.results.record import DAMAGED, Record, Store, check
from openbach_run.results.run_files import DamagedRecord, within

LONG_S = 2.0
"""Seconds after which a task shows its progress."""


@dataclass(frozen=True)
class PlannedRun:
    """A run with its engine, its scenario's name in a command, and the measures that its jobs
    declare.
    """

    spec: RunSpec
    engine: Engine
    scenario: str
    measures: Declared = field(default_factory=dict)
    options: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """Return the command line that executes this run again."""
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


@dataclass
class Executor:
    """A worker pool that executes runs and keeps their records.

    `execute` blocks until all is done. Then `records` has the record of every run, by run_id, and
    `failed` has the records of the runs that failed now. Where a run is repeated and fails, the
    good record stays in `records`.
    """

    store: Store
    cpus: Sequence[int]
    rerun: bool
    first: Callable[[list[Record]], None] | None = None
    """Called with the records when each cell has been run once. If it is given, the runs of the
    first seed are executed first."""
    in_real_time: bool = False
    records: dict[str, Record] = field(default_factory=dict)
    failed: list[Record] = field(default_factory=list)

    def known(self, runs: Sequence[PlannedRun]) -> list[Record]:
        """Return the records that exist, in the order of the runs."""
        return [self.records[one.spec.run_id] for one in runs if one.spec.run_id in self.records]

    def execute(self, runs: Sequence[PlannedRun], reporter: Reporter) -> None:
        """Execute the runs and write results.csv.

        Each run is added to results.csv as it ends; at the end the file has the runs in the order
        of `runs`. Raises what the first failing worker raised, for example for a full disk.
        KeyboardInterrupt ends the guests.
        """
        to_run: list[PlannedRun] = []
        begin_s = time.monotonic()
        for number, one in enumerate(runs):
            if time.monotonic() - begin_s > LONG_S:
                reporter.show("reading finished runs", number / len(runs))
            done = known_record(self.store, one)
            if done is not None:
                self.records[done.run_id] = done
            if self.rerun or done is None:
                to_run.append(one)
        if self.in_real_time:
            to_run = interleaved(to_run)
        elif self.first is not None:
            # The sort is stable: within a seed the order of the cells stays.
            to_run.sort(key=lambda one: one.spec.seed)
        waiting: queue.SimpleQueue[PlannedRun] = queue.SimpleQueue()
        for one in to_run:
            waiting.put(one)
        to_do = len(to_run)
        # `first` is called when the last run with the lowest seed has ended.
        least = min((one.spec.seed for one in runs), default=0)
        self._awaited = (
            {one.spec.run_id for one in to_run if one.spec.seed == least} if self.first else set()
        )
        self._progress = _Progress(reporter, to_do, len(runs) - to_do)
        self._errors: list[BaseException] = []
        self._lock = threading.Lock()
        self._runs, self._reporter = runs, reporter
        self._write_results([] if self.rerun else self.known(runs))
        workers = [
            threading.Thread(target=self._work, args=(waiting, cpu), daemon=True)
            for cpu in self.cpus[:to_do]
        ]
        try:
            for worker in workers:
                worker.start()
            if workers and not self.in_real_time:
                # Loads what results.parquet needs: now, while the runs go on, and not at the end.
                arrow()
            for worker in workers:
                while worker.is_alive():
                    worker.join(0.2)
                    self._progress.show()
        except BaseException:
            # The workers look at _errors: with one in it they start no further run.
            self._errors.append(InterruptedError())
            try:
                self._stop()
            finally:
                started = [one for one in workers if one.ident is not None]
                for worker in started:
                    worker.join(10)
            raise
        finally:
            with self._lock:
                try:
                    self._write_results(self.known(runs))
                except OSError as error:  # on a full disk, say: then the first error names the file
                    raise next(
                        (one for one in self._errors if getattr(one, "filename", None)), error
                    ) from error
        if self._errors:
            raise self._errors[0]

    def _stop(self) -> None:
        """Stop every engine, even after one could not be stopped.

        Raises what the first failure raised.
        """
        with ExitStack() as stack:
            # Several runs share an engine; each engine is stopped once.
            engines = {id(one.engine): one.engine for one in self._runs}
            for engine in engines.values():
                stack.callback(engine.stop)

    def _work(self, waiting: queue.SimpleQueue[PlannedRun], cpu: int) -> None:
        while not self._errors:
            try:
                planned = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._run(planned, cpu)
            except Withdrawn as found:
                self._again(found, waiting)
            except BaseException as error:
                self._errors.append(error)
                try:
                    self._stop()
                except Exception as failed:  # told, and not in place of the reason
                    self._reporter.say(f"stopping the other runs: {failed}")

    def _run(self, planned: PlannedRun, cpu: int) -> None:
        spec = planned.spec
        self._progress.started(spec.run_id)
        place, record = execute_run(
            planned, self.store, cpu, lambda event: self._progress.told(spec.run_id, event)
        )
        if self._errors:
            return  # interrupted: no record of what was not let finish
        where = self.store.keep(place, record)
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
                said = record.error or "it gave no reason"
                self._reporter.say(
                    f"failed: {_cell(spec)}: {record.status}\n{said}\n  its record: {where}{kept}"
                )
            self._add_result(self.records.get(spec.run_id))
            # After the last run of the first seed every cell has a value: time for a first table.
            if spec.run_id in self._awaited:
                self._awaited.remove(spec.run_id)
                if not self._awaited and self.first is not None:
                    self.first(self.known(self._runs))

    def _again(self, found: Withdrawn, waiting: queue.SimpleQueue[PlannedRun]) -> None:
        """Queue withdrawn runs again, and remove their records."""
        with self._lock:
            kept = [name for name in found.run_ids if self.records.pop(name, None) is not None]
            for name in kept:
                self.store.remove(name)
            self._progress.again(found.run_ids, len(kept))
            self._reporter.say(str(found))
            self._write_results([one for one in self._listed if one.run_id in self.records])
        for one in self._runs:
            if one.spec.run_id in found.run_ids:
                waiting.put(one)

    def _write_results(self, records: Sequence[Record]) -> None:
        parts = unfold_all(records, self.store.runs)
        self._columns = columns_of(parts)
        self.store.write("results.csv", csv_lines(parts))
        self._listed = list(records)

    def _add_result(self, record: Record | None) -> None:
        """Add a run's lines to results.csv; write the whole file anew if the run has a new column."""
        if record is None:
            return
        parts = unfold(record, self.store.runs / record.run_id)
        self._listed.append(record)
        if set(columns_of(parts)) <= set(self._columns):
            self.store.add("results.csv", "".join(csv_line(part, self._columns) for part in parts))
        else:
            self._write_results(self._listed)


def interleaved(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Return the runs in rounds: each cell once, in random order, then each cell with the next
    seed.

    What else the machine does, or the heat of its CPU, then affects all cells and not only one.
    """
    import random

    by_seed: dict[int, list[PlannedRun]] = {}
    for one in runs:
        by_seed.setdefault(one.spec.seed, []).append(one)
    mixed: list[PlannedRun] = []
    for group in by_seed.values():
        mixed += random.sample(group, len(group))
    return mixed


def cpus_for(workers: int | None) -> list[int]:
    """Return a CPU for each worker; without a number, one for each CPU that this process may use.

    Each process begins with another CPU: of two commands with one run each, neither waits for the
    other. Raises InputError.
    """
    available = sorted(os.sched_getaffinity(0))
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers}: at least 1")
    return [
        available[(os.getpid() + number) % len(available)]
        for number in range(workers or len(available))
    ]


def known_record(store: Store, planned: PlannedRun) -> Record | None:
    """Return the record of a finished run, with the measures that its jobs declare now; None if the
    run has not finished.

    A record whose measures change is written anew.
    """
    record = store.load(planned.spec.run_id)
    if record is None or not record.finished:
        return None
    run_dir = store.runs / record.run_id
    now = brought_up_to_date(record, run_dir, planned.measures)
    if now is not record:
        now = _with_parts(now, run_dir)
        store.rewrite(now)
    if now.arguments == planned.spec.values:
        now = replace(now, arguments=planned.spec.values)  # one object for all seeds
    return now


def execute_run(
    planned: PlannedRun, store: Store, cpu: int, on_event: Callable[[Mapping[str, Any]], None]
) -> tuple[Path, Record]:
    """Execute a run; return its directory and its record.

    The directory has a temporary name until `store.keep` gives it its final one.
    """
    spec = planned.spec
    place = store.begin(spec.run_id)
    outcome = planned.engine.run(spec.for_guest(), place, cpu, on_event)
    try:
        check(place)
        measured = measures(place, planned.measures, spec.values)
    except DamagedRecord as damage:
        measured = {}
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
        spec.identity,
        planned.engine.packages,
        to_records(planned.measures),
        host=outcome.host,
    )
    return place, (
        _with_parts(record, place) if spec.cell.origin.sub_scenarios else replace(record, parts=[])
    )


def _with_parts(record: Record, run_dir: Path) -> Record:
    try:
        return replace(record, parts=parts_of(record, run_dir))
    except DamagedRecord:  # its status or its row says so
        return record


def _cell(spec: RunSpec) -> str:
    return " ".join(
        [*(f"{name}={value}" for name, value in spec.values.items()), f"seed={spec.seed}"]
    )


class _Progress:
    """The progress of a campaign: runs done, virtual and wall time, time to go."""

    def __init__(self, reporter: Reporter, to_do: int, known: int) -> None:
        self._reporter = reporter
        self._to_do, self._known = to_do, known
        self._virtual_s: dict[str, float] = {}
        """Virtual seconds of the runs that are executed now, by run_id."""
        self._ended_virtual_s = 0.0
        self._start_s = time.monotonic()
        self._ended = 0

    def started(self, run_id: str) -> None:
        self._virtual_s[run_id] = 0.0

    def told(self, run_id: str, event: Mapping[str, Any]) -> None:
        self._virtual_s[run_id] = float(event.get("t_s", 0.0))

    def ended(self, record: Record) -> None:
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
        if not self._to_do:
            return
        wall_s = time.monotonic() - self._start_s
        virtual_s = self._ended_virtual_s + sum(list(self._virtual_s.values()))
        to_go = ""
        if self._ended:
            to_go = f", {(self._to_do - self._ended) * wall_s / self._ended:.0f} s to go"
        known = f" ({self._known} were there already)" if self._known else ""
        text = (
            f"{self._ended} of {self._to_do} runs{known}, {virtual_s:.0f} virtual s in {wall_s:.0f}"
            f" s{to_go}"
        )
        self._reporter.show(text, self._ended / self._to_do)
