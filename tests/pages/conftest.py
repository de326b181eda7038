# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages in Debian's Chromium, driven by Playwright; every test fails on what the page's console calls an error."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from openbach_run.engine.virtual.debian import ensure_tools

REPOSITORY = Path(__file__).resolve().parents[2]
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture
def picture() -> Callable[[str], str]:
    """The path for a picture of that name that a person can look at: results/screenshots/<name>.png."""

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
def page(browser: Browser) -> Iterator[Page]:
    """An empty page; after the test its console must have shown no error."""
    context = browser.new_context()
    opened = context.new_page()
    errors: list[str] = []
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("requestfailed", lambda request: errors.append(f"{request.url}: {request.failure}"))
    yield opened
    context.close()
    assert errors == []
