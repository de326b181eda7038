# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of a campaign's cells, before anything starts.

Who refuses a value, and where:

    backend   openbach/start.py: what OpenBACH refuses when a scenario is started
    job       openbach/value_checks.py: what a job declares of its arguments (limits.py)
    entry     entries.py, vpn_folder.py: VPNs, congestion controls and so on, by openbach/shapes.py
    link      link_checks.py: satellites and link files
    host      needs.py: what this host's kernel lacks, or a platform

Each value is checked once, however many cells have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from string import Template

from openbach_jobs.link_file import near
from openbach_run.campaign.entries import check_entries
from openbach_run.campaign.ip_versions import IP, VALUES, check_cell
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.vpn_values import NONE, check_values_of_vpns, configs_of
from openbach_run.catalog import joined
from openbach_run.errors import InputError
from openbach_run.json_files import read_json
from openbach_run.link_checks import LINK_FILE, LINK_START, ORBIT, check_start
from openbach_run.openbach.extras import MEASURE
from openbach_run.openbach.measures import EVERY_STATISTIC, Declared
from openbach_run.openbach.scenario import SAME, Scenario
from openbach_run.openbach.source import FIGURES
from openbach_run.openbach.start import check_values, names_used
from openbach_run.openbach.value_checks import Wrong, idle_here, names_asked, wrong_values
from openbach_run.openbach.values import sole_placeholder


def check_campaign(campaign: Campaign) -> None:
    """Check a campaign's cells, and that its jobs are here and measure what is to be shown.

    Raises InputError for the first mistake.
    """
    check_cells(campaign)
    for cell in first_of_each(campaign.cells, [{ORBIT, LINK_FILE, LINK_START}]):
        check_start(cell, campaign.presets)
    check_vpns(campaign)
    check_folders(campaign)
    check_cpus(campaign)
    check_ip(campaign)
    # Last, so that a mistake in a value is told of also where only the jobs' arguments are known.
    packages = campaign.packages
    if missing := [name for name in campaign.job_names if packages[name].files is None]:
        raise InputError(
            f"{campaign.path}: no package to run of the job {missing[0]}; name its folder with"
            " --jobs"
        )
    for scenario in campaign.scenarios:
        check_measure(campaign.path, scenario, campaign.measures)


def check_cells(campaign: Campaign) -> None:
    """Check the cells.

    Raises InputError for the first value that the backend or a job would refuse.
    """
    for cell, wrong in wrong_in(campaign):
        if wrong:
            # The argument that the user gave is named rather than one that only refers to it.
            raise InputError(str(min(wrong, key=lambda fault: _is_reference(campaign, fault))))
        arguments = {
            name: value for name, value in cell.items() if name in campaign.scenario.arguments
        }
        check_values(campaign.scenario.with_constants(cell), arguments, campaign.jobs)
    _check_refused(campaign)


def _check_refused(campaign: Campaign) -> None:
    """Check the values that a scenario refuses (`x-idle`, `refused`).

    Raises InputError for the first of them.
    """
    declared: dict[str, list[dict[str, str]]] = {}
    for scenario in campaign.scenarios:
        for name, conditions in scenario.idle.items():
            declared[name] = [condition for condition in conditions if condition.get("refused")]
    for cell in first_of_each(
        campaign.cells, ({name, *names_asked(conditions)} for name, conditions in declared.items())
    ):
        whole = {**campaign.constants, **cell}
        for name, conditions in declared.items():
            if because := idle_here(conditions, name, whole, {}):
                raise InputError(f"{name}={whole[name]}{because}")


def check_vpns(campaign: Campaign) -> None:
    """Check the values of the VPNs. Raises InputError for the first that its VPN does not have."""
    places, vpns = campaign.vpn_places, campaign.entries["vpn-configs"]
    for cell in first_of_each(campaign.cells, [use.names for use in places]):
        check_values_of_vpns(places, cell, vpns, campaign.vpn_configs)
        configs_of(places, cell, campaign.vpn_configs)


def check_cpus(campaign: Campaign) -> None:
    """Check the CPUs of VPNs. Raises InputError for the first profile that lacks its cell's VPN."""
    places = [use for use in campaign.places if use.argument.limits.get("folder") == "cpus"]
    cpus = campaign.entries["cpus"]
    for cell in first_of_each(campaign.cells, [use.names for use in places]):
        for use in places:
            cpu, vpn = (
                Template(text).safe_substitute(cell)
                for text in (use.template, use.beside.get("kind", NONE))
            )
            if cpu in cpus and vpn != NONE and vpn not in (had := read_json(cpus[cpu])["vpns"]):
                name = sole_placeholder(use.template) or use.argument.name
                raise InputError(
                    f"{name}={cpu} vpn={vpn}: {cpus[cpu]} says nothing of {vpn}; it has"
                    f" {', '.join(sorted(had))}"
                )


def check_ip(campaign: Campaign) -> None:
    """Check the versions of IP. Raises InputError for the first that something cannot have."""
    if not campaign.has_ipv6:
        return
    campaign.addresses.check(f"{IP}={','.join(campaign.values[IP])}")
    places = [use for use in campaign.places if "folder" in use.argument.limits]
    names = [
        {IP, *VALUES, "pep", "http"} & campaign.values.keys(),
        *({IP, *use.names} for use in places),
    ]
    for cell in first_of_each(campaign.cells, names):
        check_cell({**campaign.constants, **cell}, places, campaign.entries)


def check_folders(campaign: Campaign) -> None:
    """Check the folders and files that the cells use. Raises InputError for the first mistake."""
    check_entries(joined(campaign.uses), campaign.entries)


def wrong_in(campaign: Campaign) -> Iterator[tuple[dict[str, str], list[Wrong]]]:
    """Yield cells, each with those of its values that jobs would refuse.

    Only the first cells with something that can be wrong are looked at.
    """
    places = campaign.places
    groups = [*(use.names for use in places), *names_used(campaign.scenario, campaign.jobs)]
    for cell in first_of_each(campaign.cells, groups):
        yield cell, wrong_values(places, own_values(campaign, cell))


def own_values(campaign: Campaign, cell: Mapping[str, str]) -> dict[str, str]:
    """Return a cell's values without those that are `same`, which repeat another value of it."""
    return {
        name: value
        for name, value in cell.items()
        if value != SAME or campaign.constants.get(name) != SAME
    }


def check_measure(path: Path, scenario: Scenario, declared: Declared) -> None:
    """Check what the scenario's table and figure show.

    Raises InputError for an x-sweep.measure that no job of the scenario declares (a suffix in front
    is that of a run), or for a figure that does not exist.
    """
    if (drawn := scenario.sweep.get("figure", FIGURES[0])) not in FIGURES:
        raise InputError(
            f"{path}: {scenario.name}: x-sweep.figure: {drawn!r} is none of {', '.join(FIGURES)}"
        )
    wanted = scenario.sweep.get(MEASURE)
    columns: dict[str, list[str]] = {}
    for job, measures in declared.items():
        columns[job] = [measure.column for measure in measures if measure.is_column]
    every = [*chain(*columns.values())]
    # A column may have a suffix in front, that of a run: `to_client_mos` is the measure mos.
    if wanted is None or any(f"_{wanted}".endswith(f"_{column}") for column in every):
        return
    if any(EVERY_STATISTIC in measures for measures in declared.values()):
        # A job without measures.yml may send anything.
        return  # only its end shows what it sends
    key = "plot" if path.suffix in (".yml", ".yaml") else "x-sweep"
    has = "; ".join(f"{job} has {', '.join(listed)}" for job, listed in columns.items() if listed)
    raise InputError(
        f"{path}: {scenario.name}: {key}.measure: no job of the scenario measures {wanted}; "
        f"{near(str(wanted), every)}{has or 'none of them has a measures.yml'}"
    )


def first_of_each(
    cells: Sequence[dict[str, str]], groups: Iterable[set[str]]
) -> Iterator[dict[str, str]]:
    """Yield the first cell, and each with a combination of values that is new for a group's names.

    A check that looks at nothing but such combinations finds in these cells what it finds in all.
    """
    # A name with one value in all cells makes no combination new, so only the others matter.
    swept = _varying(cells)
    seen: dict[tuple[str, ...], set[tuple[str, ...]]] = {
        tuple(sorted(names & swept)): set() for names in groups
    }
    for cell in cells:
        new = cell is cells[0]
        for names, known in seen.items():
            if (key := tuple([cell[name] for name in names])) not in known:
                known.add(key)
                new = True
        if new:
            yield cell


def _varying(cells: Sequence[Mapping[str, str]]) -> set[str]:
    """Return the names that do not have the same value in all cells."""
    names = set()
    for name in cells[0]:
        values = {cell[name] for cell in cells}
        if len(values) > 1:
            names.add(name)
    return names


def _is_reference(campaign: Campaign, wrong: Wrong) -> bool:
    """Return whether an argument has its value only because of another argument's: `$cc`."""
    return wrong.name in campaign.values and wrong.value not in campaign.values[wrong.name]
