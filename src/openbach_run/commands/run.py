# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run SCENARIO [NAME=VALUE…]`: plans the runs, executes those that are missing, prints
the table.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from openbach_run.campaign.execute import Executor, PlannedRun, cpus_for
from openbach_run.campaign.file import plan_file
from openbach_run.campaign.plan import Campaign, notes_of, plan
from openbach_run.campaign.settings import parse_seeds
from openbach_run.campaign.sub_runs import unfold_all, unfold_campaign
from openbach_run.campaign.table import campaign_table, not_sent
from openbach_run.catalog import Catalog, joined
from openbach_run.clock import VIRTUAL, clock_named
from openbach_run.engine.contract import Engine
from openbach_run.engine.virtual.engine import VirtualEngine, guest_code
from openbach_run.errors import InputError
from openbach_run.openbach.addresses import inventory_file, unknown_entities
from openbach_run.openbach.job_folders import (
    Package,
    check_installed,
    faults,
    left_out,
    load_packages,
    parts_of,
)
from openbach_run.openbach.lint import lint
from openbach_run.openbach.measures import Declared
from openbach_run.openbach.refusals import Malformed, near
from openbach_run.openbach.source import SUFFIXES, is_source
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Reporter
from openbach_run.results import campaign_file
from openbach_run.results.captures import CAPTURE, KEYS
from openbach_run.results.files import as_csv, as_json, write_parquet
from openbach_run.results.record import Record, Store
from openbach_run.results.seeds import FIRST_SEEDS
from openbach_run.results.tables import as_html, as_latex, as_markdown, as_text
from openbach_run.topology.hosts import Inventory
from openbach_run.topology.inventory import check_size, load_inventory
from openbach_run.topology.networks import check_platform_mtus

if TYPE_CHECKING:
    from openbach_run.engine.platform.rest import Controller

REMOTE_RUNS = 256
"""The most runs that wait at a Dask scheduler at the same time."""
TABLE_FORMATS = {
    "table": as_text,
    "markdown": as_markdown,
    "latex": as_latex,
    "html": as_html,
}


Show = Callable[[Path, Sequence[Campaign], Sequence[Record]], None]
"""Called at the end with the results directory, the campaigns that were asked for, and the records
that exist, in order."""


def run(arguments: argparse.Namespace, show: Show | None = None) -> int:
    """Run a command line; return the exit code. The records go to `show`, or are printed.

    Raises InputError, SetupError, OSError, KeyboardInterrupt.
    """
    if arguments.pcap and arguments.scheduler is not None:
        raise InputError(
            "--pcap: captures stay on the machine of a run; repeat the run here, without"
            " --scheduler"
        )
    if arguments.keys and not arguments.pcap:
        raise InputError("--keys: of the tunnels in a capture; it goes with --pcap")
    if arguments.workers is not None and arguments.scheduler is not None:
        raise InputError("--workers: a cluster runs as many at a time as its workers have threads")
    controller = _controller(arguments)
    _check_real_time(arguments)
    catalog = Catalog.beside_ours(arguments.with_dirs)
    path = path_of(arguments.scenario, catalog)
    packages = load_packages([*arguments.jobs, *catalog.jobs], catalog)
    if arguments.check:
        from openbach_run.commands.check import check

        return check(path, packages, arguments.format == "json", arguments.inventory)
    campaigns = campaigns_of(path, arguments, packages, catalog)
    for fault in faults(packages):
        print(f"openbach-run: warning: {fault}", file=sys.stderr)
    in_real_time = bool(_chosen(arguments))
    # Runs on a platform, and runs in real time, go one at a time.
    cpus = (
        [0]
        if controller is not None
        else cpus_for(1 if in_real_time and arguments.workers is None else arguments.workers)
    )
    for campaign in campaigns:
        _warn(campaign, packages)
        for note in left_out(campaign.jobs(), packages) if arguments.engine == "virtual" else ():
            print(f"openbach-run: note: {note}", file=sys.stderr)
    name = path.stem if _is_campaign_file(path) else campaigns[0].scenario.name
    store = Store(arguments.results or _results_directory(name))
    if arguments.dry_run:
        from openbach_run.campaign.forecast import forecast, unknown

        planned, missing = _looked(campaigns, arguments, packages, catalog, controller)
        runs = sum(len(one.cells) * len(one.every_seed) for one in campaigns)
        print(
            forecast(planned, store, len(cpus))
            if not missing
            else unknown(runs, missing, len(cpus))
        )
        return 0
    if arguments.prepare:
        _planned(campaigns, arguments, packages, catalog, controller)
        return 0
    with store.opened():
        planned = _planned(campaigns, arguments, packages, catalog, controller)
        store.write(campaign_file.FILE, _asked(path, arguments, campaigns, planned))
        # A finished run without the capture that is now wanted must be run again.
        kept = [CAPTURE] * arguments.pcap + [KEYS] * arguments.keys
        rerun = arguments.rerun or _lack(kept, store, planned)
        # With a scheduler the numbers of CPUs only say how many runs wait there at the same time.
        executor = Executor(
            store,
            cpus if arguments.scheduler is None else REMOTE_RUNS * [0],
            rerun,
            in_real_time=in_real_time,
        )
        try:
            with Reporter(arguments.quiet) as reporter:
                if not arguments.quiet and any(one.more_seeds for one in campaigns):
                    executor.first = partial(_show_first, reporter, campaigns, store.runs)
                executor.execute(planned, reporter)
        finally:  # after an interruption, too: what has finished is shown
            known = unfold_all(executor.known(planned), store.runs)
            write_parquet(known, store.directory / "results.parquet")
            (show or partial(_print, arguments.format))(store.directory, campaigns, known)
    texts = [not_sent(unfold_campaign(one, known), known, store.runs) for one in campaigns]
    lacking = [text for text in texts if text]
    for text in lacking:
        print(f"openbach-run: {text}", file=sys.stderr)
    # A run without the measure that its table shows counts as a failure, too.
    return int(bool(executor.failed or lacking))


def path_of(text: str, catalog: Catalog) -> Path:
    """Return the path of a scenario or campaign.

    `text` is a file here, one of ours (as records name it), or a name in scenarios/ or campaigns/.
    Raises InputError if a bare name is none of these.
    """
    path = Path(text)
    if path.exists():
        return path
    if path.name != text or path.suffix:
        return REPOSITORY / path if (REPOSITORY / path).is_file() else path
    names = {**catalog.all("campaigns"), **catalog.all("scenarios")}
    if text not in names:
        raise InputError(
            f"{text}: no such scenario or campaign; {near(text, names)}there are"
            f" {', '.join(sorted(names))}"
        )
    return names[text]


def campaigns_of(
    path: Path, arguments: argparse.Namespace, packages: Mapping[str, Package], catalog: Catalog
) -> list[Campaign]:
    """Return the campaigns of a campaign file, or the one campaign of a scenario.

    Raises InputError.
    """
    seeds = None if arguments.seeds is None else parse_seeds(arguments.seeds)
    if _is_campaign_file(path):
        return plan_file(path, arguments.settings, seeds, packages, catalog)
    try:
        # A run in real time takes long: one seed, unless more are asked for.
        in_real_time = bool(_chosen(arguments))
        return [
            plan(
                path,
                arguments.settings,
                FIRST_SEEDS if in_real_time and seeds is None else seeds,
                packages,
            )
        ]
    except Malformed as error:
        raise InputError(f"{path}: {error}") from error


def _is_campaign_file(path: Path) -> bool:
    return path.suffix in SUFFIXES and not is_source(path)


def _controller(arguments: argparse.Namespace) -> Controller | None:
    """Return the platform that executes the runs; None if no platform does.

    Raises InputError for options that do not go with it.
    """
    if arguments.engine != "controller":
        if arguments.controller is not None:
            raise InputError("--controller needs --engine controller")
        return None
    if arguments.pcap:
        raise InputError(
            "--pcap: packets are captured by the virtual engine; on a platform let a job do it"
            " (tcpdump)"
        )
    if arguments.locked:
        raise InputError(
            "--locked: a platform's hosts have the packages that they have; debian.lock is of the"
            " guest"
        )
    if arguments.workers not in (None, 1) or arguments.scheduler is not None:
        raise InputError(
            "--workers, --scheduler: a platform has one set of hosts, its runs go one at a time"
        )
    # Late, as it imports requests.
    from openbach_run.engine.platform.rest import CONTROLLER_FILE, Controller, read_access

    return Controller(read_access(arguments.controller, Path(CONTROLLER_FILE)))


def _check_real_time(arguments: argparse.Namespace) -> None:
    """Check the options. Raises InputError for those that do not go with real time."""
    if clock_named(arguments.clock) != VIRTUAL and arguments.engine != "virtual":
        raise InputError(
            f"--clock {arguments.clock} is of the virtual engine; the time of --engine"
            f" {arguments.engine} is always real"
        )
    if arguments.scheduler is not None and (
        arguments.clock != VIRTUAL or arguments.engine == "native"
    ):
        raise InputError(
            "--scheduler: a cluster checks one worker's packets by another's; in real time they"
            " differ"
        )
    if arguments.engine == "native":
        if arguments.pcap:
            raise InputError(
                "--pcap: packets are captured by the virtual engine; natively let a job do it"
                " (tcpdump)"
            )
        if arguments.workers not in (None, 1):
            raise InputError(
                "--workers: native runs share this machine's CPUs, they go one at a time"
            )


def _planned(
    campaigns: Sequence[Campaign],
    arguments: argparse.Namespace,
    packages: Mapping[str, Package],
    catalog: Catalog,
    controller: Controller | None,
) -> list[PlannedRun]:
    """Return the runs of all campaigns, each once, with the engine of their scenario.

    An engine has only the jobs that its scenario starts.
    """
    planned: dict[str, PlannedRun] = {}
    with Reporter(arguments.quiet) as reporter:
        for campaign in campaigns:
            inventory = _inventory(campaign, arguments, catalog, controller)
            engine = _engine(campaign.on(inventory), arguments, packages, catalog, controller)
            engine.prepare(reporter.show)
            planned |= _runs(campaign, arguments, packages, catalog, controller, inventory, engine)
    return list(planned.values())


def _looked(
    campaigns: Sequence[Campaign],
    arguments: argparse.Namespace,
    packages: Mapping[str, Package],
    catalog: Catalog,
    controller: Controller | None,
) -> tuple[list[PlannedRun], str]:
    """Return the runs of all campaigns without making anything for them, and "".

    If something must be made first, no run is returned, and the name of that thing: without it the
    names of the runs are not known.
    """
    planned: dict[str, PlannedRun] = {}
    for campaign in campaigns:
        inventory = _inventory(campaign, arguments, catalog, controller)
        engine = _engine(campaign.on(inventory), arguments, packages, catalog, controller)
        if missing := engine.look():
            return [], missing
        planned |= _runs(campaign, arguments, packages, catalog, controller, inventory, engine)
    return list(planned.values()), ""


def _runs(
    campaign: Campaign,
    arguments: argparse.Namespace,
    packages: Mapping[str, Package],
    catalog: Catalog,
    controller: Controller | None,
    inventory: Inventory,
    engine: Engine,
) -> dict[str, PlannedRun]:
    """Return the runs of a campaign by their names."""
    measures = campaign.measures
    if arguments.engine == "native":
        measures = {**measures, **_measures_natively(campaign, packages, catalog, engine)}
    scenario, options = _shown(campaign.path), tuple(_options(controller, arguments))
    specs = campaign.runs(packages, inventory, catalog, engine.identity_of)
    return {spec.run_id: PlannedRun(spec, engine, scenario, measures, options) for spec in specs}


def _measures_natively(
    campaign: Campaign, packages: Mapping[str, Package], catalog: Catalog, engine: Engine
) -> Declared:
    """Return the measures that the native engine adds.

    Raises InputError for values that this host cannot run.
    """
    from openbach_run.campaign.needs import check_host
    from openbach_run.engine.native import cpu
    from openbach_run.engine.native.engine import NativeEngine

    assert isinstance(engine, NativeEngine)
    check_host(campaign, packages, catalog, engine.host)
    return cpu.MEASURES


def _engine(
    campaign: Campaign,
    arguments: argparse.Namespace,
    packages: Mapping[str, Package],
    catalog: Catalog,
    controller: Controller | None,
) -> Engine:
    """Return the engine that the options choose, for the jobs and folders that a campaign uses."""
    if controller is not None:
        check_platform_mtus(campaign.values)
        from openbach_run.engine.platform.engine import ControllerEngine

        return ControllerEngine(
            controller, arguments.project, [campaign.scenario, *campaign.sub_scenarios.values()]
        )
    uses = joined(campaign.uses(packages, catalog))
    parts = parts_of(uses, packages, catalog)
    if arguments.engine == "native":
        from openbach_run.engine.native.engine import NativeEngine

        return NativeEngine(REPOSITORY, guest_code(REPOSITORY, parts), locked=arguments.locked)
    check_installed(uses["jobs"], packages)
    virtual = VirtualEngine(
        REPOSITORY,
        guest_code(REPOSITORY, parts),
        pcap=arguments.pcap,
        keys=arguments.keys,
        clock=arguments.clock,
        locked=arguments.locked,
    )
    if arguments.scheduler is None:
        return virtual
    from openbach_run.engine.cluster import ClusterEngine

    return ClusterEngine(virtual, arguments.scheduler, parts)


def _inventory(
    campaign: Campaign,
    arguments: argparse.Namespace,
    catalog: Catalog,
    controller: Controller | None,
) -> Inventory:
    """Return the inventory that the campaign runs on.

    Raises InputError for entities that it does not have; a platform has its own entities, and says
    itself which are missing.
    """
    given = arguments.inventory
    if given is not None and not given.exists():
        given = catalog.find("topologies", str(given)) or given
    file = inventory_file(campaign.scenario, campaign.path, given)
    inventory = load_inventory(file)
    if arguments.engine == "virtual":
        check_size(inventory, file)
    # Every entity that a scenario names must be in the inventory.
    for scenario in (
        (campaign.scenario, *campaign.sub_scenarios.values()) if controller is None else ()
    ):
        for finding in unknown_entities(scenario, inventory):
            raise InputError(f"{campaign.path}: {scenario.name}: {finding} ({file})")
    return inventory


def _options(controller: Controller | None, arguments: argparse.Namespace) -> list[str]:
    """Return the options of the command that say what is executed, and where."""
    if controller is None:
        options = _path_options(arguments)
        for name, value in _chosen(arguments).items():
            options += [f"--{name}", value]
        return options
    platform = [
        "--engine",
        "controller",
        "--controller",
        controller.access.url,
        "--project",
        arguments.project,
    ]
    return [*_path_options(arguments), *platform]


def _chosen(arguments: argparse.Namespace) -> dict[str, str]:
    """Return engine and clock, without those of virtual time.

    A report keeps runs with other ones apart.
    """
    every = {"engine": arguments.engine, "clock": arguments.clock}
    return {name: value for name, value in every.items() if value != VIRTUAL}


def _shown(path: Path) -> str:
    """Return the text of a path: relative to the checkout if it is in there."""
    file = path.resolve()
    return str(file.relative_to(REPOSITORY) if file.is_relative_to(REPOSITORY) else path)


def _path_options(arguments: argparse.Namespace) -> list[str]:
    """Return the options that name additions, jobs and the inventory."""
    paths = [("--with", one) for one in arguments.with_dirs] + [
        ("--jobs", one) for one in arguments.jobs
    ]
    if arguments.inventory is not None:
        paths.append(("--inventory", arguments.inventory))
    words: list[str] = []
    for option, path in paths:
        words += [option, _shown(path)]
    return words


def _asked(
    path: Path,
    arguments: argparse.Namespace,
    campaigns: Sequence[Campaign],
    planned: Sequence[PlannedRun],
) -> Iterator[str]:
    """Yield the text of the file that says what was asked for: the command, the runs, and their
    commit.
    """
    options = [] if arguments.seeds is None else ["--seeds", arguments.seeds]
    options += (
        _path_options(arguments) if arguments.engine == "controller" else _options(None, arguments)
    )
    command = shlex.join(["./openbach-run", _shown(path), *arguments.settings, *options])
    specs = (one.spec for one in planned)
    runs = (
        campaign_file.AskedRun(spec.run_id, spec.scenario_name, spec.values, spec.seed)
        for spec in specs
    )
    plots = {campaign.scenario.name: campaign.plot for campaign in campaigns}
    return campaign_file.text(command, runs, commit=commit(), apart=_chosen(arguments), plots=plots)


def commit() -> str | None:
    """Return the commit of this checkout; None if this is no checkout, or has uncommitted changes."""
    command = [
        "git",
        "-C",
        str(REPOSITORY),
        "status",
        "--porcelain=v2",
        "--branch",
        "--no-ahead-behind",
    ]
    try:
        told = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    # Lines with # are about the branch; every other line is a change.
    is_clean = all(line.startswith("# ") for line in told)
    return (
        next((line.split()[2] for line in told if line.startswith("# branch.oid ")), None)
        if is_clean
        else None
    )


def _results_directory(name: str) -> Path:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise InputError(
            f"the name {name!r} cannot be that of a directory; name one with --results DIR"
        )
    return Path("results") / name


def _warn(campaign: Campaign, packages: Mapping[str, Package]) -> None:
    """Print warnings and notes on a campaign to stderr."""
    jobs = {name: package.job for name, package in packages.items()}
    for scenario in (campaign.scenario, *campaign.sub_scenarios.values()):
        for finding in lint(scenario, jobs):
            print(f"{campaign.path}: warning: {scenario.name}: {finding}", file=sys.stderr)
    for text in notes_of(campaign, packages):
        print(f"{campaign.path}: note: {text}", file=sys.stderr)


def _lack(files: Sequence[str], store: Store, planned: Sequence[PlannedRun]) -> bool:
    """Return whether any run lacks any of these files."""
    return not all(
        (store.runs / one.spec.run_id / name).exists() for one in planned for name in files
    )


def _show_first(
    reporter: Reporter, campaigns: Sequence[Campaign], runs: Path, known: Sequence[Record]
) -> None:
    """Show the tables of the first seed, if other seeds are to come."""
    once = [replace(one, more_seeds=()) for one in campaigns]
    done = unfold_all([one for one in known if one.seed == once[0].seeds[0]], runs)
    if len(done) < len(known) or any(len(one.every_seed) > 1 for one in campaigns):
        tables = [as_text(campaign_table(unfold_campaign(one, done), done)) for one in once]
        reporter.say("\n".join([*tables, "now the other seeds (--seeds 1 is without):"]))


def _print(
    form: str, directory: Path, campaigns: Sequence[Campaign], known: Sequence[Record]
) -> None:
    match form:
        case "csv":
            print(as_csv(known), end="")
        case "json":
            print(as_json(known), end="")
        case _:
            shown = [
                TABLE_FORMATS[form](campaign_table(unfold_campaign(campaign, known), known))
                for campaign in campaigns
            ]
            print("\n".join(shown), end="")
