# SPDX-License-Identifier: GPL-3.0-or-later
"""Make README's picture of the page from a real launch.

tools/dev tools/page_picture.py docs/pictures/page.png
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile

from playwright.sync_api import expect, sync_playwright

FORM = "page/scenario/satvpn/geo_loss?values.vpn=none,wireguard&values.loss=0,1&values.size=3M"


def main() -> None:
    """Launch GEO downloads, wait for page 1 of the report above them, and take its picture."""
    serve = [sys.executable, "-m", "openbach_run", "serve", "--port", "0"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, cwd=folder)
        try:
            assert server.stdout
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
            page = browser.new_page(viewport={"width": 1000, "height": 640})
            page.goto(server.stdout.readline().split()[0])
            page.goto(page.url + FORM)
            page.get_by_label("bbr2", exact=True).first.check()
            page.get_by_role("button", name="Launch", exact=True).click()
            expect(page.locator("#first-page figure")).to_be_visible(timeout=3_600_000)
            page.screenshot(path=sys.argv[1])
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
