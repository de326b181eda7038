# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the report's figures into charts for a browser, where they can be read and zoomed.

The data is taken from the figures themselves, so that both show the same. chart.js describes the
form of a chart.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from openbach_run.results.files import csv_cell

INTERVAL = "_"
"""The beginning of a line's label if the line is an interval: its ends belong to the point, at this
place, of the line with the rest of the label. (matplotlib leaves such labels out of legends.)"""
NARROW = "-narrow"
"""The end of the name of a figure's form for phones."""
MOST_POINTS = 2000
"""The most points of a line; of a longer one every n-th point is taken."""
DASHES = {"--": [8, 4], ":": [2, 3], "-.": [8, 3, 2, 3]}


def chart_of(figure: Figure) -> dict[str, Any] | None:
    """Return the chart of a figure; None for one without labelled lines, or with names on an axis.

    A heat map has no such lines: its numbers are written in it. Names are read in the drawing,
    where they stand in the order and at the side that they have in print.
    """
    panels = [axes for axes in figure.axes if any(map(_is_read, axes.lines))]
    if not panels or isinstance(panels[0].yaxis.get_major_locator(), FixedLocator):
        return None
    first = panels[0]
    across, up = first.xaxis, first.yaxis
    ticks = None
    if isinstance(across.get_major_locator(), FixedLocator):
        # Panels that share an axis have its words on the last of them.
        named = figure.axes[-1].xaxis
        places, words = named.get_majorticklocs(), named.get_ticklabels()
        ticks = [[float(at), label.get_text()] for at, label in zip(places, words, strict=True)]
    of_axes = {
        "x": sorted(map(_short, first.get_xlim())),
        "y": sorted(map(_short, first.get_ylim())),
        "ticks": ticks,
        "log": up.get_scale() == "log",
        "linear": getattr(across.get_transform(), "linthresh", None),
    }
    return {
        "x": across.label.get_text() or figure.get_supxlabel(),
        "y": up.label.get_text() or figure.get_supylabel(),
        "axes": of_axes,
        "panels": [{"title": axes.get_title(), "lines": _lines(axes, False)} for axes in panels],
    }


def points_csv(figure: Figure) -> str:
    """Return what a figure shows as CSV: a row for each point, with the ends of its interval.

    Places on an axis of names are written as these names.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["panel", "line", "x", "y", "low", "high"])
    for axes in figure.axes:
        for image in axes.images:
            for (row, column), value in numpy.ndenumerate(numpy.asarray(image.get_array())):
                names = _label_at([axes.xaxis], column), _label_at([axes.yaxis], row)
                cells = (axes.get_title(), "", *names, _short(float(value)), "", "")
                writer.writerow(map(csv_cell, cells))
        turned = isinstance(axes.yaxis.get_major_locator(), FixedLocator)
        title = axes.get_title() or axes.get_title("left")
        for line in _lines(axes, turned) if any(map(_is_read, axes.lines)) else ():
            none = [None] * len(line["t"])
            ends = line.get("low", none), line.get("high", none)
            for at, value, low, high in zip(line["t"], line["v"], *ends, strict=True):
                # Panels that share an axis have its names on the first one only.
                sharing = [axes.yaxis, figure.axes[0].yaxis]
                place = [value, _label_at(sharing, round(at))] if turned else [at, value]
                writer.writerow(map(csv_cell, (title, line["line"], *place, low, high)))
    return text.getvalue()


def _label_at(sharing: Sequence[Axis], at: float) -> str:
    """Return the name at a place of axes of names; "" if there is none."""
    for axis in sharing:
        labels = [tick.get_text() for tick in axis.get_majorticklabels()]
        places = list(axis.get_majorticklocs())
        if at in places and len(labels) == len(places) and labels[places.index(at)]:
            return labels[places.index(at)]
    return ""


def _is_read(line: Line2D) -> bool:
    return not str(line.get_label()).startswith(INTERVAL)


def _lines(axes: Axes, turned: bool) -> list[dict[str, Any]]:
    """Return the lines of a panel. Lines with the same label are joined to one line.

    An interval's line becomes the low and high ends of the line that it names.
    """
    series: dict[str, dict[str, Any]] = {}
    intervals: dict[tuple[str, float], tuple[float, float]] = {}
    for line in axes.lines:
        label = str(line.get_label())
        points = _points(axes, line, turned)
        if _is_read(line):
            own = series.setdefault(label, _look(line, label))
            # The step is rounded up, so that at most MOST_POINTS remain.
            own["points"] |= dict(points[:: -(-len(points) // MOST_POINTS) or 1])
        elif len(points) == 2:
            (at, low), (_, high) = points
            intervals[label.removeprefix(INTERVAL), at] = low, high
    for label, own in series.items():
        points = sorted(own.pop("points").items())
        own["t"], own["v"] = [at for at, _ in points], [value for _, value in points]
        ends = [intervals.get((label, at), (None, None)) for at in own["t"]]
        if any(low is not None for low, _ in ends):
            own["low"], own["high"] = [low for low, _ in ends], [high for _, high in ends]
    return [own for own in series.values() if own["t"]]


def _look(line: Line2D, label: str) -> dict[str, Any]:
    """Return how a line looks, without any point yet."""
    style = str(line.get_linestyle())
    look = {
        "colour": to_hex(line.get_color()),
        "dash": DASHES.get(style, []),
        "marker": "" if line.get_marker() in ("None", None, "") else str(line.get_marker()),
        "dots": style == "None" or numpy.size(line.get_xdata()) == 1,
        "steps": line.get_drawstyle() == "steps-post",
    }
    # What a line lacks is not said: a page may have hundreds of lines.
    return {"line": label, "points": {}, **{name: own for name, own in look.items() if own}}


def _points(axes: Axes, line: Line2D, turned: bool) -> list[tuple[float, float]]:
    """Return the points of a line.

    A line across the whole figure (the least possible time) goes from its first tick to its last.
    """
    data = line.get_xdata(), line.get_ydata()
    x, y = (numpy.asarray(numbers, float).tolist() for numbers in data)
    if line.get_transform() == axes.get_yaxis_transform(which="grid"):
        ticks = axes.get_xticks()
        x = [float(ticks[0]), float(ticks[-1])]
    pairs = [(_short(x_value), _short(other)) for x_value, other in zip(x, y, strict=True)]
    finite = [pair for pair in pairs if all(map(math.isfinite, pair))]
    return [(y, x) for x, y in finite] if turned else finite


def _short(number: float) -> float:
    return float(f"{number:.6g}")
