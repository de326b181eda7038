# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells of a campaign: each combination of its values, and the folders that it uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from openbach_jobs.presets import buffer
from openbach_run.campaign.platforms import Platforms
from openbach_run.campaign.platforms import applied as with_platform
from openbach_run.catalog import Entries, joined
from openbach_run.link_checks import Presets, in_force, modules_of
from openbach_run.openbach.limits import names_folders
from openbach_run.openbach.uses import Use, folders_used
from openbach_run.units import number


@dataclass(frozen=True)
class Instead:
    """The values that take the place of others in some cells (`x-instead` of the scenarios)."""

    declared: Mapping[str, Mapping[str, Any]]
    """Name of a constant → `values` and `measure` where it has another value than its own."""
    constants: Mapping[str, str]
    """The constants' own values."""
    given: frozenset[str]
    """Names of values that the user gave: nothing takes their place."""
    platforms: Platforms

    def holds(self, name: str, cell: Mapping[str, str]) -> bool:
        """Return whether a cell has another value of a constant than the scenario.

        A cell of the page has the arguments only.
        """
        # By value: a constant that is given its own value changes nothing.
        return cell.get(name, self.constants[name]) != self.constants[name]

    def applied(self, cell: dict[str, str]) -> dict[str, str]:
        """Return the cell with the values that take the place of its own."""
        cell = with_platform(cell, self.platforms, self.given)
        for name, instead in self.declared.items():
            if self.holds(name, cell):
                values = instead["values"]
                cell = cell | {own: values[own] for own in values if own not in self.given}
        return cell


def cells_of(
    values: Mapping[str, Sequence[str]], presets: Presets, instead: Instead
) -> list[dict[str, str]]:
    """Return every combination of the values, without repetition."""
    cells, seen = [], set()
    for combination in product(*values.values()):
        combined = _resolved(dict(zip(values, combination, strict=True)))
        # The value `preset` becomes the satellite's own: two combinations may then be equal.
        cell = in_force(instead.applied(combined), presets)
        if (key := tuple(map(meaning, cell.values()))) not in seen:
            seen.add(key)
            cells.append(cell)
    return cells


def _resolved(cell: dict[str, str]) -> dict[str, str]:
    """Return the cell with the value of the argument cc in place of each value `$cc`.

    That is an older form of `same`.
    """
    return {
        name: cell[value[1:]] if value.startswith("$") else value for name, value in cell.items()
    }


def uses_of(
    cells: Sequence[Mapping[str, str]],
    places: Sequence[Use],
    constants: Mapping[str, str],
    jobs: Sequence[str],
    entries: Entries,
) -> list[dict[str, list[str]]]:
    """Return the jobs and folders that a cell's runs use, by kind: one dictionary for each cell.

    Raises InputError for a folder whose description cannot be read.
    """
    naming = [use for use in places if names_folders(use.argument)]
    names = sorted(set().union(*(use.own_names for use in naming)))
    # Cells with the same values of these names use the same.
    by_key: dict[tuple[str | None, ...], dict[str, list[str]]] = {}
    used = []
    for cell in cells:
        # A launch over REST gives arguments only.
        whole = {**constants, **cell}
        key = tuple(map(whole.get, names))
        if key not in by_key:
            folders = folders_used(naming, whole, entries)
            modules = modules_of(folders.get("satellites", ()), entries["satellites"])
            by_key[key] = joined([{"jobs": jobs}, folders, modules])
        used.append(by_key[key])
    return used


@lru_cache
def meaning(text: str) -> object:
    """Return what values are compared by: `1` and `1.0` are one value, so are `1kB` and `1000B`."""
    try:
        return buffer(text)
    except ValueError:
        value = number(text)
        return text if value is None else value
