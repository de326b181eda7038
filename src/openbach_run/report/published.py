# SPDX-License-Identifier: GPL-3.0-or-later
"""Set figures of published comparisons (reports/published.yml) beside those of campaigns.

The tables have each VPN's figure, its ratio to no VPN, and whether the VPNs are in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from openbach_run.errors import InputError
from openbach_run.link_checks import has_random_link
from openbach_run.openbach.measures import from_name
from openbach_run.report.cells import (
    Campaigns,
    Cell,
    file_name,
    is_selection,
    matches,
    measured_against,
    name_of,
)
from openbach_run.report.words import figure, phrase
from openbach_run.results.intervals import ends
from openbach_run.results.run_files import fields, is_number
from openbach_run.results.seeds import WARNING
from openbach_run.results.tables import Table
from openbach_run.yaml_files import read_yaml

TABLE: dict[str, Any] = {
    **dict.fromkeys(("title", "measure", "marked"), str),
    **dict.fromkeys(("cell", "figures"), dict),
    "any_engine": bool,
}
"""The fields of a document's table."""
LEAST_RANKED = 3
"""The order of fewer VPNs says nothing."""


def tables(campaigns: Campaigns, file: Path) -> dict[str, Table]:
    """Return the tables by the name of their files, one for each set of cells that compares VPNs.

    The cells of a set differ in the VPN only. Published figures for which no campaign has cells are
    left out.
    """
    by_name: dict[str, Table] = {}
    for name, described in read(file).items():
        numbers = count(1)
        for table in described["tables"]:
            chosen = [cell for cell in campaigns.cells if matches(cell, table["cell"])]
            groups = by_vpn([cell for cell in chosen if "vpn" in cell.values])
            for rest, cells in groups.items():
                told_apart = [key for key, _ in rest if _differs(key, groups)]
                where = name_of(next(iter(cells.values())), told_apart)
                title = f"{described['document']}: {table['title']}"
                title += f" ({where})" if where else ""
                named = file_name("published", name, str(next(numbers)))
                by_name[named] = beside(title, table, cells)
    return by_name


def _differs(key: str, groups: Iterable[tuple[tuple[str, str], ...]]) -> bool:
    """Return whether an argument has different values in the groups."""
    return len({dict(group).get(key) for group in groups}) > 1


def titles(file: Path) -> dict[str, str]:
    """Return the titles of the published documents by their names."""
    return {name: table["document"] for name, table in read(file).items()}


def ours(file: Path) -> dict[str, str]:
    """Return by document's title what stands here for what it compares; "" if nobody says."""
    return {part["document"]: part.get("ours", "") for part in read(file).values()}


def read(file: Path) -> dict[str, dict[str, Any]]:
    """Return the published documents of a file by name, in the form that its head describes.

    Raises InputError for a file in another form.
    """
    content = read_yaml(file)
    documents = content if isinstance(content, dict) else {"the whole": content}
    for name, document in documents.items():
        whole = {"ours": "", **document} if isinstance(document, dict) else document
        wrong = fields(whole, {"document": str, "ours": str, "tables": list})
        for number, table in enumerate([] if wrong else document["tables"]):
            if wrong := _wrong(table):
                wrong = f"tables.{number}: {wrong}"
                break
        if wrong or not isinstance(name, str):
            raise InputError(f"{file}: {name}: {wrong or 'the name should be a text'}")
    checked: dict[str, dict[str, Any]] = content
    return checked


def _wrong(table: Any) -> str | None:
    """Return what is wrong with a document's table, or None."""
    usual = {"marked": "", "any_engine": False}
    if wrong := fields({**usual, **table} if isinstance(table, dict) else table, TABLE):
        return wrong
    if not is_selection(table["cell"]):
        return "cell: should have for each argument a list of values, or {above: NUMBER}"
    figures = table["figures"]
    numbers = [isinstance(vpn, str) and is_number(figure) for vpn, figure in figures.items()]
    if not figures or not all(numbers):
        return "figures: should have a number for each VPN"
    if not figures[next(iter(figures))]:
        return "figures: the first should not be 0: others are divided by it"
    return None


def by_vpn(cells: Sequence[Cell]) -> dict[tuple[tuple[str, str], ...], dict[str, Cell]]:
    """Return the cells by their VPN, for each set of all other values."""
    groups: dict[tuple[tuple[str, str], ...], dict[str, Cell]] = {}
    for cell in cells:
        rest = tuple((name, value) for name, value in cell.values.items() if name != "vpn")
        groups.setdefault(rest, {})[cell.values["vpn"]] = cell
    return groups


def beside(title: str, described: Mapping[str, Any], cells: Mapping[str, Cell]) -> Table:
    """Return a table with the published figures of VPNs, ours, and the ratios of both."""
    figures: dict[str, float] = described["figures"]
    measure, base = described["measure"], next(iter(figures))
    rows = []
    for vpn, published in figures.items():
        cell, baseline = cells.get(vpn), cells.get(base)
        ours = cell.estimate(measure) if cell else None
        ratio = measured_against(cell, baseline, measure) if cell and baseline and ours else None
        why_not = "failed" if cell and cell.failed else "not run"
        own = [figure(ours) if ours else why_not, figure(ratio, 3) if ratio else "–"]
        rows += [[phrase("vpn", vpn), f"{published:g}", f"{published / figures[base]:.3f}", *own]]
    unit = from_name(measure).unit
    ratio_to = f"ratio to {phrase('vpn', base)}"
    header = ["VPN", f"published ({unit})", ratio_to, f"ours ({unit})", ratio_to]
    return Table(title, header, rows, _note(described, cells), 1)


def _note(described: Mapping[str, Any], cells: Mapping[str, Cell]) -> str:
    """Return the note: how far the order of the VPNs agrees, and why figures cannot be compared."""
    estimates = {vpn: cell.estimate(described["measure"]) for vpn, cell in cells.items()}
    measured = {vpn: estimate.median for vpn, estimate in estimates.items() if estimate}
    both = [vpn for vpn in described["figures"] if vpn in measured]
    alone = [cell for cell in cells.values() if len(cell.runs) == 1]
    notes = [f"median [{ends([len(cell.runs) for cell in cells.values()])}]"]
    if any(has_random_link(cell.values) for cell in alone):
        notes = [WARNING]
    if len(both) >= LEAST_RANKED:
        figures = described["figures"]
        agreement = rank_correlation(*zip(*((figures[v], measured[v]) for v in both), strict=True))
        same = "all of ours are equal" if agreement is None else f"{agreement:.2f}"
        notes.append(f"rank correlation of {len(both)} rows (Spearman): {same}")
    is_virtual = any(cell.is_virtual for cell in cells.values())
    if "marked" in described and (is_virtual or described.get("any_engine")):
        notes.append(f"NOT COMPARABLE as they are: {described['marked']}")
    return "; ".join(notes)


def rank_correlation(values: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation; None if all values of one side are equal.

    It is the correlation of the ranks; equal values have the mean of their ranks.
    """
    first, second = ranks(values), ranks(other)
    mean = (len(values) + 1) / 2
    spread = sum((a - mean) ** 2 for a in first) * sum((b - mean) ** 2 for b in second)
    together = sum((a - mean) * (b - mean) for a, b in zip(first, second, strict=True))
    return together / spread**0.5 if spread else None


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1 on; equal values have the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in values]
