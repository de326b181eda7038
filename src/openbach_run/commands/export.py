# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run export RESULTS…`: prints every statistic of campaigns.

They come in the line protocol of InfluxDB 1.x, on stdout. --parquet writes results.parquet into
each results directory instead: the rows of results.csv, with types and units.
"""

from __future__ import annotations

import argparse
import sys

from openbach_run.campaign.sub_runs import parquet_of
from openbach_run.commands.arguments import add_results, command_parser
from openbach_run.report.cells import read_campaigns
from openbach_run.results.line_protocol import line_protocol

EPILOG = """\
example, into the database of an OpenBACH collector:
  openbach-run export results/geo_loss > geo_loss.lp
  curl --data-binary @geo_loss.lp 'http://COLLECTOR:8086/write?db=openbach&rp=openbach&precision=ms'
The n-th run (row of results.csv) is scenario instance n there.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("export", __doc__, EPILOG)
    add_results(cli, "a results directory of a campaign")
    cli.add_argument(
        "--parquet", action="store_true", help="write results.parquet into each; print where it is"
    )
    return cli


def main(argv: list[str]) -> int:
    """Print the statistics, or write tables; return the exit code. Raises InputError, OSError."""
    arguments = parser().parse_args(argv)
    if arguments.parquet:
        for directory in arguments.results:
            print(parquet_of(directory))
        return 0
    campaigns = read_campaigns(arguments.results)
    sys.stdout.writelines(line_protocol(run.run_dir for run in campaigns.runs if run.record))
    return 0
