# SPDX-License-Identifier: GPL-3.0-or-later
"""Curves of statistics over virtual time: for the page's charts, and as SVG, PNG and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openbach_run.openbach.job_folders import Package
from openbach_run.openbach.measures import over_time
from openbach_run.results.files import csv_cell
from openbach_run.topology.inventory import host_of
from openbach_run.web.index import is_drawable
from openbach_run.web.instances import GUEST_START_MS, sent_statistics

POINTS_LIMIT = 200_000
"""The most points of a curve; of a longer one every n-th point is taken."""
FEWEST = 3
"""The fewest different times at which a statistic was sent that has a curve."""
GROUPS = (
    re.compile(r"goodput|throughput"),
    re.compile(r"rtt|round.trip", re.I),
    re.compile(r"window|cwnd", re.I),
    re.compile(r"queueing delay|queue", re.I),
    re.compile(r"retransmi|loss|lost|dropped", re.I),
    re.compile(r"^rx bytes|tunnel", re.I),
)
"""Goodput, RTT, window, queue, losses, tunnel: the first plot of each group is shown first."""
QUEUE = 3
CONTROL_MBPS = 0.002
"""The most goodput of a control connection before the data: iperf3's has single bytes."""
MIME = {"svg": "image/svg+xml", "png": "image/png", "csv": "text/csv"}
PEN = ThreadPoolExecutor(1)
"""The one thread that draws: matplotlib has one set of settings, and fonts for each thread."""


@dataclass(frozen=True)
class Curve:
    """A statistic of one job of a run.

    Times are in virtual s since the run began, values in the unit of `plot`.
    """

    plot: str
    """The label of the axis: `goodput (Mbit/s)`."""
    line: str
    """The label that tells it from others in the plot: `tcp_series on server`."""
    times_s: list[float]
    values: list[float]
    run: int = 0
    """The number of the run, if several are shown."""


def curves_of(run_dir: Path, packages: Mapping[str, Package]) -> list[Curve]:
    """Return the curves of a run, in the order of GROUPS; the run need not have ended."""
    points: dict[tuple[str, ...], tuple[list[float], list[float]]] = {}
    for line in sent_statistics(run_dir):
        metadata = line["_metadata"]
        labels = tuple(metadata.get(name) or "" for name in ("job_name", "agent_name", "suffix"))
        time_s = (metadata["time"] - GUEST_START_MS) / 1000
        for name, value in line.items():
            if is_drawable(value):
                times_s, values = points.setdefault((name, *labels), ([], []))
                times_s.append(time_s)
                values.append(float(value))
    curves = []
    for (name, job, agent, suffix), (times_s, values) in points.items():
        # What is sent once or twice in a run is a figure, and no curve.
        if len(set(times_s)) >= FEWEST:
            # Rounded up.
            step = -(-len(times_s) // POINTS_LIMIT)
            measure = over_time(name, packages[job].measures if job in packages else ())
            label = " ".join(filter(None, (job, "on", host_of(agent), suffix)))
            # Seven digits are more than a screen shows, and half of what a float would take in
            # JSON.
            in_unit = [float(f"{value * measure.factor:.7g}") for value in values[::step]]
            curves.append(Curve(measure.words, label, times_s[::step], in_unit))
    return sorted(curves, key=lambda curve: rank(curve.plot))


def rank(plot: str) -> tuple[int, bool, str]:
    """Return a key by which plots are sorted."""
    group = next((number for number, words in enumerate(GROUPS) if words.search(plot)), len(GROUPS))
    # Of the queue the delay comes before the length.
    return group, "ms)" not in plot and group == QUEUE, plot


def first_plots(curves: Iterable[Curve]) -> list[str]:
    """Return the first plot of each of GROUPS, or all plots if none is in a group."""
    names = sorted({curve.plot for curve in curves}, key=rank)
    of_groups = {rank(name)[0]: name for name in reversed(names)}
    return [of_groups[group] for group in sorted(of_groups) if group < len(GROUPS)] or names


def overlaid(named: Sequence[tuple[str, Sequence[Curve]]]) -> list[Curve]:
    """Return the curves of several runs in one list.

    A line has its run's name before its own label: where it was measured is told for each run.
    """
    lines = []
    for number, (name, curves) in enumerate(named):
        for curve in curves:
            label = f"{name}: {curve.line}" if name else curve.line
            lines.append(replace(curve, line=label, run=number))
    return sorted(lines, key=lambda curve: rank(curve.plot))


def from_first_byte(curves: Sequence[Curve]) -> list[Curve]:
    """Return the curves with the times of each run since the first byte of its data.

    That is the last sample before goodput of more than a control connection; without goodput it is
    the run's first statistic.
    What was before, as the time that tunnels take to be set up, is left out.
    """
    begin_s: dict[int, tuple[bool, float]] = {}
    for curve in curves:
        sent = next((n for n, value in enumerate(curve.values) if value > CONTROL_MBPS), None)
        # Goodput is group 0: False is less than True, so its time is preferred.
        is_other = rank(curve.plot)[0] != 0 or sent is None
        mine = (is_other, curve.times_s[0 if is_other else max(0, (sent or 0) - 1)])
        begin_s[curve.run] = min(begin_s.get(curve.run, mine), mine)
    moved = []
    for curve in curves:
        _, start_s = begin_s[curve.run]
        times_s = [round(time_s - start_s, 6) for time_s in curve.times_s]
        moved.append(replace(curve, times_s=times_s))
    return cut(moved, (), (), 0.0, float("inf"))


def as_json(curves: Sequence[Curve]) -> dict[str, Any]:
    """Return the curves for the page's charts, by plot."""
    plots: dict[str, list[dict[str, Any]]] = {}
    for curve in curves:
        line = {"line": curve.line, "run": curve.run, "t": curve.times_s, "v": curve.values}
        plots.setdefault(curve.plot, []).append(line)
    first = first_plots(curves)
    lines_of = plots.items()
    return {"plots": [{"name": n, "first": n in first, "lines": lines} for n, lines in lines_of]}


def as_csv(curves: Iterable[Curve]) -> Iterator[str]:
    """Yield the curves as CSV, a piece for each curve."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["curve", "of", "time_s", "value"])
    yield text.getvalue()
    for curve in curves:
        # One buffer for all curves: the whole file is never in memory.
        text.seek(0)
        text.truncate()
        points = zip(curve.times_s, curve.values, strict=True)
        names = csv_cell(curve.plot), csv_cell(curve.line)
        writer.writerows((*names, *point) for point in points)
        yield text.getvalue()


def cut(
    curves: Iterable[Curve], plots: Sequence[str], hidden: Sequence[str], from_s: float, to_s: float
) -> list[Curve]:
    """Return the curves of these plots (of all if none is named) between two times.

    Lines that are hidden are left out.
    """
    parts = []
    for curve in curves:
        if (not plots or curve.plot in plots) and curve.line not in hidden:
            points = zip(curve.times_s, curve.values, strict=True)
            kept = [(t, v) for t, v in points if from_s <= t <= to_s]
            parts.append(replace(curve, times_s=[t for t, _ in kept], values=[v for _, v in kept]))
    return [curve for curve in parts if curve.times_s]


def drawn(curves: Sequence[Curve], kind: str) -> bytes:
    """Return the curves as SVG or PNG, in the look of the report's figures.

    The plots are below each other, on one axis of time.
    """
    # Late: most pages let the browser draw.
    import matplotlib
    from matplotlib.figure import Figure

    from openbach_run.drawing import COLOURS, SETTINGS, STYLES, WIDTH_IN

    names = list(dict.fromkeys(curve.plot for curve in curves))
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, 0.6 + 2.2 * max(1, len(names))))
        axes = figure.subplots(max(1, len(names)), sharex=True, squeeze=False)[:, 0]
        for place, name in zip(axes, names, strict=False):
            here = [curve for curve in curves if curve.plot == name]
            for number, curve in enumerate(here):
                own = [other for other in here[:number] if other.run == curve.run]
                # With several runs a colour for each run, else a colour for each line.
                several = any(curve.run for curve in curves)
                which, style = (curve.run, len(own)) if several else (number, 0)
                colour = COLOURS[1:][which % (len(COLOURS) - 1)]
                dashes = STYLES[style % len(STYLES)]
                place.plot(curve.times_s, curve.values, label=curve.line, lw=1, c=colour, ls=dashes)
            place.set_ylabel(name)
            place.legend()
        axes[-1].set_xlabel("time (s)")
        image = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(image, format=kind, metadata=metadata, dpi=200)
    return image.getvalue()
