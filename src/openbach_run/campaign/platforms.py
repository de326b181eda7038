# SPDX-License-Identifier: GPL-3.0-or-later
"""Platforms, `platform=NAME` of every scenario: values that belong together (platforms/NAME.yml).

    description: what has these values
    lines:
      - {name: size, value: 31457280, source: "OWNER/REPOSITORY FILE COMMIT"}
      - {name: vpn.cipher, value: AES-256-CBC, if: vpn == 'openvpn_udp', source: "assumed: why"}

A line is a default of the cells for which its condition holds: a value that the user gives wins. A
scenario without such a value leaves the line out. The platform is a column, and so are its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.campaign.vpn_folder import check_vpn_values
from openbach_run.campaign.vpn_values import NONE, read_values, setting_of
from openbach_run.errors import InputError
from openbach_run.openbach import rules
from openbach_run.openbach.shapes import check
from openbach_run.paths import SCENARIOS
from openbach_run.yaml_files import read_yaml

PLATFORM, OURS = "platform", "ours"
DESCRIPTION = "Platform whose values are the defaults: ours, openbach_2021, … (folder platforms)"


@dataclass(frozen=True)
class Line:
    """A default: a value's name, its text, and for which cells it is one ("" is for all)."""

    name: str
    value: str
    condition: str

    def holds(self, cell: Mapping[str, str]) -> bool:
        """Return whether it is a default of a cell."""
        return not self.condition or rules.holds(self.condition, rules.as_numbers(cell))


Platforms = Mapping[str, tuple[Line, ...]]
"""The lines of the platforms that a campaign names."""


def read_platforms(
    names: Iterable[str], settings: Iterable[str], platforms: Mapping[str, Path],
    vpns: Mapping[str, Path],
) -> Platforms:  # fmt: skip
    """Return the platforms of these names, with every line checked. Raises InputError.

    `settings` are the names that the scenario can set. A line may be for another one of ours.
    """
    read = {}
    for name in names:
        if name == OURS and name not in platforms:
            continue  # jobs without a catalog
        if name not in platforms:
            has = f"{near(name, platforms)}there are {', '.join(sorted(platforms))}"
            raise InputError(f"{PLATFORM}={name}: no such file in platforms; {has}")
        read[name] = _read(platforms[name])
        for number, line in enumerate(read[name]):
            at = f"{platforms[name]}: lines.{number}: "
            known = {*settings, *(_settings_of_ours() if line.name not in settings else ())}
            if setting_of(line.name) not in known or line.name == PLATFORM:
                hint = near(line.name, known).rstrip("; ")
                raise InputError(f"{at}name: no scenario has {line.name}; {hint}".rstrip("; "))
        for vpn in vpns:
            if of_vpn := _of_vpn(read[name], {"vpn": vpn}):
                check_vpn_values(vpn, of_vpn, vpns, f"{platforms[name]}: vpn={vpn}: vpn.")
    return read


def _read(file: Path) -> tuple[Line, ...]:
    """Return the lines of a file. Raises InputError for another form."""
    content: Any = read_yaml(file)
    check(f"{file}", content, "platform")
    lines: list[Line] = []
    for number, entry in enumerate(content["lines"]):
        line = Line(entry["name"], str(entry["value"]), entry.get("if", ""))
        if any((line.name, line.condition) == (other.name, other.condition) for other in lines):
            raise InputError(f"{file}: lines.{number}: {line.name} is there twice")
        lines.append(line)
    return tuple(lines)


@cache
def _settings_of_ours() -> frozenset[str]:
    """Return the names that our scenarios can set."""
    names: set[str] = set()
    for file in SCENARIOS.rglob("*.yml"):
        content = read_yaml(file)
        for key in ("arguments", "constants"):
            names |= {*(content.get(key) or {})}
    return frozenset(names)


def _of_vpn(lines: Iterable[Line], cell: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a cell's VPN, by their names in its folder."""
    return {
        line.name.partition(".")[2]: line.value
        for line in lines
        if "." in line.name and line.holds(cell)
    }


def applied(cell: dict[str, str], platforms: Platforms, chosen: frozenset[str]) -> dict[str, str]:
    """Return a cell with its platform's values in place of those that nobody gave."""
    lines = platforms.get(cell.get(PLATFORM, OURS), ())
    own = {
        line.name: line.value
        for line in lines
        if line.name in cell and line.name not in chosen and line.holds(cell)
    }
    of_vpn, constant = _of_vpn(lines, cell), setting_of("vpn.")
    # A user who gives a value of the VPN leaves the platform's others.
    if of_vpn and constant in cell and not (constant in chosen and cell[constant] == NONE):
        values = {**of_vpn, **read_values(cell[constant])}
        own[constant] = ";".join(f"{name}={value}" for name, value in values.items())
    return {**cell, **own}


def notes(cells: Iterable[Mapping[str, str]], platforms: Platforms) -> Iterator[str]:
    """Yield a text for each value that a cell has in place of its platform's."""
    for cell in cells:
        lines = platforms.get(cell.get(PLATFORM, OURS), ())
        of_vpn = read_values(cell.get(setting_of("vpn."), NONE))
        had = {**cell, **{f"vpn.{name}": value for name, value in of_vpn.items()}}
        for line in lines:
            usual = "." in line.name and setting_of(line.name) in cell
            mine = had.get(line.name, "its own" if usual else line.value)
            if line.holds(cell) and mine != line.value:
                yield f"{PLATFORM}={cell[PLATFORM]} has {line.name}={line.value}; here it is {mine}"
