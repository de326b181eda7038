# SPDX-License-Identifier: GPL-3.0-or-later
"""Page 1 of published campaigns, to the letter: `NAMES` → tests/data/page_one/NAME.txt.

A change that means to say something else writes them anew:
`OPENBACH_RUN_EXTRA=dev ./openbach-run python tests/unit/test_page_texts.py`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from openbach_run.paths import REPOSITORY
from openbach_run.report.cells import read_campaigns
from openbach_run.report.write import write_first

TEXTS = REPOSITORY / "tests/data/page_one"
NAMES = ("encrypted_pep", "etosat", "leo", "matrix", "ten_vpns")


def text_of(name: str, folder: Path) -> str:
    """Write page 1 of a published campaign to a folder, and return its text."""
    campaigns = read_campaigns([REPOSITORY / "reports" / name / "results.parquet"])
    write_first(campaigns, folder)
    return (folder / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_page_one_has_the_same_words(name: str, tmp_path: Path) -> None:
    assert text_of(name, tmp_path) == (TEXTS / f"{name}.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    for campaign in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            (TEXTS / f"{campaign}.txt").write_text(text_of(campaign, Path(folder)))
