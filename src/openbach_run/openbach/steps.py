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
    commands = [one for one in entries if isinstance(one, Command)]
    wanted = _wanted(source, commands)
    paths = _Paths(content)
    ready = [label for label, one in paths.functions.items() if READY_JOB in one]
    if not ready:
        raise source.wrong(f"no function that it inherits starts the job {READY_JOB}", "steps")
    left_out = paths.after(ready)
    # As exec: the first command starts where the first measuring job would.
    measuring = (one for label, one in paths.functions.items() if label in left_out)
    first: Mapping[str, Any] = next((one for one in measuring if "on" in one), {})
    launched = [one for one in paths.labels(first.get("launched")) if one not in left_out]
    finished, running = ready, list[str]()
    functions = {label: one for label, one in content["functions"].items() if label not in left_out}
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
        one for one in paths.labels(content.get("end", {}).get("stop")) if one not in left_out
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
    found: dict[int, list[str]] = {}
    last = max(number for number, one in enumerate(commands, 1) if not one.apart)
    for name, one in source.content["measures"].items():
        described = {"find": one} if isinstance(one, str) else one
        optional = "?" * (NOT_ALONE in described)
        step = f"@{described['step']}" if "step" in described else ""
        if any(name in source.content.get(key, {}) for key in DECLARED):
            raise source.wrong(
                "is an argument or constant, too; call it otherwise", "measures", name
            )
        try:
            this = sought(f"{name}{step}{optional}={described['find']}")
        except ValueError as error:
            raise source.wrong(str(error), "measures", name) from None
        if this.step > len(commands):
            raise source.wrong(f"there are {len(commands)} commands", "measures", name, "step")
        found.setdefault(this.step or last, []).append(this.text.replace("$", "$$"))
    return found


def declared(measures: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return what `x-measures` has of the measures of a file."""
    texts: dict[str, dict[str, str]] = {}
    for name, one in measures.items():
        described = {} if isinstance(one, str) else one
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
        known, found = {*ready}, list[str]()
        while more := [
            label
            for label, one in self.functions.items()
            if label not in known
            and known & {*self.labels(one.get("launched")), *self.labels(one.get("finished"))}
        ]:
            known |= {*more}
            found += more
        return found
