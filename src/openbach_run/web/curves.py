# SPDX-License-Identifier: GPL-3.0-or-later
"""Statistics of runs over virtual time, as curves: for the page's charts, and as SVG, PNG and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openbach_run.openbach.job_folders import Package
from openbach_run.openbach.measures import over_time
from openbach_run.web.index import is_number
from openbach_run.web.instances import GUEST_START_MS, sent_statistics

POINTS_LIMIT = 200_000
"""Of a curve: of more, every n-th."""
FEWEST = 3
"""Times at which a statistic was sent that has a curve."""
GROUPS = (
    re.compile(r"goodput|throughput"),
    re.compile(r"rtt|round.trip", re.I),
    re.compile(r"window|cwnd", re.I),
    re.compile(r"queueing delay|queue", re.I),
    re.compile(r"retransmi|loss|lost|dropped", re.I),
    re.compile(r"^rx bytes|tunnel", re.I),
)
"""Goodput, RTT, window, queue, losses, tunnel: of each the first plot that fits is looked at first."""
QUEUE = 3
MIME = {"svg": "image/svg+xml", "png": "image/png", "csv": "text/csv"}


@dataclass(frozen=True)
class Curve:
    """A statistic of one job of a run; times in virtual s since the run began, values in the unit of `plot`."""

    plot: str
    """What the axis says: `goodput (Mbit/s)`."""
    line: str
    """What tells it from others there: `tcp_series on server`."""
    times_s: list[float]
    values: list[float]
    run: int = 0
    """Of several runs that are shown, which."""


def curves_of(run_dir: Path, packages: Mapping[str, Package]) -> list[Curve]:
    """Those of a run, while it goes on too; in the order of GROUPS."""
    points: dict[tuple[str, ...], tuple[list[float], list[float]]] = {}
    for line in sent_statistics(run_dir):
        metadata = line["_metadata"]
        labels = tuple(metadata.get(name) or "" for name in ("job_name", "agent_name", "suffix"))
        time_s = (metadata["time"] - GUEST_START_MS) / 1000
        for name, value in line.items():
            if is_number(value):
                times_s, values = points.setdefault((name, *labels), ([], []))
                times_s.append(time_s)
                values.append(float(value))
    found = []
    for (name, job, agent, suffix), (times_s, values) in points.items():
        if len(set(times_s)) >= FEWEST:
            step = -(-len(times_s) // POINTS_LIMIT)
            measure = over_time(name, packages[job].measures if job in packages else ())
            label = " ".join(filter(None, (job, "on", agent.removeprefix("satvpn_"), suffix)))
            in_unit = [float(f"{value * measure.factor:.7g}") for value in values[::step]]
            found.append(Curve(measure.words, label, times_s[::step], in_unit))
    return sorted(found, key=lambda curve: rank(curve.plot))


def rank(plot: str) -> tuple[int, bool, str]:
    """Its place among others."""
    group = next((number for number, words in enumerate(GROUPS) if words.search(plot)), len(GROUPS))
    return group, "ms)" not in plot and group == QUEUE, plot


def first_plots(curves: Iterable[Curve]) -> list[str]:
    """One of each of GROUPS, or all if there is none."""
    names = sorted({curve.plot for curve in curves}, key=rank)
    of_groups = {rank(name)[0]: name for name in reversed(names)}
    return [of_groups[group] for group in sorted(of_groups) if group < len(GROUPS)] or names


def overlaid(named: Sequence[tuple[str, Sequence[Curve]]]) -> list[Curve]:
    """The curves of several runs, each with its run's name; alone where the run has but one of that plot."""
    found = []
    for number, (name, curves) in enumerate(named):
        for curve in curves:
            alone = sum(other.plot == curve.plot for other in curves) == 1
            label = curve.line if not name else name if alone else f"{name}: {curve.line}"
            found.append(replace(curve, line=label, run=number))
    return sorted(found, key=lambda curve: rank(curve.plot))


def from_first(curves: Sequence[Curve]) -> list[Curve]:
    """With the times of each run since its first goodput was sent, or its first statistic: tunnels take their time."""
    begin_s: dict[int, tuple[bool, float]] = {}
    for curve in curves:
        mine = (rank(curve.plot)[0] != 0, curve.times_s[0])
        begin_s[curve.run] = min(begin_s.get(curve.run, mine), mine)
    return [replace(one, times_s=[round(time_s - begin_s[one.run][1], 6) for time_s in one.times_s]) for one in curves]


def as_json(curves: Sequence[Curve]) -> dict[str, Any]:
    plots: dict[str, list[dict[str, Any]]] = {}
    for curve in curves:
        line = {"line": curve.line, "run": curve.run, "t": curve.times_s, "v": curve.values}
        plots.setdefault(curve.plot, []).append(line)
    first = first_plots(curves)
    return {"plots": [{"name": name, "first": name in first, "lines": lines} for name, lines in plots.items()]}


def as_csv(curves: Iterable[Curve]) -> Iterator[str]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["curve", "of", "time_s", "value"])
    yield text.getvalue()
    for curve in curves:
        text.seek(0)
        text.truncate()
        writer.writerows((curve.plot, curve.line, *point) for point in zip(curve.times_s, curve.values, strict=True))
        yield text.getvalue()


def cut(
    curves: Iterable[Curve], plots: Sequence[str], hidden: Sequence[str], from_s: float, to_s: float
) -> list[Curve]:
    """Of these plots (of all, if none is named), without the lines that are hidden, and only the times given."""
    found = []
    for curve in curves:
        if (not plots or curve.plot in plots) and curve.line not in hidden:
            kept = [(t, v) for t, v in zip(curve.times_s, curve.values, strict=True) if from_s <= t <= to_s]
            found.append(replace(curve, times_s=[t for t, _ in kept], values=[v for _, v in kept]))
    return [curve for curve in found if curve.times_s]


def drawn(curves: Sequence[Curve], kind: str) -> bytes:
    """SVG or PNG, as the report's figures look; plots below each other on one axis of time."""
    import matplotlib
    from matplotlib.figure import Figure

    from openbach_run.drawing import COLOURS, SETTINGS, STYLES, WIDTH_IN

    names = list(dict.fromkeys(curve.plot for curve in curves))
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, 0.6 + 2.2 * max(1, len(names))))
        axes = figure.subplots(max(1, len(names)), sharex=True, squeeze=False)[:, 0]
        for place, name in zip(axes, names, strict=False):
            here = [one for one in curves if one.plot == name]
            for number, curve in enumerate(here):
                own = [one for one in here[:number] if one.run == curve.run]
                which, style = (curve.run, len(own)) if any(one.run for one in curves) else (number, 0)
                colour, dashes = COLOURS[1:][which % (len(COLOURS) - 1)], STYLES[style % len(STYLES)]
                place.plot(curve.times_s, curve.values, color=colour, linestyle=dashes, label=curve.line, linewidth=1)
            place.set_ylabel(name)
            place.legend()
        axes[-1].set_xlabel("virtual time (s)")
        made = io.BytesIO()
        figure.savefig(made, format=kind, metadata={"Date": None} if kind == "svg" else None, dpi=200)
    return made.getvalue()
