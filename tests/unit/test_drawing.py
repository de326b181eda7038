# SPDX-License-Identifier: GPL-3.0-or-later
"""The library of charts, found in the package that carries it.

It is refused if it is not what its authors published.
"""

from __future__ import annotations

import pytest

from openbach_run import drawing
from openbach_run.errors import SetupError


def test_the_charts_are_uplot_and_ask_for_nothing_else() -> None:
    script, style = drawing.chart_script(), drawing.chart_style()
    assert script.startswith("/* uPlot 1.6.31, Copyright")
    assert "var uPlot=function" in script
    assert ".uplot" in style
    assert not any(
        word in script + style
        for word in ("fetch(", "XMLHttpRequest", "@import", "url(", "</script")
    )


def test_another_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing._chart_file.cache_clear()
    monkeypatch.setitem(drawing.CHART_FILES, "uplot.min.css", "0" * 64)
    with pytest.raises(SetupError, match=r"is not the file of uPlot 1\.6\.31"):
        drawing.chart_style()
    monkeypatch.setattr(drawing, "CARRIER", "no_such_package")
    with pytest.raises(SetupError, match="no_such_package is missing"):
        drawing.chart_style()
