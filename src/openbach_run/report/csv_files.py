# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's figures for other programs: cells.csv (every cell and measure) and claims.csv (every comparison)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

from openbach_run.openbach.measures import Measure, flat, measure_of
from openbach_run.report.cells import Campaigns, Cell, Partners
from openbach_run.report.claims import Claim
from openbach_run.results.intervals import Estimate, difference, ratio

CELL_COLUMNS = (
    "measure", "unit", "median", "low", "high", "seeds", "failed", "not_run", "difference", "difference_low", "difference_high",
    "ratio", "ratio_low", "ratio_high", "least_transfer_time_s",
)  # fmt: skip
CLAIM_COLUMNS = (
    "claim", "part", "orbit", "verdict", "comparison", "measure", "bounds", "median", "low", "high", "seeds", "decision",
    "why_not",
)  # fmt: skip


def cells_csv(campaigns: Campaigns, baseline: Mapping[str, str]) -> str:
    """One row per cell and measure, with its difference from and ratio to the baseline with otherwise the same values.
    Low and high are the ends of the 95 % interval. A cell without any measure has one row."""
    names = list(dict.fromkeys(name for cell in campaigns.cells for name in cell.values))
    declared = flat(campaigns.declared)
    partners = Partners(campaigns.cells, baseline)
    rows = (
        [*(cell.values.get(name, "") for name in names), *row]
        for cell in campaigns.cells
        for row in _of_cell(cell, _baseline_of(cell, partners, baseline), declared)
    )
    return _text([*names, *CELL_COLUMNS], rows)


def _of_cell(cell: Cell, bare: Cell | None, declared: Sequence[Measure]) -> Iterator[list[object]]:
    measures = [
        name for run in cell.runs if run.record for name, value in run.record.measures.items() if value is not None
    ]
    for measure in dict.fromkeys(measures) or [""]:
        measured = cell.measured(measure)
        found = cell.estimate(measure)
        reference = bare.measured(measure) if bare else {}
        yield [
            measure, measure_of(measure, declared)[1].unit if measure else "",
            *_ends(found), found.seeds if found else 0, len(cell.failed), cell.not_run,
            *_ends(difference(measured, reference)), *_ends(ratio(measured, reference)), cell.least_transfer_time_s,
        ]  # fmt: skip


def _baseline_of(cell: Cell, partners: Partners, baseline: Mapping[str, str]) -> Cell | None:
    if baseline.items() <= cell.values.items():
        return None
    return next((one for one in partners.of(cell) if baseline.items() <= one.values.items()), None)


def claims_csv(claims: Sequence[Claim]) -> str:
    """One row per comparison of every claim."""
    decisions = {True: "holds", False: "does not hold", None: "not decided"}
    rows = (
        [
            claim.name, one.part.says, finding.orbit, finding.verdict, one.name, one.part.measure, one.part.bounds,
            *_ends(one.found),
            one.found.seeds if one.found else 0, decisions[one.holds], one.why_not,
        ]
        for claim in claims
        for finding in claim.findings
        for one in finding.comparisons
    )  # fmt: skip
    return _text(CLAIM_COLUMNS, rows)


def _ends(found: Estimate | None) -> list[float | None]:
    return [found.median, found.low, found.high] if found else [None, None, None]


def _text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Numbers to six decimals; empty where there is none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([round(value, 6) if isinstance(value, float) else value for value in row] for row in rows)
    return text.getvalue()
