# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a scenario's runs: what is read is expanded into cells, which are checked once.

reading.py reads, model.py has the cells and runs, checks.py checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from openbach_run.campaign.checks import check_campaign
from openbach_run.campaign.model import Campaign, Seeds
from openbach_run.campaign.platforms import PLATFORM, read_platforms
from openbach_run.campaign.reading import (
    presets_of,
    read_link_files,
    read_values,
    read_with_subs,
)
from openbach_run.campaign.settings import parse_settings
from openbach_run.campaign.vpn_values import setting_of
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import Package, entries_of, measures_of_jobs
from openbach_run.openbach.scenario import Scenario, jobs_of
from openbach_run.openbach.uses import uses
from openbach_run.openbach.values import sole_placeholder
from openbach_run.results.seeds import FIRST_SEEDS, MORE_SEEDS
from openbach_run.units import NATURAL, plain

MOST_RUNS = 200_000
"""The most runs of one scenario in a campaign. Its runs are planned in memory: some 2 kB for a cell
and 0.3 kB for a run."""


def plan(
    path: Path, settings: Sequence[str], seeds: Seeds, packages: Mapping[str, Package]
) -> Campaign:
    """Return the campaign of a scenario file with `NAME=VALUE[,VALUE…]` settings.

    Raises InputError.
    """
    return plan_scenario(path, parse_settings(settings), seeds, packages)


def plan_scenario(
    path: Path, given: Mapping[str, tuple[str, ...]], seeds: Seeds, packages: Mapping[str, Package]
) -> Campaign:
    """Return the campaign of a scenario file with the values given by name. Raises InputError."""
    scenario, subs = read_with_subs(path, packages)
    return plan_read(path, scenario, subs, given, seeds, packages)


def plan_read(
    path: Path,
    scenario: Scenario,
    subs: dict[str, Scenario],
    given: Mapping[str, tuple[str, ...]],
    seeds: Seeds,
    packages: Mapping[str, Package],
) -> Campaign:
    """Return the campaign of a scenario that was read from a file, with the link files it names.

    Raises InputError.
    """
    draft = draft_of(path, scenario, subs, given, seeds, packages)
    files = read_link_files(path, (scenario, *subs.values()), draft.values)
    campaign = replace(draft, link_files=files) if files else draft
    campaign.expand(packages)
    campaign = campaign.with_configs(packages)
    check_campaign(campaign, packages)
    return campaign


def campaign_of(
    path: Path,
    scenario: Scenario,
    subs: dict[str, Scenario],
    given: Mapping[str, tuple[str, ...]],
    seeds: Seeds,
    packages: Mapping[str, Package],
    most_runs: int = MOST_RUNS,
) -> Campaign:
    """Return the checked campaign of a scenario with the values given, without its link files.

    For the rest it has the scenario's own values: those of its `x-sweep` and its constants. `path`
    is the scenario's file, or the name for it in the text of InputError. More than `most_runs` runs
    are refused before any cell is made.
    """
    campaign = draft_of(path, scenario, subs, given, seeds, packages, most_runs)
    campaign.expand(packages)
    check_campaign(campaign, packages)
    return campaign


def draft_of(
    path: Path,
    scenario: Scenario,
    subs: dict[str, Scenario],
    given: Mapping[str, tuple[str, ...]],
    seeds: Seeds,
    packages: Mapping[str, Package],
    most_runs: int = MOST_RUNS,
) -> Campaign:
    """Return the campaign like campaign_of, but before its values are checked against the jobs.

    Raises InputError for names, for a number of runs, and for satellites.
    """
    given = _without_units(given, scenario, subs, packages)
    values = read_values(path, scenario, subs, given)
    texts = scenario.name, *chain(*values.values())
    if wrong := [one for one in texts if one.encode(errors="ignore").decode() != one]:
        raise InputError(f"{path}: {wrong[0]!a} is no text of UTF-8")
    entries = entries_of(packages)
    jobs = sorted(set(jobs_of((scenario, *subs.values()))))
    first, more = (seeds, ()) if seeds else (FIRST_SEEDS, MORE_SEEDS)
    campaign = Campaign(
        path,
        scenario,
        subs,
        values,
        first,
        presets=presets_of(values, packages),
        impairments=entries["impairments"],
        platforms=read_platforms(
            values[PLATFORM], values, entries["platforms"], entries["vpn-configs"]
        ),
        measures=measures_of_jobs(jobs, packages),
        more_seeds=more,
        given=frozenset(map(setting_of, given)),
    )
    # Before the cells are made: a typing error in a sweep must not fill the memory.
    if (runs := campaign.count(most_runs)) > most_runs:
        raise InputError(
            f"{path}: {runs} runs; at most {most_runs} at once: give fewer values or seeds"
        )
    return campaign


def _without_units(
    given: Mapping[str, tuple[str, ...]],
    scenario: Scenario,
    subs: Mapping[str, Scenario],
    packages: Mapping[str, Package],
) -> Mapping[str, tuple[str, ...]]:
    """Return the values as jobs take them, where they have a unit (`30MB`, `250ms`).

    A job's limits name the unit of its argument; a value in a unit of something else stays.
    """
    if not any(map(NATURAL.fullmatch, chain(*given.values()))):
        return given
    jobs = {name: package.job for name, package in packages.items()}
    units = {
        sole_placeholder(use.template): str(use.argument.limits["unit"])
        for use in uses(scenario, jobs, subs)
        if "unit" in use.argument.limits
    }
    taken: dict[str, tuple[str, ...]] = {}
    for name, values in given.items():
        unit = units.get(name, "")
        taken[name] = tuple(plain(value, unit) for value in values)
    return taken
