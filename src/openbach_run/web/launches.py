# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches, the page's word for campaigns: start, stop and resume them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from openbach_run.campaign.checks import check_campaign
from openbach_run.campaign.file import plan_file
from openbach_run.campaign.model import Campaign, Seeds
from openbach_run.campaign.reading import expanded, sweep_of
from openbach_run.campaign.sub_runs import unfold
from openbach_run.errors import InputError
from openbach_run.paths import PROJECT
from openbach_run.results.record import Record
from openbach_run.results.store import Store
from openbach_run.web import links
from openbach_run.web.answers import Refusal, Services, not_found
from openbach_run.web.index import MEMBER
from openbach_run.web.instances import find_scenario, project_inventory
from openbach_run.web.launcher import Order
from openbach_run.web.replay import as_date
from openbach_run.web.result_sets import Run, mark
from openbach_run.web.store import Row

# A launch is planned while its visitor waits.
RUNS_LIMIT = 2000


def launch(
    services: Services,
    project: str,
    name: str,
    arguments: Mapping[str, Sequence[str]],
    seeds: Seeds,
) -> int:
    """Start a campaign with the given values, at least one for each argument; return its id.

    Raises InputError or Refusal.
    """
    scenario, _, versions = find_scenario(services, project, name)
    if missing := [argument for argument in scenario.arguments if not arguments.get(argument)]:
        raise InputError(f"{', '.join(missing)}: choose at least one value")
    campaign = asked_campaign(services, project, name, arguments, seeds)
    inventory = project_inventory(services, project, campaign)
    texts = json.dumps(campaign.values), json.dumps(seeds)
    number = services.database.execute(
        'INSERT INTO launch (project, scenario, created, "values", seeds) VALUES (?, ?, ?, ?, ?)',
        *(project, name, as_date(datetime.now(UTC)), *texts),
    )
    try:
        services.launcher.launch(
            campaign, inventory, project, versions, number, partial(_remember, services, number)
        )
    # Without its runs the launch would be an empty one in the list.
    except BaseException:
        services.database.execute("DELETE FROM launch WHERE id = ?", number)
        raise
    return number


def campaign_files(services: Services) -> dict[str, Path]:
    """Return the campaign files that can be launched, by name."""
    return services.platform.catalog.all("campaigns")


def campaigns_of_file(services: Services, name: str, seeds: Seeds) -> list[Campaign]:
    """Return the campaigns of a campaign file, with its seeds or other ones.

    Raises InputError, and Refusal (404).
    """
    file = campaign_files(services).get(name)
    if file is None:
        raise not_found("Campaign", campaign=name)
    return plan_file(file, [], seeds, services.platform.packages, services.platform.catalog)


def launch_file(services: Services, name: str, seeds: Seeds, title: str) -> int:
    """Start every campaign of a campaign file; return the id of the first launch.

    The launches have a tag in common, and names from `title`, or else from the file's name.
    Raises InputError or Refusal; nothing is started then.
    """
    campaigns = campaigns_of_file(services, name, seeds)
    for campaign in campaigns:
        project_inventory(services, PROJECT, campaign)
    numbers = []
    for campaign in campaigns:
        scenario = campaign.scenario.name
        numbers.append(launch(services, PROJECT, scenario, campaign.values, campaign.every_seed))
        place = f" {len(numbers)}/{len(campaigns)}: {scenario}" if len(campaigns) > 1 else ""
        marks = {"name": f"{title or name}{place}", "tags": f"{name}-{numbers[0]}"}
        mark(services, f"launch/{numbers[-1]}", **marks)
    return numbers[0]


def asked_campaign(
    services: Services,
    project: str,
    name: str,
    arguments: Mapping[str, Sequence[str]],
    seeds: Seeds,
) -> Campaign:
    """Return the campaign that a launch of these values would be. Raises InputError or Refusal."""
    scenario, subs, _ = find_scenario(services, project, name)
    chosen = {argument: tuple(values) for argument, values in arguments.items()}
    packages = services.platform.packages
    sweep = sweep_of(Path(name), scenario, subs, chosen, seeds, packages, files=False)
    campaign = expanded(sweep, RUNS_LIMIT)
    check_campaign(campaign)
    links.contents(services.launcher.results, campaign)
    return campaign


def _remember(services: Services, number: int, orders: Sequence[Order]) -> None:
    """Store which runs a launch has, so that it also finds results that others have made."""
    rows = []
    for order in orders:
        spec, folder = order.spec, order.directory.name
        cell = services.index.cell(spec.scenario_name, spec.values)
        rows.append((number, folder, spec.run_id, cell, spec.seed, order.instance))
    services.database.execute_many(MEMBER, rows)


def find_launch(services: Services, number: int) -> Row:
    """Return the row of a launch. Raises Refusal (404)."""
    row = services.database.by_id("launch", number)
    if row is None:
        raise not_found("Launch", launch=number)
    return row


def seeds_of(row: Row) -> Seeds:
    """Return the seeds of a launch; None for the default."""
    seeds = json.loads(row["seeds"])
    return None if seeds is None else tuple(seeds)


def own_values(services: Services, project: str, name: str) -> Mapping[str, Sequence[str]]:
    """Return a scenario's own values of its arguments; {} if it is gone."""
    packages = services.platform.packages
    with suppress(InputError, Refusal):
        scenario, subs, _ = find_scenario(services, project, name)
        return sweep_of(Path(name), scenario, subs, {}, None, packages, files=False).values
    return {}


def chosen(row: Row, own: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the values of a launch that are not its scenario's own."""
    every: dict[str, list[str]] = json.loads(row["values"])
    return {name: values for name, values in every.items() if values != [*own.get(name, ())]}


def stop(services: Services, number: int) -> None:
    """Stop the runs of a launch that have not ended."""
    for row in services.database.rows(
        "SELECT i.id FROM member m JOIN instance i ON i.id = m.instance WHERE m.launch = ? AND"
        " i.stop_date IS NULL",
        number,
    ):
        services.launcher.stop(row["id"])


def resume(services: Services, number: int) -> int:
    """Start the runs of a launch again that have not finished; return how many they are.

    Raises InputError or Refusal.
    """
    row = find_launch(services, number)
    # Before it is asked which go on: what ends meanwhile is in neither.
    stopping = services.launcher.stopping()
    done = services.database.rows(
        "SELECT m.run_id, i.id FROM member m LEFT JOIN run r ON r.folder = m.folder AND r.run_id ="
        " m.run_id LEFT JOIN instance i ON i.id = m.instance WHERE m.launch = ? AND (r.status ="
        " 'Finished Ok' OR (i.id IS NOT NULL AND i.stop_date IS NULL))",
        number,
    )
    _, _, versions = find_scenario(services, row["project"], row["scenario"])
    values = json.loads(row["values"])
    campaign = asked_campaign(services, row["project"], row["scenario"], values, seeds_of(row))
    inventory = project_inventory(services, row["project"], campaign)
    # Those that go on are among them, so no run is executed twice. Those that are being stopped are
    # executed again once their guests have ended.
    without = {of["run_id"] for of in done if of["id"] not in stopping}

    def remember(orders: Sequence[Order]) -> None:
        """Store the launch's runs; bring it back if it is deleted. Raises Refusal if it is gone."""
        find_launch(services, number)
        mark(services, f"launch/{number}", deleted="")
        known = {order.spec.run_id for order in orders} | without
        for row in services.database.rows("SELECT run_id FROM member WHERE launch = ?", number):
            # Of a version of the code, or of the scenario, that is no longer there.
            if row["run_id"] not in known:
                sql = "DELETE FROM member WHERE launch = ? AND run_id = ?"
                services.database.execute(sql, number, row["run_id"])
        _remember(services, number, orders)

    orders = services.launcher.launch(
        campaign, inventory, row["project"], versions, number, remember, without
    )
    return len(orders)


def records_of(services: Services, runs: Sequence[Run]) -> list[Record]:
    """Return the records of the runs that have ended and left one."""
    return [record for _, record in _recorded(services, runs)]


def _recorded(services: Services, runs: Sequence[Run]) -> Iterator[tuple[Run, Record]]:
    """Yield each run that has ended once, with its record."""
    stores: dict[str, Store] = {}
    for run in {(run.folder, run.run_id): run for run in runs if run.row is not None}.values():
        store = stores.setdefault(run.folder, Store(services.launcher.results / run.folder))
        if (record := store.load(run.run_id)) is not None:
            yield run, record


def unfolded(services: Services, runs: Sequence[Run]) -> list[Record]:
    """Return the records of the runs, with one record per sub-scenario if a run is several."""
    records: list[Record] = []
    for run, record in _recorded(services, runs):
        run_dir = services.launcher.results / run.folder / "runs" / run.run_id
        records += unfold(record, run_dir)
    return records
