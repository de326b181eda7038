# SPDX-License-Identifier: GPL-3.0-or-later
"""Render tables for people: as text for a terminal, as Markdown, LaTeX (booktabs) and HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from openbach_run import progress

LATEX = str.maketrans({
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "–": "--", "−": "$-$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$",
    "√": r"$\surd$", "→": r"$\to$", "←": r"$\gets$", "≈": r"$\approx$",
})  # fmt: skip
LATEX_LINE = 45
"""The most letters in a LaTeX column that does not break its lines."""


@dataclass(frozen=True)
class Table:
    """A table of texts.

    The first `labels` columns name a row and are set left; the others are figures.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str
    labels: int

    def __post_init__(self) -> None:
        """Show orders to a terminal, which a file's name may hold, as escapes."""
        texts = {"title": progress.shown(self.title), "note": progress.shown(self.note)}
        lines = [[*map(progress.shown, row)] for row in (self.header, *self.rows)]
        self.__dict__.update(texts, header=lines[0], rows=lines[1:])


def as_text(shown: Table) -> str:
    """Return the table in plain columns, for a terminal or a pipe."""
    widths = _longest(shown)

    def text(line: list[str]) -> str:
        cells = []
        for i, (cell, width) in enumerate(zip(line, widths, strict=True)):
            cells.append(cell.ljust(width) if i < shown.labels else cell.rjust(width))
        return "  ".join(cells).rstrip()

    rule = "  ".join("─" * width for width in widths)
    head = [shown.title, "", text(shown.header), rule]
    return "\n".join([*head, *map(text, shown.rows), "", shown.note, ""])


def _longest(shown: Table) -> list[int]:
    """Return the number of letters of the longest text in each column."""
    columns = zip(shown.header, *shown.rows, strict=True)
    return [max(map(len, column)) for column in columns]


class Markdown(str):
    """A text that is Markdown already; `plain` makes Markdown of any other text."""


MARKUP = re.compile(r"[\\`*|#]|(?<![^\W_])_|_(?![^\W_])|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])")
"""Marks of code, emphasis, cells and headings; `_` unless it is within a word; HTML; entities."""
BRACKETS = re.compile(r"(\[[^\[\]]*\])(?![\[(:])|[\[\]]")
"""A pair of brackets that makes no link (an interval), and any other bracket."""
BLOCK = re.compile(r"^( ?)(?:(\d+)([.)])(?=\s|$)|([-+](?![.\d])|[=~>]))")
"""The beginning of a list, a rule, a fence or a quotation, at the beginning of a text."""


def plain(text: str) -> Markdown:
    """Return text from elsewhere (an argument's value, a program's error) as Markdown on one line.

    The Markdown shows the text as it is.
    """
    line = "".join(letter for letter in re.sub(r"\s+", " ", text) if letter.isprintable())
    line = MARKUP.sub(r"\\\g<0>", line)
    line = BRACKETS.sub(lambda match: match[1] or f"\\{match[0]}", line)
    escaped = BLOCK.sub(lambda match: f"{match[1]}{match[2] or ''}\\{match[3] or match[4]}", line)
    return Markdown(escaped)


def as_markdown(shown: Table) -> str:
    """Return the table in Markdown, with its title and note."""
    return f"**{plain(shown.title)}**\n\n{markdown_rows(shown)}\n\n{plain(shown.note)}\n"


def markdown_rows(shown: Table) -> Markdown:
    """Return the table in Markdown, without its title and note."""
    rules = ["---" if i < shown.labels else "---:" for i in range(len(shown.header))]
    lines = [map(plain, shown.header), rules, *(map(plain, row) for row in shown.rows)]
    return Markdown("\n".join(f"| {' | '.join(line)} |" for line in lines))


FITTING = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
"""Begins what is made no wider than the column, and not wider than it is (graphicx)."""


def as_latex(shown: Table) -> str:
    """Return a floating table for a paper; it needs the LaTeX packages booktabs and graphicx.

    Columns of long texts break their lines; a table wider than the column is made smaller.
    """
    rows = []
    for line in (shown.header, *shown.rows):
        cells = [cell.translate(LATEX) for cell in line]
        rows.append(" & ".join(cells) + r" \\")
    columns = []
    for i, length in enumerate(_longest(shown)):
        alignment = "l" if i < shown.labels else "r"
        columns.append(r"p{0.3\linewidth}" if length > LATEX_LINE else alignment)
    title, note = shown.title.translate(LATEX), shown.note.translate(LATEX)
    head, *body = rows
    lines = [
        *(r"\begin{table}", r"\centering", rf"\caption{{{title}}}", r"\smallskip"),
        *(FITTING, rf"\begin{{tabular}}{{{''.join(columns)}}}", r"\toprule", head, r"\midrule"),
        *(*body, r"\bottomrule", r"\end{tabular}}", rf"\par\smallskip\footnotesize {note}"),
        *(r"\end{table}", ""),
    ]
    return "\n".join(lines)


def as_html(shown: Table) -> str:
    """Return a table element to paste into a page."""
    import html

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(line("td", row) for row in shown.rows)
    title, note = html.escape(shown.title), html.escape(shown.note)
    return (
        f"<table>\n<caption>{title}</caption>\n<thead>{line('th', shown.header)}</thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>\n<p>{note}</p>\n"
    )
