# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario that only starts other scenarios, like geo_loss_table: its run holds several transfers, each of which
counts as a run of the scenario that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openbach_run.campaign.plan import Campaign
from openbach_run.engine.contract import COMPLAINED
from openbach_run.openbach.values import kind_of
from openbach_run.results import run_files
from openbach_run.results.measures import measures, measures_of
from openbach_run.results.record import DAMAGED, Record, events
from openbach_run.results.run_files import DamagedRecord


def unfold(record: Record, run_dir: Path) -> list[Record]:
    """A record of each sub-scenario instance with its own arguments and measures; the record itself if its scenario did
    anything but start scenarios, or ended before it started one. Also itself where what an older version has left was
    damaged since; the log names the file."""
    try:
        parts = parts_of(record, run_dir) if record.parts is None else record.parts
    except DamagedRecord as damage:
        import logging

        logging.getLogger(__name__).warning("%s; its row is that of record.json", damage)
        return [record]
    return [replace(record, **part, parts=[]) for part in parts] or [record]


def parts_of(record: Record, run_dir: Path) -> list[dict[str, Any]]:
    """`Record.parts`, from what the run has left. Raises DamagedRecord."""
    told = events(run_dir)
    root = _root(told)
    if any(event["event"] == "job_started" and event["scenario_instance_id"] == root for event in told):
        return []
    own = _own_arguments(run_dir)
    constants = {} if own is None else {name: value for name, value in record.arguments.items() if name not in own}
    ends = {event["scenario_instance_id"]: event for event in told if event["event"] == "scenario_ended"}
    return [
        {
            "scenario": event["scenario"],
            "arguments": {**event["arguments"], **constants},
            "status": ends[number]["status"]
            if number in ends and record.status not in (COMPLAINED, DAMAGED)
            else record.status,
            "virtual_s": ends[number]["t_s"] - event["t_s"] if number in ends else 0.0,
            "measures": measures(run_dir, measures_of(record), event["arguments"], number),
        }
        for event in told
        if event["event"] == "scenario_started" and "parent_id" in event
        for number in [event["scenario_instance_id"]]
    ]


def unfold_all(records: Sequence[Record], runs: Path) -> list[Record]:
    return [part for record in records for part in unfold(record, runs / record.run_id)]


def unfold_campaign(campaign: Campaign, unfolded: Sequence[Record]) -> Campaign:
    """The campaign that a scenario stands for whose functions all start the same other scenario; the scenario's own as
    long as none of these has been started."""
    bodies = [function[kind_of(function)] for function in campaign.scenario.functions]
    started = {body.get("scenario_name") for body in bodies}
    if len(started) != 1 or (name := str(*started)) not in campaign.sub_scenarios:
        return campaign
    sub, parts = campaign.sub_scenarios[name], [part for part in unfolded if part.scenario == name]
    if not parts:
        return campaign
    values = {
        argument: tuple(dict.fromkeys(part.arguments[argument] for part in parts))
        for argument in [*bodies[0]["arguments"], *sub.defaults]
        if all(argument in part.arguments for part in parts)
    }
    return replace(campaign, scenario=sub, sub_scenarios={}, values=values)


def _own_arguments(run_dir: Path) -> set[str] | None:
    """Names of the arguments of the scenario that was launched; None for a run that does not say."""
    try:
        return set(run_files.document(run_dir, "run.json")["arguments"])
    except (OSError, DamagedRecord, TypeError, KeyError):
        return None


def _root(told: Sequence[Mapping[str, Any]]) -> Any:
    """The id of the scenario instance that no other one started."""
    return next((event["scenario_instance_id"] for event in told if event["event"] == "scenario_started"), None)
