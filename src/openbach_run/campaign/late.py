# SPDX-License-Identifier: GPL-3.0-or-later
"""Notes on runs that had ended before what was to happen in them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from string import Template

from openbach_jobs import dvbs2, link_file
from openbach_jobs.presets import ES_N0_FILE
from openbach_run.campaign.model import Campaign
from openbach_run.link_checks import ORBIT
from openbach_run.openbach.measures import measure_of
from openbach_run.openbach.values import jobs_started
from openbach_run.results.record import Record, statistics
from openbach_run.results.run_files import DamagedRecord


def late(campaign: Campaign, records: Sequence[Record], runs: Path) -> list[str]:
    """Return a note on outages, and one on each file of a link, that came too late in some runs."""
    done = [run for run in records if run.finished and run.scenario == campaign.scenario.name]
    notes = []
    if missed := sum(_missed(campaign, run, runs) for run in done):
        notes.append(
            f"WARNING: in {missed} of {len(done)} runs the event (job outage) came after the end of"
            " what is measured, or never"
        )
    sources = [(name, file, file) for name, files in campaign.link_files.items() for file in files]
    sources += [(ORBIT, name, str(preset.link_file)) for name, preset in campaign.presets.items()]
    for name, value, file in sources:
        of_file = [run for run in done if run.arguments.get(name) == value]
        ends_s = [run.virtual_s for run in of_file if not run.measures.get("link_start_s")]
        first_s = _first_change_s(name, file)
        if first_s and (over := [end_s for end_s in ends_s if end_s <= first_s]):
            notes.append(
                f"WARNING: {len(over)} of {len(ends_s)} runs with {name}={value} had ended before"
                f" its first change, at {first_s:g} s"
            )
    return notes


def _first_change_s(name: str, file: str) -> float | None:
    """Return when a link file, or one of Es/N0, changes for the first time; None if it does not."""
    with suppress(ValueError, OSError):
        if name == ES_N0_FILE:
            return next((time_s for time_s, _, _ in dvbs2.read_series(file) if time_s > 0), None)
        return next((row.time_s for row in link_file.read(file) if row.time_s > 0), None)
    return None


def _missed(campaign: Campaign, record: Record, runs: Path) -> bool:
    """Return whether an outage of a run did not begin before the end of what is measured."""
    values = {**campaign.constants, **record.arguments}
    started = chain.from_iterable(map(jobs_started, campaign.scenario.functions))
    kinds = [args["kind"][0][0] for job, args in started if job == "outage" and "kind" in args]
    if {Template(kind).safe_substitute(values) for kind in kinds} <= {"none"}:
        return False
    wanted = measure_of(campaign.measure or "", campaign.declared)[1].statistic
    began, ended = [], []
    with suppress(DamagedRecord, OSError):
        for line in statistics(runs / record.run_id):
            if line["_metadata"]["job_name"] == "outage" and "began" in line:
                began.append(line["_metadata"]["time"])
            elif wanted in line:
                ended.append(line["_metadata"]["time"])
    return bool(ended) and (not began or min(began) >= max(ended))
