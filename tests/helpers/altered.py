# SPDX-License-Identifier: GPL-3.0-or-later
"""Contents of files with one thing changed, for tests of what is told of it."""

from __future__ import annotations

import copy
from typing import Any


def changed(content: Any, path: str, value: Any) -> Any:
    """The content with another value at a place (`parts.0.cell`); without the place for `...`."""
    made = copy.deepcopy(content)
    *outer, last = [int(one) if one.isdigit() else one for one in path.split(".")]
    at = made
    for key in outer:
        at = at[key]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return made
