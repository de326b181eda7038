# SPDX-License-Identifier: GPL-3.0-or-later
"""A resolver of references to an inventory.

A reference is one of

    ENTITY.NETWORK.WHAT     WHAT is address, ipv6, interface (its name), or shares: what each
                            neighbour there has of a return link that has to be asked for
    NETWORK.WHAT            WHAT is address or ipv6, with mask, or mtu
"""

from __future__ import annotations

from openbach_run.errors import InputError
from openbach_run.topology.hosts import Host, Inventory
from openbach_run.topology.mappings import listed


def value_of(reference: str, inventory: Inventory) -> str:
    """Return the value of a reference ENTITY.NETWORK.WHAT or NETWORK.WHAT. Raises InputError."""
    place, _, what = reference.rpartition(".")
    entity, _, name = place.rpartition(".")
    if name not in inventory.networks:
        raise InputError(
            f"{reference!r}: the inventory has no network {name!r}; it has"
            f" {listed(inventory.networks)}"
        )
    values: dict[str, str | int | None]
    if entity:
        host = inventory.host(entity)
        if host is None:
            known = listed(host.entity for host in inventory.hosts)
            raise InputError(f"{reference!r}: the inventory has no entity {entity}; it has {known}")
        port = next((port for port in host.interfaces if port.network == name), None)
        if port is None:
            known = listed(port.network for port in host.interfaces)
            raise InputError(
                f"{reference!r}: {entity} has no interface in {name}; it has some in {known}"
            )
        values = {
            "address": port.address,
            "ipv6": port.ipv6,
            "interface": port.name,
            "shares": _shares(inventory, host, name),
        }
    else:
        network = inventory.networks[name]
        values = {"address": network.address, "ipv6": network.ipv6, "mtu": network.mtu}
    if what not in values:
        raise InputError(f"{reference!r}: {what!r} is none of {listed(values)}")
    if values[what] is None:
        raise InputError(f"{reference!r}: {name} has no IPv6 addresses in the inventory")
    return str(values[what])


def _shares(inventory: Inventory, host: Host, network: str) -> str:
    """Return ADDRESS:SHARE/ADDRESS:SHARE of a host's neighbours; none if no one has a share."""
    shares = []
    for port, others in inventory.neighbours(host):
        if port.network == network:
            shares += [(peer.address, inventory.share_at(peer.address)) for peer in others]
    text = "/".join(f"{address}:{share}" for address, share in shares)
    return text if any(share for _, share in shares) else "none"
