# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign: a scenario with values to sweep, its cells and its runs.

A cell is one combination of values; a run is a cell with a seed. plan.py makes and checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

from openbach_jobs.presets import ES_N0_FILE
from openbach_run.campaign.cells import Instead, cells_of, uses_of
from openbach_run.campaign.ip_versions import IP, VERSIONS, Addresses, addresses_in
from openbach_run.campaign.noise import NOISE, OFF
from openbach_run.campaign.platforms import Platforms
from openbach_run.campaign.spec import CellSpec, Origin, RunSpec
from openbach_run.campaign.vpn_config import CONFIG
from openbach_run.campaign.vpn_values import Configs, configs_of, read_configs
from openbach_run.catalog import Uses
from openbach_run.link_checks import Presets, check_terminals, is_random, note_on_shares
from openbach_run.openbach.addresses import shares_in, with_addresses
from openbach_run.openbach.extras import MEASURE
from openbach_run.openbach.job import Job
from openbach_run.openbach.job_folders import Package, entries_of
from openbach_run.openbach.limits import VALUES_OF
from openbach_run.openbach.measures import Declared, Measure, in_words
from openbach_run.openbach.scenario import Scenario, defaults_of, jobs_of
from openbach_run.openbach.uses import Use, uses
from openbach_run.topology.hosts import Inventory
from openbach_run.topology.ip_versions import with_ipv6
from openbach_run.topology.networks import check_mtus

NO_FILE = "none"
USUAL = "transfer_time_s"
"""The column that the table shows where a scenario names none."""
Seeds = tuple[int, ...] | None
"""None means the default: one seed, or five where a cell has a random link or noisy hosts."""


@dataclass
class Found:
    """The results of working out a campaign: each takes long, and is worked out once."""

    places: list[Use] | None = None
    cells: list[dict[str, str]] | None = None
    uses: list[dict[str, list[str]]] | None = None


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
    vpn_configs: Configs = field(default_factory=dict)
    """What VPNs take of the files that `vpn.config` names."""
    presets: Presets = field(default_factory=dict)
    """The presets of the satellites, by name."""
    impairments: Mapping[str, Path] = field(default_factory=dict)
    """The impairment profiles that exist, by name."""
    platforms: Platforms = field(default_factory=dict)
    measures: Declared = field(default_factory=dict)
    """The measures that its jobs declare."""
    more_seeds: tuple[int, ...] = ()
    """Further seeds, of all cells, if chance has a part in any cell."""
    seeds_if_random: tuple[int, ...] = ()
    """The seeds of the cells in which chance has a part, if they have others."""
    seeds_by_cell: Mapping[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict)
    """The seeds of single cells, by their values: repetitions that somebody else launched."""
    given: frozenset[str] = frozenset()
    """Names of the values that were given, and are not the scenario's own."""
    # Not compared: two equal campaigns stay equal when one has been worked out.
    found: Found = field(default_factory=Found, init=False, repr=False, compare=False)

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
        jobs = dict.fromkeys([*reversed(jobs_of(scenarios)), *self.measures])
        return [one for job in jobs for one in self.measures.get(job, ()) if one.is_column]

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
        columns = [one.column for one in self.declared]
        return USUAL if USUAL in columns else next(iter(columns), None)

    @cached_property
    def measure_instead(self) -> tuple[str, str] | None:
        """Return the name whose value makes the table show another column, and that column.

        None if there is none. The scenario says so (`x-instead`).
        """
        for name, one in self._instead.declared.items():
            if MEASURE in one and any(self._instead.holds(name, cell) for cell in self.cells):
                return name, str(one[MEASURE])
        return None

    @cached_property
    def _instead(self) -> Instead:
        """Return what takes the place of defaults, as the scenarios say (`x-instead`)."""
        declared: dict[str, dict[str, Any]] = {}
        for scenario in (*self.sub_scenarios.values(), self.scenario):
            # The scenario's own comes last: it wins over its sub-scenarios'.
            declared |= scenario.instead
        return Instead(declared, self.constants, self.given, self.platforms)

    @property
    def plot(self) -> dict[str, str]:
        """Return what the report draws: `measure`, and `figure` if the scenario says which."""
        drawn = {MEASURE: self.measure, "figure": self.scenario.sweep.get("figure")}
        return {key: str(value) for key, value in drawn.items() if value is not None}

    @property
    def measure_in_words(self) -> str:
        """Return the column that the table shows, for a person."""
        return "runs" if self.measure is None else in_words(self.measure, self.declared)

    def count(self, most_runs: int) -> int:
        """Return the number of runs, or a little more, as cells that are alike may count twice.

        The cells are made, and counted exactly, only where it matters: where there may be more than
        `most_runs`.
        """
        cells = prod(map(len, self.values.values()))
        first, every = cells * len(self.seeds), cells * len((*self.seeds, *self.more_seeds))
        if first > most_runs:
            return first
        return every if every <= most_runs else len(self.cells) * len(self.every_seed)

    @property
    def runs_planned(self) -> int:
        """Return the number of runs of its cells."""
        return sum(len(self.seeds_of(cell)) for cell in self.cells)

    @cached_property
    def is_random(self) -> bool:
        """Return whether chance has a part in any cell: on its link, or the noise of the hosts."""
        return any(one != OFF for one in self.values.get(NOISE, ())) or self.has_random_link

    @cached_property
    def has_random_link(self) -> bool:
        """Return whether packets are lost or delayed at random on a link of any cell."""
        return any(map(self.has_chance, self.cells))

    def has_chance(self, cell: Mapping[str, str]) -> bool:
        """Return whether packets are lost or delayed at random on a link of a cell."""
        return is_random(cell, self.presets, self.impairments)

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

    @property
    def cells(self) -> list[dict[str, str]]:
        """Return every combination of the values, without repetition.

        The list must not be changed.
        """
        if self.found.cells is None:
            self.found.cells = cells_of(self.values, self.presets, self._instead)
        return self.found.cells

    @cached_property
    def constants(self) -> dict[str, str]:
        """Return the values that the scenarios give their constants."""
        return defaults_of((*self.sub_scenarios.values(), self.scenario))

    def jobs(self) -> list[str]:
        """Return the names of the jobs that the scenario or a sub-scenario starts."""
        scenarios = (self.scenario, *self.sub_scenarios.values())
        return sorted(set(jobs_of(scenarios)))

    def on(self, inventory: Inventory) -> Campaign:
        """Return this campaign with the addresses of an inventory in its scenarios.

        Raises InputError.
        """
        subs = {
            name: with_addresses(scenario, inventory)
            for name, scenario in self.sub_scenarios.items()
        }
        # Neither cells nor what they use have addresses in them.
        here = self._found_by(
            replace(self, scenario=with_addresses(self.scenario, inventory), sub_scenarios=subs)
        )
        here.notes_on_shares()
        return here

    def notes_on_shares(self) -> list[str]:
        """Return a note on what terminals have of their own, for the cells that have them.

        Raises InputError for shares that do not go together with the values of a cell.
        """
        texts = [
            text
            for scenario in (self.scenario, *self.sub_scenarios.values())
            for text in shares_in(scenario)
        ]
        if not texts:
            return []
        notes = (note_on_shares(cell, self.presets, text) for cell in self.cells for text in texts)
        return [one for one in dict.fromkeys(notes) if one]

    def places(self, jobs: Mapping[str, Job]) -> list[Use]:
        """Return where the scenarios give values to arguments that have choices or limits.

        The list must not be changed.
        """
        if self.found.places is None:
            self.found.places = uses(self.scenario, jobs, self.sub_scenarios)
        return self.found.places

    @property
    def has_ipv6(self) -> bool:
        """Return whether a value of `ip` has IPv6; a scenario may have an `ip` that means more."""
        for one in (self.scenario, *self.sub_scenarios.values()):
            if IP in one.settings:
                return False
        return any(VERSIONS.get(one) for one in self.values.get(IP, ()))

    def addresses(self, jobs: Mapping[str, Job]) -> Addresses:
        """Return the addresses of the inventory that the scenarios give to jobs."""
        return addresses_in(self.scenario, self.sub_scenarios, jobs)

    def _vpn_places(self, packages: Mapping[str, Package]) -> list[Use]:
        """Return where the scenarios give values to VPNs."""
        jobs = {name: package.job for name, package in packages.items()}
        return [use for use in self.places(jobs) if VALUES_OF in use.argument.limits]

    def with_configs(self, packages: Mapping[str, Package]) -> Campaign:
        """Return this campaign with what VPNs take of the files that its values name.

        Raises InputError.
        """
        # Most campaigns name none, and may have a hundred thousand cells.
        if not any(f"{CONFIG}=" in text for text in chain(*self.values.values())):
            return self
        places, vpns = self._vpn_places(packages), entries_of(packages)["vpn-configs"]
        found = read_configs(places, self.cells, vpns)
        return self._found_by(replace(self, vpn_configs=found)) if found else self

    def _found_by(self, other: Campaign) -> Campaign:
        """Return another campaign with the same cells, which need not be worked out again."""
        object.__setattr__(other, "found", self.found)
        return other

    def uses(self, packages: Mapping[str, Package]) -> list[dict[str, list[str]]]:
        """Return the jobs and folders that the runs use, by kind: one dictionary for each cell.

        Raises InputError for a folder whose description cannot be read.
        """
        if self.found.uses is None:
            places = self.places({name: package.job for name, package in packages.items()})
            self.found.uses = uses_of(
                self.cells, places, self.constants, self.jobs(), entries_of(packages)
            )
        return self.found.uses

    def expand(self, packages: Mapping[str, Package]) -> None:
        """Find out the cells, where their values are given to jobs, and what they use.

        Raises InputError. Each is kept, so that nothing is worked out twice.
        """
        self.uses(packages)

    def runs(
        self,
        packages: Mapping[str, Package],
        inventory: Inventory,
        identity_of: Callable[[Uses], dict[str, str]],
    ) -> list[RunSpec]:
        """Return the runs, with the addresses of the inventory.

        The cells have the order of the sweep; the seeds are innermost. Raises InputError for
        addresses that the inventory does not have.
        """
        here = self.on(inventory)
        jobs = {name: packages[name].job for name in self.jobs()}
        places = self._vpn_places(packages)
        told = {name: job.to_dict() for name, job in jobs.items()}
        origin = Origin(here.scenario, here.sub_scenarios, told, inventory.to_dict())
        in_ipv6: dict[str, dict[str, str]] = {}
        if self.has_ipv6:
            both, addresses = with_ipv6(origin.inventory), self.addresses(jobs)
            hosts = Inventory.from_dict({**both})
            in_ipv6 = {value: addresses.of(value, hosts) for value in self.values[IP]}
        # Only here are both known: the cells' MTUs and the inventory's networks.
        for cell in self.cells:
            has_ipv6 = in_ipv6.get(cell.get(IP, ""))
            check_mtus((both if has_ipv6 else origin.inventory)["networks"], cell)
            text = self._files_of(cell).get(ES_N0_FILE)
            check_terminals(cell, self.presets, text, inventory)
        cells = (
            CellSpec(
                origin,
                cell,
                identity_of(used),
                used,
                self._files_of(cell),
                configs_of(places, cell, self.vpn_configs) if self.vpn_configs else {},
                in_ipv6.get(cell.get(IP, ""), {}),
            )
            for cell, used in zip(self.cells, self.uses(packages), strict=True)
        )
        return [RunSpec(cell, seed) for cell in cells for seed in self.seeds_of(cell.values)]

    def _files_of(self, cell: Mapping[str, str]) -> dict[str, str]:
        """Return the content of a cell's link files, by the name of the argument or constant."""
        return {
            name: files[cell[name]]
            for name, files in self.link_files.items()
            if cell[name] in files
        }
