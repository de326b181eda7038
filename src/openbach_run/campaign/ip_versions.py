# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of IP, `ip=4|6|6in4|4in6` of every scenario whose addresses are the inventory's.

Jobs say which of their arguments may be IPv6 addresses (`limits: {ipv6: SIDE}`), and whose they
are: of the traffic (inside) or of a tunnel's ends (outside). A VPN says on which side it can have
IPv6 (`ipv6` of vpn.json), a PEP that it can (pep.json).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from openbach_jobs.link_file import near
from openbach_jobs.presets import DAMA, DVBS2
from openbach_run.catalog import Entries, description, with_base
from openbach_run.errors import InputError
from openbach_run.openbach.job import Job
from openbach_run.openbach.limits import INSIDE, IPV6, OUTSIDE
from openbach_run.openbach.scenario import Scenario
from openbach_run.openbach.uses import Use, every_use
from openbach_run.openbach.values import sole_placeholder
from openbach_run.topology.hosts import Inventory
from openbach_run.topology.references import value_of

IP = "ip"
VERSIONS: Mapping[str, tuple[str, ...]] = {
    "4": (),
    "6": (INSIDE, OUTSIDE),
    "6in4": (INSIDE,),
    "4in6": (OUTSIDE,),
}
"""The sides that are IPv6, by value."""
DESCRIPTION = "Version of IP: 4, 6, 6in4 (IPv6 in a tunnel over IPv4), 4in6"
NONE = "none"
VALUES = {
    "nat": ("terminal", "the NAT translates IPv4 addresses only"),
    "access": (DAMA, "it knows terminals by their IPv4 addresses"),
    "forward": (DVBS2, "it knows terminals by their IPv4 addresses"),
    "event": ("address", "what is changed is the IPv4 address"),
}
"""Values that go together with IPv4 outside of the tunnel only: name → the value, and why."""


@dataclass(frozen=True)
class Addresses:
    """The constants of scenarios that are addresses of the inventory, and who uses them."""

    references: Mapping[str, str]
    """Constant → its reference to the inventory."""
    uses: Sequence[tuple[str, Use]]
    """Constant, and a job's argument that gets it as an address."""

    def of(self, value: str, inventory: Inventory) -> dict[str, str]:
        """Return the IPv6 addresses of a value of `ip`, by constant. Raises InputError."""
        return {
            name: value_of(self.references[name].replace(".address", ".ipv6"), inventory)
            for name, use in self.uses
            if use.argument.limits.get(IPV6) in VERSIONS[value]
        }

    def check(self, text: str) -> None:
        """Raise InputError for a job that takes IPv4 addresses only."""
        for _, use in self.uses:
            if IPV6 not in use.argument.limits:
                job, argument = use.place.split(".")[-2:]
                raise InputError(f"{text}: {argument} of the job {job} is an IPv4 address")


def addresses_in(
    scenario: Scenario, sub_scenarios: Mapping[str, Scenario], jobs: Mapping[str, Job]
) -> Addresses:
    """Return the addresses in a scenario and its sub-scenarios."""
    references = {
        name: reference
        for holder in (*sub_scenarios.values(), scenario)
        for name, reference in holder.addresses.items()
    }
    uses = [
        (sole_placeholder(use.template) or "", use)
        for use in every_use(scenario, jobs, sub_scenarios)
        if use.argument.type in ("ip", "network")
    ]
    return Addresses(references, [pair for pair in uses if pair[0] in references])


def check_values(values: Sequence[str]) -> None:
    """Raise InputError for a value that `ip` does not have."""
    for value in values:
        if value not in VERSIONS:
            raise InputError(
                f"{IP}={value}: {near(value, VERSIONS)}it is one of {', '.join(VERSIONS)}"
            )


def check_cell(cell: Mapping[str, str], places: Sequence[Use], entries: Entries) -> None:
    """Check that a cell's link, VPNs and PEPs can have its version of IP. Raises InputError.

    `cell` has the constants, too; `places` are the uses that name folders.
    """
    sides, text = VERSIONS[cell[IP]], f"{IP}={cell[IP]}"
    for name, (value, why) in VALUES.items():
        if OUTSIDE in sides and cell.get(name) == value:
            raise InputError(f"{text}: {name}={value}: {why}")
    chosen: dict[str, dict[str, str]] = {"vpn-configs": {}, "peps": {}, "quic-stacks": {}}
    for use in places:
        if (kind := use.argument.limits["folder"]) in chosen:
            name = sole_placeholder(use.template) or use.argument.name
            chosen[kind][name] = Template(use.template).safe_substitute(cell)
    _check_vpns(chosen["vpn-configs"], sides, entries["vpn-configs"], text)
    in_use = {"peps": cell.get("pep", NONE) != NONE, "quic-stacks": cell.get("http") == "3"}
    for kind in (kind for kind in in_use if in_use[kind] and INSIDE in sides):
        for name, program in chosen[kind].items():
            folder = entries[kind].get(program)
            if folder and not description(folder).get(IPV6):
                raise InputError(f"{text}: {name}={program} has IPv4 only")


def _check_vpns(
    chosen: Mapping[str, str], sides: Sequence[str], vpns: Mapping[str, Path], text: str
) -> None:
    """Raise InputError for a VPN that cannot have IPv6, or a tunnel that is not there."""
    tunnels = {name: vpn for name, vpn in chosen.items() if vpn in vpns}
    if len(sides) == 1 and {*chosen.values()} <= {NONE}:
        raise InputError(f"{text}: there is no tunnel (vpn={NONE}): give {IP}=6 or {IP}=4")
    for name, vpn in tunnels.items():
        had = with_base(vpns[vpn], vpns).get(IPV6, [])
        if lacking := [side for side in sides if side not in had]:
            can = [version for version, needed in VERSIONS.items() if {*needed} <= {*had}]
            raise InputError(
                f"{text}: {name}={vpn} has no IPv6 {' and '.join(lacking)} its tunnel here; it has"
                f" {IP}={','.join(can)}"
            )
