# SPDX-License-Identifier: GPL-3.0-or-later
"""The repository holds what people write, and of what commands make only what people open."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from size_budget import tracked

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {"templates"}
"""Folders of reports/ that are no campaign's."""
PAGES = {Path("reports/full/report.html"), Path("reports/full/report.pdf")}
PAGE_BYTES = 1_000_000


def test_a_campaigns_report_is_its_results() -> None:
    """All else is made by `openbach-run report`.

    Only the pages of `full`, which README shows, and the pictures on a page are tracked, too.
    """
    pages = "".join(
        page.read_text() for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    )
    for file in tracked():
        if file.parts[0] == "reports" and len(file.parts) > 2 and file.parts[1] not in SOURCES:
            is_shown = file in PAGES or f"({file})" in pages
            assert file.name == "results.parquet" or is_shown, file
    for page in PAGES:
        assert (ROOT / page).stat().st_size <= PAGE_BYTES, page


def test_the_password_of_a_server_in_the_checkout_is_ignored() -> None:
    """`serve` keeps the file, which OpenBACH's scripts read, where it was started."""
    words = ["git", "check-ignore", "controller", ".controller.0123456789abcdef"]
    assert (
        subprocess.run(words, cwd=ROOT, capture_output=True, check=False).stdout.count(b"\n") == 2
    )


def test_a_scenario_is_json_where_people_open_it() -> None:
    """The others are made from their YAML by `openbach-run expand`."""
    made = {
        file.stem
        for file in tracked()
        if file.parent == Path("scenarios") and file.suffix == ".json"
    }
    pages = (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    text = "".join(page.read_text() for page in pages)
    assert "geo_loss" in made
    assert {name for name in made if f"scenarios/{name}.json" in text} == made


def test_nothing_is_tracked_that_a_program_leaves_behind() -> None:
    left = re.compile(
        r"\.(pyc|o|so|ko|tex|log|tar|xz|gz|zip|whl|orig|rej)$|^(results|build|dist|site)/"
    )
    assert not [file for file in tracked() if left.search(str(file))]
