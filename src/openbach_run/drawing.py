# SPDX-License-Identifier: GPL-3.0-or-later
"""Width, colours, lines and markers of figures, and the library that draws charts in a browser."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from openbach_run.errors import SetupError

HERE = Path(__file__).parent
WIDTH_IN = 7.0
COLOURS = ("#000000", "#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
"""Colours that the colour-blind can tell apart as well (Okabe and Ito 2008)."""
STYLES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P")
SETTINGS: Any = {
    "svg.hashsalt": "openbach-run",
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,  # else a label is right only with what is added
    "figure.constrained_layout.use": True,
    "text.parse_math": False,  # a $ in a value is a $
}

CARRIER = "youplot"
"""The Python package that has uPlot's files, as they are in uPlot's own package 1.6.31."""
CHART_FILES = {
    "uplot.iife.min.js": "2d27e8ad3d228164525ce213f9dc716f39b4e3aee0cc773fb3491c96cf4921a2",
    "uplot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""Files of uPlot in that package, and the SHA-256 of each."""
CHART_NOTICE = "/* uPlot 1.6.31, Copyright (c) Leon Sorokin, MIT License */\n"


def chart_script() -> str:
    """Return the JavaScript that draws charts in a browser.

    It is uPlot (https://github.com/leeoniya/uPlot) and chart.js, which calls it. It fits into a
    page, or into one file with the page. It defines `uPlot` and `Charts` and loads nothing else.
    Raises SetupError.
    """
    return CHART_NOTICE + _chart_file("uplot.iife.min.js") + "\n" + (HERE / "chart.js").read_text()


def chart_style() -> str:
    """Return the style sheet of the charts. Raises SetupError."""
    return CHART_NOTICE + _chart_file("uplot.min.css") + "\n" + (HERE / "chart.css").read_text()


@cache
def _chart_file(name: str) -> str:
    """Return a file of uPlot from the carrier, without importing that.

    Its bytes are those that uPlot's authors have published; else SetupError is raised.
    """
    spec = find_spec(CARRIER)
    if spec is None or spec.origin is None:
        raise SetupError(f"the Python package {CARRIER} is missing, which brings the charts")
    content = (Path(spec.origin).parent / "vendor" / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != CHART_FILES[name]:
        raise SetupError(f"{CARRIER}: {name} is not the file of uPlot 1.6.31")
    return content.decode()
