# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run SCENARIO … --against DIR`: a campaign against earlier results, seed by seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from openbach_run.campaign.model import Campaign
from openbach_run.campaign.request import Plan
from openbach_run.campaign.sub_runs import unfold_all, unfold_campaign
from openbach_run.campaign.table import Result
from openbach_run.errors import InputError
from openbach_run.openbach.measures import measure_of
from openbach_run.prompt.compare import Verdict
from openbach_run.prompt.trial import Seen
from openbach_run.results import campaign_file
from openbach_run.results.intervals import ratio
from openbach_run.results.record import Record, check_files
from openbach_run.results.store import Store

REGRESSION = 3
"""Exit code if a cell is worse."""
BETTER = {"s": "less", "ms": "less", "bps": "more", "mbps": "more"}
"""Unit → what is better, where the measure does not say it."""


def earlier(place: Path, plan: Plan, directory: Path) -> list[Record]:
    """Return the records with which those of a plan, which go to `directory`, can be compared.

    Raises InputError.
    """
    if place.resolve() == directory.resolve():
        raise InputError(f"--against {place}: these results go there, too: give --results DIR")
    # As a report takes them: runs that others have replaced are still in the store.
    store, planned = Store(place), campaign_file.read(place)["runs"]
    records = unfold_all([*filter(None, map(store.checked, planned))], store.runs)
    for each in plan.campaigns:
        campaign = unfold_campaign(each, records)
        name, cells = campaign.scenario.name, [tuple(cell.values()) for cell in campaign.cells]
        if not _by_cell(records, campaign).keys() & {*cells}:
            raise InputError(f"--against {place}: no results of {name} with any of these values")
        if campaign.measure and not _better(campaign):
            raise InputError(
                f"--against: {name} does not say whether less or more of its {campaign.measure} is"
                " better: `better: less` (docs/jobs.md)"
            )
    return records


def verdicts(
    result: Result, before: Sequence[Record], tolerance: float
) -> Iterator[tuple[str, Verdict]]:
    """Yield each cell in words, with the verdict on its main measure. Raises InputError."""
    check_files((*before, *result.records))
    for each in result.campaigns:
        campaign = unfold_campaign(each, result.records)
        column, more = campaign.measure or "", _better(campaign) == "more"
        now, then = (_by_cell(records, campaign) for records in (result.records, before))
        for cell in campaign.cells:
            ran, here = now.get(key := tuple(cell.values()), ({}, {}))
            _, there = then.get(key, ({}, {}))
            broken = tuple(
                Seen(seed, None, None, None, f"no {column} any more", "")
                for seed in sorted(ran.keys() & there.keys() - here.keys())
            )
            change = ratio(there, here) if more else ratio(here, there)
            words = (campaign.scenario.name, *(f"{name}={cell[name]}" for name in campaign.swept))
            yield " ".join(words), Verdict(change, broken, tolerance, column, more)


def _better(campaign: Campaign) -> str | None:
    """Return whether less or more of a campaign's main measure is better; None if unknown."""
    _, measure = measure_of(campaign.measure or "", campaign.declared)
    return measure.better or BETTER.get((campaign.measure or "").rpartition("_")[2])


def _by_cell(
    records: Sequence[Record], campaign: Campaign
) -> dict[tuple[str, ...], tuple[dict[int, bool], dict[int, float]]]:
    """Return values of a cell → seeds that ran, and seed → main measure of those that sent it."""
    by_cell: dict[tuple[str, ...], tuple[dict[int, bool], dict[int, float]]] = {}
    for record in records:
        if record.scenario == campaign.scenario.name:
            # Older results lack the arguments that came later.
            known = {**campaign.constants, **record.arguments}
            key = tuple(known.get(name, "") for name in campaign.values)
            ran, sent = by_cell.setdefault(key, ({}, {}))
            ran[record.seed] = record.finished
            value = record.measures.get(campaign.measure or "") if record.finished else None
            if value is not None:
                sent[record.seed] = value
    return by_cell
