# SPDX-License-Identifier: GPL-3.0-or-later
"""A check that this host's kernel has what the values of a campaign need of it.

Jobs declare their needs (`limits: {needs: …}`, openbach/limits.py). A VPN's vpn.json has them as
`needs`; without this key a VPN in user space needs TUN. A congestion control must be one that the
host's namespaces may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

from openbach_jobs.kernel import LINK, PIECES, installed_by
from openbach_run.campaign.checks import own_values
from openbach_run.campaign.model import Campaign
from openbach_run.catalog import Catalog, description
from openbach_run.engine.native.boundary import Host
from openbach_run.engine.native.features import IN_WORDS
from openbach_run.errors import InputError
from openbach_run.openbach.limits import names_folders
from openbach_run.openbach.uses import Use
from openbach_run.openbach.value_checks import needed

VIRTUAL_ONLY = ("dama", "dvbs2")
"""The features of a return link that has to be asked for, and of a forward link in frames."""
VPNS, CONTROLS = "vpn-configs", "congestion-controls"
PARAMETERS = Path("/sys/module")
ALLOWED = "net.ipv4.tcp_allowed_congestion_control"


def check_host(campaign: Campaign, catalog: Catalog, host: Host) -> None:
    """Check the campaign's values against this host.

    Raises InputError that names the values which the host rules out, each with the reason.
    """
    reasons: dict[str, str] = {}
    needs: dict[str, dict[str, None]] = {}
    for cell in (own_values(campaign, cell) for cell in campaign.cells):
        # A use whose values the cell does not have gives nothing to a job in it.
        own = [use for use in campaign.places if use.names <= cell.keys()]
        for feature, use in needed(own, cell).items():
            wanted = LINK if feature == "netem" else (feature,)
            lacks = {IN_WORDS.get(name, name): None for name in wanted if name not in host.features}
            if lacks:
                needs.setdefault(_given(use, cell), {}).update(lacks)
        for use, kind, name in _folders(own, cell, catalog):
            if why := _why_not(catalog, kind, name, host):
                reasons[_given(use, cell)] = why
    reasons |= {setting: f"needs {', '.join(lacks)}" for setting, lacks in needs.items()}
    if reasons:
        lacking = ", ".join(IN_WORDS.get(name, name) for name in host.lacking)
        install = f", or install it: {installed_by()}" if {*PIECES} & {*host.lacking} else ""
        controls = ", ".join(sorted(host.congestion_controls))
        raise InputError(
            "\n  ".join(
                [
                    (
                        f"{campaign.scenario.name}: this host's kernel lacks"
                        f" {lacking or 'nothing that we know of'}; its namespaces may have the"
                        f" congestion controls {controls}. That rules out"
                    ),
                    *(f"{setting}: {why}" for setting, why in reasons.items()),
                    f"the virtual engine has all of it; natively give other values{install}",
                ]
            )
        )


def check_platform(campaign: Campaign) -> None:
    """Check that no value needs what only the virtual engine's kernel has.

    Raises InputError that names the first such value.
    """
    for cell in (own_values(campaign, cell) for cell in campaign.cells):
        own = [use for use in campaign.places if use.names <= cell.keys()]
        lacking = needed(own, cell)
        for feature in VIRTUAL_ONLY:
            if use := lacking.get(feature):
                raise InputError(
                    f"{campaign.scenario.name}: {_given(use, cell)}: a real platform needs"
                    f" {IN_WORDS[feature]}"
                )


def _given(use: Use, cell: Mapping[str, str]) -> str:
    """Return an argument as the user writes it: `rate=100M`."""
    value = Template(use.template).safe_substitute(cell)
    name = use.template[1:] if use.template[:1] == "$" else use.argument.name
    return f"{name}={value}"


def _folders(
    places: list[Use], cell: Mapping[str, str], catalog: Catalog
) -> Iterator[tuple[Use, str, str]]:
    """Yield the VPNs and congestion controls that a cell names: where, the kind, the name."""
    for use in places:
        for key in names_folders(use.argument):
            kind, value = use.argument.limits[key], Template(use.template).safe_substitute(cell)
            if kind in (VPNS, CONTROLS) and catalog.find(kind, value):
                yield use, kind, value


def _why_not(catalog: Catalog, kind: str, name: str, host: Host) -> str:
    """Return the reason why this host cannot have a VPN or a congestion control; "" if it can."""
    # A variant's own keys replace those of its base, so the base comes first.
    described: dict[str, Any] = {}
    for entry in reversed(catalog.names_with_base(kind, name)):
        described |= description(catalog.all(kind)[entry])
    if kind == VPNS:
        needs = described.get("needs", ["tun"] if described.get("runs_in") == "user space" else [])
        tools = [tool for tool in ("nft",) if tool in described.get("commands", ())]
        lacking = [IN_WORDS.get(key, key) for key in (*needs, *tools) if key not in host.features]
        return f"needs {', '.join(lacking)}" if lacking else ""
    algorithm = described.get("algorithm", name)
    if algorithm not in host.congestion_controls:
        return f"no congestion control of this host's namespaces ({ALLOWED})"
    # A module's parameters are not per namespace: only values that the host already has are
    # allowed.
    for parameter, value in described.get("parameters", {}).items():
        module, _, called = parameter.partition("/")
        file = PARAMETERS / module / "parameters" / called
        if not file.exists() or file.read_text().strip() != value:
            return f"sets {parameter} to {value} for the whole kernel, which would change this host"
    return ""
