# SPDX-License-Identifier: GPL-3.0-or-later
"""The MTU of a tunnel whose packets fit a path in one piece.

It follows from what its vpn.json says of a packet (`framing`).

    outer    bytes of the outer packet that do not depend on the inner one: headers, tag, …
    inner    bytes that are encrypted with the inner packet, padding's own included
    block    both together are padded to a multiple of it

so a packet of n bytes becomes one of outer + (n + inner, rounded up to a multiple of block). Where
it depends on the cipher, `framing` has those by a regular expression that the whole value `cipher`
matches, of any case. A program that does not use all of a path has two more: `spare`, bytes that it
leaves of each packet, and `most`, the largest outer packet that it makes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ETHERNET_MTU = 1500
"""MTU in bytes of the path that `inner_mtu` of a vpn.json is for."""
LEAST_MTU = 576
"""Largest packet in bytes that every host takes: RFC 791, 3.1."""


class MtuError(Exception):
    """No MTU fits; the text says why, and what would."""


def framing_of(vpn: Mapping[str, Any]) -> Mapping[str, int] | None:
    """Return the framing of the cipher in force, in bytes.

    None for a stream, whose TCP makes packets that fit, and for a VPN that nobody has measured.
    Raises MtuError for a cipher that nobody has described.
    """
    framing: Mapping[str, Any] | None = vpn["framing"]
    if framing is None:
        overhead = vpn["overhead_bytes"]
        return None if overhead is None else {"outer": overhead, "inner": 0, "block": 1}
    if "outer" in framing:
        return framing
    cipher = str(vpn["values"].get("cipher", ""))
    for pattern, of_cipher in framing.items():
        if re.fullmatch(pattern, cipher, re.IGNORECASE):
            chosen: Mapping[str, int] = of_cipher
            return chosen
    raise MtuError(
        f"how many bytes the cipher {cipher} adds is not known: give vpn.json `framing`"
        f" (vpn-configs/README.md); known are {', '.join(framing)}"
    )


def outer_bytes(framing: Mapping[str, int], inner_bytes: int) -> int:
    """Return the size of the packet that carries one of `inner_bytes`, in bytes."""
    block = framing["block"]
    return framing["outer"] + -(-(inner_bytes + framing["inner"]) // block) * block


def largest_inner(framing: Mapping[str, int], path_mtu: int) -> int:
    """Return the largest inner packet that a path carries in one piece."""
    block = framing["block"]
    used = min(path_mtu, framing.get("most", path_mtu)) - framing.get("spare", 0)
    return (used - framing["outer"]) // block * block - framing["inner"]


def fitting_mtu(vpn: Mapping[str, Any], path_mtu: int) -> int:
    """Return the value `mtu` as it is, or else the `inner_mtu` of vpn.json, as the path allows.

    That is larger by what the path's packets are larger than Ethernet's, and smaller where a packet
    of it would not fit. Raises MtuError where a vpn.json asks for one that does not fit even
    Ethernet, or the path carries none.
    """
    if "mtu" in vpn["values"]:
        return int(vpn["values"]["mtu"])
    wanted = int(vpn["inner_mtu"]) + max(0, path_mtu - ETHERNET_MTU)
    framing = framing_of(vpn)
    if framing is None:
        return wanted
    fits = largest_inner(framing, path_mtu)
    if (
        vpn["own_mtu"]
        and path_mtu <= ETHERNET_MTU
        and wanted > (most := largest_inner(framing, ETHERNET_MTU))
    ):
        raise MtuError(
            f"its MTU is too big: packets of {wanted} bytes take {outer_bytes(framing, wanted)} in"
            f" the tunnel and do not fit a path of {path_mtu} bytes; at most {min(most, fits)}"
        )
    if (mtu := min(wanted, fits)) < LEAST_MTU:
        raise MtuError(
            f"no tunnel fits a path of {path_mtu} bytes: {mtu} would be left, at least {LEAST_MTU}"
            " are needed"
        )
    return mtu
