# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run explain`: searches for the assumptions under which the published report's claims
hold.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from openbach_run.campaign.checks import check_folders
from openbach_run.campaign.executor import cpus_for
from openbach_run.campaign.forecast import duration, mean_wall_s
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.options import Options, shown_path
from openbach_run.campaign.plan import draft_of
from openbach_run.campaign.reading import read_with_subs
from openbach_run.campaign.request import plan_of
from openbach_run.campaign.run import commit, run_with_progress
from openbach_run.campaign.settings import parse_seeds
from openbach_run.catalog import Catalog, joined
from openbach_run.commands.run import tables_as_text
from openbach_run.engine.virtual.cache import NotMade, looking_only, looks_only
from openbach_run.engine.virtual.engine import VirtualEngine, guest_code
from openbach_run.errors import InputError
from openbach_run.openbach.addresses import inventory_file
from openbach_run.openbach.job_folders import Package, load_packages, parts_of
from openbach_run.openbach.refusals import near
from openbach_run.openbach.scenario import Scenario
from openbach_run.paths import REPOSITORY
from openbach_run.progress import Reporter
from openbach_run.report.assumptions import (
    Assumption,
    Choice,
    as_claimed,
    needed,
    read_assumptions,
    relevant,
    scenarios_under,
)
from openbach_run.report.cells import file_name, read_campaigns
from openbach_run.report.claims import SATCOM, Claim, judge, read_claims
from openbach_run.report.explained import FILE, Map, answer, map_of, words
from openbach_run.report.search import (
    Of,
    Pair,
    Search,
    Stop,
    Tried,
    by_medians,
    drivers,
    in_turn,
    search,
)
from openbach_run.results import campaign_file
from openbach_run.results.record import Record, Store
from openbach_run.results.run_archive import FILE as ARCHIVE
from openbach_run.results.run_archive import write_runs
from openbach_run.results.seeds import MIN_SEEDS
from openbach_run.topology.inventory import load_inventory
from openbach_run.yaml_files import read_yaml

ALTERNATIVES = REPOSITORY / "reports/alternatives"
TRIED = "tried.csv"
FIRST_SEED = 101
"""The first seed of the search. The seeds of a campaign are others; they judge what was found."""
KEPT, KEPT_IN_ALL = 0.5, 0.7
"""Parts of the budget. At most the first is kept to run with other seeds what was found; at most
the second is kept for that and for choices of several alternatives."""
TOGETHER = 3
"""Number of choices of several alternatives for which time is kept."""
DESCRIPTION = """\
Searches for the assumptions under which the published report's claims hold. Its text
leaves open, say, in which direction packets are lost and how large the buffer is:
reports/assumptions.yml has what it leaves open, with what is plausible. First each
alternative is tried alone, then those that change something are tried together. What
is found is run again with seeds that the search has not used, beside our own scenarios.
"""
EPILOG = """\
examples:
  openbach-run explain --dry-run                      how many runs, and how long they take
  openbach-run explain --budget 2h                    all claims, for two hours
  openbach-run explain C1 C2 C3 --budget 10m          these alone: their cells have no loss
  openbach-run explain --campaign claims_few --budget 1h --results results/full
      in a third of the cells; runs that campaigns/full.yml has made are not repeated
The runs of each choice are a campaign in results/explain/, with its file. Finished runs
are kept: the same command with a larger budget goes on. exit codes: 0 the search is
whole, 1 the budget ended it, 2 bad input, 130 interrupted.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "openbach-run explain",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "claims", metavar="CLAIM", nargs="*", help="C1, C2, … of reports/claims.yml (default: all)"
    )
    made.add_argument(
        "--budget",
        metavar="TIME",
        help="end within this time, as far as it can be told: 90s, 30m, 2h (default: none)",
    )
    made.add_argument(
        "--screen",
        metavar="N",
        type=int,
        default=1,
        help=f"so many seeds search, {FIRST_SEED} and on (default 1)",
    )
    made.add_argument(
        "--seeds",
        metavar="N",
        default=str(MIN_SEEDS),
        help=(
            f"of the verdicts on what was found, as for a scenario (default {MIN_SEEDS}; fewer"
            " decide nothing)"
        ),
    )
    made.add_argument(
        "--confirm",
        action="store_true",
        help=(
            "search no further: only run the best of what has been tried with the seeds of the"
            " verdicts"
        ),
    )
    made.add_argument(
        "--dry-run",
        action="store_true",
        help="only say how many runs there are to do, and how long they take",
    )
    made.add_argument(
        "--campaign",
        metavar="NAME",
        default="claims",
        help=(
            "the cells: a campaign file, or the name of one in campaigns/ (default claims: all that"
            " the claims speak of)"
        ),
    )
    made.add_argument(
        "--assumptions",
        metavar="FILE",
        type=Path,
        default=REPOSITORY / "reports/assumptions.yml",
        help="what is open",
    )
    made.add_argument(
        "--workers", metavar="N", type=int, help="runs at the same time, as for a scenario"
    )
    made.add_argument(
        "--results",
        metavar="DIR",
        type=Path,
        default=Path("results/explain"),
        help="where the runs go",
    )
    made.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        default=Path("reports/assumptions"),
        help="where the answer goes",
    )
    made.add_argument("--quiet", action="store_true", help="no progress")
    return made


def main(argv: list[str]) -> int:
    arguments = parser().parse_args(argv)
    begin_s, budget_s = time.monotonic(), _seconds(arguments.budget)
    described = _claims(arguments.claims)
    campaign = _campaign(arguments.campaign)
    scenarios = needed(read_yaml(campaign)["scenarios"], described.values())
    if not scenarios:
        raise InputError(
            f"--campaign {arguments.campaign}: none of its cells is one that {', '.join(described)}"
            " speaks of"
        )
    assumptions = relevant(read_assumptions(arguments.assumptions), scenarios)
    searching, judging = _seeds(arguments.screen, arguments.seeds)
    platform = Platform(
        arguments.results,
        scenarios,
        assumptions,
        described,
        searching,
        arguments.workers,
        arguments.quiet,
    )
    if arguments.dry_run:
        try:
            with looking_only():
                print(_forecast(platform, assumptions, searching, judging))
        except NotMade as missing:
            print(
                f"which runs are finished is not known: {missing} is not in the cache, and"
                " --dry-run makes nothing"
            )
        return 0
    forecast = _forecast(platform, assumptions, searching, judging)
    if not arguments.quiet:
        print(forecast, file=sys.stderr)

    def left_s() -> float:
        return begin_s + budget_s - time.monotonic()

    # Time is kept back: for the verdicts at the end, and, while single alternatives are tried, also
    # for some choices of several.
    again_s = platform.seconds(platform.to_do([{}], judging)) + platform.seconds(
        platform.cells({}, judging)
    )
    kept_s = min(again_s, KEPT * budget_s)
    together_s = TOGETHER * platform.seconds(platform.cells({}, searching))
    kept_of_alone_s = min(kept_s + together_s, KEPT_IN_ALL * budget_s)
    no_more_together = arguments.confirm

    def may_try(choice: Choice) -> bool:
        """Return whether there is time to try a choice.

        Choices of several alternatives are many, and cost much the same. After the first that takes
        too long, only those that have been begun are looked at.
        """
        nonlocal no_more_together
        if len(choice) > 1 and no_more_together and not platform.is_begun(choice, searching):
            return False
        to_do = platform.to_do([choice], searching)
        for_it_s = left_s() - (kept_s if len(choice) > 1 else kept_of_alone_s)
        fits = not to_do or (not arguments.confirm and platform.seconds(to_do) <= for_it_s)
        no_more_together |= len(choice) > 1 and not fits
        return fits

    before = _several_of(arguments.output / TRIED, assumptions)
    found = search(assumptions, lambda choice: platform.judged(choice, searching), may_try, before)
    # Interrupted before the first choice was judged: there is nothing to write.
    if not found.tried:
        raise KeyboardInterrupt
    found = replace(found, again=_again(found, platform, judging, left_s))
    command = shlex.join(["./openbach-run", "explain", *argv])
    seeds_in_words = _in_words(searching), _in_words(judging)
    told = map_of(
        found, command, commit() or "", shown_path(campaign), *seeds_in_words, platform.versions
    )
    _write(arguments.output, found, told, assumptions, scenarios)
    write_runs(arguments.output / ARCHIVE, [(Store(arguments.results), platform.used)])
    print(_summary(told))
    print(f"{arguments.output}/assumptions.md, map.json, {TRIED}, best.yml, {ARCHIVE}")
    if platform.interrupted:
        raise KeyboardInterrupt
    return 0 if found.whole else 1


def _claims(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    described = read_claims(REPOSITORY / "reports/claims.yml")
    claims = {name: one for name, one in described.items() if one.get("document", SATCOM) == SATCOM}
    for name in names:
        if name not in claims:
            raise InputError(
                f"{name}: no such claim; {near(name, claims)}there are {', '.join(claims)}"
            )
    return {name: claims[name] for name in names or claims}


def _campaign(name: str) -> Path:
    path = Path(name) if Path(name).exists() else Catalog.beside_ours([]).find("campaigns", name)
    if path is None:
        raise InputError(
            f"--campaign {name}: no such campaign; give a file, or the name of one in campaigns/"
        )
    return path


def _seeds(screen: int, judging: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the seeds that search, and those that judge. Raises InputError."""
    if screen < 1:
        raise InputError(f"--screen {screen}: at least 1")
    searching, others = tuple(range(FIRST_SEED, FIRST_SEED + screen)), parse_seeds(judging)
    if both := sorted(set(searching) & set(others)):
        raise InputError(
            f"--seeds {judging}: {both[0]} is a seed of the search; what it finds is judged with"
            " others"
        )
    return searching, others


def _seconds(budget: str | None) -> float:
    """Return a budget in seconds; infinity if none is given. Raises InputError."""
    if budget is None:
        return float("inf")
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget)
    if found is None:
        raise InputError(f"--budget {budget}: give a time like 90s, 30m, 2h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


@dataclass
class Platform:
    """The runs of the claims' cells under a choice of assumptions, and the verdicts on the claims."""

    results: Path
    scenarios: Sequence[Mapping[str, Any]]
    assumptions: Mapping[str, Assumption]
    described: Mapping[str, dict[str, Any]]
    searching: Sequence[int]
    """The seeds of the search. Runs of the search, and of what drives the claims, are not repeated
    for another kernel or other Debian packages. Verdicts on our scenarios and on the joint set
    always come from runs with what is here."""
    workers: int | None
    quiet: bool
    interrupted: bool = False
    known: dict[Any, Record] = field(default_factory=dict)
    """A run by `_key`. Of several a finished one is preferred, then one with the newest Debian."""
    there: set[str] = field(default_factory=set)
    """The run_ids of all runs. One that did not finish is included: it would not finish if it were
    run again."""
    used: dict[str, Record] = field(default_factory=dict)
    """The records that were judged, by run_id."""

    def __post_init__(self) -> None:
        self._note(Store(self.results).all())

    def judged(
        self, choice: Choice, seeds: Sequence[int], of: Collection[Of] | None = None
    ) -> list[Claim]:
        """Return the claims, judged under a choice; run what is missing.

        With `of`, only the claims on the orbits that it names are judged, in cells of their own.
        Raises Stop if it is interrupted.
        """
        if not self.quiet:
            print(f"explain: {words(choice)}", file=sys.stderr)
        folder = self.folder(choice, seeds)
        try:
            named = self._named(choice, seeds, of)
            # Runs of another kernel or Debian count too; run_choice would execute them again.
            if named.keys() <= self.there:
                write_campaign(folder, named)
            else:
                listed = ",".join(map(str, seeds)) + ","
                run_choice(folder, self._scenarios(choice, of), listed, self.workers, self.quiet)
        except KeyboardInterrupt:
            self.interrupted = True
            raise Stop from None
        campaigns = read_campaigns([folder])
        self._note(campaigns.records)
        self.used.update({one.run_id: one for one in campaigns.records})
        claimed = as_claimed(campaigns, choice, self.assumptions)
        claims = [judge(name, one, claimed) for name, one in self.described.items()]
        if of is None:
            return claims
        wanted = []
        for claim in claims:
            findings = [one for one in claim.findings if (claim.name, one.orbit) in of]
            wanted.append(replace(claim, findings=findings))
        return wanted

    @property
    def versions(self) -> str:
        """Return a sentence on the versions of Debian; "" if there is only one."""
        found: dict[bool, set[str]] = {True: set(), False: set()}
        for one in self.used.values():
            if version := debian_of(one.packages):
                found[one.seed in self.searching].add(version)
        if len(found[True] | found[False]) < 2:
            return ""
        search, others = (" and ".join(sorted(found[searching])) for searching in (True, False))
        return (
            f"The runs of the search are of Debian {search}, those with the other seeds of Debian"
            f" {others}."
        )

    def _scenarios(self, choice: Choice, of: Collection[Of] | None) -> list[dict[str, Any]]:
        return scenarios_under(self._cells_of(of), choice, self.assumptions)

    def _cells_of(self, of: Collection[Of] | None) -> Sequence[Mapping[str, Any]]:
        """Return the scenarios with the cells of the claims on the orbits in `of`; all cells if it
        is None.
        """
        if of is None:
            return self.scenarios
        entries: list[Mapping[str, Any]] = []
        for orbit in sorted({orbit for _, orbit in of}):
            claims = [
                self.described[claim] for claim, its_orbit in sorted(of) if its_orbit == orbit
            ]
            entries += needed(on_orbit(self.scenarios, orbit), claims)
        return entries

    def folder(self, choice: Choice, seeds: Sequence[int]) -> Path:
        """Return the results directory of a choice with these seeds."""
        named = [f"{name}_{value}" for name, value in sorted(choice.items())]
        return self.results / file_name(
            *(one.replace(" ", "_") for one in (*(named or ["ours"]), _in_words(seeds)))
        )

    def cells(
        self, choice: Choice, seeds: Sequence[int], of: Collection[Of] | None = None
    ) -> list[dict[str, str]]:
        """Return the runs of a choice: `scenario`, arguments and `seed` of each."""
        return cells_of(self._scenarios(choice, of), seeds)

    def to_do(
        self, choices: Sequence[Choice], seeds: Sequence[int], of: Collection[Of] | None = None
    ) -> list[dict[str, str]]:
        """Return the runs of all choices together that do not exist yet, each once."""
        runs: dict[frozenset[tuple[str, str]], dict[str, str]] = {}
        for choice in choices:
            for run_id, one in self._named(choice, seeds, of).items():
                if run_id not in self.there:
                    runs[_key(one)] = one
        return list(runs.values())

    def _named(
        self, choice: Choice, seeds: Sequence[int], of: Collection[Of] | None
    ) -> dict[str, dict[str, str]]:
        """Return the runs of a choice by run_id.

        For a verdict they are those with the kernel and packages that are here. Else they are known
        runs, whatever these were run with, if all of them exist.
        """
        is_verdict = seeds != self.searching and of is None
        cells = self.cells(choice, seeds, of)
        if not is_verdict and all(_key(one) in self.known for one in cells):
            return {self.known[_key(one)].run_id: one for one in cells}
        return runs_of(self._scenarios(choice, of), seeds, self.quiet)

    def is_begun(self, choice: Choice, seeds: Sequence[int]) -> bool:
        """Return whether a run of the choice exists, apart from those that our scenarios and single
        alternatives have as well.
        """
        alone = [dict([pair]) for pair in choice.items()]
        others = set()
        for other in ({}, *alone):
            others |= {_key(one) for one in self.cells(other, seeds)}
        own = {_key(one) for one in self.cells(choice, seeds)} - others
        return bool(own & self.known.keys())

    def seconds(self, runs: Sequence[Mapping[str, str]]) -> float:
        """Return how long the runs take in s, estimated from similar known runs."""
        cells = []
        for one in runs:
            cells.append({name: value for name, value in one.items() if name != "seed"})
        finished = [one for one in self.known.values() if one.finished]
        return len(runs) * mean_wall_s(cells, finished) / len(cpus_for(self.workers))

    def _note(self, records: Sequence[Record]) -> None:
        """Remember records, the better one of two for the same run."""
        for one in records:
            key = _key({**one.arguments, "scenario": one.scenario, "seed": str(one.seed)})
            if key not in self.known or _worth(one) >= _worth(self.known[key]):
                self.known[key] = one
            self.there.add(one.run_id)


def cells_of(scenarios: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> list[dict[str, str]]:
    """Return the runs of a campaign file's scenarios: `scenario`, the arguments in force, and
    `seed`.
    """
    found = []
    for draft in _drafts(scenarios, seeds):
        for cell, seed in product(draft.cells, seeds):
            found.append({**cell, "scenario": draft.scenario.name, "seed": str(seed)})
    return found


def runs_of(
    scenarios: Sequence[Mapping[str, Any]], seeds: Sequence[int], quiet: bool
) -> dict[str, dict[str, str]]:
    """Return the runs of a campaign file's scenarios by run_id, for the kernel and Debian packages
    that are here.
    """
    found = {}
    for draft in _drafts(scenarios, seeds):
        inventory = load_inventory(inventory_file(draft.scenario, draft.path, None))
        check_folders(draft, _packages())
        engine = _engine(json.dumps(joined(draft.uses(_packages())), sort_keys=True), quiet)
        for one in draft.runs(_packages(), inventory, engine.identity_of):
            found[one.run_id] = {**one.values, "scenario": one.scenario_name, "seed": str(one.seed)}
    return found


def _drafts(scenarios: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> Iterator[Campaign]:
    """Yield the campaign of each scenario, not yet checked against the jobs."""
    for entry in scenarios:
        values = {name: tuple(some) for name, some in entry["values"].items()}
        yield draft_of(*_read(entry["scenario"]), values, tuple(seeds), _packages())


@cache
def _engine(uses: str, quiet: bool) -> VirtualEngine:
    """Return an engine, prepared for what is used.

    `uses` is JSON, so that it can be a key of the cache.
    """
    engine = VirtualEngine(
        REPOSITORY, guest_code(REPOSITORY, parts_of(json.loads(uses), _packages(), _catalog()))
    )
    if looks_only():
        if missing := engine.look():
            raise NotMade(missing)
        return engine
    with Reporter(quiet) as reporter:
        engine.prepare(reporter.show)
    return engine


@cache
def _catalog() -> Catalog:
    return Catalog.beside_ours([ALTERNATIVES])


@cache
def _packages() -> dict[str, Package]:
    return load_packages(_catalog().jobs, _catalog())


@cache
def _read(scenario: str) -> tuple[Path, Scenario, dict[str, Scenario]]:
    file = _catalog().find("scenarios", scenario)
    if file is None:
        raise InputError(f"there is no scenario {scenario}")
    return file, *read_with_subs(file, _packages())


def on_orbit(scenarios: Sequence[Mapping[str, Any]], orbit: str) -> list[dict[str, Any]]:
    """Return those of a campaign file's scenarios that run on an orbit, with this orbit alone."""
    made = []
    for entry in scenarios:
        values = entry["values"]
        # Without a value the scenario's own orbit counts, which a cell shows.
        orbits = values.get("orbit") or [
            cells_of(scenarios_under([entry], {}, {}), (0,))[0].get("orbit")
        ]
        if orbit in orbits:
            made.append(
                {**entry, "values": {**values, "orbit": [orbit]} if "orbit" in values else values}
            )
    return made


def _worth(one: Record) -> tuple[bool, list[int]]:
    """Return a key by which the better one of two records of a run is greater: finished, and of the
    later Debian.
    """
    # As numbers: 13.10 is later than 13.8.
    return one.finished, [int(part) for part in re.findall("[0-9]+", debian_of(one.packages) or "")]


def _key(run: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(run.items())


def run_choice(
    folder: Path,
    scenarios: Sequence[Mapping[str, Any]],
    seeds: str,
    workers: int | None,
    quiet: bool,
) -> None:
    """Run what does not exist yet, and write the campaign's file and its table beside the records."""
    _folder_with_runs(folder)
    file = folder / "campaign.yml"
    file.write_text(
        yaml.safe_dump(
            {"seeds": list(parse_seeds(seeds)), "scenarios": list(scenarios)}, sort_keys=False
        )
    )
    options = Options(results=folder, additions=(ALTERNATIVES,), workers=workers)
    done = run_with_progress(plan_of(str(file), [], seeds, options), options, quiet=quiet)
    (folder / "table.txt").write_text(tables_as_text(done))


def write_campaign(folder: Path, named: Mapping[str, Mapping[str, str]]) -> None:
    """Write a campaign whose runs all exist, by run_id, as if it had just been run."""
    _folder_with_runs(folder)
    runs = []
    for run_id, run in named.items():
        arguments = {name: value for name, value in run.items() if name not in ("scenario", "seed")}
        runs.append(campaign_file.AskedRun(run_id, run["scenario"], arguments, int(run["seed"])))
    Store(folder).write(campaign_file.FILE, campaign_file.text("", runs))


def _folder_with_runs(folder: Path) -> None:
    """Make a campaign's folder.

    All have one folder of runs, so that a run that several choices have is executed once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = folder / "runs"
    if not runs.exists():
        (folder.parent / "runs").mkdir(exist_ok=True)
        runs.symlink_to(Path("../runs"))


def _forecast(
    platform: Platform,
    assumptions: Mapping[str, Assumption],
    searching: Sequence[int],
    judging: Sequence[int],
) -> str:
    """Return a text on what there is to do, and how long it takes: a line for each alternative and
    phase.
    """
    lines: list[tuple[str, list[dict[str, str]]]] = []
    every: dict[Any, dict[str, str]] = {}
    alone: list[Choice] = [dict([pair]) for pair in in_turn(assumptions)]
    for choice in ({}, *alone):
        own = {
            _key(one): one for one in platform.to_do([choice], searching) if _key(one) not in every
        }
        lines.append((words(choice), list(own.values())))
        every |= own
    lines.append((f"alone, {_in_words(searching)}", list(every.values())))
    # What the search finds is not known yet: lines with `at most` count all runs of a choice.
    lines.append(("each choice of several, at most", platform.cells({}, searching)))
    lines.append((f"all as ours, {_in_words(judging)}", platform.to_do([{}], judging)))
    lines.append((f"the joint set, {_in_words(judging)}, at most", platform.cells({}, judging)))
    ours = {_key(one) for one in platform.cells({}, judging)}
    driving = [one for one in platform.to_do(alone, judging) if _key(one) not in ours]
    lines.append((f"what drives the claims, {_in_words(judging)}, at most", driving))
    source = (
        f"{len(platform.known)} runs in {platform.results}"
        if platform.known
        else "an assumption: no run is known"
    )
    shown = [
        f"{len(runs):6} runs {duration(platform.seconds(runs)):>7}  {what}" for what, runs in lines
    ]
    return "\n".join([*shown, f"on {len(cpus_for(platform.workers))} CPUs, from {source}"])


def _again(
    found: Search, platform: Platform, judging: Sequence[int], left_s: Callable[[], float]
) -> list[Tried]:
    """Run with other seeds what was found, and return the results.

    First come our scenarios, for comparison, then what was found, and what has been run with these
    seeds as a whole before. Then, as far as there is time, each alternative that drives claims is
    run alone, in the cells of what it drives. After an interruption only what exists already is
    taken.
    """
    done: list[Tried] = []
    driving: dict[Pair, Tried] = {}
    run: dict[Pair, set[Of]] = {}

    def in_time(choice: Choice, of: Collection[Of] | None = None) -> bool:
        to_do = platform.to_do([choice], judging, of)
        return not to_do or (not platform.interrupted and platform.seconds(to_do) <= left_s())

    with suppress(Stop):
        if not in_time({}):
            return done  # the others are compared with it
        done.append(Tried({}, platform.judged({}, judging)))
        best = found.best.choice
        whole = [
            one.choice
            for one in found.ranked
            if one.choice and not platform.to_do([one.choice], judging)
        ]
        if best and best not in whole and in_time(best):
            whole.append(best)
        done += [Tried(dict(one), platform.judged(one, judging)) for one in whole]
        for several in drivers(found):
            for pair, driven in several.items():
                choice, of = dict([pair]), run.get(pair, set()) | driven
                if choice not in whole and of != run.get(pair) and in_time(choice, of):
                    driving[pair] = Tried(choice, platform.judged(choice, judging, of))
                    run[pair] = of
    return [*done, *driving.values()]


def _write(
    output: Path,
    found: Search,
    told: Map,
    assumptions: Mapping[str, Assumption],
    scenarios: Sequence[Mapping[str, Any]],
) -> None:
    output.mkdir(parents=True, exist_ok=True)
    (output / "assumptions.md").write_text(answer(told, assumptions, found.joint.choice))
    (output / FILE).write_text(told.as_json())
    (output / TRIED).write_text(tried_csv(found))
    best = {
        "seeds": MIN_SEEDS,
        "scenarios": scenarios_under(scenarios, found.joint.choice, assumptions),
    }
    with_ours = f"--with {shown_path(ALTERNATIVES)}"
    head = (
        f"# {told.joint}; found by\n# {told.command}\n# To be run with: ./openbach-run best.yml"
        f" {with_ours}\n"
    )
    (output / "best.yml").write_text(head + yaml.safe_dump(best, sort_keys=False))


def _in_words(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    in_turn_ = list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"seeds {seeds[0]} to {seeds[-1]}" if in_turn_ else f"seeds {', '.join(map(str, seeds))}"


def _several_of(tried: Path, assumptions: Mapping[str, Assumption]) -> list[dict[str, str]]:
    """Return the choices of several alternatives in a search's tried.csv that the assumptions still
    have.

    Raises InputError.
    """
    if not tried.exists():
        return []
    with tried.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if "choice" not in (rows.fieldnames or ["choice"]):
            raise InputError(
                f"{tried}: no tried.csv of a search, it has no column choice; give another"
                " directory with -o"
            )
        texts = dict.fromkeys(row["choice"] for row in rows)
    several = []
    for text in texts:
        choice = dict(pair.split(": ", 1) for pair in text.split("; ") if ": " in pair)
        # The file may be of a search with other assumptions.
        is_known = all(
            name in assumptions and value in assumptions[name].alternatives
            for name, value in choice.items()
        )
        if len(choice) > 1 and is_known:
            several.append(choice)
    return several


def debian_of(packages: Sequence[str]) -> str | None:
    """Return the Debian version of a guest tree, `13.8`; None if unknown.

    Its source is base-files, which every release of Debian has anew: 13.8+deb13u8.
    """
    found = (re.match(r"base-files_.*\+deb(\d+)u(\d+)_", one) for one in packages)
    return next((f"{one[1]}.{one[2]}" for one in found if one), None)


def _summary(told: Map) -> str:
    several = len(told.findings)
    by = f"with {told.confirmed}" if told.confirmed else f"by the medians of {told.searched}"
    text = f"As our scenarios are, {told.held('ours')} of {several} findings hold {by}"
    end = (
        ""
        if told.whole
        else " The budget ended the search: the same command with a larger one goes on."
    )
    return f"{text}; under {told.joint}, {told.held('joint')}.{end}"


def tried_csv(found: Search) -> str:
    """Return the CSV with a row for each choice and finding; `verdict` is by the medians of the
    search.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["choice", "claim", "part", "orbit", "verdict", "comparisons", "least", "greatest"]
    )
    for one in found.tried:
        for (claim, part, orbit), finding in one.findings.items():
            medians = sorted(
                compared.found.median for compared in finding.comparisons if compared.found
            )
            ends = [f"{end:.4g}" for end in (medians[0], medians[-1])] if medians else ["", ""]
            writer.writerow(
                [
                    words(one.choice),
                    claim,
                    part,
                    orbit,
                    by_medians(finding),
                    len(finding.comparisons),
                    *ends,
                ]
            )
    return text.getvalue()
