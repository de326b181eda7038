# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run matrix RESULTS…`: write results as a site of static pages.

Writes a site of static pages that works offline: for each scenario in the results a
matrix VPN × link × transport. A cell is the median over the seeds, coloured by how far
it is from the best of its column. It leads to its runs, their records, the curves of one
of them, and the command that repeats them. Records and curves are those of a results
directory: a report's results.parquet has neither. `series_s=0.5` makes runs send curves.
A report's page is copied, if it is there.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from openbach_run.catalog import Catalog
from openbach_run.commands.arguments import add_results, command_parser
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.measures import flat

EPILOG = """\
examples:
  openbach-run matrix reports/* -o site-of-results
  openbach-run matrix results/geo_loss -o mine --measure goodput_mbps
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("matrix", __doc__, EPILOG)
    add_results(cli, "a results directory, or a report: a folder with results.parquet")
    add = cli.add_argument
    add("-o", "--output", type=Path, metavar="DIR", required=True, help="where the pages go")
    text = "the column of results.csv to show (default: the first measure of each scenario)"
    add("--measure", metavar="COLUMN", help=text)
    return cli


def main(argv: list[str]) -> int:
    """Run the command line; return the exit code."""
    arguments = parser().parse_args(argv)
    # Late, as it imports the templates' engine: --help does without.
    from openbach_run.report.matrix import TABLE, write_site
    from openbach_run.web.curves import curves_of, drawn, first_plots

    output: Path = arguments.output
    if output.exists() and not (output / "cells").is_dir():
        raise InputError(f"{output} exists and is no such site; name another directory with -o")
    # `reports/*` also has folders that are no results.
    places = [place for place in arguments.results if (place / TABLE).is_file()]
    if not places:
        named = ", ".join(map(str, arguments.results))
        raise InputError(f"no {TABLE} in {named}; `openbach-run export DIR --parquet` writes it")
    pages = {place.resolve().name: place / "report.html" for place in places}
    reports = {name: f"reports/{name}.html" for name, page in pages.items() if page.is_file()}
    packages = load_packages(Catalog().jobs)
    declared = flat({name: package.measures for name, package in packages.items()})

    def draw(run_dir: Path) -> bytes | None:
        """Return the first plots of a run as SVG; None if it has no curve."""
        curves = curves_of(run_dir, packages)
        shown = first_plots(curves)
        return drawn([curve for curve in curves if curve.plot in shown], "svg") if curves else None

    # The site takes its place only when it is whole.
    new = output.with_name(f"{output.name}.unfinished")
    shutil.rmtree(new, ignore_errors=True)
    try:
        matrices = write_site(places, declared, new, arguments.measure, reports, draw)
        (new / "reports").mkdir()
        for name, copy in reports.items():
            shutil.copyfile(pages[name], new / copy)
        shutil.rmtree(output, ignore_errors=True)
        new.rename(output)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    for place in arguments.results:
        if place not in places:
            print(f"{place}: left out, it has no {TABLE}")
    print(f"{output}/index.html: {len(matrices)} matrices")
    return 0
