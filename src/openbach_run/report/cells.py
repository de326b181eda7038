# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report is made from: the cells of campaigns, with their runs, read from results directories."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from openbach_run.clock import VIRTUAL
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.measures import Declared
from openbach_run.openbach.scenario import SAME
from openbach_run.openbach.source import MATRIX
from openbach_run.paths import REPOSITORY
from openbach_run.report.words import said
from openbach_run.results import asked, run_files, run_json
from openbach_run.results.intervals import Estimate, estimate
from openbach_run.results.least_time import least_transfer_time_s
from openbach_run.results.measures import measures_of_all
from openbach_run.results.record import Record, Store

FACTORS = ("vpn", "pep", "cc", "loss")
"""What the published report's tables tell apart."""
LONGEST_NAME = 100


@dataclass(frozen=True)
class Run:
    """One planned run; `record` is None when it was not run."""

    seed: int
    run_dir: Path
    record: Record | None


@dataclass(frozen=True)
class Cell:
    """`values`: scenario, orbit (`geo`, `geo+leo`) and the scenario's arguments by name; `runs`: one a seed."""

    values: dict[str, str]
    runs: list[Run] = field(default_factory=list)
    _estimates: dict[str, Estimate | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def measured(self, measure: str) -> dict[int, float]:
        """The measure by seed, of the runs that finished and have it."""
        found: dict[int, float] = {}
        for run in self.runs:
            value = run.record.measures.get(measure) if run.record and run.record.finished else None
            if isinstance(value, int | float):
                found[run.seed] = float(value)
        return found

    def estimate(self, measure: str) -> Estimate | None:
        """Made once: tables, figures and claims ask for the same."""
        if measure not in self._estimates:
            self._estimates[measure] = estimate(list(self.measured(measure).values()))
        return self._estimates[measure]

    @property
    def failed(self) -> list[Record]:
        return [run.record for run in self.runs if run.record and not run.record.finished]

    @property
    def not_run(self) -> int:
        return sum(run.record is None for run in self.runs)

    @property
    def whole(self) -> bool:
        """Whether all planned runs finished."""
        return not self.failed and not self.not_run

    @property
    def is_virtual(self) -> bool:
        """Whether a run of it was in virtual time, where the CPU costs nothing."""
        return any(run.record is not None and run.record.clock == VIRTUAL for run in self.runs)

    @property
    def least_transfer_time_s(self) -> float | None:
        return least_transfer_time_s(self.values) if self.measured("transfer_time_s") else None


@dataclass(frozen=True)
class Plot:
    """What a scenario asks to be drawn (`x-sweep`): a column of results.csv, and one of source.FIGURES."""

    measure: str = "transfer_time_s"
    figure: str = MATRIX


DEFAULT = Plot()


@dataclass(frozen=True)
class Campaigns:
    """The campaigns of a report. `commands` run them again."""

    commands: list[str]
    cells: list[Cell]
    declared: Declared = field(default_factory=dict)
    """What the measures are."""
    plots: dict[str, Plot] = field(default_factory=dict)
    """By scenario; results from before there were any have none."""

    @property
    def runs(self) -> list[Run]:
        return [run for cell in self.cells for run in cell.runs]

    @property
    def records(self) -> list[Record]:
        return [run.record for run in self.runs if run.record]

    def distinct(self, name: str, cells: Iterable[Cell] | None = None) -> list[str]:
        """The values of an argument, in the order of the campaigns; numbers in theirs."""
        found = list(dict.fromkeys(cell.values[name] for cell in cells or self.cells if name in cell.values))
        return sorted(found, key=float) if all(map(is_number, found)) else found


def read_campaigns(directories: Sequence[Path]) -> Campaigns:
    """Raises InputError for a directory without the results of a campaign."""
    commands: list[str] = []
    cells: dict[tuple[tuple[str, str], ...], Cell] = {}
    seeds: dict[int, set[int]] = {}
    plots: dict[str, Plot] = {}
    for directory in directories:
        campaign = asked.read(directory)
        checkout = f"git checkout {campaign['commit'][:12]} && " if campaign.get("commit") else ""
        commands.append(checkout + campaign["command"])
        plots |= {printable(name): Plot(**plot) for name, plot in campaign.get("plots", {}).items()}
        store = Store(directory)
        orbits: dict[str, list[str]] = {}
        for planned in campaign["runs"]:
            run_dir = store.runs / planned["run_id"]
            record = store.load(planned["run_id"])
            name, arguments = planned["scenario"], planned["arguments"]
            if name not in orbits and record is not None:
                orbits[name] = _orbit_arguments(run_json.read(run_dir)["scenario"])
            given = [arguments.get(one[1:], "") if one[:1] == "$" else one for one in orbits.get(name, ())]
            orbit = "+".join(filter(None, dict.fromkeys(given)))
            values = {"scenario": name, "orbit": orbit, **_followers_named(arguments), **campaign.get("apart", {})}
            values = {printable(one): printable(value) for one, value in values.items()}
            cell = cells.setdefault(tuple(values.items()), Cell(values))
            if planned["seed"] not in seeds.setdefault(id(cell), set()):
                seeds[id(cell)].add(planned["seed"])
                cell.runs.append(Run(planned["seed"], run_dir, record))
    found = Campaigns(commands, list(cells.values()), plots=plots)
    return replace(found, declared=_declared(found.records))


def _declared(records: Sequence[Record]) -> Declared:
    """As the records have it; of older ones, which have none, as the jobs of this checkout do."""
    ours = {} if all(one.declared for one in records) else load_packages([REPOSITORY / "jobs"])
    return {name: package.measures for name, package in ours.items()} | measures_of_all(records)


@cache
def printable(text: str) -> str:
    """With escapes (`\\n`, `\\x1b`) for what cannot be printed: a line remains a line wherever it is set."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


OF_THE_PATH = ("_pep", "_tunnel", "_pop")
"""Ends of the names of a part of the path, whose value may be that of the end hosts."""


def _followers_named(arguments: Mapping[str, str]) -> dict[str, str]:
    """Arguments of a part of the path that have the value of the end hosts' (cc_pep that of cc) as `same`, so that cells
    which differ in `cc` differ in nothing else."""
    return {
        name: SAME if name.endswith(OF_THE_PATH) and value == arguments.get(name.rpartition("_")[0]) else value
        for name, value in arguments.items()
    }


def _orbit_arguments(scenario: Mapping[str, Any]) -> list[str]:
    """What jobs of the scenario have for `orbit`: texts, or $name of the scenario's argument."""
    return [value for *_, arguments in jobs_of(scenario) if (value := text_of(arguments.get("orbit")))]


def jobs_of(scenario: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Entity, name and arguments of every job that the scenario starts."""
    started = [function.get("start_job_instance", {}) for function in scenario.get("openbach_functions", [])]
    return [
        (job["entity_name"], name, value) for job in started for name, value in job.items() if isinstance(value, dict)
    ]


def text_of(stored: Any) -> str:
    """The value of an argument that has one; the stored form is a list per use of the option of a list of values."""
    while isinstance(stored, list) and len(stored) == 1:
        (stored,) = stored
    return stored if isinstance(stored, str) else ""


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def file_name(*parts: str) -> str:
    """`geo_loss-compared-0.1`: parts of a name. What a file's name or an address cannot have is left out, and what is too
    long cut; a hash then tells such names apart."""
    name = "-".join(parts)
    safe = re.sub(r"[^\w.+-]", "_", name, flags=re.ASCII)[:LONGEST_NAME]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


Selection = Mapping[str, Any]
"""Argument → list of the values it may have, or {"above": number}."""


def is_selection(given: Any) -> bool:
    return isinstance(given, dict) and all(
        isinstance(allowed, list) or (isinstance(allowed, dict) and run_files.is_number(allowed.get("above")))
        for allowed in given.values()
    )


def matches(cell: Cell, selection: Selection) -> bool:
    return all(_allows(allowed, cell.values.get(name)) for name, allowed in selection.items())


def _allows(allowed: Any, value: str | None) -> bool:
    if value is None:
        return False
    if isinstance(allowed, Mapping):
        return is_number(value) and float(value) > allowed["above"]
    return any(value == str(one) or _same_number(value, str(one)) for one in allowed)


def _same_number(one: str, other: str) -> bool:
    return is_number(one) and is_number(other) and float(one) == float(other)


class Partners:
    """Of cells those that have the same values as a given one but for the arguments in `free`."""

    def __init__(self, cells: Iterable[Cell], free: Iterable[str]) -> None:
        self._free = frozenset(free)
        self._by_rest: dict[frozenset[tuple[str, str]], list[Cell]] = {}
        for cell in cells:
            self._by_rest.setdefault(self._rest(cell), []).append(cell)

    def of(self, cell: Cell) -> list[Cell]:
        """In their order; `cell` itself is none of them."""
        return [other for other in self._by_rest.get(self._rest(cell), ()) if other is not cell]

    def _rest(self, cell: Cell) -> frozenset[tuple[str, str]]:
        return frozenset(one for one in cell.values.items() if one[0] not in self._free)


def name_of(cell: Cell, names: Sequence[str]) -> str:
    """`geo, wireguard, PEP B, cubic, 1 % loss`: the cell's values of these arguments, for a sentence."""
    return ", ".join(said(name, cell.values[name]) for name in names if cell.values.get(name))
