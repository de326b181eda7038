# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts with placeholders (`$name`), before they have values."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from openbach_run.openbach.values import placeholders


def names_in(text: str) -> set[str]:
    """Return the placeholders of a text; none if it is refused whatever their values are."""
    if "$" not in text:
        return set()
    try:
        return set(placeholders(text))
    except ValueError:
        return set()


def composed(template: str, values: Mapping[str, str]) -> str | None:
    """Return a template with others in place of its placeholders; None if one is not given."""
    try:
        if any(name not in values for name in placeholders(template)):
            return None
    except ValueError:
        return None
    # Template.substitute would turn `$$` into `$`, which the next substitution takes for a
    # placeholder.
    return Template.pattern.sub(
        lambda match: (
            values[match["named"] or match["braced"]] if match["escaped"] is None else "$$"
        ),
        template,
    )
