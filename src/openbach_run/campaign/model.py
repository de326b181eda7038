# SPDX-License-Identifier: GPL-3.0-or-later
"""Sweeps and campaigns.

A sweep is a scenario with values, a campaign has all combinations of them as cells, and a run is a
cell with a seed. None of them changes once reading.py has made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from openbach_run.campaign.ip_versions import IP, VERSIONS, Addresses, addresses_in
from openbach_run.campaign.noise import NOISE, OFF
from openbach_run.campaign.platforms import Platforms
from openbach_run.campaign.platforms import applied as with_platform
from openbach_run.campaign.vpn_values import Configs
from openbach_run.catalog import Entries
from openbach_run.link_checks import Presets, has_random_link, note_on_shares
from openbach_run.openbach.addresses import shares_in, with_addresses
from openbach_run.openbach.extras import MEASURE
from openbach_run.openbach.job import Job
from openbach_run.openbach.job_folders import Package, entries_of
from openbach_run.openbach.limits import VALUES_OF
from openbach_run.openbach.measures import Declared, Measure, in_words
from openbach_run.openbach.scenario import Scenario, defaults_of, jobs_of
from openbach_run.openbach.uses import Use
from openbach_run.topology.hosts import Inventory

USUAL = "transfer_time_s"
"""Column that the table shows where a scenario names none."""
Seeds = tuple[int, ...] | None
"""None means the default: one seed, or five where a cell has a random link or noisy hosts."""


@dataclass(frozen=True)
class Instead:
    """The values that take the place of others in some cells (`x-instead` of the scenarios)."""

    declared: Mapping[str, Mapping[str, Any]]
    """Name of a constant → `values` and `measure` where it has another value than its own."""
    constants: Mapping[str, str]
    """The constants' own values."""
    given: frozenset[str]
    """Names of values that the user gave: nothing takes their place."""
    platforms: Platforms

    def holds(self, name: str, cell: Mapping[str, str]) -> bool:
        """Return whether a cell has another value of a constant than the scenario.

        A cell of the page has the arguments only.
        """
        # By value: a constant that is given its own value changes nothing.
        return cell.get(name, self.constants[name]) != self.constants[name]

    def applied(self, cell: dict[str, str]) -> dict[str, str]:
        """Return the cell with the values that take the place of its own."""
        cell = with_platform(cell, self.platforms, self.given)
        for name, instead in self.declared.items():
            if self.holds(name, cell):
                values = instead["values"]
                cell = cell | {own: values[own] for own in values if own not in self.given}
        return cell


@dataclass(frozen=True)
class Sweep:
    """A scenario and its file, the values of each argument and constant, and seeds."""

    path: Path
    scenario: Scenario
    sub_scenarios: dict[str, Scenario]
    values: dict[str, tuple[str, ...]]
    seeds: tuple[int, ...]
    packages: Mapping[str, Package] = field(default_factory=dict, repr=False, compare=False)
    """Jobs that scenarios may start, with the folders that values may name."""
    link_files: dict[str, dict[str, str]] = field(default_factory=dict)
    """Argument or constant → path → content of the file."""
    vpn_configs: Configs = field(default_factory=dict)
    """Values that VPNs take of the files that `vpn.config` names."""
    presets: Presets = field(default_factory=dict)
    """Presets of the satellites, by name."""
    platforms: Platforms = field(default_factory=dict)
    measures: Declared = field(default_factory=dict)
    """Measures that its jobs declare."""
    more_seeds: tuple[int, ...] = ()
    """Further seeds, of all cells, if chance has a part in any cell."""
    seeds_if_random: tuple[int, ...] = ()
    """Seeds of the cells in which chance has a part, if they have others."""
    seeds_by_cell: Mapping[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict)
    """Seeds of single cells, by their values: repetitions that somebody else launched."""
    given: frozenset[str] = frozenset()
    """Names of the values that a user gave, and that are not the scenario's own."""
    of_file: frozenset[str] = frozenset()
    """Names in `given` that only a campaign's file gives, and nobody typed."""

    @cached_property
    def scenarios(self) -> tuple[Scenario, ...]:
        """Return its sub-scenarios and, as the last one, the scenario that is started."""
        return (*self.sub_scenarios.values(), self.scenario)

    @cached_property
    def constants(self) -> dict[str, str]:
        """Return the values that the scenarios give their constants."""
        return defaults_of(self.scenarios)

    @cached_property
    def job_names(self) -> list[str]:
        """Return the names of the jobs that the scenario or a sub-scenario starts."""
        return sorted(set(jobs_of(self.scenarios)))

    @cached_property
    def jobs(self) -> dict[str, Job]:
        """Return the jobs that scenarios may start, by name."""
        return {name: package.job for name, package in self.packages.items()}

    @cached_property
    def entries(self) -> Entries:
        """Return the folders and files that values may name: kind → name → place."""
        return entries_of(self.packages)

    @cached_property
    def instead(self) -> Instead:
        """Return what takes the place of defaults, as the scenarios say (`x-instead`)."""
        declared: dict[str, dict[str, Any]] = {}
        # The scenario's own comes last: it wins over its sub-scenarios'.
        for scenario in self.scenarios:
            declared |= scenario.instead
        return Instead(declared, self.constants, self.given, self.platforms)


@dataclass(frozen=True)
class Campaign(Sweep):
    """A sweep whose values have been combined. `reading.expanded` makes it."""

    cells: list[dict[str, str]] = field(default_factory=list, repr=False)
    """Every combination of the values, without repetition. The list must not be changed."""
    places: list[Use] = field(default_factory=list, repr=False, compare=False)
    """Places where the scenarios give values to arguments that have choices or limits."""
    uses: list[dict[str, list[str]]] = field(default_factory=list, repr=False, compare=False)
    """Jobs and folders that the runs of each cell use, by kind."""

    @property
    def swept(self) -> list[str]:
        """Return the names of the arguments and constants with several values."""
        return [name for name, values in self.values.items() if len(values) > 1]

    @cached_property
    def declared(self) -> list[Measure]:
        """Return the measures of its jobs.

        Those of the job that is started last come first, because the other jobs prepare for it.
        """
        jobs = dict.fromkeys([*reversed(jobs_of(self.scenarios)), *self.measures])
        every = (measure for job in jobs for measure in self.measures.get(job, ()))
        return [measure for measure in every if measure.is_column]

    @cached_property
    def measure(self) -> str | None:
        """Return the column of results.csv that the table shows; None if the jobs measure nothing.

        It is what `x-instead` names, or else `x-sweep.measure`, or else the transfer time, or else
        the first column that is declared.
        """
        if self.measure_instead:
            return self.measure_instead[1]
        if MEASURE in self.scenario.sweep:
            return str(self.scenario.sweep[MEASURE])
        columns = [measure.column for measure in self.declared]
        return USUAL if USUAL in columns else next(iter(columns), None)

    @cached_property
    def measure_instead(self) -> tuple[str, str] | None:
        """Return the name whose value makes the table show another column, and that column.

        None if there is none. The scenario says so (`x-instead`).
        """
        for name, instead in self.instead.declared.items():
            if MEASURE in instead and any(self.instead.holds(name, cell) for cell in self.cells):
                return name, str(instead[MEASURE])
        return None

    @property
    def plot(self) -> dict[str, str]:
        """Return what the report draws: `measure`, and `figure` if the scenario says which."""
        drawn = {MEASURE: self.measure, "figure": self.scenario.sweep.get("figure")}
        return {key: str(value) for key, value in drawn.items() if value is not None}

    @property
    def measure_in_words(self) -> str:
        """Return the column that the table shows, for a person."""
        return "runs" if self.measure is None else in_words(self.measure, self.declared)

    @property
    def runs_planned(self) -> int:
        """Return the number of runs of its cells."""
        return sum(len(self.seeds_of(cell)) for cell in self.cells)

    @cached_property
    def is_random(self) -> bool:
        """Return whether chance has a part in any cell: on its link, or the noise of the hosts."""
        return any(noise != OFF for noise in self.values.get(NOISE, ())) or self.has_random_link

    @cached_property
    def has_random_link(self) -> bool:
        """Return whether packets are lost or delayed at random on a link of any cell."""
        return any(map(self.has_chance, self.cells))

    def has_chance(self, cell: Mapping[str, str]) -> bool:
        """Return whether packets are lost or delayed at random on a link of a cell."""
        return has_random_link(cell, self.presets, self.entries["impairments"])

    @property
    def every_seed(self) -> tuple[int, ...]:
        """Return the seeds of a cell, of those with most of them.

        All cells have the same seeds, so that any two can be compared seed by seed. Only a campaign
        file may have more for those with a random link.
        """
        more = self.more_seeds if self.is_random else ()
        tail = self.seeds_if_random if self.has_random_link else ()
        return tuple(dict.fromkeys((*self.seeds, *more, *tail)))

    def seeds_of(self, cell: Mapping[str, str]) -> tuple[int, ...]:
        """Return the seeds of a cell."""
        if own := self.seeds_by_cell.get(tuple(cell.values())):
            return own
        if not self.seeds_if_random:
            return self.every_seed
        return self.seeds_if_random if self.has_chance(cell) else self.seeds

    def on(self, inventory: Inventory) -> Campaign:
        """Return this campaign with the addresses of an inventory in its scenarios.

        Raises InputError, also for shares of terminals that do not go with the values of a cell.
        """
        subs = {
            name: with_addresses(scenario, inventory)
            for name, scenario in self.sub_scenarios.items()
        }
        here = replace(self, scenario=with_addresses(self.scenario, inventory), sub_scenarios=subs)
        here.notes_on_shares()
        return here

    def notes_on_shares(self) -> list[str]:
        """Return a note on what terminals have of their own, for the cells that have them.

        Raises InputError for shares that do not go together with the values of a cell.
        """
        texts = [text for scenario in self.scenarios for text in shares_in(scenario)]
        cells = self.cells if texts else ()
        notes = (note_on_shares(cell, self.presets, text) for cell in cells for text in texts)
        return [note for note in dict.fromkeys(notes) if note]

    @cached_property
    def vpn_places(self) -> list[Use]:
        """Return the places where the scenarios give values to VPNs."""
        return [use for use in self.places if VALUES_OF in use.argument.limits]

    @property
    def has_ipv6(self) -> bool:
        """Return whether a value of `ip` has IPv6; a scenario may have an `ip` that means more."""
        if any(IP in scenario.settings for scenario in self.scenarios):
            return False
        return any(VERSIONS.get(version) for version in self.values.get(IP, ()))

    @property
    def addresses(self) -> Addresses:
        """Return the addresses of the inventory that the scenarios give to jobs."""
        return addresses_in(self.scenario, self.sub_scenarios, self.jobs)
