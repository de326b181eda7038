# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run explain`: under which assumptions the published report's claims hold."""

from __future__ import annotations

import argparse
import csv
import io
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from openbach_run.additions import Additions
from openbach_run.campaign.execute import cpus_for
from openbach_run.campaign.forecast import duration, mean_wall_s
from openbach_run.campaign.plan import draft_of, read_with_subs
from openbach_run.campaign.settings import parse_seeds
from openbach_run.commands.main import parser as parser_of_runs
from openbach_run.commands.run import commit
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.refusals import near
from openbach_run.paths import REPOSITORY
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
from openbach_run.report.search import Search, Stop, Tried, by_medians, drivers, in_turn, search
from openbach_run.results.chance import MIN_SEEDS
from openbach_run.results.record import Record, Store
from openbach_run.yaml_files import read_yaml

ALTERNATIVES = REPOSITORY / "reports/alternatives"
FIRST_SEED = 101
"""Of those that search: others than those of a campaign, which then judge what was found."""
KEPT, KEPT_IN_ALL = 0.5, 0.7
"""Of the budget at most the first part is kept for running what was found with other seeds, and at most the second for that
and for choices of several alternatives."""
TOGETHER = 3
"""Time for so many of these is kept."""
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
    made.add_argument("claims", metavar="CLAIM", nargs="*", help="C1, C2, … of reports/claims.yml (default: all)")
    made.add_argument(
        "--budget", metavar="TIME", help="end within this time, as far as it can be told: 90s, 30m, 2h (default: none)"
    )
    made.add_argument(
        "--screen", metavar="N", type=int, default=1, help=f"so many seeds search, {FIRST_SEED} and on (default 1)"
    )
    made.add_argument(
        "--seeds",
        metavar="N",
        default=str(MIN_SEEDS),
        help=f"of the verdicts on what was found, as for a scenario (default {MIN_SEEDS}; fewer decide nothing)",
    )
    made.add_argument(
        "--confirm",
        action="store_true",
        help="search no further: only run the best of what has been tried with the seeds of the verdicts",
    )
    made.add_argument(
        "--dry-run", action="store_true", help="only say how many runs there are to do, and how long they take"
    )
    made.add_argument(
        "--campaign",
        metavar="NAME",
        default="claims",
        help="the cells: a campaign file, or the name of one in campaigns/ (default claims: all that the claims speak of)",
    )
    made.add_argument(
        "--assumptions", metavar="FILE", type=Path, default=REPOSITORY / "reports/assumptions.yml", help="what is open"
    )
    made.add_argument("--workers", metavar="N", type=int, help="runs at the same time, as for a scenario")
    made.add_argument("--results", metavar="DIR", type=Path, default=Path("results/explain"), help="where the runs go")
    made.add_argument(
        "-o", "--output", metavar="DIR", type=Path, default=Path("reports/assumptions"), help="where the answer goes"
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
            f"--campaign {arguments.campaign}: none of its cells is one that {', '.join(described)} speaks of"
        )
    assumptions = relevant(read_assumptions(arguments.assumptions), scenarios)
    searching, judging = _seeds(arguments.screen, arguments.seeds)
    platform = Platform(arguments.results, scenarios, assumptions, described, arguments.workers, arguments.quiet)
    forecast = _forecast(platform, assumptions, searching, judging)
    if arguments.dry_run:
        print(forecast)
        return 0
    if not arguments.quiet:
        print(forecast, file=sys.stderr)

    def left_s() -> float:
        return begin_s + budget_s - time.monotonic()

    again_s = platform.seconds(platform.to_do([{}], judging)) + platform.seconds(platform.cells({}, judging))
    kept_s = min(again_s, KEPT * budget_s)
    together_s = TOGETHER * platform.seconds(platform.cells({}, searching))
    kept_of_alone_s = min(kept_s + together_s, KEPT_IN_ALL * budget_s)
    no_more_together = arguments.confirm

    def may_try(choice: Choice) -> bool:
        """Choices of several alternatives are many, and cost much the same: after the first that takes too long only those are
        looked at that have been begun."""
        nonlocal no_more_together
        if len(choice) > 1 and no_more_together and not platform.folder(choice, searching).exists():
            return False
        to_do = platform.to_do([choice], searching)
        for_it_s = left_s() - (kept_s if len(choice) > 1 else kept_of_alone_s)
        fits = not to_do or (not arguments.confirm and platform.seconds(to_do) <= for_it_s)
        no_more_together |= len(choice) > 1 and not fits
        return fits

    found = search(assumptions, lambda choice: platform.judged(choice, searching), may_try)
    if not found.tried:
        raise KeyboardInterrupt
    found = replace(found, again=_again(found, platform, judging, left_s))
    command = shlex.join(["./openbach-run", "explain", *argv])
    told = map_of(found, command, commit() or "", _shown(campaign), _in_words(searching), _in_words(judging))
    _write(arguments.output, found, told, assumptions, scenarios)
    print(_summary(told))
    print(f"{arguments.output}/assumptions.md, map.json, tried.csv, best.yml")
    if platform.interrupted:
        raise KeyboardInterrupt
    return 0 if found.whole else 1


def _claims(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    described = read_claims(REPOSITORY / "reports/claims.yml")
    claims = {name: one for name, one in described.items() if one.get("document", SATCOM) == SATCOM}
    for name in names:
        if name not in claims:
            raise InputError(f"{name}: no such claim; {near(name, claims)}there are {', '.join(claims)}")
    return {name: claims[name] for name in names or claims}


def _campaign(name: str) -> Path:
    path = Path(name) if Path(name).exists() else Additions.beside_ours([]).find("campaigns", name)
    if path is None:
        raise InputError(f"--campaign {name}: no such campaign; give a file, or the name of one in campaigns/")
    return path


def _seeds(screen: int, judging: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Those that search and those that judge."""
    if screen < 1:
        raise InputError(f"--screen {screen}: at least 1")
    searching, others = tuple(range(FIRST_SEED, FIRST_SEED + screen)), parse_seeds(judging)
    if both := sorted(set(searching) & set(others)):
        raise InputError(f"--seeds {judging}: {both[0]} is a seed of the search; what it finds is judged with others")
    return searching, others


def _seconds(budget: str | None) -> float:
    if budget is None:
        return float("inf")
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget)
    if found is None:
        raise InputError(f"--budget {budget}: give a time like 90s, 30m, 2h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


@dataclass
class Platform:
    """Runs the cells of the claims under a choice of assumptions, and judges the claims by them."""

    results: Path
    scenarios: Sequence[Mapping[str, Any]]
    assumptions: Mapping[str, Assumption]
    described: Mapping[str, dict[str, Any]]
    workers: int | None
    quiet: bool
    interrupted: bool = False
    known: dict[Any, Record] = field(default_factory=dict)
    """Finished runs, by `_key`."""

    def __post_init__(self) -> None:
        self._note(Store(self.results).all())

    def judged(self, choice: Choice, seeds: Sequence[int]) -> list[Claim]:
        """Raises Stop when it is interrupted."""
        if not self.quiet:
            print(f"explain: {words(choice)}", file=sys.stderr)
        listed = ",".join(map(str, seeds)) + ","
        folder = self.folder(choice, seeds)
        scenarios = scenarios_under(self.scenarios, choice, self.assumptions)
        try:
            run_campaign(folder, scenarios, listed, self.workers, self.quiet)
        except KeyboardInterrupt:
            self.interrupted = True
            raise Stop from None
        campaigns = read_campaigns([folder])
        self._note(campaigns.records)
        claimed = as_claimed(campaigns, choice, self.assumptions)
        return [judge(name, one, claimed) for name, one in self.described.items()]

    def folder(self, choice: Choice, seeds: Sequence[int]) -> Path:
        named = [f"{name}_{value}" for name, value in sorted(choice.items())]
        return self.results / file_name(*(one.replace(" ", "_") for one in (*(named or ["ours"]), _in_words(seeds))))

    def cells(self, choice: Choice, seeds: Sequence[int]) -> list[dict[str, str]]:
        return cells_of(scenarios_under(self.scenarios, choice, self.assumptions), seeds)

    def to_do(self, choices: Sequence[Choice], seeds: Sequence[int]) -> list[dict[str, str]]:
        """Of the runs of all choices together those that are not there, each once."""
        runs = {_key(one): one for choice in choices for one in self.cells(choice, seeds)}
        return [one for key, one in runs.items() if key not in self.known]

    def seconds(self, runs: Sequence[Mapping[str, str]]) -> float:
        """How long they take, from what is known of runs like them."""
        cells = [{name: value for name, value in one.items() if name != "seed"} for one in runs]
        return len(runs) * mean_wall_s(cells, list(self.known.values())) / len(cpus_for(self.workers))

    def _note(self, records: Sequence[Record]) -> None:
        for one in records:
            if one.finished:
                self.known[_key({**one.arguments, "scenario": one.scenario, "seed": str(one.seed)})] = one


def cells_of(scenarios: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> list[dict[str, str]]:
    """What a campaign file's scenarios run: `scenario`, the arguments in force, and `seed`."""
    found = []
    for entry in scenarios:
        file, scenario, subs, packages = _read(entry["scenario"])
        values = {name: tuple(some) for name, some in entry["values"].items()}
        for cell in draft_of(file, scenario, subs, values, (1,), packages).cells:
            found += [{**cell, "scenario": scenario.name, "seed": str(seed)} for seed in seeds]
    return found


def _key(run: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(run.items())


@cache
def _read(scenario: str) -> Any:
    additions = Additions.beside_ours([ALTERNATIVES])
    packages = load_packages(additions.jobs, additions)
    file = additions.find("scenarios", scenario)
    if file is None:
        raise InputError(f"there is no scenario {scenario}")
    return file, *read_with_subs(file, packages), packages


def run_campaign(
    folder: Path, scenarios: Sequence[Mapping[str, Any]], seeds: str, workers: int | None, quiet: bool
) -> None:
    """Runs what is not there yet; the campaign's file and table are beside its records."""
    from openbach_run.commands.run import run

    folder.mkdir(parents=True, exist_ok=True)
    runs = folder / "runs"
    if not runs.exists():  # a run that several choices have is executed once
        (folder.parent / "runs").mkdir(exist_ok=True)
        runs.symlink_to(Path("../runs"))
    file = folder / "campaign.yml"
    file.write_text(yaml.safe_dump({"seeds": list(parse_seeds(seeds)), "scenarios": list(scenarios)}, sort_keys=False))
    options = ["--seeds", seeds, "--results", str(folder), "--with", str(ALTERNATIVES), *(["--quiet"] if quiet else [])]
    options += [] if workers is None else ["--workers", str(workers)]
    table = io.StringIO()
    with redirect_stdout(table):
        run(parser_of_runs().parse_args([str(file), *options]))
    (folder / "table.txt").write_text(table.getvalue())


def _forecast(
    platform: Platform, assumptions: Mapping[str, Assumption], searching: Sequence[int], judging: Sequence[int]
) -> str:
    """What there is to do, and how long it takes: a line for each alternative and phase."""
    lines: list[tuple[str, list[dict[str, str]]]] = []
    every: dict[Any, dict[str, str]] = {}
    for choice in ({}, *(dict([pair]) for pair in in_turn(assumptions))):
        own = {_key(one): one for one in platform.to_do([choice], searching) if _key(one) not in every}
        lines.append((words(choice), list(own.values())))
        every |= own
    lines.append((f"alone, {_in_words(searching)}", list(every.values())))
    lines.append(("each choice of several, at most", platform.cells({}, searching)))
    lines.append((f"all as ours, {_in_words(judging)}", platform.to_do([{}], judging)))
    lines.append((f"the joint set, {_in_words(judging)}, at most", platform.cells({}, judging)))
    source = f"{len(platform.known)} runs in {platform.results}" if platform.known else "an assumption: no run is known"
    shown = [f"{len(runs):6} runs {duration(platform.seconds(runs)):>7}  {what}" for what, runs in lines]
    return "\n".join([*shown, f"on {len(cpus_for(platform.workers))} CPUs, from {source}"])


def _again(found: Search, platform: Platform, judging: Sequence[int], left_s: Any) -> list[Tried]:
    """What was found, and ours beside it, with other seeds; then, as far as there is time, what drives the claims, alone."""
    done: list[Tried] = []
    choices: list[Choice] = [{}, found.best.choice, *(dict([pair]) for pair in drivers(found))]
    for choice in choices:
        if platform.interrupted or any(one.choice == choice for one in done):
            continue
        to_do = platform.to_do([choice], judging)
        if to_do and platform.seconds(to_do) > left_s():
            if len(done) < 2 and choice in choices[:2]:
                break  # without these two the others say nothing
            continue
        try:
            done.append(Tried(dict(choice), platform.judged(choice, judging)))
        except Stop:
            break
    return done


def _write(
    output: Path,
    found: Search,
    told: Map,
    assumptions: Mapping[str, Assumption],
    scenarios: Sequence[Mapping[str, Any]],
) -> None:
    output.mkdir(parents=True, exist_ok=True)
    (output / "assumptions.md").write_text(answer(told, assumptions, found.best.choice))
    (output / FILE).write_text(told.as_json())
    (output / "tried.csv").write_text(tried_csv(found))
    best = {"seeds": MIN_SEEDS, "scenarios": scenarios_under(scenarios, found.best.choice, assumptions)}
    with_ours = f"--with {_shown(ALTERNATIVES)}"
    head = f"# {told.joint}; found by\n# {told.command}\n# To be run with: ./openbach-run best.yml {with_ours}\n"
    (output / "best.yml").write_text(head + yaml.safe_dump(best, sort_keys=False))


def _shown(path: Path) -> str:
    return str(path.relative_to(REPOSITORY) if path.is_relative_to(REPOSITORY) else path)


def _in_words(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    in_turn_ = list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"seeds {seeds[0]} to {seeds[-1]}" if in_turn_ else f"seeds {', '.join(map(str, seeds))}"


def _summary(told: Map) -> str:
    several = len(told.findings)
    by = f"with {told.confirmed}" if told.confirmed else f"by the medians of {told.searched}"
    text = f"As our scenarios are, {told.held('ours')} of {several} findings hold {by}"
    end = "" if told.whole else " The budget ended the search: the same command with a larger one goes on."
    return f"{text}; under {told.joint}, {told.held('joint')}.{end}"


def tried_csv(found: Search) -> str:
    """A row for each choice and finding; `verdict` by the medians of the search."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["choice", "claim", "part", "orbit", "verdict", "comparisons", "least", "greatest"])
    for one in found.tried:
        for (claim, part, orbit), finding in one.findings.items():
            medians = sorted(compared.found.median for compared in finding.comparisons if compared.found)
            ends = [f"{end:.4g}" for end in (medians[0], medians[-1])] if medians else ["", ""]
            writer.writerow(
                [words(one.choice), claim, part, orbit, by_medians(finding), len(finding.comparisons), *ends]
            )
    return text.getvalue()
