# SPDX-License-Identifier: GPL-3.0-or-later
"""`make readme`: README's table and figure from reports/full/results.parquet, and docs' tables.

The report is made from the same file, so the three say the same.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import docs_tables

from openbach_run.paths import REPOSITORY
from openbach_run.report.cells import Campaigns, Cell, read_campaigns
from openbach_run.report.dots import times
from openbach_run.report.figures import find
from openbach_run.report.page_model import page_one
from openbach_run.results.seeds import MIN_SEEDS
from openbach_run.results.tables import Table, as_text

RESULTS = REPOSITORY / "reports/full/results.parquet"
README = REPOSITORY / "README.md"
FIGURE = REPOSITORY / "reports/full/figures/page-1.svg"
SCENARIO, MEASURE = "geo_loss", "transfer_time_s"
TITLE = f"geo_loss: transfer time (s) by random loss, medians of {MIN_SEEDS} seeds"
CONTROLS = ("cubic", "bbr2")
"""Congestion controls of the hosts whose cells README has."""
TABLE = re.compile(rf"^    {re.escape(TITLE)}\n(?:\n|    .*\n)+", re.MULTILINE)


def main() -> int:
    """Write README's table and figure, and the tables of docs/."""
    campaigns = read_campaigns([RESULTS])
    text = README.read_text(encoding="utf-8")
    README.write_text(TABLE.sub(lambda _: table(campaigns) + "\n", text), encoding="utf-8")
    FIGURE.write_bytes(figure(campaigns))
    docs_tables.write()
    return 0


def table(campaigns: Campaigns) -> str:
    """Return the table as README has it: a row for each VPN, without proxy."""
    cells = [cell for cell in campaigns.cells if cell.values["scenario"] == SCENARIO]
    losses = campaigns.distinct("loss", cells)
    rows = []
    for vpn in campaigns.distinct("vpn", cells):
        row = [vpn]
        for cc, loss in product(CONTROLS, losses):
            cell = find(cells, vpn=vpn, cc=cc, pep="none", loss=loss)
            row.append(f"{_median(cell):.2f}" if cell else "–")
        rows.append(row)
    header = ["vpn", *(f"{cc}, {loss} %" for cc, loss in product(CONTROLS, losses))]
    lines = as_text(Table(TITLE, header, rows, "", 1)).rstrip().splitlines()
    return "".join(f"    {line}".rstrip() + "\n" for line in lines)


def _median(cell: Cell) -> float:
    """Return the median of the seeds that the command runs; the report may have more."""
    return median(value for seed, value in cell.measured(MEASURE).items() if seed <= MIN_SEEDS)


def figure(campaigns: Campaigns) -> bytes:
    """Return the figure of the report's page 1."""
    page = page_one(campaigns)
    assert page is not None
    drawing = times(page.blocks[0])
    assert drawing is not None, "page 1 of full has no point to draw"
    with TemporaryDirectory() as folder:
        drawing.save(Path(folder))
        return (Path(folder) / f"{drawing.name}.svg").read_bytes()


if __name__ == "__main__":
    raise SystemExit(main())
