# SPDX-License-Identifier: GPL-3.0-or-later
"""README.md of an artifact: what a stranger needs to judge its results, from start to end.

Its text is reports/templates/artifact.md.j2, that of a plain one plain_artifact.md.j2.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openbach_run.bundle.artifact import Chosen, Claimed, Facts, ListedCell
from openbach_run.campaign.forecast import duration
from openbach_run.paths import REPOSITORY
from openbach_run.report.cells import printable
from openbach_run.results.intervals import Estimate, figure

COLUMNS = 96
QUICK_MIN = 10
"""Minutes in which a stranger has to see that it works."""


def readme(facts: Facts, quick: Sequence[Chosen], about: Mapping[str, Any]) -> str:
    """Return the text of README.md: `quick` are the runs of the first minutes.

    `about` has facts on the artifact besides its results, under the names of the template.
    """
    return _set(
        "artifact.md.j2",
        facts=facts,
        runs=sum(len(cell.seeds) for cell in facts.results),
        total_s=sum(sum(cell.wall_s) for cell in facts.results),
        first=min(facts.results, key=lambda cell: sum(cell.wall_s)),
        minutes=QUICK_MIN,
        quick=sum(len(choice.seeds) for choice in quick),
        quick_s=sum(choice.wall_s for choice in quick),
        **about,
    )


def plain_readme(commands: Sequence[str]) -> str:
    """Return the text of README.md without claims and figures."""
    return _set("plain_artifact.md.j2", commands=commands)


def _set(template: str, **values: Any) -> str:
    # Late, as it imports typst: --help and bad input do without.
    from openbach_run.report.document import templates

    environment = templates(REPOSITORY / "reports/templates")
    filters: dict[str, Callable[[Any], Any]] = {
        "cell": _cell,
        "claim_cells": _claim_cells,
        "plain": _plain,
        "printable": printable,
        "time": _time,
        "value": _value,
        "wrapped": _wrapped,
    }
    environment.filters |= filters
    return environment.get_template(template).render(**values).rstrip() + "\n"


def _claim_cells(claim: Claimed) -> list[str]:
    values = [value for _, value in claim.comparisons if value is not None]
    ends = dict.fromkeys(f"{value:.4g}" for value in (min(values), max(values))) if values else {}
    number = f" ({len(values)} comparisons)" if len(values) > 1 else ""
    return [
        f"**{claim.name}** {claim.statement} {claim.says}",
        f"`./openbach artifact --verify . --only '{claim.name.partition(' ')[0]}'`",
        f"{claim.verdict}: {claim.kind} {' to '.join(ends) or 'not measured'}{number}",
        claim.bounds,
        "none: equal in all digits",
    ]


def _value(cell: ListedCell) -> str:
    """Return a cell's value as a table has it."""
    failed = f"{cell.failed} of {len(cell.seeds)} runs fail" if cell.failed else ""
    if cell.median is None:
        whole = f"a table of {cell.parts} values" if cell.parts else "no measure: the packets"
        return failed or whole
    interval = Estimate(cell.median, cell.low, cell.high, len(cell.seeds))
    value = f"{cell.title} {figure(interval)} {cell.unit}".strip()
    return ", ".join(filter(None, [value, failed]))


def _wrapped(paragraph: str) -> str:
    """Return the lines of a paragraph, and an empty one."""
    lines = textwrap.wrap(paragraph, COLUMNS, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*lines, "", ""])


def _time(seconds: float) -> str:
    return duration(max(seconds, 1))


def _plain(text: str) -> str:
    """Return a text that is one line and no Markdown."""
    return printable(text).replace("<", "&lt;")


def _cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return _plain(text).replace("|", "\\|")
