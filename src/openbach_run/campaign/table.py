# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of a campaign: its main measure by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openbach_run.campaign.plan import Campaign
from openbach_run.results.intervals import estimate
from openbach_run.results.least_time import least_transfer_time_s
from openbach_run.results.record import Record
from openbach_run.results.tables import Table, figure, said


def campaign_table(campaign: Campaign, records: Sequence[Record]) -> Table:
    """A campaign's main measure, from those of its records that are there: a row per combination of the swept
    arguments but the last, which makes the columns. A scenario without arguments has one column, `run`. Its title names
    the values that are neither swept nor the scenario's defaults."""
    by_cell: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        if record.scenario == campaign.scenario.name:
            by_cell.setdefault(tuple(record.arguments[name] for name in campaign.values), []).append(record)
    swept = campaign.swept or list(campaign.values)[:1]
    down, across = swept[:-1], swept[-1:]
    columns = list(dict.fromkeys(_values(cell, across) for cell in campaign.cells))
    rows: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
    for cell in campaign.cells:
        shown = _cell(by_cell.get(tuple(cell.values()), []), campaign.measure)
        rows.setdefault(_values(cell, down), {})[_values(cell, across)] = shown
    defaults = {**campaign.scenario.sweep.get("defaults", {}), **campaign.constants}
    fixed = ", ".join(
        f"{name}={values[0]}"
        for name, values in campaign.values.items()
        if name not in swept and values[0] != defaults.get(name)
    )
    return Table(
        f"{campaign.scenario.name}: {said(campaign.measure)}" + (f" with {fixed}" if fixed else ""),
        [*down, *("=".join((*across, *values)) or "run" for values in columns)],
        [[*key, *(cells.get(values, "") for values in columns)] for key, cells in rows.items()],
        _note(campaign),
        len(down),
    )


def _values(cell: Mapping[str, str], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(cell[name] for name in names)


def _cell(done: Sequence[Record], measure: str) -> str:
    """Median over the seeds and its interval; how many failed, if any did."""
    values = [value for record in done if record.finished and (value := record.measures.get(measure)) is not None]
    failed = sum(not record.finished for record in done)
    if not values:
        return "failed" if failed else ("done" if done else "–")
    return figure(estimate(values)) + (f" ({failed} failed)" if failed else "")


def _note(campaign: Campaign) -> str:
    least = {(cell.get("size"), cell.get("rate")): least_transfer_time_s(cell) for cell in campaign.cells}
    parts = [
        f"at least {time_s:.2f} s for a size of {size} at a rate of {rate} (Ethernet, IP and TCP headers; no slow start)"
        for (size, rate), time_s in least.items()
        if time_s and campaign.measure == "transfer_time_s"
    ]
    if set(campaign.values.get("pep", ())) - {"none"}:
        parts.append(
            "PEP A: inside the tunnel's path, B: outside it, where TCP is in clear (our reading: docs/guide.md)"
        )
    seeds = (
        f"median [95 % bootstrap interval] over {len(campaign.seeds)} seeds"
        if len(campaign.seeds) > 1
        else f"seed {campaign.seeds[0]}"
    )
    return "; ".join([seeds, *parts])
