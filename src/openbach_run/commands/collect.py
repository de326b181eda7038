# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run collect SCENARIO`: makes records of what has ended on an OpenBACH platform.

Makes records of a scenario's instances that have ended on an OpenBACH platform, whoever
launched them, and prints their table. What is collected is not fetched again. Of a
scenario that starts another one, as geo_loss_table, it collects what that has started.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openbach_run.campaign.engines import controller_of
from openbach_run.campaign.run import run_with_progress
from openbach_run.commands.arguments import add_controller, add_with, command_parser
from openbach_run.commands.run import options_of, tables_as_text

EPILOG = """\
exit codes: 0 all well, 1 an instance failed or cannot be a record (each is named),
2 bad input.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("collect", __doc__, EPILOG)
    cli.add_argument("scenario", metavar="SCENARIO", help="scenario file, or a name in scenarios/")
    only = "only these instances (default: all of the project)"
    cli.add_argument("--instance", type=int, nargs="+", default=[], metavar="N", help=only)
    add_controller(cli)
    cli.add_argument("--results", type=Path, metavar="DIR", help="default results/<scenario>")
    add_with(cli, "directories of yours that the scenario uses (docs/additions.md)")
    cli.add_argument("--inventory", type=Path, metavar="FILE", help="as for `package`")
    cli.add_argument("--quiet", action="store_true", help="no progress")
    cli.set_defaults(engine="controller")
    return cli


def main(argv: list[str]) -> int:
    """Collect the instances and print their table; return the exit code.

    Raises InputError, SetupError.
    """
    arguments = parser().parse_args(argv)
    options = options_of(arguments)
    # Late, as it imports requests.
    from openbach_run.campaign.collect import collected

    controller = controller_of(options)
    assert controller is not None
    plan, left_out = collected(arguments.scenario, arguments.instance, options, controller)
    done = run_with_progress(plan, options, quiet=arguments.quiet, controller=controller)
    print(tables_as_text(done), end="")
    for text in left_out:
        print(f"openbach-run: left out: {text}", file=sys.stderr)
    return 0 if done.is_good and not left_out else 1
