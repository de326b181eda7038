# SPDX-License-Identifier: GPL-3.0-or-later
"""Finished instances of an OpenBACH platform as the runs of a campaign.

A cell's instances are its repetitions, the oldest first: the seed is the number of one. An instance
keeps the seed of its record, so that a later collection adds those that are new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from openbach_run.campaign.engines import inventory_of
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.options import Options
from openbach_run.campaign.plan import plan_read
from openbach_run.campaign.reading import file_beside, read_with_subs, settings_of
from openbach_run.campaign.request import Plan, installed, path_of
from openbach_run.campaign.run import store_of
from openbach_run.engine.platform.engine import FETCHED, RunKey, order_of, run_key
from openbach_run.engine.platform.instances import instances_of, started_by, wrong_with
from openbach_run.engine.platform.rest import Controller
from openbach_run.errors import InputError, SetupError
from openbach_run.openbach.scenario import Scenario
from openbach_run.results import run_files
from openbach_run.results.record import Store
from openbach_run.results.run_files import DamagedRecord


def collected(
    name: str, numbers: Sequence[int], options: Options, controller: Controller
) -> tuple[Plan, list[str]]:
    """Return the plan of a scenario's instances, and why others are left out.

    Of a scenario that starts another one, as geo_loss_table, they are the instances that it has
    started. Raises InputError, and SetupError where no instance can be a run.
    """
    catalog, packages = installed(options)
    path = path_of(name, catalog)
    scenario, subs = read_with_subs(path, packages)
    if len(subs) > 1:
        raise InputError(f"{name} starts {', '.join(subs)}: collect each by its own name")
    controller.log_in()
    instances = list(instances_of(controller, options.project, scenario.name, numbers))
    if subs:
        (scenario,) = subs.values()
        path = file_beside(path, scenario.name)
        instances = [child for one in instances for child in started_by(one)]
    plan = Plan(path, (), None, (), packages, catalog)
    campaigns, left_out = {}, []
    for instance in instances:
        number = instance["scenario_instance_id"]
        try:
            campaigns[number] = _campaign_of(scenario, instance, plan, options)
        except InputError as error:
            left_out.append(f"instance {number} of {instance['scenario_name']}: {error}")
    if not campaigns:
        head = f"{controller.access.url}: no instance of {name} can be collected:"
        raise SetupError("\n  ".join([head, *left_out]))
    begun = {one["scenario_instance_id"]: str(one["start_date"]) for one in instances}
    records = _records(store_of(scenario.name, options), controller.access.url)
    return _planned(plan, campaigns, _seeds(campaigns, begun, records)), left_out


def _campaign_of(
    scenario: Scenario, instance: Mapping[str, Any], plan: Plan, options: Options
) -> Campaign:
    """Return the campaign of the one cell that an instance is a run of. Raises InputError."""
    known, own = settings_of(scenario, {}), scenario.defaults
    shown = {one["name"]: str(one["value"]) for one in instance["arguments"]}
    given = {
        name: (value,) for name, value in shown.items() if name in known and value != own.get(name)
    }
    campaign = plan_read(plan.path, scenario, {}, given, (1,), plan.packages)
    here = campaign.on(inventory_of(campaign, plan.catalog, options))
    (cell,) = campaign.cells
    local = here.scenario.with_functions_of({**own, **cell})
    orders = (order_of({"values": cell}, [one]) for one in (here.scenario, local))
    if wrong := wrong_with(instance, *orders):
        raise InputError(wrong)
    return campaign


def _planned(plan: Plan, campaigns: Mapping[int, Campaign], seeds: Mapping[int, int]) -> Plan:
    """Return the plan with these instances, by their numbers, as the runs of one campaign."""
    first, every = next(iter(campaigns.values())), [*campaigns.values()]
    swept = first.scenario.sweep.get("values", {})
    values = {}
    for name in first.values:
        had = dict.fromkeys(one.values[name][0] for one in every)
        # In the order of the scenario's own sweep; others come as they were launched.
        order = {str(value): at for at, value in enumerate(swept.get(name, ()))}
        values[name] = tuple(sorted(had, key=lambda one: order.get(one, len(order))))
    every.sort(key=lambda one: [values[name].index(one.values[name][0]) for name in values])
    cells = {number: one.cells[0] for number, one in campaigns.items()}
    of_cell: dict[tuple[str, ...], tuple[int, ...]] = {}
    for number in sorted(cells, key=seeds.__getitem__):
        key = tuple(cells[number].values())
        of_cell[key] = (*of_cell.get(key, ()), seeds[number])
    files: dict[str, dict[str, str]] = defaultdict(dict)
    for one in every:
        for name, content in one.link_files.items():
            files[name] |= content
    campaign = replace(
        first,
        values=values,
        seeds=tuple(sorted(set(seeds.values()))),
        seeds_by_cell=of_cell,
        presets={name: one for each in every for name, one in each.presets.items()},
        link_files=files,
        given=frozenset().union(*(one.given for one in every)),
    )
    in_order = {tuple(one.cells[0].items()): one.cells[0] for one in every}
    campaign.found.cells = [*in_order.values()]
    return replace(
        plan,
        settings=tuple(
            f"{name}={','.join(values[name])}" for name in values if name in campaign.given
        ),
        seeds=str(max(campaign.seeds)),
        campaigns=(campaign,),
        collected={run_key(cells[number], seed): number for number, seed in seeds.items()},
    )


def _records(store: Store, url: str) -> list[tuple[RunKey, tuple[int, str]]]:
    """Return the runs that have records of this platform: each with its instance and its date."""
    found = []
    for record in store.all():
        if record.identity.get("controller") != url:
            continue
        try:
            instance = run_files.document(store.runs / record.run_id, FETCHED)
            # With its date: a platform that is installed anew begins with number 1 again.
            one = instance["scenario_instance_id"], str(instance["start_date"])
        except (OSError, DamagedRecord, KeyError, TypeError):
            one = 0, ""
        found.append((run_key(record.arguments, record.seed), one))
    return found


def _seeds(
    campaigns: Mapping[int, Campaign],
    begun: Mapping[int, str],
    records: Sequence[tuple[RunKey, tuple[int, str]]],
) -> dict[int, int]:
    """Return the seed of each instance: that of its record, or the least one without a record."""
    taken = {key for key, _ in records}
    there = {(one, key[0]): key[1] for key, one in records}
    seeds: dict[int, int] = {}
    for number in sorted(campaigns):
        (cell,) = campaigns[number].cells
        values, seed = run_key(cell, 1)
        if (known := there.get(((number, begun[number]), values))) is not None:
            seed = known
        else:
            while (values, seed) in taken:
                seed += 1
        taken.add((values, seed))
        seeds[number] = seed
    return seeds
