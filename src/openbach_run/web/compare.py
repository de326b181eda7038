# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison of runs and cells: where they differ, their ratios, and warnings.

The address of a comparison names its items: `run=<folder>/<run_id>` and `cell=<set>/<key of the
cell>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import median
from typing import Any

from openbach_run.campaign.model import USUAL
from openbach_run.clock import VIRTUAL
from openbach_run.report.cells import Cell
from openbach_run.report.recommendations import has_idle_pep
from openbach_run.results.intervals import Estimate, ratio, unpaired
from openbach_run.results.store import Store
from openbach_run.web import result_sets
from openbach_run.web.answers import Services
from openbach_run.web.curves import Curve, curves_of, overlaid
from openbach_run.web.runs import find_run

MOST = 12
"""The most items, and the most curves of the seeds of one cell."""
AMOUNTS = ("size", "duration_s", "streams", "loads", "warm_up", "series_s", "rate_kbps", "pings")
"""Arguments that say how much is done. Where they differ, measures are not of the same thing."""
OF_CONNECTION = ("retransmits", "mss_bytes", "tcp_rtt_ms")
"""Ends of the names of measures of one TCP connection, which a PEP ends."""
SERIES = ("tcp_series", "tcp_throughput")
"""The jobs whose curves are of such a connection."""


@dataclass(frozen=True)
class Item:
    """A run, or a cell with the runs of its seeds."""

    word: str
    """The item as the address names it."""
    href: str
    label: str
    scenario: str
    values: Mapping[str, str]
    runs: tuple[result_sets.Run, ...]
    is_cell: bool

    @property
    def seeds(self) -> list[int]:
        """Return the seeds of the runs that have finished."""
        return sorted({run.seed for run in self.runs if run.finished})

    @property
    def failed(self) -> int:
        """Return the number of runs that have ended otherwise."""
        return sum(run.failed for run in self.runs)

    @property
    def is_split(self) -> bool:
        """Return whether a PEP splits the TCP connection of the end hosts."""
        cell = Cell(dict(self.values), [])
        return self.values.get("pep", "none") != "none" and not has_idle_pep(cell)


def items_of(services: Services, words: Sequence[tuple[str, str]]) -> list[Item]:
    """Return the items that an address names; those that do not exist are left out.

    Each has a label that tells it from the others.
    """
    items: list[Item] = []
    # Once each, in the order of the address.
    for kind, text in dict.fromkeys(words):
        item = (_cell if kind == "cell" else _run)(services, text) if len(items) < MOST else None
        if item is not None:
            items.append(item)
    names = differences(items)
    sets = {item.word: item.word.partition("=")[2].rpartition("/")[0] for item in items}
    titles = services.database.pairs("SELECT item, name FROM mark WHERE name <> ''")
    if len({*sets.values()}) < 2:
        titles = {}
    labelled = []
    for item in items:
        texts = [titles.get(sets[item.word], ""), _label(item, names)]
        labelled.append(replace(item, label=": ".join(filter(None, texts))))
    # Two runs of one cell in different folders have the same values and seed.
    often = [item.label for item in labelled]
    return [_told_apart(item) if often.count(item.label) > 1 else item for item in labelled]


def _told_apart(item: Item) -> Item:
    """Return the item with the end of its name in the address added to its label."""
    text = item.word.partition("=")[2]
    return replace(item, label=f"{item.label} ({text.partition('/')[2][-24:]})")


def _run(services: Services, text: str) -> Item | None:
    """Return the run `<folder>/<run_id>` as an item, or None."""
    folder, _, run_id = text.partition("/")
    sql = f"{result_sets.RUNS} WHERE folder = ? AND run_id = ?"
    runs = tuple(map(result_sets.Run._make, services.database.rows(sql, folder, run_id)))
    return (
        _item(services, f"run={text}", f"/page/run/{text}", runs, is_cell=False) if runs else None
    )


def _cell(services: Services, text: str) -> Item | None:
    """Return the cell `<set>/<key>` as an item, or None."""
    item, _, key = text.rpartition("/")
    row = services.database.row("SELECT id FROM cell WHERE key = ?", key)
    if row is None:
        return None
    of_cell = [run for run in result_sets.runs_of(services, item) if run.cell == row["id"]]
    runs = tuple(sorted(of_cell, key=lambda run: run.seed))
    href = f"/page/set/{item}/cell/{key}"
    return _item(services, f"cell={text}", href, runs, is_cell=True) if runs else None


def _item(
    services: Services, word: str, href: str, runs: tuple[result_sets.Run, ...], *, is_cell: bool
) -> Item:
    """Return an item without its label, which depends on the others."""
    cell = services.index.cells_by_id([runs[0].cell])[runs[0].cell]
    return Item(word, href, "", cell.scenario, cell.values, runs, is_cell)


def _label(item: Item, names: Sequence[str]) -> str:
    """Return a label of the values that tell an item from the others; at most five of them."""
    parts = [f"{name}={item.values.get(name, '–')}" for name in names if name != "scenario"][:5]
    if "scenario" in names:
        parts.insert(0, item.scenario)
    if not item.is_cell:
        parts.append(f"seed {item.runs[0].seed}")
    return " ".join(parts) or item.scenario


def differences(items: Sequence[Item]) -> list[str]:
    """Return the names of settings that differ; `scenario` first if there are several."""
    names = ["scenario"] if len({item.scenario for item in items}) > 1 else []
    for name in dict.fromkeys(chain.from_iterable(item.values for item in items)):
        if len({item.values.get(name) for item in items}) > 1:
            names.append(name)
    return names


def are_paired(services: Services, items: Sequence[Item]) -> bool:
    """Return whether the items' seeds pair: all of their runs are in virtual time."""
    ended = {(run.folder, run.run_id) for item in items for run in item.runs if run.row is not None}
    records = [Store(services.launcher.results / folder).load(name) for folder, name in ended]
    return all(record is None or record.clock == VIRTUAL for record in records)


def warnings(items: Sequence[Item], *, paired: bool = True) -> list[str]:
    """Return what a reader has to know before believing a difference."""
    names, texts = differences(items), []
    for name in AMOUNTS:
        if name in names:
            values = ", ".join(dict.fromkeys(item.values.get(name, "none") for item in items))
            what = "the measures are not of the same amount of work"
            texts.append(f"{name} differs ({values}): {what}")
    if "scenario" in names:
        scenarios = dict.fromkeys(item.scenario for item in items)
        texts.append(f"the scenarios differ ({', '.join(scenarios)})")
    seeds = [tuple(item.seeds) for item in items]
    if len(set(seeds)) > 1 and paired:
        lists = [", ".join(map(str, several)) for several in dict.fromkeys(seeds)]
        shown = "; ".join(listed or "none" for listed in lists)
        texts.append(
            f"the seeds differ ({shown}): only the seeds that two have in common are paired"
        )
    if split := [item.label for item in items if item.is_split]:
        texts += [
            f"a PEP splits the TCP connections of {', '.join(split)}: RTT, window, goodput and"
            " retransmissions at the sender are of the leg to the PEP there, of the whole path"
            " elsewhere"
        ] * (len(split) < len(items))
    if any(item.failed for item in items):
        texts.append("some runs failed: what is left may be the easier part")
    return texts


@dataclass(frozen=True)
class Ratios:
    """The medians of one measure for all items, and their ratios to one of them.

    The ratio of that one is None.
    """

    words: str
    better: str
    medians: list[float | None]
    ratios: list[Estimate | None]


def ratios(
    services: Services, items: Sequence[Item], base: int, *, paired: bool = True
) -> list[Ratios]:
    """Return the ratios of every measure that the item number `base` and another one have."""
    runs = chain.from_iterable(item.runs for item in items)
    # A run that failed was cut short: its measures say nothing.
    by_row = result_sets.measured_by(services, [run for run in runs if run.finished])
    words = {row["name"]: dict(row) for row in services.database.rows("SELECT * FROM measure")}
    measured: set[str] = set().union(*by_row.values())
    # The usual measure first, then those of which it is said what is better.
    names = sorted(
        measured,
        key=lambda name: (name != USUAL, not (name in words and words[name]["better"]), name),
    )
    table = []
    for name in names:
        of_items = [_by_seed(item, name, by_row) for item in items]
        of_leg = name.endswith(OF_CONNECTION)
        apart = [of_leg and item.is_split != items[base].is_split for item in items]
        about = words.get(name, {"words": name, "better": ""})
        whole = of_items[base]
        estimates = [
            None
            if number == base or apart[number]
            else (ratio(values, whole) if paired else unpaired(values.values(), whole.values()))
            for number, values in enumerate(of_items)
        ]
        if any(estimates) or any(apart):
            medians = [median(values.values()) if values else None for values in of_items]
            text = f"{about['words']}, of different connections: no ratio"
            about = {"words": text, "better": ""} if any(apart) else about
            table.append(Ratios(about["words"], about["better"], medians, estimates))
    return table


def _by_seed(item: Item, name: str, by_row: Mapping[int, Mapping[str, float]]) -> dict[int, float]:
    """Return a measure of an item's runs by their seed; `by_row` has the measures of each run."""
    values = {}
    for run in item.runs:
        if run.row is not None and name in by_row.get(run.row, ()):
            values[run.seed] = by_row[run.row][name]
    return values


def curves(services: Services, items: Sequence[Item], seed: int | None) -> list[Curve]:
    """Return the curves of all items, to be drawn over each other.

    A cell has the curves of one seed, if possible one that all cells have. If a cell is the only
    item, it has those of all its seeds.
    """
    named = []
    for item in items:
        for run in _drawn_runs(items, item, seed):
            place = find_run(services, run.folder, run.run_id).place
            label = item.label
            if len(items) == 1:
                label = f"{label} seed {run.seed}" if item.is_cell else ""
            of_run = curves_of(place, services.platform.packages)
            if item.is_split:
                of_run = [_of_leg(curve) for curve in of_run]
            named.append((label, of_run))
    return overlaid(named)


def _of_leg(curve: Curve) -> Curve:
    """Return the curve, if it is of a connection, with the leg that it is of in its label."""
    return replace(curve, line=f"{curve.line} to PEP") if curve.line.startswith(SERIES) else curve


def seed_of(items: Sequence[Item], seed: int | None) -> int | None:
    """Return the seed whose curves are drawn for cells; None for no cell with finished runs."""
    cells = [set(item.seeds) for item in items if item.is_cell and item.seeds]
    if not cells:
        return None
    common = set.intersection(*cells)
    # With the same seed all cells meet the same losses: what differs is due to their values.
    return seed if seed in set.union(*cells) else min(common or cells[0])


def _drawn_runs(items: Sequence[Item], item: Item, seed: int | None) -> list[result_sets.Run]:
    """Return the runs of an item whose curves are drawn."""
    ended = [run for run in item.runs if run.row is not None]
    if not item.is_cell:
        return ended[:1]
    if len(items) == 1 and seed is None:
        return ended[:MOST]
    wanted = seed_of(items, seed)
    return [run for run in ended if run.seed == wanted][:1] or ended[:1]


def settings(items: Sequence[Item]) -> tuple[list[tuple[str, list[str]]], list[tuple[str, str]]]:
    """Return the settings that differ, by item, and those that all have in common."""
    names = differences(items)
    differ = []
    for name in names:
        is_scenario = name == "scenario"
        values = [item.scenario if is_scenario else item.values.get(name, "–") for item in items]
        differ.append((name, values))
    first: Mapping[str, Any] = items[0].values if items else {}
    return differ, [(name, value) for name, value in first.items() if name not in names]
