# SPDX-License-Identifier: GPL-3.0-or-later
"""The technical report of a set of results, made by `openbach-run report` as its own process.

The report of a launch is in results/<folder>/launch-<number>/, that of a whole folder in
results/<folder>/all-runs/.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import shlex
from collections.abc import Iterable
from pathlib import Path

from openbach_run.errors import InputError
from openbach_run.report.cells import BASELINE
from openbach_run.report.document import script
from openbach_run.results import campaign_file
from openbach_run.results.record import Record
from openbach_run.results.store import Store, share_runs
from openbach_run.web import heat
from openbach_run.web.answers import Services
from openbach_run.web.launches import chosen, find_launch, own_values, records_of, seeds_of
from openbach_run.web.result_sets import Results, find_set, number_of, runs_of
from openbach_run.web.shared_work import own_command

LIMIT_S = 600.0
FILES = ("report.html", "report.pdf", "report.md", "results.csv")
"""The files of a report that can be opened."""
FIRST = "page-1.html"
"""The part of a page that `openbach-run report --first-page` writes."""
BAD_INPUT = 2
"""The command's exit code for errors that its user can correct; its message is then shown to
whoever asked."""


def policy() -> str:
    """Return the content policy for a report: only its own script, and nothing from elsewhere."""
    digest = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src"
        " 'self' data:; font-src data:; frame-ancestors 'none'"
    )


def directory_of(services: Services, item: str) -> Path:
    """Return the directory of a launch's or folder's report. Raises Refusal (404) for neither."""
    kind, _, name = find_set(services, item).item.partition("/")
    if kind == "folder":
        return services.launcher.results / name / "all-runs"
    number = number_of(name)
    scenario = find_launch(services, number)["scenario"]
    return services.launcher.directory(scenario) / f"launch-{number}"


def make_report(services: Services, item: str) -> None:
    """Make the report of a set. Raises InputError if it is not possible."""
    directory, records = _prepared(services, item)
    words = [str(directory), "-o", str(directory / "report"), "--quiet"]
    # The command's usual baseline compares nothing here: take the first run's configuration.
    if not any(BASELINE.items() <= record.arguments.items() for record in records):
        first = records[0].arguments
        compared = [name for name in ("vpn", "pep", "cc") if name in first] or list(first)[:1]
        words += ["--baseline", *(f"{name}={first[name]}" for name in compared)]
    _run(item, words)


def has_figures(services: Services, item: str) -> bool:
    """Return whether any run of a set finished, so that there is something to report."""
    return any(run.finished for run in runs_of(services, item))


def make_first_page(services: Services, item: str) -> None:
    """Make page 1 of the report of a set, if there is none or runs have changed since.

    Raises InputError if it is not possible.
    """
    directory = directory_of(services, item)
    runs = [run for run in runs_of(services, item) if run.row is not None]
    state = hashlib.sha256(json.dumps(sorted((run.run_id, run.status) for run in runs)).encode())
    page, mark = directory / "first-page", directory / "first-page.state"
    if not (page / FIRST).exists() or not mark.exists() or mark.read_text() != state.hexdigest():
        _prepared(services, item)
        _run(item, [str(directory), "-o", str(page), "--first-page", "--quiet"])
        mark.write_text(state.hexdigest())


def first_page(services: Services, item: str) -> str:
    """Return page 1 of the report of a set, as a part of a page."""
    return (directory_of(services, item) / "first-page" / FIRST).read_text()


def _prepared(services: Services, item: str) -> tuple[Path, list[Record]]:
    """Return a results directory with the runs of a set that have ended, and their records."""
    results, directory = find_set(services, item), directory_of(services, item)
    runs = [run for run in runs_of(services, item) if run.row is not None]
    records = records_of(services, runs)
    if not records:
        raise InputError("no run has ended yet: there is nothing to report")
    directory.mkdir(exist_ok=True)
    share_runs(directory)
    measures = heat.measures_of_set(services, [run.row for run in runs if run.row is not None])
    planned = (
        campaign_file.AskedRun(record.run_id, record.scenario, record.arguments, record.seed)
        for record in records
    )
    plots = {name: _plot(services, name, measures) for name in results.scenarios}
    Store(directory).write(
        campaign_file.FILE, campaign_file.text(_command(services, results), planned, plots=plots)
    )
    return directory, records


def _command(services: Services, results: Results) -> str:
    """Return the command that makes the same results again."""
    kind, _, name = results.item.partition("/")
    if kind == "folder":
        note = "# launched from the page: each has its command"
        return results.command or f"cat results/{name}/runs/*/record.json  {note}"
    row = find_launch(services, number_of(name))
    values = chosen(row, own_values(services, row["project"], row["scenario"]))
    settings = [f"{name}={','.join(listed)}" for name, listed in values.items()]
    settings += ["--results", str(services.launcher.directory(row["scenario"]))]
    seeds = seeds_of(row)
    options = [] if seeds is None else ["--seeds", f"{','.join(map(str, seeds))},"]
    return shlex.join(["./openbach-run", row["scenario"], *settings, *options])


def _plot(services: Services, scenario: str, measures: Iterable[str]) -> dict[str, str]:
    """Return the figure and measure that the scenario asks for."""
    figure = heat.sweep_of(services, scenario).get("figure")
    plot = {"measure": heat.main_measure(services, scenario, measures)}
    return plot | ({"figure": str(figure)} if figure else {})


def _run(item: str, words: list[str]) -> None:
    """Run the report command. Raises InputError if it fails.

    It is a process of its own, because that can be ended after a time, gives back what matplotlib
    and typst took of memory, and does not hold up the threads that answer.
    What went wrong inside it goes to this server's log only, because it names files of this
    machine.
    """
    hint = ": report fewer runs at once"
    done = own_command(["report", *words], LIMIT_S, "the report", hint)
    if not done.returncode:
        return
    logging.getLogger(__name__).error(
        "report of %s: exit code %d: %s", item, done.returncode, done.stderr
    )
    if done.returncode == BAD_INPUT:
        reason = done.stderr.strip().rpartition("\n")[2].removeprefix("openbach-run: ")
        raise InputError(f"openbach-run report: {reason.replace(words[0], 'these results')}")
    raise InputError("the report could not be made; what openbach-run serve printed says why")
