# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts and networks that a campaign's runs had, and which hosts do what.

They are joined as the runs' inventories say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openbach_run.report.cells import Campaigns, jobs_of, text_of
from openbach_run.results import run_json
from openbach_run.topology.inventory import host_of

Runs = Mapping[str, Mapping[str, Any]]
"""Scenario → run.json of one of its runs."""


@dataclass(frozen=True)
class Hosts:
    """The hosts of some scenarios.

    `lines` are a drawing: one line if the hosts stand in a line, else a line for each network.
    """

    scenarios: list[str]
    lines: list[str]
    vpn: list[str]
    """Hosts with an end of a VPN."""
    links: list[str]
    """Hosts that emulate a satellite link."""


def hosts(runs: Runs) -> list[Hosts]:
    """Return the hosts in the campaigns' order; scenarios with the same hosts are together."""
    by_lines: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for name, run in runs.items():
        used = [tuple(_entities(run["scenario"], job)) for job in ("vpn", "satcom_link")]
        key = (tuple(drawing(run.get("inventory", {}))), *used)
        by_lines.setdefault(key, []).append(name)
    return [Hosts(scenarios, *map(list, key)) for key, scenarios in by_lines.items()]


def pep_hosts(campaigns: Campaigns, runs: Runs) -> dict[str, list[str]]:
    """Return the hosts that are a proxy, by the position of the PEP, if it was run."""
    by_value: dict[str, list[str]] = {}
    for run in runs.values():
        for entity, _, arguments in jobs_of(run["scenario"]):
            for position in text_of(arguments.get("at")).split(","):
                by_value.setdefault(position, []).append(host_of(entity))
    positions = sorted(by_value.keys() & {*campaigns.distinct("pep")})
    return {position: list(dict.fromkeys(by_value[position])) for position in positions}


def drawing(inventory: Mapping[str, Any]) -> list[str]:
    """Return the hosts as they are joined.

    The result is `["pc ── box ── pop"]`, or, if the hosts do not stand in a line, `["lan: box_1,
    box_2, box_3", "site_1: pc_1, box_1"]`.
    """
    networks: dict[str, list[str]] = {}
    for host in inventory.get("hosts", []):
        for interface in host["interfaces"]:
            networks.setdefault(interface["network"], []).append(host["name"])
    if line := _line(list(networks.values())):
        return [" ── ".join(line)]
    return [f"{name}: {', '.join(names)}" for name, names in networks.items()]


def _line(networks: list[list[str]]) -> list[str]:
    """Return the hosts from one end to the other; [] if they do not stand in a line."""
    beside: dict[str, list[str]] = {}
    for names in networks:
        if len(names) != 2:
            return []
        for name, other in (names, names[::-1]):
            beside.setdefault(name, []).append(other)
    ends = [name for name, others in beside.items() if len(others) == 1]
    if len(ends) != 2 or max(map(len, beside.values())) > 2:
        return []
    line, ahead = [ends[0]], beside[ends[0]]
    # From the second host on one neighbour is the one before, the other the next.
    while ahead:
        line.append(ahead[0])
        ahead = [name for name in beside[line[-1]] if name != line[-2]]
    return line if len(line) == len(beside) else []


def runs_of_scenarios(campaigns: Campaigns) -> Runs:
    """Return run.json of one run of each scenario."""
    runs = [run for run in campaigns.runs if run.has_files]
    run_dirs = {run.record.scenario: run.run_dir for run in runs if run.record}
    return {name: run_json.read(run_dir) for name, run_dir in run_dirs.items()}


def _entities(scenario: Mapping[str, Any], job: str) -> list[str]:
    """Return the hosts on which the scenario starts the job, sorted."""
    started = [host_of(entity) for entity, name, _ in jobs_of(scenario) if name == job]
    return sorted(set(started))
