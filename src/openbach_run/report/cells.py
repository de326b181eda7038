# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a report is made from: the cells of campaigns, with their runs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from operator import sub, truediv
from pathlib import Path
from typing import Any

from openbach_run.clock import VIRTUAL
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.measures import Declared
from openbach_run.openbach.scenario import SAME
from openbach_run.openbach.source import MATRIX
from openbach_run.openbach.titles import Title
from openbach_run.paths import REPOSITORY
from openbach_run.report import runs_file
from openbach_run.report.words import phrase
from openbach_run.results import by_engine, campaign_file, run_files, run_json
from openbach_run.results.intervals import Estimate, difference, estimate, ratio, unpaired
from openbach_run.results.least_transfer_time import least_transfer_time_s
from openbach_run.results.measures import measures_of_all
from openbach_run.results.record import Record, check_files
from openbach_run.results.store import Store

FACTORS = ("vpn", "pep", "cc", "loss")
"""The arguments that the published report's tables tell apart."""
BASELINE = {"vpn": "none", "pep": "none"}
"""The configuration that all others are compared with, where nothing else is asked for."""
LONGEST_NAME = 100
SLOWEST, WORSE_MOS = "slowest_transfer_time_s", "worse_mos"
"""Measures over the flows or PCs, and over the directions, of a run that has a column for each."""
PARTS = {
    SLOWEST: (max, re.compile(r"(\w+)_transfer_time_s")),
    WORSE_MOS: (min, re.compile(r"(\w+)_mos")),
}
"""Measure over several columns → what it is of them, and their names."""


@dataclass(frozen=True)
class Run:
    """One planned run; `record` is None if it has not been run."""

    seed: int
    run_dir: Path
    record: Record | None

    @property
    def has_files(self) -> bool:
        """Return whether what the run left is there, not only its row of a results.parquet."""
        return self.record is not None and run_files.is_there(self.run_dir)


@dataclass(frozen=True)
class Cell:
    """One combination of values, and its runs.

    `values`: scenario, orbit (`geo`, `geo+leo`) and the scenario's arguments by name; `runs`: one
    per seed.
    """

    values: dict[str, str]
    runs: list[Run] = field(default_factory=list)
    _estimates: dict[str, Estimate | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def measured(self, measure: str) -> dict[int, float]:
        """Return a measure by seed, for the runs that finished and have it."""
        values: dict[int, float] = {}
        for run in self.runs:
            value = _taken(run.record, measure) if run.record and run.record.finished else None
            if isinstance(value, int | float):
                values[run.seed] = float(value)
        return values

    def estimate(self, measure: str) -> Estimate | None:
        """Return the median of a measure with its interval; None if no run has it.

        It is computed once, since tables, figures and claims ask for the same.
        """
        if measure not in self._estimates:
            self._estimates[measure] = estimate(list(self.measured(measure).values()))
        return self._estimates[measure]

    def has(self, wanted: Mapping[str, str]) -> bool:
        """Return whether it has all these values; one that it lacks counts as empty."""
        return all(self.values.get(name, "") == value for name, value in wanted.items())

    @property
    def failed(self) -> list[Record]:
        """Return the records of the runs that failed."""
        return [run.record for run in self.runs if run.record and not run.record.finished]

    @property
    def not_run(self) -> int:
        """Return the number of planned runs that have not been run."""
        return sum(run.record is None for run in self.runs)

    @property
    def whole(self) -> bool:
        """Return whether all planned runs finished."""
        return not self.failed and not self.not_run

    @property
    def is_virtual(self) -> bool:
        """Return whether any of its runs was in virtual time, where the CPU costs nothing."""
        return any(run.record is not None and run.record.clock == VIRTUAL for run in self.runs)

    @property
    def is_paired(self) -> bool:
        """Return whether its seeds pair with those of others: it is in virtual time."""
        return not by_engine.options(self.values)

    @property
    def least_transfer_time_s(self) -> float | None:
        """Return the least time of the transfer in seconds.

        None if no transfer was measured or the link has no rate.
        """
        return least_transfer_time_s(self.values) if self.measured("transfer_time_s") else None


def parts_of(record: Record, measure: str) -> dict[str, float]:
    """Return the values of a measure over several columns by what stands before its name."""
    values = {}
    for name, value in record.measures.items():
        part = PARTS[measure][1].fullmatch(name)
        if part and name != measure and isinstance(value, int | float):
            values[part[1]] = float(value)
    return values


def _taken(record: Record, measure: str) -> float | None:
    if measure not in PARTS or measure in record.measures:
        return record.measures.get(measure)
    several = parts_of(record, measure)
    return PARTS[measure][0](several.values()) if len(several) > 1 else None


@dataclass(frozen=True)
class Plot:
    """The figure that a scenario asks for (`x-sweep`).

    It is a column of results.csv, and one of source.FIGURES.
    """

    measure: str = "transfer_time_s"
    figure: str = MATRIX


DEFAULT = Plot()


def measured_against(
    cell: Cell, other: Cell, measure: str, *, as_ratio: bool = True
) -> Estimate | None:
    """Return the ratio of two cells' measures, or their difference.

    It is over the seeds that both have where those pair, otherwise over all pairs of runs.
    """
    own_values, other_values = cell.measured(measure), other.measured(measure)
    if are_paired(cell, other):
        return (ratio if as_ratio else difference)(own_values, other_values)
    return unpaired(own_values.values(), other_values.values(), truediv if as_ratio else sub)


def are_paired(*cells: Cell) -> bool:
    """Return whether the seeds of these cells pair."""
    return all(cell.is_paired for cell in cells)


def pairings(cells: Iterable[Cell]) -> set[bool]:
    """Return how comparisons of these cells are made: paired, not, or some of each."""
    return {cell.is_paired for cell in cells} or {True}


@dataclass(frozen=True)
class Campaigns:
    """The campaigns of a report. `commands` run them again."""

    commands: list[str]
    cells: list[Cell]
    declared: Declared = field(default_factory=dict)
    """The measures by job, as the jobs declare them."""
    plots: dict[str, Plot] = field(default_factory=dict)
    """Scenario → its plot. Results of older versions have none."""
    titles: dict[str, Title] = field(default_factory=dict)
    """Titles of the arguments of users' scenarios."""

    @property
    def runs(self) -> list[Run]:
        """Return the runs of all cells."""
        return list(chain.from_iterable(cell.runs for cell in self.cells))

    @property
    def records(self) -> list[Record]:
        """Return the records of the runs that were run."""
        return [run.record for run in self.runs if run.record]

    def distinct(self, name: str, cells: Iterable[Cell] | None = None) -> list[str]:
        """Return the different values of an argument.

        They are in the order of the campaigns; numbers are in their own order.
        """
        values = list(
            dict.fromkeys(cell.values[name] for cell in cells or self.cells if name in cell.values)
        )
        return sorted(values, key=float) if all(map(is_numeral, values)) else values


def read_campaigns(directories: Sequence[Path]) -> Campaigns:
    """Return the campaigns in these results directories.

    One of them may be the results.parquet of a report. Raises InputError for a directory without
    the results of a campaign.
    """
    commands: list[str] = []
    cells: dict[tuple[tuple[str, str], ...], Cell] = {}
    seeds: dict[int, set[int]] = {}
    plots: dict[str, Plot] = {}
    titles: dict[str, Title] = {}
    every: list[Record] = []
    for directory in directories:
        if directory.suffix == runs_file.ENDING:
            campaign, listed = runs_file.read(directory)
            records = {record.run_id: record for record in listed}
            commands += campaign["commands"]
        else:
            campaign, records = campaign_file.read(directory), None
            words = [campaign_file.command_with_commit(campaign)]
            for name, value in by_engine.options(campaign.get("apart", {})):
                words += [] if name in words[0] else [name, value]
            commands += [*campaign.get("earlier", []), " ".join(words)]
        plots |= {printable(name): Plot(**plot) for name, plot in campaign.get("plots", {}).items()}
        for name, title in campaign.get("titles", {}).items():
            titles[printable(name)] = Title(**{key: printable(text) for key, text in title.items()})
        store = Store(directory)
        orbits: dict[str, list[str]] = {
            name: [orbit] for name, orbit in campaign.get("orbits", {}).items()
        }
        for planned in campaign["runs"]:
            run_id = planned["run_id"]
            run_dir = store.runs / run_id
            record = store.checked(planned) if records is None else records.get(run_id)
            every += filter(None, [record])
            name, arguments = planned["scenario"], planned["arguments"]
            # The orbit is taken from any run of the scenario: only run.json has the jobs'
            # arguments. A file of runs has it for each run, an older one among the arguments.
            if records is None and name not in orbits and record is not None:
                orbits[name] = _orbit_arguments(run_json.read(run_dir)["scenario"])
            orbits_of_run = [
                arguments.get(orbit[1:], "") if orbit[:1] == "$" else orbit
                for orbit in orbits.get(name, ["$orbit"] if records is not None else ())
            ]
            orbit = planned.get("orbit", "+".join(filter(None, dict.fromkeys(orbits_of_run))))
            values = {
                "scenario": name,
                "orbit": orbit,
                **_followers_named(arguments),
                **campaign.get("apart", {}),
                **(by_engine.apart(record) if record else {}),
            }
            values = {printable(name): printable(value) for name, value in values.items()}
            # Several campaigns may have the same cell, or the same run of it.
            cell = cells.setdefault(tuple(values.items()), Cell(values))
            if planned["seed"] not in seeds.setdefault(id(cell), set()):
                seeds[id(cell)].add(planned["seed"])
                cell.runs.append(Run(planned["seed"], run_dir, record))
    check_files(every)
    campaigns = Campaigns(commands, list(cells.values()), plots=plots, titles=titles)
    return replace(campaigns, declared=_declared(campaigns.records))


def _declared(records: Sequence[Record]) -> Declared:
    """Return the measures as the records have them.

    Older records have none: for them it is what the jobs of this checkout declare.
    """
    ours = (
        {} if all(record.declared for record in records) else load_packages([REPOSITORY / "jobs"])
    )
    return {name: package.measures for name, package in ours.items()} | measures_of_all(records)


@cache
def printable(text: str) -> str:
    r"""Return the text with escapes (`\n`, `\x1b`) for what cannot be printed.

    A line so remains one line wherever it is shown.
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


OF_THE_PATH = ("_pep", "_tunnel", "_pop")
"""Endings of arguments that belong to a part of the path, whose value may be that of the end
hosts."""


def _followers_named(arguments: Mapping[str, str]) -> dict[str, str]:
    """Return the arguments, with `same` for a part of the path that has the value of the end hosts.

    An example is cc_pep with the value of cc: cells that differ in `cc` then differ in nothing
    else.
    """
    named = {}
    for name, value in arguments.items():
        of_end_hosts = arguments.get(name.rpartition("_")[0])
        follows = name.endswith(OF_THE_PATH) and value == of_end_hosts
        named[name] = SAME if follows else value
    return named


def _orbit_arguments(scenario: Mapping[str, Any]) -> list[str]:
    """Return what the scenario's jobs have for `orbit`: texts, or $name of an argument."""
    orbits = [text_of(arguments.get("orbit")) for *_, arguments in jobs_of(scenario)]
    return list(filter(None, orbits))


def jobs_of(scenario: Mapping[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return entity, name and arguments of every job that the scenario starts."""
    jobs: list[tuple[str, str, Mapping[str, Any]]] = []
    for function in scenario.get("openbach_functions", []):
        started = function.get("start_job_instance", {})
        # The job's name is the key whose value is an object: its arguments.
        for name, value in started.items():
            if isinstance(value, dict):
                jobs.append((started["entity_name"], name, value))
    return jobs


def text_of(stored: Any) -> str:
    """Return the value of an argument that has a single one, else "".

    In the stored form it is in lists: one for each use of an option, with a list of values each.
    """
    while isinstance(stored, list) and len(stored) == 1:
        (stored,) = stored
    return stored if isinstance(stored, str) else ""


def is_numeral(text: str) -> bool:
    """Return whether a text is a number in digits, as arguments have them."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def file_name(*parts: str) -> str:
    """Return a name made of parts: `geo_loss-compared-0.1`.

    Letters that a file's name or an address cannot have are replaced, and a long name is cut. A
    hash then tells such names apart.
    """
    name = "-".join(parts)
    safe = re.sub(r"[^\w.+-]", "_", name, flags=re.ASCII)[:LONGEST_NAME]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


Selection = Mapping[str, Any]
"""Argument → list of the values that it may have, {"any_of": list} if one of them is enough, or
{"above": number}."""


def is_selection(value: Any) -> bool:
    """Return whether a value from a file has the form of a Selection."""
    return isinstance(value, dict) and all(
        isinstance(allowed, list)
        or (isinstance(allowed, dict) and isinstance(allowed.get("any_of"), list))
        or (isinstance(allowed, dict) and run_files.is_number(allowed.get("above")))
        for allowed in value.values()
    )


def matches(cell: Cell, selection: Selection) -> bool:
    """Return whether a cell has an allowed value of every argument in the selection."""
    return all(_allows(allowed, cell.values.get(name)) for name, allowed in selection.items())


def _allows(allowed: Any, value: str | None) -> bool:
    """Return whether a value is allowed.

    Numbers are compared as numbers: 1 and 1.0 are the same.
    """
    if value is None:
        return False
    if isinstance(allowed, Mapping) and "any_of" in allowed:
        return _allows(allowed["any_of"], value)
    if isinstance(allowed, Mapping):
        return is_numeral(value) and float(value) > allowed["above"]
    return any(value == str(other) or _same_number(value, str(other)) for other in allowed)


def _same_number(value: str, other: str) -> bool:
    return is_numeral(value) and is_numeral(other) and float(value) == float(other)


class Partners:
    """Finds, for a cell, the other cells that differ from it in the arguments `free` only."""

    def __init__(self, cells: Iterable[Cell], free: Iterable[str]) -> None:
        self._free = frozenset(free)
        self._by_rest: dict[frozenset[tuple[str, str]], list[Cell]] = {}
        for cell in cells:
            self._by_rest.setdefault(self._rest(cell), []).append(cell)

    def of(self, cell: Cell) -> list[Cell]:
        """Return the partners in the order of the cells, without `cell` itself."""
        return [other for other in self._by_rest.get(self._rest(cell), ()) if other is not cell]

    def _rest(self, cell: Cell) -> frozenset[tuple[str, str]]:
        return frozenset(item for item in cell.values.items() if item[0] not in self._free)


def name_of(cell: Cell, names: Sequence[str]) -> str:
    """Return the cell's values of these arguments for a sentence.

    An example is `geo, wireguard, PEP B, cubic, 1 % loss`.
    """
    return ", ".join(phrase(name, cell.values[name]) for name in names if cell.values.get(name))
