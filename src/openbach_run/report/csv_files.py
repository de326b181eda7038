# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the report's figures for other programs.

cells.csv has every cell and measure, claims.csv every comparison.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from openbach_run.openbach.measures import Measure, flat, measure_of
from openbach_run.report.cells import Campaigns, Cell, Partners, measured_against
from openbach_run.report.claims import Claim
from openbach_run.results.files import csv_cell
from openbach_run.results.intervals import Estimate

CELL_COLUMNS = (
    "measure", "unit", "median", "low", "high", "seeds", "failed", "not_run", "difference",
    "difference_low", "difference_high", "ratio", "ratio_low", "ratio_high",
    "least_transfer_time_s", "p90", "p90_high",
)  # fmt: skip
CLAIM_COLUMNS = (
    "claim", "part", "orbit", "verdict", "comparison", "measure", "bounds", "median", "low", "high",
    "seeds", "decision", "why_not",
)  # fmt: skip


def cells_csv(campaigns: Campaigns, baseline: Mapping[str, str]) -> str:
    """Return one row per cell and measure, compared with the baseline cell if there is one.

    The baseline cell has the baseline's values and otherwise the same. The row has the difference
    from it and the ratio to it. Low and high are the ends of the interval (`Estimate`). A cell
    without any measure has one row.
    """
    names = list(dict.fromkeys(chain.from_iterable(cell.values for cell in campaigns.cells)))
    declared = flat(campaigns.declared)
    partners = Partners(campaigns.cells, baseline)
    rows: list[list[object]] = []
    for cell in campaigns.cells:
        values = [cell.values.get(name, "") for name in names]
        bare = _baseline_of(cell, partners, baseline)
        rows += [[*values, *row] for row in _of_cell(cell, bare, declared)]
    return _text([*names, *CELL_COLUMNS], rows)


def _of_cell(cell: Cell, bare: Cell | None, declared: Sequence[Measure]) -> Iterator[list[object]]:
    """Yield the columns of each measure of a cell; `bare` is the cell that it is compared with."""
    measures: list[str] = []
    for run in cell.runs:
        if run.record:
            measures += [name for name, value in run.record.measures.items() if value is not None]
    for measure in dict.fromkeys(measures) or [""]:
        estimate = cell.estimate(measure)
        yield [
            measure,
            measure_of(measure, declared)[1].unit if measure else "",
            *_ends(estimate),
            estimate.seeds if estimate else 0,
            len(cell.failed),
            cell.not_run,
            *_ends(measured_against(cell, bare, measure, as_ratio=False) if bare else None),
            *_ends(measured_against(cell, bare, measure) if bare else None),
            cell.least_transfer_time_s,
            *((estimate.p90, estimate.p90_high) if estimate else (None, None)),
        ]


def _baseline_of(cell: Cell, partners: Partners, baseline: Mapping[str, str]) -> Cell | None:
    """Return the cell that a cell is compared with; None for the baseline or if there is none."""
    if baseline.items() <= cell.values.items():
        return None
    return next((other for other in partners.of(cell) if other.has(baseline)), None)


def claims_csv(claims: Sequence[Claim]) -> str:
    """Return one row per comparison of every claim."""
    decisions = {True: "holds", False: "does not hold", None: "not decided"}
    rows: list[list[object]] = []
    for claim in claims:
        for finding in claim.findings:
            for pair in finding.comparisons:
                labels = [claim.name, pair.part.says, finding.orbit, finding.verdict, pair.name]
                seeds = pair.estimate.seeds if pair.estimate else 0
                figures = [pair.part.measure, pair.part.bounds, *_ends(pair.estimate), seeds]
                rows.append([*labels, *figures, decisions[pair.holds], pair.why_not])
    return _text(CLAIM_COLUMNS, rows)


def _ends(estimate: Estimate | None) -> list[float | None]:
    """Return median, low and high as three columns; None for those that are not known."""
    return [estimate.median, estimate.low, estimate.high] if estimate else [None, None, None]


def _text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return CSV text; numbers have up to six decimals, a missing one is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(map(csv_cell, row) for row in (header, *rows))
    return text.getvalue()
