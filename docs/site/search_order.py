# SPDX-License-Identifier: GPL-3.0-or-later
"""A hook of mkdocs: pages of docs/ for users come first in the search."""

from __future__ import annotations

from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Weigh a page for the search by its place."""
    path = page.file.src_uri
    others = ("docs/developers/", "docs/C")  # CONTRIBUTING.md, CHANGELOG.md
    reader = path.startswith(("README", "docs/")) and not path.startswith(others)
    page.meta["search"] = {"boost": 4 if reader else 1}
    return markdown
