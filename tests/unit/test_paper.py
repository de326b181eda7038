# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run report --paper`: figures in the width of a paper's column, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.made_up import write_results
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from openbach_run.commands import main
from openbach_run.report.paper import _draw_bars
from openbach_run.results.intervals import Estimate

POINTS = {"column": 252.0, "page": 515.52}
"""3.5 and 7.16 inches."""


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("paper") / "geo"
    return write_results(place, seeds=6, pep=("none",), cc=("cubic", "bbr2"), loss=("0.1", "1"))


def figures(results: Path, place: Path, *words: str) -> set[str]:
    assert main.main(["report", str(results), "-o", str(place), "--quiet", *words]) == 0
    return {file.name for file in place.iterdir()}


@pytest.mark.parametrize("width", POINTS)
def test_each_figure_is_a_column_wide_in_three_forms(
    results: Path, tmp_path: Path, width: str
) -> None:
    there = figures(results, tmp_path / "a", "--paper", width)
    of_geo = {name.removesuffix(".pdf") for name in there if re.match(r"geo_loss-.*\.pdf", name)}
    cells = [f"cc_{cc}-loss_{loss}" for cc in ("cubic", "bbr2") for loss in ("0.1", "1")]
    assert of_geo == {
        *(f"geo_loss-cdf-{cell}" for cell in cells),
        *(f"geo_loss-{kind}-cc_{cc}" for kind in ("bars", "ratios") for cc in ("cubic", "bbr2")),
    }
    forms = {f"{name}.{form}" for name in of_geo for form in ("pdf", "svg", "pgf")}
    assert forms <= there and "report.html" not in there
    for name in of_geo:
        pdf = (tmp_path / f"a/{name}.pdf").read_bytes()
        (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) [\d.]+ \]", pdf)
        assert float(box) == pytest.approx(POINTS[width], abs=0.1)
        pgf = (tmp_path / f"a/{name}.pgf").read_text()
        assert f"pgfqpoint{{{POINTS[width] / 72:.6f}in}}" in pgf
    bars = (tmp_path / "a/geo_loss-bars-cc_cubic.pgf").read_text()
    assert r"\catcode`\%=\active\def%{\%}0.1 % loss" in bars, "LaTeX takes it for no comment"
    shown = (tmp_path / "a/report.md").read_text()
    assert "CUBIC: transfer time (s), median and 95 % interval\n" in shown


def test_a_value_has_one_look_and_a_file_no_place_of_this_machine(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: dict[str, set[tuple[str, str]]] = {}
    drawn = Axes.bar

    def bar(axes: Axes, *words: Any, **look: Any) -> Any:
        if look["label"]:
            looks.setdefault(look["label"], set()).add((look["color"], look["hatch"]))
        return drawn(axes, *words, **look)

    monkeypatch.setattr(Axes, "bar", bar)
    over = ("--baseline", "vpn=none", "cc=cubic")
    figures(results, tmp_path / "a", "--paper", "column", *over)
    assert looks and all(len(each) == 1 for each in looks.values())
    assert len(set().union(*looks.values())) == len(looks)
    for file in (tmp_path / "a").glob("*.pgf"):
        assert "detokenize" not in file.read_text() and "/" not in file.read_text(), file


@pytest.mark.parametrize(
    ("baseline", "name", "over"),
    [
        ("cc=bbr2", "geo_loss-ratios-vpn_none", "BBRv2"),
        ("loss=0.1", "geo_loss-ratios-vpn_none", "0.1 % loss"),
    ],
)
def test_any_baseline_is_one(
    results: Path, tmp_path: Path, baseline: str, name: str, over: str
) -> None:
    there = figures(results, tmp_path / "a", "--paper", "column", "--baseline", baseline)
    assert f"{name}.pgf" in there
    assert f"transfer time over that of {over}, median" in (tmp_path / "a/report.md").read_text()


def test_the_same_results_make_the_same_bytes_and_take_the_place_of_older_ones(
    results: Path, tmp_path: Path
) -> None:
    made = []
    for _ in range(2):
        figures(results, tmp_path / "a", "--paper", "column")
        made.append({file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()})
    assert made[0] == made[1]


@pytest.mark.parametrize("option", ["--appendix", "--runs"])
def test_what_changes_no_figure_is_refused(
    results: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["report", str(results), "--paper", "page", option]) == 2
    assert f"{option} changes no figure" in capsys.readouterr().err


def test_an_interval_from_zero_is_drawn_from_zero() -> None:
    cell: Any = SimpleNamespace(values={"vpn": "none"}, has=lambda _: True)
    axes = Figure().subplots()
    _draw_bars(axes, [(cell, Estimate(2.0, 0.0, 5.0, 6))], "scenario", "vpn", {"none": 0})
    assert axes.lines[0].get_ydata() == pytest.approx([0.0, 5.0], abs=0)
