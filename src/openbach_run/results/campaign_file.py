# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write campaign.json, the list of what a campaign was asked to run.

The file is in a results directory. It holds the command and every run that the command comes to. A
report and the web page can so show also the runs that have not been executed. Runs of earlier
commands in the directory stay in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from openbach_run.errors import InputError
from openbach_run.results import packed_runs, run_files
from openbach_run.results.run_files import DamagedRecord, fields, parsed, short
from openbach_run.results.store import Store

Values = Mapping[str, str]
FILE = "campaign.json"
AGAIN = "run the campaign again, finished runs are kept"
RUN = {"run_id": str, "scenario": str, "arguments": dict, "seed": int}
OTHERS: dict[str, Any] = {"plots": {}, "titles": {}, "apart": {}, "earlier": []}
CONTENT: dict[str, Any] = {"command": str, "runs": list, "commit": (str, NoneType)}
CONTENT |= {name: type(empty) for name, empty in OTHERS.items()}
"""The fields of a run, the optional fields that older files lack, and the fields of the whole
file."""


class AskedRun(NamedTuple):
    """One run that a campaign was asked for."""

    run_id: str
    scenario: str
    arguments: Mapping[str, str]
    seed: int


class Earlier(NamedTuple):
    """Commands and runs of a results directory that were there before."""

    commands: tuple[str, ...] = ()
    runs: tuple[AskedRun, ...] = ()
    plots: Mapping[str, Any] = {}
    titles: Mapping[str, Mapping[str, str]] = {}
    """Titles of the users' arguments, each with `title` and `unit`."""


def command_with_commit(campaign: Mapping[str, Any]) -> str:
    """Return the command of a campaign.json, behind the checkout of its commit if it has one."""
    commit = campaign.get("commit")
    return f"git checkout {commit[:12]} && {campaign['command']}" if commit else campaign["command"]


def earlier(store: Store, runs: Iterable[AskedRun], apart: Values, files: Values) -> Earlier:
    """Return what was run in a directory before and is not among these `runs`.

    It is nothing where the directory's runs have another engine or clock than `apart`, and where
    its campaign.json is damaged. A run with the scenario, values and seed of a new one is replaced
    by that; one without a record is forgotten, and one with another content of one of the `files`.
    """
    try:
        campaign = read(store.directory)
    except InputError:
        return Earlier()
    if campaign.get("apart", {}) != apart:
        return Earlier()
    new = {_identity(run) for run in runs}
    before = (AskedRun(**run) for run in campaign["runs"])
    kept = tuple(run for run in before if _identity(run) not in new and _stays(store, run, files))
    if not kept:
        return Earlier()
    commands = dict.fromkeys((*campaign.get("earlier", []), command_with_commit(campaign)))
    plots, titles = campaign.get("plots", {}), campaign.get("titles", {})
    return Earlier(tuple(commands), kept, plots, titles)


def _stays(store: Store, run: AskedRun, files: Values) -> bool:
    """Return whether a run has a record, and that no other content of one of the files."""
    record = store.load(run.run_id) if files else None
    is_of_these = not record or all(record.identity.get(n, d) == d for n, d in files.items())
    return is_of_these and run_files.is_there(store.runs / run.run_id)


def _identity(run: AskedRun) -> tuple[object, ...]:
    """Return what was asked for with a run, whichever version of the code ran it."""
    return run.scenario, frozenset(run.arguments.items()), run.seed


def text(command: str, runs: Iterable[AskedRun], **others: Any) -> Iterator[str]:
    """Yield the file as JSON text: `command`, then `others`, then `runs` with one run per line."""
    for number, (name, value) in enumerate({"command": command, **others}.items()):
        yield f"{' ' if number else '{'}{json.dumps(name)}: {json.dumps(value)},\n"
    yield ' "runs": [\n'
    for number, run in enumerate(runs):
        yield f"{',' if number else ' '}{json.dumps(run._asdict())}\n"
    yield "]}\n"


def read(directory: Path) -> dict[str, Any]:
    """Return the content of campaign.json: `command`, `runs` and the optional fields it has.

    Raises InputError if the file is missing or not valid.
    """
    file = directory / FILE
    try:
        campaign: dict[str, Any] = parsed(file.read_bytes(), str(file))
        wrong = _wrong(campaign)
    except FileNotFoundError:
        raise InputError(
            f"{directory}: no results of a campaign (no {FILE}); name a directory of results/"
        ) from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error
    except DamagedRecord as error:
        raise InputError(f"{error}; {AGAIN}") from error
    if wrong:
        raise InputError(f"{file}: {wrong}; {AGAIN}")
    return campaign


def _wrong(campaign: Any) -> str | None:
    """Return what is wrong with the content of a campaign.json, or None."""
    if wrong := fields(
        {"commit": None, **OTHERS, **campaign} if isinstance(campaign, dict) else campaign, CONTENT
    ):
        return wrong
    for number, run in enumerate(campaign["runs"]):
        if wrong := _no_run(run):
            return f"runs.{number}: {wrong}"
    for name, plot in campaign.get("plots", {}).items():
        if not isinstance(plot, dict) or plot.keys() - {"measure", "figure"} or _no_texts(plot):
            return f"plots.{name}: a measure and a figure were expected"
    for name, title in campaign.get("titles", {}).items():
        if not isinstance(title, dict) or title.keys() - {"title", "unit"} or _no_texts(title):
            return f"titles.{name}: a title and a unit were expected"
    earlier = campaign.get("earlier", [])
    if wrong := next((command for command in earlier if type(command) is not str), None):
        return f"earlier: {short(wrong)} is no command"
    return _no_texts(campaign.get("apart", {}))


def _no_run(run: Any) -> str | None:
    """Return what is wrong with a run's fields, or None. Its run_id is the name of a directory."""
    if wrong := fields(run, RUN) or _no_texts(run["arguments"]):
        return wrong
    is_name = packed_runs.NAME.fullmatch(f"{run['run_id']}/x".encode(errors="replace"))
    return None if is_name else f"{short(run['run_id'])} is no run_id"


def _no_texts(values: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the first value that is no text, or None."""
    for name, value in values.items():
        if type(value) is not str:
            return f'"{name}" is {short(value)}; a text was expected'
    return None


def parts(directory: Path) -> Iterator[tuple[str, Any]]:
    """Yield ("command", text), then ("run", fields of the run) for each run.

    The file is read line by line, in the layout that `text` writes: a file of 20 000 runs would
    need 100 MB at once. A file in another layout is read as a whole. A missing file yields nothing.
    Raises DamagedRecord for a run with wrong fields, and the errors of the JSON decoder.
    """
    for kind, content in _parts(directory / FILE):
        if kind == "run" and (wrong := _no_run(content)):
            raise DamagedRecord(f"{directory / FILE}: runs: {wrong}; {AGAIN}")
        yield kind, content


def _parts(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield the parts as `parts` does, without a check of the runs' fields."""
    if not file.exists():
        return
    with file.open(encoding="utf-8", errors="replace") as lines:
        first = next(lines, "")
        lines.seek(0)
        # This is not the layout of `text`: somebody else wrote or reformatted the file.
        if not (first.startswith('{"command": ') and first.endswith(",\n")):
            document = json.load(lines)
            yield "command", document["command"]
            yield from (("run", run) for run in document["runs"])
            return
        for line in lines:
            # A single line is no JSON document: complete the first one, and drop the "," before a
            # run.
            if line.startswith('{"command": '):
                yield "command", json.loads(line.rstrip().rstrip(",") + "}")["command"]
            elif line[1:].startswith('{"run_id": '):
                yield "run", json.loads(line[1:])
