# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign file, which names several scenarios, each with values.

seeds: 5                             # how many, or a list of them
seeds_if_random: 20                  # of the cells whose link is random; without it as above
scenarios:
  - scenario: geo_loss               # a name in scenarios/, or a file (relative to this one)
    values: {vpn: [none, wireguard], loss: [0, 1]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openbach_jobs.link_file import near
from openbach_run.campaign import reading
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.vpn_values import setting_of
from openbach_run.catalog import Catalog
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import Package
from openbach_run.openbach.refusals import Malformed
from openbach_run.openbach.shapes import check
from openbach_run.openbach.source import SUFFIXES, file_of
from openbach_run.results.seeds import parse_seeds
from openbach_run.yaml_files import read_yaml


def plan_file(
    path: Path,
    settings: Sequence[str],
    seeds: tuple[int, ...] | None,
    packages: Mapping[str, Package],
    catalog: Catalog,
) -> list[Campaign]:
    """Return the campaigns of a campaign file.

    A setting replaces the file's values in every scenario that has this argument; `seeds` replaces
    the file's seeds, of all cells. A scenario given by name is one of the additions.

    Raises InputError.
    """
    content = read_yaml(path)
    check(f"{path}", content, "campaign")
    values_given = reading.parse_settings(settings)
    if_random = _seeds(path, content, "seeds_if_random", ()) if seeds is None else ()
    seeds = seeds or _seeds(path, content, "seeds", (1,))
    campaigns: list[Campaign] = []
    for number, entry in enumerate(content["scenarios"]):
        where = f"{path}: scenarios.{number}"
        file, values = _entry(where, entry, path.parent, catalog)
        # A setting may be meant for another scenario of the file: only an argument that none has is
        # an error, below.
        try:
            scenario, subs = reading.read_with_subs(file, packages)
            known_here = reading.settable(scenario, subs)
            here = {
                name: values
                for name, values in values_given.items()
                if setting_of(name) in known_here
            }
            sweep = reading.sweep_of(file, scenario, subs, {**values, **here}, seeds, packages)
            of_file = frozenset(values) - here.keys()
            sweep = replace(sweep, seeds_if_random=if_random, of_file=of_file)
            campaigns.append(reading.campaign_of(sweep))
        except (Malformed, InputError) as error:
            raise InputError(f"{where} ({file}): {error}") from error
    known = {name for campaign in campaigns for name in campaign.values}
    if unknown := [name for name in values_given if setting_of(name) not in known]:
        raise InputError(
            f"{unknown[0]}=…: none of the scenarios of {path} has this argument; they have"
            f" {', '.join(known)}"
        )
    return campaigns


def _seeds(
    path: Path, content: Mapping[str, Any], key: str, default: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the seeds that a campaign file gives by that key. Raises InputError."""
    if key not in content:
        return default
    seeds = content[key]
    # A list becomes `3,7,`: the comma at the end tells one seed from a number of seeds.
    try:
        return parse_seeds(
            ",".join(map(str, seeds)) + "," if isinstance(seeds, list) else str(seeds)
        )
    except InputError:
        raise InputError(f"{path}: {key}: give how many (5), or a list of them ([3, 7])") from None


def _entry(
    where: str, entry: Any, here: Path, catalog: Catalog
) -> tuple[Path, dict[str, tuple[str, ...]]]:
    """Return the scenario's file and the values of an entry of `scenarios`. Raises InputError."""
    values, name = entry.get("values", {}), entry["scenario"]
    file = (
        file_of(here / name)
        if "/" in name or name.endswith((".json", *SUFFIXES))
        else catalog.find("scenarios", name)
    )
    if file is None:
        known = catalog.all("scenarios")
        right = near(name, known).rstrip() or f"there are {', '.join(known)}"
        raise InputError(f"{where}.scenario: there is no scenario {name}; {right}")
    return file, {str(name): tuple(map(str, listed)) for name, listed in values.items()}
