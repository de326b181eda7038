# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages in Debian's Chromium, driven by Playwright; every test fails on what the page's console calls an error."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from openbach_run.engine.debian import run

REPOSITORY = Path(__file__).resolve().parents[2]
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def ensure_chromium() -> str:
    """The browser's path; installs Debian's package when root."""
    if shutil.which("chromium") is None:
        if os.geteuid() != 0:
            pytest.fail("the browser is missing: sudo apt-get install chromium")
        print("installing chromium", flush=True)
        run(["apt-get", "update", "-qq"], "apt-get update")
        run(["apt-get", "install", "-y", "-qq", "chromium"], "installing chromium", DEBIAN_FRONTEND="noninteractive")
    found = shutil.which("chromium")
    assert found, "the package chromium has no command chromium"
    return found


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
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=ensure_chromium(), args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page; after the test its console must have shown no error."""
    opened = browser.new_page()
    errors: list[str] = []
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("requestfailed", lambda request: errors.append(f"{request.url}: {request.failure}"))
    yield opened
    opened.close()
    assert errors == []
