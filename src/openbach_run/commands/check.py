# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run --check`: tells whether the real backend would accept a scenario.

It also warns of what would fail in a run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from openbach_run.campaign.checks import check_measure
from openbach_run.campaign.reading import file_beside, sub_scenarios, sweep_table
from openbach_run.errors import InputError
from openbach_run.openbach.addresses import inventory_file, unknown_entities, with_addresses
from openbach_run.openbach.job import Job
from openbach_run.openbach.job_folders import Package, measures_of
from openbach_run.openbach.lint import lint
from openbach_run.openbach.reading import read_scenario
from openbach_run.openbach.refusals import Malformed
from openbach_run.openbach.scenario import SAME, Scenario, defaults_of
from openbach_run.openbach.uses import WITHIN, uses
from openbach_run.openbach.value_checks import wrong_values
from openbach_run.topology.inventory import load_inventory


def check(
    path: Path, packages: Mapping[str, Package], as_json: bool, inventory: Path | None
) -> int:
    """Check a scenario; return 0 if the backend accepts it, 2 if not.

    With JSON the backend's answer goes to stdout. Findings go to stderr.
    """
    jobs = {name: package.job for name, package in packages.items()}
    file = path

    def find(name: str) -> Scenario | None:
        """Return a sub-scenario from the file beside; None, with a note, if there is none."""
        nonlocal file
        file = file_beside(path, name)
        if file.exists():
            return read_scenario(file, jobs)
        fact = f"the platform must have {name}, which it starts and which was not checked"
        print(f"{path}: note: {fact}: {file}: there is no such file", file=sys.stderr)
        return None

    try:
        scenario = read_scenario(path, jobs)
        # The backend looks at this file alone: a platform may have the scenarios that it starts.
        subs = sub_scenarios(scenario, find)
    except Malformed as error:
        print(f"{file}: {error}", file=sys.stderr)
        if as_json:
            print(json.dumps(error.answer, indent=1))
        return 2
    hosts = load_inventory(inventory_file(scenario, path, inventory))
    of_all: list[str] = []
    for part in (scenario, *subs.values()):
        named = "" if part is scenario else f"{part.name}: "
        faults = (*lint(part, jobs), *unknown_entities(with_addresses(part, hosts), hosts))
        of_all += [f"{named}{finding}" for finding in faults]
    findings = [
        *of_all,
        *_swept(path, scenario, subs, jobs),
        *_shown(path, scenario, subs, packages),
    ]
    for finding in findings:
        print(f"{path}: warning: {finding}", file=sys.stderr)
    if as_json:
        print(json.dumps(scenario.as_stored(), indent=1))
    else:
        print(f"{path}: accepted: {len(scenario.functions)} functions, {len(findings)} warnings")
    return 0


def _shown(
    path: Path, scenario: Scenario, subs: Mapping[str, Scenario], packages: Mapping[str, Package]
) -> Iterator[str]:
    """Yield what is wrong with the measures that x-sweep has."""
    scenarios = (scenario, *subs.values())
    for part in scenarios:
        try:
            check_measure(path, part, measures_of(scenarios, packages))
        except InputError as error:
            yield str(error)


def _swept(
    path: Path, scenario: Scenario, subs: Mapping[str, Scenario], jobs: Mapping[str, Job]
) -> Iterator[str]:
    """Yield what is wrong with the values that x-sweep has."""
    try:
        defaults, values = (sweep_table(scenario, path, key) for key in ("defaults", "values"))
    except InputError as error:
        yield str(error)
        return
    places = uses(scenario, jobs, subs)
    # Those of the scenario itself have been looked at by lint(); it does not see its sub-scenarios.
    of_subs = [use for use in places if WITHIN in use.place]
    constants = defaults_of((*subs.values(), scenario))
    for wrong in wrong_values(
        of_subs, {name: value for name, value in constants.items() if value != SAME}
    ):
        yield str(wrong)
    # A name has one default, or the list of values that x-sweep gives in its place.
    for name, listed in ({name: [value] for name, value in defaults.items()} | values).items():
        for value in listed:
            yield from (f"x-sweep: {wrong}" for wrong in wrong_values(places, {name: str(value)}))
