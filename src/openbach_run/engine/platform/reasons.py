# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons for a scenario instance's failure: its failed functions and jobs, with their log lines.

A job's log lines go from its agent to the collector, whose Elasticsearch answers without a password
unless the platform uses LDAP. Lines of the controller itself (an agent that refused an order) come
from its own route `logs/`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import requests

from openbach_run.engine.platform.leftovers import jobs_in
from openbach_run.engine.platform.rest import Controller, Lost, Refused

FAILED = ("Error", "Agent Unreachable", "Not Scheduled", "Unknown")
LOGS_LIMIT_S = 10.0
"""A line is some seconds on its way from an agent to the collector's database."""
POLL_S = 1.0
COLLECTOR_TIMEOUT_S = 3.0
LOGS_PORT = 9200
"""Port of a collector's Elasticsearch, unless it was installed with another one."""
LINES = 5
"""Number of lines, the last ones, of each job's log."""
WARNING = 4
"""Severity of syslog: this and what is graver."""


@dataclass(frozen=True)
class LogLine:
    """A line that a job has logged, as the collector has it."""

    job_instance_id: int
    severity: int
    message: str


def explain(
    controller: Controller, instance: Mapping[str, Any], limit_s: float | None = None
) -> str:
    """The failed functions and jobs of an instance, for a person.

    Waits for their log lines, LOGS_LIMIT_S at most.
    """
    failed = [job for job in jobs_in(instance) if job["status"] in FAILED]
    functions = [function for function in _functions(instance) if function["status"] == "Error"]
    if not failed and not functions:
        return str(instance["status"])
    collectors = _collectors(controller)
    wanted = {job["id"] for job in failed}
    logs = (
        _job_lines(collectors, instance, wanted, LOGS_LIMIT_S if limit_s is None else limit_s)
        if failed
        else {}
    )
    lines: list[str] = []
    for function in functions:
        lines.append(f"function {function['id']} ({function['label']}): Error")
    if functions:
        lines += [f"  {line}" for line in _controller_lines(controller, instance)] or [
            "  its reason is in the controller's /var/log/openbach/openbach_director_*.log and"
            " openbach_conductor_*.log"
        ]
    for job in failed:
        lines.append(f"job {job['name']} on {job['entity']}: {job['status']}")
        lines += [f"  {line}" for line in logs.get(job["id"], [])] or [
            f"  {_where(job, collectors, instance)}"
        ]
    return "\n".join(lines)


def _functions(instance: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for function in instance["openbach_functions"]:
        yield function
        if function.get("scenario"):
            yield from _functions(function["scenario"])


def _where(job: Mapping[str, Any], collectors: Sequence[str], instance: Mapping[str, Any]) -> str:
    """Return where a person finds what could not be read here."""
    text = (
        f"its log is in /var/log/openbach/{job['name']}_*.log on its agent"
        f" {job.get('agent') or job['entity']}"
    )
    if not collectors:
        return text
    query = f"q=scenario_instance_id:{instance['scenario_instance_id']}"
    return f"{text}, and in the collector: {collectors[0]}/logstash-*/_search?{query}"


def _collectors(controller: Controller) -> list[str]:
    """URLs of the databases of logs.

    Collectors are shown to administrators only; agents name theirs to everybody.
    """
    with suppress(Refused, Lost, KeyError, TypeError):
        return [
            f"http://{collector['address']}:{collector['logs_query_port']}"
            for collector in controller.get("collector/")
        ]
    with suppress(Refused, Lost, KeyError, TypeError):
        addresses = {agent["collector_ip"] for agent in controller.get("agent/")}
        return [f"http://{address}:{LOGS_PORT}" for address in sorted(addresses)]
    return []


def _job_lines(
    collectors: Sequence[str], instance: Mapping[str, Any], wanted: set[int], limit_s: float
) -> dict[int, list[str]]:
    """Return the last lines of each of these jobs, as soon as each has one or the time is over."""
    end_s = time.monotonic() + limit_s
    while True:
        lines: dict[int, list[str]] = {}
        reachable = []
        for url in collectors:
            with suppress(requests.RequestException, ValueError, KeyError, TypeError):
                for line in read_logs(url, instance["scenario_instance_id"]):
                    if line.job_instance_id in wanted and line.severity <= WARNING:
                        lines.setdefault(line.job_instance_id, []).append(line.message)
                reachable.append(url)
        if lines.keys() == wanted or not reachable or time.monotonic() > end_s:
            return {number: messages[-LINES:] for number, messages in lines.items()}
        time.sleep(POLL_S)


def read_logs(url: str, scenario_instance_id: int) -> list[LogLine]:
    """Return the log lines of a scenario instance and its sub-scenarios, oldest first.

    They come from a collector's Elasticsearch. Raises requests.RequestException, and ValueError,
    KeyError or TypeError for another kind of answer.
    """
    number = scenario_instance_id
    query = {
        "size": 500,
        "sort": [{"@timestamp": "desc"}],
        "query": {
            "query_string": {
                "query": f"scenario_instance_id:{number} OR owner_scenario_instance_id:{number}"
            },
        },
    }
    with requests.Session() as session:
        session.trust_env = False
        answer = session.post(f"{url}/logstash-*/_search", json=query, timeout=COLLECTOR_TIMEOUT_S)
        answer.raise_for_status()
        hits = answer.json()["hits"]["hits"]
    return [_line(hit["_source"]) for hit in reversed(hits)]


def _line(source: Mapping[str, Any]) -> LogLine:
    """Return a log line of Logstash's document.

    Its severity is where its version of the Elastic Common Schema has it. A message that was
    taken apart may be a list of the whole text and its last part.
    """
    severity = source.get("severity")
    if severity is None:
        severity = source.get("log", {}).get("syslog", {}).get("severity", {}).get("code", WARNING)
    message = source["message"]
    text = str(message[-1] if isinstance(message, list) else message)
    return LogLine(int(source["job_instance_id"]), int(severity), " ".join(text.split()))


def _controller_lines(controller: Controller, instance: Mapping[str, Any]) -> list[str]:
    """Return the errors that the controller's own programs have logged since the instance began."""
    with suppress(Refused, Lost, ValueError, TypeError):
        begun = datetime.fromisoformat(str(instance["start_date"]))
        delay_ms = round((datetime.now(UTC) - begun).total_seconds() * 1000) + 1000
        logs = controller.get("logs/", level="3", delay=str(max(delay_ms, 0)))
        return [" ".join(str(message).split()) for *_, message in logs][-LINES:]
    return []
