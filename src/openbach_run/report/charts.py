# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's figures as charts for a browser, which are read and zoomed there. They are taken from the figures themselves, so
that both show the same. chart.js says what a chart is made of."""

from __future__ import annotations

import math
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

INTERVAL = "_"
"""In front of a line's label: the ends of the interval of that line's point there. (matplotlib leaves such labels out of
legends.)"""
MOST_POINTS = 2000
"""Of a line: of more, every n-th."""
DASHES = {"--": [8, 4], ":": [2, 3], "-.": [8, 3, 2, 3]}


def chart_of(figure: Figure) -> dict[str, Any] | None:
    """None of a figure without labelled lines: a heat map has its numbers written in it. Where names are on the axis of y, x
    and y change places: what is read is at a name."""
    panels = [axes for axes in figure.axes if any(_is_read(line) for line in axes.lines)]
    if not panels:
        return None
    first = panels[0]
    names = isinstance(first.yaxis.get_major_locator(), FixedLocator)
    across, up = (first.yaxis, first.xaxis) if names else (first.xaxis, first.yaxis)
    ranges = {"x": first.get_xlim(), "y": first.get_ylim()}
    of_x, of_y = ("y", "x") if names else ("x", "y")
    ticks = None
    if isinstance(across.get_major_locator(), FixedLocator):
        places, words = across.get_majorticklocs(), across.get_ticklabels()
        ticks = [[float(at), label.get_text()] for at, label in zip(places, words, strict=True)]
    return {
        "x": across.label.get_text() or (figure.get_supxlabel() if not names else ""),
        "y": up.label.get_text() or figure.get_supylabel(),
        "axes": {
            "x": sorted(map(_short, ranges[of_x])), "y": sorted(map(_short, ranges[of_y])), "ticks": ticks, "named": names,
            "log": up.get_scale() == "log", "linear": getattr(across.get_transform(), "linthresh", None),
        },
        "panels": [{"title": axes.get_title(), "lines": _lines(axes, names)} for axes in panels],
    }  # fmt: skip


def _is_read(line: Line2D) -> bool:
    return not str(line.get_label()).startswith(INTERVAL)


def _lines(axes: Axes, turned: bool) -> list[dict[str, Any]]:
    """Lines of the same label are one; those of intervals belong to the one that they name."""
    found: dict[str, dict[str, Any]] = {}
    intervals: dict[tuple[str, float], tuple[float, float]] = {}
    for line in axes.lines:
        label = str(line.get_label())
        points = _points(axes, line, turned)
        if _is_read(line):
            made = found.setdefault(label, _look(line, label))
            made["points"] |= dict(points[:: -(-len(points) // MOST_POINTS) or 1])
        elif len(points) == 2:
            (at, low), (_, high) = points
            intervals[label.removeprefix(INTERVAL), at] = low, high
    for label, made in found.items():
        points = sorted(made.pop("points").items())
        made["t"], made["v"] = [at for at, _ in points], [value for _, value in points]
        ends = [intervals.get((label, at), (None, None)) for at in made["t"]]
        if any(low is not None for low, _ in ends):
            made["low"], made["high"] = [low for low, _ in ends], [high for _, high in ends]
    return [made for made in found.values() if made["t"]]


def _look(line: Line2D, label: str) -> dict[str, Any]:
    style = str(line.get_linestyle())
    return {
        "line": label, "colour": to_hex(line.get_color()), "dash": DASHES.get(style, []), "points": {},
        "dots": style == "None" or numpy.size(line.get_xdata()) == 1, "steps": line.get_drawstyle() == "steps-post",
    }  # fmt: skip


def _points(axes: Axes, line: Line2D, turned: bool) -> list[tuple[float, float]]:
    """A line across the whole figure (the least possible time) goes from its first tick to its last."""
    x, y = numpy.asarray(line.get_xdata(), float).tolist(), numpy.asarray(line.get_ydata(), float).tolist()
    if line.get_transform() == axes.get_yaxis_transform(which="grid"):
        ticks = axes.get_xticks()
        x = [float(ticks[0]), float(ticks[-1])]
    pairs = [(_short(one), _short(other)) for one, other in zip(x, y, strict=True)]
    told = [pair for pair in pairs if all(map(math.isfinite, pair))]
    return [(y, x) for x, y in told] if turned else told


def _short(number: float) -> float:
    return float(f"{number:.6g}")
