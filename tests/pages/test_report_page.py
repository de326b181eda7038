# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTML report in a real browser, offline, at desk and phone width; the PDF page by page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas
import pypdfium2
import pytest
from helpers.made_up import write_results
from playwright.sync_api import Locator, Page, ViewportSize, expect

from openbach_run.commands import main
from openbach_run.paths import REPOSITORY

PHONE: ViewportSize = {"width": 390, "height": 844}
READABLE_PX = 12


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    results = str(write_results(folder / "matrix"))
    assert main.main(["report", results, "-o", str(folder / "report"), "--quiet"]) == 0
    return folder / "report"


@pytest.fixture
def opened(page: Page, report: Path) -> Page:
    page.context.set_offline(True)
    page.goto((report / "report.html").as_uri())
    return page


def test_every_figure_is_drawn_and_has_words_for_those_who_do_not_see_it(
    opened: Page, report: Path, picture: Callable[[str], str]
) -> None:
    images = opened.locator("figure img")
    assert images.count() == len(list((report / "figures").glob("*.pdf")))
    drawn = images.evaluate_all(
        "images => images.map(i => [i.complete, i.naturalWidth, i.alt, i.src.slice(0, 5)])"
    )
    assert all(
        complete and width > 0 and words and source == "data:"
        for complete, width, words, source in drawn
    )
    opened.screenshot(path=picture("report-desk"))


@pytest.mark.parametrize("width_px", [1400, 390])
def test_figures_are_read_and_zoomed(
    opened: Page, report: Path, width_px: int, accessible: Callable[[Page], None],
    picture: Callable[[str], str],
) -> None:  # fmt: skip
    opened.set_viewport_size({"width": width_px, "height": 900})
    figure = opened.locator("figure.has-chart", has_text="over random loss").first
    data = json.loads(figure.locator("script").text_content() or "")
    figure.scroll_into_view_if_needed()
    expect(figure.locator("canvas").first).to_be_visible()
    expect(figure.locator("img")).to_be_hidden()
    first = data["panels"][0]["lines"][0]
    figure.locator(".plot").first.focus()
    opened.keyboard.press("ArrowRight")
    expect(figure.locator(".panel-title").first).to_have_text(
        f"{data['panels'][0]['title']} at 0 %"
    )
    expect(figure.locator(".legend .value").first).to_have_text(
        re.compile(rf"^ ?{first['v'][0]:.4g}".replace(".", r"\."))
    )
    figure.locator(".u-over").last.hover()
    expect(figure.locator(".panel-title").last).to_contain_text(" at ")
    expect(figure.locator(".panel-title").first).not_to_contain_text(" at ")
    assert re.search(r"\d \[\d.*–\d.*\]", figure.locator(".legend .value").first.inner_text()), (
        "with its interval"
    )
    figure.get_by_role("button", name="Zoom in").click()
    zoomed = figure.get_by_role("status").inner_text()
    assert zoomed.endswith(" %")
    figure.locator(".plot").first.focus()
    opened.keyboard.press("+")
    expect(figure.get_by_role("status")).not_to_have_text(zoomed)
    figure.get_by_role("button", name="All", exact=True).click()
    expect(figure.get_by_role("status")).to_have_text("")
    _drag(opened, figure.locator(".u-over").first)
    expect(figure.get_by_role("status")).to_contain_text(" to ")
    opened.keyboard.press("0")
    figure.locator(".legend input").first.uncheck()
    figure.screenshot(path=picture(f"report-chart-{width_px}"))
    signs = figure.locator(".sign").evaluate_all(
        "signs => signs.map(one => [one.dataset.sign, getComputedStyle(one).color])"
    )
    told = [sign for sign in signs if sign[0]]
    assert len(told) >= 4 and len({sign for sign, _ in told}) == len(told), "told apart in grey"
    with opened.expect_download() as expected:
        figure.get_by_text("Points as CSV").click()
    points = pandas.read_csv(expected.value.path())
    pandas.testing.assert_frame_equal(
        points, pandas.read_csv(report / "figures" / expected.value.suggested_filename)
    )
    ratios = opened.locator("figure", has_text="median of paired ratios").first
    expect(ratios.locator("img")).to_be_visible()
    assert "has-chart" not in (ratios.get_attribute("class") or ""), "names stay at their side"
    times = opened.locator("figure.has-chart", has_text="over time (job").first
    times.scroll_into_view_if_needed()
    expect(times.locator("canvas").first).to_be_visible()
    times.screenshot(path=picture(f"report-times-{width_px}"))
    accessible(opened)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width_px, (
        "the page scrolls sideways"
    )
    opened.emulate_media(media="print")
    expect(figure.locator("img")).to_be_visible()
    expect(figure.locator("canvas").first).to_be_hidden()


def _drag(page: Page, over: Locator) -> None:
    box = over.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.3, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=4)
    page.mouse.up()


def test_links_lead_somewhere(opened: Page) -> None:
    targets = opened.locator("a[href^='#']").evaluate_all(
        "links => links.map(a => a.getAttribute('href'))"
    )
    sections = ("summary", "what-a-vpn-costs", "claims", "method", "limitations")
    assert {f"#{one}" for one in sections} <= set(targets)
    assert {"#appendix-claims-in-full", "#c1", "#appendix-results"} <= set(targets)
    assert targets.count("#geo-geo-loss") == 2, "the figures of pages 1 and 2 lead to all values"
    assert all(opened.locator(f"[id='{target[1:]}']").count() == 1 for target in targets)


def test_it_is_readable_at_phone_width(opened: Page, picture: Callable[[str], str]) -> None:
    opened.set_viewport_size(PHONE)
    assert opened.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], (
        "the page scrolls sideways"
    )
    smallest = opened.evaluate(
        "Math.min(...[...document.querySelectorAll('p, li, td, th, figcaption, a')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert smallest >= READABLE_PX
    cut = opened.evaluate(
        "[...document.querySelectorAll('table, figure img, pre')].filter(e =>"
        " e.getBoundingClientRect().right > innerWidth && !e.closest('.wide') &&"
        " getComputedStyle(e).overflowX != 'auto').length"
    )
    assert cut == 0, "something wider than the phone cannot be scrolled to"
    figures_px = opened.locator("figure:not(.has-chart):not(.whole) img").evaluate_all(
        "images => images.map(i => i.getBoundingClientRect().width)"
    )
    assert min(figures_px) >= 700, "figures are drawn so small that their text cannot be read"
    first = opened.locator("figure.whole img").first
    shown = first.evaluate(
        "image => [image.currentSrc.length, image.clientWidth, image.clientHeight]"
    )
    assert shown[1] <= PHONE["width"] and shown[2] > 2 * shown[1], "the form for phones: a column"
    answers = opened.locator("table", has_text="you control").first
    assert answers.evaluate("table => table.getBoundingClientRect().right") <= PHONE["width"], (
        "the answers of page 1 are off screen"
    )
    for name, part in {"top": "h1", "figure": "figure >> nth=0", "table": "table >> nth=1"}.items():
        opened.locator(part).first.scroll_into_view_if_needed()
        opened.screenshot(path=picture(f"report-phone-{name}"))


def test_wide_tables_can_be_scrolled_with_the_keyboard(opened: Page) -> None:
    opened.set_viewport_size(PHONE)
    wide = opened.locator(".wide:has(table)").filter(has_text="CUBIC without HyStart").first
    wide.focus()
    opened.keyboard.press("ArrowRight")
    opened.wait_for_function("element => element.scrollLeft > 0", arg=wide.element_handle())


def test_every_page_of_the_pdf_has_something_on_it(
    report: Path, picture: Callable[[str], str]
) -> None:
    pdf = pypdfium2.PdfDocument(report / "report.pdf")
    assert len(pdf) > 10
    texts = [pdf[number].get_textpage().get_text_range() for number in range(len(pdf))]
    for words in ("decides:", "Figure 1.", "What to use", "VPN only"):
        assert words in texts[0], f"page 1 has no {words}"
    (costs,) = (number for number in (1, 2) if texts[number].startswith("What a VPN costs"))
    assert "◐ partly" in texts[costs + 1]
    for words in ("What to use", "C7", "this is our reading", "Limitations"):
        assert words in "".join(texts)
    for number in range(len(pdf)):
        page = pdf[number].render(scale=1).to_pil().convert("L")
        page.save(picture(f"report-page-{number + 1}"))
        assert page.getextrema()[0] < 100, f"page {number + 1} is empty"
        inked = page.point(lambda value: 255 if value < 200 else 0).getbbox()
        assert inked[0] >= 50 and inked[2] <= page.width - 50, (
            f"page {number + 1} runs into its margin"
        )


def test_the_published_report_has_its_first_pages_in_print(picture: Callable[[str], str]) -> None:
    pdf = pypdfium2.PdfDocument(REPOSITORY / "reports/full/report.pdf")
    texts = [pdf[number].get_textpage().get_text_range() for number in range(4)]
    for number in range(2):
        pdf[number].render(scale=1.5).to_pil().save(picture(f"report-full-{number + 1}"))
    assert "5. " in texts[0] and "VPN only" in texts[0]
    assert "./openbach-run" not in texts[0], "cells are missing: page 1 names their command"
    # Its figure and last sentences are on page 2.
    assert texts[2].startswith("What a VPN costs") and texts[3].startswith("Claims")


@pytest.mark.parametrize("width_px", [1400, 390])
def test_the_published_report_is_accessible(
    page: Page, width_px: int, accessible: Callable[[Page], None], picture: Callable[[str], str]
) -> None:
    page.set_viewport_size({"width": width_px, "height": 900})
    page.emulate_media(color_scheme="dark" if width_px == 390 else "light")
    page.goto((REPOSITORY / "reports/full/report.html").as_uri())
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width_px
    page.screenshot(path=picture(f"report-full-{width_px}"))
