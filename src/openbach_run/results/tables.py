# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables for people: as text for a terminal, Markdown, LaTeX (booktabs) and HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from openbach_run.results.intervals import Estimate

LATEX = str.maketrans({
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "–": "--", "−": "$-$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$",
})  # fmt: skip
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


def figure(found: Estimate | None, digits: int = 2, form: str = "f") -> str:
    """`28.50 [28.41–28.77]`: median and interval; a single seed has none. `form` g: `digits` are significant ones."""
    if found is None:
        return "–"
    if found.low is None or found.high is None:
        return f"{found.median:.{digits}{form}}"
    return f"{found.median:.{digits}{form}} [{found.low:.{digits}{form}}–{found.high:.{digits}{form}}]"


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


class Markdown(str):
    """A text that is Markdown already; any other text becomes it by `plain`."""


MARKUP = re.compile(r"[\\`*|#]|(?<![^\W_])_|_(?![^\W_])|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])")
"""Code, emphasis, cells, headings; `_` where it is not within a word; HTML; entities."""
BRACKETS = re.compile(r"(\[[^\[\]]*\])(?![\[(:])|[\[\]]")
"""A pair that makes no link (an interval), and any other bracket."""
BLOCK = re.compile(r"^( ?)(?:(\d+)([.)])(?=\s|$)|([-+](?![.\d])|[=~>]))")
"""What begins a list, a rule, a fence or a quotation, at the beginning of a text."""


def plain(text: str) -> Markdown:
    """Text from elsewhere (an argument's value, a program's error) as Markdown that shows it as it is, on one line."""
    line = "".join(letter for letter in re.sub(r"\s+", " ", text) if letter.isprintable())
    line = MARKUP.sub(r"\\\g<0>", line)
    line = BRACKETS.sub(lambda found: found[1] or f"\\{found[0]}", line)
    return Markdown(BLOCK.sub(lambda found: f"{found[1]}{found[2] or ''}\\{found[3] or found[4]}", line))


def as_markdown(shown: Table) -> str:
    return f"**{plain(shown.title)}**\n\n{markdown_rows(shown)}\n\n{plain(shown.note)}\n"


def markdown_rows(shown: Table) -> Markdown:
    """The table without its title and note."""
    rules = ["---" if i < shown.labels else "---:" for i in range(len(shown.header))]
    lines = [map(plain, shown.header), rules, *(map(plain, row) for row in shown.rows)]
    return Markdown("\n".join(f"| {' | '.join(line)} |" for line in lines))


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
    import html

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(line("td", row) for row in shown.rows)
    title, note = html.escape(shown.title), html.escape(shown.note)
    return (
        f"<table>\n<caption>{title}</caption>\n<thead>{line('th', shown.header)}</thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>\n<p>{note}</p>\n"
    )
