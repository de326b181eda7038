# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign: a scenario with values to sweep.

A cell is one combination of values; a run is a cell with a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product
from math import prod
from pathlib import Path
from typing import Any

from openbach_run.campaign.entries import check_entries
from openbach_run.campaign.settings import is_list, is_value, parse_settings
from openbach_run.campaign.spec import CellSpec, Origin, RunSpec
from openbach_run.campaign.vpn_values import check_values_of_vpns, folded, setting_of
from openbach_run.catalog import Catalog, Uses, joined, with_base
from openbach_run.errors import InputError
from openbach_run.openbach import limits, rules
from openbach_run.openbach.addresses import with_addresses
from openbach_run.openbach.job import Job
from openbach_run.openbach.job_folders import Package
from openbach_run.openbach.limits import (
    Use,
    Wrong,
    folders_used,
    names_folders,
    notes,
    uses,
    wrong_values,
)
from openbach_run.openbach.measures import (
    EVERY_STATISTIC,
    Declared,
    Measure,
    check_agreement,
    in_words,
)
from openbach_run.openbach.refusals import Malformed, near
from openbach_run.openbach.scenario import SAME, Scenario, defaults_of, read_scenario
from openbach_run.openbach.shapes import Shape, check
from openbach_run.openbach.source import FIGURES
from openbach_run.openbach.start import check_values, names_in, names_used
from openbach_run.openbach.values import jobs_started, sole_placeholder
from openbach_run.results.seeds import FIRST_SEEDS, MORE_SEEDS
from openbach_run.satellite.checks import (
    Presets,
    in_force,
    is_random,
    read_link_file,
    read_presets,
    remarks,
)
from openbach_run.topology.hosts import Inventory
from openbach_run.topology.networks import check_mtus

NO_FILE = "none"
MEASURE = "measure"
"""The key of x-sweep that names the column which the table shows."""
USUAL = "transfer_time_s"
"""The column that the table shows where a scenario names none."""
Seeds = tuple[int, ...] | None
"""None means the default: one seed, or five where chance has a part in some cell."""
MOST_RUNS = 200_000
"""The most runs of one scenario in a campaign. Its runs are planned in memory: some 2 kB for a cell
and 0.3 kB for a run."""


@dataclass(frozen=True)
class Campaign:
    """A scenario and its file, the values of each argument and constant, and seeds."""

    path: Path
    scenario: Scenario
    sub_scenarios: dict[str, Scenario]
    values: dict[str, tuple[str, ...]]
    seeds: tuple[int, ...]
    link_files: dict[str, dict[str, str]] = field(default_factory=dict)
    """Argument or constant → path → content of the file."""
    presets: Presets = field(default_factory=dict)
    """The presets of the satellites, by name."""
    impairments: Mapping[str, Path] = field(default_factory=dict)
    """The impairment profiles that exist, by name."""
    measures: Declared = field(default_factory=dict)
    """The measures that its jobs declare."""
    more_seeds: tuple[int, ...] = ()
    """Further seeds, of all cells, if chance has a part in any cell."""
    given: frozenset[str] = frozenset()
    """Names of the values that were given, and are not the scenario's own."""

    @property
    def swept(self) -> list[str]:
        """Return the names of the arguments and constants with several values."""
        return [name for name, values in self.values.items() if len(values) > 1]

    @cached_property
    def declared(self) -> list[Measure]:
        """Return the measures of its jobs.

        Those of the job that is started last come first, because the other jobs prepare for it.
        """
        scenarios = (*self.sub_scenarios.values(), self.scenario)
        jobs = dict.fromkeys([*reversed(_jobs_of(scenarios)), *self.measures])
        return [one for job in jobs for one in self.measures.get(job, ()) if one.is_column]

    @cached_property
    def measure(self) -> str | None:
        """Return the column of results.csv that the table shows; None if the jobs measure nothing.

        It is `x-sweep.measure`, or else the transfer time, or else the first column that is
        declared. `x-instead` may name another one.
        """
        if MEASURE in self.scenario.sweep:
            return str(self.scenario.sweep[MEASURE])
        if self.measure_instead:
            return self.measure_instead[1]
        columns = [one.column for one in self.declared]
        return USUAL if USUAL in columns else next(iter(columns), None)

    @cached_property
    def measure_instead(self) -> tuple[str, str] | None:
        """Return the name whose value makes the table show another column (`x-instead`), and that
        column; None if there is none.
        """
        for name, one in self._instead.items():
            if MEASURE in one and any(self._is_given(name, cell) for cell in self.cells):
                return name, str(one[MEASURE])
        return None

    def _is_given(self, name: str, cell: Mapping[str, str]) -> bool:
        """Return whether a cell has another value of a constant than the scenario.

        A cell of the page has the arguments only.
        """
        return cell.get(name, self.constants[name]) != self.constants[name]

    @cached_property
    def _instead(self) -> dict[str, dict[str, Any]]:
        """Return `x-instead` of the scenario and its sub-scenarios, merged."""
        found: dict[str, dict[str, Any]] = {}
        for scenario in (*self.sub_scenarios.values(), self.scenario):
            found |= scenario.instead
        return found

    def _with_instead(self, cell: dict[str, str]) -> dict[str, str]:
        """Return the cell with its `x-instead` values, except where the user gave a value."""
        for name, one in self._instead.items():
            if self._is_given(name, cell):
                cell = cell | {
                    own: text for own, text in one["values"].items() if own not in self.given
                }
        return cell

    @property
    def plot(self) -> dict[str, str]:
        """Return what the report draws: `measure`, and `figure` if the scenario says which."""
        drawn = {MEASURE: self.measure, "figure": self.scenario.sweep.get("figure")}
        return {key: str(value) for key, value in drawn.items() if value is not None}

    @property
    def measure_in_words(self) -> str:
        return "runs" if self.measure is None else in_words(self.measure, self.declared)

    def count(self, most_runs: int) -> int:
        """Return the number of runs, or a little more, as cells that are alike may be counted
        separately.

        The cells are made, and counted exactly, only where it matters: where there may be more than
        `most_runs`.
        """
        cells = prod(map(len, self.values.values()))
        first, every = cells * len(self.seeds), cells * len((*self.seeds, *self.more_seeds))
        if first > most_runs:
            return first
        return every if every <= most_runs else len(self.cells) * len(self.every_seed)

    @cached_property
    def is_random(self) -> bool:
        """Return whether chance has a part in any cell."""
        return any(is_random(cell, self.presets, self.impairments) for cell in self.cells)

    @property
    def every_seed(self) -> tuple[int, ...]:
        """Return the seeds of each cell.

        All cells have the same seeds, so that any two can be compared seed by seed.
        """
        return (*self.seeds, *(self.more_seeds if self.is_random else ()))

    @cached_property
    def cells(self) -> list[dict[str, str]]:
        """Return every combination of the values, without repetition.

        The list must not be changed.
        """
        combinations = product(*self.values.values())
        named = (
            _resolved(dict(zip(self.values, combination, strict=True)))
            for combination in combinations
        )
        cells, seen = [], set()
        for combined in named:
            # The value `preset` becomes the satellite's own: two combinations may then be equal.
            cell = in_force(self._with_instead(combined), self.presets)
            if (key := tuple(cell.values())) not in seen:
                seen.add(key)
                cells.append(cell)
        return cells

    @cached_property
    def constants(self) -> dict[str, str]:
        """Return the values that the scenarios give their constants."""
        return defaults_of((*self.sub_scenarios.values(), self.scenario))

    def jobs(self) -> list[str]:
        """Return the names of the jobs that the scenario or a sub-scenario starts."""
        scenarios = (self.scenario, *self.sub_scenarios.values())
        return sorted(set(_jobs_of(scenarios)))

    def on(self, inventory: Inventory) -> Campaign:
        """Return this campaign with the addresses of an inventory in its scenarios.

        Raises InputError.
        """
        subs = {
            name: with_addresses(scenario, inventory)
            for name, scenario in self.sub_scenarios.items()
        }
        return replace(self, scenario=with_addresses(self.scenario, inventory), sub_scenarios=subs)

    def uses(self, packages: Mapping[str, Package], catalog: Catalog) -> list[dict[str, list[str]]]:
        """Return the jobs and folders that the runs use, by kind: one dictionary for each cell.

        They are looked up once for cells that have the same values there. Raises InputError.
        """
        jobs = {name: package.job for name, package in packages.items()}
        places = [
            use
            for use in uses(self.scenario, jobs, self.sub_scenarios)
            if names_folders(use.argument)
        ]
        names = sorted({name for use in places for name in names_in(use.template)})
        started = {"jobs": self.jobs()}
        found: dict[tuple[str | None, ...], dict[str, list[str]]] = {}
        cells = [
            {**self.constants, **cell} for cell in self.cells
        ]  # a launch over REST gives arguments only
        for cell in cells:
            if (key := tuple(map(cell.get, names))) not in found:
                found[key] = joined([started, folders_used(places, cell, catalog)])
        check_entries(joined(found.values()), catalog)
        return [found[tuple(map(cell.get, names))] for cell in cells]

    def runs(
        self,
        packages: Mapping[str, Package],
        inventory: Inventory,
        catalog: Catalog,
        identity_of: Callable[[Uses], dict[str, str]],
    ) -> list[RunSpec]:
        """Return the runs: the cells in the order of the sweep, seeds innermost, with the addresses
        of the inventory.

        Raises InputError for addresses that it does not have.
        """
        here = self.on(inventory)
        jobs = {name: packages[name].job.to_dict() for name in self.jobs()}
        origin = Origin(here.scenario, here.sub_scenarios, jobs, inventory.to_dict())
        for cell in self.cells:
            check_mtus(origin.inventory["networks"], cell)
        cells = (
            CellSpec(origin, cell, identity_of(used), used, self._files_of(cell))
            for cell, used in zip(self.cells, self.uses(packages, catalog), strict=True)
        )
        return [RunSpec(cell, seed) for cell in cells for seed in self.every_seed]

    def _files_of(self, cell: Mapping[str, str]) -> dict[str, str]:
        """Return the content of the link files of a cell, by the name of the argument or constant."""
        return {
            name: files[cell[name]]
            for name, files in self.link_files.items()
            if cell[name] in files
        }


def _jobs_of(scenarios: Iterable[Scenario]) -> list[str]:
    """Return the jobs that the scenarios start, in their order, with repetitions."""
    found: list[str] = []
    for scenario in scenarios:
        for function in scenario.functions:
            found += [job for job, _ in jobs_started(function)]
    return found


def _resolved(cell: dict[str, str]) -> dict[str, str]:
    """Replace each value `$cc` by the value of the argument cc in the same cell; an older form of
    `same`.
    """
    return {
        name: cell[value[1:]] if value.startswith("$") else value for name, value in cell.items()
    }


def plan(
    path: Path, settings: Sequence[str], seeds: Seeds, packages: Mapping[str, Package]
) -> Campaign:
    """Return the campaign of a scenario file with `NAME=VALUE[,VALUE…]` settings.

    Raises InputError.
    """
    return plan_scenario(path, parse_settings(settings), seeds, packages)


def plan_scenario(
    path: Path, given: Mapping[str, tuple[str, ...]], seeds: Seeds, packages: Mapping[str, Package]
) -> Campaign:
    """Return the campaign of a scenario file with the values given by name. Raises InputError."""
    scenario, subs = read_with_subs(path, packages)
    campaign = campaign_of(path, scenario, subs, given, seeds, packages)
    return replace(campaign, link_files=_link_files(campaign))


def read_with_subs(
    path: Path, packages: Mapping[str, Package]
) -> tuple[Scenario, dict[str, Scenario]]:
    """Return the scenario of a file, and its sub-scenarios from the files beside it."""
    jobs = {name: package.job for name, package in packages.items()}
    scenario = read_scenario(path, jobs)
    return scenario, sub_scenarios(scenario, lambda name: _read_beside(path, name, jobs))


def settings_of(scenario: Scenario, subs: Mapping[str, Scenario]) -> dict[str, str]:
    """Return name → description of what NAME=VALUE can set: the scenario's arguments, its constants
    and those of its sub-scenarios.
    """
    constants: dict[str, str] = {}
    for one in subs.values():
        constants |= {name: text for name, text in one.settings.items() if name in one.defaults}
    return {**constants, **scenario.settings}


def _link_files(campaign: Campaign) -> dict[str, dict[str, str]]:
    """Return the contents of the files that the arguments and constants in x-sweep.link_files name,
    as name → path → content.

    `none` is no file. Raises InputError.
    """
    names: list[str] = []
    for scenario in (campaign.scenario, *campaign.sub_scenarios.values()):
        listed = scenario.sweep.get("link_files", [])
        if not isinstance(listed, list) or not all(
            isinstance(name, str) and name in scenario.settings for name in listed
        ):
            text = "x-sweep.link_files should be a list of arguments and constants of the scenario"
            raise InputError(f"{campaign.path}: {scenario.name}: {text}")
        names += [name for name in listed if name in campaign.values]
    found: dict[str, dict[str, str]] = {}
    for name in names:
        files = [file for file in campaign.values[name] if file != NO_FILE]
        found[name] = {file: read_link_file(Path(file)) for file in files}
    return found


def campaign_of(
    path: Path,
    scenario: Scenario,
    subs: dict[str, Scenario],
    given: Mapping[str, tuple[str, ...]],
    seeds: Seeds,
    packages: Mapping[str, Package],
    most_runs: int = MOST_RUNS,
) -> Campaign:
    """Return the checked campaign of a scenario with the values given.

    For the rest it has the scenario's own values: those of its `x-sweep` and its constants. `path`
    is the scenario's file, or the name for it in the text of InputError. More than `most_runs` runs
    are refused before any cell is made.
    """
    campaign = draft_of(path, scenario, subs, given, seeds, packages, most_runs)
    check_cells(campaign, {name: package.job for name, package in packages.items()})
    check_vpns(campaign, packages)
    if missing := [name for name in campaign.jobs() if packages[name].files is None]:
        raise InputError(
            f"{path}: no package to run of the job {missing[0]}; name its folder with --jobs"
        )
    campaign = replace(campaign, measures=measures_of_jobs(campaign.jobs(), packages))
    for one in (*subs.values(), scenario):
        check_measure(path, one, campaign.measures)
    return campaign


def draft_of(
    path: Path,
    scenario: Scenario,
    subs: dict[str, Scenario],
    given: Mapping[str, tuple[str, ...]],
    seeds: Seeds,
    packages: Mapping[str, Package],
    most_runs: int = MOST_RUNS,
) -> Campaign:
    """Return the campaign like campaign_of, but before its values are checked against the jobs.

    Raises InputError for names, for a number of runs, and for satellites.
    """
    for one in (*subs.values(), scenario):
        check_extras(path, one)
    settings = settings_of(scenario, subs)
    for name, several in given.items():
        _check_name(f"{name}={','.join(several)}", setting_of(name), scenario, settings)
    # The settings vpn.NAME become values of the constant vpn_values.
    given = folded(given)
    # The later entry wins: the constants' own values, the defaults of x-sweep, its values.
    known = {
        **{name: [value] for name, value in defaults_of((*subs.values(), scenario)).items()},
        **{name: [value] for name, value in sweep_table(scenario, path, "defaults").items()},
        **sweep_table(scenario, path, "values"),
    }
    values = {}
    for name in dict.fromkeys([*scenario.sweep.get("values", {}), *scenario.arguments, *settings]):
        if name not in given and name not in known:
            raise InputError(
                f"{path}: the argument {name} needs a value: {name}=… ({settings[name]})"
            )
        values[name] = given.get(name) or tuple(map(str, known[name]))
    check_references(values)
    first, more = (seeds, ()) if seeds else (FIRST_SEEDS, MORE_SEEDS)
    campaign = Campaign(
        path,
        scenario,
        subs,
        values,
        first,
        presets=presets_of(values, packages),
        impairments=entries_of("impairments", packages),
        more_seeds=more,
        given=frozenset(given),
    )
    if (runs := campaign.count(most_runs)) > most_runs:
        raise InputError(
            f"{path}: {runs} runs; at most {most_runs} at once: give fewer values or seeds"
        )
    return campaign


NAMES: Shape = {"type": "object", "additionalProperties": {}}
CONDITION: Shape = {
    "type": "object",
    "properties": {"if": {"type": "string"}, "because": {"type": "string"}},
    "required": ["if", "because"],
}
INSTEAD: Shape = {
    "type": "object",
    "properties": {
        "values": {"type": "object", "additionalProperties": {"type": "string"}},
        MEASURE: {"type": "string"},
    },
    "required": ["values"],
}
EXTRAS: Mapping[str, Shape] = {
    "x-sweep": {
        "type": "object",
        "properties": {"defaults": {}, "values": {}, "link_files": {}, MEASURE: {}, "figure": {}},
    },
    "x-constants": NAMES,
    "x-same": NAMES,
    "x-inventory": {
        "type": "object",
        "properties": {"file": {"type": "string"}, "constants": NAMES},
    },
    "x-idle": {"type": "object", "additionalProperties": {"type": "array", "items": CONDITION}},
    "x-instead": {"type": "object", "additionalProperties": INSTEAD},
    "x-only-if": {"type": "object", "additionalProperties": {"type": "string"}},
}
"""Keys of a scenario that OpenBACH does not read. The contents of x-sweep are checked where they
are used."""


def check_extras(path: Path, scenario: Scenario) -> None:
    """Check the shapes of the keys in EXTRAS.

    Raises InputError for the first that has another shape, or that is misspelled.
    """
    for key, value in scenario.source.items():
        if key in EXTRAS:
            check(f"{path}: {scenario.name}: {key}", value, EXTRAS[key])
        elif key.startswith("x-") and (meant := near(key, EXTRAS)):
            raise InputError(f"{path}: {scenario.name}: {key}: no such key; {meant}".rstrip())
    for name, conditions in scenario.idle.items():
        for one in conditions:
            try:
                rules.check(one["if"])
            except ValueError as error:
                raise InputError(f"{path}: {scenario.name}: x-idle.{name}: {error}") from None
    for place, condition in scenario.only_if.items():
        try:
            rules.check(condition)
        except ValueError as error:
            raise InputError(f"{path}: {scenario.name}: x-only-if.{place}: {error}") from None
        if not place.isdecimal() or int(place) not in scenario.by_id:
            raise InputError(
                f"{path}: {scenario.name}: x-only-if.{place}: there is no such function"
            )
    for name, instead in scenario.instead.items():
        for own in (name, *instead["values"]):
            if own not in scenario.settings or (own == name and own not in scenario.constants):
                raise InputError(
                    f"{path}: {scenario.name}: x-instead.{name}: the scenario has no constant or"
                    f" value {own}"
                )


def presets_of(values: Mapping[str, Sequence[str]], packages: Mapping[str, Package]) -> Presets:
    """Return the presets of the satellites that the values name. Raises InputError."""
    return read_presets(chain(*values.values()), entries_of("satellites", packages))


def entries_of(kind: str, packages: Mapping[str, Package]) -> dict[str, Path]:
    """Return the folders or files of a kind that arguments of the jobs may name, by name."""
    found: dict[str, Path] = {}
    for package in packages.values():
        found |= package.entries.get(kind, {})
    return found


def measures_of_jobs(
    jobs: Iterable[str], packages: Mapping[str, Package]
) -> dict[str, tuple[Measure, ...]]:
    """Return the measures of these jobs, by job.

    Raises InputError for two that do not agree on a column.
    """
    found = {name: packages[name].measures for name in jobs if packages[name].measures}
    check_agreement(found)
    return found


def check_measure(path: Path, scenario: Scenario, declared: Declared) -> None:
    """Check what the scenario's table and figure show.

    Raises InputError for an x-sweep.measure that no job of the scenario declares (a suffix in front
    is that of a run), or for a figure that does not exist.
    """
    if (drawn := scenario.sweep.get("figure", FIGURES[0])) not in FIGURES:
        raise InputError(
            f"{path}: {scenario.name}: x-sweep.figure: {drawn!r} is none of {', '.join(FIGURES)}"
        )
    wanted = scenario.sweep.get(MEASURE)
    columns: dict[str, list[str]] = {}
    for job, measures in declared.items():
        columns[job] = [one.column for one in measures if one.is_column]
    every = [*chain(*columns.values())]
    # A column may have a suffix in front, that of a run: `to_client_mos` is the measure mos.
    if wanted is None or any(f"_{wanted}".endswith(f"_{column}") for column in every):
        return
    if any(EVERY_STATISTIC in measures for measures in declared.values()):
        return  # only its end shows what it sends
    key = "plot" if path.suffix in (".yml", ".yaml") else "x-sweep"
    there = "; ".join(f"{job} has {', '.join(listed)}" for job, listed in columns.items() if listed)
    raise InputError(
        f"{path}: {scenario.name}: {key}.measure: no job of the scenario measures {wanted}; "
        f"{near(str(wanted), every)}{there or 'none of them has a measures.yml'}"
    )


def check_references(values: Mapping[str, Sequence[str]]) -> None:
    """Check the values `$name`.

    Raises InputError for a name that is no argument, or is an argument with a `$` value itself.
    """
    for name, listed in values.items():
        for value in listed:
            if value.startswith("$") and any(
                other.startswith("$") for other in values.get(value[1:], ("$",))
            ):
                raise InputError(
                    f"{name}={value}: after $ comes an argument of the scenario that has values of"
                    " its own"
                )


def sweep_table(scenario: Scenario, path: Path, key: str) -> dict[str, Any]:
    """Return the table `defaults` or `values` of a scenario's x-sweep. Raises InputError."""
    sweep = scenario.source.get("x-sweep", {})
    if not isinstance(sweep, dict):
        raise InputError(f"{path}: x-sweep should be an object with the keys defaults and values")
    table = sweep.get(key, {})
    if not isinstance(table, dict) or not all(
        map(is_list if key == "values" else is_value, table.values())
    ):
        shape = "object of lists of texts" if key == "values" else "object of texts"
        raise InputError(f"{path}: x-sweep.{key} should be an {shape} by argument name")
    names = scenario.arguments if key == "defaults" else scenario.settings
    if unknown := [name for name in table if name not in names]:
        hint = "; a constant's value is in constants" if unknown[0] in scenario.constants else ""
        raise InputError(
            f"{path}: x-sweep.{key}.{unknown[0]}: the scenario has no such argument{hint}"
        )
    return table


def _check_name(text: str, name: str, scenario: Scenario, settings: Mapping[str, str]) -> None:
    if name not in settings:
        constants = ", ".join(one for one in settings if one not in scenario.arguments)
        has = ", ".join(scenario.arguments) + (
            f" and the constants {constants}" if constants else ""
        )
        raise InputError(
            f"{text}: {scenario.name} has no argument {name}; {near(name, settings)}it has {has}"
        )


def check_cells(campaign: Campaign, jobs: Mapping[str, Job]) -> None:
    """Check the cells.

    Raises InputError for the first value that the backend or a job would refuse.
    """
    for cell, wrong in wrong_in(campaign, jobs):
        if wrong:
            # The argument that the user gave is named rather than one that only refers to it.
            raise InputError(str(min(wrong, key=lambda one: _is_reference(campaign, one))))
        arguments = {
            name: value for name, value in cell.items() if name in campaign.scenario.arguments
        }
        check_values(campaign.scenario.with_constants(cell), arguments, jobs)


def check_vpns(campaign: Campaign, packages: Mapping[str, Package]) -> None:
    """Check the values of the VPNs. Raises InputError for the first that its VPN does not have."""
    jobs = {name: package.job for name, package in packages.items()}
    every = uses(campaign.scenario, jobs, campaign.sub_scenarios)
    places = [use for use in every if limits.VALUES_OF in use.argument.limits]
    for cell in _first_of_each(campaign.cells, [use.names for use in places]):
        check_values_of_vpns(places, cell, entries_of("vpn-configs", packages))


def wrong_in(
    campaign: Campaign, jobs: Mapping[str, Job]
) -> Iterator[tuple[dict[str, str], list[Wrong]]]:
    """Yield cells, each with those of its values that jobs would refuse.

    Only the first cells with something that can be wrong are looked at.
    """
    places = uses(campaign.scenario, jobs, campaign.sub_scenarios)
    groups = [*(use.names for use in places), *names_used(campaign.scenario, jobs)]
    for cell in _first_of_each(campaign.cells, groups):
        yield cell, wrong_values(places, own_values(campaign, cell))


def own_values(campaign: Campaign, cell: Mapping[str, str]) -> dict[str, str]:
    """Return a cell's values, without those that are `same`: they repeat another value, which the
    cell has as well.
    """
    return {
        name: value
        for name, value in cell.items()
        if value != SAME or campaign.constants.get(name) != SAME
    }


def notes_of(campaign: Campaign, packages: Mapping[str, Package]) -> list[str]:
    """Return notes for the user on values that the jobs take, each note once; also on values that
    have no effect beside others.
    """
    jobs = {name: package.job for name, package in packages.items()}
    spelled = uses(campaign.scenario, jobs, campaign.sub_scenarios)
    noted = [use for use in spelled if "noted" in use.argument.limits]
    cells = _first_of_each(campaign.cells, [use.names for use in noted])
    found: list[str] = []
    for cell in cells:
        found += notes(noted, own_values(campaign, cell))
    for cell in campaign.cells:
        found += remarks(cell, campaign.presets)
    return list(dict.fromkeys([*found, *_idle_values(campaign, packages, spelled)]))


def _idle_values(
    campaign: Campaign, packages: Mapping[str, Package], spelled: Sequence[Use]
) -> Iterator[str]:
    """Yield a text for each value that has no effect in a cell, other than the scenario's own
    values.

    `spelled` are the uses of its scenario.
    """
    jobs = {name: package.job for name, package in packages.items()}
    own = {**campaign.constants, **sweep_table(campaign.scenario, campaign.path, "defaults")}
    declared: dict[str, Any] = {}
    for scenario in (*campaign.sub_scenarios.values(), campaign.scenario):
        declared |= scenario.idle
    groups = [
        *(use.names for use in spelled),
        *({name, *limits.names_asked(one)} for name, one in declared.items()),
    ]
    places: dict[tuple[str, ...], list[Use]] = {}
    for cell in _first_of_each(campaign.cells, groups):
        # Which uses there are depends only on which names keep the value `same`: find them once for
        # each such set.
        key = tuple(name for name, value in own.items() if value == SAME and cell.get(name) == SAME)
        if key not in places:
            subs = {name: sub.with_constants(cell) for name, sub in campaign.sub_scenarios.items()}
            places[key] = limits.every_use(campaign.scenario.with_constants(cell), jobs, subs)
        carriers = _carriers(cell, spelled, packages)
        for name in cell:
            if cell[name] != own.get(name, ""):
                said = limits.idle_here(declared.get(name, ()), name, cell, carriers)
                if because := said or limits.idle(places[key], name, cell):
                    yield f"{name}={cell[name]} has no effect: {because}"


def _carriers(
    cell: Mapping[str, str], places: Sequence[Use], packages: Mapping[str, Package]
) -> dict[str, str]:
    """Return the carrier of each VPN that a cell names, for conditions.

    The key is the name of the argument that names the VPN, and `_carrier`.
    """
    vpns = entries_of("vpn-configs", packages)
    found = {}
    for use in places:
        name = sole_placeholder(use.template)
        if (
            use.argument.limits.get("folder") == "vpn-configs"
            and name
            and (folder := vpns.get(cell.get(name, "")))
        ):
            found[f"{name}_carrier"] = str(with_base(folder, vpns).get("carrier", ""))
    return found


def _first_of_each(
    cells: Sequence[dict[str, str]], groups: Iterable[set[str]]
) -> Iterator[dict[str, str]]:
    """Yield the first cell, and each cell with a combination of values that is new for the names of
    a group.

    A check that looks at nothing but such combinations finds in these cells what it finds in all.
    """
    # A name with one value in all cells makes no combination new, so only the others matter.
    swept = _varying(cells)
    seen: dict[tuple[str, ...], set[tuple[str, ...]]] = {
        tuple(sorted(names & swept)): set() for names in groups
    }
    for cell in cells:
        new = cell is cells[0]
        for names, known in seen.items():
            if (key := tuple([cell[name] for name in names])) not in known:
                known.add(key)
                new = True
        if new:
            yield cell


def _varying(cells: Sequence[Mapping[str, str]]) -> set[str]:
    """Return the names that do not have the same value in all cells."""
    found = set()
    for name in cells[0]:
        values = {cell[name] for cell in cells}
        if len(values) > 1:
            found.add(name)
    return found


def _is_reference(campaign: Campaign, wrong: Wrong) -> bool:
    """Return whether an argument has its value only because of another argument's: `$cc`."""
    return wrong.name in campaign.values and wrong.value not in campaign.values[wrong.name]


def sub_scenarios(scenario: Scenario, find: Callable[[str], Scenario]) -> dict[str, Scenario]:
    """Return the sub-scenarios by name, including those that sub-scenarios start.

    `find` reads one.
    """
    found: dict[str, Scenario] = {}
    waiting = [scenario]
    while waiting:
        for function in waiting.pop().functions:
            name = function.get("start_scenario_instance", {}).get("scenario_name")
            if name is not None and name not in found and name != scenario.name:
                found[name] = find(name)
                waiting.append(found[name])
    return found


def _read_beside(path: Path, name: str, jobs: Mapping[str, Any]) -> Scenario:
    files = [path.with_name(f"{name}{suffix}") for suffix in (path.suffix, ".json")]
    file = next((one for one in files if one.exists()), files[-1])
    try:
        return read_scenario(file, jobs)
    except Malformed as error:
        raise InputError(f"{file}: {error}") from error
