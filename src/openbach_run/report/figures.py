# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's figures, as SVG and PDF: the same cells give the same bytes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
from openbach_run.report.cells import Cell, Partners, file_name, is_number
from openbach_run.report.charts import INTERVAL
from openbach_run.report.words import heading, in_good_units, named, said, suffix_in_words
from openbach_run.results.intervals import Estimate, ratio
from openbach_run.results.record import statistics

TRANSFER_TIME = "transfer_time_s"
WIDE = 3
"""An axis of ratios that reaches over more than this factor is logarithmic; panels do not share one that differs by more."""

BURSTS = "; what waited behind a lost packet arrives at once, so that an interval can have more than the link's rate"
ECDF_SEEDS = 10
"""Fewer make no distribution."""
LINEAR = 10
"""An axis of swept numbers that reaches over more than this factor is logarithmic, from the least one above 0 on."""
SERIES_LENGTH = 20
"""A statistic that a job of a run sent at least so often is drawn over time."""


@dataclass(frozen=True)
class Drawing:
    """A figure with the name of its files, what it shows, and the words for those who do not see it."""

    name: str
    caption: str
    figure: Figure

    def save(self, folder: Path) -> None:
        """`folder`/`name`.svg and .pdf."""
        with matplotlib.rc_context(SETTINGS):
            self.figure.savefig(folder / f"{self.name}.svg", metadata={"Date": None, "Creator": "openbach-run"})
            self.figure.savefig(folder / f"{self.name}.pdf", metadata={"CreationDate": None, "Creator": "openbach-run"})


def values(cells: Sequence[Cell], name: str) -> list[str]:
    found = list(dict.fromkeys(cell.values.get(name, "") for cell in cells))
    return sorted(found, key=float) if all(map(is_number, found)) else found


def find(cells: Sequence[Cell], **wanted: str) -> Cell | None:
    return next(
        (cell for cell in cells if all(cell.values.get(name, "") == value for name, value in wanted.items())), None
    )


def configurations(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """The pairs of VPN and PEP position, in the order of the campaign."""
    pairs = {(cell.values.get("vpn", ""), cell.values.get("pep", "")) for cell in cells}
    return [(vpn, pep) for vpn in values(cells, "vpn") for pep in values(cells, "pep") if (vpn, pep) in pairs]


def configuration(vpn: str, pep: str) -> str:
    return ", ".join(said(name, value) for name, value in (("vpn", vpn), ("pep", pep)) if value)


def without_unit(words: str) -> str:
    """`transfer time` of `transfer time (s)`."""
    return words.partition(" (")[0]


def least_times_s(cells: Sequence[Cell]) -> list[float]:
    """Of the sizes that the cells transfer."""
    return sorted({time_s for cell in cells if (time_s := cell.least_transfer_time_s)})


def heat_map(name: str, title: str, cells: Sequence[Cell], measure: str, words: str) -> Drawing:
    """Medians of a measure, called `words`: a row per VPN and PEP position, a column per loss and transport (the report's
    Figure 2)."""
    rows, losses, transports = configurations(cells), values(cells, "loss"), values(cells, "cc")
    columns = [(loss, cc) for loss in losses for cc in transports]
    medians = numpy.full((len(rows), len(columns)), numpy.nan)
    texts = {}
    for (y, (vpn, pep)), (x, (loss, cc)) in itertools.product(enumerate(rows), enumerate(columns)):
        if cell := find(cells, vpn=vpn, pep=pep, loss=loss, cc=cc):
            found = cell.estimate(measure)
            medians[y, x] = found.median if found else numpy.nan
            texts[y, x] = _word(cell, found)
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, 1.3 + 0.24 * len(rows)))
        axes = figure.subplots()
        least, most = numpy.nanmin(medians), numpy.nanmax(medians)
        logarithmic = least > 0
        scale = LogNorm(least, max(most, least * 1.01)) if logarithmic else Normalize(least, most)
        image = axes.imshow(medians, aspect="auto", cmap="YlOrRd", norm=scale)
        bar = figure.colorbar(image, label=words, pad=0.01)
        if logarithmic:
            _plain_log(bar.ax.yaxis)
        for (y, x), word in texts.items():
            colour = "white" if scale(medians[y, x]) > 0.6 else "black"
            axes.text(x, y, word, ha="center", va="center", fontsize=6.5, color=colour)
        axes.set_yticks(range(len(rows)), [configuration(*pair) for pair in rows])
        axes.set_xticks(
            range(len(columns)), [named(cc) for _, cc in columns], rotation=40, ha="right", rotation_mode="anchor"
        )
        axes.tick_params(length=0)
        for number, loss in enumerate(losses):
            middle = (number + 0.5) * len(transports) - 0.5
            axes.text(middle, -0.7, said("loss", loss), ha="center", va="bottom", weight="bold")
            if number:
                axes.axvline(number * len(transports) - 0.5, color="white", linewidth=3)
        axes.spines[:].set_visible(False)
    starred = " (* some runs failed or are missing)" if any("*" in word for word in texts.values()) else ""
    return Drawing(name, f"{title}: median {words} by VPN, PEP position, loss and transport{starred}", figure)


def _word(cell: Cell, found: Estimate | None) -> str:
    if found is None:
        return "failed" if cell.failed else "not run"
    digits = 1 if found.median < 100 else 0
    return f"{found.median:.{digits}f}" + ("" if cell.whole else "*")


def compared(
    name: str, title: str, cells: Sequence[Cell], baseline: Mapping[str, str], measure: str, words: str
) -> Drawing:
    """Ratio of each configuration's value to the baseline's with its interval, per transport (the report's Figures 3 to 6)."""
    transports = values(cells, "cc")
    rows = [
        (vpn, pep) for vpn, pep in configurations(cells) if not baseline.items() <= {"vpn": vpn, "pep": pep}.items()
    ]
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, 1.1 + 0.3 * len(rows)))
        axes = figure.subplots()
        axes.axvline(1, color="#999999", linewidth=0.8, label=INTERVAL)
        for number, cc in enumerate(transports):
            for y, (vpn, pep) in enumerate(rows):
                cell = find(cells, vpn=vpn, pep=pep, cc=cc)
                found = against(cell, cells, baseline, measure) if cell else None
                if found:
                    at = y + (number - (len(transports) - 1) / 2) * 0.22
                    look = COLOURS[(number + 1) % len(COLOURS)], MARKERS[number % len(MARKERS)]
                    _with_interval(axes, found, at, *look, named(cc))
        least, most = axes.get_xlim()
        if most > WIDE * max(least, 1e-9):
            axes.set_xscale("log")
            _plain_log(axes.xaxis)
        axes.set_yticks(range(len(rows)), [configuration(*pair) for pair in rows])
        axes.invert_yaxis()
        axes.grid(axis="y", color="#eeeeee")
        shown = configuration(baseline.get("vpn", ""), baseline.get("pep", ""))
        axes.set_xlabel(f"{without_unit(words)} over that of {shown} with the same transport")
        handles = [
            Line2D(
                [],
                [],
                color=COLOURS[(n + 1) % len(COLOURS)],
                marker=MARKERS[n % len(MARKERS)],
                markersize=4,
                label=named(cc),
            )
            for n, cc in enumerate(transports)
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    return Drawing(
        name, f"{title}: {without_unit(words)} compared with {shown}, median of paired ratios and 95 % interval", figure
    )


def against(cell: Cell, cells: Sequence[Cell], baseline: Mapping[str, str], measure: str) -> Estimate | None:
    """Ratio to the cell that has the baseline's values and otherwise the same; None for that cell itself."""
    partners = [
        one for one in Partners(cells, baseline).of(cell) if all(one.values.get(k) == v for k, v in baseline.items())
    ]
    return ratio(cell.measured(measure), partners[0].measured(measure)) if partners else None


def _with_interval(axes: Axes, found: Estimate, y: float, colour: str, marker: str, label: str) -> None:
    if found.low is not None and found.high is not None:
        axes.plot([found.low, found.high], [y, y], color=colour, linewidth=1.2, label=INTERVAL + label)
    axes.plot(found.median, y, marker, color=colour, markersize=4, label=label)


def loss_curves(name: str, title: str, cells: Sequence[Cell], measure: str, words: str) -> Drawing:
    """A measure over loss: a panel per transport, a colour per VPN, a style per PEP position."""
    losses, vpns, peps = values(cells, "loss"), values(cells, "vpn"), values(cells, "pep")
    with matplotlib.rc_context(SETTINGS):
        figure, panels = _panels([named(cc) for cc in values(cells, "cc")], "random loss (%)", words)
        for cc, axes in zip(values(cells, "cc"), panels, strict=True):
            for vpn, pep in configurations(cells):
                found = [
                    (float(loss), estimated)
                    for loss in losses
                    if (cell := find(cells, vpn=vpn, pep=pep, cc=cc, loss=loss))
                    and (estimated := cell.estimate(measure))
                ]
                colour, style = COLOURS[vpns.index(vpn) % len(COLOURS)], STYLES[peps.index(pep) % len(STYLES)]
                label = configuration(vpn, pep)
                axes.plot(
                    [x for x, _ in found],
                    [one.median for _, one in found],
                    style,
                    color=colour,
                    linewidth=1.1,
                    label=label,
                )
                _intervals(axes, found, colour, label)
            if measure == TRANSFER_TIME:
                _least(axes, cells)
            if all(value > 0 for cell in cells for value in cell.measured(measure).values()):
                axes.set_yscale("log")
                _plain_log(axes.yaxis)
            scale = _to_scale(axes, losses)
        _legend(figure, vpns, peps)
    least = "; dotted: the least possible time" if measure == TRANSFER_TIME else ""
    return Drawing(
        name, f"{title}: {without_unit(words)} over random loss{scale}, median and 95 % interval{least}", figure
    )


def _intervals(axes: Axes, found: Sequence[tuple[float, Estimate]], colour: str, label: str) -> None:
    for x, one in found:
        if one.low is not None and one.high is not None:
            axes.plot([x, x], [one.low, one.high], color=colour, linewidth=0.8, alpha=0.6, label=INTERVAL + label)


def curves(name: str, title: str, cells: Sequence[Cell], argument: str, measure: str, words: str) -> Drawing:
    """A measure, called `words`, over a number that was swept: a line for each combination of the other values that were."""
    numbers = values(cells, argument)
    swept = [one for one in cells[0].values if one != argument and len(values(cells, one)) > 1]
    lines: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        label = ", ".join(said(one, cell.values[one]) for one in swept) or words
        lines.setdefault(label, {})[cell.values[argument]] = cell
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, 3.1))
        axes = figure.subplots()
        axes.grid(color="#eeeeee")
        for number, (label, line) in enumerate(lines.items()):
            found = [
                (float(value), one) for value in numbers if value in line and (one := line[value].estimate(measure))
            ]
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            axes.plot(
                [x for x, _ in found], [one.median for _, one in found], marker=marker, markersize=4, color=colour,
                linewidth=1.1, label=label,
            )  # fmt: skip
            _intervals(axes, found, colour, label)
        scale = _to_scale(axes, numbers)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(heading(argument))
        axes.set_ylabel(words)
        figure.legend(loc="outside upper left", ncols=min(len(lines), 4), frameon=False)
    return Drawing(name, f"{title}: {words} over {heading(argument)}{scale}, median and 95 % interval", figure)


def distributions(name: str, title: str, cells: Sequence[Cell], measure: str, words: str) -> Drawing:
    """Empirical distribution of a measure over the seeds: a panel per transport and loss rate above 0 (without
    loss all seeds give the same; a campaign of that alone is drawn all the same)."""
    vpns, peps, transports = values(cells, "vpn"), values(cells, "pep"), values(cells, "cc")
    losses = [loss for loss in values(cells, "loss") if loss != "0"] or values(cells, "loss")
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, 0.8 + 2 * len(losses)))
        grid = figure.subplots(len(losses), len(transports), sharey=True, squeeze=False)
        for (row, loss), (column, cc) in ((a, b) for a in enumerate(losses) for b in enumerate(transports)):
            axes = grid[row][column]
            axes.set_title(f"{named(cc)}, {said('loss', loss)}")
            axes.grid(color="#eeeeee")
            for vpn, pep in configurations(cells):
                cell = find(cells, vpn=vpn, pep=pep, cc=cc, loss=loss)
                if cell and (found := sorted(cell.measured(measure).values())):
                    colour, style = COLOURS[vpns.index(vpn) % len(COLOURS)], STYLES[peps.index(pep) % len(STYLES)]
                    axes.ecdf(found, color=colour, linestyle=style, linewidth=1.1, label=configuration(vpn, pep))
        figure.supxlabel(words, fontsize=8)
        figure.supylabel("share of the seeds", fontsize=8)
        _legend(figure, vpns, peps)
    return Drawing(name, f"{title}: distribution (ECDF) of the {without_unit(words)} over the seeds", figure)


def _plain_log(axis: Axis) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, written out."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def _to_scale(axes: Axes, numbers: Sequence[str]) -> str:
    """Ticks at numbers, on a linear axis, or one that is logarithmic above the least of them that is above 0; what a caption
    has to say of it."""
    at = [float(one) for one in numbers]
    least, most = min((one for one in at if one > 0), default=1.0), max(at)
    logarithmic = most > LINEAR * least
    if logarithmic:
        axes.set_xscale("symlog", linthresh=least)
    axes.set_xticks(at, numbers)
    axes.xaxis.set_minor_locator(NullLocator())
    return f" (logarithmic above {least:g})" if logarithmic else ""


def _panels(names: Sequence[str], x: str, y: str) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(WIDTH_IN, 3.1))
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for name, axes in zip(names, panels, strict=True):
        axes.set_title(name)
        axes.grid(color="#eeeeee")
    figure.supxlabel(x, fontsize=8)
    panels[0].set_ylabel(y)
    return figure, list(panels)


def _least(axes: Axes, cells: Sequence[Cell]) -> None:
    for least_s in least_times_s(cells):
        axes.axhline(least_s, color="#999999", linestyle=(0, (1, 1)), linewidth=1, label=f"least time: {least_s:.4g} s")


def _legend(figure: Figure, vpns: Sequence[str], peps: Sequence[str]) -> None:
    handles = [
        Line2D([], [], color=COLOURS[n % len(COLOURS)], label=said("vpn", vpn)) for n, vpn in enumerate(vpns) if vpn
    ]
    styles = [
        Line2D([], [], color="#666666", linestyle=STYLES[n % len(STYLES)], label=said("pep", pep))
        for n, pep in enumerate(peps)
    ]
    handles += styles if len(peps) > 1 else []
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)


def time_series(name: str, title: str, cells: Sequence[Cell], declared: Declared) -> list[Drawing]:
    """For each statistic that jobs sent again and again: one figure, a panel per configuration, a line per job instance and
    suffix, of the first seed of the first cell of each configuration."""
    chosen = {pair: cell for pair in configurations(cells) if (cell := find(cells, vpn=pair[0], pep=pair[1]))}
    series: dict[tuple[str, str], dict[tuple[str, str], dict[str, list[tuple[float, float]]]]] = {}
    for pair, cell in chosen.items():
        for statistic, lines in _series(cell).items():
            series.setdefault(statistic, {})[pair] = lines
    made = []
    for (job, sent), drawn in sorted(series.items()):
        measure = over_time(sent, declared.get(job, ()))
        caption = f"{title}: {measure.title} over virtual time (job {named(job)}){BURSTS if 'goodput' in measure.title else ''}"
        made.append(_drawn_over_time(file_name(name, job, sent), caption, measure, drawn))
    return made


def _series(cell: Cell) -> dict[tuple[str, str], dict[str, list[tuple[float, float]]]]:
    """(job, statistic) → line → (time in s from the first statistic of the run, value)."""
    sent = statistics(cell.runs[0].run_dir)
    start_ms = min((one["_metadata"]["time"] for one in sent), default=0)
    found: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for one in sent:
        metadata = one["_metadata"]
        where = metadata["agent_name"].removeprefix("satvpn_").replace("_", " ")
        line = ", ".join(filter(None, [where, suffix_in_words(metadata.get("suffix") or "")]))
        for statistic, value in one.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                lines = found.setdefault((metadata["job_name"], statistic), {})
                lines.setdefault(line, []).append(((metadata["time"] - start_ms) / 1000, float(value)))
    long = {
        key: {line: points for line, points in lines.items() if len(points) >= SERIES_LENGTH}
        for key, lines in found.items()
    }
    return {key: lines for key, lines in long.items() if lines}


def _shared(ends: Sequence[float]) -> bool | Literal["row"]:
    """Whether all panels have one axis, or each row one of its own: where some reach more than WIDE times as far as others, the
    lines of these could not be seen."""
    return True if max(ends) <= WIDE * min(ends) else "row"


def _drawn_over_time(
    name: str,
    caption: str,
    measure: Measure,
    panels: Mapping[tuple[str, str], Mapping[str, Sequence[tuple[float, float]]]],
) -> Drawing:
    across = min(3, len(panels))
    sent = [value * measure.factor for drawn in panels.values() for line in drawn.values() for _, value in line]
    shown = in_good_units(measure, sent)
    factor = measure.factor * shown.factor
    down = -(-len(panels) // across)
    lines = list(dict.fromkeys(line for one in panels.values() for line in one))
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH_IN, 0.7 + 1.7 * down))
        of_time, of_value = (
            _shared(
                [
                    max((point[axis] for line in drawn.values() for point in line), default=0)
                    for drawn in panels.values()
                ]
            )
            for axis in (0, 1)
        )
        grid = figure.subplots(down, across, sharex=of_time, sharey=of_value, squeeze=False).flatten()
        for axes, (pair, drawn) in zip(grid, panels.items(), strict=False):
            axes.set_title(configuration(*pair))
            axes.grid(color="#eeeeee")
            for line, points in drawn.items():
                colour = COLOURS[(lines.index(line) + 1) % len(COLOURS)]
                axes.plot(
                    [t for t, _ in points], [value * factor for _, value in points], color=colour, linewidth=0.8,
                    label=line or shown.title,
                )  # fmt: skip
        for axes in grid[len(panels) :]:
            axes.remove()
        figure.supxlabel("virtual time (s)", fontsize=8)
        figure.supylabel(shown.words, fontsize=8)
        handles = [Line2D([], [], color=COLOURS[(n + 1) % len(COLOURS)], label=line) for n, line in enumerate(lines)]
        figure.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 6), frameon=False)
    return Drawing(name, f"{caption}. First seed", figure)
