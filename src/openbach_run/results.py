# SPDX-License-Identifier: GPL-3.0-or-later
"""Results: one tidy row per run (results.csv), and the table of transfer times for people."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from openbach_run.campaign import Campaign
from openbach_run.record import Record, statistics

MEASURING_JOB = "file_transfer"
MEASURES = ("transfer_time_s", "goodput_mbps", "bytes", "ttfb_s", "retransmits")
FACTORS = ("vpn", "pep", "cc", "loss")
COLUMNS = ("status", *MEASURES, "virtual_s", "wall_s", "run_id", "capture_sha256")

FRAME_BYTES, SEGMENT_BYTES = 1514, 1448
BOTTLENECK_BPS = 10e6
MULTIPLIERS = {"k": 10**3, "M": 10**6, "G": 10**9}


def measures(run_dir: Path, scenario_instance_id: int | None = None) -> dict[str, Any]:
    """What the transfer's client measured: s, Mbit/s, bytes, s, segments. Nothing if several scenario instances made
    transfers, and none of them is asked for."""
    found: dict[str, Any] = {}
    instances = set()
    for statistic in statistics(run_dir):
        metadata = statistic["_metadata"]
        instance = metadata.get("scenario_instance_id")
        if metadata["job_name"] == MEASURING_JOB and scenario_instance_id in (None, instance):
            instances.add(instance)
            found.update(statistic)
    if len(instances) > 1:
        found = {}
    if "goodput_bps" in found:
        found["goodput_mbps"] = round(found["goodput_bps"] / 1e6, 6)
    return {name: found.get(name) for name in MEASURES}


def row(record: Record) -> dict[str, Any]:
    """The record's row of results.csv; what is not known is empty."""
    others = [name for name in record.arguments if name not in FACTORS]
    factors = {name: record.arguments.get(name) for name in (*FACTORS, *others)}
    values = {**record.__dict__, **record.measures}
    rest = {
        name: round(values[name], 6) if isinstance(values.get(name), float) else values.get(name) for name in COLUMNS
    }
    return {"scenario": record.scenario, **factors, "seed": record.seed, **rest}


def as_csv(records: Sequence[Record]) -> str:
    rows = [row(record) for record in records]
    columns = list(dict.fromkeys(name for one in rows for name in one))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_json(records: Sequence[Record]) -> str:
    return json.dumps([row(record) for record in records], indent=1) + "\n"


def least_transfer_time_s(size: str) -> float | None:
    """Time in s that the bytes of full TCP segments take at the bottleneck: 1448 bytes of data in a frame of 1514."""
    number, factor = (size[:-1], MULTIPLIERS[size[-1]]) if size[-1:] in MULTIPLIERS else (size, 1)
    try:
        return float(number) * factor * 8 / BOTTLENECK_BPS * FRAME_BYTES / SEGMENT_BYTES
    except ValueError:
        return None


@dataclass(frozen=True)
class Table:
    """Transfer times: a row per combination of the swept arguments but the last, which makes the columns.
    A scenario without arguments has one column, `run`."""

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str


def table(campaign: Campaign, records: Sequence[Record]) -> Table:
    """The table of a campaign, from those of its records that are there."""
    by_cell: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        by_cell.setdefault(tuple(record.arguments[name] for name in campaign.values), []).append(record)
    swept = campaign.swept or list(campaign.values)[:1]
    down, across = swept[:-1], swept[-1:]
    columns = list(dict.fromkeys(_values(cell, across) for cell in campaign.cells))
    rows: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
    for cell in campaign.cells:
        shown = _cell(by_cell.get(tuple(cell.values()), []))
        rows.setdefault(_values(cell, down), {})[_values(cell, across)] = shown
    fixed = ", ".join(f"{name}={values[0]}" for name, values in campaign.values.items() if name not in swept)
    return Table(
        f"{campaign.scenario.name}: transfer time (s)" + (f" with {fixed}" if fixed else ""),
        [*down, *("=".join((*across, *values)) or "run" for values in columns)],
        [[*key, *(cells[values] for values in columns)] for key, cells in rows.items()],
        _note(campaign),
    )


def _values(cell: Mapping[str, str], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(cell[name] for name in names)


def _cell(done: Sequence[Record]) -> str:
    """Median over the seeds, and their range; how many failed, if any did."""
    times = [
        record.measures["transfer_time_s"] for record in done if record.finished and record.measures["transfer_time_s"]
    ]
    failed = sum(not record.finished for record in done)
    if not times:
        return "failed" if failed else ("done" if done else "–")
    spread = f" [{min(times):.2f}–{max(times):.2f}]" if len(times) > 1 else ""
    return f"{median(times):.2f}{spread}" + (f" ({failed} failed)" if failed else "")


def _note(campaign: Campaign) -> str:
    sizes = campaign.values.get("size", ())
    least = [(size, least_transfer_time_s(size)) for size in sizes]
    parts = [
        f"at least {time_s:.2f} s for {size} at 10 Mbit/s (Ethernet, IP and TCP headers; no slow start)"
        for size, time_s in least
        if time_s
    ]
    seeds = (
        f"median [least–most] over {len(campaign.seeds)} seeds"
        if len(campaign.seeds) > 1
        else f"seed {campaign.seeds[0]}"
    )
    return "; ".join([seeds, *parts])


def as_markdown(shown: Table) -> str:
    lines = [shown.header, ["---"] * len(shown.header), *shown.rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"**{shown.title}**\n\n{body}\n\n{shown.note}\n"


def as_text(shown: Table) -> str:
    """Plain columns, for a terminal or a pipe."""
    widths = [max(len(line[i]) for line in (shown.header, *shown.rows)) for i in range(len(shown.header))]
    labels = len(shown.header) - sum("=" in name for name in shown.header)

    def text(line: list[str]) -> str:
        cells = [
            cell.ljust(width) if i < labels else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "  ".join("─" * width for width in widths)
    return "\n".join([shown.title, "", text(shown.header), rule, *map(text, shown.rows), "", shown.note]) + "\n"
