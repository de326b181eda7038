# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run SCENARIO … --against DIR`: a campaign against earlier results, seed by seed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from openbach_run.campaign.model import Campaign
from openbach_run.campaign.request import Plan
from openbach_run.campaign.run import Result
from openbach_run.campaign.sub_runs import unfold_all, unfold_campaign
from openbach_run.errors import InputError
from openbach_run.openbach.measures import measure_of
from openbach_run.prompt.compare import Verdict, tolerance_of
from openbach_run.prompt.trial import Seen
from openbach_run.results.intervals import ratio
from openbach_run.results.record import Record, Store

REGRESSION = 3
"""Exit code if a cell is worse."""
USUAL = "5%"


BETTER = {"s": "less", "ms": "less", "bps": "more", "mbps": "more"}
"""Unit → what is better, where the measure does not say it."""


class Earlier:
    """Earlier results, with which those of a campaign are compared."""

    def __init__(self, arguments: argparse.Namespace, plan: Plan, directory: Path) -> None:
        """Read them; `directory` is where those of the plan go. Raises InputError."""
        for campaign in plan.campaigns:
            if campaign.measure and not _better(campaign):
                raise InputError(
                    f"--against: {campaign.scenario.name} does not say whether less or more of its"
                    f" {campaign.measure} is better: `better: less` (docs/jobs.md)"
                )
        self._tolerance = tolerance_of(arguments.tolerance or USUAL)
        place: Path = arguments.against
        if place.resolve() == directory.resolve():
            raise InputError(f"--against {place}: these results go there, too: give --results DIR")
        store = Store(place)
        self._records = unfold_all(list(store.all()), store.runs)
        if not self._records:
            raise InputError(f"--against {place}: no results of openbach-run SCENARIO")

    def verdicts(self, result: Result) -> dict[str, Verdict]:
        """Return cell in words → verdict on its main measure."""
        found: dict[str, Verdict] = {}
        for each in result.campaigns:
            campaign = unfold_campaign(each, result.records)
            column, more = campaign.measure or "", _better(campaign) == "more"
            now, before = (_by_cell(of, campaign) for of in (result.records, self._records))
            for cell in campaign.cells:
                key = tuple(cell.values())
                words = " ".join(f"{name}={cell[name]}" for name in campaign.swept)
                found[f"{campaign.scenario.name} {words}".strip()] = _verdict(
                    now.get(key, {}),
                    before.get(key, {}),
                    Verdict(None, (), self._tolerance, column, more),
                )
        return found


def _better(campaign: Campaign) -> str | None:
    """Return whether less or more of a campaign's main measure is better; None if unknown."""
    _, measure = measure_of(campaign.measure or "", campaign.declared)
    return measure.better or BETTER.get((campaign.measure or "").rpartition("_")[2])


def _by_cell(
    records: Sequence[Record], campaign: Campaign
) -> dict[tuple[str, ...], dict[int, float | None]]:
    """Return values of a cell → seed → main measure; None if the run failed or sent none."""
    found: dict[tuple[str, ...], dict[int, float | None]] = {}
    for record in records:
        if record.scenario == campaign.scenario.name:
            # Older results lack the arguments that came later.
            known = {**campaign.constants, **record.arguments}
            key = tuple(known.get(name, "") for name in campaign.values)
            value = record.measures.get(campaign.measure or "") if record.finished else None
            found.setdefault(key, {})[record.seed] = value
    return found


def _verdict(
    now: Mapping[int, float | None], before: Mapping[int, float | None], empty: Verdict
) -> Verdict:
    """Return the verdict on a cell."""
    there, here = (
        {seed: value for seed, value in each.items() if value is not None} for each in (before, now)
    )
    broken = tuple(
        Seen(seed, None, None, None, f"no {empty.what} any more", "")
        for seed in sorted(now.keys() & there.keys() - here.keys())
    )
    change = ratio(there, here) if empty.more_is_better else ratio(here, there)
    return Verdict(change, broken, empty.tolerance, empty.what, empty.more_is_better)
