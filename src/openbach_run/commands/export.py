# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run export RESULTS…`: prints every statistic of campaigns.

They come in the line protocol of InfluxDB 1.x, on stdout.
"""

from __future__ import annotations

import argparse
import sys

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
    made = command_parser("export", __doc__, EPILOG)
    add_results(made, "a results directory of a campaign")
    return made


def main(argv: list[str]) -> int:
    """Print the statistics; return the exit code. Raises InputError."""
    campaigns = read_campaigns(parser().parse_args(argv).results)
    sys.stdout.writelines(line_protocol(run.run_dir for run in campaigns.runs if run.record))
    return 0
