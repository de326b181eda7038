# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run SCENARIO [NAME=VALUE…]`: executes a campaign and prints its table.

It plans the runs and executes those that are missing.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from functools import partial

from openbach_run.campaign.options import Options
from openbach_run.campaign.request import installed, path_of, plan_of
from openbach_run.campaign.run import (
    forecast_of,
    notes_on_inventories,
    prepare,
    run_with_progress,
    store_of,
)
from openbach_run.campaign.table import Result
from openbach_run.errors import InputError
from openbach_run.progress import Reporter
from openbach_run.results.files import as_csv, as_json
from openbach_run.results.tables import as_html, as_latex, as_markdown, as_text

TABLE_FORMATS = {"table": as_text, "markdown": as_markdown, "latex": as_latex, "html": as_html}


def run(arguments: argparse.Namespace) -> int:
    """Run a command line and print what it asks for; return the exit code.

    Raises InputError, SetupError, OSError, KeyboardInterrupt.
    """
    options = options_of(arguments)
    if arguments.check:
        return _checked(arguments, options)
    plan = plan_of(arguments.scenario, arguments.settings, arguments.seeds, options)
    if arguments.report:
        # Late: few command lines ask for it.
        from openbach_run.commands.report import refuse_foreign, write_report

        if arguments.dry_run or arguments.prepare:
            raise InputError("--report: nothing is run with --dry-run or --prepare")
        refuse_foreign(arguments.report)
    if arguments.tolerance and not arguments.against:
        raise InputError("--tolerance goes with --against DIR")
    if arguments.against:
        # Late: few command lines ask for it.
        from openbach_run.commands import against
        from openbach_run.prompt.compare import tolerance_of

        tolerance = tolerance_of(arguments.tolerance or "5%")
        before = against.earlier(arguments.against, plan, store_of(plan.name, options).directory)
    if arguments.dry_run or arguments.prepare:
        for text in (*plan.warnings(options.engine), *notes_on_inventories(plan, options)):
            print(text, file=sys.stderr)
    if arguments.dry_run:
        print(forecast_of(plan, options))
        return 0
    if arguments.prepare:
        with Reporter(arguments.quiet) as reporter:
            prepare(plan, options, reporter.show)
        return 0
    done = run_with_progress(
        plan,
        options,
        quiet=arguments.quiet,
        result=partial(_print, arguments.format),
    )
    if arguments.report:
        write_report([done.directory], arguments.report, quiet=arguments.quiet)
        print(f"{arguments.report}/report.html, report.pdf, report.md", file=sys.stderr)
    code = 0 if done.is_good else 1
    if arguments.against:
        for words, verdict in against.verdicts(done, before, tolerance):
            print(f"{words}: {verdict.word}: {verdict.in_words()}", file=sys.stderr)
            code = against.REGRESSION if verdict.is_worse else code
    return code


def _checked(arguments: argparse.Namespace, options: Options) -> int:
    """Print what is wrong with a scenario; return the exit code."""
    # Late: few command lines ask for it.
    from openbach_run.commands.check import check

    as_json = arguments.format == "json"
    try:
        catalog, packages = installed(options)
        path = path_of(arguments.scenario, catalog)
        return check(path, packages, as_json, options.inventory)
    except (InputError, OSError) as error:
        if as_json:  # a program reads stdout, whatever is wrong
            print(json.dumps({"error": str(error)}, indent=1))
        raise


def options_of(arguments: argparse.Namespace) -> Options:
    """Return the options of a command line. Raises InputError for some that do not go together."""
    values = {
        opt.name: vars(arguments)[opt.name] for opt in fields(Options) if opt.name in arguments
    }
    lists = {"additions": tuple(arguments.with_dirs), "jobs": tuple(values.get("jobs", ()))}
    return Options(**values | lists)


def _print(form: str, result: Result) -> None:
    """Print all results as tables, CSV or JSON."""
    match form:
        case "csv":
            print(as_csv(result.records), end="")
        case "json":
            print(as_json(result.records), end="")
        case _:
            print(tables_as_text(result, form), end="")


def tables_as_text(result: Result, form: str = "table") -> str:
    """Return the tables of all campaigns in one of TABLE_FORMATS."""
    return "\n".join(TABLE_FORMATS[form](table) for table in result.tables)
