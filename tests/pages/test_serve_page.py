# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of `openbach-run serve` in a browser: a first visit with the real engine, the rest with one that is made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_engine import DirectedEngine
from fastapi import FastAPI
from playwright.sync_api import Page, expect
from web import ROOT, application, entrance, listening

VISIT_LIMIT_S = 60
PASSWORD = "a password for a test"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The URL of the real command."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "openbach_run", "serve", "--port", "0", "--results", str(tmp_path / "results")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as server:
        assert server.stdout
        url = server.stdout.readline().split()[0]
        yield url
        server.terminate()
        assert server.wait(15) == 0, "the command ends when it is told to"


@contextmanager
def visited(page: Page, app: FastAPI) -> Iterator[str]:
    """The URL of an application that the page has entered with the token."""
    with listening(app) as url:
        page.goto(entrance(app, url))
        assert page.url == url, "the token has left the address"
        yield url


@pytest.fixture
def quick(page: Page, tmp_path: Path) -> Iterator[str]:
    with visited(page, application(tmp_path)) as url:
        yield url


def wait_for_end(page: Page, runs: int) -> None:
    expect(page.locator("#status")).to_contain_text(f"{runs} of {runs} runs done", timeout=VISIT_LIMIT_S * 1000)
    expect(page.locator("#main")).to_have_attribute("aria-busy", "false")


def launch(page: Page, url: str, scenario: str, *ticked: str, **texts: str) -> None:
    page.goto(url)
    page.get_by_role("link", name=scenario, exact=True).click()
    expect(page.locator("#count")).to_contain_text("cell")
    for name in ticked:
        page.get_by_label(name, exact=True).first.check()
    for name, text in texts.items():
        page.get_by_role("textbox", name=name, exact=True).fill(text)
    page.get_by_role("button", name="Launch", exact=True).click()


def test_first_visit(served: str, page: Page, picture: Callable[[str], str]) -> None:
    """From opening the page to a table of four cells and its plot."""
    page.set_viewport_size({"width": 1100, "height": 900})
    begun_s = time.monotonic()
    page.goto(served)
    page.screenshot(path=picture("serve-1-scenarios"), full_page=True)
    page.get_by_role("link", name="geo_loss", exact=True).click()
    page.get_by_label("wireguard", exact=True).check()
    page.get_by_role("group", name="cc", exact=True).get_by_label("bbr", exact=True).check()
    expect(page.locator("#count")).to_have_text("4 cells, 4 runs")
    page.screenshot(path=picture("serve-2-scenario"), full_page=True)
    page.get_by_role("button", name="Launch", exact=True).click()
    wait_for_end(page, 4)
    cells = page.locator("#table td")
    expect(cells).to_have_count(4)
    took_s = time.monotonic() - begun_s
    page.screenshot(path=picture("serve-3-launch"), full_page=True)
    times_s = [float(text) for text in cells.all_inner_texts()]
    assert all(25.09 < time_s < 60 for time_s in times_s), times_s
    expect(page.locator("#bars rect[height='14']")).to_have_count(4)
    assert took_s < VISIT_LIMIT_S
    page.get_by_role("button", name="Report").click(timeout=VISIT_LIMIT_S * 1000)
    page.wait_for_url("**/report/report.html", timeout=VISIT_LIMIT_S * 1000)
    page.screenshot(path=picture("serve-7-report"))
    expect(page.locator("body")).to_contain_text("wireguard")
    print(f"from opening to the table: {took_s:.1f} s")


def test_series_and_jobs_of_a_run_that_goes_on(page: Page, tmp_path: Path, picture: Callable[[str], str]) -> None:
    gate = threading.Event()
    with visited(page, application(tmp_path, lambda: DirectedEngine(gate), workers=1)) as url:
        launch(page, url, "geo_loss", loss="0, 1")
        expect(page.locator("#status")).to_contain_text("0 of 2 runs done")
        expect(page.locator("#jobs svg")).to_contain_text("satcom_link on satvpn_sat")
        expect(page.locator("#runs")).to_contain_text("Scheduling")
        gate.set()
        wait_for_end(page, 2)
        expect(page.locator("#series figure").nth(0)).to_contain_text("goodput (Mbit/s)")
        expect(page.locator("#series figure").nth(1)).to_contain_text("rtt (ms)")
        page.screenshot(path=picture("serve-4-series"), full_page=True)


def test_stop(page: Page, tmp_path: Path) -> None:
    with visited(page, application(tmp_path, lambda: DirectedEngine(threading.Event()), workers=1)) as url:
        launch(page, url, "geo_loss", loss="0, 1")
        expect(page.locator("#runs")).to_contain_text("Running")
        page.get_by_role("button", name="Stop what has not ended").click()
        expect(page.locator("#status")).to_contain_text("2 of 2 runs done, 2 not finished well")
        expect(page.get_by_role("button", name="Stop what has not ended")).to_be_hidden()


def test_failed_runs_say_why(page: Page, quick: str) -> None:
    launch(page, quick, "geo_loss", loss="13")
    expect(page.locator("#runs .failed")).to_contain_text("file_transfer")


def test_compare_launches(page: Page, quick: str, picture: Callable[[str], str]) -> None:
    for loss in ("0, 1", "2, 3"):
        launch(page, quick, "geo_loss", "bbr", loss=loss)
        wait_for_end(page, 4)
    page.goto(quick)
    for number in (1, 2):
        page.get_by_label(f"Compare launch {number}").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("table.times")).to_have_count(2)
    expect(page.locator("#bars rect[height='14']")).to_have_count(8)
    page.screenshot(path=picture("serve-5-compare"), full_page=True)


def test_whole_table_and_bad_values(page: Page, quick: str) -> None:
    page = page.context.new_page()  # its console calls the refused form an error
    page.goto(quick + "page/scenario/satvpn/geo_loss")
    page.get_by_role("button", name="Take the file's whole table").click()
    expect(page.locator("#count")).to_contain_text("36 cells")
    page.get_by_role("textbox", name="loss", exact=True).fill("much")
    page.get_by_role("textbox", name="seeds").fill("two")
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("--seeds two")
    expect(page.get_by_role("textbox", name="loss", exact=True)).to_have_value("much")
    assert page.get_by_label("openvpn_tcp", exact=True).is_checked()


def test_import_a_scenario(page: Page, quick: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"name": "mine", "description": "of my own", "openbach_functions": []}))
    page.goto(quick)
    page.get_by_label("Scenario file").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("heading", name="mine")).to_be_visible()
    expect(page.locator("#count")).to_have_text("1 cell, 1 run")
    page.get_by_role("button", name="Launch", exact=True).click()
    wait_for_end(page, 1)


def test_on_a_telephone(page: Page, quick: str, picture: Callable[[str], str]) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    launch(page, quick, "geo_loss", "wireguard", loss="0, 1")
    wait_for_end(page, 4)
    width = page.evaluate("document.documentElement.scrollWidth")
    page.screenshot(path=picture("serve-6-telephone"), full_page=True)
    assert width <= 390


def test_with_the_keyboard_alone(page: Page, quick: str) -> None:
    page.goto(quick + "page/scenario/satvpn/geo_loss")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.get_by_role("group", name="cc", exact=True).get_by_label("bbr", exact=True).focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Launch", exact=True).focus()
    page.keyboard.press("Enter")
    wait_for_end(page, 2)


def test_nothing_ticked_launches_nothing(page: Page, quick: str) -> None:
    page = page.context.new_page()  # its console calls the refused form an error
    page.goto(quick + "page/scenario/satvpn/geo_loss")
    for box in page.get_by_role("group", name="vpn", exact=True).get_by_role("checkbox").all():
        box.uncheck()
    expect(page.locator("#count")).to_have_text("choose a value of vpn")
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("vpn: choose at least one value")
    expect(page.get_by_role("group", name="vpn", exact=True).get_by_role("checkbox", checked=True)).to_have_count(0)


def test_log_in(page: Page, tmp_path: Path) -> None:
    with listening(application(tmp_path, password=PASSWORD)) as url:
        page.goto(url)
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Scenarios")).to_be_visible()
