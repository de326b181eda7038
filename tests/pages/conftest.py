# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages in Debian's Chromium, driven by Playwright.

Every test fails on what the page's console calls an error, and on a request to another machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

from openbach_run.engine.virtual.debian import ensure_tools

REPOSITORY = Path(__file__).resolve().parents[2]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


expect.set_options(timeout=300_000)  # a busy machine


@pytest.fixture
def picture() -> Callable[[str], str]:
    """The path for a picture of that name that a person can look at.

    Results/screenshots/<name>.png.
    """

    def path(name: str) -> str:
        folder = REPOSITORY / "results/screenshots"
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder / f"{name}.png")

    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    ensure_tools({"chromium": "chromium"})
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def accessible() -> Callable[[Page], None]:
    """Fails on what axe finds to keep people out of the page as it is."""

    def check(page: Page) -> None:
        # To look at style sheets axe loads them again, which a page opened from a disk may not.
        found = Axe().run(page, options={"preload": not page.url.startswith("file:")})
        assert found.violations_count == 0, found.generate_report()

    return check


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page; after the test its console must have shown no error."""
    context = browser.new_context()
    opened = context.new_page()
    errors: list[str] = []
    opened.on(
        "console", lambda message: errors.append(message.text) if message.type == "error" else None
    )
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("requestfailed", lambda request: errors.extend(_failure(request)))
    context.on(
        "request",
        lambda request: errors.append(request.url) if _is_elsewhere(request.url) else None,
    )
    yield opened
    context.close()
    assert errors == []


def _failure(request: Request) -> list[str]:
    """Nothing if the page ended it itself.

    By going elsewhere, or because a newer one makes it useless.
    """
    return [] if request.failure == "net::ERR_ABORTED" else [f"{request.url}: {request.failure}"]


def _is_elsewhere(url: str) -> bool:
    return urlsplit(url).hostname not in (None, "127.0.0.1")
