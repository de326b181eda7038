# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of `openbach-run serve` in a browser.

A first visit with the real engine, the rest with one that is made up.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from helpers.fake_engine import FakeEngine
from helpers.made_up import write_results
from helpers.web import ROOT, application, entrance, listening
from playwright.sync_api import Page, expect

from openbach_run.engine.contract import Outcome
from openbach_run.results.captures import hash_of_packets

VISIT_LIMIT_S = 600
PASSWORD = "a password for a test"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The URL of the real command."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [
        sys.executable,
        "-m",
        "openbach_run",
        "serve",
        "--port",
        "0",
        "--results",
        str(tmp_path / "results"),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    ) as server:
        assert server.stdout
        url = server.stdout.readline().split()[0]
        yield url
        server.terminate()
        assert server.wait(VISIT_LIMIT_S) == 0, "the command ends when it is told to"


@contextmanager
def visited(page: Page, app: FastAPI) -> Iterator[str]:
    """The URL of an application that the page has entered with the token."""
    with listening(app) as url:
        page.goto(entrance(app, url))
        assert page.url == url, "the token has left the address"
        yield url
        page.goto("about:blank")  # a server that ends answers what it has begun by an error


@pytest.fixture
def quick(page: Page, tmp_path: Path) -> Iterator[str]:
    with visited(page, application(tmp_path)) as url:
        yield url


def wait_for_end(page: Page, runs: int) -> None:
    expect(page.locator("#status")).to_contain_text(
        f"{runs} of {runs} runs done", timeout=VISIT_LIMIT_S * 1000
    )
    expect(page.locator("#main")).to_have_attribute(
        "aria-busy", "false", timeout=VISIT_LIMIT_S * 1000
    )


def launch(page: Page, url: str, scenario: str, *ticked: str, **texts: str) -> None:
    page.goto(f"{url}page/scenario/satvpn/{scenario}")
    expect(page.locator("#count")).to_contain_text("cell")
    for name in ticked:
        page.get_by_label(name, exact=True).first.check()
    for name, text in texts.items():
        page.get_by_role("textbox", name=name, exact=True).fill(text)
    page.get_by_role("button", name="Launch", exact=True).click()


def fits(page: Page) -> None:
    width = page.viewport_size
    assert width and page.evaluate("document.documentElement.scrollWidth") <= width["width"], (
        "the page scrolls sideways"
    )


@pytest.fixture(params=[1400, 390])
def wide(request: pytest.FixtureRequest, page: Page) -> Page:
    """The page at the width of a desk and of a telephone."""
    page.set_viewport_size({"width": request.param, "height": 900})
    return page


# With the real engine


def test_from_opening_to_two_tunnels_over_each_other(
    served: str, page: Page, picture: Callable[[str], str]
) -> None:
    """Curves of two VPNs on the same axes, at an address that opens them again."""
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(served)
    page.screenshot(path=picture("serve-scenarios"), full_page=True)
    page.get_by_role("link", name="geo", exact=True).click()
    page.get_by_label("none", exact=True).first.uncheck()
    page.get_by_label("wireguard", exact=True).check()
    page.get_by_label("openvpn_udp", exact=True).check()
    for name, text in {"size": "1M", "loss": "0", "series_s": "0.5", "seeds": "1"}.items():
        page.get_by_role("textbox", name=name, exact=True).fill(text)
    expect(page.locator("#count")).to_contain_text("2 cells, 2 runs; about")
    page.get_by_role("button", name="Launch", exact=True).click()
    wait_for_end(page, 2)
    for box in page.locator("#live .pick").all():
        box.check()
    page.get_by_role("link", name="Compare (2)").click()
    lines = page.locator("figure", has_text="goodput").first.locator(".legend label")
    expect(lines).to_have_count(2)
    assert sorted(text.strip() for text in lines.all_inner_texts()) == [
        "vpn=openvpn_udp: tcp_series on server",
        "vpn=wireguard: tcp_series on server",
    ]
    expect(page.locator(".uplot canvas").first).to_be_visible()
    page.screenshot(path=picture("serve-overlay"), full_page=True)
    again = page.context.new_page()
    again.goto(page.url)
    expect(
        again.locator("figure", has_text="goodput").first.locator(".legend label")
    ).to_have_count(2)
    page.get_by_role("link", name="vpn=openvpn_udp", exact=True).click()
    page.locator("#seeds ~ .wide a").first.click()
    expect(page.locator("svg.route")).to_have_attribute(
        "aria-label", re.compile("tunnel openvpn_udp from box to pop; no PEP")
    )
    page.screenshot(path=picture("serve-run"), full_page=True)


def test_its_packets_are_one_click(served: str, page: Page) -> None:
    """The run is repeated, and what is downloaded has the hash of the packets that it had."""
    page.goto(served)
    url = page.url
    launch(page, url, "geo", size="100k", loss="1", seeds="1")
    wait_for_end(page, 1)
    page.locator(".heat a").first.click()
    page.locator("tbody a").first.click()
    record = page.request.get(f"{page.url}/file/record.json").json()
    with page.expect_download(timeout=VISIT_LIMIT_S * 1000) as expected:
        page.get_by_role("button", name="Give me its packets").click()
    assert expected.value.suggested_filename == f"{record['run_id']}.pcapng"
    assert hash_of_packets(expected.value.path()) == record["capture_hash"]
    page.reload()
    expect(page.get_by_role("link", name="Its packets (pcapng)")).to_be_visible()


# With one that is made up: asking


def test_the_first_page_asks_a_question_and_is_searched(
    wide: Page, quick: str, accessible: Callable[[Page], None], picture: Callable[[str], str]
) -> None:
    wide.goto(quick)
    expect(wide.locator("h2").first).to_have_text("How long does a download take?")
    accessible(wide)
    fits(wide)
    wide.screenshot(path=picture(f"serve-home-{wide.viewport_size['width']}"))  # type: ignore[index]
    wide.get_by_label("Words, or an argument").fill("telephone VPN")
    wide.keyboard.press("Enter")
    expect(wide.locator(".cards a").first).to_have_text("voip")
    expect(wide.get_by_role("link", name="geo", exact=True)).to_have_count(0)
    wide.goto(quick)
    wide.get_by_role("link", name="Start here").press("Enter")
    expect(wide.locator("#count")).to_contain_text("2 cells, 4 runs; about")
    wide.get_by_label("Name of the launch").fill("My first one")
    wide.get_by_role("button", name="Launch", exact=True).press("Enter")
    expect(wide.get_by_role("heading", name="My first one")).to_be_visible()
    wait_for_end(wide, 4)
    wide.goto(quick)
    expect(wide.get_by_role("link", name="My first one")).to_be_visible()


def test_a_campaign_is_estimated_named_and_in_one_group(
    page: Page, tmp_path: Path, accessible: Callable[[Page], None]
) -> None:
    none_ends = threading.Semaphore(0)
    with visited(page, application(tmp_path, lambda: PacedEngine(none_ends))) as url:
        page.goto(url + "page/campaign/loss")
        expect(page.locator("#count")).to_contain_text("56 cells, 560 runs; about 19 min on 2 CPUs")
        page.get_by_label("Seeds").fill("1")
        page.get_by_label("Name").fill("For the paper")
        page.get_by_label("Name").press("Enter")
        expect(page.locator("#count")).to_contain_text("56 cells, 56 runs; about 112 s on 2 CPUs")
        accessible(page)
        page.get_by_role("button", name="Launch", exact=True).press("Enter")
        expect(page.locator("h1")).to_have_text("For the paper 1/2: geo_loss")
        page.get_by_role("link", name="loss-1", exact=True).press("Enter")
        expect(page.get_by_text("2 found")).to_be_visible()
        names = sorted(page.locator("tbody th a").all_inner_texts())
        assert names == ["For the paper 1/2: geo_loss", "For the paper 2/2: leo_loss"]


def test_every_page_is_dark_where_the_reader_wants_it(
    page: Page, quick: str, accessible: Callable[[Page], None]
) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.emulate_media(color_scheme="dark")
    launch(page, quick, "geo_loss", "wireguard", loss="0, 1", seeds="1")
    wait_for_end(page, 4)
    expect(page.locator("#first-page figure")).to_be_visible(timeout=VISIT_LIMIT_S * 1000)
    here = page.url
    for box in page.locator(".pick").all():
        box.check()
    shared = ("", "page/results", "page/campaign/loss", "page/scenario/satvpn/geo_loss")
    cell = page.locator(".heat a").first.get_attribute("href") or ""
    compared = page.locator("#tray").get_attribute("href") or ""
    for path in (*shared, cell, compared, here.removeprefix(quick), f"{here}/table"):
        page.goto(path if path.startswith("http") else quick + path.lstrip("/"))
        accessible(page)
        fits(page)
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(20, 25, 31)", path


def test_seeds_are_those_of_the_command_line_if_none_are_given(page: Page, quick: str) -> None:
    page.goto(quick + "page/scenario/satvpn/geo_loss?values.loss=0,1")
    expect(page.locator("#count")).to_contain_text("2 cells, 10 runs")
    page.get_by_role("button", name="Launch", exact=True).click()
    wait_for_end(page, 10)
    page.get_by_role("link", name="Again with other values").click()
    expect(page.get_by_role("textbox", name="seeds")).to_have_value("")
    page.get_by_role("textbox", name="seeds").fill("1")
    expect(page.locator("#count")).to_contain_text("2 cells, 2 runs, 2 there already")
    expect(page.locator("#notes")).to_contain_text("one seed, and the link is random")


@pytest.mark.parametrize(
    ("name", "text"),
    [("loss", "-1"), ("size", "10X"), ("rate", "fast"), ("buffer_bdp", "0")],
)
def test_a_bad_value_is_told_at_its_field_and_not_launched(
    page: Page, quick: str, name: str, text: str
) -> None:
    page = page.context.new_page()  # its console calls the refused form an error
    page.goto(quick + "page/scenario/satvpn/geo")
    page.locator("form#launch > details > summary").click()
    page.get_by_role("textbox", name=name, exact=True).fill(text)
    expect(page.locator(f"fieldset[data-name={name}] .wrong-value")).to_contain_text(text)
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page.locator(f"fieldset[data-name={name}] .wrong-value")).to_contain_text(text)
    expect(page.get_by_role("textbox", name=name, exact=True)).to_have_value(text)
    page.goto(quick + "page/results")
    expect(page.get_by_text("0 found")).to_be_visible()


def test_nothing_ticked_launches_nothing(page: Page, quick: str) -> None:
    page = page.context.new_page()  # its console calls the refused form an error
    page.goto(quick + "page/scenario/satvpn/geo_loss?values.vpn=wireguard,none&seeds=3")
    group = page.locator("fieldset[data-name=vpn]")
    expect(group.get_by_role("checkbox", checked=True)).to_have_count(2)
    expect(page.locator("#count")).to_contain_text("6 runs")
    for name in ("none", "wireguard"):
        group.get_by_label(name, exact=True).uncheck()
    expect(page.locator("#count")).to_have_text("not yet: look at vpn")
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(group.locator(".wrong-value")).to_have_text("choose at least one value")
    expect(group.get_by_role("checkbox", checked=True)).to_have_count(0)


def test_the_form_with_the_keyboard_alone(
    wide: Page, quick: str, accessible: Callable[[Page], None], picture: Callable[[str], str]
) -> None:
    wide.goto(quick + "page/scenario/satvpn/geo_loss")
    expect(wide.locator("#count")).to_contain_text("1 cell, 5 runs; about 10 s")
    accessible(wide)
    fits(wide)
    wide.screenshot(path=picture(f"serve-form-{wide.viewport_size['width']}"), full_page=True)  # type: ignore[index]
    wide.keyboard.press("Tab")
    expect(wide.get_by_role("link", name="Skip to the content")).to_be_focused()
    wide.keyboard.press("Enter")
    for _ in range(4):
        wide.keyboard.press("Tab")
        if wide.evaluate("document.activeElement.textContent") == "Launch":
            break
    expect(wide.get_by_role("button", name="Launch", exact=True)).to_be_focused()
    wide.keyboard.press("Enter")
    wait_for_end(wide, 5)


def test_a_link_file_is_uploaded_drawn_and_launched(page: Page, quick: str, tmp_path: Path) -> None:
    file = tmp_path / "rain.csv"
    file.write_text(
        "time_s,direction,rate_bps,delay_ms,loss_pct\n0,both,10000000,250,0\n20,forward,2000000,,1\n"
    )
    page.goto(quick + "page/scenario/satvpn/geo")
    page.get_by_label("Link file (CSV)").set_input_files(file)
    page.get_by_role("button", name="Upload").click()
    expect(
        page.locator("fieldset[data-name=link_file] input[type=checkbox]:checked")
    ).to_have_value(re.compile("rain.csv"))
    page.locator("summary", has_text="rain.csv").scroll_into_view_if_needed()
    drawn = page.get_by_role("img", name="Rate, delay and loss of rain.csv over time")
    expect(drawn).to_be_visible()
    page.wait_for_function(
        "image => image.complete && image.naturalWidth > 0", arg=drawn.element_handle()
    )
    page.get_by_role("textbox", name="seeds").fill("1")
    page.get_by_role("button", name="Launch", exact=True).click()
    wait_for_end(page, 1)


# Results: finding, naming, deleting


def test_results_of_the_page_and_of_commands_in_one_place(
    wide: Page, tmp_path: Path, accessible: Callable[[Page], None], picture: Callable[[str], str]
) -> None:
    write_results(tmp_path / "matrix")
    with visited(wide, application(tmp_path)) as url:
        launch(wide, url, "geo_loss", "bbr", loss="0, 1", seeds="1")
        wait_for_end(wide, 4)
        wide.goto(url + "page/results")
        expect(wide.locator("tbody tr")).to_have_count(2)  # the launch, and matrix
        wide.get_by_role("link", name="Results", exact=True).last.press("Enter")
        titles = wide.locator("tbody tr th")
        expect(titles).to_have_text([re.compile("Launch 1"), re.compile("results/matrix")])
        wide.get_by_role("link", name="Results", exact=True).last.press("Enter")
        expect(titles).to_have_text([re.compile("results/matrix"), re.compile("Launch 1")])
        wide.locator("summary", has_text="Columns").click()
        wide.get_by_label("loss", exact=True).check()
        wide.get_by_role("button", name="Find").click()
        expect(wide.locator("thead")).to_contain_text("loss")
        expect(wide.locator("tbody tr").first).to_contain_text("0, 0.1, 1")
        accessible(wide)
        fits(wide)
        width = wide.viewport_size["width"]  # type: ignore[index]
        wide.screenshot(path=picture(f"serve-results-{width}"), full_page=True)
        wide.get_by_label("Words, or values").fill("pep=A matrix")
        wide.keyboard.press("Enter")
        expect(wide.locator("tbody tr")).to_have_count(1)
        wide.get_by_role("link", name="results/matrix").click()
        wide.locator("summary", has_text="Name, note, tags").click()
        wide.get_by_label("Name", exact=True).fill("For the paper")
        wide.get_by_label("Tags").fill("paper, 2026")
        wide.get_by_role("button", name="Keep").click()
        expect(wide.get_by_role("heading", name="For the paper")).to_be_visible()
        wide.goto(url + "page/results?tag=paper")
        expect(wide.get_by_role("link", name="For the paper")).to_be_visible()
        wide.get_by_role("link", name="For the paper").click()
        wide.locator("summary", has_text="Name, note, tags").click()
        wide.get_by_role("button", name="Delete").click()
        expect(wide.get_by_text("1 found")).to_be_visible()
        assert not (tmp_path / "matrix").exists()
        wide.get_by_role("button", name="Undo").click()
        expect(wide.get_by_role("heading", name="For the paper")).to_be_visible()
        assert (tmp_path / "matrix").exists()


def test_a_heat_map_with_failures_and_the_way_to_a_run(
    wide: Page, quick: str, accessible: Callable[[Page], None], picture: Callable[[str], str]
) -> None:
    name = wide.viewport_size["width"]  # type: ignore[index]
    launch(wide, quick, "geo_loss", "wireguard", loss="0, 1, 13", seeds="3")
    wait_for_end(wide, 18)
    expect(wide.locator(".heat td")).to_have_count(6)
    expect(wide.locator(".heat td.h0").first).to_have_text(re.compile(r"^\s*10\s*$"))
    expect(wide.locator(".heat td.bad").first).to_contain_text("file_transfer")
    expect(wide.get_by_label("Measure").locator("option")).to_have_text(
        ["received (bytes)", "goodput (Mbit/s)", "transfer time (s)"]
    )
    expect(wide.get_by_text("6 runs that have failed")).to_be_visible()
    expect(wide.locator(".scale li")).to_have_count(10)
    shades = wide.locator(".scale").inner_text()
    wide.locator("select[name='only.vpn']").select_option("wireguard")
    wide.locator("select[name='only.loss']").select_option("0")
    wide.get_by_role("button", name="Show").click()
    expect(wide.locator(".heat td")).to_have_count(1)
    assert wide.locator(".scale").inner_text() == shades, "whatever is shown of the results"
    wide.go_back()
    wide.locator(".heat td.h0 a").first.focus()
    wide.keyboard.press("ArrowRight")
    expect(wide.locator(".heat td.h9 a").first).to_be_focused()
    accessible(wide)
    fits(wide)
    wide.screenshot(path=picture(f"serve-map-{name}"), full_page=True)
    wide.locator(".heat td.h9 a").first.press("Enter")
    expect(wide.locator("tbody tr")).to_have_count(3)
    accessible(wide)
    wide.locator("tbody a").first.press("Enter")
    expect(wide.locator(".uplot")).to_have_count(2)
    expect(wide.locator("figcaption").first).to_contain_text("goodput (Mbit/s)")
    expect(wide.locator("svg.route")).to_have_attribute(
        "aria-label", re.compile("pc, box, st, sat, gw, pop, server")
    )
    expect(wide.locator(".jobs")).to_contain_text("satcom_link")
    accessible(wide)
    fits(wide)
    wide.screenshot(path=picture(f"serve-run-{name}"), full_page=True)
    wide.get_by_role("link", name="download", exact=True).click()
    expect(wide.get_by_role("heading", name="download")).to_be_visible()
    accessible(wide)


def test_curves_are_zoomed_read_and_hidden_with_keys_and_the_address_keeps_it(
    page: Page, quick: str
) -> None:
    launch(page, quick, "geo_loss", loss="2", seeds="1")
    wait_for_end(page, 1)
    page.locator(".heat a").first.click()
    page.locator("tbody a").first.click()
    expect(page.locator("#range")).to_contain_text("0.00 to")
    whole = page.locator("#range").inner_text()
    page.get_by_role("button", name="Zoom in").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#range")).not_to_have_text(whole)
    page.get_by_role("button", name="All times").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#range")).to_have_text(whole)
    page.locator(".plot").first.focus()
    page.keyboard.press("PageDown")
    expect(page.locator(".legend .value").first).to_contain_text("8")
    page.get_by_role("button", name="Zoom in").click()
    page.locator(".legend input").first.focus()
    page.keyboard.press("Space")
    page.wait_for_url(re.compile(r"from=.*hide="))
    zoomed = page.locator("#range").inner_text()
    page.reload()
    expect(page.locator("#range")).to_have_text(zoomed)
    expect(page.locator(".legend input").first).not_to_be_checked()
    for kind, begins in {
        "svg": b"<?xml",
        "png": b"\x89PNG",
        "csv": b"curve,of,time_s,value",
    }.items():
        address = page.locator(f"a[data-export={kind}]").get_attribute("href") or ""
        answer = page.request.get(quick + address.lstrip("/"))
        assert answer.body().startswith(begins)


def test_comparing_cells_warns_and_gives_paired_ratios(
    wide: Page, quick: str, accessible: Callable[[Page], None], picture: Callable[[str], str]
) -> None:
    launch(wide, quick, "geo_loss", "wireguard", loss="0", size="3M, 30M", seeds="3")
    wait_for_end(wide, 12)
    for box in wide.locator(".pick").all():
        box.press("Space")
    wide.get_by_role("link", name="Compare (4)").press("Enter")
    expect(wide.locator(".warning")).to_contain_text("size differs (3M, 30M)")
    expect(wide.locator("mark").first).to_be_visible()
    expect(wide.locator("table", has_text="transfer time").last).to_contain_text(
        "× 1.000 3 paired seeds"
    )
    expect(wide.locator("figure").first.locator(".legend label")).to_have_count(4)
    expect(wide.get_by_label("Times of the curves").locator(":checked")).to_have_text(
        "since the first byte"
    )
    accessible(wide)
    fits(wide)
    wide.screenshot(path=picture(f"serve-compare-{wide.viewport_size['width']}"), full_page=True)  # type: ignore[index]
    wide.get_by_role("link", name="leave out").first.click()
    expect(wide.locator("figure").first.locator(".legend label")).to_have_count(3)
    wide.locator(".legend input").first.press("Space")
    wide.get_by_label("Keep this comparison as").fill("Three of the paper")
    wide.keyboard.press("Enter")
    expect(wide.get_by_role("heading", name="Three of the paper")).to_be_visible()
    address = wide.locator("main > p.hint a").first.inner_text()
    wide.goto(quick + "page/compare")
    expect(wide.locator("figure")).to_have_count(0)
    wide.goto(quick + address.lstrip("/"))
    expect(wide.locator("figure").first.locator(".legend label")).to_have_count(3)
    expect(wide.locator(".legend input").first).not_to_be_checked()
    accessible(wide)
    wide.get_by_role("button", name="Remove Three of the paper").press("Enter")
    expect(wide.get_by_text("Saved comparisons")).to_have_count(0)


def test_cells_are_rows_with_columns_to_choose_and_to_sort(
    wide: Page, quick: str, accessible: Callable[[Page], None]
) -> None:
    launch(wide, quick, "geo_loss", "wireguard", loss="0, 2, 10", seeds="1")
    wait_for_end(wide, 6)
    wide.get_by_role("link", name="Cells as a table").press("Enter")
    expect(wide.locator("thead th")).to_have_text(["Compare", "vpn", "loss", "transfer time (s)"])
    losses = wide.locator("tbody td:nth-child(3)")
    wide.get_by_role("link", name="loss", exact=True).press("Enter")
    expect(losses).to_have_text(["0", "0", "2", "2", "10", "10"])
    wide.get_by_role("link", name="loss", exact=True).press("Enter")
    expect(losses.first).to_have_text("10")
    expect(wide.locator("th[aria-sort=descending]")).to_contain_text("loss")
    wide.locator("summary", has_text="Columns").press("Enter")
    wide.get_by_label("vpn", exact=True).press("Space")
    wide.get_by_label("goodput (Mbit/s)").press("Space")
    wide.get_by_role("button", name="Show").press("Enter")
    expect(wide.locator("thead th")).to_have_text(
        ["Compare", "loss", "goodput (Mbit/s)", "transfer time (s)"]
    )
    accessible(wide)
    fits(wide)
    for box in wide.locator(".pick").all()[:2]:
        box.press("Space")
    wide.get_by_role("link", name="Compare (2)").press("Enter")
    expect(wide.locator("#ratios")).to_be_visible()
    wide.wait_for_load_state("networkidle")  # the curves


# The report


def test_a_report_of_what_a_command_has_run(page: Page, tmp_path: Path) -> None:
    """Its charts are drawn, although a report may do nothing but what its own script does."""
    narrow = {"vpn": ("none", "wireguard"), "pep": ("none",), "cc": ("cubic", "bbr2")}
    write_results(tmp_path / "matrix", 2, **narrow)
    with visited(page, application(tmp_path)) as url:
        page.goto(url + "page/set/folder/matrix")
        with page.expect_popup(timeout=VISIT_LIMIT_S * 1000) as opened:
            page.get_by_role("button", name="Report").click()
        page = opened.value
        page.emulate_media(color_scheme="dark")
        expect(page.get_by_role("heading", level=1)).to_contain_text(
            "2 seeds, too few to compare", timeout=VISIT_LIMIT_S * 1000
        )
        figure = page.locator("figure.has-chart").first
        figure.scroll_into_view_if_needed()
        expect(figure.locator("canvas").first).to_be_visible()
        expect(page.get_by_text("./openbach-run campaigns/matrix.yml --seeds 2")).to_be_visible()
    assert (tmp_path / "matrix/all-runs/report/report.pdf").exists()


@pytest.mark.parametrize("width_px", [1400, 390])
def test_page_one_of_the_report_is_above_the_table_of_a_finished_set(
    page: Page,
    tmp_path: Path,
    width_px: int,
    accessible: Callable[[Page], None],
    picture: Callable[[str], str],
) -> None:
    """A figure, sentences and the table of what to use, without a click."""
    narrow = {"vpn": ("none", "wireguard"), "pep": ("none",), "cc": ("cubic", "bbr2")}
    results = write_results(tmp_path / "matrix", 5, **narrow)
    page.set_viewport_size({"width": width_px, "height": 900})
    with visited(page, application(tmp_path)) as url:
        page.goto(url + "page/set/folder/matrix")
        first = page.locator("#first-page")
        expect(first.locator("figure img")).to_be_visible(timeout=VISIT_LIMIT_S * 1000)
        expect(first.locator("ol")).to_contain_text("decides:")
        expect(first.get_by_role("cell", name="hosts and VPN")).to_be_visible()
        assert first.bounding_box()["y"] < page.locator("#heat-title").bounding_box()["y"]  # type: ignore[index]
        assert page.evaluate("document.documentElement.scrollWidth") <= width_px
        accessible(page)
        page.screenshot(path=picture(f"serve-first-page-{width_px}"))
        made = (results / "all-runs/first-page/page-1.html").stat().st_mtime_ns
        page.reload()
        expect(first.locator("figure img")).to_be_visible(timeout=VISIT_LIMIT_S * 1000)
        assert (results / "all-runs/first-page/page-1.html").stat().st_mtime_ns == made, "once"


# Live


class PacedEngine(FakeEngine):
    """Runs as many as there are permits."""

    def __init__(self, permits: threading.Semaphore) -> None:
        super().__init__()
        self.permits = permits

    def run(self, *given: Any) -> Outcome:
        while not self.permits.acquire(timeout=0.1):
            if self.stopping.is_set():
                return Outcome("Guest Lost", 0.0, 0.1, "", "the guest was ended")
        return super().run(*given)


TOLD = """
window.told = [];
window.Notification = class {
  static requestPermission() { return Promise.resolve("granted"); }
  constructor(title, options) { window.told.push(`${title}: ${options.body}`); }
};
"""


def test_a_campaign_of_500_runs_fills_its_map_and_is_stopped_and_resumed(
    page: Page, tmp_path: Path, picture: Callable[[str], str]
) -> None:
    permits = threading.Semaphore(0)
    page.add_init_script(TOLD)
    page.set_viewport_size({"width": 1400, "height": 900})
    with visited(page, application(tmp_path, lambda: PacedEngine(permits))) as url:
        loss = ", ".join(f"{number / 10:g}" for number in range(50))
        launch(page, url, "geo_loss", "bbr", loss=loss, seeds="5")
        expect(page.locator("#status")).to_contain_text(
            "0 of 500 runs done", timeout=VISIT_LIMIT_S * 1000
        )
        assert page.locator(".heat td").count() == 100
        permits.release(150)
        expect(page.locator("#status")).to_contain_text(
            "150 of 500 runs done", timeout=VISIT_LIMIT_S * 1000
        )
        expect(page).to_have_title(re.compile("^150/500"))
        expect(page.locator(".heat td", has_text="1 of 5 seeds")).to_have_count(50)
        expect(page.locator(".heat td", has_text="2 of 5 seeds")).to_have_count(50)
        page.screenshot(path=picture("serve-live-500"))
        page.get_by_role("button", name="Stop what has not ended").click()
        expect(page.locator("#status")).to_contain_text(
            "150 of 500 runs done, 350 stopped", timeout=VISIT_LIMIT_S * 1000
        )
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#status")).to_have_text(
            re.compile("150 of 500 runs done(, . running)?$"), timeout=VISIT_LIMIT_S * 1000
        )
        expect(page.locator("#to-go")).to_have_text(re.compile(r"about \d+ s to go"))
        page.get_by_role("button", name="Tell me when it is done").click()
        expect(page.get_by_text("You will be told")).to_be_visible()
        permits.release(350)
        wait_for_end(page, 500)
        expect(page.locator(".heat td", has_text="of 5 seeds")).to_have_count(0)
        measured = page.locator(".heat td a").filter(has_text=re.compile(r"^\s*\d"))
        expect(measured).to_have_count(100)
        expect(page.locator("#status")).to_have_text("500 of 500 runs done")
        assert page.evaluate("told") == ["Launch 1: geo_loss by cc, loss: 500 of 500 runs done"]
        # A server that ends while it makes page 1 could only answer with an error.
        expect(page.locator("#first-page figure")).to_be_visible(timeout=VISIT_LIMIT_S * 1000)


def test_a_launch_while_it_runs_is_stopped_and_resumed(
    wide: Page, tmp_path: Path, accessible: Callable[[Page], None], picture: Callable[[str], str]
) -> None:
    page = wide
    gate = threading.Event()
    page.context.grant_permissions(["notifications"])
    with visited(page, application(tmp_path, lambda: FakeEngine(gate=gate), workers=1)) as url:
        launch(page, url, "geo_loss", loss="0, 1", seeds="1")
        expect(page.locator("#status")).to_contain_text("0 of 2 runs done, 1 running")
        accessible(page)
        fits(page)
        page.get_by_role("button", name="Stop what has not ended").press("Enter")
        expect(page.locator("#status")).to_have_text("0 of 2 runs done, 2 stopped")
        expect(page.locator(".heat td a")).to_have_text(["stopped", "stopped"])
        expect(page.locator("#live")).not_to_contain_text("failed")
        expect(page.get_by_role("button", name="Stop what has not ended")).to_be_hidden()
        gate.clear()
        page.get_by_role("button", name="Resume").press("Enter")
        expect(page.locator("#status")).to_contain_text("1 running")
        page.get_by_role("button", name="Tell me when it is done").press("Enter")
        expect(page.get_by_text("You will be told")).to_be_visible()
        expect(page.locator("#log")).to_contain_text("running: geo_loss loss=0, seed 1")
        (folder,) = (tmp_path / "geo_loss/runs").glob("*.unfinished")
        other = page.context.new_page()
        other.goto(f"{url}page/run/geo_loss/{folder.name.removesuffix('.unfinished')}")
        expect(other.get_by_text("It is running.")).to_be_visible()
        expect(other.locator(".jobs")).to_contain_text("satcom_link")
        expect(other.locator("#log")).to_contain_text("job_started")
        gate.set()
        wait_for_end(page, 2)
        expect(page).to_have_title(re.compile("^Done"))
        expect(page.locator(".heat td.number a")).to_have_text(["10", "20"])
        expect(page.locator("#log")).to_contain_text("Finished Ok: geo_loss loss=1, seed 1, ")
        expect(other.locator("figcaption").first).to_contain_text("goodput (Mbit/s)")
        name = page.viewport_size["width"]  # type: ignore[index]
        page.screenshot(path=picture(f"serve-live-{name}"), full_page=True)
        expect(page.locator("#first-page figure")).to_be_visible()  # else the server ends meanwhile


def test_a_page_that_is_not_there_is_a_page(
    page: Page, quick: str, accessible: Callable[[Page], None]
) -> None:
    page = page.context.new_page()  # its console calls a 404 an error
    for path in ("nothing", "page/set/launch/99", "page/run/geo/0000", "page/scenario/satvpn/none"):
        page.goto(quick + path)
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    accessible(page)


def test_import_a_scenario(page: Page, quick: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(
        json.dumps({"name": "mine", "description": "of my own", "openbach_functions": []})
    )
    page.goto(quick)
    page.get_by_label("Scenario file").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("heading", name="mine")).to_be_visible()
    expect(page.locator("#count")).to_contain_text("1 cell, 5 runs")
    page.get_by_role("button", name="Launch", exact=True).click()
    wait_for_end(page, 5)


def test_log_in(page: Page, tmp_path: Path) -> None:
    with listening(application(tmp_path, password=PASSWORD)) as url:
        page.goto(url)
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Scenarios", exact=True)).to_be_visible()
