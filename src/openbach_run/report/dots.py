# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the figures of pages 1 and 2: small multiples with a row for each VPN.

A panel is a link and a loss; all panels have one scale. Each figure has a narrow form for phones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from textwrap import wrap
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from openbach_run.drawing import COLOURS, MARKERS, SETTINGS, WIDTH_IN
from openbach_run.report.cells import Cell, is_numeral, measured_against, pairings
from openbach_run.report.charts import INTERVAL
from openbach_run.report.effects import widest_tie
from openbach_run.report.figures import WIDE, Drawing, Look, least_times_s, legend, plain_log
from openbach_run.report.page_model import Block
from openbach_run.report.page_words import (
    at_loss,
    capital,
    link_in_words,
    measure,
    seeds_in_words,
    short,
    transport,
)
from openbach_run.report.words import phrase
from openbach_run.units import number

NARROW_IN = 3.7
"""The width of a figure on a phone of 390 px."""
MOST_ACROSS = 4
"""The most losses that have a panel each; of more there are the least, the greatest and two
between."""
MOST_PANELS = 12
LEGEND_COLUMNS = 3
ROW_IN, HEAD_IN, LINE_IN, NUMBERS_IN = 0.25, 0.3, 0.14, 0.15
TITLE = 26
"""The most letters of a line above a panel."""
LONGEST, LONGEST_NARROW = 34, 22
"""The most letters of a name beside a panel."""
MOST_SERIES = 6
"""The most transports and PEPs that have a marker of their own."""
SERIES_COLOURS = (COLOURS[3], COLOURS[1], COLOURS[4], COLOURS[0], COLOURS[2], COLOURS[5])
GREATEST_COST = 60.0
"""The greatest cost or gain in % that is drawn to scale; of a greater one the figure has the
number."""
LEAST_SPAN = 0.2
"""The least length of a linear axis, as a part of its greatest value."""
TIE_GREY, LEAST_GREY = "#dddddd", "#999999"


@dataclass(frozen=True)
class Series:
    """Points with one marker: hosts and PEP that are told apart from others."""

    label: str
    wanted: dict[str, str]
    colour: str
    marker: str


@dataclass(frozen=True)
class Panel:
    """A link and a loss."""

    title: str
    wanted: dict[str, str]


Seen = tuple[float, float, float]
"""Median, least and greatest value over the seeds."""


def times(page: Block) -> Drawing | None:
    """Draw the measure of page 1 by VPN, for each link and loss; None without a point."""

    def seen(cell: Cell) -> Seen | None:
        values = sorted(cell.measured(page.measure).values())
        return (page.median(cell), values[0], values[-1]) if values else None

    drawn: list[Cell] = []
    for link in _drawn_links(page):
        drawn += page.of(**link)
    every = []
    for cell in drawn:
        every += list(cell.measured(page.measure).values())
    logarithmic = min(every) > 0 and max(every) > WIDE * min(every)
    least = least_times_s(drawn) if page.is_time else []
    words = page.of_measure.words
    not_at_0 = "; the axis does not begin at 0" if min(every) > 0 else ""
    words += ", logarithmic" if logarithmic else not_at_0
    seeds = seeds_in_words(page.cells)
    note = f"marker: median, bar: all {seeds}" if seeds != "1 seed" else "one seed"
    note += "; grey line: the least possible" if least else ""
    note += f", {least[0]:.1f} s" if len(least) == 1 else ""
    if least and not all(cell.least_transfer_time_s for cell in drawn):
        note += " (no line where the rate changes with time)"

    def dress(axes: Axes, cells: Sequence[Cell]) -> None:
        if logarithmic:
            axes.set_xscale("log")
            axes.set_xlim(min([*every, *least]) / 1.3, max(every) * 1.3)
            plain_log(axes.xaxis)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
            if widened := _widened([*every, *least]):
                axes.set_xlim(widened)
        of_panel = least_times_s(cells) if least else []
        if of_panel and all(cell.least_transfer_time_s for cell in cells):
            axes.axvline(of_panel[0], color=LEAST_GREY, linewidth=1, label=INTERVAL)

    caption = f"{capital(measure(page))} on each link; {note}"
    return _drawn("page-1", caption, words, page, _series(page), seen, dress)


def _widened(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the ends of an axis on which values that are almost equal look so, else None."""
    low, high = min(values), max(values)
    half = LEAST_SPAN * max(abs(low), abs(high)) / 2
    middle = (low + high) / 2
    return (middle - half, middle + half) if high - low < 2 * half else None


def costs(page: Block) -> Drawing | None:
    """Draw what each VPN costs against none, in percent; None without both."""
    vpns = page.campaigns.distinct("vpn", page.cells)
    if "none" not in vpns or len(vpns) < 2 or not page.is_time:
        return None

    def seen(cell: Cell) -> Seen | None:
        bare = page.partner(cell, "none")
        ratio = measured_against(cell, bare, page.measure) if bare else None
        if ratio is None or cell.values["vpn"] == "none":
            return None
        low, high = ratio.span or (ratio.median, ratio.median)
        return 100 * (ratio.median - 1), 100 * (low - 1), 100 * (high - 1)

    peps = ("none", page.operators_pep)
    compared = [seen(cell) for cell in page.cells if cell.values.get("pep", "none") in peps]
    shown = [point for point in compared if point]
    if not shown:
        return None
    greatest = min(GREATEST_COST, max(point[2] for point in shown))
    least = max(-GREATEST_COST, min(point[1] for point in shown))
    tie = 100 * (widest_tie(page.cells, page.tie) - 1)
    series = [series for series in _series(page) if series.wanted.get("pep", "none") in peps]

    def dress(axes: Axes, cells: Sequence[Cell]) -> None:
        axes.set_xlim(min(least, -tie) - 3, greatest + 6)
        axes.axvspan(-tie, tie, color=TIE_GREY, zorder=0)
        axes.axvline(0, color=LEAST_GREY, linewidth=1, label=INTERVAL)

    bars = {True: "paired with the same seed", False: "each with every run"}
    pairs = " or ".join(bars[is_paired] for is_paired in pairings(page.cells))
    caption = (
        f"What a VPN adds to the {measure(page)} (%); marker: median, bar: all seeds,"
        f" {pairs} without VPN; grey: a tie, ±{tie:.1f} %"
    )
    rows = [vpn for vpn in vpns if vpn != "none"]
    scale = (least, greatest)
    return _drawn("page-2", caption, "against no VPN (%)", page, series, seen, dress, rows, scale)


def _series(page: Block) -> list[Series]:
    """Return what has a separate marker: each transport without PEP, and each PEP with usual hosts.

    If that is too much, the transports and PEPs with the most points are drawn.
    """
    plain = {"pep": page.usual["pep"]} if "pep" in page.usual else {}
    if "cc" not in page.usual:
        return [Series(page.of_measure.title, plain, COLOURS[3], MARKERS[0])]
    chosen: list[tuple[str, dict[str, str]]] = []
    usual = page.usual["cc"]
    others = [cc for cc in page.campaigns.distinct("cc", page.cells) if cc != usual]
    for cc in (usual, *others):
        chosen.append((transport(cc), {**plain, "cc": cc}))
    for pep in page.campaigns.distinct("pep", page.cells):
        if pep not in plain.values():
            chosen.append((f"{transport(usual)}, {phrase('pep', pep)}", {"cc": usual, "pep": pep}))
    if len(chosen) > MOST_SERIES:
        most = sorted(chosen, key=lambda labelled: -len(page.of(**labelled[1])))[:MOST_SERIES]
        chosen = [labelled for labelled in chosen if labelled in most]
    looks = zip(SERIES_COLOURS, MARKERS, strict=False)
    series = []
    for (label, wanted), (colour, marker) in zip(chosen, looks, strict=False):
        series.append(Series(label, wanted, colour, marker))
    return series


def _panels(page: Block, has_points: Callable[[Mapping[str, str]], bool]) -> list[list[Panel]]:
    """Return the panels: a row for each link, a column for each loss; else all in rows of three.

    A link's own loss may be one that no other link has, so only panels with points are there.
    """
    losses = _drawn_losses(page)
    grid = []
    for link in _drawn_links(page):
        row = []
        for loss in losses or [""]:
            # A loss with a name that is that of every panel tells none of them apart.
            is_told = len(losses) > 1 or is_numeral(loss)
            wanted = {**link, "loss": loss} if loss else dict(link)
            if has_points(wanted):
                values = page.of(**wanted)[0].values
                words = [link_in_words(link, values, is_brief=True)]
                words += [at_loss(loss, page)] if is_told else []
                row.append(Panel(", ".join(filter(None, words)), wanted))
        if row:
            grid.append(row)
    flat = list(chain.from_iterable(grid))
    is_full = bool(grid) and len(flat) == len(grid) * len(grid[0]) > len(grid)
    if len(grid) > 1 and not is_full:
        grid = [flat[first : first + 3] for first in range(0, len(flat), 3)]
    return grid[: max(1, MOST_PANELS // len(grid[0]))] if grid else []


def _drawn_losses(page: Block) -> list[str]:
    """Return the losses that have panels."""
    losses = page.losses
    if len(losses) <= MOST_ACROSS:
        return losses
    step = (len(losses) - 1) / (MOST_ACROSS - 1)
    return [losses[round(place * step)] for place in range(MOST_ACROSS)]


def _drawn_links(page: Block) -> list[dict[str, str]]:
    """Return the links that have panels: those of the greatest size, if all are too many."""
    links = page.links
    sizes = [number(link.get("size", "")) or 0 for link in links]
    if len(links) * max(1, len(_drawn_losses(page))) <= MOST_PANELS:
        return links
    return [link for link, size in zip(links, sizes, strict=True) if size == max(sizes)]


def _left_out(
    page: Block,
    panels: Sequence[Panel],
    has_points: Callable[[Mapping[str, str]], bool],
) -> str:
    """Return what a caption says of links that have no panel, though they have points."""
    losses = [{"loss": loss} for loss in page.losses] or [{}]
    drawn = others = 0
    for link in page.links:
        if any(link.items() <= panel.wanted.items() for panel in panels):
            drawn += 1
        else:
            others += any(has_points({**link, **loss}) for loss in losses)
    return f"; {drawn} of {drawn + others} links, the others are in the appendix" if others else ""


class _Drawer:
    """Draws the panels of a figure: `seen` of each cell, as points of the series."""

    def __init__(
        self,
        page: Block,
        series: Sequence[Series],
        seen: Callable[[Cell], Seen | None],
        dress: Callable[[Axes, Sequence[Cell]], None],
        vpns: Sequence[str],
        scale: tuple[float, float],
    ) -> None:
        self.page, self.series, self.seen, self.dress = page, series, seen, dress
        self.vpns, self.scale = vpns, scale
        self._points: dict[frozenset[tuple[str, str]], Seen | None] = {}

    def point(self, panel: Mapping[str, str], marked: Series, vpn: str) -> Seen | None:
        """Return the point of a series in a panel; None if there is none."""
        wanted = {**panel, **marked.wanted, **({"vpn": vpn} if vpn else {})}
        key = frozenset(wanted.items())
        if key not in self._points:
            self._points[key] = next(map(self.seen, self.page.of(**wanted)), None)
        return self._points[key]

    def has_points(self, panel: Mapping[str, str], some: Sequence[Series] | None = None) -> bool:
        """Return whether a panel has any point, of some series or of all."""
        pairs = product(self.series if some is None else some, self.vpns)
        return any(self.point(panel, marked, vpn) for marked, vpn in pairs)

    def is_drawn(self, marked: Series, panels: Sequence[Panel]) -> bool:
        """Return whether a series has a point in any of these panels."""
        return any(self.has_points(panel.wanted, [marked]) for panel in panels)

    def fill(self, axes: Axes, panel: Panel, longest: int = LONGEST) -> None:
        """Draw a panel; words beside it have at most so many letters."""
        axes.set_title("\n".join(wrap(panel.title, TITLE)), loc="left")
        self.dress(axes, self.page.of(**panel.wanted))
        axes.grid(axis="x", color="#eeeeee")
        several = len(self.series)
        for place, marked in enumerate(self.series):
            for at, vpn in enumerate(self.vpns):
                if values := self.point(panel.wanted, marked, vpn):
                    y = at + (place - (several - 1) / 2) * min(0.28, 0.9 / several)
                    side = 0 if several == 1 else -1 if place == 0 else 1
                    _point(axes, values, y, marked, self.scale, side)
        # The number below a lower bar needs room above the axis.
        room = 0.25 if several > 1 and self.scale[1] < math.inf else 0.0
        axes.set_ylim(len(self.vpns) - 0.5 + room, -0.5)
        axes.yaxis.set_major_locator(FixedLocator(range(len(self.vpns))))
        names = [_lines(phrase("vpn", vpn), longest) if vpn else "" for vpn in self.vpns]
        axes.set_yticks(range(len(self.vpns)), names)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_minor_locator(NullLocator())

    def wide(self, grid: Sequence[Sequence[Panel]], words: str, height: float) -> Figure:
        """Return the panels in rows, for a page; each row has this height."""
        more = 0.2 * ((len(self.series) - 1) // LEGEND_COLUMNS)
        figure = Figure(figsize=(WIDTH_IN, 0.75 + more + height * len(grid)))
        across = max(map(len, grid))
        places = figure.subplots(len(grid), across, sharex=True, sharey=True, squeeze=False)
        for row, axes_of_row, above in zip(grid, places, [None, *places], strict=False):
            for panel, axes in zip(row, axes_of_row, strict=False):
                self.fill(axes, panel)
            for column in range(len(row), across):
                axes_of_row[column].remove()
                if above is not None:
                    # Now it is the lowest one of its column.
                    above[column].tick_params(axis="x", labelbottom=True)
        _label(figure, words, self.series, LEGEND_COLUMNS)
        return figure

    def narrow(self, panels: Sequence[Panel], words: str, height: float) -> Figure:
        """Return the panels below each other, for a telephone; each has this height."""
        each = height + 0.05 + NUMBERS_IN
        figure = Figure(figsize=(NARROW_IN, 0.9 + 0.2 * len(self.series) + each * len(panels)))
        stacked = figure.subplots(len(panels), 1, sharex=True, squeeze=False)
        for panel, axes in zip(panels, stacked[:, 0], strict=True):
            self.fill(axes, panel, LONGEST_NARROW)
            axes.tick_params(axis="x", labelbottom=True)  # the lowest is a screen or more away
        _label(figure, words, self.series, 1)
        return figure


def _drawn(
    name: str,
    caption: str,
    words: str,
    page: Block,
    series: Sequence[Series],
    seen: Callable[[Cell], Seen | None],
    dress: Callable[[Axes, Sequence[Cell]], None],
    rows: Sequence[str] | None = None,
    scale: tuple[float, float] = (-math.inf, math.inf),
) -> Drawing | None:
    """Draw the figure, and its narrow form; None if it has no point.

    What reaches beyond the ends of `scale` has its end in words.
    """
    vpns = rows if rows is not None else page.campaigns.distinct("vpn", page.cells)
    vpns = [vpn for vpn in vpns if page.of(vpn=vpn)] or [""]
    drawer = _Drawer(page, series, seen, dress, vpns, scale)
    grid = _panels(page, drawer.has_points)
    flat = list(chain.from_iterable(grid))
    if not flat:
        return None
    drawer.series = [marked for marked in series if drawer.is_drawn(marked, flat)]
    row_in = max(ROW_IN, 0.1 * len(drawer.series))
    lines = max(len(wrap(panel.title, TITLE)) for panel in flat)
    height = HEAD_IN + LINE_IN * (lines - 1) + row_in * len(vpns)
    with matplotlib.rc_context(SETTINGS):
        wide = drawer.wide(grid, words, height)
    sizes: Any = {"font.size": 9, "axes.titlesize": 9, "legend.fontsize": 8}
    with matplotlib.rc_context({**SETTINGS, **sizes}):
        narrow = drawer.narrow(flat, words, height)
    # Whether a link is left out is asked of all series, also of those that are not drawn.
    left_out = _left_out(page, flat, lambda panel: drawer.has_points(panel, series))
    return Drawing(name, caption + left_out, wide, narrow)


def _lines(words: str, longest: int) -> str:
    """Return words beside a figure, in two lines at most."""
    lines = wrap(words, longest, break_long_words=False)[:2]
    return "\n".join(cut(line, longest) for line in lines)


def cut(words: str, longest: int) -> str:
    """Return words that fit beside a figure."""
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def _point(
    axes: Axes, values: Seen, y: float, series: Series, scale: tuple[float, float], side: int
) -> None:
    """Draw a marker with its bar; of one beyond the scale the end in words.

    The words go to a side: −1 is above, 1 below, 0 where there is no other series.
    """
    middle, low, high = values
    left, right = scale
    if high > low:
        look: Look = {"color": series.colour, "linewidth": 1.2, "label": INTERVAL + series.label}
        axes.plot([low, high], [y, y], **look)
    has_marker = left <= middle <= right  # else not a half of one at the edge; the CSV has it
    size = 5 if has_marker else 0
    axes.plot(middle, y, series.marker, color=series.colour, markersize=size, label=series.label)
    has_bar = high > left and low < right  # its own marker or bar would strike the number out
    # Those of two series would stand on each other between their bars.
    shift = (side or -1) * 0.12 if has_bar else side * 0.08
    ends = [(1.0, f"→ {short(high)}")] if high > right else []
    ends += [(0.01, f"← {short(low)}".replace("-", "−"))] if low < left else []
    for place, end in ends:
        across = "right" if place == 1 else "left"
        up = ("bottom" if shift < 0 else "top") if has_bar else "center"
        at: Look = {"ha": across, "va": up, "transform": axes.get_yaxis_transform()}
        axes.text(place, y + shift, end, fontsize=6.5, color=series.colour, **at)


def _label(figure: Figure, words: str, series: Sequence[Series], columns: int) -> None:
    figure.supxlabel(words, fontsize=8)
    looks = []
    for marked in series:
        look: Look = {"color": marked.colour, "marker": marked.marker, "label": marked.label}
        looks.append({**look, "linestyle": "", "markersize": 5})
    legend(figure, looks, columns)
