# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign from its plan to its result: `run_campaign(plan_of("geo", …), Options())`.

The command line, `calibrate`, `artifact` and the Python interface call it.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from openbach_run.campaign.engines import controller_of, engine_of, inventory_of
from openbach_run.campaign.execute import Execution, PlannedRun, failure_in_words
from openbach_run.campaign.executor import cpus_for
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.options import Options, shown_path
from openbach_run.campaign.request import Plan
from openbach_run.campaign.spec import runs_of
from openbach_run.campaign.sub_runs import failed_parts, unfold_all
from openbach_run.campaign.table import Result
from openbach_run.engine.contract import Engine
from openbach_run.errors import InputError
from openbach_run.openbach.measures import Declared
from openbach_run.openbach.titles import own_titles
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Progress, Reporter
from openbach_run.results import campaign_file
from openbach_run.results.captures import CAPTURE, KEYS
from openbach_run.results.files import PARQUET
from openbach_run.results.record import Record
from openbach_run.results.store import Store
from openbach_run.results.tables import as_text
from openbach_run.topology.hosts import Inventory

if TYPE_CHECKING:
    from openbach_run.engine.cluster import ClusterExecutor
    from openbach_run.engine.platform.rest import Controller

CODE = ("--", ".", ":!reports", ":!*.md")
"""git's words for what decides about a run: `make reports` writes the others."""


def _show_nothing(text: str, part: float) -> None:
    """Do nothing: nobody has asked for the progress."""


def _say_nothing(text: str) -> None:
    """Do nothing: nobody has asked for messages."""


@dataclass(frozen=True, kw_only=True)
class Callbacks:
    """The functions that `run_campaign` calls while it works, from any of its threads."""

    progress: Progress = _show_nothing
    """Called with a text on what is being done, and the part of it that is done (0 to 1)."""
    message: Callable[[str], None] = _say_nothing
    """Called with a line for a person: a warning, a run that has failed."""
    first_seed: Callable[[Result], None] | None = None
    """Called when each cell has been run once, if other seeds are to come. With it the runs of the
    first seed are executed first."""
    result: Callable[[Result], None] = field(default=lambda result: None)
    """Called at the end with what there is: also after an error or an interruption, which
    `run_campaign` then raises."""


SILENT = Callbacks()


def run_campaign(
    plan: Plan,
    options: Options,
    callbacks: Callbacks = SILENT,
    controller: Controller | None = None,
) -> Result:
    """Execute the runs of a plan that have not finished before; return the result of all.

    A run that fails does not end the campaign: it is in the result, with its status. Raises
    InputError, SetupError, OSError; KeyboardInterrupt ends the guests. What finished is kept, and
    the same call goes on from there. `controller` is the platform if it has been asked already.
    """
    work = _Work(plan, options, controller)
    cpus, cluster = work.cpus, work.cluster
    for text in (*plan.warnings(options.engine), *notes_on_inventories(plan, options)):
        callbacks.message(text)
    store = work.store
    with store.opened():
        planned = work.runs(callbacks.progress)
        runs = [run.asked for run in planned]
        files = dict(chain.from_iterable(run.spec.cell.files.items() for run in planned))
        earlier = campaign_file.earlier(store, runs, options.chosen, files)
        store.write(campaign_file.FILE, work.campaign_file(runs, earlier))
        execution = Execution(
            planned,
            store,
            callbacks.progress,
            callbacks.message,
            # A finished run without the capture that is now wanted must be run again.
            rerun=options.rerun or work.lacks_captures(planned),
            in_real_time=options.in_real_time,
            first=_first_seed(plan, store, callbacks),
            earlier={run.run_id for run in earlier.runs},
        )

        def result() -> Result:
            """Return what there is now."""
            known = unfold_all(execution.known, store.runs)
            # It is written when it is asked for, and is not of these runs.
            (store.directory / PARQUET).unlink(missing_ok=True)
            failed = (*execution.failed, *failed_parts(execution.known, store.runs))
            return Result(store.directory, plan.campaigns, tuple(known), failed)

        try:
            execution.execute(cpus, cluster)
        finally:
            outcome = result()
            # Those that failed now were told of as they ended.
            for record in outcome.failed[len(execution.failed) :]:
                callbacks.message(failure_in_words(record))
            callbacks.result(outcome)
    return outcome


def run_with_progress(
    plan: Plan,
    options: Options,
    *,
    quiet: bool,
    result: Callable[[Result], None] = lambda result: None,
    controller: Controller | None = None,
) -> Result:
    """Run a campaign with its progress, its messages and the tables of the first seed on stderr.

    `result` is called with what there is also after an error or an interruption, when no progress
    is shown any more.
    """
    results: list[Result] = []
    try:
        with Reporter(quiet) as reporter:
            callbacks = Callbacks(
                progress=reporter.show,
                message=reporter.say,
                first_seed=None if quiet else partial(_say_first, reporter),
                result=results.append,
            )
            run_campaign(plan, options, callbacks, controller)
    finally:
        for outcome in results:
            result(outcome)
    (done,) = results
    for text in done.without_measure:
        print(f"openbach-run: {text}", file=sys.stderr)
    return done


def _say_first(reporter: Reporter, result: Result) -> None:
    """Show the tables of the first seed, while the other seeds are still to come."""
    tables = [as_text(table) for table in result.tables]
    reporter.say("\n".join([*tables, "now the other seeds (--seeds 1 is without):"]))


def notes_on_inventories(plan: Plan, options: Options) -> list[str]:
    """Return the notes on what the inventories say of terminals, each for a line of its own.

    Raises InputError.
    """
    notes = []
    for campaign in plan.campaigns:
        here = campaign.on(inventory_of(campaign, plan.catalog, options))
        notes += [f"{campaign.path}: note: {text}" for text in here.notes_on_shares()]
    return notes


def prepare(plan: Plan, options: Options, progress: Progress) -> None:
    """Make what the runs of a plan need (kernel, guest tree and so on), and run nothing."""
    _Work(plan, options).runs(progress)


def forecast_of(plan: Plan, options: Options) -> str:
    """Return a text for a person: how many runs there are to do, and their time and disk space.

    Nothing is made for it.
    """
    from openbach_run.campaign.forecast import forecast, unknown

    work = _Work(plan, options)
    planned, missing = work.runs_that_can_be_named()
    if missing:
        count = sum(campaign.runs_planned for campaign in plan.campaigns)
        return unknown(count, missing, len(work.cpus))
    return forecast(planned, work.store, len(work.cpus))


def to_do_of(plan: Plan, options: Options) -> list[dict[str, str]]:
    """Return the scenario and values of each run that has not finished, and make nothing.

    Where something that the runs depend on is not made, none is known to have finished.
    """
    work = _Work(plan, options)
    planned, missing = work.runs_that_can_be_named()
    if missing:
        runs = []
        for sweep in plan.campaigns:
            for cell in sweep.cells:
                runs += [{"scenario": sweep.scenario.name, **cell}] * len(sweep.seeds_of(cell))
        return runs
    finished = {record.run_id for record in work.store.all() if record.finished}
    specs = [run.spec for run in planned if run.spec.run_id not in finished]
    return [{"scenario": spec.scenario_name, **spec.values} for spec in specs]


def store_of(name: str, options: Options) -> Store:
    """Return the results directory of a plan by its name. Raises InputError."""
    if options.results is not None:
        return Store(options.results)
    # The name is a scenario's, which may be any text.
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise InputError(
            f"the name {name!r} cannot be that of a directory; name one with --results DIR"
        )
    return Store(Path("results") / name)


class _Work:
    """A plan with its options: what is to be run, on which engine, and where it is kept."""

    def __init__(self, plan: Plan, options: Options, controller: Controller | None = None) -> None:
        self._plan, self._options = plan, options
        self._controller = controller or controller_of(options)

    @property
    def cpus(self) -> list[int]:
        """Return the CPU of each run that goes on at the same time. Raises InputError."""
        workers = self._options.workers
        # Runs on a platform, and runs in real time, go one at a time.
        if self._controller is not None:
            return [0]
        return cpus_for(1 if self._options.in_real_time and workers is None else workers)

    @property
    def cluster(self) -> ClusterExecutor | None:
        """Return the executor at the Dask scheduler that the options name. Raises SetupError."""
        if self._options.scheduler is None:
            return None
        from openbach_run.engine.cluster import ClusterExecutor

        return ClusterExecutor(self._options.scheduler)

    @cached_property
    def store(self) -> Store:
        """Return the results directory. Raises InputError."""
        return store_of(self._plan.name, self._options)

    def runs(self, progress: Progress) -> list[PlannedRun]:
        """Return the runs of all campaigns, each once, with the engine of their scenario.

        An engine is prepared, and has only the jobs that its scenario starts.
        """
        planned: dict[str, PlannedRun] = {}
        for campaign in self._plan.campaigns:
            inventory, engine = self._inventory_and_engine(campaign)
            engine.prepare(progress)
            planned |= self._runs_of(campaign, inventory, engine)
        return list(planned.values())

    def runs_that_can_be_named(self) -> tuple[list[PlannedRun], str]:
        """Return the runs of all campaigns without making anything for them, and "".

        If something must be made first, no run is returned, and the name of that thing: without it
        the names of the runs are not known.
        """
        planned: dict[str, PlannedRun] = {}
        for campaign in self._plan.campaigns:
            inventory, engine = self._inventory_and_engine(campaign)
            missing = engine.first_missing()
            if missing:
                return [], missing
            planned |= self._runs_of(campaign, inventory, engine)
        return list(planned.values()), ""

    def _inventory_and_engine(self, campaign: Campaign) -> tuple[Inventory, Engine]:
        """Return the hosts and the engine of a campaign's runs."""
        inventory = inventory_of(campaign, self._plan.catalog, self._options)
        on_it = campaign.on(inventory)
        return inventory, engine_of(on_it, self._plan, self._options, self._controller)

    def _runs_of(
        self, campaign: Campaign, inventory: Inventory, engine: Engine
    ) -> dict[str, PlannedRun]:
        """Return the runs of a campaign by their names."""
        measures = campaign.measures
        if self._options.engine == "native":
            measures = {**measures, **self._measures_natively(campaign, engine)}
        url = None if self._controller is None else self._controller.access.url
        scenario, words = shown_path(campaign.path), tuple(self._options.words(url))
        specs = runs_of(campaign, inventory, engine.identity_of)
        return {spec.run_id: PlannedRun(spec, engine, scenario, measures, words) for spec in specs}

    def _measures_natively(self, campaign: Campaign, engine: Engine) -> Declared:
        """Return the measures that the native engine adds.

        Raises InputError for values that this host cannot run.
        """
        from openbach_run.campaign.needs import check_host
        from openbach_run.engine.native import cpu
        from openbach_run.engine.native.engine import NativeEngine

        assert isinstance(engine, NativeEngine)
        check_host(campaign, self._plan.catalog, engine.host)
        return cpu.MEASURES

    def lacks_captures(self, planned: Sequence[PlannedRun]) -> bool:
        """Return whether any run lacks the capture, or the keys, that the options want."""
        wanted = [CAPTURE] * self._options.pcap + [KEYS] * self._options.keys
        runs = self.store.runs
        places = [runs / run.spec.run_id for run in planned]
        return not all((place / name).exists() for place in places for name in wanted)

    def campaign_file(
        self, runs: Iterable[campaign_file.AskedRun], earlier: campaign_file.Earlier
    ) -> Iterator[str]:
        """Yield the text of the file on what was asked for: commands, runs, the commit."""
        plan, options = self._plan, self._options
        words = ["./openbach-run", shown_path(plan.path), *plan.settings]
        words += [] if plan.seeds is None else ["--seeds", plan.seeds]
        words += options.path_words if options.engine == "controller" else options.words(None)
        plots = {campaign.scenario.name: campaign.plot for campaign in plan.campaigns}
        titles = dict(earlier.titles)
        for campaign in plan.campaigns:
            own = own_titles(campaign.path)
            titles |= {name: title._asdict() for name, title in own.items()}
        command = shlex.join(words)
        before = [line for line in earlier.commands if line != command]
        return campaign_file.text(
            command,
            chain(runs, earlier.runs),
            commit=commit(),
            apart=options.chosen,
            plots={**earlier.plots, **plots},
            **({"titles": titles} if titles else {}),
            **({"earlier": before} if before else {}),
        )


def _first_seed(
    plan: Plan, store: Store, callbacks: Callbacks
) -> Callable[[Sequence[Record]], None] | None:
    """Return what calls `Callbacks.first_seed`; None if nobody waits for it."""
    call = callbacks.first_seed
    if call is None or not any(campaign.more_seeds for campaign in plan.campaigns):
        return None
    once = tuple(replace(campaign, more_seeds=()) for campaign in plan.campaigns)
    has_others = any(len(campaign.every_seed) > 1 for campaign in plan.campaigns)

    def ended(known: Sequence[Record]) -> None:
        """Call it once all runs of the first seed have ended."""
        first = [record for record in known if record.seed == once[0].seeds[0]]
        done = unfold_all(first, store.runs)
        if len(done) < len(known) or has_others:
            call(Result(store.directory, once, tuple(done)))

    return ended


def commit() -> str | None:
    """Return the commit of this checkout; None if there is none, or uncommitted changes of code."""
    words = ["git", "-C", str(REPOSITORY), "status", "--porcelain=v2", "--branch"]
    try:
        lines = subprocess.run(
            [*words, "--no-ahead-behind", *CODE], check=True, capture_output=True, text=True
        ).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    head = [line.split()[2] for line in lines if line.startswith("# branch.oid ")]
    # Lines with # are about the branch; every other line is a change.
    return head[0] if head and all(line.startswith("# ") for line in lines) else None
