# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from a scenario and `NAME=VALUE[,VALUE…]` to a campaign whose cells are checked.

The scenario and all files that it and its values name are read, the values are combined, and
checks.py compares each with what the jobs take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from itertools import chain, product
from math import isfinite, prod
from pathlib import Path
from typing import Any

from openbach_jobs.link_file import near
from openbach_jobs.netem import MULTIPLIERS
from openbach_jobs.presets import buffer
from openbach_run.campaign import ip_versions, noise, platforms
from openbach_run.campaign.checks import check_campaign
from openbach_run.campaign.model import Campaign, Instead, Seeds, Sweep
from openbach_run.campaign.vpn_config import CONFIG
from openbach_run.campaign.vpn_values import folded, read_configs, setting_of
from openbach_run.catalog import Entries, joined
from openbach_run.errors import InputError
from openbach_run.link_checks import Presets, in_force, modules_of, read_file_of, read_presets
from openbach_run.openbach.extras import check_extras
from openbach_run.openbach.job import Job
from openbach_run.openbach.job_folders import Package, entries_of, measures_of
from openbach_run.openbach.limits import names_folders
from openbach_run.openbach.reading import read_scenario
from openbach_run.openbach.refusals import Malformed
from openbach_run.openbach.scenario import Scenario, defaults_of
from openbach_run.openbach.source import file_of
from openbach_run.openbach.uses import Use, folders_used, uses
from openbach_run.openbach.values import sole_placeholder
from openbach_run.results.seeds import FIRST_SEEDS, MORE_SEEDS
from openbach_run.units import NATURAL, number, plain

GENERAL = {noise.NOISE: noise.DEFAULT, platforms.PLATFORM: platforms.OURS}
"""Name of a value that every scenario has → its default."""
NO_FILE = "none"
"""The value of an argument for a link file that names no file."""
OPTIONS = {
    "seed": "--seeds",
    **{name: f"--{name}" for name in ("seeds", "workers", "results", "engine", "clock")},
}
"""A name that people give like an argument → the option of the command that they mean."""
MOST_RUNS = 200_000
"""Largest number of runs of one scenario in a campaign. They are planned in memory: some 2 kB for a
cell and 0.3 kB for a run."""


def plan(
    path: Path, settings: Sequence[str], seeds: Seeds, packages: Mapping[str, Package]
) -> Campaign:
    """Return the campaign of a scenario file with `NAME=VALUE[,VALUE…]` settings.

    Raises InputError.
    """
    scenario, subs = read_with_subs(path, packages)
    values = parse_settings(settings)
    return campaign_of(sweep_of(path, scenario, subs, values, seeds, packages))


def parse_settings(settings: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return name → values of settings NAME=VALUE[,VALUE…]. Raises InputError."""
    by_name: dict[str, tuple[str, ...]] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{text!r}: arguments are given as NAME=VALUE or NAME=VALUE,VALUE,…")
        values = tuple(part.strip() for part in value.split(","))
        if name in by_name:
            raise InputError(
                f"{text}: {name} is given twice; to sweep it:"
                f" {name}={','.join((*by_name[name], *values))}"
            )
        by_name[name] = values
    return by_name


def read_with_subs(
    path: Path, packages: Mapping[str, Package]
) -> tuple[Scenario, dict[str, Scenario]]:
    """Return the scenario of a file, and its sub-scenarios from the files beside it."""
    jobs = {name: package.job for name, package in packages.items()}
    scenario = read_scenario(path, jobs)
    return scenario, sub_scenarios(scenario, lambda name: _read_beside(path, name, jobs))


def sub_scenarios(
    scenario: Scenario, find: Callable[[str], Scenario | None]
) -> dict[str, Scenario]:
    """Return the sub-scenarios by name, including those that sub-scenarios start.

    `find` reads one; None if it is not known.
    """
    subs: dict[str, Scenario] = {}
    waiting = [scenario]
    while waiting:
        for function in waiting.pop().functions:
            name = function.get("start_scenario_instance", {}).get("scenario_name")
            if name is None or name in subs or name == scenario.name:
                continue
            if (sub := find(name)) is not None:
                subs[name] = sub
                waiting.append(sub)
    return subs


def file_beside(path: Path, name: str) -> Path:
    """Return the file beside a scenario's that has its sub-scenario, if it is there."""
    # A YAML scenario's sub-scenario may be there as JSON only, or the other way round.
    files = [path.with_name(f"{name}{suffix}") for suffix in (path.suffix, ".json")]
    return next((file for file in files if file.exists()), file_of(files[-1]))


def _read_beside(path: Path, name: str, jobs: Mapping[str, Job]) -> Scenario:
    """Return a sub-scenario from a file beside the scenario's. Raises InputError."""
    file = file_beside(path, name)
    try:
        return read_scenario(file, jobs)
    except Malformed as error:
        raise InputError(f"{file}: {error}") from error


def sweep_of(
    path: Path,
    scenario: Scenario,
    subs: dict[str, Scenario],
    settings: Mapping[str, tuple[str, ...]],
    seeds: Seeds,
    packages: Mapping[str, Package],
    *,
    files: bool = True,
) -> Sweep:
    """Return the sweep of a scenario with the values that are given by name.

    For the rest it has the scenario's own values: those of its `x-sweep` and its constants. `path`
    is the scenario's file, or the name for it in the text of InputError. Without `files` the link
    files that values name are not read.
    """
    settings = _without_units(settings, scenario, subs, packages)
    values = read_values(path, scenario, subs, settings)
    _check_references(values)
    for text in (scenario.name, *chain(*values.values())):
        if text.encode(errors="ignore").decode() != text:
            raise InputError(f"{path}: {text!a} is no text of UTF-8")
    first, more = (seeds, ()) if seeds else (FIRST_SEEDS, MORE_SEEDS)
    entries, scenarios = entries_of(packages), (*subs.values(), scenario)
    names = values[platforms.PLATFORM]
    return Sweep(
        path,
        scenario,
        subs,
        values,
        first,
        packages,
        read_link_files(path, scenarios, values) if files else {},
        presets=read_presets(chain(*values.values()), entries["satellites"]),
        platforms=platforms.read_platforms(
            names, values, entries["platforms"], entries["vpn-configs"]
        ),
        measures=measures_of(scenarios, packages),
        more_seeds=more,
        given=frozenset(map(setting_of, settings)),
    )


def read_values(
    path: Path,
    scenario: Scenario,
    subs: Mapping[str, Scenario],
    values_given: Mapping[str, tuple[str, ...]],
) -> dict[str, tuple[str, ...]]:
    """Return the values of everything that NAME=VALUE can set: those given, or the scenario's own.

    Raises InputError for a name that there is not, for a missing value, and for keys of the
    scenario that are malformed.
    """
    for each in (*subs.values(), scenario):
        check_extras(path, each)
    settings, every = settings_of(scenario, subs), settable(scenario, subs)
    for name, several in values_given.items():
        _check_name(f"{name}={','.join(several)}", setting_of(name), scenario, every)
        check_values(name, several)
        if name == ip_versions.IP and name not in settings:
            ip_versions.check_values(several)
    # The settings vpn.NAME become values of the constant vpn_values.
    values_given = folded(values_given)
    known = _own_values(path, scenario, subs)
    values = {}
    own = (*scenario.sweep.get("values", {}), *scenario.arguments, *settings)
    for name in dict.fromkeys([*own, *GENERAL, *values_given]):
        if name not in values_given and name not in known:
            raise InputError(
                f"{path}: the argument {name} needs a value: {name}=… ({settings[name]})"
            )
        values[name] = values_given.get(name) or known[name]
        check_values(name, values[name])
    return values


def check_values(name: str, values: Sequence[str]) -> None:
    """Check the values of a name.

    Raises InputError for an empty value, one given twice, and a number in an odd spelling.
    """
    if "" in values or len({*map(meaning, values)}) < len(values):
        raise InputError(f"{name}={','.join(values)}: an empty value or one given twice")
    if odd := next(filter(_is_odd, values), None):
        raise InputError(f"{name}={odd}: a number is written with the digits 0 to 9, like 10000")


@lru_cache
def meaning(text: str) -> object:
    """Return what values are compared by: `1` and `1.0` are one value, so are `1kB` and `1000B`."""
    try:
        return buffer(text)
    except ValueError:
        value = number(text)
        return text if value is None else value


def _is_odd(text: str) -> bool:
    """Return whether Python reads a number where a reader of results.csv may not: `1_0`, `-0`."""
    try:
        value = float(text[:-1] if text[-1:] in MULTIPLIERS else text)
    except ValueError:
        return False
    return isfinite(value) and (number(text) is None or (value == 0 and text[0] == "-"))


def _check_references(values: Mapping[str, Sequence[str]]) -> None:
    """Check the values `$name`.

    Raises InputError for a name that is no argument, or is an argument with a `$` value itself.
    """
    for name, listed in values.items():
        for value in listed:
            if value.startswith("$") and any(
                other.startswith("$") for other in values.get(value[1:], ("$",))
            ):
                raise InputError(
                    f"{name}={value}: after $ comes an argument of the scenario that has values of"
                    " its own"
                )


def _own_values(
    path: Path, scenario: Scenario, subs: Mapping[str, Scenario]
) -> dict[str, tuple[str, ...]]:
    """Return the values that the scenarios themselves give.

    They are the constants' own, the defaults of x-sweep, and its values; the later ones win.
    """
    constants = defaults_of((*subs.values(), scenario))
    defaults = sweep_table(scenario, path, "defaults")
    known: dict[str, tuple[str, ...]] = {
        name: (str(value),) for name, value in (GENERAL | constants | defaults).items()
    }
    for name, listed in sweep_table(scenario, path, "values").items():
        known[name] = tuple(map(str, listed))
    return known


def settings_of(scenario: Scenario, subs: Mapping[str, Scenario]) -> dict[str, str]:
    """Return name → description of what NAME=VALUE can set.

    It is the scenario's arguments, its constants, and those of its sub-scenarios.
    """
    constants: dict[str, str] = {}
    for sub in subs.values():
        constants |= {name: text for name, text in sub.settings.items() if name in sub.defaults}
    return {**constants, **scenario.settings}


def settable(scenario: Scenario, subs: Mapping[str, Scenario]) -> dict[str, str]:
    """Return name → description of what a command can set: also what all scenarios have."""
    general = {noise.NOISE: noise.DESCRIPTION, platforms.PLATFORM: platforms.DESCRIPTION}
    if any(holder.addresses for holder in (scenario, *subs.values())):
        general[ip_versions.IP] = ip_versions.DESCRIPTION
    return {**general, **settings_of(scenario, subs)}


def sweep_table(scenario: Scenario, path: Path, key: str) -> dict[str, Any]:
    """Return the table `defaults` or `values` of a scenario's x-sweep. Raises InputError."""
    sweep = scenario.source.get("x-sweep", {})
    if not isinstance(sweep, dict):
        raise InputError(f"{path}: x-sweep should be an object with the keys defaults and values")
    table = sweep.get(key, {})
    if not isinstance(table, dict) or not all(
        map(is_list if key == "values" else is_value, table.values())
    ):
        shape = "object of lists of texts" if key == "values" else "object of texts"
        raise InputError(f"{path}: x-sweep.{key} should be an {shape} by argument name")
    names = scenario.arguments if key == "defaults" else scenario.settings
    if unknown := [name for name in table if name not in names]:
        hint = "; a constant's value is in constants" if unknown[0] in scenario.constants else ""
        raise InputError(
            f"{path}: x-sweep.{key}.{unknown[0]}: the scenario has no such argument{hint}"
        )
    return table


def _check_name(text: str, name: str, scenario: Scenario, settings: Mapping[str, str]) -> None:
    """Check the name of a setting (`text`). Raises InputError with the nearest one."""
    if name not in settings:
        constants = ", ".join(known for known in settings if known not in scenario.arguments)
        has = ", ".join(scenario.arguments) + (
            f" and the constants {constants}" if constants else ""
        )
        option = OPTIONS.get(name)
        value = text.partition("=")[2]
        meant = f"did you mean {option} {value}? " if option else near(name, settings)
        raise InputError(f"{text}: {scenario.name} has no argument {name}; {meant}it has {has}")


def read_link_files(
    path: Path, scenarios: Iterable[Scenario], values: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, str]]:
    """Return the link files that the values name, as argument or constant → path → content.

    A file of Es/N0 counts as one. The scenarios' x-sweep.link_files lists these arguments and
    constants; `none` is no file. Raises InputError.
    """
    names: list[str] = []
    for scenario in scenarios:
        listed = scenario.sweep.get("link_files", [])
        if not isinstance(listed, list) or not all(
            isinstance(name, str) and name in scenario.settings for name in listed
        ):
            text = "x-sweep.link_files should be a list of arguments and constants of the scenario"
            raise InputError(f"{path}: {scenario.name}: {text}")
        names += [name for name in listed if name in values]
    contents: dict[str, dict[str, str]] = {}
    for name in names:
        files = [file for file in values[name] if file != NO_FILE]
        contents[name] = {file: read_file_of(name, Path(file)) for file in files}
    if own := noise.read_noise(values.get(noise.NOISE, ())):
        contents[noise.NOISE] = own
    return contents


def _without_units(
    settings: Mapping[str, tuple[str, ...]],
    scenario: Scenario,
    subs: Mapping[str, Scenario],
    packages: Mapping[str, Package],
) -> Mapping[str, tuple[str, ...]]:
    """Return the values as jobs take them, where they have a unit (`30MB`, `250ms`).

    A job's limits name the unit of its argument; a value in a unit of something else stays.
    """
    if not any(map(NATURAL.fullmatch, chain(*settings.values()))):
        return settings
    jobs = {name: package.job for name, package in packages.items()}
    units = {
        sole_placeholder(use.template): str(use.argument.limits["unit"])
        for use in uses(scenario, jobs, subs)
        if "unit" in use.argument.limits
    }
    taken: dict[str, tuple[str, ...]] = {}
    for name, values in settings.items():
        unit = units.get(name, "")
        taken[name] = tuple(plain(value, unit) for value in values)
    return taken


def is_list(value: Any) -> bool:
    """Return whether a value is a list of at least one text or number."""
    return isinstance(value, list) and bool(value) and all(map(is_value, value))


def is_value(value: Any) -> bool:
    """Return whether a value is a text or a number."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def campaign_of(sweep: Sweep) -> Campaign:
    """Return the checked campaign of a sweep, with the VPN files it names. Raises InputError."""
    campaign = expanded(sweep)
    # Most campaigns name none, and may have a hundred thousand cells.
    if any(f"{CONFIG}=" in text for text in chain(*sweep.values.values())):
        vpns = sweep.entries["vpn-configs"]
        configs = read_configs(campaign.vpn_places, campaign.cells, vpns)
        campaign = replace(campaign, vpn_configs=configs)
    check_campaign(campaign)
    return campaign


def expanded(sweep: Sweep, most_runs: int = MOST_RUNS) -> Campaign:
    """Return the campaign of a sweep: its cells, where they give values to jobs, what they use.

    Raises InputError for values that cannot be combined, for a folder that cannot be read, and for
    more than `most_runs` runs: a mistyped sweep is refused before its cells fill the memory.
    """
    combinations = prod(map(len, sweep.values.values()))
    if (runs := combinations * len(sweep.seeds)) <= most_runs:
        cells = cells_of(sweep.values, sweep.presets, sweep.instead)
        places = uses(sweep.scenario, sweep.jobs, sweep.sub_scenarios)
        used = uses_of(cells, places, sweep.constants, sweep.job_names, sweep.entries)
        read = {each.name: getattr(sweep, each.name) for each in fields(Sweep)}
        campaign = Campaign(**read, cells=cells, places=places, uses=used)
        runs = combinations * len((*sweep.seeds, *sweep.more_seeds))
        # Combinations that come to the same cell count once, where it matters.
        if runs <= most_runs or (runs := len(cells) * len(campaign.every_seed)) <= most_runs:
            return campaign
    raise InputError(
        f"{sweep.path}: {runs} runs; at most {most_runs} at once: give fewer values or seeds"
    )


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
