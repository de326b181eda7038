# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the runs of a campaign, several at a time, each on a CPU of its own, and keeps their records."""

from __future__ import annotations

import queue
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from openbach_run.campaign import RunSpec
from openbach_run.engine.virtual import Outcome
from openbach_run.progress import Reporter
from openbach_run.record import Record, Store
from openbach_run.results import as_csv, measures
from openbach_run.sub_runs import unfold


class Engine(Protocol):
    """What executes a run."""

    @property
    def identity(self) -> dict[str, str]: ...

    @property
    def packages(self) -> tuple[str, ...]: ...

    def run(
        self, spec: Mapping[str, Any], run_dir: Path, cpu: int, on_event: Callable[[Mapping[str, Any]], None]
    ) -> Outcome: ...

    def stop(self) -> None: ...


@dataclass
class Executor:
    """`execute` blocks until all is done; `records` then has every run's, by run_id."""

    engine: Engine
    store: Store
    scenario_path: Path
    cpus: Sequence[int]
    rerun: bool
    options: Sequence[str] = ()
    """Of the command, that name the engine: for the records."""
    records: dict[str, Record] = field(default_factory=dict)

    def known(self, runs: Sequence[RunSpec]) -> list[Record]:
        """The records that are there, in the order of the runs."""
        return [self.records[spec.run_id] for spec in runs if spec.run_id in self.records]

    def execute(self, runs: Sequence[RunSpec], reporter: Reporter) -> None:
        """Keeps results.csv up to date meanwhile. Raises what the first failing worker raised (a full disk, say);
        KeyboardInterrupt ends the guests."""
        waiting: queue.SimpleQueue[RunSpec] = queue.SimpleQueue()
        for spec in runs:
            done = None if self.rerun else self.store.load(spec.run_id)
            if done is not None and done.finished:
                self.records[spec.run_id] = done
            else:
                waiting.put(spec)
        self._progress = _Progress(reporter, waiting.qsize(), len(self.records), len(self.cpus))
        self._errors: list[BaseException] = []
        self._lock = threading.Lock()
        self._runs, self._reporter = runs, reporter
        self._write_results()
        workers = [threading.Thread(target=self._work, args=(waiting, cpu), daemon=True) for cpu in self.cpus]
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                while worker.is_alive():
                    worker.join(0.2)
                    self._progress.show()
        except BaseException:
            self._errors.append(InterruptedError())
            self.engine.stop()
            for worker in workers:
                worker.join(10)
            raise
        if self._errors:
            raise self._errors[0]

    def _work(self, waiting: queue.SimpleQueue[RunSpec], cpu: int) -> None:
        while not self._errors:
            try:
                spec = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._run(spec, cpu)
            except BaseException as error:
                self._errors.append(error)
                self.engine.stop()

    def _run(self, spec: RunSpec, cpu: int) -> None:
        self._progress.started(spec.run_id)
        place, record = execute_run(
            self.engine, self.store, spec, cpu, self._command(spec),
            lambda event: self._progress.told(spec.run_id, event),
        )  # fmt: skip
        if self._errors:
            return  # interrupted: no record of what was not let finish
        with self._lock:
            self.store.keep(place, record)
            self.records[spec.run_id] = record
            self._progress.ended(record)
            if record.error is not None:
                where = self.store.runs / record.run_id
                self._reporter.say(f"failed: {_cell(spec)}: {record.status}\n{record.error}\n  its record: {where}")
            self._write_results()

    def _write_results(self) -> None:
        parts = [part for record in self.known(self._runs) for part in unfold(record, self.store.runs / record.run_id)]
        self.store.write("results.csv", as_csv(parts))

    def _command(self, spec: RunSpec) -> str:
        settings = [f"{name}={value}" for name, value in spec.arguments.items()]
        return shlex.join(["./openbach-run", str(self.scenario_path), *settings, "--seeds", f"{spec.seed},", *self.options])


def execute_run(
    engine: Engine, store: Store, spec: RunSpec, cpu: int, command: str, on_event: Callable[[Mapping[str, Any]], None]
) -> tuple[Path, Record]:
    """Executes a run. Its record is in the directory returned until `store.keep` gives that its name."""
    place = store.begin(spec.run_id)
    outcome = engine.run(spec.for_guest(), place, cpu, on_event)
    record = Record(
        spec.run_id,
        spec.scenario["name"],
        spec.arguments,
        spec.seed,
        outcome.status,
        outcome.error,
        outcome.virtual_s,
        outcome.wall_s,
        outcome.capture_sha256,
        measures(place),
        command,
        spec.identity,
        list(engine.packages),
    )
    return place, record


def _cell(spec: RunSpec) -> str:
    return " ".join([*(f"{name}={value}" for name, value in spec.arguments.items()), f"seed={spec.seed}"])


class _Progress:
    """How far the campaign is: runs done, virtual and wall time, time to go."""

    def __init__(self, reporter: Reporter, to_do: int, known: int, workers: int) -> None:
        self._reporter = reporter
        self._to_do, self._known, self._workers = to_do, known, workers
        self._virtual_s: dict[str, float] = {}
        self._walls_s: list[float] = []
        self._start_s = time.monotonic()
        self._ended = 0

    def started(self, run_id: str) -> None:
        self._virtual_s[run_id] = 0.0

    def told(self, run_id: str, event: Mapping[str, Any]) -> None:
        self._virtual_s[run_id] = float(event.get("t_s", 0.0))

    def ended(self, record: Record) -> None:
        self._virtual_s[record.run_id] = record.virtual_s
        self._walls_s.append(record.wall_s)
        self._ended += 1
        self.show()

    def show(self) -> None:
        if not self._to_do:
            return
        wall_s = time.monotonic() - self._start_s
        virtual_s = sum(self._virtual_s.values())
        to_go = ""
        if self._walls_s:
            mean_s = sum(self._walls_s) / len(self._walls_s)
            to_go = f", {max(self._to_do - self._ended, 0) * mean_s / self._workers:.0f} s to go"
        known = f" ({self._known} were there already)" if self._known else ""
        text = f"{self._ended} of {self._to_do} runs{known}, {virtual_s:.0f} virtual s in {wall_s:.0f} s{to_go}"
        self._reporter.show(text, self._ended / self._to_do)
