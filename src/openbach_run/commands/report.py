# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run report RESULTS…`: write the technical report of campaigns.

To a directory, whole or not at all: report.html (one file, works
offline), report.pdf, report.md; figures/ (SVG and PDF) and tables/ (text, Markdown,
LaTeX, HTML) for papers; cells.csv (every cell, with its difference from and ratio
to the baseline), claims.csv (every comparison); results.csv and results.parquet
(every run).
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from openbach_run.commands.arguments import add_results, command_parser
from openbach_run.errors import InputError
from openbach_run.progress import Reporter
from openbach_run.report.cells import BASELINE, Campaigns, printable, read_campaigns
from openbach_run.report.claims import Claim
from openbach_run.report.runs_file import ENDING
from openbach_run.report.words import with_titles
from openbach_run.results.run_archive import FILE as ARCHIVE
from openbach_run.results.run_archive import write_runs
from openbach_run.results.store import Store

TABLE = "results.parquet"
TRACKED = {TABLE, "report.html", "report.pdf", "figures"}
"""Files of a report that git has."""

EPILOG = """\
examples:
  openbach-run library/campaigns/matrix.yml --seeds 5
  openbach-run report results/matrix -o reports/matrix
  openbach-run report results/geo_loss results/leo_loss -o reports/mine \\
      --baseline vpn=wireguard pep=none
  openbach-run report results/geo_loss --paper column --baseline cc=cubic -o figures
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("report", __doc__, EPILOG)
    add_results(cli, "a results directory of a campaign, or the results.parquet of a report")
    add = cli.add_argument
    text = "where the report goes (default reports/<name of RESULTS>)"
    add("-o", "--output", type=Path, metavar="DIR", help=text)
    text = (
        "the configuration that all others are compared with (default vpn=none pep=none, where"
        " there are such cells)"
    )
    add("--baseline", metavar="NAME=VALUE", nargs="*", help=text)
    text = "with the method and the limitations in full, some 30 pages more"
    add("--appendix", action="store_true", help=text)
    text = f"with {ARCHIVE}: the runs, from which the report can be made again elsewhere"
    add("--runs", action="store_true", help=text)
    text = "page 1 alone, in a second or two: page-1.html to put into another page, report.md"
    add("--first-page", action="store_true", help=text)
    text = (
        "figures for a paper alone: distributions over the seeds, bars with intervals, ratios"
        " to the baseline; PDF, SVG, PGF; as wide as a column of a two-column page (3.5 in), or"
        " as both (7.16 in)"
    )
    add("--paper", choices=["column", "page"], help=text)
    add("--quiet", action="store_true", help="no progress")
    return cli


def main(argv: list[str]) -> int:
    """Run the command line; return the exit code."""
    arguments = parser().parse_args(argv)
    name = _name(arguments.results[0])
    output = arguments.output or Path("reports") / (f"{name}-paper" if arguments.paper else name)
    for option in ("baseline", "appendix", "runs", "paper"):
        if arguments.first_page and getattr(arguments, option):
            raise InputError(f"--{option} changes nothing on page 1: leave it or --first-page out")
        if arguments.paper and option in ("appendix", "runs") and getattr(arguments, option):
            raise InputError(f"--{option} changes no figure: leave it or --paper out")
    if arguments.runs and any(path.suffix == ENDING for path in arguments.results):
        raise InputError("--runs: a results.parquet has no runs, only what they measured")
    claims = write_report(
        arguments.results,
        output,
        baseline=arguments.baseline,
        appendix=arguments.appendix,
        runs=arguments.runs,
        quiet=arguments.quiet,
        first_page=arguments.first_page,
        paper=arguments.paper,
    )
    if arguments.paper:
        print(f"{output}: {len([*output.glob('*.pgf')])} figures, each as .pdf, .svg and .pgf")
        return 0
    if arguments.first_page:
        print(f"{output}/page-1.html, report.md")
        return 0
    for claim in claims:
        for orbit, verdict in claim.verdicts.items():
            print(f"{claim.name:4} {orbit.upper():4} {verdict}")
    written = "report.html, report.pdf, report.md" + (f", {ARCHIVE}" if arguments.runs else "")
    print(f"{output}/{written}")
    return 0


def _name(results: Path) -> str:
    """Return the name of a results directory, or of the directory that a results.parquet is in."""
    place = results.resolve()
    return place.parent.name if place.suffix == ENDING else place.name


def write_report(
    results: Sequence[Path],
    output: Path,
    *,
    baseline: Sequence[str] | None = None,
    appendix: bool = False,
    runs: bool = False,
    quiet: bool = False,
    first_page: bool = False,
    paper: str | None = None,
) -> list[Claim]:
    """Write the report of results directories, whole or not at all; return the claims.

    `baseline` is NAME=VALUE settings. `appendix` adds method and limitations, `runs` the runs
    themselves. With `first_page` there is nothing but page 1, with `paper` nothing but figures of a
    width (paper.py), and no claim. Raises InputError.
    """
    campaigns = read_campaigns(results)
    if not campaigns.records:
        raise InputError(f"{results[0]}: nothing has been run yet")
    compared_with = _baseline(baseline, campaigns)
    refuse_foreign(output)
    # The report takes its place only when it is whole.
    new = output.with_name(f"{output.name}.unfinished")
    shutil.rmtree(new, ignore_errors=True)
    # Late, as it imports matplotlib and typst: --help and bad input do without.
    from openbach_run.report.write import write, write_first

    claims: list[Claim] = []
    with Reporter(quiet) as reporter, with_titles(campaigns.titles):
        if paper:
            from openbach_run.report.paper import write as write_figures

            write_figures(campaigns, compared_with, new, paper)
        elif first_page:
            write_first(campaigns, new)
        else:
            claims = write(campaigns, compared_with, new, reporter, appendix=appendix)
        if runs:
            stores = [Store(folder) for folder in results]
            write_runs(new / ARCHIVE, [(store, _of(campaigns, store)) for store in stores])
        if len(results) == 1 and results[0].suffix == ENDING and not (first_page or paper):
            shutil.copyfile(results[0], new / TABLE)  # to the bit, as it may be tracked
    shutil.rmtree(output, ignore_errors=True)
    new.rename(output)
    return claims


def _of(campaigns: Campaigns, store: Store) -> list[str]:
    """Return the run_ids in one results directory that were run."""
    return [
        run.run_dir.name
        for run in campaigns.runs
        if run.record and run.run_dir.parent == store.runs
    ]


def _baseline(settings: Sequence[str] | None, campaigns: Campaigns) -> dict[str, str]:
    """Return the baseline's values by argument.

    Without `settings` it is the usual one, or {} (nothing is compared) if no cell has its values.
    Raises InputError if no cell has the values of `settings`.
    """
    if settings is None:
        return (
            dict(BASELINE)
            if any(BASELINE.items() <= cell.values.items() for cell in campaigns.cells)
            else {}
        )
    baseline = dict(printable(text).partition("=")[::2] for text in settings)
    if not any(baseline.items() <= cell.values.items() for cell in campaigns.cells):
        known: set[str] = set().union(*(cell.values for cell in campaigns.cells))
        raise InputError(
            f"--baseline {' '.join(settings)}: no cell has these values; arguments are"
            f" {', '.join(sorted(known))}"
        )
    return baseline


def refuse_foreign(output: Path) -> None:
    """Raise InputError for an output that exists and is no report: it would be removed."""
    if output.exists() and not (output / "report.md").exists() and not _is_tracked(output):
        raise InputError(f"{output} exists and is no report; name another directory with -o")


def _is_tracked(output: Path) -> bool:
    """Return whether a folder has what git has of a report, and nothing else."""
    return {TABLE} <= {file.name for file in output.iterdir()} <= TRACKED
