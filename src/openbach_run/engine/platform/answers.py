# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of a controller in the form of our own records: statistics, events and durations."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from openbach_run.engine.contract import OnEvent
from openbach_run.engine.platform.rest import Lost


def as_collected(text: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a controller's CSV file as a collector got them.

    The form is {name: value, "_metadata": …}. `time` is in ms since 1970; a cell of the wrong form
    stays a text.
    """
    for row in _rows(text):
        values = {
            name: _number(cell)
            for name, cell in row.items()
            if name and name != "time" and not name.startswith("@") and cell
        }
        when = row.get("time") or row.get("@job_instance_start_date") or ""
        metadata = {
            "time": _ms(when),
            "is_file": row.get("@stored_file") in ("true", "True"),
            "job_name": row.get("@job_name"),
            "agent_name": row.get("@agent_name"),
            **{
                name: _number(row.get(f"@{name}") or "")
                for name in (
                    "job_instance_id",
                    "scenario_instance_id",
                    "owner_scenario_instance_id",
                )
            },
            **({"suffix": row["@suffix"]} if row.get("@suffix") else {}),
        }
        if values:
            yield {**values, "_metadata": metadata}


def _rows(text: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file. Raises Lost for what is no whole one."""
    try:
        yield from csv.DictReader(io.StringIO(text, newline=""))
    except csv.Error as error:
        raise Lost(f"what the collector has of a job's statistics is no CSV: {error}") from error


def _number(text: str) -> Any:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _ms(date: str) -> int | None:
    with suppress(ValueError):
        return round(datetime.fromisoformat(date).timestamp() * 1000)
    return None


def duration_s(instance: Mapping[str, Any]) -> float:
    """Return how long an instance ran, in s; 0 if it has not ended."""
    start_ms, stop_ms = _ms(str(instance["start_date"])), _ms(str(instance["stop_date"]))
    return (stop_ms - start_ms) / 1000 if start_ms is not None and stop_ms is not None else 0.0


class Events:
    """Tells the changes between two looks at an instance, as events of the director's form."""

    def __init__(
        self, write: Callable[[str], Any], on_event: OnEvent, called: Mapping[str, str]
    ) -> None:
        """Begin with nothing told; `called` has the scenarios' names by those on the platform."""
        self._write, self._on_event, self._called = write, on_event, called
        self._written: set[str] = set()

    def tell(self, instance: Mapping[str, Any], t_s: float) -> None:
        """Tell what an instance shows at a time and has not shown before."""
        self._on_event({"t_s": t_s, "event": "heartbeat"})
        for event in _events(instance):
            if "scenario" in event:
                event["scenario"] = self._called.get(event["scenario"], event["scenario"])
            # A look shows the whole instance: what was told before is left out.
            if (key := json.dumps(event)) not in self._written:
                self._written.add(key)
                self._write(json.dumps({"t_s": round(t_s, 3), **event}) + "\n")


def _events(instance: Mapping[str, Any], **parent: int) -> Iterator[dict[str, Any]]:
    """Yield the events that an instance shows, as far as it still shows them."""
    number = {"scenario_instance_id": instance["scenario_instance_id"]}
    arguments = {argument["name"]: argument["value"] for argument in instance["arguments"]}
    name = instance["scenario_name"]
    yield {
        "event": "scenario_started",
        "scenario": name,
        **number,
        "arguments": arguments,
        **parent,
    }
    for function in instance["openbach_functions"]:
        status, which = function["status"], {"function": function["id"], "label": function["label"]}
        if status != "Scheduled":
            yield {"event": "function_started", **number, **which}
        if job := function.get("job"):
            started = {
                "job": job["name"],
                "entity": job["entity"],
                "instance_id": job["id"],
                **number,
            }
            yield {"event": "job_started", **started, "function": function["id"]}
            if job["status"] not in ("Scheduled", "Running"):
                yield {"event": "job_ended", **started, "status": job["status"]}
        if scenario := function.get("scenario"):
            yield from _events(
                scenario, parent_id=instance["scenario_instance_id"], function=function["id"]
            )
        if status not in ("Scheduled", "Running"):
            yield {"event": f"function_{status.lower()}", **number, **which}
    if instance["stop_date"]:
        yield {"event": "scenario_ended", "scenario": name, **number, "status": instance["status"]}
