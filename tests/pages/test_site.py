# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation's site in a real browser, from the disk: what axe finds, and its search."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.made_up import write_results, write_series
from playwright.sync_api import Page, ViewportSize, expect

from openbach_run.commands import main
from openbach_run.results.files import write_parquet
from openbach_run.results.store import Store

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = (
    "index", "docs/start", "docs/guide", "docs/arguments", "docs/trust", "docs/reference",
    "docs/method/index", "docs/method/return-link", "docs/vpns", "reports/index", "docs/CONTRIBUTING",
)  # fmt: skip
PHONE: ViewportSize = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def site() -> Iterator[Path]:
    """The site, made anew: a dead link fails."""
    place = REPOSITORY / "site"
    subprocess.run(["make", "site"], cwd=REPOSITORY, check=True, capture_output=True)
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_keeps_nobody_out(
    site: Path, page: Page, accessible: Callable[[Page], None], name: str
) -> None:
    page.goto((site / f"{name}.html").as_uri())
    expect(page.locator("h1").first).to_be_visible()
    accessible(page)


@pytest.fixture(scope="module")
def results_site() -> Iterator[Path]:
    """The results of reports/ as a site, with two reports: all of them take minutes."""
    place = REPOSITORY / "results-site"
    words = ["make", "results-site", "REPORTED=post_quantum"]
    subprocess.run(words, cwd=REPOSITORY, check=True, capture_output=True)
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize("name", ["index", "full-geo_loss", "cells/full-geo_loss-1"])
@pytest.mark.parametrize("width_px", [1400, 390])
def test_a_page_of_results_keeps_nobody_out(
    results_site: Path,
    page: Page,
    accessible: Callable[[Page], None],
    picture: Callable[[str], str],
    name: str,
    width_px: int,
) -> None:
    page.set_viewport_size({"width": width_px, "height": 844})
    page.goto((results_site / f"{name}.html").as_uri())
    expect(page.locator("h1")).to_be_visible()
    page.screenshot(path=picture(f"results-{name.replace('/', '-')}-{width_px}"))
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width_px


@pytest.mark.parametrize("name", ["full", "post_quantum"])
def test_the_matrix_of_a_campaign_leads_to_its_report(
    results_site: Path, page: Page, name: str
) -> None:
    page.goto(next(results_site.glob(f"{name}-*.html")).as_uri())
    page.get_by_role("link", name="The report of this campaign").click()
    expect(page).to_have_url(re.compile(rf"results-site/reports/{name}\.html$"))
    expect(page.locator("body")).to_contain_text("technical report")


@pytest.mark.parametrize("width_px", [1400, 390])
def test_a_cell_with_curves_keeps_nobody_out(
    page: Page,
    accessible: Callable[[Page], None],
    picture: Callable[[str], str],
    tmp_path: Path,
    width_px: int,
) -> None:
    """The curves are a picture with a text in its place, and fit on a phone."""
    place, site = tmp_path / "mine", tmp_path / "site"
    write_results(place, seeds=1, vpn=("none", "wireguard"), pep=("none",), cc=("cubic",))
    records = Store(place).all()
    write_parquet(records, place / "results.parquet")
    for one in records:
        write_series(place / "runs" / one.run_id)
    assert main.main(["matrix", str(place), "-o", str(site)]) == 0
    page.set_viewport_size({"width": width_px, "height": 844})
    page.goto((site / "cells/mine-geo_loss-1.html").as_uri())
    curves = page.get_by_role("img", name="Curves of the run with seed 1 over time")
    expect(curves).to_be_visible()
    assert curves.evaluate("image => image.complete && image.naturalWidth > 0")
    page.screenshot(path=picture(f"results-curves-{width_px}"), full_page=True)
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width_px
    page.get_by_role("link", name="The curves of seed 1").click()
    expect(page).to_have_url(re.compile(r"curves/0{16}\.svg$"))


def test_a_search_has_the_documentation_first(
    site: Path, page: Page, picture: Callable[[str], str]
) -> None:
    page.goto((site / "index.html").as_uri())
    page.screenshot(path=picture("site-desk"))
    # The page reads the words when a key is released; text that is set in the box goes unread
    # where the index was ready before it.
    page.get_by_role("textbox", name="Search").press_sequentially("congestion control")
    first = page.locator(".md-search-result__link").first
    expect(first).to_be_visible()
    assert "/docs/" in (first.get_attribute("href") or "")
    page.screenshot(path=picture("site-search"))


def test_a_page_fits_a_phone(site: Path, page: Page, picture: Callable[[str], str]) -> None:
    page.set_viewport_size(PHONE)
    page.goto((site / "index.html").as_uri())
    page.screenshot(path=picture("site-phone"))
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
