# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables in docs/ whose figures are those of reports/; docs_tables.yml describes them.

`make readme` writes them, and a test compares them with the results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from openbach_run.paths import REPOSITORY
from openbach_run.report.cells import Campaigns, read_campaigns
from openbach_run.report.words import figure
from openbach_run.yaml_files import read_yaml

TABLES = Path(__file__).with_suffix(".yml")
NOT_RUN = "not run"


def write() -> None:
    """Write every table."""
    for page, text in pages():
        page.write_text(text, encoding="utf-8")


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page with such tables, and its text with the figures of today's results."""
    texts: dict[Path, str] = {}
    for table in read_yaml(TABLES):
        page = REPOSITORY / table["page"]
        text = texts.get(page) or page.read_text(encoding="utf-8")
        texts[page] = with_table(text, table)
    yield from texts.items()


def with_table(text: str, table: dict[str, Any]) -> str:
    """Return a page with one table made anew; the table is known by the head of its first column.

    Raises ValueError if there is no such table, or there are several.
    """
    place = re.compile(rf"^\| {re.escape(table['head'])} \|.*\n(?:\|.*\n)+", re.MULTILINE)
    if len(place.findall(text)) != 1:
        raise ValueError(f"{table['page']}: not one table with {table['head']!r} as its first head")
    return place.sub(lambda _: "\n".join(lines(table)) + "\n", text)


def lines(table: dict[str, Any]) -> list[str]:
    """Return the lines of a table.

    The name of a row, as the head of the first column, may be several: `none | CUBIC`. A column is
    either a list of figures that are not ours, one for each row, or the values of its cells.
    """
    head = " | ".join([table["head"], *table["columns"]])
    found = [f"| {head} |", "|" + "---|" * (head.count(" | ") + 1)]
    for number, (name, of_row) in enumerate(table["rows"].items()):
        row = [name]
        for column in table["columns"].values():
            if isinstance(column, list):
                row.append(str(column[number]))
            else:
                row.append(_figure(table, {**table["values"], **of_row, **column}))
        found.append(f"| {' | '.join(row)} |")
    return found


def _figure(table: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Return the median of the one cell that has the wanted values, with its interval.

    Raises ValueError if there are several.
    """
    measure: str = wanted.pop("measure", None) or table["measure"]
    places: int | None = wanted.pop("places", table.get("places"))
    values = {name: str(value) for name, value in wanted.items()}
    cells = [cell for cell in _results(table["report"]).cells if cell.has(values)]
    if len(cells) > 1:
        raise ValueError(f"reports/{table['report']}: several cells have {values}")
    return figure(cells[0].estimate(measure), places) if cells else NOT_RUN


@cache
def _results(report: str) -> Campaigns:
    return read_campaigns([REPOSITORY / "reports" / report / "results.parquet"])
