# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of a scenario: its fields, and the check of their values before a launch.

The check says what is wrong with the values by field, how many runs they make, and how long these
will take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from starlette.datastructures import FormData, QueryParams

from openbach_jobs.presets import FORWARD, PRESET, SAME
from openbach_run.campaign.checks import wrong_in
from openbach_run.campaign.forecast import duration, most_like_s
from openbach_run.campaign.model import Campaign, Seeds, Sweep
from openbach_run.campaign.notes import notes_of
from openbach_run.campaign.reading import NO_FILE, expanded, settings_of, sweep_of, sweep_table
from openbach_run.errors import InputError
from openbach_run.link_checks import ORBIT, in_force, read_presets
from openbach_run.openbach.job_folders import entries_of
from openbach_run.openbach.scenario import Scenario, defaults_of
from openbach_run.openbach.start import check_values
from openbach_run.openbach.uses import argument_choices
from openbach_run.results.seeds import WARNING, parse_seeds
from openbach_run.web import launches, links
from openbach_run.web.answers import Refusal, Services
from openbach_run.web.index import cell_key
from openbach_run.web.instances import find_scenario, project_inventory

SEEDS = "seeds"
SERIES = "series_s"
FIRST_CHOICES = 6
"""The choices of a field that are shown before the others are folded."""
SAMPLE = 300
"""The number of known cells that a forecast looks at."""
NAMED = re.compile(r"([A-Za-z_]\w*)=")
"""A name before `=`, as errors have the field that they are of."""
Values = Mapping[str, list[str]]
"""Argument → the values that somebody has typed or ticked."""


@dataclass(frozen=True)
class Checked:
    """The result of checking the values of a form."""

    errors: dict[str, str]
    """Errors by field; "" for those that belong to none."""
    text: str
    """The number of runs and the time that they take, in words."""
    notes: list[str] = field(default_factory=list)


# The fields


def given_values(fields: FormData | QueryParams) -> dict[str, list[str]]:
    """Return the values of a form or an address by argument.

    A field `value.<argument>` is one value (a ticked box), `values.<argument>` a text with commas.
    An argument that has only a field `asked.<argument>` has no value: [].
    """
    typed: dict[str, dict[str, None]] = {}
    for key, text in fields.multi_items():
        kind, _, name = key.partition(".")
        if kind in ("value", "values", "asked") and isinstance(text, str):
            texts = {"value": [text], "values": text.split(","), "asked": []}[kind]
            parts = filter(None, map(str.strip, texts))
            typed.setdefault(name, {}).update(dict.fromkeys(parts))
    return {name: list(values) for name, values in typed.items()}


def fields_of(
    scenario: Scenario, subs: dict[str, Scenario], services: Services, typed: Values
) -> list[dict[str, Any]]:
    """Return the fields of the form, one for each argument and constant.

    A field has its choices if there are any, what is chosen (the default if nothing is given), and
    what a sweep would take. Fields that OpenBACH asks for come first, and `series_s`, which makes
    curves.
    """
    try:
        known = argument_choices(scenario, services.platform.jobs, subs)
        choices: dict[str, Sequence[str]] = {**known}
        untested = services.platform.catalog.untested()
    except InputError:  # of its x-same, or of a folder; a launch says so
        choices, untested = {}, set()
    settings = settings_of(scenario, subs)
    constants = defaults_of((*subs.values(), scenario))
    try:
        file = Path(scenario.name)
        defaults, swept = (sweep_table(scenario, file, key) for key in ("defaults", "values"))
    except InputError:
        defaults, swept = {}, {}
    swept_arguments = [name for name in swept if name in scenario.arguments]
    names = dict.fromkeys([*swept_arguments, *scenario.arguments, SERIES, *swept, *settings])
    of_links = links.arguments_with_links(
        Sweep(Path(scenario.name), scenario, subs, dict.fromkeys(settings, ()), (1,))
    )
    choices |= {name: (NO_FILE, *links.all_links(services.launcher.results)) for name in of_links}
    fields: list[dict[str, Any]] = []
    for name in (name for name in names if name in settings):
        whole = [str(value) for value in swept.get(name, [])]
        own = defaults if name in scenario.arguments else constants
        default = whole[:1] if name in swept or name not in own else [str(own[name])]
        chosen = typed.get(name, default)
        offered = list(choices.get(name, ()))
        # What is chosen, and what a sweep would take, stays in sight; untested VPNs come last.
        ahead = {*chosen, *whole}
        several = sorted(offered, key=lambda value: (value not in ahead, value in untested))
        fields.append(
            {
                "name": name,
                "description": settings[name],
                "choices": several[:FIRST_CHOICES],
                "more": several[FIRST_CHOICES:],
                "unknown": [value for value in chosen if offered and value not in offered],
                "is_common": name in scenario.arguments or name == SERIES or name in swept,
                "whole": whole or default,
                "chosen": chosen,
                "untested": untested,
                "is_link": name in of_links,
            }
        )
    usual = {field["name"]: (field["whole"] or [""])[0] for field in fields}
    orbits = [name for field in fields if field["name"] == ORBIT for name in field["chosen"]]
    satellites = entries_of(services.platform.packages)["satellites"]
    for of_form in fields:
        of_form["preset"] = ", ".join(_presets(of_form["name"], usual, orbits, satellites))
    return sorted(fields, key=lambda field: not field["is_common"])


def _presets(
    name: str, own: Mapping[str, str], orbits: Sequence[str], files: Mapping[str, Path]
) -> Iterator[str]:
    """Yield what `preset` means in a field for each satellite: `10M (geo)`."""
    for orbit in orbits if own[name] == PRESET else ():
        with suppress(InputError):  # told at the field
            text = in_force({**own, ORBIT: orbit}, read_presets([orbit], files))[name]
            leader = FORWARD.get(name) if text == SAME else None
            yield f"{f'that of {leader}' if leader else text} ({orbit})"


# What is said of their values


def asked_seeds(text: str) -> Seeds:
    """Return the seeds in the form's field; None (the default) if it is empty.

    Raises InputError.
    """
    return parse_seeds(text) if text.strip() else None


def check(services: Services, project: str, name: str, typed: Values, seeds: str) -> Checked:
    """Return what can be said of a form's values.

    Raises Refusal (404) if there is no such scenario.
    """
    scenario, subs, _ = find_scenario(services, project, name)
    names = (*typed, *scenario.arguments)
    errors = {name: "choose at least one value" for name in names if not typed.get(name)}
    try:
        numbers = asked_seeds(seeds)
    except InputError as error:
        numbers = (1,)
        errors[SEEDS] = str(error).removeprefix("--seeds ").replace("--seeds", "seeds")
    chosen = {name: tuple(values) for name, values in typed.items() if values}
    try:
        packages = services.platform.packages
        sweep = sweep_of(Path(name), scenario, subs, chosen, numbers, packages, files=False)
        campaign = expanded(sweep, launches.RUNS_LIMIT)
        for field_name, words in _wrong(campaign).items():
            errors.setdefault(field_name, words)
        if not errors:
            links.contents(services.launcher.results, campaign)
            launches.asked_campaign(services, project, name, chosen, numbers)
            project_inventory(services, project, campaign)
    except (InputError, Refusal) as error:
        errors.setdefault(_field_of(str(error), typed), str(error).removeprefix(f"{name}: "))
    if errors:
        listed = ", ".join(filter(None, errors)) or "the values"
        return Checked(errors, f"not yet: look at {listed}")
    return Checked({}, forecast(services, [campaign]), _notes(campaign))


def _wrong(campaign: Campaign) -> dict[str, str]:
    """Return what jobs and the backend would refuse: for each field the first error."""
    errors: dict[str, str] = {}
    for cell, wrong in wrong_in(campaign):
        for fault in wrong:
            # The field that has the value, or else the one that the words name.
            name = fault.name or ""
            has_it = fault.value in campaign.values.get(name, ())
            errors.setdefault(
                name if has_it else _field_of(str(fault), campaign.values), str(fault)
            )
        if not wrong:
            names = campaign.scenario.arguments
            arguments = {name: value for name, value in cell.items() if name in names}
            try:
                check_values(campaign.scenario.with_constants(cell), arguments, campaign.jobs)
            except InputError as error:
                errors.setdefault(_field_of(str(error), campaign.values), str(error))
    return errors


def _field_of(words: str, values_of: Mapping[str, Sequence[str]]) -> str:
    """Return the field whose value an error names, or "".

    An error names a value like `loss=-1: …` or `'0' is not a buffer …`.
    """
    named = [name for name in NAMED.findall(words) if name in values_of]
    for name, values in values_of.items():
        if name.split("_")[0] in words and any(f"'{value}'" in words for value in values):
            named.append(name)
    return next(iter(named), "")


def _notes(campaign: Campaign) -> list[str]:
    """Return what the user should know of a campaign, in the page's words."""
    notes = notes_of(campaign)
    if len(campaign.every_seed) == 1 and campaign.has_random_link:
        notes.append(WARNING.replace("--seeds 5", "seeds 5"))
    return notes


def forecast(services: Services, campaigns: Sequence[Campaign]) -> str:
    """Return the number of runs, how many seem to be there, and the time of the others."""
    expected = [_expected(services, campaign) for campaign in campaigns]
    finished, known, to_do_s = map(sum, zip(*expected, strict=True))
    cells = sum(len(campaign.cells) for campaign in campaigns)
    runs = sum(len(campaign.cells) * len(campaign.every_seed) for campaign in campaigns)
    workers = services.launcher.workers
    count = f"{_several(cells, 'cell')}, {_several(runs, 'run')}"
    source = "assumed: none was measured yet"
    if known:
        names = ", ".join(dict.fromkeys(campaign.scenario.name for campaign in campaigns))
        source = f"from {_several(int(known), 'known cell')} of {names}"
    already = f", {finished} there already (unless the code has changed since)" if finished else ""
    return (
        f"{count}{already}; about {duration(to_do_s / workers)} on {_several(workers, 'CPU')}"
        f" ({source})"
    )


def _expected(services: Services, campaign: Campaign) -> tuple[int, int, float]:
    """Return how many runs are there, how many cells are known, and the time of the others in s."""
    cells, scenario = campaign.cells, campaign.scenario.name
    known = _known(services, scenario)
    finished, to_do_s = 0, 0.0
    some = known[:: -(-len(known) // SAMPLE) or 1]
    sample = [(json.loads(row["values"]), [row["wall_s"]]) for row in some]
    by_key = {row["key"]: row for row in known}
    likely: dict[int, float] = {}
    for cell in cells:
        seeds, row = campaign.every_seed, by_key.get(cell_key(scenario, cell))
        # By cell and seed, not by the run's name: to name a run its engine has to be asked.
        done = len({*map(int, row["seeds"].split(","))} & {*seeds}) if row else 0
        finished += done
        if row:
            wall_s = row["wall_s"]
        else:
            key = len(likely) if len(likely) < SAMPLE else len(likely) - 1
            # After SAMPLE unknown cells their mean is good enough for all others.
            wall_s = likely[key] = (
                most_like_s(cell, sample) if len(likely) < SAMPLE else fmean(likely.values())
            )
        to_do_s += wall_s * (len(seeds) - done)
    return finished, len(known), to_do_s


def _known(services: Services, scenario: str) -> list[Any]:
    """Return the scenario's cells that have finished runs, with their mean time and their seeds."""
    return services.database.rows(
        'SELECT c.key, c."values", AVG(r.wall_s) AS wall_s, GROUP_CONCAT(r.seed) AS seeds FROM'
        " cell c JOIN run r ON r.cell = c.id WHERE c.scenario = ? AND r.status = 'Finished Ok'"
        " GROUP BY c.id",
        scenario,
    )


def _several(count: int, what: str) -> str:
    """Return a number and a word in singular or plural."""
    return f"{count} {what}{'' if count == 1 else 's'}"
