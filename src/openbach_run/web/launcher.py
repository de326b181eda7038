# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution of scenario instances with the virtual engine, several at a time.

Each is on a CPU of its own. Records go where the command line puts them,
results/<scenario>/runs/<run_id>. So neither repeats what the other has finished: an instance whose
run is there already ends at once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from openbach_run.campaign.checks import check_cells, check_folders
from openbach_run.campaign.execute import PlannedRun, execute_run, known_record
from openbach_run.campaign.executor import Executor
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.spec import RunSpec, runs_of
from openbach_run.catalog import Uses, joined
from openbach_run.engine.contract import Engine
from openbach_run.errors import InputError, SetupError
from openbach_run.openbach.job_folders import Package, measures_of
from openbach_run.results import run_files
from openbach_run.results.record import Record, events
from openbach_run.results.store import Store
from openbach_run.topology.hosts import Inventory
from openbach_run.web import links
from openbach_run.web.replay import as_date
from openbach_run.web.store import FINISHED_KO, RUNNING, SCHEDULING, STOPPED, Database, Row

SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")

OWN_FILES = "serve."
"""The beginning of the names of the server's own files in the results directory."""

FINAL = ("Finished Ok", FINISHED_KO, STOPPED)

MakeEngine = Callable[[Uses], Engine]
"""Returns a prepared engine for runs that use these additions."""


@dataclass(frozen=True)
class Order:
    """A run that waits or has begun."""

    instance: int
    spec: RunSpec
    uses: Uses
    """The additions that all runs launched together use: they share one engine."""
    directory: Path
    project: str
    begin: datetime


class Launcher:
    """The launches of the page and of REST: their runs, executed on all CPUs.

    `launch` and `stop` may be called from any thread; `close` ends the runs.
    """

    def __init__(
        self,
        database: Database,
        results: Path,
        make_engine: MakeEngine,
        packages: Mapping[str, Package],
        cpus: Sequence[int],
    ) -> None:
        self.results = results
        self._database, self._make_engine = database, make_engine
        self._packages = packages
        self._engines: dict[int, Engine] = {}
        self._virtual_s: dict[int, float] = {}
        self._stopped: set[int] = set()
        self._closing = False
        self._lock = threading.Lock()
        self._stores = _Stores()
        self._busy = _Keys()
        database.mark_interrupted(as_date(datetime.now(UTC)))
        # The last: from here on threads may execute orders.
        self._executor = Executor(cpus)

    def launch(
        self,
        campaign: Campaign,
        inventory: Inventory,
        project: str,
        versions: Mapping[str, int],
        launch: int | None,
        remember: Callable[[list[Order]], None] = lambda orders: None,
        without: Collection[str] = (),
    ) -> list[Order]:
        """Add an instance for each run of the campaign; return the orders.

        `remember` stores them elsewhere in the database: without it none is executed. The runs with
        the run_ids in `without` are left out. Raises InputError, SetupError.
        """
        check_cells(campaign)
        check_folders(campaign)
        campaign = replace(campaign, link_files=links.contents(self.results, campaign))
        uses = joined(campaign.uses)
        engine = self._make_engine(uses)
        directory = self.directory(campaign.scenario.name)
        specs = runs_of(campaign, inventory, engine.identity_of)
        # Every cell once, then again: the table is soon full. So a small launch does not wait for
        # all seeds of a large one, either.
        seeds = (*campaign.seeds, *campaign.more_seeds)
        turns = {seed: number for number, seed in enumerate(seeds)}
        specs.sort(key=lambda spec: turns[spec.seed])
        orders = []
        with self._database.transaction():
            for spec in specs:
                if spec.run_id in without:
                    continue
                begin = datetime.now(UTC)
                instance = self._database.add_instance(
                    number=1,
                    launch=launch,
                    project=project,
                    scenario=campaign.scenario.name,
                    versions=json.dumps(versions),
                    arguments=json.dumps(spec.values),
                    seed=spec.seed,
                    status=SCHEDULING,
                    start_date=as_date(begin),
                )
                orders.append(Order(instance, spec, uses, directory, project, begin))
            remember(orders)
        for order in orders:
            self._executor.submit(partial(self._execute, order), turns[order.spec.seed])
        return orders

    def stop(self, instance: int) -> None:
        """Stop an instance: at once if it waits, else as soon as its guest has ended."""
        with self._lock:
            self._stopped.add(instance)
            engine = self._engines.get(instance)
        if engine:
            engine.stop()
        else:
            self._database.execute(
                "UPDATE instance SET status = ?, stop_date = start_date WHERE owner = ? AND"
                " stop_date IS NULL",
                STOPPED,
                instance,
            )

    def stopping(self) -> frozenset[int]:
        """Return the instances that are told to stop and have not ended."""
        with self._lock:
            return frozenset(self._stopped)

    def forget(self, instance: Row) -> None:
        """Remove the files that a stopped run has left."""
        left = Path(instance["run_dir"])
        if left.name == stopped_name(instance["id"]):
            run_files.remove(left)

    def virtual_s(self, instance: int) -> float:
        """Return the virtual time in s that a run has reached."""
        return self._virtual_s.get(instance, 0.0)

    def directory(self, scenario: str) -> Path:
        """Return the results directory of a scenario, whatever its name is."""
        if SAFE_NAME.fullmatch(scenario) and not scenario.startswith(OWN_FILES):
            return self.results / scenario
        return self.results / f"scenario-{hashlib.sha256(scenario.encode()).hexdigest()[:16]}"

    @property
    def workers(self) -> int:
        """Return how many runs go on at the same time."""
        return self._executor.workers

    def close(self) -> None:
        """End all runs; orders that wait are not begun."""
        with self._lock:
            self._closing = True
            self._stopped.update(self._engines)
            engines = list(self._engines.values())
        for engine in engines:
            engine.stop()
        self._executor.close()
        self._database.mark_interrupted(as_date(datetime.now(UTC)))

    # On a thread of the executor

    def _execute(self, order: Order, cpu: int) -> None:
        """Execute an order on a CPU, and store how it ended."""
        try:
            self._try(order, cpu)
        except Exception:  # the database cannot be written: the next order may find it better
            logging.getLogger(__name__).exception(
                "scenario instance %d: how it ended is not kept", order.instance
            )
        with self._lock:
            self._stopped.discard(order.instance)

    def _try(self, order: Order, cpu: int) -> None:
        """Execute an order, and keep the reason if that fails."""
        try:
            self._run(order, cpu)
        except (InputError, SetupError, OSError) as error:
            self._end(order, FINISHED_KO, 0.0, str(error))
        except Exception as error:  # whatever it is, the next order is to be executed
            self._end(order, FINISHED_KO, 0.0, f"{type(error).__name__}: {error}")

    def _run(self, order: Order, cpu: int) -> None:
        """Execute an order and store how it ended."""
        # Two launches may have a run in common: the later one finds the record of the other.
        with self._busy.held(order.spec.run_id), self._stores.opened(order.directory) as store:
            engine = self._make_engine(order.uses)
            with self._lock:
                if self._closing or order.instance in self._stopped:
                    return
                self._engines[order.instance] = engine
            order = replace(order, begin=datetime.now(UTC))
            run_dir = store.runs / f"{order.spec.run_id}.unfinished"
            self._database.update_instance(
                order.instance,
                status=RUNNING,
                start_date=as_date(order.begin),
                run_dir=str(run_dir),
            )
            try:
                record = self._record(order, store, engine, cpu)
            finally:
                with self._lock:
                    del self._engines[order.instance]
            if record is None:
                # It is no record, but people may look at what it has left.
                kept = store.runs / stopped_name(order.instance)
                # In this order a page that looks for it meanwhile finds it.
                self._database.update_instance(order.instance, run_dir=str(kept))
                run_dir.rename(kept)
                self._end(order, STOPPED, self.virtual_s(order.instance), None)
                return
            kept = store.runs / record.run_id
            with suppress(run_files.DamagedRecord):  # the record says so
                for event in events(kept):
                    self._tell(order, event)
            self._database.update_instance(order.instance, run_dir=str(kept))
            self._end(order, record.status, record.virtual_s, record.error)

    def _record(self, order: Order, store: Store, engine: Engine, cpu: int) -> Record | None:
        """Return the run's record; an earlier one if it finished; None if the run was stopped."""
        spec = order.spec
        origin = spec.cell.origin
        scenarios = (origin.scenario, *origin.sub_scenarios.values())
        measures = measures_of(scenarios, self._packages)
        planned = PlannedRun(spec, engine, spec.scenario_name, measures)
        if known := known_record(store, planned):
            return known
        try:
            place, record = execute_run(planned, store, cpu, lambda event: self._tell(order, event))
        except InterruptedError:  # stopped before its guest was there
            return None
        if order.instance in self._stopped:
            return None
        store.keep(place, record)
        return record

    def _tell(self, order: Order, event: Mapping[str, Any]) -> None:
        """Store what an event says has started or ended; what has started gets an id."""
        owner = order.instance
        self._virtual_s[owner] = float(event["t_s"])
        if event["event"] == "job_started":
            sql = "INSERT OR IGNORE INTO job (owner, number, name) VALUES (?, ?, ?)"
            self._database.execute(sql, owner, event["instance_id"], event["job"])
        elif event["event"] == "scenario_started" and "parent_id" in event:
            self._begin_child(order, event)
        elif event["event"] == "scenario_ended" and event["scenario_instance_id"] != 1:
            sql = "UPDATE instance SET status = ?, stop_date = ? WHERE owner = ? AND number = ?"
            how = event["status"], self._date(order, event["t_s"])
            self._database.execute(sql, *how, owner, event["scenario_instance_id"])

    def _begin_child(self, order: Order, event: Mapping[str, Any]) -> None:
        """Store a sub-scenario that has started, unless it is known already."""
        known, _ = self._database.ids(order.instance)
        row = self._database.instance(order.instance)
        if event["scenario_instance_id"] in known or row is None:
            return
        self._database.add_instance(
            owner=order.instance,
            parent=known[event["parent_id"]],
            number=event["scenario_instance_id"],
            project=order.project,
            scenario=event["scenario"],
            versions=row["versions"],
            arguments=json.dumps(event["arguments"]),
            seed=order.spec.seed,
            status=RUNNING,
            start_date=self._date(order, event["t_s"]),
        )

    def _end(self, order: Order, status: str, virtual_s: float, error: str | None) -> None:
        """Store how an instance ended; sub-scenarios that had no time to end stop with it.

        OpenBACH has no status for a guest that was lost: the run has failed.
        """
        status = status if status in FINAL else FINISHED_KO
        date = self._date(order, virtual_s)
        with self._database.transaction():
            self._database.update_instance(
                order.instance, status=status, stop_date=date, error=error
            )
            self._database.execute(
                "UPDATE instance SET status = ?, stop_date = ? WHERE owner = ? AND stop_date IS"
                " NULL",
                STOPPED,
                date,
                order.instance,
            )
        self._virtual_s.pop(order.instance, None)

    def _date(self, order: Order, t_s: float) -> str:
        """Return a date of a run, from its virtual time in s."""
        return as_date(order.begin + timedelta(seconds=t_s))


def stopped_name(instance: int) -> str:
    """Return the name of a stopped run's directory, which is no record and no other run's place."""
    return f"stopped-{instance}"


class _Stores:
    """The results directories in use.

    Each is locked once against other commands, however many runs share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[Path, tuple[Store, ExitStack, int]] = {}

    @contextmanager
    def opened(self, directory: Path) -> Iterator[Store]:
        """Hold a results directory: the first user locks it, the last one unlocks it."""
        with self._lock:
            store, stack, users = self._open.get(directory) or (Store(directory), ExitStack(), 0)
            if not users:
                stack.enter_context(store.opened())
            self._open[directory] = (store, stack, users + 1)
        try:
            yield store
        finally:
            with self._lock:
                store, stack, users = self._open.pop(directory)
                if users > 1:
                    self._open[directory] = (store, stack, users - 1)
                else:
                    stack.close()


class _Keys:
    """The locks by name, so that the same run is not executed twice at a time."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._held: set[str] = set()

    @contextmanager
    def held(self, key: str) -> Iterator[None]:
        """Hold a name, after whoever holds it now."""
        with self._condition:
            self._condition.wait_for(lambda: key not in self._held)
            self._held.add(key)
        try:
            yield
        finally:
            with self._condition:
                self._held.discard(key)
                self._condition.notify_all()
