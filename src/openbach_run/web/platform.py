# SPDX-License-Identifier: GPL-3.0-or-later
"""The platform that the local controller presents: an agent on each host, with all jobs installed.

The hosts are those of the inventory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.catalog import Catalog
from openbach_run.errors import InputError
from openbach_run.openbach import project
from openbach_run.openbach.job import Job
from openbach_run.openbach.job_folders import Package
from openbach_run.openbach.scenario import Scenario
from openbach_run.paths import INVENTORY, PROJECT
from openbach_run.topology.hosts import Inventory
from openbach_run.topology.inventory import load_inventory
from openbach_run.web.replay import as_date
from openbach_run.yaml_files import read_yaml

VERSION = "2.7.0"
"""The version of OpenBACH whose API this is."""
COLLECTOR = "127.0.0.1"
"""Address of the collector that the API shows: there is none."""
PLATFORM_KEYS = (
    *("ansible_system", "ansible_distribution", "ansible_distribution_release"),
    *("command", "command_stop"),
)
"""Keys of a platform that a job says it supports."""
AGENT_PORT = 1112
STARTED = as_date(datetime.now(UTC))


@dataclass(frozen=True)
class Platform:
    """The hosts and jobs. `addresses` are the agents' addresses, by entity of the inventory."""

    inventory: Inventory
    addresses: Mapping[str, str]
    packages: Mapping[str, Package]
    catalog: Catalog = field(default_factory=Catalog)

    @property
    def jobs(self) -> dict[str, Job]:
        """Return the jobs by name."""
        return {name: package.job for name, package in self.packages.items()}

    def host_at(self, address: str) -> str | None:
        """Return the entity of the inventory whose agent has this address, or None."""
        return next((entity for entity, known in self.addresses.items() if known == address), None)

    def topology_of(self, scenario: Scenario) -> Inventory | None:
        """Return the inventory of topologies/ that a scenario names; None if it is the platform's.

        Only the name of the file counts: a scenario that somebody sends names no other file.
        Raises InputError.
        """
        file = (scenario.source.get("x-inventory") or {}).get("file")
        name = Path(str(file or INVENTORY)).stem
        if name == INVENTORY.stem:
            return None
        topologies = self.catalog.all("topologies")
        if name not in topologies:
            raise InputError(
                f"{scenario.name}: x-inventory.file: there is no {name}.yml in topologies/;"
                f" {near(name, topologies)}there are {', '.join(topologies)}"
            )
        return load_inventory(topologies[name])

    def agent(self, address: str, project: str | None) -> dict[str, Any] | None:
        """Return the agent at an address as the API shows it, or None."""
        entity = self.host_at(address)
        if entity is None:
            return None
        return {
            "name": entity,
            "address": address,
            "port": AGENT_PORT,
            "collector_ip": COLLECTOR,
            "reachable": True,
            "available": True,
            "status": "Available",
            "project": project,
            "reserved": None,
        }

    def installed_jobs(self) -> list[dict[str, Any]]:
        """Return the jobs that are on every agent: all that can be run."""
        alike = {
            "update_status": STARTED,
            "severity": 4,
            "local_severity": 4,
            "default_stat_policy": {"local": True, "storage": True, "broadcast": False},
            "statistic_instances": [],
        }
        packages = self.packages.items()
        return [{"name": name, **alike} for name, job in packages if job.files is not None]

    @cached_property
    def described(self) -> dict[str, dict[str, Any]]:
        """Return all jobs as the API shows them, by name."""
        return {name: self._described(name, known) for name, known in self.packages.items()}

    def _described(self, name: str, known: Package) -> dict[str, Any]:
        """Return a job as the API shows it."""
        description = _description(known)
        general = description.get("general") or {}
        return {
            "general": {
                "name": name,
                "description": " ".join(str(general.get("description") or "").split()),
                "job_version": known.job.version,
                "keywords": list(map(str, general.get("keywords") or [])),
                "persistent": bool(general.get("persistent")),
            },
            "platform_configuration": _platforms(description.get("platform_configuration")),
            "arguments": _arguments(known.job.tree),
            "statistics": list(map(_statistic, description.get("statistics") or [])),
        }

    def help(self, name: str) -> str:
        """Return the job's help, or its description if it has none."""
        known = self.packages[name]
        if known.files and (file := known.files / f"{name}.help").exists():
            return file.read_text()
        return str(self.described[name]["general"]["description"])

    def default_project(self) -> dict[str, Any]:
        """Return the project that exists from the beginning, with its agents attached."""
        document = project.project(PROJECT, self.inventory, [])
        for entity in document["entity"]:
            entity["agent"] = {"address": self.addresses[entity["name"]]}
        return document


def _statistic(described: Mapping[str, Any]) -> dict[str, str]:
    """Return a statistic as the API shows it: its keys as texts."""
    return {key: str(described.get(key) or "") for key in ("name", "description", "frequency")}


def _description(known: Package) -> dict[str, Any]:
    """Return the content of the job's YAML file; {} if the job has no files."""
    if known.files is None:
        return {}
    loaded: dict[str, Any] = read_yaml(known.files / f"{known.job.name}.yml")
    return loaded


def _platforms(block: Any) -> list[dict[str, Any]]:
    """Return the platforms of a job in one form, whichever of two its description has."""
    if isinstance(block, list):
        return [dict(platform) for platform in block]
    if not isinstance(block, dict):
        return []
    common = {key: value for key, value in block.items() if key != "supported_platforms"}
    common = dict.fromkeys(PLATFORM_KEYS) | common
    platforms = [common | supported for supported in block.get("supported_platforms") or [{}]]
    return [dict(zip(PLATFORM_KEYS, itemgetter(*PLATFORM_KEYS)(p), strict=True)) for p in platforms]


def _arguments(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's arguments as the API answers.

    If there are any subcommands, they are under `subcommands` instead of the description's
    `subcommand`.
    """
    groups = []
    for group in tree.get("subcommand") or []:
        choices = [{**_arguments(choice), "name": choice["name"]} for choice in group["choices"]]
        optional = bool(group.get("optional"))
        groups.append({"group_name": group["group_name"], "optional": optional, "choices": choices})
    options = []
    for entry in tree.get("optional") or []:
        flag = {"flag": str(entry["flag"]), "repeatable": bool(entry.get("repeatable"))}
        options.append({**_argument(entry), **flag})
    return {
        "required": list(map(_argument, tree.get("required") or [])),
        "optional": options,
        **({"subcommands": groups} if groups else {}),
    }


def _argument(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an argument as the API shows it."""
    choices = [str(choice) for choice in entry.get("choices") or []]
    return {
        "name": entry["name"],
        "type": str(entry["type"]),
        "count": str(entry.get("count", 1)),
        "description": str(entry.get("description") or ""),
        "password": bool(entry.get("password")),
        **({"default": str(entry["default"])} if entry.get("default") is not None else {}),
        **({"choices": choices} if choices else {}),
    }
