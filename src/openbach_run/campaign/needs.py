# SPDX-License-Identifier: GPL-3.0-or-later
"""What the values of a campaign need of the kernel that they are to run on, and which of them a host rules out.

Jobs declare it (`limits: {needs: …}`, openbach/limits.py), a VPN's vpn.json has it as `needs` (without it a VPN in user
space needs TUN), and a congestion control is one that the host's namespaces may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

from openbach_run.additions import Additions, description
from openbach_run.campaign.plan import Campaign, own_values
from openbach_run.engine.native.boundary import IN_WORDS, Host
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import Package
from openbach_run.openbach.limits import Use, names_folders, needed, uses

VPNS, CONTROLS = "vpn-configs", "congestion-controls"
PARAMETERS = Path("/sys/module")
ALLOWED = "net.ipv4.tcp_allowed_congestion_control"


def check_host(campaign: Campaign, packages: Mapping[str, Package], additions: Additions, host: Host) -> None:
    """Raises InputError that names the values of the campaign which this host rules out, each with its reason."""
    jobs = {name: package.job for name, package in packages.items()}
    places = uses(campaign.scenario, jobs, campaign.sub_scenarios)
    reasons: dict[str, str] = {}
    for cell in (own_values(campaign, one) for one in campaign.cells):
        own = [use for use in places if use.names <= cell.keys()]
        for feature, use in needed(own, cell).items():
            if feature not in host.features:
                reasons[_given(use, cell)] = f"needs {IN_WORDS.get(feature, feature)}"
        for use, kind, name in _folders(own, cell, additions):
            if why := _why_not(additions, kind, name, host):
                reasons[_given(use, cell)] = why
    if reasons:
        lacking = ", ".join(IN_WORDS.get(name, name) for name in host.lacking)
        controls = ", ".join(sorted(host.congestion_controls))
        raise InputError("\n  ".join([
            f"{campaign.scenario.name}: this host's kernel lacks {lacking or 'nothing that we know of'}; its namespaces may "
            f"have the congestion controls {controls}. That rules out",
            *(f"{given}: {why}" for given, why in reasons.items()),
            "the virtual engine has all of it; natively give other values",
        ]))  # fmt: skip


def _given(use: Use, cell: Mapping[str, str]) -> str:
    """`rate=100M`, as the user knows it."""
    value = Template(use.template).safe_substitute(cell)
    name = use.template[1:] if use.template[:1] == "$" else use.argument.name
    return f"{name}={value}"


def _folders(places: list[Use], cell: Mapping[str, str], additions: Additions) -> Iterator[tuple[Use, str, str]]:
    for use in places:
        for key in names_folders(use.argument):
            kind, value = use.argument.limits[key], Template(use.template).safe_substitute(cell)
            if kind in (VPNS, CONTROLS) and additions.find(kind, value):
                yield use, kind, value


def _why_not(additions: Additions, kind: str, name: str, host: Host) -> str:
    described: dict[str, Any] = {}
    for one in reversed(additions.with_base(kind, name)):
        described |= description(additions.all(kind)[one])
    if kind == VPNS:
        needs = described.get("needs", ["tun"] if described.get("runs_in") == "user space" else [])
        tools = [tool for tool in ("nft",) if tool in described.get("commands", ())]
        lacking = [IN_WORDS.get(one, one) for one in (*needs, *tools) if one not in host.features]
        return f"needs {', '.join(lacking)}" if lacking else ""
    algorithm = described.get("algorithm", name)
    if algorithm not in host.congestion_controls:
        return f"no congestion control of this host's namespaces ({ALLOWED})"
    for parameter, value in described.get("parameters", {}).items():
        module, _, called = parameter.partition("/")
        file = PARAMETERS / module / "parameters" / called
        if not file.exists() or file.read_text().strip() != value:
            return f"sets {parameter} to {value} for the whole kernel, which would change this host"
    return ""
