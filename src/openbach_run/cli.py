# SPDX-License-Identifier: GPL-3.0-or-later
"""The command openbach-run."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType

from openbach_run import results
from openbach_run.campaign import Campaign, RunSpec, parse_seeds, plan
from openbach_run.check import check
from openbach_run.engine.controller import ControllerEngine
from openbach_run.engine.rest import Controller, read_access
from openbach_run.engine.virtual import VirtualEngine, guest_code
from openbach_run.errors import InputError, SetupError
from openbach_run.executor import Executor
from openbach_run.inventory import load_inventory
from openbach_run.job_packages import Package, load_packages
from openbach_run.lint import lint
from openbach_run.model import Malformed
from openbach_run.package import PROJECT
from openbach_run.progress import Reporter
from openbach_run.record import Record, Store
from openbach_run.sub_runs import unfold_campaign

REPOSITORY = Path(__file__).resolve().parents[2]
OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

COMMANDS = {
    "package": "openbach_run.package",
    "serve": "openbach_run.web.serve",
}
"""Subcommands: first word of the command line → module with `main(argv) -> exit code`, imported when it is asked for."""

DESCRIPTION = """\
Runs an OpenBACH scenario of the SATCOM VPN/PEP testbed in virtual time, once per
combination of the values given for its arguments, and prints the transfer times.
"""

EPILOG = """\
other commands, each with a --help of its own:
  openbach-run package    what an OpenBACH administrator imports: project, scenarios, jobs
  openbach-run serve      a page to launch and compare scenarios on, and a controller for OpenBACH's web UI and scripts

examples:
  openbach-run scenarios/geo_loss.json
      the whole table: every VPN, congestion control and loss rate of the file
  openbach-run scenarios/geo_loss.json vpn=wireguard,openvpn_udp cc=bbr loss=0.5,2 --seeds 5
      four cells with five seeds each; a cell shows the median and the range
  openbach-run geo vpn=none cc=cubic --pcap
      one run; its packets are in results/geo/runs/<run id>/capture.pcapng
  openbach-run --engine controller --controller 172.20.34.80 geo vpn=wireguard cc=bbr
      the same on a real OpenBACH platform, one run after the other
  openbach-run --check my_scenario.json --jobs ~/openbach/src/jobs --format json
      what the real OpenBACH backend would answer to this scenario

Finished runs are kept in the results directory and not repeated: a command that was
interrupted goes on where it was. exit codes: 0 all well, 1 a run failed, 2 bad input,
130 interrupted.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "openbach-run", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("scenario", metavar="SCENARIO", help="scenario file, or the name of one in scenarios/")
    made.add_argument(
        "settings",
        metavar="NAME=VALUE[,VALUE…]",
        nargs="*",
        help="values of the scenario's arguments; several are swept",
    )
    made.add_argument(
        "--seeds",
        default="1",
        metavar="N|A,B,…",
        help="how many seeds (1 to N), or which ones: '3,7', just '7,' (default 1)",
    )
    made.add_argument(
        "--workers", type=int, metavar="N", help="runs at the same time (default: the CPUs this process may use)"
    )
    made.add_argument(
        "--results", type=Path, metavar="DIR", help="where records and results.csv go (default results/<scenario>)"
    )
    made.add_argument("--rerun", action="store_true", help="run again what has already finished")
    made.add_argument(
        "--pcap", action="store_true", help="keep every packet of every interface (some 300 MB for 30 MB transferred)"
    )
    made.add_argument(
        "--format",
        choices=["table", "csv", "json", "markdown"],
        default="table",
        help="of what is printed (default table)",
    )
    made.add_argument(
        "--engine",
        choices=["virtual", "controller"],
        default="virtual",
        help="what executes the runs: virtual time on this machine (default), or a real OpenBACH platform",
    )
    made.add_argument(
        "--controller",
        metavar="HOST",
        help="of the OpenBACH platform: HOST, HOST:PORT or a URL (default: what the file 'controller' of this directory"
        " names; login and password come from there, too)",
    )
    made.add_argument(
        "--project",
        metavar="NAME",
        default=PROJECT,
        help=f"project of the controller in which the scenario runs (default {PROJECT})",
    )
    made.add_argument(
        "--jobs",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="more jobs: a folder of packages, or a JSON file of argument trees",
    )
    made.add_argument("--check", action="store_true", help="only check the scenario as the real backend does")
    made.add_argument("--quiet", action="store_true", help="no progress")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if words and words[0] in COMMANDS:
            command: Callable[[list[str]], int] = import_module(COMMANDS[words[0]]).main
            return command(words[1:])
        return _main(parser().parse_intermixed_args(words))
    except InputError as error:
        print(f"openbach-run: {error}", file=sys.stderr)
        return BAD_INPUT
    except SetupError as error:
        print(f"openbach-run: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        print(f"openbach-run: {error}. What finished is kept; the same command goes on from there", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("openbach-run: interrupted. What finished is kept; the same command goes on from there", file=sys.stderr)
        return INTERRUPTED


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _main(arguments: argparse.Namespace) -> int:
    path = _scenario_path(arguments.scenario)
    packages = load_packages([*arguments.jobs, REPOSITORY / "jobs"])
    if arguments.check:
        return check(path, packages, arguments.format == "json")
    try:
        campaign = plan(path, arguments.settings, parse_seeds(arguments.seeds), packages)
    except Malformed as error:
        raise InputError(f"{path}: {error}") from error
    cpus = _cpus(arguments.workers)
    _warn(path, campaign, packages)
    store = Store(arguments.results or _results_directory(campaign.scenario.name))
    engine: VirtualEngine | ControllerEngine
    if arguments.engine == "controller":
        engine, cpus, options = _controller_engine(arguments, campaign)
    else:
        engine, options = _virtual_engine(arguments, campaign, packages), []
    with store.opened():
        with Reporter(arguments.quiet) as reporter:
            engine.prepare(reporter.show)
        runs = campaign.runs(packages, load_inventory(REPOSITORY / "inventory.yml"), engine.identity)
        rerun = arguments.rerun or (arguments.pcap and _lack_captures(store, runs))
        executor = Executor(engine, store, path, cpus, rerun, options)
        try:
            with Reporter(arguments.quiet) as reporter:
                executor.execute(runs, reporter)
        finally:
            _print(arguments.format, *unfold_campaign(campaign, executor.known(runs), store.runs))
    return OK if all(record.finished for record in executor.records.values()) else FAILED


def _virtual_engine(
    arguments: argparse.Namespace, campaign: Campaign, packages: Mapping[str, Package]
) -> VirtualEngine:
    if arguments.controller is not None:
        raise InputError("--controller needs --engine controller")
    folders = {name: packages[name].files for name in campaign.jobs()}
    code = guest_code(REPOSITORY, {name: folder for name, folder in folders.items() if folder})
    return VirtualEngine(REPOSITORY, code, pcap=arguments.pcap)


def _controller_engine(
    arguments: argparse.Namespace, campaign: Campaign
) -> tuple[ControllerEngine, list[int], list[str]]:
    """The engine, its one place to run at, and the options that name it."""
    if arguments.pcap:
        raise InputError("--pcap: packets are captured by the virtual engine; on a platform let a job do it (tcpdump)")
    if arguments.workers not in (None, 1):
        raise InputError("--workers: a platform has one set of hosts, its runs go one at a time")
    access = read_access(arguments.controller, Path("controller"))
    scenarios = [campaign.scenario, *campaign.sub_scenarios.values()]
    engine = ControllerEngine(Controller(access), arguments.project, scenarios)
    return engine, [0], ["--engine", "controller", "--controller", access.url, "--project", arguments.project]


def _scenario_path(text: str) -> Path:
    path = Path(text)
    bare = REPOSITORY / "scenarios" / f"{text}.json"
    return bare if not path.exists() and path.name == text and bare.exists() else path


def _results_directory(name: str) -> Path:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise InputError(f"the scenario's name {name!r} cannot be that of a directory; name one with --results DIR")
    return Path("results") / name


def _cpus(workers: int | None) -> list[int]:
    available = sorted(os.sched_getaffinity(0))
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers}: at least 1")
    return [available[number % len(available)] for number in range(workers or len(available))]


def _warn(path: Path, campaign: Campaign, packages: Mapping[str, Package]) -> None:
    jobs = {name: package.job for name, package in packages.items()}
    for scenario in (campaign.scenario, *campaign.sub_scenarios.values()):
        for finding in lint(scenario, jobs):
            print(f"{path}: warning: {scenario.name}: {finding}", file=sys.stderr)


def _lack_captures(store: Store, runs: Sequence[RunSpec]) -> bool:
    return not all((store.runs / spec.run_id / "capture.pcapng").exists() for spec in runs)


def _print(form: str, campaign: Campaign, known: Sequence[Record]) -> None:
    match form:
        case "csv":
            print(results.as_csv(known), end="")
        case "json":
            print(results.as_json(known), end="")
        case "markdown":
            print(results.as_markdown(results.table(campaign, known)), end="")
        case _:
            print(results.as_text(results.table(campaign, known)), end="")
