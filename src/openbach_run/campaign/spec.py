# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a campaign: the complete description of each, and the name that follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from openbach_jobs.presets import ES_N0_FILE
from openbach_run.campaign.ip_versions import IP
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.noise import DEFAULT, NOISE, distributions
from openbach_run.campaign.vpn_config import Config
from openbach_run.campaign.vpn_values import configs_of
from openbach_run.catalog import Uses
from openbach_run.clock import VIRTUAL
from openbach_run.guest.main import LINK_FILES
from openbach_run.json_files import read_text
from openbach_run.link_checks import ORBIT, check_terminals
from openbach_run.openbach.scenario import Scenario, defaults_of
from openbach_run.semantic_hash import acting_job, acting_scenario
from openbach_run.topology.hosts import Inventory
from openbach_run.topology.ip_versions import with_ipv6
from openbach_run.topology.networks import check_mtus, with_mtus

VIRTUAL_LIMIT_S = 4 * 3600.0
"""Virtual seconds after which a run is ended; its error names what still runs."""


NOT_HASHED = ("origin", "digest", "files", "vpn_configs", "in_ipv6", "satellite_files")
"""Fields of a cell that its digest has in another form, or that follow from others: the hash of a
run without them stays."""


@dataclass(frozen=True)
class Origin:
    """The part of the description that all runs of a scenario in a campaign have in common."""

    scenario: Scenario
    """The scenario, with the addresses of the inventory."""
    sub_scenarios: Mapping[str, Scenario] = field(default_factory=dict)
    jobs: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    inventory: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Return the hash of all of it that affects a run. It is computed once in a campaign."""
        return _digest(
            {
                "scenario": _acting(self.scenario),
                "sub_scenarios": {name: _acting(sub) for name, sub in self.sub_scenarios.items()},
                "jobs": {name: acting_job(job) for name, job in self.jobs.items()},
                "inventory": self.inventory,
            }
        )

    @cached_property
    def constants(self) -> dict[str, str]:
        """Return the scenarios' own values of their constants, for cells that have none."""
        return defaults_of((*self.sub_scenarios.values(), self.scenario))


@dataclass(frozen=True)
class CellSpec:
    """A cell: all that its runs depend on, except the seed."""

    origin: Origin
    values: dict[str, str]
    """Values of arguments and constants, also of sub-scenarios, as they were given: the columns of
    results.csv."""
    identity: dict[str, str] = field(default_factory=dict)
    """The identity of the engine: kernel, guest tree, and the code that this run uses."""
    uses: Mapping[str, list[str]] = field(default_factory=dict)
    """Names of jobs and folders (catalog.py) by kind."""
    link_files: dict[str, str] = field(default_factory=dict)
    """Content of the files that arguments and constants name, by the name of the argument or
    constant."""
    vpn_configs: Mapping[str, Config] = field(default_factory=dict)
    """The parts taken of the VPN files that constants name, by constant."""
    in_ipv6: Mapping[str, str] = field(default_factory=dict)
    """The constants that are IPv6 addresses in this cell (ip_versions.py)."""
    satellite_files: Mapping[str, str] = field(default_factory=dict)
    """Content of the link files of the campaign's satellites, by satellite, for reports: the
    identity has its own for the run."""

    @cached_property
    def digest(self) -> str:
        """Return the hash of all of it that affects its runs."""
        # __dict__ also has the cached digest; the origin has a digest of its own, taken once.
        own = {name: value for name, value in self.__dict__.items() if name not in NOT_HASHED}
        if self.vpn_configs:
            own["vpn_configs"] = {name: file.to_record() for name, file in self.vpn_configs.items()}
        constants = {
            name: value for name, value in self.origin.constants.items() if name not in self.values
        }
        noise = {NOISE: self.noise} if self.noise else {}
        return _digest({**own, **noise, "constants": constants, "origin": self.origin.digest})

    @cached_property
    def files(self) -> dict[str, str]:
        """Return what names a file, like `link_file=mine.csv` → hash of the file's content."""
        named = {f"{name}={self.values[name]}": text for name, text in self.link_files.items()}
        used = self.satellite_files.keys() & self.values.values()
        named |= {f"satellite={name}": self.satellite_files[name] for name in sorted(used)}
        named |= {f"vpn.config={own.file}": own.sha256 for own in self.vpn_configs.values()}
        return {name: _digest(text)[:16] for name, text in named.items()}

    @property
    def noise(self) -> dict[str, Any] | None:
        """Return the distributions of its hosts' noise; None if they have none, or a real one."""
        if self.identity.get("clock") != VIRTUAL:
            return None
        return distributions(self.values.get(NOISE, DEFAULT), self.link_files.get(NOISE))


@dataclass(frozen=True)
class RunSpec:
    """The description of everything that a run depends on.

    Its hash, without the words for people, is the name of the record. It is small, because a
    campaign may have a hundred thousand.
    """

    cell: CellSpec
    seed: int

    @cached_property
    def run_id(self) -> str:
        """Return the name of the record: 16 hexadecimal digits."""
        return _digest([self.cell.digest, self.seed])[:16]

    @property
    def values(self) -> dict[str, str]:
        """Return the cell's values."""
        return self.cell.values

    @property
    def identity(self) -> dict[str, str]:
        """Return the identity of the engine."""
        return self.cell.identity

    @property
    def scenario_name(self) -> str:
        """Return the name of the scenario."""
        return self.cell.origin.scenario.name

    @property
    def arguments(self) -> dict[str, str]:
        """Return the values of the scenario's arguments, without those of constants."""
        names = self.cell.origin.scenario.arguments
        return {name: value for name, value in self.values.items() if name in names}

    @property
    def scenario(self) -> dict[str, Any]:
        """Return the scenario in stored form, with the values of its constants."""
        return self._stored(self.cell.origin.scenario)

    @property
    def sub_scenarios(self) -> dict[str, dict[str, Any]]:
        """Return the sub-scenarios in stored form, by name, with the values of their constants."""
        return {name: self._stored(sub) for name, sub in self.cell.origin.sub_scenarios.items()}

    def _stored(self, scenario: Scenario) -> dict[str, Any]:
        """Return a scenario in stored form, with the cell's values of its constants."""
        arguments = self.cell.origin.scenario.arguments
        constants = {name: value for name, value in self.values.items() if name not in arguments}
        return scenario.with_constants({**constants, **self.cell.in_ipv6}).as_stored()

    def _started(self, scenario: Scenario) -> dict[str, Any]:
        """Return a scenario in stored form, with the functions that it has with these values."""
        return self._stored(scenario.with_functions_of({**scenario.defaults, **self.values}))

    def for_guest(self) -> dict[str, Any]:
        """Return the content of run.json, which the guest reads.

        The guest finds the link files in LINK_FILES, under the names of arguments and constants;
        `values` has the names of these files as they were given.
        """
        cell = self.cell
        inventory = with_ipv6(cell.origin.inventory) if cell.in_ipv6 else cell.origin.inventory
        # By argument and not by the file's own name: two of them may have the same.
        in_guest = {name: f"{LINK_FILES}/{name}" for name in cell.link_files}
        configured = {name: config.text for name, config in cell.vpn_configs.items()}
        in_guest |= configured
        scenario = self._started(cell.origin.scenario)
        subs = {}
        for name, sub in cell.origin.sub_scenarios.items():
            stored = self._started(sub)
            subs[name] = {**stored, "constants": _put(stored["constants"], in_guest)}
        return {
            "scenario": {**scenario, "constants": _put(scenario["constants"], in_guest)},
            "sub_scenarios": subs,
            "arguments": _put(self.arguments, in_guest),
            "seed": self.seed,
            "jobs": cell.origin.jobs,
            "inventory": with_mtus(inventory, cell.values),
            "identity": cell.identity,
            "uses": cell.uses,
            "link_files": cell.link_files,
            "satellite_file": cell.satellite_files.get(cell.values.get(ORBIT, "")),
            "values": cell.values,
            **({"configured": configured} if configured else {}),
            NOISE: cell.noise,
            "virtual_limit_s": VIRTUAL_LIMIT_S,
        }


def runs_of(
    campaign: Campaign, inventory: Inventory, identity_of: Callable[[Uses], dict[str, str]]
) -> list[RunSpec]:
    """Return the runs of a campaign, with the addresses of the inventory.

    The cells have the order of the sweep; the seeds are innermost. Raises InputError for
    addresses that the inventory does not have.
    """
    here, configs = campaign.on(inventory), campaign.vpn_configs
    jobs = {name: campaign.jobs[name].to_dict() for name in campaign.job_names}
    origin = Origin(here.scenario, here.sub_scenarios, jobs, inventory.to_dict())
    in_ipv6: dict[str, dict[str, str]] = {}
    if campaign.has_ipv6:
        both = with_ipv6(origin.inventory)
        hosts = Inventory.from_dict({**both})
        in_ipv6 = {
            version: campaign.addresses.of(version, hosts) for version in campaign.values[IP]
        }
    # Only here are both known: the cells' MTUs and the inventory's networks.
    for cell in campaign.cells:
        has_ipv6 = in_ipv6.get(cell.get(IP, ""))
        check_mtus((both if has_ipv6 else origin.inventory)["networks"], cell)
        text = _files_of(campaign, cell).get(ES_N0_FILE)
        check_terminals(cell, campaign.presets, text, inventory)
    files = ((name, preset.link_file) for name, preset in campaign.presets.items())
    of_satellites = {name: read_text(file) for name, file in files if file}
    cells = (
        CellSpec(
            origin,
            cell,
            identity_of(used),
            used,
            _files_of(campaign, cell),
            configs_of(campaign.vpn_places, cell, configs) if configs else {},
            in_ipv6.get(cell.get(IP, ""), {}),
            of_satellites,
        )
        for cell, used in zip(campaign.cells, campaign.uses, strict=True)
    )
    return [RunSpec(cell, seed) for cell in cells for seed in campaign.seeds_of(cell.values)]


def _files_of(campaign: Campaign, cell: Mapping[str, str]) -> dict[str, str]:
    """Return the content of a cell's link files, by the name of the argument or constant."""
    return {
        name: files[cell[name]]
        for name, files in campaign.link_files.items()
        if cell[name] in files
    }


def _acting(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario in stored form, with only what affects a run.

    It has no words for people. It has placeholders where a value may follow another one. It does
    not have the values that NAME=VALUE sets, because they are a cell's.
    """
    stored = acting_scenario(scenario.spelled_out.as_stored())
    cells = scenario.defaults
    constants = {name: value for name, value in stored["constants"].items() if name not in cells}
    conditions = {"x-only-if": scenario.only_if} if scenario.only_if else {}
    return {**stored, **conditions, "constants": constants}


def _digest(value: Any) -> str:
    """Return the SHA-256 of a value as JSON, in hexadecimal."""
    return hashlib.sha256(
        # Sorted, as the order of keys in a file or a dictionary changes no run.
        json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def _put(values: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return the values, each replaced by the one in `others` if there is one."""
    return {name: others.get(name, value) for name, value in values.items()}
