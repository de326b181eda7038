# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches, the page's word for a campaign: what was asked for, how far it is, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from openbach_run.campaign.plan import Campaign, campaign_of, measures_of_jobs, presets_of
from openbach_run.campaign.sub_runs import unfold_all, unfold_campaign
from openbach_run.campaign.table import campaign_table
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import Package
from openbach_run.openbach.measures import over_time
from openbach_run.openbach.scenario import parse_scenario
from openbach_run.results.record import Record, Store, events
from openbach_run.web.answers import Services, is_number, not_found
from openbach_run.web.instances import GUEST_START_MS, find_scenario, project_inventory, sent_statistics
from openbach_run.web.replay import as_date
from openbach_run.web.store import LARGEST_ID, Row

RUNS_LIMIT = 2000
POINTS_LIMIT = 1000
"""Of a series that is sent to the page: of more, every n-th."""


def launch(
    services: Services, project: str, name: str, given: Mapping[str, Sequence[str]], seeds: tuple[int, ...]
) -> int:
    """Starts a campaign of the values that are given, at least one of each argument. Its id. Raises InputError or
    Refusal."""
    scenario, subs, versions = find_scenario(services, project, name)
    if missing := [argument for argument in scenario.arguments if not given.get(argument)]:
        raise InputError(f"{', '.join(missing)}: choose at least one value")
    chosen = {argument: tuple(values) for argument, values in given.items()}
    campaign = campaign_of(Path(name), scenario, subs, chosen, seeds, services.platform.packages, RUNS_LIMIT)
    inventory = project_inventory(services, project, campaign)
    number = services.database.execute(
        'INSERT INTO launch (project, scenario, created, "values", seeds) VALUES (?, ?, ?, ?, ?)',
        project, name, as_date(datetime.now(UTC)), json.dumps(campaign.values), json.dumps(seeds),
    )  # fmt: skip
    try:
        services.launcher.launch(campaign, inventory, project, versions, number)
    except BaseException:
        services.database.execute("DELETE FROM launch WHERE id = ?", number)
        raise
    return number


def find_launch(services: Services, number: int) -> Row:
    row = services.database.row("SELECT * FROM launch WHERE id = ?", number) if number <= LARGEST_ID else None
    if row is None:
        raise not_found("Launch", launch=number)
    return row


def recent(services: Services, count: int = 20) -> list[dict[str, Any]]:
    """The latest launches, with how many of their runs have ended."""
    rows = services.database.rows(
        "SELECT launch.*, COUNT(instance.id) AS total, COUNT(stop_date) AS done, "
        "SUM(instance.status = 'Finished Ok') AS well FROM launch JOIN instance ON instance.launch = launch.id "
        "GROUP BY launch.id ORDER BY launch.id DESC LIMIT ?",
        count,
    )
    return [
        {**dict(row), "swept": shown_values(json.loads(row["values"])), "failed": row["done"] - row["well"]}
        for row in rows
    ]


def shown_values(values: Mapping[str, Sequence[str]]) -> str:
    """Arguments with several values, or all of them if none has."""
    swept = {name: listed for name, listed in values.items() if len(listed) > 1} or values
    return "; ".join(f"{name}: {', '.join(listed)}" for name, listed in swept.items())


def runs_of(services: Services, number: int) -> list[Row]:
    return services.database.rows("SELECT * FROM instance WHERE launch = ? ORDER BY id", number)


def records_of(rows: Sequence[Row]) -> list[Record]:
    """The records of the runs that have ended and left one."""
    known = [read_record(row["run_dir"]) for row in rows if row["stop_date"] and row["run_dir"]]
    return [record for record in known if record is not None]


@lru_cache(maxsize=4096)
def read_record(run_dir: str) -> Record | None:
    place = Path(run_dir)
    return Store(place.parent.parent).load(place.name)


def campaign_of_launch(services: Services, row: Row, runs: Sequence[Row]) -> Campaign:
    """What was launched, in the versions of then."""
    versions: dict[str, int] = json.loads(runs[0]["versions"])
    sources = services.database.sources(versions)
    parsed = {name: parse_scenario(one, services.platform.jobs) for name, one in sources.items()}
    scenario = parsed.pop(row["scenario"])
    values = {name: tuple(listed) for name, listed in json.loads(row["values"]).items()}
    packages, seeds = services.platform.packages, tuple(json.loads(row["seeds"]))
    presets = presets_of(values, packages)
    campaign = Campaign(Path(scenario.name), scenario, parsed, values, seeds, presets=presets)
    known = [name for name in campaign.jobs() if name in packages]
    return replace(campaign, measures=measures_of_jobs(known, packages))


def state(services: Services, number: int) -> dict[str, Any]:
    """How far a launch is, its table, and its runs."""
    row = find_launch(services, number)
    runs = runs_of(services, number)
    values: dict[str, list[str]] = json.loads(row["values"])
    swept = [name for name, listed in values.items() if len(listed) > 1]
    records = {record.run_id: record for record in records_of(runs)}
    parts = unfold_all(list(records.values()), services.launcher.directory(row["scenario"]) / "runs")
    campaign = unfold_campaign(campaign_of_launch(services, row, runs), parts)
    shown = campaign_table(campaign, parts)
    return {
        "total": len(runs),
        "done": sum(run["stop_date"] is not None for run in runs),
        "failed": sum(run["stop_date"] is not None and run["status"] != "Finished Ok" for run in runs),
        "virtual_s": sum(_virtual_s(services, run) for run in runs),
        "table": {
            "title": shown.title,
            "header": shown.header,
            "labels": shown.labels,
            "rows": shown.rows,
            "note": shown.note,
            "measure": campaign.measure_in_words,
        },
        "runs": [
            {
                "id": run["id"],
                "cell": ", ".join(f"{name} {json.loads(run['arguments'])[name]}" for name in swept) or "the one cell",
                "seed": run["seed"],
                "status": run["status"],
                "ended": run["stop_date"] is not None,
                "virtual_s": _virtual_s(services, run),
                "measured": _measured(run, records, campaign.measure),
                "error": run["error"],
            }
            for run in runs
        ],
    }


def _virtual_s(services: Services, run: Row) -> float:
    if run["stop_date"] is None:
        return services.launcher.virtual_s(run["id"])
    return (datetime.fromisoformat(run["stop_date"]) - datetime.fromisoformat(run["start_date"])).total_seconds()


def _measured(run: Row, records: Mapping[str, Record], measure: str | None) -> float | None:
    record = records.get(Path(run["run_dir"]).name)
    return record.measures.get(measure or "") if record else None


# One run, while it runs and afterwards


def live(run: Row, packages: Mapping[str, Package]) -> dict[str, Any]:
    """Time series of a run's statistics, and when its jobs ran; times in virtual s since its beginning."""
    place = Path(run["run_dir"])
    if not run["run_dir"] or not place.is_dir():
        return {"series": [], "jobs": []}
    return {"series": list(_series(place, packages)), "jobs": _jobs(place)}


def _series(run_dir: Path, packages: Mapping[str, Package]) -> Iterator[dict[str, Any]]:
    points: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for line in sent_statistics(run_dir):
        metadata = line["_metadata"]
        labels = tuple(metadata.get(name) or "" for name in ("job_name", "agent_name", "suffix"))
        for name, value in line.items():
            if is_number(value):
                time_s = (metadata["time"] - GUEST_START_MS) / 1000
                points.setdefault((name, *labels), []).append((time_s, float(value)))
    for (name, job, agent, suffix), found in points.items():
        if len({time_s for time_s, _ in found}) > 2:
            step = -(-len(found) // POINTS_LIMIT)
            label = " ".join(filter(None, (job, "on", agent, suffix)))
            measure = over_time(name, packages[job].measures if job in packages else ())
            points_shown = [(time_s, value * measure.factor) for time_s, value in found[::step]]
            yield {"name": measure.words, "label": label, "points": points_shown}


def _jobs(run_dir: Path) -> list[dict[str, Any]]:
    try:
        return list(_jobs_in(events(run_dir)))
    except Exception:  # a guest's events: they may be anything
        return []


def _jobs_in(events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    jobs: dict[int, dict[str, Any]] = {}
    now_s = 0.0
    for event in events:
        now_s = event["t_s"]
        if event["event"] == "job_started":
            jobs[event["instance_id"]] = {
                "job": event["job"], "entity": event["entity"], "start_s": now_s, "stop_s": None, "status": "Running",
            }  # fmt: skip
        elif event["event"] in ("job_ended", "job_stop_ordered") and event["instance_id"] in jobs:
            job = jobs[event["instance_id"]]
            job.update(status=event.get("status", "Stopped"), stop_s=job["stop_s"] or now_s)
    for job in jobs.values():
        yield {**job, "stop_s": now_s if job["stop_s"] is None else job["stop_s"]}
