# SPDX-License-Identifier: GPL-3.0-or-later
"""REST API: agents, collectors, jobs and logs.

The hosts and jobs of a local controller are given, so they can only be read.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from operator import itemgetter
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from openbach_run.web.answers import (
    Body,
    Refusal,
    Services,
    With,
    malformed,
    not_found,
    project_of,
    refused_by_view,
)
from openbach_run.web.platform import COLLECTOR, STARTED
from openbach_run.web.replay import as_date

router = APIRouter()

DONE = {"response": {}, "returncode": 204, "last_operation_date": STARTED}
FIXED = "This is a local controller: its hosts are those of inventory.yml"
LIKE = 0.6
# Some 30 years; a larger number would be no date.
MAX_DELAY_MS = 10**12


def project_of_agents(services: Services) -> dict[str, str]:
    """Return, by an agent's address, the first project with an entity on it."""
    projects: dict[str, str] = {}
    for name, document in services.database.projects().items():
        for entity in document["entity"]:
            if entity["agent"]:
                projects.setdefault(entity["agent"]["address"], name)
    return projects


# Agents and collectors


@router.get("/agent/")
def agents(request: Request, services: With) -> list[dict[str, Any]]:
    """Return all agents; with `services` in the query, what runs on them."""
    running = {"services": {"openbach_agent.service": "running"}, "errors": None}
    more = running if "services" in request.query_params else {}
    projects = project_of_agents(services)
    known = [
        services.platform.agent(address, projects.get(address))
        for address in services.platform.addresses.values()
    ]
    return [{**agent, **more} for agent in known if agent]


@router.get("/agent/{address}/")
def agent(address: str, services: With) -> dict[str, Any]:
    """Return the agent at an address. Raises Refusal (404)."""
    described = services.platform.agent(address, project_of_agents(services).get(address))
    if described is None:
        raise not_found("Agent", agent_address=address)
    return described


@router.get("/agent/{address}/state/")
def agent_state(address: str, services: With) -> dict[str, Any]:
    """Return the last operations on an agent. Raises Refusal (404)."""
    agent(address, services)
    return {"assign_collector": DONE, "install": DONE, "log_severity": None, "uninstall": None}


@router.api_route("/agent/", methods=["POST"])
@router.api_route("/agent/{address}/", methods=["POST", "PUT", "DELETE"])
@router.api_route("/collector/", methods=["POST"])
@router.api_route("/collector/{address}/", methods=["POST", "PUT", "DELETE"])
@router.api_route("/reboot/", methods=["POST"])
@router.api_route("/file/", methods=["POST"])
def fixed() -> None:
    """Refuse (422) to change what the inventory says."""
    raise Refusal(422, FIXED)


@router.get("/collector/")
def collectors() -> list[dict[str, Any]]:
    """Return all collectors: one."""
    return [collector(COLLECTOR)]


@router.get("/collector/{address}/")
def collector(address: str) -> dict[str, Any]:
    """Return the collector at an address. Raises Refusal (404)."""
    if address != COLLECTOR:
        raise not_found("Collector", collector_address=address)
    return {
        "address": COLLECTOR,
        # The ports of OpenBACH's collector, for whoever shows them; nothing listens there.
        "logs_port": 10514,
        "logs_query_port": 9200,
        "logs_database_name": "logstash",
        "stats_mode": "udp",
        "stats_port": 2222,
        "stats_query_port": 8086,
        "stats_database_name": "openbach",
        "stats_database_precision": "ms",
        "logstash_broadcast_mode": "udp",
        "logstash_broadcast_port": 2223,
    }


# Jobs


@router.get("/job/")
def jobs(request: Request, services: With) -> Any:
    """Return all jobs, those of an agent, or those that are like a text."""
    query = request.query_params
    if "external" in query:
        return []
    if "address" in query:
        if services.platform.host_at(query["address"]) is None:
            raise not_found("Agent", agent_address=query["address"])
        return {"agent": query["address"], "installed_jobs": services.platform.installed_jobs()}
    described = list(services.platform.described.values())
    if (text := query.get("string_to_search")) is not None:
        return [job for job in described if _is_like(job["general"], text)]
    return described


def _is_like(general: dict[str, Any], searched: str) -> bool:
    """Return whether a word of the job's name, or a keyword, is similar to the searched text."""
    # SequenceMatcher takes the square of the length.
    wanted = searched[:100].lower()
    words = [*general["name"].split("_"), *general["keywords"]]
    return any(SequenceMatcher(None, word.lower(), wanted).ratio() > LIKE for word in words)


@router.post("/job/")
def install(body: Body) -> Any:
    """Answer that a job is being installed, as all are there already."""
    if body.get("action") == "install":
        return JSONResponse({}, 202)  # they all are
    raise Refusal(
        422,
        "This is a local controller: its jobs are those of its checkout; `openbach-run serve"
        " --jobs` adds more",
    )


@router.get("/job/{name}/")
def job(name: str, request: Request, services: With) -> Any:
    """Return a job, or a part of it (`type` in the query). Raises Refusal (404, 400)."""
    described = services.platform.described.get(name)
    if described is None:
        raise not_found("Job", job_name=name)
    match request.query_params.get("type", "json"):
        case "json":
            return described
        case "statistics":
            return {"job_name": name, "statistics": described["statistics"]}
        case "help":
            return {"job_name": name, "help": services.platform.help(name)}
        case "keywords":
            return {"job_name": name, "keywords": described["general"]["keywords"]}
        case "agents":
            installed = name in {job["name"] for job in services.platform.installed_jobs()}
            hosts = services.platform.addresses.items() if installed else ()
            on = [{"agent__name": entity, "agent__address": address} for entity, address in hosts]
            return {"job_name": name, "installed_on": on}
        case kind:
            raise refused_by_view(400, f"Data malformed: unknown type {kind}")


@router.api_route("/job/{name}/", methods=["POST", "DELETE"])
def change_job(name: str) -> None:
    """Refuse (422) to change a job of the checkout."""
    raise Refusal(422, f"This is a local controller: the job {name} is that of its checkout")


@router.get("/job/{name}/state/")
def job_state(name: str, request: Request, services: With) -> dict[str, Any]:
    """Return the last operations on a job at an agent. Raises Refusal."""
    if "address" not in request.query_params:
        raise malformed("address")
    job(name, request, services)
    return {"install": DONE, **dict.fromkeys(("uninstall", "log_severity", "stat_policy"))}


@router.get("/statistics/{project}/")
def statistics_names(project: str, services: With) -> dict[str, list[str]]:
    """Return the names of the statistics that each job says it sends."""
    project_of(services, project)
    described = services.platform.described.items()
    return {name: sorted(map(itemgetter("name"), job["statistics"])) for name, job in described}


# Logs


@router.get("/logs/")
def logs(request: Request, services: With) -> list[list[Any]]:
    """Return what went wrong lately: instances that failed, with the reason.

    The rest of the API has no place for the reason.
    """
    try:
        level = int(request.query_params.get("level", "5"))
        delay_ms = min(max(int(request.query_params.get("delay", MAX_DELAY_MS)), 0), MAX_DELAY_MS)
    except ValueError:
        raise Refusal(400, "GET data malformed: level and delay should be integers") from None
    since = as_date(datetime.now(UTC) - timedelta(milliseconds=delay_ms))
    rows = services.database.rows(
        "SELECT * FROM instance WHERE error IS NOT NULL AND start_date >= ? ORDER BY id LIMIT 100",
        since,
    )
    return [
        [
            f"instance-{row['id']}",
            int(datetime.fromisoformat(row["start_date"]).timestamp() * 1000),
            "err",
            row["scenario"],
            f"scenario instance {row['id']}: {row['error']}",
        ]
        for row in rows
        # 3 is `err` in syslog: there are no more severe lines here.
        if level >= 3
    ]
