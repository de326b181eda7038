# SPDX-License-Identifier: GPL-3.0-or-later
"""Finished instances of an OpenBACH platform as the runs of a campaign.

A cell's instances are its repetitions, the oldest first: the seed is the number of one. An instance
keeps the seed of its record, so that a later collection adds those that are new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from openbach_run.campaign import reading
from openbach_run.campaign.engines import inventory_of
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.options import Options
from openbach_run.campaign.request import Plan, installed, path_of
from openbach_run.campaign.run import store_of
from openbach_run.engine.platform.engine import FETCHED, RunKey, run_key
from openbach_run.engine.platform.instances import instances_of, wrong_with
from openbach_run.engine.platform.order import order_of
from openbach_run.engine.platform.rest import Controller
from openbach_run.errors import InputError, SetupError
from openbach_run.openbach.scenario import Scenario
from openbach_run.results import run_files
from openbach_run.results.run_files import DamagedRecord
from openbach_run.results.store import Store


def collected(
    name: str, numbers: Sequence[int], options: Options, controller: Controller
) -> tuple[Plan, list[str]]:
    """Return the plan of a scenario's instances, and why others are left out.

    Of a scenario that starts another one, as geo_loss_table, they are the instances that it has
    started. Raises InputError, and SetupError where no instance can be a run.
    """
    catalog, packages = installed(options)
    path = path_of(name, catalog)
    scenario, subs = reading.read_with_subs(path, packages)
    if len(subs) > 1:
        raise InputError(f"{name} starts {', '.join(subs)}: collect each by its own name")
    controller.log_in()
    instances = list(instances_of(controller, options.project, scenario.name, numbers))
    if subs:
        (scenario,) = subs.values()
        path = reading.file_beside(path, scenario.name)
        functions = [entry for instance in instances for entry in instance["openbach_functions"]]
        instances = [entry["scenario"] for entry in functions if entry.get("scenario")]
    plan = Plan(path, (), None, (), packages, catalog)
    campaigns, left_out = {}, []
    for instance in instances:
        key = instance["scenario_instance_id"], instance["start_date"]
        try:
            campaigns[key] = _campaign_of(scenario, instance, plan, options)
        except InputError as error:
            left_out.append(f"instance {key[0]} of {instance['scenario_name']}: {error}")
    if not campaigns:
        head = f"{controller.access.url}: no instance of {name} can be collected:"
        raise SetupError("\n  ".join([head, *left_out]))
    store = store_of(scenario.name, options)
    return _planned(plan, campaigns, _seeds(campaigns, store, controller.access.url)), left_out


Instance = tuple[int, str]
"""An instance's number and date: a platform that is installed anew begins with number 1 again."""


def _campaign_of(
    scenario: Scenario, instance: Mapping[str, Any], plan: Plan, options: Options
) -> Campaign:
    """Return the campaign of the one cell that an instance is a run of. Raises InputError."""
    known, own = reading.settings_of(scenario, {}), scenario.defaults
    shown = {argument["name"]: str(argument["value"]) for argument in instance["arguments"]}
    # A platform's scenario has the own value of a constant that a campaign sweeps.
    swept = scenario.sweep.get("values", {})
    settings = {
        name: (value,)
        for name, value in {**own, **shown}.items()
        if name in known and (value != own.get(name) or name in swept)
    }
    campaign = reading.campaign_of(
        reading.sweep_of(plan.path, scenario, {}, settings, (1,), plan.packages)
    )
    here = campaign.on(inventory_of(campaign, plan.catalog, options)).scenario
    (cell,) = campaign.cells
    local = here.with_functions_of({**own, **cell})
    # A cell has what a value comes to: `preset`, as one types it in the web UI, is 0 there.
    values = {**cell, **{name: value for name, value in shown.items() if name in here.arguments}}
    orders = (order_of({"values": values}, [variant]) for variant in (here, local))
    if wrong := wrong_with(instance, *orders):
        raise InputError(wrong)
    return campaign


def _planned(
    plan: Plan, campaigns: Mapping[Instance, Campaign], runs: Mapping[Instance, RunKey]
) -> Plan:
    """Return the plan with these instances as the runs of one campaign."""
    first, every = next(iter(campaigns.values())), campaigns.values()
    values = {}
    for name in first.values:
        values[name] = tuple(dict.fromkeys(campaign.values[name][0] for campaign in every))
    seeds: dict[tuple[str, ...], tuple[int, ...]] = {}
    cells: dict[tuple[str, ...], Campaign] = {}
    for instance, campaign in campaigns.items():
        key = tuple(campaign.cells[0].values())
        seeds[key] = (*seeds.get(key, ()), runs[instance][1])
        cells.setdefault(key, campaign)
    chosen = frozenset().union(*(campaign.given for campaign in every))
    campaign = replace(
        first,
        values=values,
        seeds=(1,),
        seeds_by_cell=seeds,
        presets={name: preset for each in every for name, preset in each.presets.items()},
        given=chosen,
        cells=[campaign.cells[0] for campaign in cells.values()],
        uses=[campaign.uses[0] for campaign in cells.values()],
    )
    return replace(
        plan,
        settings=tuple(f"{name}={','.join(values[name])}" for name in values if name in chosen),
        seeds=str(max(map(len, seeds.values()))),
        campaigns=(campaign,),
        collected={key: number for (number, _), key in runs.items()},
    )


def _seeds(
    campaigns: Mapping[Instance, Campaign], store: Store, url: str
) -> dict[Instance, RunKey]:
    """Return each instance's cell and seed: those of its record, or the least seed without one."""
    taken: dict[RunKey, Instance | None] = {}
    for record in store.all():
        if record.identity.get("controller") == url:
            taken[key := run_key(record.arguments, record.seed)] = None
            with suppress(OSError, DamagedRecord, KeyError, TypeError):
                kept = run_files.document(store.runs / record.run_id, FETCHED)
                taken[key] = kept["scenario_instance_id"], kept["start_date"]
    runs = {}
    for instance in sorted(campaigns):
        (cell,), seed = campaigns[instance].cells, 1
        known = [key for key, owner in taken.items() if owner == instance]
        while (key := run_key(cell, seed)) in taken and key not in known:
            seed += 1
        runs[instance] = key
        taken[key] = instance
    return runs
