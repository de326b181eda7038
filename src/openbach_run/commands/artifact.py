# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run artifact RESULTS… -o DIR`: keeps results with what repeats them.

Makes a directory for an artifact evaluation: results, the program that repeats them, and a
README.md in which each claim and result has its command, its value and its tolerance, with
the first steps of ten minutes, the full run and its time, environment and licence.

  openbach-run artifact results/geo_loss -o artifact --title 'VPNs over GEO'
  artifact/openbach artifact --verify artifact --minutes 10    without a checkout
  openbach-run artifact --verify artifact --only C1,R3         what claim C1 and result R3 need

Before it is there, its own bundle repeats some of its runs in an empty home directory. The
results have to be whole: every run of the campaign has ended, in virtual time. Link files
travel in it, and so do directories that are given again: --with mine. Not so vpn.config's
files, --jobs and --inventory; the latter's jobs and topologies go into a directory for --with.

A plain one is for a repository of papers: any results, as they are, without the tables of
claims and results. Before, some of the runs are repeated here.

  openbach-run artifact --plain results/geo_loss -o geo_loss-plain
  openbach-run artifact --plain --verify geo_loss-plain --runs 10
"""

from __future__ import annotations

import argparse
import re
import sys
from functools import partial
from pathlib import Path

from openbach_run.bundle.artifact import CLAIMS, Repeatable, check_names, facts_of
from openbach_run.bundle.artifact_files import SLOWER, Wanted, make, verify, verify_plain
from openbach_run.campaign.options import Options
from openbach_run.campaign.run import commit
from openbach_run.commands.arguments import add_jobs, add_with, command_parser
from openbach_run.commands.report import write_report
from openbach_run.errors import InputError
from openbach_run.paths import REPOSITORY
from openbach_run.report.cells import read_campaigns
from openbach_run.version import version

MAKING = ("results", "output", "bundle", "title", "claims", "licence", "without_bundle")
VERIFYING = ("minutes", "only", "kept")
OF_FIGURES = ("title", "claims", "licence", *VERIFYING)
PLAIN = ("runs", "jobs", "inventory", "without_bundle")
"""Options of making and of verifying; those of artifacts with figures, and of plain ones."""
RUNS = 3
EPILOG = """\
--verify checks SHA256SUMS, that the results and claims follow from the records, and repeats
runs: status, every measure and every packet have to be the same; of a plain artifact every
packet. exit codes: 0 all is the same, 1 something is not, 2 bad input, 130 interrupted.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("artifact", __doc__, EPILOG)
    add = cli.add_argument
    of_campaigns = "results directories of campaigns"
    add("results", metavar="RESULTS", nargs="*", type=Path, help=of_campaigns)
    new = "the artifact to make; it must not exist"
    add("-o", "--output", type=Path, metavar="DIR", help=new)
    add("--title", metavar="TEXT", help="of README.md, as the title of your paper")
    own = "your claims, in the form of reports/claims.yml (default: the claims of that file)"
    add("--claims", type=Path, metavar="FILE", help=own)
    licence = "sentence on the licence of the results, for README.md"
    add("--licence", metavar="TEXT", help=licence)
    bundle = "a bundle that is there (default: one of this checkout is made)"
    add("--bundle", type=Path, metavar="FILE", help=bundle)
    add("--verify", type=Path, metavar="DIR", help="repeat runs of this artifact instead")
    fit = (
        f"with --verify: as many runs as fit into N minutes on a machine {SLOWER} times slower than"
        " the one that made the results"
    )
    add("--minutes", type=float, metavar="N", help=fit)
    named = "with --verify: the runs of these results and claims (R1, C2)"
    add("--only", metavar="NAME[,NAME…]", help=named)
    goes_on = "with --verify: keep the repeated runs there; the same command then goes on"
    add("--results", type=Path, metavar="DIR", dest="kept", help=goes_on)
    plain = "results as they are, without claims and commands, or --verify such an artifact"
    add("--plain", action="store_true", help=plain)
    spread = f"with --plain: how many runs are repeated, evenly spread over all (default {RUNS})"
    add("--runs", type=_count, metavar="N|all", help=spread)
    own = "for runs that were made with it: it is taken from no record. It travels in the artifact"
    add_with(cli, f"{own}; in a plain one it does not")
    add_jobs(cli, "with --plain: for runs that were made with it")
    add("--inventory", type=Path, metavar="FILE", help="the same")
    without = "with --plain: leave the bundle out (210 MB)"
    add("--without-bundle", action="store_true", help=without)
    add("--quiet", action="store_true", help="no progress")
    return cli


def _count(text: str) -> int:
    """Return the number in the option --runs; sys.maxsize for `all`."""
    if not re.fullmatch(r"all|\d+", text):
        raise argparse.ArgumentTypeError(f"should be a number or all, not {text!r}")
    return sys.maxsize if text == "all" else int(text)


def main(argv: list[str]) -> int:
    """Make or verify an artifact; return the exit code. Raises InputError, SetupError."""
    arguments = parser().parse_args(argv)
    _check_options(arguments)
    options = Options(
        additions=tuple(arguments.with_dirs),
        jobs=tuple(arguments.jobs),
        inventory=arguments.inventory,
        results=arguments.kept,
    )
    runs = RUNS if arguments.runs is None else arguments.runs
    place: Path | None = arguments.verify
    if place is None:
        return _make(arguments, runs, options)
    if arguments.plain:
        return int(not verify_plain(place, runs, options, arguments.quiet))
    only, minutes = arguments.only, arguments.minutes
    return int(not verify(place, only, minutes, options, arguments.quiet))


def _check_options(arguments: argparse.Namespace) -> None:
    """Raise InputError for options that do not go together."""
    verifying, plain = arguments.verify is not None, arguments.plain
    used = {
        action.dest: (action.option_strings or [""])[-1]
        for action in parser()._actions
        if getattr(arguments, action.dest, None) not in (None, [], False)
    }
    if verifying and used.keys() & MAKING:
        raise InputError("--verify DIR: takes no RESULTS and no option of making one")
    for names, is_in_place, where in (
        (VERIFYING, verifying, "with --verify DIR"),
        (PLAIN, plain, "with --plain"),
        (OF_FIGURES, not plain, "without --plain"),
    ):
        for name in names:
            if name in used and not is_in_place:
                raise InputError(f"{used[name]} goes {where}")
    if verifying and not plain and arguments.with_dirs:
        raise InputError("--with goes with --plain: this artifact has its own")
    if not verifying and (not arguments.results or arguments.output is None):
        raise InputError(
            "name results directories, and the artifact to make: artifact RESULTS… -o DIR"
        )


def _make(arguments: argparse.Namespace, runs: int, options: Options) -> int:
    """Make an artifact; return the exit code. Raises InputError, SetupError."""
    results: list[Path] = arguments.results
    output: Path = arguments.output
    if output.exists():
        raise InputError(f"-o {output}: is there already")
    if not arguments.plain and not output.absolute().parent.is_dir():
        raise InputError(f"-o {output}: {output.parent} is no directory")
    if arguments.bundle is not None and not arguments.bundle.is_file():
        raise InputError(f"--bundle {arguments.bundle}: no such file")
    check_names(results)
    claims = arguments.claims or CLAIMS
    repeatable = Repeatable(tuple(arguments.with_dirs))
    wanted = Wanted(
        results=results,
        facts=None if arguments.plain else facts_of(results, claims, repeatable),
        repeatable=repeatable,
        claims=claims,
        title=arguments.title,
        licence=arguments.licence,
        bundle=arguments.bundle,
        without_bundle=arguments.without_bundle,
        runs=runs,
        options=options,
        quiet=arguments.quiet,
    )
    facts, in_all = wanted.facts, len(read_campaigns(results).runs)
    make(wanted, output, partial(write_report, quiet=arguments.quiet))
    if facts is None:
        print(f"{output}: {in_all} runs of {len(results)} campaigns")
        return 0
    print(f"{output}: {len(facts.results)} results, {len(facts.claims)} claims, {in_all} runs")
    if not arguments.licence:
        print("README.md names no licence of the results: --licence TEXT does")
    if (REPOSITORY / ".git").exists() and commit() is None:
        print(
            f"this checkout of {version()} has changes that are in no commit: whoever looks for"
            " this code finds it in the bundle only. To name a commit: commit, and make it again",
            file=sys.stderr,
        )
    return 0
