# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures for a paper: distributions over seeds, and bars with intervals, in a column's width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from textwrap import fill
from typing import Any
from unittest.mock import patch

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_pgf import RendererPgf
from matplotlib.figure import Figure

from openbach_run.drawing import COLOURS, SETTINGS, STYLES
from openbach_run.report.cells import Campaigns, Cell, file_name
from openbach_run.report.charts import INTERVAL
from openbach_run.report.figures import Drawing, Look, against, values, without_unit
from openbach_run.report.settings import Setting, settings
from openbach_run.report.words import phrase
from openbach_run.results.intervals import Estimate, ends

WIDTHS_IN = {"column": 3.5, "page": 7.16}
"""Width of one column of a two-column page, and of both with the gap (IEEE's, in inches)."""
HEIGHT_IN = 2.4
LONGEST_LABEL = 34
"""The most letters of a line beside the axis."""
WIDEST = 0.3
"""The greatest width of a bar, as a part of the room of its group."""
HATCHES = ("", "///", "\\\\\\", "---", "|||", "xxx", "++")
"""Hatches that tell bars apart where there is no colour."""
FORMATS: Any = {
    "pdf": {"metadata": {"CreationDate": None}},
    "svg": {"metadata": {"Date": None}},
    "pgf": {},
}
"""Ending of a figure's files → what keeps the same figure the same to the byte."""
MEASURING = "get_text_width_height_descent"
"""Method by which matplotlib has LaTeX measure each text of a PGF file. Few machines have LaTeX,
and the font of the other two files measures as well."""


def write(campaigns: Campaigns, baseline: Mapping[str, str], output: Path, width: str) -> None:
    """Write the figures in one of WIDTHS_IN as PDF, SVG and PGF; report.md shows them."""
    output.mkdir(parents=True)
    shown = []
    measure = patch.object(RendererPgf, MEASURING, getattr(RendererBase, MEASURING))
    # Without the places of this machine's fonts, which name a home directory.
    with matplotlib.rc_context({**SETTINGS, "pgf.rcfonts": False}), measure:
        for setting in settings(campaigns):
            for drawing in _drawings(setting, baseline, width, campaigns.cells):
                for form, how in FORMATS.items():
                    drawing.figure.savefig(output / f"{drawing.name}.{form}", **how)
                shown.append(f"![{drawing.caption}]({drawing.name}.svg)\n\n{drawing.caption}\n")
    (output / "report.md").write_text("\n".join(shown))


def _drawings(
    setting: Setting, baseline: Mapping[str, str], width: str, every: Sequence[Cell]
) -> Iterator[Drawing]:
    """Yield the figures of a section, one for each combination of what a figure does not show.

    One argument has a line or bar for each value: the baseline's, or else the first that is swept.
    A value has the same look in all figures of `every` cell.
    """
    cells, measure, words = setting.cells, setting.plot.measure, setting.words
    swept = [name for name in cells[0].values if len(values(cells, name)) > 1] or ["scenario"]
    lines = next(name for name in (*baseline, *swept) if name in swept)
    *others, groups = [name for name in swept if name != lines] or ["scenario"]
    over = ", ".join(phrase(name, value) for name, value in baseline.items())
    ratio = f"{without_unit(words)} over that of {over}"
    of_seeds = {id(cell): cell.estimate(measure) for cell in cells}
    of_ratio = {id(cell): against(cell, cells, baseline, measure) for cell in cells if baseline}
    looks = {value: number for number, value in enumerate(values(every, lines))}
    for kind, apart, estimates, label in (
        ("cdf", (*others, groups), of_seeds, "share of the seeds"),
        ("bars", others, of_seeds, words),
        ("ratios", others, of_ratio, ratio),
    ):
        for combination in product(*(values(cells, name) for name in apart)):
            chosen = dict(zip(apart, combination, strict=True))
            here = [(cell, estimates.get(id(cell))) for cell in cells if cell.has(chosen)]
            drawn = [(cell, estimate) for cell, estimate in here if estimate]
            if not drawn:
                continue
            figure = Figure(figsize=(WIDTHS_IN[width], HEIGHT_IN))
            axes = figure.subplots()
            axes.grid(axis="y", color="#eeeeee")
            axes.set_axisbelow(True)
            axes.set_ylabel(fill(label, LONGEST_LABEL))
            if kind == "cdf":
                _draw_distributions(axes, [cell for cell, _ in drawn], measure, lines, looks)
                axes.set_xlabel(words)
            else:
                _draw_bars(axes, drawn, groups, lines, looks)
            if kind == "ratios":
                axes.axhline(1, color="#999999", linewidth=0.8, label=INTERVAL)
            columns = 2 if width == "column" else 4
            figure.legend(loc="outside upper left", ncols=columns, frameon=False)
            what = [setting.title, *(phrase(name, value) for name, value in chosen.items())]
            note = f"{label}, median and {ends([len(cell.runs) for cell, _ in drawn])}"
            note = f"{without_unit(words)}, distribution over the seeds" if kind == "cdf" else note
            parts = [f"{name}_{value}" for name, value in chosen.items() if name in swept]
            name = file_name(setting.name, kind, *parts)
            yield Drawing(name, f"{', '.join(what)}: {note}", figure)


def _colour(number: int) -> str:
    return COLOURS[1 + number % (len(COLOURS) - 1)]


def _draw_distributions(
    axes: Axes, cells: Sequence[Cell], measure: str, lines: str, looks: Mapping[str, int]
) -> None:
    """Draw each cell's distribution over the seeds; the values of `lines` have a look each."""
    for value in values(cells, lines):
        number = looks[value]
        look: Look = {"color": _colour(number), "linestyle": STYLES[number % len(STYLES)]}
        for cell in (cell for cell in cells if cell.has({lines: value})):
            axes.ecdf([*cell.measured(measure).values()], label=phrase(lines, value), **look)


def _draw_bars(
    axes: Axes,
    drawn: Sequence[tuple[Cell, Estimate]],
    groups: str,
    lines: str,
    looks: Mapping[str, int],
) -> None:
    """Draw a bar with its interval for each cell: those of a value of `groups` stand together."""
    cells = [cell for cell, _ in drawn]
    series, places = values(cells, lines), values(cells, groups)
    wide = min(0.8 / len(series), WIDEST)
    for number, value in enumerate(series):
        look: Look = {"color": _colour(looks[value]), "label": phrase(lines, value)}
        look |= {"hatch": HATCHES[looks[value] % len(HATCHES)], "edgecolor": "white"}
        for cell, estimate in drawn:
            if not cell.has({lines: value}):
                continue
            at = places.index(cell.values.get(groups, "")) + (number - (len(series) - 1) / 2) * wide
            axes.bar(at, estimate.median, wide, **look)
            bounds = (estimate.low, estimate.high)
            reach = [estimate.median if bound is None else bound for bound in bounds]
            axes.plot([at, at], reach, "k-", linewidth=0.9)
            look["label"] = ""  # each name once
    axes.set_xticks(range(len(places)), [phrase(groups, place) for place in places])
