# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run explain`: searches for the assumptions under which published claims hold."""

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
from itertools import chain, product
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
from openbach_run.campaign.request import installed, plan_of
from openbach_run.campaign.run import commit, run_with_progress
from openbach_run.campaign.settings import parse_seeds
from openbach_run.catalog import Catalog, joined
from openbach_run.engine.local import guest_code
from openbach_run.engine.virtual.cache import NotMade, looking_only, looks_only
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.errors import InputError
from openbach_run.openbach.addresses import inventory_file
from openbach_run.openbach.job_folders import Package, parts_of
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
from openbach_run.report.explained import FILE, Map, agree, answer, map_of, summary, words
from openbach_run.report.search import Of, Search, Stop, Tried, by_medians, drivers, in_turn, search
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


Run = Mapping[str, str]
"""A run by `scenario`, arguments and `seed`."""
Entries = Sequence[Mapping[str, Any]]
"""The scenarios of a campaign file, with their values."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        "openbach-run explain",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("claims", metavar="CLAIM", nargs="*", help="C1, C2, … of reports/claims.yml (default: all)")
    add("--budget", metavar="TIME", help="end within about this time: 90s, 30m, 2h (default: none)")
    of_search = f"how many seeds search, {FIRST_SEED} and on (default 1)"
    add("--screen", metavar="N", type=int, default=1, help=of_search)
    of_verdicts = f"of the verdicts, as for a scenario (default {MIN_SEEDS}; fewer decide nothing)"
    add("--seeds", metavar="N", default=str(MIN_SEEDS), help=of_verdicts)
    no_search = "do not search: only run the best choice so far with the seeds of the verdicts"
    add("--confirm", action="store_true", help=no_search)
    add("--dry-run", action="store_true", help="say how many runs there are to do, and their time")
    cells = "the cells: a campaign file, or a name in campaigns/ (default claims: all the claims')"
    add("--campaign", metavar="NAME", default="claims", help=cells)
    assumptions = REPOSITORY / "reports/assumptions.yml"
    add("--assumptions", metavar="FILE", type=Path, default=assumptions, help="what is open")
    add("--workers", metavar="N", type=int, help="runs at the same time, as for a scenario")
    results, output = Path("results/explain"), Path("reports/assumptions")
    add("--results", metavar="DIR", type=Path, default=results, help="where the runs go")
    add("-o", "--output", metavar="DIR", type=Path, default=output, help="where the answer goes")
    agreed = (
        "results of a report (a directory, or its results.parquet): verdicts on our scenarios are"
        " those of its claims (default: of the search's own runs)"
    )
    add("--agree-with", metavar="RESULTS", type=Path, help=agreed)
    add("--quiet", action="store_true", help="no progress")
    return made


def main(argv: list[str]) -> int:
    """Search, and write what was found; return the exit code. Raises InputError, SetupError."""
    arguments = parser().parse_args(argv)
    budget_s = _seconds(arguments.budget)
    end_s = time.monotonic() + budget_s
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
    before = _several_of(arguments.output / TRIED, assumptions)
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
                print(_forecast(platform, judging))
        except NotMade as missing:
            print(
                f"which runs are finished is not known: {missing} is not in the cache, and"
                " --dry-run makes nothing"
            )
        return 0
    if not arguments.quiet:
        print(_forecast(platform, judging), file=sys.stderr)

    def left_s() -> float:
        return end_s - time.monotonic()

    # Time is kept back: for the verdicts at the end, and, while single alternatives are tried, also
    # for some choices of several.
    ours_again, joint_again = platform.to_do([{}], judging), platform.cells({}, judging)
    kept_s = min(platform.seconds(ours_again) + platform.seconds(joint_again), KEPT * budget_s)
    together_s = TOGETHER * platform.seconds(platform.cells({}, searching))
    kept_of_alone_s = min(kept_s + together_s, KEPT_IN_ALL * budget_s)

    def may_try(choice: Choice) -> bool:
        """Return whether there is time to try a choice, or nothing to run for it."""
        if platform.is_known(choice):
            return True
        for_it_s = left_s() - (kept_s if len(choice) > 1 else kept_of_alone_s)
        # Whether a choice fits takes long to tell: many are not worth it when there is no time.
        if arguments.confirm or for_it_s <= 0:
            return False
        return platform.seconds(platform.to_do([choice], searching)) <= for_it_s

    found = search(assumptions, lambda choice: platform.judged(choice, searching), may_try, before)
    # Interrupted before the first choice was judged: there is nothing to write.
    if not found.tried:
        raise KeyboardInterrupt
    found = replace(found, again=_again(found, platform, judging, left_s))
    told = map_of(
        found,
        shlex.join(["./openbach-run", "explain", *argv]),
        commit() or "",
        shown_path(campaign),
        _in_words(searching),
        _in_words(judging),
        platform.versions,
        platform.failed,
    )
    if arguments.agree_with:
        told = agree(told, _judged(arguments.agree_with, described))
    written = _write(arguments.output, found, told, assumptions, scenarios)
    write_runs(arguments.output / ARCHIVE, [(Store(arguments.results), platform.used)])
    of_search = f"by the medians of {told.searched}"
    print(summary(told, f"with {told.confirmed}" if told.confirmed else of_search))
    print(f"{arguments.output}/{', '.join([*written, ARCHIVE])}")
    if platform.interrupted:
        raise KeyboardInterrupt
    return 0 if found.whole else 1


def _write(
    output: Path,
    found: Search,
    told: Map,
    assumptions: Mapping[str, Assumption],
    scenarios: Entries,
) -> list[str]:
    """Write the answer's files, and return their names."""
    joint = found.joint.choice
    best = {"seeds": MIN_SEEDS, "scenarios": scenarios_under(scenarios, joint, assumptions)}
    files = {
        "assumptions.md": answer(told, assumptions, joint),
        FILE: told.as_json(),
        TRIED: tried_csv(found),
        "best.yml": (
            f"# {told.joint}; found by\n# {told.command}\n# To be run with: ./openbach-run best.yml"
            f" --with {shown_path(ALTERNATIVES)}\n{yaml.safe_dump(best, sort_keys=False)}"
        ),
    }
    output.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (output / name).write_text(text)
    return list(files)


def _judged(results: Path, described: Mapping[str, dict[str, Any]]) -> list[Claim]:
    """Return the claims with the verdicts of these results."""
    campaigns = read_campaigns([results])
    return [judge(name, one, campaigns) for name, one in described.items()]


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
    """The runs of the claims' cells under a choice of assumptions, and the claims' verdicts."""

    results: Path
    scenarios: Entries
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
    under: dict[str, dict[str, Record]] = field(default_factory=dict)
    """The records that were judged under each choice, in words, by run_id."""

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
        parts = [f"{name}_{value}" for name, value in sorted(choice.items())] or ["ours"]
        parts.append(_in_words(seeds))
        folder = self.results / file_name(*(part.replace(" ", "_") for part in parts))
        try:
            named = self._named(choice, seeds, of)
            # Runs of another kernel or Debian count too; run_choice would execute them again.
            if named.keys() <= self.there:
                write_campaign(folder, named)
            else:
                entries = self._entries(choice, of)
                run_choice(folder, entries, seeds, self.workers, self.quiet)
        except KeyboardInterrupt:
            self.interrupted = True
            raise Stop from None
        campaigns = read_campaigns([folder])
        self._note(campaigns.records)
        records = self.under.setdefault(words(choice), {})
        records.update({one.run_id: one for one in campaigns.records})
        claimed = as_claimed(campaigns, choice, self.assumptions)
        claims = []
        for name, described in self.described.items():
            claim = judge(name, described, claimed)
            wanted = [one for one in claim.findings if of is None or (name, one.orbit) in of]
            claims.append(replace(claim, findings=wanted))
        return claims

    @property
    def used(self) -> dict[str, Record]:
        """Return the records that were judged, by run_id."""
        return dict(chain.from_iterable(records.items() for records in self.under.values()))

    @property
    def versions(self) -> str:
        """Return a sentence on the versions of Debian; "" if there is only one."""
        found: dict[bool, set[str]] = {True: set(), False: set()}
        for one in self.used.values():
            if version := debian_of(one.packages):
                found[one.seed in self.searching].add(version)
        search, others = (" and ".join(sorted(found[searching])) for searching in (True, False))
        return (
            ""
            if len(found[True] | found[False]) < 2
            else (
                f"The runs of the search are of Debian {search}, those with the other seeds of"
                f" Debian {others}."
            )
        )

    @property
    def failed(self) -> list[str]:
        """Return the choices under which runs failed, with their number, in words."""
        told = []
        for choice, records in self.under.items():
            if failed := sum(not one.finished for one in records.values()):
                told.append(f"{choice} ({failed} of {len(records)} runs)")
        return told

    def _entries(self, choice: Choice, of: Collection[Of] | None) -> list[dict[str, Any]]:
        """Return the scenarios of a choice, with the cells of the claims on some orbits.

        `of` names them; all cells if it is None.
        """
        entries: list[Mapping[str, Any]] = list(self.scenarios) if of is None else []
        for orbit in sorted({orbit for _, orbit in of or ()}):
            names = [claim for claim, its_orbit in sorted(of or ()) if its_orbit == orbit]
            claims = [self.described[name] for name in names]
            entries += needed(on_orbit(self.scenarios, orbit), claims)
        return scenarios_under(entries, choice, self.assumptions)

    def cells(
        self, choice: Choice, seeds: Sequence[int], of: Collection[Of] | None = None
    ) -> list[Run]:
        """Return the runs of a choice."""
        return cells_of(self._entries(choice, of), seeds)

    def is_known(self, choice: Choice) -> bool:
        """Return whether all runs of a choice with the seeds of the search exist."""
        return all(_key(one) in self.known for one in self.cells(choice, self.searching))

    def to_do(
        self, choices: Sequence[Choice], seeds: Sequence[int], of: Collection[Of] | None = None
    ) -> list[Run]:
        """Return the runs of all choices together that do not exist yet, each once."""
        runs: dict[Any, Run] = {}
        for choice in choices:
            for run_id, one in self._named(choice, seeds, of).items():
                if run_id not in self.there:
                    runs[_key(one)] = one
        return list(runs.values())

    def _named(
        self, choice: Choice, seeds: Sequence[int], of: Collection[Of] | None
    ) -> dict[str, Run]:
        """Return the runs of a choice by run_id.

        For a verdict they are those with the kernel and packages that are here. Else they are known
        runs, whatever these were run with, if all of them exist.
        """
        cells = self.cells(choice, seeds, of)
        is_verdict = seeds != self.searching and of is None
        if not is_verdict and all(_key(one) in self.known for one in cells):
            return {self.known[_key(one)].run_id: one for one in cells}
        return runs_of(self._entries(choice, of), seeds, self.quiet)

    def seconds(self, runs: Sequence[Run]) -> float:
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


def cells_of(scenarios: Entries, seeds: Sequence[int]) -> list[Run]:
    """Return the runs of a campaign file's scenarios, with the arguments that are in force."""
    found: list[Run] = []
    for draft in _drafts(scenarios, seeds):
        for cell, seed in product(draft.cells, seeds):
            found.append({**cell, "scenario": draft.scenario.name, "seed": str(seed)})
    return found


def runs_of(scenarios: Entries, seeds: Sequence[int], quiet: bool) -> dict[str, Run]:
    """Return the runs of a campaign file's scenarios by run_id.

    They are those of the kernel and Debian packages that are here.
    """
    found: dict[str, Run] = {}
    _, packages = _installed()
    for draft in _drafts(scenarios, seeds):
        inventory = load_inventory(inventory_file(draft.scenario, draft.path, None))
        check_folders(draft, packages)
        engine = _engine(json.dumps(joined(draft.uses(packages)), sort_keys=True), quiet)
        for one in draft.runs(packages, inventory, engine.identity_of):
            found[one.run_id] = {**one.values, "scenario": one.scenario_name, "seed": str(one.seed)}
    return found


def _drafts(scenarios: Entries, seeds: Sequence[int]) -> Iterator[Campaign]:
    """Yield the campaign of each scenario, not yet checked against the jobs."""
    for entry in scenarios:
        values = {name: tuple(map(str, some)) for name, some in entry["values"].items()}
        yield draft_of(*_read(entry["scenario"]), values, tuple(seeds), _installed()[1])


@cache
def _engine(uses: str, quiet: bool) -> VirtualEngine:
    """Return an engine, prepared for what is used.

    `uses` is JSON, so that it can be a key of the cache.
    """
    catalog, packages = _installed()
    code = guest_code(REPOSITORY, parts_of(json.loads(uses), packages, catalog))
    engine = VirtualEngine(REPOSITORY, code)
    if looks_only():
        if missing := engine.look():
            raise NotMade(missing)
        return engine
    with Reporter(quiet) as reporter:
        engine.prepare(reporter.show)
    return engine


@cache
def _installed() -> tuple[Catalog, dict[str, Package]]:
    return installed(Options(additions=(ALTERNATIVES,)))


@cache
def _read(scenario: str) -> tuple[Path, Scenario, dict[str, Scenario]]:
    catalog, packages = _installed()
    file = catalog.find("scenarios", scenario)
    if file is None:
        raise InputError(f"there is no scenario {scenario}")
    return file, *read_with_subs(file, packages)


def on_orbit(scenarios: Entries, orbit: str) -> list[Mapping[str, Any]]:
    """Return those of a campaign file's scenarios that run on an orbit, with this orbit alone."""
    made: list[Mapping[str, Any]] = []
    for entry in scenarios:
        values = entry["values"]
        if orbit in values.get("orbit", ()):
            made.append({**entry, "values": {**values, "orbit": [orbit]}})
        # Without a value the scenario's own orbit counts, which a cell shows.
        elif "orbit" not in values and cells_of([entry], (0,))[0].get("orbit") == orbit:
            made.append(entry)
    return made


def _worth(one: Record) -> tuple[bool, list[int]]:
    """Return a key by which the better one of two records of a run is greater.

    That is one that has finished, and then that of the later Debian.
    """
    # As numbers: 13.10 is later than 13.8.
    return one.finished, [int(part) for part in re.findall("[0-9]+", debian_of(one.packages) or "")]


def _key(run: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(run.items())


def run_choice(
    folder: Path, scenarios: Entries, seeds: Sequence[int], workers: int | None, quiet: bool
) -> None:
    """Run what does not exist yet, and write the campaign's file beside the records."""
    _folder_with_runs(folder)
    file = folder / "campaign.yml"
    content = {"seeds": list(seeds), "scenarios": list(scenarios)}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    options = Options(results=folder, additions=(ALTERNATIVES,), workers=workers)
    run_with_progress(plan_of(str(file), [], None, options), options, quiet=quiet)


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


def _forecast(platform: Platform, judging: Sequence[int]) -> str:
    """Return a text on what there is to do, and how long it takes.

    It has a line for each alternative and phase.
    """
    searching, again = platform.searching, _in_words(judging)
    alone: list[Choice] = [dict([pair]) for pair in in_turn(platform.assumptions)]
    lines: list[tuple[str, list[Run]]] = []
    every: dict[Any, Run] = {}
    for choice in ({}, *alone):
        to_do = {_key(one): one for one in platform.to_do([choice], searching)}
        lines.append((words(choice), [to_do[key] for key in to_do if key not in every]))
        every |= to_do
    ours = {_key(one) for one in platform.cells({}, judging)}
    driving = [one for one in platform.to_do(alone, judging) if _key(one) not in ours]
    lines += [
        (f"alone, {_in_words(searching)}", list(every.values())),
        # What the search finds is not known yet: lines with `at most` count all runs of a choice.
        ("each choice of several, at most", platform.cells({}, searching)),
        (f"all as ours, {again}", platform.to_do([{}], judging)),
        (f"the joint set, {again}, at most", platform.cells({}, judging)),
        (f"what drives the claims, {again}, at most", driving),
    ]
    shown = []
    for what, runs in lines:
        shown.append(f"{len(runs):6} runs {duration(platform.seconds(runs)):>7}  {what}")
    known = f"{len(platform.known)} runs in {platform.results}"
    source = known if platform.known else "an assumption: no run is known"
    return "\n".join([*shown, f"on {len(cpus_for(platform.workers))} CPUs, from {source}"])


def _again(
    found: Search, platform: Platform, judging: Sequence[int], left_s: Callable[[], float]
) -> list[Tried]:
    """Run with other seeds what was found, and return the results.

    First come our scenarios, for comparison, then what has been run with these seeds as a whole
    before, then what was found. Then, as far as there is time, each alternative that drives claims
    is run alone, in the cells of what it drives. After an interruption only what exists already is
    taken.
    """
    done: dict[Any, Tried] = {}
    driven: dict[Any, set[Of]] = {}

    def run(choice: Choice, of: set[Of] | None = None) -> None:
        to_do = platform.to_do([choice], judging, of)
        if not to_do or (not platform.interrupted and platform.seconds(to_do) <= left_s()):
            done[_key(choice)] = Tried(dict(choice), platform.judged(choice, judging, of))
            driven[_key(choice)] = of or set()

    with suppress(Stop):
        run({})
        if not done:
            return []  # the others are compared with it
        for one in found.ranked:
            if one.choice and not platform.to_do([one.choice], judging):
                run(one.choice)
        if _key(found.best.choice) not in done:
            run(found.best.choice)
        whole = set(done)
        for several in drivers(found):
            for pair, of in several.items():
                before = driven.get(frozenset([pair]), set())
                if frozenset([pair]) not in whole and not of <= before:
                    run(dict([pair]), before | of)
    return list(done.values())


def _in_words(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    in_turn_ = list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"seeds {seeds[0]} to {seeds[-1]}" if in_turn_ else f"seeds {', '.join(map(str, seeds))}"


def _several_of(tried: Path, assumptions: Mapping[str, Assumption]) -> list[dict[str, str]]:
    """Return the choices of several alternatives in a search's tried.csv.

    They are those that the assumptions still have.

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
    known = {f"{name}: {value}": (name, value) for name, value in in_turn(assumptions)}
    found = []
    for text in texts:
        each = text.split("; ")
        # The file may be of a search with other assumptions.
        if len(each) > 1 and known.keys() >= set(each):
            found.append(dict(known[one] for one in each))
    return found


def debian_of(packages: Sequence[str]) -> str | None:
    """Return the Debian version of a guest tree, `13.8`; None if unknown.

    Its source is base-files, which every release of Debian has anew: 13.8+deb13u8.
    """
    found = (re.match(r"base-files_.*\+deb(\d+)u(\d+)_", one) for one in packages)
    return next((f"{one[1]}.{one[2]}" for one in found if one), None)


def tried_csv(found: Search) -> str:
    """Return the CSV with a row for each choice and finding.

    Its `verdict` is by the medians of the search.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ("choice", "claim", "part", "orbit", "verdict", "comparisons", "least", "greatest")
    writer.writerow(head)
    for one in found.tried:
        for key, finding in one.findings.items():
            medians = [each.found.median for each in finding.comparisons if each.found]
            ends = [f"{min(medians):.4g}", f"{max(medians):.4g}"] if medians else ["", ""]
            verdict = by_medians(finding)
            writer.writerow([words(one.choice), *key, verdict, len(finding.comparisons), *ends])
    return text.getvalue()
