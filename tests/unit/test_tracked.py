# SPDX-License-Identifier: GPL-3.0-or-later
"""The repository holds what people write, and of what commands make only what people open."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {"templates"}
"""Folders of reports/ that are no campaign's."""
PAGES = {Path("reports/full/report.html"), Path("reports/full/report.pdf")}
PAGE_BYTES = 1_000_000
MOST_FILES, MOST_LINES = 1300, 197_000
BINARY = {".pdf", ".parquet", ".png"}


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


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


def test_a_scenario_is_json_where_people_open_it() -> None:
    """The others are made from their YAML by `openbach-run expand`."""
    made = {
        file.stem
        for file in tracked()
        if file.parent == Path("scenarios") and file.suffix == ".json"
    }
    pages = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
    text = "".join(page.read_text() for page in pages)
    assert "geo_loss" in made
    assert {name for name in made if f"scenarios/{name}.json" in text} == made


def test_nothing_is_tracked_that_a_program_leaves_behind() -> None:
    left = re.compile(
        r"\.(pyc|o|so|ko|tex|log|tar|xz|gz|zip|whl|orig|rej)$|^(results|build|dist|site)/"
    )
    assert not [file for file in tracked() if left.search(str(file))]


def test_the_repository_stays_as_small_as_it_is() -> None:
    """Whoever needs more has something to delete, or raises the number and says why.

    The pages of reports do not count: how long they are follows from their campaigns.
    """
    files = tracked()
    texts = []
    for file in files:
        counts = file.suffix not in BINARY and file.name != "report.html"
        if counts and not (ROOT / file).is_symlink():
            texts.append(file)
    lines = sum((ROOT / file).read_bytes().count(b"\n") for file in texts)
    assert (len(files) < MOST_FILES, lines < MOST_LINES) == (
        True,
        True,
    ), f"{len(files)} files, {lines} lines"
