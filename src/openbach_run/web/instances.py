# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenario instances: how they start, how they went, and what their jobs have measured."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from openbach_run.campaign.model import Sweep
from openbach_run.campaign.reading import expanded, is_value, sub_scenarios
from openbach_run.engine.virtual.engine import GUEST_START_NS
from openbach_run.errors import InputError
from openbach_run.openbach.reading import parse_scenario
from openbach_run.openbach.refusals import Malformed
from openbach_run.openbach.scenario import Scenario, is_place, jobs_by_entity
from openbach_run.openbach.start import check_values
from openbach_run.results import run_files
from openbach_run.results.record import events, statistics
from openbach_run.results.run_files import DamagedRecord
from openbach_run.topology.hosts import Inventory
from openbach_run.web.answers import Refusal, Services, not_found, project_of, refused_scenario
from openbach_run.web.replay import Names, ScenarioState, as_date, begin, document, end, replay
from openbach_run.web.store import STOPPED, Row

GUEST_START_MS = GUEST_START_NS // 1_000_000
NUMBERS = ("time", "is_file", "job_instance_id", "scenario_instance_id")
"""The fields of a statistic's metadata that are whole numbers."""
TEXTS = ("job_name", "agent_name", "suffix")
"""The fields that are texts, or missing."""

# Starting


def read_scenario(services: Services, sent: Any) -> Scenario:
    """Return a scenario that is to be stored. Raises Malformed.

    Its name becomes a part of an address, so some names are refused. The backend accepts these, but
    then it cannot show the scenario, and it refuses them in projects.
    """
    scenario = parse_scenario(sent, services.platform.jobs)
    text = ""
    if "/" in scenario.name:
        text = "'/' character forbidden in scenario name"
    elif scenario.name in ("", ".", ".."):
        text = "You must provide a name to create a Scenario"
    elif not is_place(scenario.name):
        text = "Unprintable or '\\' character forbidden in scenario name"
    if text:
        raise Malformed(400, {"error": text, "name": scenario.name})
    return scenario


def find_scenario(
    services: Services, project: str, name: str
) -> tuple[Scenario, dict[str, Scenario], dict[str, int]]:
    """Return a project's scenario, its sub-scenarios, and the versions of all, by name."""
    versions: dict[str, int] = {}

    def find(wanted: str) -> Scenario:
        """Return the latest version of a scenario, and note which it is. Raises Refusal."""
        row = services.database.scenario(project, wanted)
        if row is None:
            raise not_found("Scenario", scenario_name=wanted, project_name=project)
        versions[wanted] = row["id"]
        try:
            return parse_scenario(json.loads(row["source"]), services.platform.jobs)
        except Malformed as error:
            raise refused_scenario(error) from None

    project_of(services, project)
    scenario = find(name)
    return scenario, sub_scenarios(scenario, find), versions


def start(services: Services, project: str, name: str, body: Any) -> int:
    """Start one instance as the API does, without defaults and with seed 1; return its id.

    As in OpenBACH the hosts are checked before the arguments, and arguments that are refused leave
    an instance behind.
    """
    scenario, subs, versions = find_scenario(services, project, name)
    inventory = project_inventory(services, project, Sweep(Path(name), scenario, subs, {}, (1,)))
    if not isinstance(body, dict) or not all(is_value(value) for value in body.values()):
        raise Refusal(400, "Arguments are an object of texts by name", scenario_name=name)
    arguments = {argument: str(value) for argument, value in body.items()}
    try:
        check_values(scenario, arguments, services.platform.jobs)
    except Malformed as error:
        now = as_date(datetime.now(UTC))
        services.database.add_instance(
            number=1,
            project=project,
            scenario=scenario.name,
            versions=json.dumps(versions),
            seed=1,
            status=STOPPED,
            arguments=json.dumps(
                {known: value for known, value in arguments.items() if known in scenario.arguments}
            ),
            start_date=now,
            stop_date=now,
            error=str(error),
        )
        raise refused_scenario(error) from None
    values: dict[str, tuple[str, ...]] = {name: (value,) for name, value in arguments.items()}
    packages = services.platform.packages
    sweep = Sweep(Path(scenario.name), scenario, subs, values, (1,), packages)
    (order,) = services.launcher.launch(expanded(sweep), inventory, project, versions, None)
    return order.instance


def project_inventory(services: Services, project: str, campaign: Sweep) -> Inventory:
    """Return the inventory of a campaign's scenario.

    That is one of topologies/ if the scenario names one; else the platform's, with the hosts named
    as the project's entities. Raises Refusal (422) if the scenario needs a topology, an entity, an
    agent or a job that is missing.
    """
    if own := services.platform.topology_of(campaign.scenario):
        return own
    entities = {
        entity["name"]: entity["agent"]
        for entity in (services.database.project(project) or {"entity": []})["entity"]
    }
    needed = jobs_by_entity((campaign.scenario, *campaign.sub_scenarios.values()))
    cannot = f"Cannot start scenario {campaign.scenario.name}: some"
    if absent := [entity for entity in needed if entity not in entities]:
        raise Refusal(422, f"{cannot} entities are not in the project.", entities=absent)
    if bare := [entity for entity in needed if entities[entity] is None]:
        raise Refusal(422, f"{cannot} entities are missing an attached agent.", entities=bare)
    # A job of which only the arguments are known cannot run here.
    runnable = {job["name"] for job in services.platform.installed_jobs()}
    lacking = {
        entity: {
            "agent": services.platform.agent(entities[entity]["address"], project),
            "jobs": sorted(jobs - runnable),
        }
        for entity, jobs in needed.items()
        if jobs - runnable
    }
    if lacking:
        raise Refusal(422, f"{cannot} jobs are missing on agents.", entities=lacking)
    # The project may call its entities otherwise than the inventory; the run has the project's
    # names.
    called = {
        services.platform.host_at(agent["address"]): entity
        for entity, agent in entities.items()
        if agent
    }
    hosts = services.platform.inventory.hosts
    return services.platform.inventory._replace(
        hosts=tuple(host._replace(entity=called.get(host.entity, host.entity)) for host in hosts)
    )


# How it went


def find_instance(services: Services, number: int) -> Row:
    """Return the row of an instance. Raises Refusal (404)."""
    row = services.database.instance(number)
    if row is None:
        raise not_found("Scenario Instance", scenario_instance_id=number)
    return row


def states_of(services: Services, owner: Row) -> tuple[dict[int, ScenarioState], Names]:
    """Return the states of a launched instance and its sub-scenarios, and the API's names for them.

    The states are by their number in the record.
    """
    stored = {**services.database.stored(json.loads(owner["versions"])), **_as_run(owner)}
    states = _replayed(Path(owner["run_dir"]), stored) if owner["run_dir"] else {}
    values = json.loads(owner["arguments"])
    if 1 not in states:
        # The engine has not begun, or its events make no sense: nothing has run yet.
        scenario = stored[owner["scenario"]]
        arguments = {name: value for name, value in values.items() if name in scenario["arguments"]}
        event = {"arguments": arguments, "scenario_instance_id": 1, "t_s": 0.0}
        states[1] = begin(event, scenario)
    for state in states.values():
        state.constants |= {name: values[name] for name in state.constants if name in values}
    begun = datetime.fromisoformat(owner["start_date"])
    if owner["stop_date"]:
        lasted = datetime.fromisoformat(owner["stop_date"]) - begun
        end(states[1], owner["status"], lasted.total_seconds())
    else:  # its record is not whole before the database says so
        states[1].status, states[1].stop_s = owner["status"], None
    ids, agents = services.database.ids(owner["id"]), agents_of(services, owner["project"])
    return states, Names(owner["project"], owner["id"], *ids, agents, begun)


def _as_run(owner: Row) -> dict[str, dict[str, Any]]:
    """Return the run's scenarios by name, with its constants; {} until its engine has begun."""
    try:
        spec = run_files.document(Path(owner["run_dir"]), "run.json")
        return {spec["scenario"]["name"]: spec["scenario"], **spec["sub_scenarios"]}
    except (OSError, DamagedRecord, TypeError, KeyError):
        return {}


def _replayed(run_dir: Path, stored: Mapping[str, Mapping[str, Any]]) -> dict[int, ScenarioState]:
    """Return the states that a run's events tell; {} if the events make no sense.

    The events are a guest's. Without them only what the database knows is told.
    """
    try:
        return replay(events(run_dir), stored)
    # Whatever a guest may write: a page must not fail for it.
    except Exception:
        return {}


def agents_of(services: Services, project: str) -> dict[str, dict[str, str]]:
    """Return the name and address of each agent, by the project's entities."""
    document = services.database.project(project) or {"entity": []}
    return {
        entity["name"]: {
            "name": services.platform.host_at(entity["agent"]["address"]) or entity["name"],
            "address": entity["agent"]["address"],
        }
        for entity in document["entity"]
        if entity["agent"]
    }


def shown_instance(services: Services, row: Row) -> dict[str, Any]:
    """Return the answer to GET scenario_instance/<id>/."""
    states, names = states_of(services, find_instance(services, row["owner"]))
    if row["number"] not in states:
        raise not_found("Scenario Instance", scenario_instance_id=row["id"])
    return document(states[row["number"]], names)


def shown_quietly(services: Services, rows: list[Row]) -> list[dict[str, Any]]:
    """Return the short form of instances, without their functions."""
    children = services.database.children([row["id"] for row in rows])
    return [
        {
            "scenario_name": row["scenario"],
            "scenario_instance_id": row["id"],
            "status": row["status"],
            "start_date": row["start_date"],
            "sub_scenario_instance_ids": children[row["id"]],
        }
        for row in rows
    ]


# What was measured


def measured(services: Services, row: Row) -> Iterator[dict[str, Any]]:
    """Yield the statistics of an instance and its sub-scenarios, with the API's ids and dates.

    Dates are in ms since 1970.
    """
    owner = find_instance(services, row["owner"])
    states, names = states_of(services, owner)
    begun_ms = int(names.begin.timestamp() * 1000)
    wanted = set(_numbers(states[row["number"]])) if row["number"] in states else set()
    for line in sent_statistics(Path(owner["run_dir"])) if owner["run_dir"] else []:
        metadata = line["_metadata"]
        if metadata["scenario_instance_id"] in wanted and metadata["job_instance_id"] in names.jobs:
            values = {name: value for name, value in line.items() if name != "_metadata"}
            yield {
                **metadata,
                "time": metadata["time"] - GUEST_START_MS + begun_ms,
                "job_instance_id": names.jobs[metadata["job_instance_id"]],
                "scenario_instance_id": names.instances.get(metadata["scenario_instance_id"]),
                "owner_scenario_instance_id": owner["id"],
                "values": values,
            }


def sent_statistics(run_dir: Path) -> list[Mapping[str, Any]]:
    """Return the statistics of a run whose metadata is complete.

    The file is a guest's: it may hold anything.
    """
    try:
        return [line for line in statistics(run_dir) if _is_whole(line)]
    except (InputError, OSError, ValueError, RecursionError):
        return []


def _is_whole(line: Any) -> bool:
    """Return whether a line has the metadata that a statistic has."""
    metadata = line.get("_metadata") if isinstance(line, dict) else None
    return (
        isinstance(metadata, dict)
        and all(isinstance(metadata.get(name), int) for name in NUMBERS)
        and all(isinstance(metadata.get(name), str | None) for name in TEXTS)
    )


def _numbers(state: ScenarioState) -> Iterator[int]:
    """Yield the numbers, in the record, of a scenario instance and of its sub-scenarios."""
    yield state.number
    for function in state.functions:
        if function.scenario:
            yield from _numbers(function.scenario)


def jobs_in(shown: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the jobs of an instance and its sub-scenarios as pairs (instance, job)."""
    for function in shown["openbach_functions"]:
        if "job" in function:
            yield shown, function["job"]
        if "scenario" in function:
            yield from jobs_in(function["scenario"])


def as_csv(services: Services, row: Row) -> str:
    """Return the answer to GET scenario_instance/<id>/csv/.

    It has a row per statistic sent, and columns in alphabetical order.
    """
    about = {
        job["id"]: {
            "@agent_name": job["agent_name"],
            "@job_instance_id": job["id"],
            "@job_name": job["name"],
            "@scenario_instance_id": instance["scenario_instance_id"],
            "@owner_scenario_instance_id": instance["owner_scenario_instance_id"],
            "@scenario_start_date": _local(instance["start_date"]),
            "@scenario_stop_date": _local(instance["stop_date"]),
            "@job_instance_start_date": _local(job["start_date"]),
            "@job_instance_stop_date": _local(job["stop_date"]),
        }
        for instance, job in jobs_in(shown_instance(services, row))
    }
    # Without any statistics there is a row per job.
    lines = [
        {
            **about[sent["job_instance_id"]],
            "@stored_file": sent["is_file"],
            "@suffix": sent.get("suffix"),
            "time": _local_ms(sent["time"]),
            **sent["values"],
        }
        for sent in measured(services, row)
        if sent["job_instance_id"] in about
    ] or list(about.values())
    text = io.StringIO()
    writer = csv.DictWriter(text, sorted(set(chain.from_iterable(lines))))
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _local(date: str | None) -> str:
    """Return a date as the backend's CSV has it: 2026-11-21 04:40:51.123000+00:00."""
    try:
        return str(datetime.fromisoformat(date or ""))
    except ValueError:
        return ""


def _local_ms(ms: int) -> str:
    """Return a time in ms since 1970 as the backend's CSV has it."""
    return str(datetime.fromisoformat("1970-01-01T00:00:00+00:00") + timedelta(milliseconds=ms))
