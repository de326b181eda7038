# SPDX-License-Identifier: GPL-3.0-or-later
r"""The steps of a scenario: commands on its hosts, in place of what measures in what it inherits.

    inherits: geo.yml
    steps: |
      pc ping -c 5 server
    measures:
      rtt_ms: 'time=([\d.]+) ms'

Each command becomes a function with the job `measured_command`, each measure a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from openbach_jobs.measured import sought
from openbach_run.openbach.lines import Command, of_script
from openbach_run.openbach.measures import STEP
from openbach_run.openbach.source import DECLARED, Source

READY_JOB = "path_ready"
"""The job that ends when the path is up: what waits for it is the measurement."""
LABEL_CHARACTERS = 40
NOT_ALONE = "absent"
"""The word for nothing that fits: with it a command may print nothing that does."""


def with_steps(source: Source, hosts: Mapping[str, str]) -> Source:
    """Return a scenario with functions in place of its steps. Raises InputError."""
    content = source.content
    for key in ("steps", "measures"):
        if key in content and {"steps", "measures"} - content.keys():
            raise source.wrong("a scenario with steps has measures, and the other way round", key)
    if "steps" not in content:
        return source
    script = str(source.files["steps",])
    entries = of_script(content["steps"], f"{script}: steps", hosts)
    commands = [entry for entry in entries if isinstance(entry, Command)]
    wanted = _wanted(source, commands)
    paths = _Paths(content)
    ready = [label for label, function in paths.functions.items() if READY_JOB in function]
    if not ready:
        raise source.wrong(f"no function that it inherits starts the job {READY_JOB}", "steps")
    absent = paths.after(ready)
    # As exec: the first command starts where the first measuring job would.
    measuring = (function for label, function in paths.functions.items() if label in absent)
    first: Mapping[str, Any] = next((function for function in measuring if "on" in function), {})
    launched = [label for label in paths.labels(first.get("launched")) if label not in absent]
    finished, running = ready, list[str]()
    functions = {label: body for label, body in content["functions"].items() if label not in absent}
    number = 0
    for entry in entries:
        if not isinstance(entry, Command):
            finished, running, launched = [*finished, *running], [], []
            continue
        number += 1
        if entry.job:
            raise source.wrong(f"{entry.line}: give it as a function of the scenario", "steps")
        label = f"{number}: {entry.host} {entry.text}"[:LABEL_CHARACTERS]
        measures = {"measures": wanted[number]} if wanted.get(number) else {}
        functions[label] = {
            "on": entry.host,
            "finished": finished,
            "launched": launched,
            STEP: {"command": entry.text, **measures},
        }
        if entry.apart:
            launched = [label]
            running.append(label)
        else:
            finished, launched = [label], []
    stopped = [
        label for label in paths.labels(content.get("end", {}).get("stop")) if label not in absent
    ]
    end = {"finished": finished, "stop": [*running, *stopped]}
    shown = {"measure": next(iter(content["measures"])), "figure": "measures"}
    own = source.files.get(("plot",)) == source.files["steps",]
    changed = {"functions": functions, "end": end, **({} if own else {"plot": shown})}
    return Source(
        {**content, **changed},
        {**source.files, **{(key,): source.files["steps",] for key in changed}},
    )


def _wanted(source: Source, commands: list[Command]) -> dict[int, list[str]]:
    """Return number of a command → what its job looks for, as texts of the job.

    Raises InputError.
    """
    texts: dict[int, list[str]] = {}
    last = max(number for number, command in enumerate(commands, 1) if not command.apart)
    for name, measure in source.content["measures"].items():
        described = {"find": measure} if isinstance(measure, str) else measure
        optional = "?" * (NOT_ALONE in described)
        step = f"@{described['step']}" if "step" in described else ""
        if any(name in source.content.get(key, {}) for key in DECLARED):
            raise source.wrong(
                "is an argument or constant, too; call it otherwise", "measures", name
            )
        try:
            search = sought(f"{name}{step}{optional}={described['find']}")
        except ValueError as error:
            raise source.wrong(str(error), "measures", name) from None
        if search.step > len(commands):
            raise source.wrong(f"there are {len(commands)} commands", "measures", name, "step")
        texts.setdefault(search.step or last, []).append(search.text.replace("$", "$$"))
    return texts


def declared(measures: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return what `x-measures` has of the measures of a file."""
    texts: dict[str, dict[str, str]] = {}
    for name, measure in measures.items():
        described = {} if isinstance(measure, str) else measure
        texts[name] = {key: text for key, text in described.items() if key not in ("find", "step")}
    return texts


class _Paths:
    """The functions of a scenario, and which wait for which."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.functions: dict[str, Any] = content.get("functions", {})
        self._groups: Mapping[str, Any] = content.get("groups", {})

    def labels(self, named: Any) -> list[str]:
        """Return the functions that a list of functions and groups has, each once."""
        return list(dict.fromkeys(self._labels(named, ())))

    def _labels(self, named: Any, within: tuple[str, ...]) -> Iterator[str]:
        for label in [named] if isinstance(named, str) else named or ():
            if label in self._groups and label not in within:
                yield from self._labels(self._groups[label], (*within, label))
            else:
                yield label

    def after(self, ready: Iterable[str]) -> list[str]:
        """Return the functions that wait, also by others, for some."""
        known, waiting = {*ready}, list[str]()
        while more := [
            label
            for label, entry in self.functions.items()
            if label not in known
            and known & {*self.labels(entry.get("launched")), *self.labels(entry.get("finished"))}
        ]:
            known |= {*more}
            waiting += more
        return waiting
