# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a VPN as settings: `vpn.cipher=AES-128-GCM,AES-256-GCM vpn.keepalive=10`.

A scenario has one constant for them, `vpn_values`. Its text is `cipher=AES-128-GCM;keepalive=10` or
`none`. All settings `vpn.NAME` together are the values of that constant: their product, in the
order given. The value `default` leaves a name out, so that a sweep can include the VPN's own value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from string import Template

from openbach_run.campaign.entries import check_vpn_values
from openbach_run.errors import InputError
from openbach_run.openbach.limits import VALUES_OF
from openbach_run.openbach.uses import Use
from openbach_run.openbach.values import sole_placeholder

NONE = "none"
"""The text for a VPN's own values; as the name of a VPN, it means that there is none."""
DEFAULT = "default"
SUFFIX = "_values"
Given = Mapping[str, tuple[str, ...]]


def setting_of(name: str) -> str:
    """Return the constant that a setting belongs to: `vpn_values` for `vpn.cipher`.

    Any other name is its own.
    """
    owner, dot, _ = name.partition(".")
    return f"{owner}{SUFFIX}" if dot else name


def folded(given: Given) -> dict[str, tuple[str, ...]]:
    """Return the settings, with constants in place of the settings of a VPN's values.

    Raises InputError.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in given:
        constant = setting_of(name)
        if constant in given and constant != name:
            raise InputError(f"{name} and {constant} are the same setting: give one of them")
        if constant == name:
            found[name] = given[name]
        elif constant not in found:
            found[constant] = tuple(_products(_own(given, constant)))
    return found


def _own(given: Given, constant: str) -> dict[str, tuple[str, ...]]:
    """Return the values of the settings of a constant, by the name of the VPN's value."""
    return {
        name.partition(".")[2]: values
        for name, values in given.items()
        if setting_of(name) == constant != name
    }


def _products(own: Given) -> Iterator[str]:
    """Yield the constant's text for each combination of the values."""
    for several in product(*own.values()):
        pairs = zip(own, several, strict=True)
        yield ";".join(f"{name}={value}" for name, value in pairs if value != DEFAULT) or NONE


def read_values(text: str, at: str = "") -> dict[str, str]:
    """Return name → value of a constant's text, which has the right form.

    Raises InputError for a name that occurs twice.
    """
    found: dict[str, str] = {}
    for part in text.split(";") if text != NONE else ():
        name, _, value = part.partition("=")
        if name in found:
            raise InputError(f"{at}{text}: {name} is given twice")
        found[name] = value
    return found


def check_values_of_vpns(
    places: Sequence[Use], cell: Mapping[str, str], vpns: Mapping[str, Path]
) -> None:
    """Check the VPN values of a cell.

    Raises InputError for the first value that a VPN which gets it does not have.
    """
    # The same text of values may go to several VPNs (the two ends, say): collect the VPNs by text.
    chosen: dict[str, dict[str, None]] = {}
    for use in places:
        kind = use.beside.get(use.argument.limits[VALUES_OF], NONE)
        chosen.setdefault(use.template, {})[Template(kind).safe_substitute(cell)] = None
    for template, kinds in chosen.items():
        text, constant = Template(template).safe_substitute(cell), sole_placeholder(template)
        at = f"{constant.removesuffix(SUFFIX)}." if constant else f"{template}: "
        given = read_values(text, at)
        if not given:
            continue
        # Of two tunnels one may be none: the other one has the values then.
        if {*kinds} == {NONE}:
            first = ";".join(f"{at}{name}={value}" for name, value in given.items())
            raise InputError(
                f"{first}: there is no VPN that could have it (vpn=none); leave none out"
            )
        for kind in kinds.keys() & vpns.keys():
            check_vpn_values(kind, given, vpns, at)
