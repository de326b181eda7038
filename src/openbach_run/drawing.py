# SPDX-License-Identifier: GPL-3.0-or-later
"""How figures look: width, colours, lines, markers."""

from __future__ import annotations

from typing import Any, Literal

WIDTH_IN = 7.0
COLOURS = ("#000000", "#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
"""Told apart by the colour-blind as well (Okabe and Ito 2008)."""
STYLES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P")
SETTINGS: Any = {
    "svg.hashsalt": "openbach-run", "font.family": "DejaVu Sans", "font.size": 8, "axes.titlesize": 8,
    "legend.fontsize": 7, "axes.spines.top": False, "axes.spines.right": False, "figure.constrained_layout.use": True,
    "text.parse_math": False,  # a $ in a value is a $
}  # fmt: skip
