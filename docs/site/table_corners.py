# SPDX-License-Identifier: GPL-3.0-or-later
"""A hook of mkdocs: the empty corner of a table is no heading.

A screen reader would say a heading without words (axe: empty-table-header), and Markdown makes each
cell of the first row one.
"""

from __future__ import annotations

import re
from typing import Any

EMPTY_HEAD = re.compile(r"<th([^>]*)></th>")


def on_page_content(html: str, **_: Any) -> str:
    """Return a page's HTML with ordinary cells in place of empty headings."""
    return EMPTY_HEAD.sub(r"<td\1></td>", html)
