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
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import yaml

from openbach_run.commands.main import parser as parser_of_runs
from openbach_run.commands.run import commit
from openbach_run.errors import InputError
from openbach_run.openbach.refusals import near
from openbach_run.paths import REPOSITORY
from openbach_run.report.assumptions import (
    Assumption,
    Choice,
    Search,
    as_claimed,
    effects,
    needed,
    read_assumptions,
    regions,
    relevant,
    scenarios_under,
    search,
)
from openbach_run.report.cells import file_name, read_campaigns
from openbach_run.report.claims import SATCOM, Claim, judge, read_claims
from openbach_run.report.explained import FILE, Explained, Map
from openbach_run.results.chance import MIN_SEEDS
from openbach_run.results.tables import Table, as_markdown
from openbach_run.yaml_files import read_yaml

CAMPAIGN = REPOSITORY / "campaigns/claims.yml"
ALTERNATIVES = REPOSITORY / "reports/alternatives"
DESCRIPTION = """\
Searches for the assumptions under which the published report's claims hold. Its text
leaves open, say, in which direction packets are lost and how large the buffer is:
reports/assumptions.yml has what it leaves open, with what is plausible. First each
alternative is tried alone, then those that change something are tried together.
"""
EPILOG = """\
examples:
  openbach-run explain --budget 2h                    all claims, for two hours
  openbach-run explain C1 C2 C3 --budget 10m          these alone: their cells have no loss
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
        "--budget", metavar="TIME", help="begin nothing new after this time: 90s, 30m, 2h (default: none)"
    )
    made.add_argument(
        "--seeds",
        metavar="N",
        default=str(MIN_SEEDS),
        help=f"as for a scenario (default {MIN_SEEDS}; fewer decide nothing)",
    )
    made.add_argument(
        "--screen",
        metavar="N",
        help="so many seeds to find out which alternatives change anything; those that do are run with all seeds",
    )
    made.add_argument(
        "--assumptions", metavar="FILE", type=Path, default=REPOSITORY / "reports/assumptions.yml", help="what is open"
    )
    made.add_argument("--results", metavar="DIR", type=Path, default=Path("results/explain"), help="where the runs go")
    made.add_argument(
        "-o", "--output", metavar="DIR", type=Path, default=Path("reports/assumptions"), help="where the answer goes"
    )
    made.add_argument("--quiet", action="store_true", help="no progress")
    return made


def main(argv: list[str]) -> int:
    arguments = parser().parse_args(argv)
    end_s = time.monotonic() + _seconds(arguments.budget)
    described = _claims(arguments.claims)
    scenarios = needed(read_yaml(CAMPAIGN)["scenarios"], described.values())
    assumptions = relevant(read_assumptions(arguments.assumptions), scenarios)

    def judged(choice: Choice, seeds: str = arguments.seeds) -> list[Claim]:
        if not arguments.quiet:
            print(f"explain: {words(choice)}", file=sys.stderr)
        name = file_name(*(f"{name}_{value}" for name, value in sorted(choice.items()))) or "ours"
        folder = arguments.results / (name if seeds == arguments.seeds else f"{name}-{seeds}")
        run_campaign(folder, scenarios_under(scenarios, choice, assumptions), seeds, arguments.quiet)
        campaigns = as_claimed(read_campaigns([folder]), choice, assumptions)
        return [judge(name, one, campaigns) for name, one in described.items()]

    screened = cache_of(lambda choice: judged(choice, arguments.screen)) if arguments.screen else None
    found = search(assumptions, judged, lambda: time.monotonic() < end_s, screened)
    arguments.output.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["./openbach-run", "explain", *argv])
    (arguments.output / "assumptions.md").write_text(answer(found, assumptions, command))
    (arguments.output / FILE).write_text(map_of(found, command).as_json())
    (arguments.output / "tried.csv").write_text(tried_csv(found))
    best = {"seeds": MIN_SEEDS, "scenarios": scenarios_under(scenarios, found.best.choice, assumptions)}
    (arguments.output / "best.yml").write_text(yaml.safe_dump(best, sort_keys=False))
    print(_summary(found))
    print(f"{arguments.output}/assumptions.md, tried.csv, best.yml")
    return 0 if found.whole else 1


def _claims(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    described = read_claims(REPOSITORY / "reports/claims.yml")
    claims = {name: one for name, one in described.items() if one.get("document", SATCOM) == SATCOM}
    for name in names:
        if name not in claims:
            raise InputError(f"{name}: no such claim; {near(name, claims)}there are {', '.join(claims)}")
    return {name: claims[name] for name in names or claims}


def _seconds(budget: str | None) -> float:
    if budget is None:
        return float("inf")
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget)
    if found is None:
        raise InputError(f"--budget {budget}: give a time like 90s, 30m, 2h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


def run_campaign(folder: Path, scenarios: Sequence[Mapping[str, Any]], seeds: str, quiet: bool) -> None:
    """Runs what is not there yet; the campaign's file and table are beside its records."""
    from openbach_run.commands.run import run

    folder.mkdir(parents=True, exist_ok=True)
    runs = folder / "runs"
    if not runs.exists():  # a run that several choices have is executed once
        (folder.parent / "runs").mkdir(exist_ok=True)
        runs.symlink_to(Path("../runs"))
    file = folder / "campaign.yml"
    file.write_text(yaml.safe_dump({"seeds": seeds, "scenarios": list(scenarios)}, sort_keys=False))
    options = ["--seeds", seeds, "--results", str(folder), "--with", str(ALTERNATIVES), *(["--quiet"] if quiet else [])]
    table = io.StringIO()
    with redirect_stdout(table):
        run(parser_of_runs().parse_args([str(file), *options]))
    (folder / "table.txt").write_text(table.getvalue())


def words(choice: Choice) -> str:
    return ", ".join(f"{name}: {value}" for name, value in choice.items()) or "all as ours"


def _summary(found: Search) -> str:
    base, best = found.tried[0], found.best
    several = sum(len(one.findings) for one in base.claims)
    told = f"As our scenarios are, {base.held} of {several} findings hold; under {words(best.choice)}, {best.held}."
    return told + ("" if found.whole else " The budget ended the search: the same command with a larger one goes on.")


def answer(found: Search, assumptions: Mapping[str, Assumption], command: str) -> str:
    """The answer as Markdown: the joint set, then for each finding where it holds and what drives it."""
    changed = effects(found)
    where = regions(found)
    verdicts = {key: one.verdict for key, one in found.best.findings().items()}
    rows = [
        [key[0], key[1], key[2].upper(), one.verdict, verdicts.get(key, ""), where[key], _drivers(changed[key])]
        for key, one in found.tried[0].findings().items()
    ]
    header = ["claim", "what is compared", "orbit", "as ours", "under the joint set", "holds under", "driven by"]
    note = "driven by: alternatives that alone change how many of its comparisons hold, with the factor on their ratio or value"
    claims = Table("Claims and the assumptions under which they hold", header, rows, note, len(header))
    open_ = [
        [name, one.asks, one.ours, "; ".join(one.alternatives), found.best.choice.get(name, "as ours")]
        for name, one in assumptions.items()
    ]
    asked = Table(
        "What the published report leaves open", ["", "asked", "ours", "alternatives", "joint set"], open_, "", 5
    )
    return "\n".join(
        [
            "# Assumptions under which the published report's claims hold",
            "",
            f"{_summary(found)} {len(found.tried)} choices were tried."
            + (
                f" Without effect alone: {'; '.join(map(words, found.without_effect))}." if found.without_effect else ""
            ),
            "",
            f"    {command}",
            "",
            "The joint set with other seeds: `./openbach-run best.yml --seeds 101,102,103,104,105`, then",
            "`openbach-run report`.",
            "",
            as_markdown(claims),
            as_markdown(asked),
        ]
    )


def cache_of(judged: Callable[[Choice], list[Claim]]) -> Callable[[Choice], list[Claim]]:
    known: dict[frozenset[tuple[str, str]], list[Claim]] = {}

    def once(choice: Choice) -> list[Claim]:
        key = frozenset(choice.items())
        if key not in known:
            known[key] = judged(choice)
        return known[key]

    return once


def map_of(found: Search, command: str) -> Map:
    """For the technical report."""
    changed, where, joint = effects(found), regions(found), found.best.findings()
    findings = [
        Explained(*key, one.verdict, joint[key].verdict if key in joint else "", where[key], _drivers(changed[key]))
        for key, one in found.tried[0].findings().items()
    ]
    return Map(command, commit() or "", found.whole, words(found.best.choice), findings)


def _drivers(some: Sequence[Any]) -> str:
    return "; ".join(f"{one.assumption}: {one.alternative} (× {one.shift:.2f})" for one in some[:3]) or "–"


def tried_csv(found: Search) -> str:
    """A row for each choice and finding."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["choice", "claim", "part", "orbit", "verdict", "comparisons", "hold", "do_not"])
    for one in found.tried:
        for (claim, part, orbit), finding in one.findings().items():
            counts = [len(finding.comparisons), len(finding.of(True)), len(finding.of(False))]
            writer.writerow([words(one.choice), claim, part, orbit, finding.verdict, *counts])
    return text.getvalue()
