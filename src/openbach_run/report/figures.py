# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's figures, as SVG and PDF. The same cells give the same bytes."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from openbach_run.drawing import COLOURS, MARKERS, SETTINGS, STYLES, WIDTH_IN
from openbach_run.openbach.measures import Declared, Measure, over_time
from openbach_run.report.cells import (
    Cell,
    Partners,
    file_name,
    is_numeral,
    measured_against,
    pairings,
)
from openbach_run.report.charts import INTERVAL, NARROW, points_csv
from openbach_run.report.svg import slim
from openbach_run.report.words import heading, in_good_units, named, phrase, suffix_in_words
from openbach_run.results import run_files
from openbach_run.results.grid import grid_of
from openbach_run.results.intervals import Estimate, change_notes, ends
from openbach_run.results.record import statistics
from openbach_run.topology.inventory import host_of

TRANSFER_TIME = "transfer_time_s"
WIDE = 3
"""An axis of ratios that reaches over more than this factor is logarithmic. Panels that differ by
more than it do not share an axis."""

BURSTS = (
    "; what waited behind a lost packet arrives at once, so that an interval can have more than the"
    " link's rate"
)
ECDF_SEEDS = 10
"""Fewer seeds make no distribution."""
Style = Literal["-", "--", ":", "-."]
LINEAR = 10
"""An axis of swept numbers that reaches over more than this factor is logarithmic, from the least
number above 0 on."""
SERIES_LENGTH = 20
"""A statistic is drawn over time if a job of a run sent it at least this often."""


@dataclass(frozen=True)
class Drawing:
    """A figure with the name of its files, and a caption for those who do not see it."""

    name: str
    caption: str
    figure: Figure
    narrow: Figure | None = None
    """Form of the figure for a phone, if the figure could not be read there."""

    def save(self, folder: Path) -> None:
        """Write the figure as `folder`/`name`.svg and .pdf, and its points as .csv."""
        (folder / f"{self.name}.csv").write_text(points_csv(self.figure))
        with matplotlib.rc_context({**SETTINGS, "svg.fonttype": "none"}):
            (folder / f"{self.name}.svg").write_text(_svg(self.figure))
            self.figure.savefig(
                folder / f"{self.name}.pdf",
                metadata={"CreationDate": None, "Creator": "openbach-run"},
            )
            if self.narrow:
                (folder / f"{self.name}{NARROW}.svg").write_text(_svg(self.narrow))


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return slim(text.getvalue())


def values(cells: Sequence[Cell], name: str) -> list[str]:
    """Return the different values of an argument.

    They are in the order of the cells; numbers are in their own order.
    """
    values_there = list(dict.fromkeys(cell.values.get(name, "") for cell in cells))
    return sorted(values_there, key=float) if all(map(is_numeral, values_there)) else values_there


def find(cells: Sequence[Cell], **wanted: str) -> Cell | None:
    """Return the first cell with these values, or None."""
    for cell in cells:
        if cell.has(wanted):
            return cell
    return None


def configurations(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """Return the pairs of VPN and PEP position that there are, in the order of the campaign."""
    pairs = {(cell.values.get("vpn", ""), cell.values.get("pep", "")) for cell in cells}
    every = itertools.product(values(cells, "vpn"), values(cells, "pep"))
    return [pair for pair in every if pair in pairs]


def configuration(vpn: str, pep: str) -> str:
    """Return a VPN and a PEP position in words."""
    return ", ".join(phrase(name, value) for name, value in (("vpn", vpn), ("pep", pep)) if value)


def without_unit(words: str) -> str:
    """Return words without their unit: `transfer time` for `transfer time (s)`."""
    return words.partition(" (")[0]


def least_times_s(cells: Sequence[Cell]) -> list[float]:
    """Return the least times in s for the sizes that the cells transfer, sorted."""
    times_s = {cell.least_transfer_time_s for cell in cells}
    return sorted(time_s for time_s in times_s if time_s)


def heat_map(
    name: str,
    title: str,
    cells: Sequence[Cell],
    measure: str,
    words: str,
    scaled: Sequence[Cell] = (),
) -> Drawing:
    """Draw the medians of a measure, called `words` (the report's Figure 2).

    There is a row per VPN and PEP position, and a column per loss and congestion control. The
    colours are those of `scaled` cells, so that several figures have one scale.
    """
    rows, losses, transports = configurations(cells), values(cells, "loss"), values(cells, "cc")
    columns = list(itertools.product(losses, transports))
    grid = grid_of([(cell, cell.values) for cell in cells], ("vpn", "pep"), ("loss", "cc"))
    medians = numpy.full((len(rows), len(columns)), numpy.nan)
    texts = {}
    for (y, row), (x, column) in itertools.product(enumerate(rows), enumerate(columns)):
        if cell := grid.cells.get((row, column)):
            estimate = cell.estimate(measure)
            medians[y, x] = estimate.median if estimate else numpy.nan
            texts[y, x] = _word(cell, estimate)
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, 1.3 + 0.24 * len(rows)))
        axes = figure.subplots()
        estimates = [cell.estimate(measure) for cell in scaled]
        others = [estimate.median for estimate in estimates if estimate]
        least, most = min([numpy.nanmin(medians), *others]), max([numpy.nanmax(medians), *others])
        logarithmic = least > 0
        # A logarithmic scale needs two different ends.
        scale = LogNorm(least, max(most, least * 1.01)) if logarithmic else Normalize(least, most)
        image = axes.imshow(medians, aspect="auto", cmap="YlOrRd", norm=scale)
        bar = figure.colorbar(image, label=words, pad=0.01)
        if logarithmic:
            plain_log(bar.ax.yaxis)
        for (y, x), word in texts.items():
            colour = "white" if scale(medians[y, x]) > 0.6 else "black"
            axes.text(x, y, word, ha="center", va="center", fontsize=6.5, color=colour)
        axes.set_yticks(range(len(rows)), [configuration(*pair) for pair in rows])
        axes.set_xticks(
            range(len(columns)),
            [named(cc) for _, cc in columns],
            rotation=40,
            ha="right",
            rotation_mode="anchor",
        )
        axes.tick_params(length=0)
        for number, loss in enumerate(losses):
            middle = (number + 0.5) * len(transports) - 0.5
            axes.text(middle, -0.7, phrase("loss", loss), ha="center", va="bottom", weight="bold")
            if number:
                axes.axvline(number * len(transports) - 0.5, color="white", linewidth=3)
        axes.spines[:].set_visible(False)
    caption = f"{title}: median {words} by VPN, PEP position, loss and congestion control"
    if any("*" in word for word in texts.values()):
        caption += " (* some runs failed or are missing)"
    return Drawing(name, caption, figure)


def _word(cell: Cell, estimate: Estimate | None) -> str:
    """Return the text in a field of the heat map.

    A cell with runs that failed or are missing has a *.
    """
    if estimate is None:
        return "failed" if cell.failed else "not run"
    digits = 1 if estimate.median < 100 else 0
    return f"{estimate.median:.{digits}f}" + ("" if cell.whole else "*")


def compared(
    name: str,
    title: str,
    cells: Sequence[Cell],
    baseline: Mapping[str, str],
    measure: str,
    words: str,
) -> Drawing:
    """Draw each configuration's ratio to the baseline with its interval, per congestion control.

    These are the report's Figures 3 to 6.
    """
    transports = values(cells, "cc")
    every = [{"vpn": vpn, "pep": pep} for vpn, pep in configurations(cells)]
    rows = [row for row in every if not baseline.items() <= row.items()]
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, 1.1 + 0.3 * len(rows)))
        axes = figure.subplots()
        axes.axvline(1, color="#999999", linewidth=0.8, label=INTERVAL)
        for number, cc in enumerate(transports):
            for y, row in enumerate(rows):
                cell = find(cells, cc=cc, **row)
                ratio = against(cell, cells, baseline, measure) if cell else None
                if ratio:
                    # The transports are beside one another, around the middle of the row.
                    at = y + (number - (len(transports) - 1) / 2) * 0.22
                    look = _colour(number + 1), MARKERS[number % len(MARKERS)]
                    _with_interval(axes, ratio, at, *look, named(cc))
        least, most = axes.get_xlim()
        if most > WIDE * max(least, 1e-9):
            axes.set_xscale("log")
            plain_log(axes.xaxis)
        axes.set_yticks(range(len(rows)), [configuration(**row) for row in rows])
        axes.invert_yaxis()
        axes.grid(axis="y", color="#eeeeee")
        shown = configuration(baseline.get("vpn", ""), baseline.get("pep", ""))
        bare = without_unit(words)
        axes.set_xlabel(f"{bare} over that of {shown} with the same congestion control")
        looks = []
        for number, cc in enumerate(transports):
            of_cc = {"color": _colour(number + 1), "marker": MARKERS[number % len(MARKERS)]}
            looks.append({"label": named(cc), "markersize": 4, **of_cc})
        legend(figure, looks, len(looks))
    notes = change_notes([len(cell.runs) for cell in cells], pairings(cells), "ratios")
    return Drawing(name, f"{title}: {bare} compared with {shown}, {notes}", figure)


Look = dict[str, Any]
"""Colour, marker and so on of a line, as matplotlib calls them."""


def _colour(number: int) -> str:
    """Return the colour of a line by its number."""
    return COLOURS[number % len(COLOURS)]


def legend(figure: Figure, looks: Sequence[Mapping[str, Any]], columns: int) -> None:
    """Put a legend above a figure: a line for each look, as Line2D has it."""
    handles = [Line2D([], [], **look) for look in looks]
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, frameon=False)


def against(
    cell: Cell, cells: Sequence[Cell], baseline: Mapping[str, str], measure: str
) -> Estimate | None:
    """Return the ratio to the cell with the baseline's values and otherwise the same.

    None if there is no such cell, and for that cell itself.
    """
    same_otherwise = Partners(cells, baseline).of(cell)
    partners = [other for other in same_otherwise if baseline.items() <= other.values.items()]
    return measured_against(cell, partners[0], measure) if partners else None


def _with_interval(
    axes: Axes, estimate: Estimate, y: float, colour: str, marker: str, label: str
) -> None:
    if estimate.low is not None and estimate.high is not None:
        look: Look = {"color": colour, "linewidth": 1.2, "label": INTERVAL + label}
        axes.plot([estimate.low, estimate.high], [y, y], **look)
    axes.plot(estimate.median, y, marker, color=colour, markersize=4, label=label)


def loss_curves(name: str, title: str, cells: Sequence[Cell], measure: str, words: str) -> Drawing:
    """Draw a measure over loss: a panel for each control and PEP position, a line for each VPN."""
    losses, vpns, peps = values(cells, "loss"), values(cells, "vpn"), values(cells, "pep")
    transports = values(cells, "cc")
    measured = itertools.chain.from_iterable(cell.measured(measure).values() for cell in cells)
    is_positive = all(value > 0 for value in measured)
    with matplotlib.rc_context(SETTINGS):
        figure, grid = _grid(len(transports), len(peps))
        for (row, cc), (column, pep) in itertools.product(enumerate(transports), enumerate(peps)):
            axes = grid[row][column]
            axes.set_title(f"{named(cc)}, {phrase('pep', pep)}" if pep else named(cc))
            axes.grid(color="#eeeeee")
            for number, vpn in enumerate(vpns):
                points = []
                for loss in losses:
                    cell = find(cells, vpn=vpn, pep=pep, cc=cc, loss=loss)
                    points.append((float(loss), cell.estimate(measure) if cell else None))
                _line(axes, points, number, phrase("vpn", vpn), 3.5)
            if measure == TRANSFER_TIME:
                _least(axes, cells)
            if is_positive:
                axes.set_yscale("log")
                plain_log(axes.yaxis)
            scale = _to_scale(axes, losses)
        figure.supxlabel("random loss (%)", fontsize=8)
        figure.supylabel(words, fontsize=8)
        _legend(figure, vpns, MARKERS)
    least = "; dotted: the least possible time" if measure == TRANSFER_TIME else ""
    caption = f"{title}: {without_unit(words)} over random loss{scale}"
    return Drawing(name, f"{caption}, median and {_ends(cells)}{least}", figure)


def _ends(cells: Sequence[Cell]) -> str:
    return ends([len(cell.runs) for cell in cells])


def _line(
    axes: Axes,
    points: Iterable[tuple[float, Estimate | None]],
    number: int,
    label: str,
    markersize: float,
) -> None:
    """Draw the medians of a line, and the interval of each."""
    known = [(x, estimate) for x, estimate in points if estimate]
    look: Look = {
        "color": _colour(number),
        "marker": MARKERS[number % len(MARKERS)],
        "label": label,
    }
    medians = [estimate.median for _, estimate in known]
    axes.plot([x for x, _ in known], medians, markersize=markersize, linewidth=1.1, **look)
    for x, estimate in known:
        if estimate.low is not None and estimate.high is not None:
            of_bar: Look = {"color": _colour(number), "linewidth": 0.8, "alpha": 0.6}
            ends_of_bar = [estimate.low, estimate.high]
            axes.plot([x, x], ends_of_bar, label=INTERVAL + label, **of_bar)


def curves(
    name: str, title: str, cells: Sequence[Cell], argument: str, measure: str, words: str
) -> Drawing:
    """Draw a measure, called `words`, over a number that was swept.

    There is a line for each combination of the other values that were swept.
    """
    numbers = values(cells, argument)
    swept = [name for name in cells[0].values if name != argument and len(values(cells, name)) > 1]
    lines: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        label = ", ".join(phrase(name, cell.values[name]) for name in swept) or words
        lines.setdefault(label, {})[cell.values[argument]] = cell
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, 3.1))
        axes = figure.subplots()
        axes.grid(color="#eeeeee")
        for number, (label, line) in enumerate(lines.items()):
            present = [value for value in numbers if value in line]
            points = [(float(value), line[value].estimate(measure)) for value in present]
            _line(axes, points, number, label, 4)
        scale = _to_scale(axes, numbers)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(heading(argument))
        axes.set_ylabel(words)
        figure.legend(loc="outside upper left", ncols=min(len(lines), 4), frameon=False)
    caption = f"{title}: {words} over {heading(argument)}{scale}, median and {_ends(cells)}"
    return Drawing(name, caption, figure)


def distributions(
    name: str, title: str, cells: Sequence[Cell], measure: str, words: str
) -> Drawing:
    """Draw the empirical distribution of a measure over the seeds.

    There is a panel per congestion control, PEP position and loss above 0. Without loss all seeds
    give the same, so that rate is drawn only if the campaign has no other.
    """
    vpns, peps, transports = values(cells, "vpn"), values(cells, "pep"), values(cells, "cc")
    losses = [loss for loss in values(cells, "loss") if loss != "0"] or values(cells, "loss")
    with matplotlib.rc_context(SETTINGS):
        rows = list(itertools.product(losses, transports))
        figure, grid = _grid(len(rows), len(peps))
        for (row, (loss, cc)), (column, pep) in itertools.product(enumerate(rows), enumerate(peps)):
            axes = grid[row][column]
            parts = [named(cc), phrase("pep", pep) if pep else "", phrase("loss", loss)]
            axes.set_title(", ".join(filter(None, parts)))
            axes.grid(color="#eeeeee")
            for number, vpn in enumerate(vpns):
                cell = find(cells, vpn=vpn, pep=pep, cc=cc, loss=loss)
                if cell and (times := sorted(cell.measured(measure).values())):
                    look: Look = {
                        "color": _colour(number),
                        "linestyle": STYLES[number % len(STYLES)],
                    }
                    axes.ecdf(times, linewidth=1.1, label=phrase("vpn", vpn), **look)
        figure.supxlabel(words, fontsize=8)
        figure.supylabel("share of the seeds", fontsize=8)
        _legend(figure, vpns, styles=STYLES)
    caption = f"{title}: distribution (ECDF) of the {without_unit(words)} over the seeds"
    return Drawing(name, caption, figure)


MOST_WRITTEN = 300
"""The greatest end of a logarithmic axis, as a multiple of the least, with numbers between powers
of ten."""


def plain_log(axis: Axis) -> None:
    """Set ticks at 1, 2 and 5 times powers of ten, written out; of a wide axis at these powers."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1,) if 0 < MOST_WRITTEN * low < high else (1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def _to_scale(axes: Axes, numbers: Sequence[str]) -> str:
    """Set ticks at these numbers, and return what a caption has to say about the axis.

    The axis is linear, or logarithmic above the least number that is greater than 0.
    """
    at = [float(number) for number in numbers]
    least, most = min((number for number in at if number > 0), default=1.0), max(at)
    logarithmic = most > LINEAR * least
    if logarithmic:
        axes.set_xscale("symlog", linthresh=least)
    axes.set_xticks(at, numbers)
    axes.xaxis.set_minor_locator(NullLocator())
    return f" (logarithmic above {least:g})" if logarithmic else ""


def _grid(down: int, across: int) -> tuple[Figure, Sequence[Sequence[Axes]]]:
    """Return a figure of small panels with the same axes."""
    figure = Figure(figsize=(WIDTH_IN, 0.9 + 1.5 * down))
    grid: Any = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    return figure, grid


def _least(axes: Axes, cells: Sequence[Cell]) -> None:
    look: Look = {"color": "#999999", "linestyle": (0, (1, 1)), "linewidth": 1}
    for least_s in least_times_s(cells):
        axes.axhline(least_s, label=f"least time: {least_s:.4g} s", **look)


def _legend(
    figure: Figure, vpns: Sequence[str], markers: Sequence[str] = (), styles: Sequence[Style] = ()
) -> None:
    looks = []
    for number, vpn in enumerate(vpns):
        marker = markers[number % len(markers)] if markers else None
        style = styles[number % len(styles)] if styles else "-"
        look: Look = {"color": _colour(number), "marker": marker, "linestyle": style}
        looks += [{**look, "markersize": 4, "label": phrase("vpn", vpn)}] if vpn else []
    legend(figure, looks, 4)


Lines = dict[str, list[tuple[float, float]]]
"""Line → points: time in s, value."""


def time_series(name: str, title: str, cells: Sequence[Cell], declared: Declared) -> list[Drawing]:
    """Return a figure for each statistic that jobs sent again and again.

    It has a panel per configuration, and a line per job instance and suffix. It shows the first
    seed of the first cell of each configuration.
    """
    series: dict[tuple[str, str], dict[tuple[str, str], Lines]] = {}
    for vpn, pep in configurations(cells):
        cell = find(cells, vpn=vpn, pep=pep)
        for statistic, lines in _series(cell).items() if cell else ():
            series.setdefault(statistic, {})[vpn, pep] = lines
    drawings = []
    for (job, sent), drawn in sorted(series.items()):
        measure = over_time(sent, declared.get(job, ()))
        bursts = BURSTS if "goodput" in measure.title else ""
        caption = f"{title}: {measure.title} over time (job {named(job)}){bursts}"
        drawings.append(_drawn_over_time(file_name(name, job, sent), caption, measure, drawn))
    return drawings


def _series(cell: Cell) -> dict[tuple[str, str], Lines]:
    """Return (job, statistic) → lines, for lines of at least SERIES_LENGTH points.

    The times are in s from the first statistic of the run.
    """
    sent = statistics(cell.runs[0].run_dir) if cell.runs[0].has_files else []
    start_ms = min((row["_metadata"]["time"] for row in sent), default=0)
    by_statistic: dict[tuple[str, str], Lines] = {}
    for row in sent:
        metadata = row["_metadata"]
        where = host_of(metadata["agent_name"]).replace("_", " ")
        line = ", ".join(filter(None, [where, suffix_in_words(metadata.get("suffix") or "")]))
        for statistic, value in row.items():
            if run_files.is_number(value):
                lines = by_statistic.setdefault((metadata["job_name"], statistic), {})
                point = ((metadata["time"] - start_ms) / 1000, float(value))
                lines.setdefault(line, []).append(point)
    for lines in by_statistic.values():
        for line in [line for line, points in lines.items() if len(points) < SERIES_LENGTH]:
            del lines[line]
    return {key: lines for key, lines in by_statistic.items() if lines}


def _shared(ends: Sequence[float]) -> bool | Literal["row"]:
    """Return True if all panels share one axis, "row" if each row has its own.

    `ends` is how far each panel reaches. If some reach more than WIDE times as far as others, the
    lines of these could not be seen on a shared axis.
    """
    return True if max(ends) <= WIDE * min(ends) else "row"


def _drawn_over_time(
    name: str,
    caption: str,
    measure: Measure,
    panels: Mapping[tuple[str, str], Mapping[str, Sequence[tuple[float, float]]]],
) -> Drawing:
    """Draw the lines of a statistic over time, a panel per configuration."""
    across = min(3, len(panels))
    points_of = [list(itertools.chain(*drawn.values())) for drawn in panels.values()]
    sent = [value * measure.factor for _, value in itertools.chain(*points_of)]
    shown = in_good_units(measure, sent)
    factor = measure.factor * shown.factor
    # The number of rows is rounded up.
    down = -(-len(panels) // across)
    lines = list(dict.fromkeys(itertools.chain.from_iterable(panels.values())))
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, 0.7 + 1.7 * down))
        ends_s = [max(map(itemgetter(0), points), default=0) for points in points_of]
        greatest = [max(map(itemgetter(1), points), default=0) for points in points_of]
        shares: Any = {"sharex": _shared(ends_s), "sharey": _shared(greatest)}
        grid = figure.subplots(down, across, squeeze=False, **shares).flatten()
        for axes, (pair, drawn) in zip(grid, panels.items(), strict=False):
            axes.set_title(configuration(*pair))
            axes.grid(color="#eeeeee")
            for line, points in drawn.items():
                look: Look = {"color": _colour(lines.index(line) + 1), "label": line or shown.title}
                shown_values = [value * factor for _, value in points]
                axes.plot([t for t, _ in points], shown_values, linewidth=0.8, **look)
        for axes in grid[len(panels) :]:
            axes.remove()
        figure.supxlabel("time (s)", fontsize=8)
        figure.supylabel(shown.words, fontsize=8)
        looks = [{"color": _colour(n + 1), "label": line} for n, line in enumerate(lines)]
        legend(figure, looks, min(len(looks), 6))
    return Drawing(name, f"{caption}. First seed", figure)
