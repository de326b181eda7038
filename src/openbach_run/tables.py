# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables for people: as text for a terminal, Markdown, LaTeX (booktabs) and HTML, and the table of a campaign."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openbach_run.campaign import Campaign
from openbach_run.intervals import Estimate, estimate
from openbach_run.record import Record
from openbach_run.results import least_transfer_time_s

LATEX = str.maketrans({
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "–": "--", "−": "$-$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$",
})  # fmt: skip
UNITS = {"s": "s", "ms": "ms", "pct": "%", "mbps": "Mbit/s"}
"""As the last part of a column's name says it, and as it is written."""
LATEX_LINE = 45
"""Letters in one line of a column."""


@dataclass(frozen=True)
class Table:
    """Texts in rows and columns; the first `labels` columns name a row and are set left, the others hold its figures."""

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str
    labels: int


def figure(found: Estimate | None, digits: int = 2) -> str:
    """`28.50 [28.41–28.77]`: median and interval; a single seed has none."""
    if found is None:
        return "–"
    if found.low is None or found.high is None:
        return f"{found.median:.{digits}f}"
    return f"{found.median:.{digits}f} [{found.low:.{digits}f}–{found.high:.{digits}f}]"


def campaign_table(campaign: Campaign, records: Sequence[Record]) -> Table:
    """A campaign's main measure, from those of its records that are there: a row per combination of the swept
    arguments but the last, which makes the columns. A scenario without arguments has one column, `run`. Its title names
    the values that are neither swept nor the scenario's defaults."""
    by_cell: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        if record.scenario == campaign.scenario.name:
            by_cell.setdefault(tuple(record.arguments[name] for name in campaign.values), []).append(record)
    swept = campaign.swept or list(campaign.values)[:1]
    down, across = swept[:-1], swept[-1:]
    columns = list(dict.fromkeys(_values(cell, across) for cell in campaign.cells))
    rows: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
    for cell in campaign.cells:
        shown = _cell(by_cell.get(tuple(cell.values()), []), campaign.measure)
        rows.setdefault(_values(cell, down), {})[_values(cell, across)] = shown
    defaults = {**campaign.scenario.sweep.get("defaults", {}), **campaign.constants}
    fixed = ", ".join(
        f"{name}={values[0]}"
        for name, values in campaign.values.items()
        if name not in swept and values[0] != defaults.get(name)
    )
    return Table(
        f"{campaign.scenario.name}: {said(campaign.measure)}" + (f" with {fixed}" if fixed else ""),
        [*down, *("=".join((*across, *values)) or "run" for values in columns)],
        [[*key, *(cells.get(values, "") for values in columns)] for key, cells in rows.items()],
        _note(campaign),
        len(down),
    )


def _values(cell: Mapping[str, str], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(cell[name] for name in names)


def said(measure: str) -> str:
    """`page load time (s)` for `page_load_time_s`."""
    words = measure.split("_")
    unit = UNITS.get(words[-1], "")
    return " ".join(words[:-1]) + f" ({unit})" if unit else " ".join(words)


def _cell(done: Sequence[Record], measure: str) -> str:
    """Median over the seeds and its interval; how many failed, if any did."""
    values = [value for record in done if record.finished and (value := record.measures.get(measure)) is not None]
    failed = sum(not record.finished for record in done)
    if not values:
        return "failed" if failed else ("done" if done else "–")
    return figure(estimate(values)) + (f" ({failed} failed)" if failed else "")


def _note(campaign: Campaign) -> str:
    least = {(cell.get("size"), cell.get("rate")): least_transfer_time_s(cell) for cell in campaign.cells}
    parts = [
        f"at least {time_s:.2f} s for a size of {size} at a rate of {rate} (Ethernet, IP and TCP headers; no slow start)"
        for (size, rate), time_s in least.items()
        if time_s and campaign.measure == "transfer_time_s"
    ]
    if set(campaign.values.get("pep", ())) - {"none"}:
        parts.append(
            "PEP A: inside the tunnel's path, B: outside it, where TCP is in clear (our reading: docs/guide.md)"
        )
    seeds = (
        f"median [95 % bootstrap interval] over {len(campaign.seeds)} seeds"
        if len(campaign.seeds) > 1
        else f"seed {campaign.seeds[0]}"
    )
    return "; ".join([seeds, *parts])


def as_text(shown: Table) -> str:
    """Plain columns, for a terminal or a pipe."""
    widths = [max(len(line[i]) for line in (shown.header, *shown.rows)) for i in range(len(shown.header))]

    def text(line: list[str]) -> str:
        cells = [
            cell.ljust(width) if i < shown.labels else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "  ".join("─" * width for width in widths)
    return "\n".join([shown.title, "", text(shown.header), rule, *map(text, shown.rows), "", shown.note]) + "\n"


def as_markdown(shown: Table) -> str:
    return f"**{shown.title}**\n\n{markdown_rows(shown)}\n\n{shown.note}\n"


def markdown_rows(shown: Table) -> str:
    """The table without its title and note."""
    rules = ["---" if i < shown.labels else "---:" for i in range(len(shown.header))]
    lines = [shown.header, rules, *shown.rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def as_latex(shown: Table) -> str:
    """A floating table for a paper; needs \\usepackage{booktabs}. Columns of long texts break their lines."""
    rows = [" & ".join(cell.translate(LATEX) for cell in line) + r" \\" for line in (shown.header, *shown.rows)]
    longest = [max(len(line[i]) for line in (shown.header, *shown.rows)) for i in range(len(shown.header))]
    columns = [
        r"p{0.3\linewidth}" if length > LATEX_LINE else "l" if i < shown.labels else "r"
        for i, length in enumerate(longest)
    ]
    return "\n".join([
        r"\begin{table}", r"\centering", rf"\caption{{{shown.title.translate(LATEX)}}}", r"\smallskip",
        rf"\begin{{tabular}}{{{''.join(columns)}}}",
        r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule", r"\end{tabular}",
        rf"\par\smallskip\footnotesize {shown.note.translate(LATEX)}", r"\end{table}", "",
    ])  # fmt: skip


def as_html(shown: Table) -> str:
    """A table element to paste into a page."""

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(line("td", row) for row in shown.rows)
    title, note = html.escape(shown.title), html.escape(shown.note)
    return (
        f"<table>\n<caption>{title}</caption>\n<thead>{line('th', shown.header)}</thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>\n<p>{note}</p>\n"
    )
