# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job transfer_table: the table of the transfers of several scenario instances.

A scenario starts it last, with the instances that it has started. It reads their transfer times
from the collector, and stores table.csv, table.md and table.png. An instance that has sent no
transfer time counts as failed: a job learns nothing of an instance's status.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import syslog
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode
from urllib.request import urlopen

import collect_agent

CONFIGURATION = "/opt/openbach/agent/jobs/transfer_table/transfer_table_rstats_filter.conf"
COLLECTOR = "/opt/openbach/agent/collector.yml"
JOB, STATISTIC, INSTANCE = "file_transfer", "transfer_time_s", "@scenario_instance_id"
ARRIVAL_LIMIT_S = 30.0
"""A collector writes seconds later what jobs have sent: so long missing times are waited for."""
PAUSE_S = 2.0
ANSWER_LIMIT_S = 60
FAILED = "failed"

Times = dict[int, list[float]]
"""Transfer times in s by scenario instance."""


class Cell(NamedTuple):
    """Transfer times of the instances with the same values."""

    values: dict[str, str]
    times_s: list[float]
    runs: int

    @property
    def failed(self) -> int:
        """Return how many of its runs have sent no time."""
        return max(0, self.runs - len(self.times_s))

    def __str__(self) -> str:
        """Return `28.50 [28.41-28.77] (1 failed)`: median, least and greatest where they differ."""
        if not self.times_s:
            return FAILED
        figures = (median(self.times_s), min(self.times_s), max(self.times_s))
        middle, low, high = (f"{time_s:.2f}" for time_s in figures)
        spread = "" if low == high else f" [{low}–{high}]"
        return middle + spread + (f" ({self.failed} failed)" if self.failed else "")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", type=int, nargs="+", metavar="scenario")
    parser.add_argument("--cells", nargs="+", metavar="NAME=VALUE,…")
    parser.add_argument("--title", default="transfer time")
    arguments = parser.parse_args(argv)
    arguments.cells = arguments.cells or [f"instance={number}" for number in arguments.scenarios]
    if len(arguments.cells) != len(arguments.scenarios):
        parser.error(f"{len(arguments.scenarios)} instances, but {len(arguments.cells)} cells")
    if len({tuple(values_of(cell)) for cell in arguments.cells}) != 1:
        parser.error("the cells do not have the same names")
    return arguments


def values_of(cell: str) -> dict[str, str]:
    """Return the values of `vpn=none,cc=bbr` by name. A value may hold a comma."""
    pairs = (pair.partition("=") for pair in re.split(r",(?=\w+=)", cell))
    return {name: value for name, _, value in pairs}


# Statistics


def sent_here(scenarios: Sequence[int]) -> Times:
    """Return what has been sent, where no collector is: from the file of openbach-run."""
    times: Times = {number: [] for number in scenarios}
    with open(os.environ["OPENBACH_STATISTICS"]) as file:
        for line in map(json.loads, file):
            about, time_s = line["_metadata"], line.get(STATISTIC)
            is_asked = about["job_name"] == JOB and about["scenario_instance_id"] in times
            if is_asked and time_s is not None:
                times[about["scenario_instance_id"]].append(time_s)
    return times


def collected(scenarios: Sequence[int], collector: dict[str, Any]) -> Times:
    """Return what the collector's InfluxDB has."""
    stats = collector.get("stats", {})
    instances = " OR ".join(f"\"{INSTANCE}\" = '{number}'" for number in scenarios)
    query = f'SELECT "{STATISTIC}", "{INSTANCE}" FROM "{JOB}" WHERE {instances}'
    words = urlencode({"db": stats.get("database", "openbach"), "epoch": "ms", "q": query})
    place = f"http://{collector['address']}:{stats.get('query', 8086)}/query?{words}"
    with urlopen(place, timeout=ANSWER_LIMIT_S) as answer:
        (result,) = json.load(answer)["results"]
    if "error" in result:
        raise SystemExit(f"{place}: {result['error']}")
    times: Times = {number: [] for number in scenarios}
    for series in result.get("series", ()):
        for row in series["values"]:
            point = dict(zip(series["columns"], row, strict=True))
            # Other points of the instance have no such statistic.
            if point.get(STATISTIC) is not None:
                times[int(point[INSTANCE])].append(float(point[STATISTIC]))
    return times


def arrived(read: Callable[[], Times]) -> Times:
    """Return what has been sent, once all instances have some, or no more is to be expected."""
    end_s = time.monotonic() + ARRIVAL_LIMIT_S
    while not all((times := read()).values()) and time.monotonic() < end_s:
        time.sleep(PAUSE_S)
    return times


def transfer_times(scenarios: Sequence[int]) -> Times:
    """Return the transfer times in s of each instance."""
    if "OPENBACH_STATISTICS" in os.environ:
        return sent_here(scenarios)
    import yaml

    collector = yaml.safe_load(Path(COLLECTOR).read_text())
    return arrived(lambda: collected(scenarios, collector))


# The table


def cells_of(names: Iterable[str], times: Sequence[list[float]]) -> list[Cell]:
    """Return the cells in the order of their first instance."""
    cells: dict[str, Cell] = {}
    for name, times_s in zip(names, times, strict=True):
        before = cells.get(name, Cell(values_of(name), [], 0))
        cells[name] = Cell(before.values, before.times_s + times_s, before.runs + 1)
    return list(cells.values())


def matrix(cells: Sequence[Cell]) -> list[list[str]]:
    """Return header and rows: a column for each value of the last name, if there are several."""
    *down, last = cells[0].values
    if not down:
        return [[last, "transfer time (s)"], *([cell.values[last], str(cell)] for cell in cells)]
    columns = dict.fromkeys(cell.values[last] for cell in cells)
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for cell in cells:
        key = tuple(map(cell.values.__getitem__, down))
        rows.setdefault(key, dict.fromkeys(columns, ""))[cell.values[last]] = str(cell)
    header = [*down, *(f"{last}={value}" for value in columns)]
    return [header, *([*key, *row.values()] for key, row in rows.items())]


def note(cells: Sequence[Cell]) -> str:
    """Return what the figures are, and how many cells have failed."""
    runs = [cell.runs for cell in cells]
    numbers = " to ".join(map(str, sorted({min(runs), max(runs)})))
    text = f"runs of each cell: {numbers}" + "; median [least–greatest]" * (max(runs) > 1)
    failed = sum(not cell.times_s for cell in cells)
    return text + (f"; {failed} of {len(cells)} cells failed" if failed else "")


def write_csv(place: Path, cells: Sequence[Cell]) -> None:
    """Write a row for each cell."""
    with place.open("w", newline="") as file:
        writer = csv.writer(file)
        columns = [f"{kind}_{STATISTIC}" for kind in ("median", "least", "greatest")]
        writer.writerow([*cells[0].values, *columns, "runs", FAILED])
        for cell in cells:
            times_s = cell.times_s
            figures = [take(times_s) if times_s else FAILED for take in (median, min, max)]
            writer.writerow([*cell.values.values(), *figures, cell.runs, cell.failed])


def write_markdown(place: Path, title: str, rows: Sequence[Sequence[str]], text: str) -> None:
    """Write the table as Markdown."""
    rule = ["---:" if "=" in name else "---" for name in rows[0]]
    lines = []
    for row in (rows[0], rule, *rows[1:]):
        # A value may hold what separates cells.
        cells = " | ".join(text_of_cell.replace("|", "\\|") for text_of_cell in row)
        lines.append(f"| {cells} |")
    place.write_text("\n".join([f"**{title}**", "", *lines, "", text, ""]))


def draw(place: Path, title: str, rows: Sequence[Sequence[str]], text: str) -> None:
    """Write a picture of the table. Raises ImportError without matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.6 * len(rows[0]), 0.28 * len(rows)))
    axis, whole = figure.subplots(), cast("Any", (0, 0, 1, 1))
    axis.axis("off")
    axis.set_title(title)
    drawn = axis.table(cellText=[*map(list, rows)], cellLoc="center", bbox=whole)
    drawn.auto_set_column_width(range(len(rows[0])))
    for (row, _), cell in drawn.get_celld().items():
        cell.set_facecolor("#e8e8e8" if row == 0 else "white")
        if cell.get_text().get_text() == FAILED:
            cell.get_text().set_color("#b00020")
    axis.text(0.5, 0, f"\n{text}", ha="center", va="top", transform=axis.transAxes)
    figure.savefig(place, dpi=150, bbox_inches="tight")


def main() -> None:
    """Store the table."""
    arguments = parse()
    times = transfer_times(arguments.scenarios)
    cells = cells_of(arguments.cells, [times[number] for number in arguments.scenarios])
    rows, text = matrix(cells), note(cells)
    with TemporaryDirectory(prefix="transfer-table-") as folder:
        places = {kind: Path(folder) / f"table.{kind}" for kind in ("csv", "md", "png")}
        write_csv(places["csv"], cells)
        write_markdown(places["md"], arguments.title, rows, text)
        try:
            draw(places["png"], arguments.title, rows, text)
        except ImportError as missing:
            del places["png"]
            collect_agent.send_log(syslog.LOG_WARNING, f"no table.png: {missing}")
        files: dict[str, Any] = {f"table_{kind}": str(place) for kind, place in places.items()}
        reply = collect_agent.store_files(collect_agent.now(), **files)
    if not reply.startswith("OK"):
        raise SystemExit(f"the table was not stored: {reply}")


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
