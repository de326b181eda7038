# SPDX-License-Identifier: GPL-3.0-or-later
"""The runs within a run: a scenario may only start other scenarios, like geo_loss_table.

A run of it holds several transfers. Each counts as a run of the scenario that made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openbach_run.campaign.model import Campaign
from openbach_run.campaign.reading import expanded
from openbach_run.engine.contract import COMPLAINED
from openbach_run.openbach.table_scenario import TABLE_JOB
from openbach_run.openbach.values import kind_of
from openbach_run.results import campaign_file, run_files
from openbach_run.results.files import PARQUET, write_parquet
from openbach_run.results.measures import measures, measures_of, texts
from openbach_run.results.record import DAMAGED, Record, events, failures_in_words, statistics
from openbach_run.results.run_files import DamagedRecord
from openbach_run.results.store import Store


def unfold(record: Record, run_dir: Path) -> list[Record]:
    """Return a record for each sub-scenario instance, with its own arguments and measures.

    The record itself is returned if its scenario did anything but start scenarios, or ended before
    it started one; also if files of an older version, which are needed here, were damaged since.
    The log then names the file.
    """
    try:
        parts = parts_of(record, run_dir) if record.parts is None else record.parts
    except DamagedRecord as damage:
        import logging

        logging.getLogger(__name__).warning("%s; its row is that of record.json", damage)
        return [record]
    return [replace(record, **part, parts=[]) for part in parts] or [record]


def parts_of(record: Record, run_dir: Path) -> list[dict[str, Any]]:
    """Return the content of `Record.parts`, from the files that the run left.

    Raises DamagedRecord.
    """
    log = events(run_dir)
    begins = [event for event in log if event["event"] == "scenario_started"]
    # That of the scenario that was launched: every other one has a parent.
    root = begins[0]["scenario_instance_id"] if begins else None
    if any(
        event["event"] == "job_started"
        and event["scenario_instance_id"] == root
        and event.get("job") != TABLE_JOB
        for event in log
    ):
        return []
    own = _own_arguments(run_dir)
    constants = (
        {}
        if own is None
        else {name: value for name, value in record.arguments.items() if name not in own}
    )
    # By id: instances of one scenario may go on at the same time.
    ends = {
        event["scenario_instance_id"]: event for event in log if event["event"] == "scenario_ended"
    }
    failures = _failures(run_dir)
    # A run that complained or is damaged is so as a whole: none of its parts may look better.
    is_spoiled = record.status in (COMPLAINED, DAMAGED)
    of_subs = [event for event in begins if "parent_id" in event]
    sent = statistics(run_dir) if of_subs else []
    declared = measures_of(record)
    parts = []
    for event in of_subs:
        number = event["scenario_instance_id"]
        end = ends.get(number)
        parts.append(
            {
                "scenario": event["scenario"],
                "arguments": {**event["arguments"], **constants},
                "status": record.status if end is None or is_spoiled else end["status"],
                "error": record.error or _error(failures, event["scenario"], number),
                "virtual_s": 0.0 if end is None else end["t_s"] - event["t_s"],
                "measures": measures(run_dir, sent, declared, event["arguments"], number),
                "texts": texts(sent, declared, number),
            }
        )
    return parts


def parquet_of(directory: Path) -> Path:
    """Return results.parquet of a results directory, which is written if it is not there.

    Raises InputError for a directory without the results of a campaign, OSError.
    """
    file = directory / PARQUET
    runs = campaign_file.read(directory)["runs"]
    if not file.exists():
        store = Store(directory)
        records = filter(None, (store.load(run["run_id"]) for run in runs))
        # Under another name until it is whole: an interruption leaves no half file.
        new = file.with_name(f".{file.name}.new")
        write_parquet(unfold_all([*records], store.runs), new)
        new.replace(file)
    return file


def failed_parts(records: Sequence[Record], runs: Path) -> list[Record]:
    """Return the records of sub-scenarios that have failed although their run has finished.

    On OpenBACH, and here, a scenario whose sub-scenarios fail is `Finished Ok`.
    """
    finished = [record for record in records if record.finished]
    return [part for part in unfold_all(finished, runs) if part.status == "Finished Ko"]


def unfold_all(records: Sequence[Record], runs: Path) -> list[Record]:
    """Return the records of `unfold` for each record, in one list."""
    parts: list[Record] = []
    for record in records:
        parts += unfold(record, runs / record.run_id)
    return parts


def unfold_campaign(campaign: Campaign, unfolded: Sequence[Record]) -> Campaign:
    """Return the campaign of the one scenario that all functions of a campaign's scenario start.

    The campaign itself is returned if they start others, or if none has been started yet.
    """
    bodies = [
        function[kind_of(function)]
        for function in campaign.scenario.functions
        if TABLE_JOB not in function.get("start_job_instance", {})
    ]
    started = {body.get("scenario_name") for body in bodies}
    # The table of several scenarios would mix what cannot be compared.
    if len(started) != 1 or (name := str(*started)) not in campaign.sub_scenarios:
        return campaign
    sub, parts = campaign.sub_scenarios[name], [part for part in unfolded if part.scenario == name]
    if not parts:
        return campaign
    # The values that the parts had, in the order of their first appearance.
    values: dict[str, tuple[str, ...]] = {}
    for argument in [*bodies[0]["arguments"], *sub.defaults]:
        if all(argument in part.arguments for part in parts):
            values[argument] = tuple(dict.fromkeys(part.arguments[argument] for part in parts))
    return expanded(replace(campaign, scenario=sub, sub_scenarios={}, values=values))


def _own_arguments(run_dir: Path) -> set[str] | None:
    """Return the names of the launched scenario's arguments; None if the run does not say."""
    try:
        return set(run_files.document(run_dir, "run.json")["arguments"])
    except (OSError, DamagedRecord, TypeError, KeyError):
        return None


def _failures(run_dir: Path) -> list[dict[str, Any]]:
    """Return the entries of `failed` in a run's result.json; [] without the file."""
    try:
        failed: list[dict[str, Any]] = run_files.document(run_dir, "result.json")["failed"]
    except (OSError, DamagedRecord, TypeError, KeyError):
        return []
    return failed


def _error(failures: Sequence[Mapping[str, Any]], name: str, instance: int) -> str | None:
    """Return what failed in a scenario instance, for a person; None if nothing has.

    Of a function that failed only the scenario's name is known.
    """
    own = [
        failure
        for failure in failures
        if failure.get("scenario_instance_id") == instance or failure.get("scenario") == name
    ]
    return failures_in_words(own) or None
