# SPDX-License-Identifier: GPL-3.0-or-later
"""campaign.json of a results directory: what was asked for, the command and every run it comes to. A report and the page show
also what has not been run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from openbach_run.errors import InputError
from openbach_run.results.run_files import DamagedRecord, fields, parsed, short

FILE = "campaign.json"


AGAIN = "run the campaign again, finished runs are kept"
RUN = {"run_id": str, "scenario": str, "arguments": dict, "seed": int}
OTHERS: dict[str, Any] = {"plots": {}, "apart": {}}
CONTENT = {"command": str, "runs": list, "commit": (str, NoneType), "plots": dict, "apart": dict}
"""Fields of a run, those that older files have not, and those of the whole."""


class AskedRun(NamedTuple):
    run_id: str
    scenario: str
    arguments: Mapping[str, str]
    seed: int


def text(command: str, runs: Iterable[AskedRun], **others: Any) -> Iterator[str]:
    """As JSON: `command`, the others, and `runs`, a run a line."""
    for number, (name, value) in enumerate({"command": command, **others}.items()):
        yield f"{' ' if number else '{'}{json.dumps(name)}: {json.dumps(value)},\n"
    yield ' "runs": [\n'
    for number, run in enumerate(runs):
        yield f"{',' if number else ' '}{json.dumps(run._asdict())}\n"
    yield "]}\n"


def read(directory: Path) -> dict[str, Any]:
    """`command`, `runs`, and what others there are. Raises InputError."""
    file = directory / FILE
    try:
        asked: dict[str, Any] = parsed(file.read_bytes(), str(file))
        wrong = _wrong(asked)
    except FileNotFoundError:
        raise InputError(f"{directory}: no results of a campaign (no {FILE}); name a directory of results/") from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error
    except DamagedRecord as error:
        raise InputError(f"{error}; {AGAIN}") from error
    if wrong:
        raise InputError(f"{file}: {wrong}; {AGAIN}")
    return asked


def _wrong(asked: Any) -> str | None:
    """What is wrong with the content of a campaign.json, or None."""
    if wrong := fields({"commit": None, **OTHERS, **asked} if isinstance(asked, dict) else asked, CONTENT):
        return wrong
    for number, run in enumerate(asked["runs"]):
        if wrong := fields(run, RUN) or _no_texts(run["arguments"]):
            return f"runs.{number}: {wrong}"
    for name, plot in asked.get("plots", {}).items():
        if not isinstance(plot, dict) or plot.keys() - {"measure", "figure"} or _no_texts(plot):
            return f"plots.{name}: a measure and a figure were expected"
    return _no_texts(asked.get("apart", {}))


def _no_texts(values: Mapping[str, Any]) -> str | None:
    return next(
        (f'"{name}" is {short(one)}; a text was expected' for name, one in values.items() if type(one) is not str), None
    )


def parts(directory: Path) -> Iterator[tuple[str, Any]]:
    """("command", text), then ("run", what is said of it) for each run, read line by line, as it is written, since one of
    20 000 runs would need 100 MB at once. One that is written otherwise is read at once; of none there is nothing. Raises
    DamagedRecord, and what JSON raises."""
    for kind, told in _parts(directory / FILE):
        if kind == "run" and (wrong := fields(told, RUN) or _no_texts(told["arguments"])):
            raise DamagedRecord(f"{directory / FILE}: runs: {wrong}; {AGAIN}")
        yield kind, told


def _parts(file: Path) -> Iterator[tuple[str, Any]]:
    if not file.exists():
        return
    with file.open(encoding="utf-8", errors="replace") as lines:
        first = next(lines, "")
        lines.seek(0)
        if not (first.startswith('{"command": ') and first.endswith(",\n")):
            document = json.load(lines)
            yield "command", document["command"]
            yield from (("run", run) for run in document["runs"])
            return
        for line in lines:
            if line.startswith('{"command": '):
                yield "command", json.loads(line.rstrip().rstrip(",") + "}")["command"]
            elif line[1:].startswith('{"run_id": '):
                yield "run", json.loads(line[1:])
