# SPDX-License-Identifier: GPL-3.0-or-later
"""A report's figures and its PDF are small, and show what matplotlib and Typst wrote."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy
import pytest
import typst
from matplotlib.figure import Figure
from PIL import Image
from pypdfium2 import PdfDocument

from openbach_run.drawing import SETTINGS
from openbach_run.report.document import FONTS
from openbach_run.report.pdf_objects import packed
from openbach_run.report.svg import slim


@pytest.fixture(scope="module")
def figure() -> str:
    """A figure as matplotlib writes it: a line, markers, an image, words in two directions."""
    with matplotlib.rc_context({**SETTINGS, "svg.fonttype": "none"}):
        drawing = Figure(figsize=(4, 3))
        line, image = drawing.subplots(1, 2)
        line.plot([0, 1, 2.5, 7], [3, -1, 4.25, 0.5], marker="o", label="goodput <&> '1 %'")
        line.plot([0, 7], [1, 1], linestyle="--", marker="s", label="goodput")
        line.set_ylabel("goodput (Mbit/s)")
        line.legend()
        image.imshow(numpy.arange(12).reshape(3, 4))
        text = io.StringIO()
        drawing.savefig(text, format="svg")
    return text.getvalue()


def picture(text: str, folder: Path) -> numpy.ndarray:
    """Return the grey pixels of an SVG."""
    (folder / "figure.svg").write_text(text)
    source = b'#set page(width: auto, height: auto, margin: 0pt)\n#image("figure.svg")'
    png = typst.compile(source, root=folder, format="png", ppi=144, **FONTS)
    return numpy.asarray(Image.open(io.BytesIO(png)).convert("L"), dtype=int)


def test_a_slim_figure_is_the_same_picture(figure: str, tmp_path: Path) -> None:
    small = slim(figure)
    before, after = picture(figure, tmp_path), picture(small, tmp_path)
    assert before.shape == after.shape and before.min() < 50
    difference = abs(before - after)
    assert difference.mean() < 1 and difference.max() < 128
    # Without its words it is another.
    other = picture(re.sub(r"<text [^>]*>[^<]*</text>", "", small), tmp_path)
    assert abs(before - other).max() > 128


def test_a_slim_figure_is_a_fraction_and_one_line(figure: str) -> None:
    small = slim(figure)
    assert len(small) < 0.5 * len(figure) and small.count("\n") == 1
    assert small == slim(figure)
    used = set(re.findall(r"#([a-z]+)[\")]", small))
    named = {element.get("id") for element in ElementTree.fromstring(small).iter()} - {None}
    assert used == named


def test_places_are_rounded_without_a_sum_of_errors(figure: str) -> None:
    path = "M 0 0 " + " ".join(f"L {0.04 * step:.2f} 0" for step in range(1, 101))
    start = re.findall(r'<path d="[^"]*"', figure)[0]
    small = slim(figure.replace(start, f'<path d="{path}"'))
    steps = re.findall(r'd="m0 0h([^"]*)"', small)[0].split()
    assert len(steps) == 100 and sum(map(float, steps)) == pytest.approx(4, abs=0.05)


def test_a_packed_pdf_is_the_same_document() -> None:
    rows = " ".join(f"[{number}], [word {number}]," for number in range(300))
    source = f"#set document(date: none)\n= Title\n#table(columns: 2, {rows})\n#link(<end>)[x]\n= End <end>"
    pdf: Any = typst.compile(source.encode(), format="pdf", timestamp=0)
    small = packed(pdf)
    assert len(small) < 0.5 * len(pdf) and small == packed(pdf)
    before, after = PdfDocument(pdf), PdfDocument(small)
    assert len(before) == len(after) > 1
    assert before.get_metadata_dict() == after.get_metadata_dict()
    assert before.is_tagged() and after.is_tagged()
    assert [bookmark.get_title() for bookmark in after.get_toc()] == ["Title", "End"]
    for one, other in zip(before, after, strict=True):
        assert one.get_textpage().get_text_range() == other.get_textpage().get_text_range()
        assert one.render().to_pil().tobytes() == other.render().to_pil().tobytes()
