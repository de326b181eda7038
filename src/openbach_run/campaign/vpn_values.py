# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a VPN as settings: `vpn.cipher=AES-128-GCM,AES-256-GCM vpn.keepalive=10`.

A scenario has one constant for them, `vpn_values`. Its text is `cipher=AES-128-GCM;keepalive=10` or
`none`. All settings `vpn.NAME` together are the values of that constant: their product, in the
order given. The value `default` leaves a name out, so that a sweep can include the VPN's own value.
`vpn.client-keepalive=10` is of one end only. `vpn.config=FILE` stands for what a VPN takes of a
person's own file (vpn_config.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from string import Template

from openbach_run.campaign.vpn_config import CONFIG, ENDS, Config, read_config
from openbach_run.campaign.vpn_folder import check_vpn_values
from openbach_run.errors import InputError
from openbach_run.openbach.limits import VALUES_OF
from openbach_run.openbach.uses import Use
from openbach_run.openbach.values import sole_placeholder

NONE = "none"
"""The text for a VPN's own values; as the name of a VPN, it means that there is none."""
DEFAULT = "default"
SUFFIX = "_values"
Settings = Mapping[str, tuple[str, ...]]


def setting_of(name: str) -> str:
    """Return the constant that a setting belongs to: `vpn_values` for `vpn.cipher`.

    Any other name is its own.
    """
    owner, dot, _ = name.partition(".")
    return f"{owner}{SUFFIX}" if dot else name


def folded(settings: Settings) -> dict[str, tuple[str, ...]]:
    """Return the settings, with constants in place of the settings of a VPN's values.

    Raises InputError.
    """
    values: dict[str, tuple[str, ...]] = {}
    for name in settings:
        constant = setting_of(name)
        if constant in settings and constant != name:
            raise InputError(f"{name} and {constant} are the same setting: give one of them")
        if constant == name:
            values[name] = settings[name]
        elif constant not in values:
            values[constant] = tuple(_products(_own(settings, constant)))
    return values


def _own(settings: Settings, constant: str) -> dict[str, tuple[str, ...]]:
    """Return the values of the settings of a constant, by the name of the VPN's value."""
    return {
        name.partition(".")[2]: values
        for name, values in settings.items()
        if setting_of(name) == constant != name
    }


def _products(own: Settings) -> Iterator[str]:
    """Yield the constant's text for each combination of the values."""
    for several in product(*own.values()):
        pairs = zip(own, several, strict=True)
        yield ";".join(f"{name}={value}" for name, value in pairs if value != DEFAULT) or NONE


def read_values(text: str, at: str = "") -> dict[str, str]:
    """Return name → value of a constant's text, which has the right form.

    Raises InputError for a name that occurs twice.
    """
    values: dict[str, str] = {}
    for part in text.split(";") if text != NONE else ():
        name, _, value = part.partition("=")
        if name in values:
            raise InputError(f"{at}{text}: {name} is given twice")
        values[name] = value
    return values


Configs = Mapping[tuple[str, str], Config]
"""Text of a constant, and VPN → what the VPN takes of the file that the text names."""


def check_values_of_vpns(
    places: Sequence[Use],
    cell: Mapping[str, str],
    vpns: Mapping[str, Path],
    configs: Configs | None = None,
) -> None:
    """Check the VPN values of a cell.

    Raises InputError for the first value that a VPN which gets it does not have.
    """
    for (template, text), kinds in _chosen(places, cell).items():
        constant = sole_placeholder(template)
        at = f"{constant.removesuffix(SUFFIX)}." if constant else f"{template}: "
        values = read_values(text, at)
        if not values:
            continue
        # Of two tunnels one may be none: the other one has the values then.
        if {*kinds} == {NONE}:
            first = ";".join(f"{at}{name}={value}" for name, value in values.items())
            raise InputError(
                f"{first}: there is no VPN that could have it (vpn=none); leave none out"
            )
        for kind in kinds.keys() & vpns.keys():
            read = (configs or {}).get((text, kind))
            if CONFIG in values and read is None:
                raise InputError(
                    f"{at}{CONFIG}={values[CONFIG]}: only a command reads a file:"
                    f" ./openbach-run SCENARIO vpn={kind} {at}{CONFIG}={values[CONFIG]}"
                )
            for end in ENDS:
                check_vpn_values(kind, of_end(read.values if read else values, end), vpns, at)


def of_end(values: Mapping[str, str], end: str) -> dict[str, str]:
    """Return the values of one end: `client-keepalive` is the client's keepalive alone."""
    others = tuple(f"{other}-" for other in ENDS if other != end)
    both = {
        name: value for name, value in values.items() if not name.startswith((*others, f"{end}-"))
    }
    own = {name: value for name, value in values.items() if name.startswith(f"{end}-")}
    return both | {name.removeprefix(f"{end}-"): value for name, value in own.items()}


def read_configs(
    places: Sequence[Use], cells: Iterable[Mapping[str, str]], vpns: Mapping[str, Path]
) -> Configs:
    """Return what the VPNs of the cells take of the files that `vpn.config` names.

    Raises InputError.
    """
    configs: dict[tuple[str, str], Config] = {}
    for cell in cells:
        for (template, text), kinds in _chosen(places, cell).items():
            values = read_values(text)
            constant = sole_placeholder(template)
            if CONFIG not in values or constant is None:
                continue
            file = values.pop(CONFIG)
            for kind in kinds.keys() & vpns.keys():
                if (text, kind) not in configs:
                    at = f"{constant.removesuffix(SUFFIX)}."
                    configs[text, kind] = read_config(file, kind, values, vpns, at)
    return configs


def configs_of(
    places: Sequence[Use], cell: Mapping[str, str], configs: Configs
) -> dict[str, Config]:
    """Return what is taken of the files of a cell, by constant.

    Raises InputError where two VPNs of a cell would take other values from the same file.
    """
    by_constant: dict[str, Config] = {}
    for (template, text), kinds in _chosen(places, cell).items():
        for kind in kinds:
            if config := configs.get((text, kind)):
                name = sole_placeholder(template) or ""
                if by_constant.setdefault(name, config).text != config.text:
                    raise InputError(
                        f"{config.file}: {by_constant[name].vpn} and {kind} take other values of"
                        f" it, and {name} is one value for both"
                    )
    return by_constant


def _chosen(
    places: Sequence[Use], cell: Mapping[str, str]
) -> dict[tuple[str, str], dict[str, None]]:
    """Return the VPNs that get the same text of values, by the text's template and the text."""
    # The same may go to several VPNs (the two ends, say).
    chosen: dict[tuple[str, str], dict[str, None]] = {}
    for use in places:
        kind = use.beside.get(use.argument.limits[VALUES_OF], NONE)
        key = use.template, Template(use.template).safe_substitute(cell)
        chosen.setdefault(key, {})[Template(kind).safe_substitute(cell)] = None
    return chosen
